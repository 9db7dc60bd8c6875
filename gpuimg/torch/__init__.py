"""Batches as tensors: a loader, and data sets for trainers that require a ``DataLoader``.

``gpuimg.torch.load`` is :func:`gpuimg.load` for PyTorch: ``for images, labels in gpuimg.torch.load(...)``. Where a
``torch.utils.data.DataLoader`` is required, :class:`IterableDataset` yields the same batches to it, and
:class:`Dataset` returns single samples for its samplers and collation.

>>> import gpuimg.torch  # doctest: +SKIP
"""

from .._version import install_hint

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(f"gpuimg.torch needs torch; {install_hint('torch')}") from error

from .iterable import IterableDataset
from .loader import Loader, load
from .mapped import Dataset
from .tensors import TensorBatch

__all__ = ["Dataset", "IterableDataset", "Loader", "TensorBatch", "load"]
