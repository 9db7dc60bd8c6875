"""``gpuimg.load``: batches that are read, decoded and augmented ahead of a training loop."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from .._checks.arguments import flag, whole_number
from .._checks.keywords import LOAD_HINTS, REMOVED, explained
from .._checks.text import counted
from .._checks.types import (
    Alpha,
    ClipLayout,
    ColorMode,
    Decoder,
    Depth,
    Device,
    DType,
    Icc,
    Indices,
    OnSampleError,
    Samples,
    SupportsArray,
)
from .._decoding.decoder import MAX_PIXELS
from .._decoding.options import DecodeOptions
from .._io.file_bytes import MAX_BYTES
from .._random.rng import Rng
from .._runtimes.devices import check_decoder
from .._threads.threads import MOST_THREADS
from ..sources._table import is_remote
from ..sources.stream import Stream
from .batches import Batches, GivenBatches, check_alone
from .clips import Clips
from .loader import Loader
from .order import Blocks, Order, order_of
from .settings import (
    Result,
    Schedule,
    UserFunction,
    adapted,
    check_choices,
    check_columns,
    check_source,
    reading_of,
    runtimes_for,
    stream_address,
)
from .sharding import ENDLESS, as_shard
from .streams import check_stream

__all__ = ["load"]

_MOST_REST = 0.25  # share of an epoch that may be divided among ranks instead of by buffers


@explained(LOAD_HINTS | REMOVED)
def load(
    source: Samples | Stream,
    preprocess: UserFunction | None = None,
    *,
    batch_size: int | None = None,
    batches: GivenBatches | None = None,
    image: str = "image",
    label: str | None = "label",
    clips: Clips | None = None,
    indices: Indices | None = None,
    weights: Sequence[float] | SupportsArray | None = None,
    repeats: int = 1,
    shuffle: bool | Blocks = False,
    seed: int = 0,
    epochs: int | None = 1,
    drop_last: bool = False,
    shard: tuple[int, int] | Literal["auto"] = "auto",
    device: Device | None = None,
    devices: Sequence[Device] | None = None,
    prefetch: int = 3,
    readers: int | None = None,
    decoders: int = 2,
    cache: str | int | None = None,
    stream: Any = None,  # the libraries' stream objects have nothing in common
    progress: bool = False,
    dtype: DType | None = None,
    layout: ClipLayout = "NHWC",
    color: ColorMode = "rgb",
    alpha: Alpha = "drop",
    depth: Depth = "uint8",
    icc: Icc = "ignore",
    draft: float | None = None,
    decoder: Decoder = "auto",
    on_error: OnSampleError = "raise",
    max_failures: float | None = None,
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
) -> Loader:
    """Read, decode and augment batches ahead of the loop that consumes them.

    Parameters
    ----------
    source : object with ``len`` and ``source[i]``
        ``source[i]`` returns ``(file bytes or path, label)``, or a mapping, as Hugging Face's ``datasets`` does with
        ``ds.cast_column("image", datasets.Image(decode=False))``. Decoded images are (H, W, C) arrays of uint8, uint16
        or float32, a new one for each call, with one dtype and number of channels; ``color``, ``depth`` and the like
        are for files. It is called on several threads. :func:`folder`, :func:`tar` and others return sources;
        :func:`iterable` makes one of an iterable.
    preprocess : function, optional
        ``(batch, rng) -> Batch``, such as those of :mod:`gpuimg.presets`, where ``rng`` is the :class:`Rng` of the
        batch's samples. With a third parameter it gets the batch's labels too, and returns ``(images, labels)``. It is
        called on several threads. It may return several versions of each sample, as
        :func:`gpuimg.presets.dino_train` does: :attr:`LoadedBatch.views`; the result of :meth:`Batch.padded` or
        :meth:`Batch.tokens`; or a dict of several results, as for an image and its depth map.
    batch_size : int
        Number of images per batch and rank; or pass ``batches``.
    batches : sequence of lists of int, or function, optional
        Indices of the samples of each batch, in order; or a function that returns such lists for an epoch, counted from
        0, such as those of :func:`bucket_batches` and :func:`token_batches`. It is called once an epoch, in this
        process, and must return the same on every rank. Rank ``r`` takes the batches ``r``, ``r + world``, ...; ranks
        are padded to the same number with batches from the start of the epoch, which are not ``valid``. It excludes
        ``batch_size``, ``shuffle``, ``drop_last``, ``indices``, ``weights``, ``repeats`` and ``on_error="skip"``.
    image : str
        For a source of mappings: the key of the file bytes, path or array, or of a mapping of ``"bytes"`` and
        ``"path"``.
    label : str or None
        For a source of mappings: the key of the label. None: the label is a dict of all entries but the image. If the
        image is the only entry, the label is None.
    clips : Clips, optional
        The samples are videos, and one such clip is taken from each: ``gpuimg.Clips(frames=16, stride=2)``.
        ``preprocess`` then gets a batch of clips, see :func:`open_clips`. Of files at paths only the needed parts are
        read. The indexes of the 1,000 files used last are cached.
    indices : sequence of int, or (N,) bool, optional
        Only these samples of the source, in this order. An index may occur several times.
    weights : sequence of float, optional
        Draw samples with replacement, each with a probability in proportion to its weight, for each of the source or of
        ``indices``. An epoch has as many draws as there are samples. See :func:`class_weights`.
    repeats : int
        Repeated augmentation: each sample comes several times in succession, on different ranks if there are several.
        An epoch still has as many samples as the source, so it goes through a part of them; it needs ``shuffle``.
    shuffle : bool or Blocks
        Shuffle each epoch differently; the order depends only on ``seed`` and the epoch. :class:`Blocks` reads
        neighbors together, for slow storage. Without a shuffle, each of several ranks takes 32 neighbors at a time.
    seed : int
        Seed of the order and of ``rng``, 0 to 2**64 - 1.
    epochs : int or None
        Epochs of one ``for`` loop over the loader; the next loop continues with the epoch after. None: endless.
    drop_last : bool
        Leave out samples that do not fill a batch on every rank. Otherwise the last batch of an epoch is smaller, and
        ranks are padded to the same number with samples from the start of the epoch, which are not ``valid``.
    shard : (rank, world) or "auto"
        This process's share of the samples: every rank gets the same number of batches, and no two ranks get the same
        sample, except for padding. ``"auto"``: from the launcher's environment variables (``RANK`` and
        ``WORLD_SIZE``, or those of Slurm in a job step, Open MPI or MPICH), else all samples. Lightning's launcher sets
        no ``RANK``: pass ``(trainer.global_rank, trainer.world_size)`` there.
    device : {"cpu", "cuda", "cuda:1", ...}, optional
        Where batches are decoded and computed. By default ``GPUIMG_DEVICE``, else a GPU if one works, else the CPU.
    devices : sequence of str, optional
        Several devices, used in turn: batch ``k`` is computed on device ``k % len(devices)``.
    prefetch : int
        Batches ready or in progress ahead of the consumer, per device. Memory is bounded by these, the batches that the
        consumer holds, and ``2 * batch_size`` files; for URLs, about 4 MiB per reader instead, and with ``batches`` up
        to 64 files per reader. On a GPU the files of a batch are kept until it is returned.
    readers : int
        Maximum number of threads that read from the source; all but the first sleep until it is too slow. By default 4,
        or 16 for URLs, with up to 4 concurrent requests each. Increase it for storage with high latency.
    decoders : int
        Batches that are computed concurrently, per GPU. On the CPU one batch at a time has all threads, while the next
        one's headers are read and its calls recorded: leave it at 2 there, as more gain nothing.
    cache : str or int, optional
        Keep samples in memory from one epoch to the next, up to this size, such as ``"24 GiB"``, or a number of bytes.
        Each remains there after its first batch, with its label, until one does not fit; the source is not asked for
        it again. Order and pixels are the same. :meth:`Loader.stats` counts the ``cached`` ones. Decoded images are
        kept, 3 bytes a pixel, on the CPU only; not with ``draft``.
    stream : int or stream, optional
        The consumer's CUDA stream: any object with ``__cuda_stream__``, such as the streams of CuPy, PyTorch,
        ``cuda.core`` and Numba, or its address; by default CuPy's current one. Not the per-thread default stream. A
        batch is ready for work enqueued there, and its memory is reused only after the work enqueued there before the
        batch was released.
    progress : bool
        Show a progress bar (needs tqdm) with images/s and the bottleneck.
    dtype : {"uint8", "uint16", "float16", "bfloat16", "float32"}, optional
        Of the results, as in :meth:`Batch.array`. By default float32 after ``normalize``, else that of the images.
    layout : {"NHWC", "NCHW", "NTHWC", "NTCHW", "NCTHW"}
        Order of the axes; the layouts with T are for ``clips``.
    color : {"rgb", "gray", "rgba", "graya"}
        Channels of the images, as in :func:`open_batch`.
    alpha : {"drop", "black", "white"}
        Background for transparent pixels; ``"drop"`` leaves the alpha channel out.
    depth : {"uint8", "native"}
        ``"native"``: uint16, which keeps the values of files with 16 bits.
    icc : {"ignore", "srgb"}
        ``"srgb"`` converts the colors by the ICC profile in a file.
    draft : float, optional
        1 or more: decode large JPEGs at a reduced size, faster and with slightly different pixels.
    decoder : {"auto", "nvimagecodec", "gpuimg"}
        Decoder of JPEGs on a GPU.
    on_error : {"raise", "skip", "fill"}
        Policy for samples that cannot be read or decoded, and those that ``preprocess`` raises an :class:`ImageError`
        for, such as images that are too small for a crop, or a :class:`DecodeError` of a file that it opens, such as a
        depth map. ``"raise"``: raise a :class:`DecodeError` in place of the batch.
        ``"skip"``: replace it with the next sample, so that batches stay full (at the end of an epoch with
        samples from its start, not ``valid``); batches are then computed one after another. ``"fill"``: replace it with
        a black image, not ``valid``.
    max_failures : int or float, optional
        Under ``"skip"`` and ``"fill"``: limit of failures per epoch, as a number or as a fraction of the rank's
        samples; more of them raise a :class:`DecodeError`.
    max_pixels : int
        Larger images are bad: refused by their header, before any pixel memory is taken.
    max_bytes : int
        Larger files are bad: refused before they are read. With ``clips``, of videos that are read into memory.

    Returns
    -------
    Loader
        Iterate over it for :class:`LoadedBatch`.

    Raises
    ------
    ValueError, TypeError
        At the call, for arguments out of range and for the per-thread default stream; in the loop, for wrong results of
        ``preprocess`` or the source.
    DecodeError
        In the loop, naming index, source and reason.
    ImportError
        For ``progress`` without tqdm, and ``decoder="nvimagecodec"`` without that on a GPU.
    RuntimeError
        In the loop, if a forked child continues an iterator of its parent; a new loop in the child works, except in a
        worker process of a ``torch.utils.data.DataLoader``.

    Notes
    -----
    A sample's pixels depend only on the seed, the epoch, and its index: not on the number of threads, ranks or
    devices, nor, unless ``preprocess`` mixes images, on the batch size. A sample that comes several times in an epoch
    has different random draws each time; those of ``repeats`` are :meth:`Rng.views`. The memory of a batch is reused
    once nothing refers to it, including tensors that share it. Threads end with the loop, with an exception in it, and
    with :meth:`Loader.close`.

    On a GPU, ``stream`` must be the stream that reads the batches. PyTorch's current stream is not CuPy's: a loop under
    ``torch.cuda.stream(side)`` passes ``stream=side``, which must exist as long as the loop. A loop that also reads a
    batch on another stream must let ``stream`` wait for that one before it releases the batch
    (``stream.wait_stream(other)`` in PyTorch): DLPack orders the first read, but not the last. JAX computes on private
    streams: there, call ``block_until_ready`` on the results before releasing the batch. ``torch.as_tensor`` does not
    order anything, so use it only on ``stream``; ``torch.from_dlpack`` is correct on any stream.

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
    if batch_size is None and batches is None:
        raise TypeError("load() needs batch_size=, the number of images per batch, or batches=")
    places = whole_number(batch_size, "batch_size") if batches is None else 1
    drop_last, progress = flag(drop_last, "drop_last"), flag(progress, "progress")
    epochs = None if epochs is None else whole_number(epochs, "epochs")
    check_choices(layout, dtype, on_error, clips is not None)
    if isinstance(source, Stream):
        check_stream(batches, shuffle, on_error, max_failures, clips, (indices, weights, repeats))
    decode = DecodeOptions(
        color=color, alpha=alpha, depth=depth, draft=draft, max_pixels=max_pixels, max_bytes=max_bytes, icc=icc,
        decoder=decoder,
    )  # fmt: skip
    columns = check_columns(image, label)
    runtimes = runtimes_for(device, devices)
    check_decoder(decode, *runtimes)
    reading = reading_of(source, columns, readers, on_error, max_failures, decode, runtimes, clips, cache)
    rank, world = as_shard(shard)
    Rng(seed, indices=[])  # checks the seed
    samples = ENDLESS if isinstance(source, Stream) else len(source)
    order: Order | Batches
    if batches is None:
        order = order_of(samples, shuffle, indices, weights, repeats, getattr(source, "block_ends", None))
        rest = order.choices % (world * order.run)
        if isinstance(order.shuffle, Blocks) and rest > _MOST_REST * order.choices and world > 1 and is_remote(source):
            warnings.warn(
                f"{rest / order.choices:.0%} of the samples of an epoch do not fill a buffer of {order.run} for each "
                f"of {world} ranks, and take nearly a request each: pass a smaller buffer to Blocks",
                RuntimeWarning,
                stacklevel=2,
            )
        if drop_last and epochs is None and order.choices < world * places:
            raise ValueError(
                f"drop_last leaves no full batch of {counted(order.choices, 'sample')} in batches of {batch_size} on "
                f"{counted(world, 'rank')}"
            )
    else:
        check_alone(on_error, {
            "batch_size": batch_size is not None, "shuffle": shuffle is not False, "drop_last": drop_last,
            "indices": indices is not None, "weights": weights is not None, "repeats": repeats != 1,
        })  # fmt: skip
        order = Batches(batches, samples)
    schedule = Schedule(
        order=order, rank=rank, world=world, batch_size=places, drop_last=drop_last, seed=int(seed), epochs=epochs
    )
    result = Result(
        preprocess=adapted(preprocess), runtimes=runtimes, dtype=dtype, layout=layout, stream=stream_address(stream),
        prefetch=whole_number(prefetch, "prefetch"), decoders=whole_number(decoders, "decoders", 1, MOST_THREADS),
    )  # fmt: skip
    return Loader(reading, schedule, result, progress)


class SharedOptions(TypedDict, total=False):
    """Keyword arguments of :func:`gpuimg.load` but ``device``, which is another one for tensors."""

    batch_size: int | None
    batches: GivenBatches | None
    devices: Sequence[Device] | None
    dtype: DType | None
    layout: ClipLayout
    shuffle: bool | Blocks
    seed: int
    epochs: int | None
    drop_last: bool
    prefetch: int
    readers: int | None
    decoders: int
    shard: tuple[int, int] | Literal["auto"]
    on_error: OnSampleError
    max_failures: float | None
    progress: bool
    stream: Any
    color: ColorMode
    alpha: Alpha
    max_pixels: int
    max_bytes: int
    draft: float | None
    depth: Depth
    icc: Icc
    decoder: Decoder
    image: str
    label: str | None
    cache: str | int | None
    clips: Clips | None
    indices: Indices | None
    weights: Sequence[float] | SupportsArray | None
    repeats: int


class LoadOptions(SharedOptions, total=False):
    """Keyword arguments of :func:`gpuimg.load`."""

    device: Device | None
