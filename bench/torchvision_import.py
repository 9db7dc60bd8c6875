"""torchvision's Python code where its compiled part does not match the installed PyTorch: transforms do not need it."""

import importlib.machinery
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

_kept: list[Any] = []  # a library's definitions end with the object


def define_operators() -> bool:
    """Define the two operators whose shapes torchvision registers, if its compiled part cannot be loaded.

    Returns True if they had to be defined, and False also if torchvision is not installed.
    """
    spec = find_spec("torchvision")
    if _kept or spec is None or not spec.submodule_search_locations:
        return bool(_kept)
    import torch

    folder = Path(spec.submodule_search_locations[0])
    try:
        torch.ops.load_library(max(folder.glob("_C*.so"), default=folder / "_C.so"))  # "_C_stable.so" since 0.29
    except OSError:
        _kept.append(library := torch.library.Library("torchvision", "FRAGMENT"))
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return bool(_kept)


class _BeforeTorchvision(MetaPathFinder):
    """Finds nothing: defines the operators when torchvision is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            define_operators()
        return None


def define_on_import() -> None:
    """Call :func:`define_operators` when torchvision is imported."""
    sys.meta_path.insert(0, _BeforeTorchvision())
