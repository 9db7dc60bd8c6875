"""Feeding a training loop: batches read, decoded and augmented ahead of their consumer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from .._checks.arguments import flag, whole_number
from .._checks.keywords import explained
from .._checks.text import counted
from .._checks.types import Alpha, ClipLayout, ColorMode, Depth, Device, DType, Icc, OnSampleError, Samples
from .._decoding.decoder import MAX_PIXELS
from .._decoding.options import DecodeOptions
from .._index.seek_index import SeekIndex
from .._io.file_bytes import MAX_BYTES
from .._random.rng import Rng
from ..sources.stream import Stream
from .clips import Clips
from .loader import Loader
from .ranks import as_shard
from .settings import (
    LOAD_HINTS,
    Settings,
    UserFunction,
    adapted,
    check_columns,
    check_source,
    check_words,
    opened_index,
    opener,
    readers_for,
    runtimes_for,
    stream_address,
)
from .streams import check_stream


@explained(LOAD_HINTS)
def load(
    source: Samples | Stream,
    preprocess: UserFunction | None = None,
    *,
    batch_size: int,
    device: Device | None = None,
    devices: Sequence[Device] | None = None,
    dtype: DType | None = None,
    layout: ClipLayout = "NHWC",
    shuffle: bool = False,
    seed: int = 0,
    epochs: int | None = 1,
    drop_last: bool = False,
    prefetch: int = 3,
    readers: int | None = None,
    decoders: int = 2,
    shard: tuple[int, int] | Literal["auto"] = "auto",
    on_error: OnSampleError = "raise",
    max_failures: float | None = None,
    progress: bool = False,
    stream: Any = None,  # the libraries' stream objects have nothing in common
    color: ColorMode = "rgb",
    alpha: Alpha = "drop",
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
    draft: float | None = None,
    depth: Depth = "uint8",
    icc: Icc = "ignore",
    image: str = "image",
    label: str | None = "label",
    index: str | os.PathLike[str] | SeekIndex | None = None,
    clips: Clips | None = None,
) -> Loader:
    """Read, decode and augment batches ahead of the loop that consumes them.

    Parameters
    ----------
    source : object with ``len`` and ``source[i]``
        ``source[i]`` gives ``(file bytes or path, label)``, or a mapping, as Hugging Face's ``datasets`` does with
        ``ds.cast_column("image", datasets.Image(decode=False))``; it is called on several threads. :func:`folder`,
        :func:`tar` and others make sources, :func:`iterable` one of what can only be iterated over.
    preprocess : function, optional
        ``(batch, rng) -> Batch``, as those of :mod:`gpuimg.presets`, where ``rng`` is the :class:`Rng` of the batch's
        samples. With a third parameter it is given the batch's labels too, and returns ``(images, labels)``. It is
        called on several threads. It may return several views of each sample, as
        :func:`gpuimg.presets.dino_train` does.
    batch_size : int
        Images of a batch of one rank.
    device : str, optional
        As in :func:`open_batch`.
    devices : sequence of str, optional
        Several devices, in turn: batch ``k`` is made by device ``k % len(devices)``.
    dtype, layout
        As in :meth:`Batch.array`; those with T are for ``clips``.
    shuffle : bool
        Each epoch has another order, which depends on ``seed`` and the epoch alone.
    seed : int
        Of the order and of ``rng``, 0 to 2**64 - 1.
    epochs : int or None
        Epochs of one ``for`` loop over the loader; the next loop goes on with the epoch after. None: endless.
    drop_last : bool
        Leave out what does not fill a batch on every rank. Otherwise the last batch of an epoch is smaller, and
        samples from the epoch's beginning, not ``valid``, give every rank the same number.
    prefetch : int
        Batches ready or in the making ahead of the consumer, for each device. With those the consumer holds, and twice
        ``batch_size`` files, of a source behind URLs some 4 MiB for each reader, they bound the memory.
    readers : int
        Maximum number of threads that read from the source; extra ones wake only when the first falls behind. By
        default 4, and 16 for a source behind URLs, each of which has up to 4 requests under way. More for storage that
        answers late.
    decoders : int
        Batches that are made at a time, for each device: while one is decoded, the next one's headers are read and its
        calls recorded. On the CPU they share ``GPUIMG_NUM_THREADS`` threads.
    shard : (rank, world) or "auto"
        This process's share: every rank gets the same number of batches and, but for the padding above, no sample is
        on two of them. ``"auto"``: as the launcher's environment variables say (``RANK`` and ``WORLD_SIZE``, Slurm's
        in a job step, Open MPI's, MPICH's), else all. Lightning's own launcher sets no ``RANK``: give
        ``(trainer.global_rank, trainer.world_size)`` there.
    on_error : {"raise", "skip", "fill"}
        For samples that cannot be read or decoded. ``"raise"``: a :class:`DecodeError` in place of the batch.
        ``"skip"``: the next sample takes the place, so that batches stay full (at the end of an epoch with samples of
        its beginning, not ``valid``); batches are then made one after another. ``"fill"``: a black image, not
        ``valid``.
    max_failures : int or float, optional
        Under ``"skip"`` and ``"fill"``: more failures in one epoch than this number, or than this fraction of the
        rank's samples, raise a :class:`DecodeError`.
    progress : bool
        Show a progress bar (needs tqdm) with images/s and what limits them.
    stream : int or stream, optional
        The consumer's CUDA stream, by default CuPy's current one: a batch is ready for work enqueued there, and its
        memory is used again after what was enqueued there before the batch was let go.
    color, alpha, max_pixels, max_bytes, draft, depth, icc
        As in :func:`open_batch`. With ``clips``, ``max_bytes`` is for videos that are read as a whole.
    image : str
        Of a source of mappings: the entry with file bytes or a path, or a mapping of ``"bytes"`` and ``"path"``.
    label : str or None
        Of a source of mappings: the entry with the label. None: the label is a dict of all entries but the image.
        Where the image is the only entry, there is no label.
    index : path, SeekIndex or "memory", optional
        A seek index of the source, see :func:`build_index`: parts of JPEGs that are not needed are then not decoded.
        ``"memory"``: where MCU rows begin is kept as they are decoded, for the epochs after (some 300 bytes for an
        image of 500 x 375). The pixels are the same. Entries that do not fit their files are not used, but counted in
        :meth:`Loader.stats`, and a warning tells of the first.
    clips : Clips, optional
        The samples are videos, of each of which this is taken: ``gpuimg.Clips(frames=16, stride=2)``. ``preprocess``
        is then given a batch of clips, see :func:`open_clips`. Files behind paths are not read as a whole. Indexes of
        the 1,000 files used last are kept.

    Returns
    -------
    Loader
        Iterate over it for :class:`LoadedBatch`.

    Raises
    ------
    ValueError, TypeError
        For arguments out of range, and the per-thread default stream, at the call; for what ``preprocess`` or the
        source give back, in the loop.
    DecodeError
        In the loop, naming index, source and reason.
    ImportError
        For ``progress`` without tqdm.
    RuntimeError
        In the loop, where a forked child goes on with an iterator of its parent: a new loop in the child works.

    Notes
    -----
    A sample's pixels depend on the seed, the epoch, and its index alone: not on the number of threads, ranks or
    devices, nor, unless ``preprocess`` mixes images, on the batch size. Memory of a batch is used again once
    nothing refers to it, tensors made of it included. Threads end with the loop, with an exception in it, and with
    :meth:`Loader.close`.

    On a GPU ``stream`` must be the one that reads the batches. PyTorch's current stream is not CuPy's: a loop under
    ``torch.cuda.stream(side)`` gives ``stream=side``, which must be there as long as the loop. One that reads a batch
    on another stream as well lets ``stream`` wait for that one before it lets the batch go
    (``stream.wait_stream(other)`` in PyTorch): DLPack orders the first reading, and nothing tells of the last. JAX
    computes on streams of its own: there, call ``block_until_ready`` on what was computed first. ``torch.as_tensor``
    orders nothing at all, so it is right on ``stream`` alone; ``torch.from_dlpack`` is right on any.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (40, 30)).save(file, "JPEG")
    >>> source = [(file.getvalue(), label) for label in range(5)]
    >>> train = gpuimg.presets.imagenet_train(8)
    >>> for batch in gpuimg.load(source, train, batch_size=2, shuffle=True, device="cpu"):
    ...     print(batch.images.shape, batch.labels.shape)
    (2, 8, 8, 3) (2,)
    (2, 8, 8, 3) (2,)
    (1, 8, 8, 3) (1,)
    """
    check_source(source, streams=True)
    batch_size = whole_number(batch_size, "batch_size")
    prefetch, readers = whole_number(prefetch, "prefetch"), readers_for(source, readers)
    decoders = whole_number(decoders, "decoders")
    shuffle, drop_last, progress = flag(shuffle, "shuffle"), flag(drop_last, "drop_last"), flag(progress, "progress")
    epochs = None if epochs is None else whole_number(epochs, "epochs")
    check_words(layout, dtype, on_error, clips is not None)
    if isinstance(source, Stream):
        check_stream(source, on_error, max_failures, index, clips)
    options = DecodeOptions(color, alpha, depth, draft, max_pixels, max_bytes, icc)
    columns = check_columns(image, label)
    runtimes = runtimes_for(device, devices)
    rank, world = as_shard(shard)
    Rng(seed, indices=[])  # checks the seed
    if drop_last and epochs is None and not isinstance(source, Stream) and len(source) < world * batch_size:
        raise ValueError(
            f"drop_last leaves nothing of {counted(len(source), 'sample')} in batches of {batch_size} on "
            f"{counted(world, 'rank')}"
        )
    return Loader(
        Settings(
            source, adapted(preprocess), batch_size, runtimes, dtype, layout, shuffle, int(seed),
            drop_last, prefetch, readers, decoders, rank, world, on_error, stream_address(stream), options,
            columns, opened_index(index, source), opener(clips, draft, index),
        ),
        epochs, max_failures, progress,
    )  # fmt: skip
