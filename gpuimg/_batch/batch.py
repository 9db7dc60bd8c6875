"""The batch: an immutable value of N images. Functions record operations; pixels are processed once, on hand-off."""

from __future__ import annotations

import math
import operator
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, SupportsIndex, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from .._checks import arguments
from .._checks.types import Array, ClipLayout, DType, ImageArray, Indices, Ints, Layout
from .._data.images import EncodedImages, Pixels, name_of, offsets_of
from .._data.patches import PatchLayout
from .._plan.plan import Plan
from .._runtimes import planes, whole_files
from .._runtimes.attempt import delivered
from .._runtimes.devices import runtime_for
from ..errors import Failure
from . import contact_sheet, dlpack, pickling
from . import tokens as several
from .recording import Recording
from .recording import recording_of as recording_of
from .result_spec import CLIP_LAYOUTS, UNITS, check_layout, checked_out, one_size, result_dtype

__all__ = ["Batch"]

#: Return a flat array of N elements of a dtype.
Allocate: TypeAlias = Callable[[int, str], Any]

#: Attributes of arrays and tensors that a batch does not have.
_OF_ARRAYS = {
    "shape": "has len, sizes and channels, and array() returns an array",
    "ndim": "has len, sizes and channels, and array() returns an array",
    "numpy": "has array()",
    "cpu": "has array()",
    "cuda": "is computed on its device: pass device= to gpuimg.open_batch, or use gpuimg.to_torch",
    "to": "is computed on its device: pass device= to gpuimg.open_batch, or use gpuimg.to_torch",
    "astype": "has array(dtype)",
    "save": "is written as files by gpuimg.encode_batch",
    "permute": 'has array(layout="NCHW")',
    "transpose": 'has array(layout="NCHW")',
    "launches": "counts no launches of kernels, which a profiler shows",  # gpuimg 0.3
    "target_sizes": "has sizes, from which functions of gpuimg.sizes compute target sizes",  # gpuimg 0.3
}


class Batch(Sequence[Array]):
    """N images on one device: encoded, decoded, or with a plan of operations to apply.

    A batch is a sequence of (H, W, C) arrays, and an array if all its images have one size. It is created by
    :func:`gpuimg.open_batch`, :func:`gpuimg.decode_batch` and every function of the library, and never changes:
    functions return a new batch that shares the pixels. It keeps its results and runs at most once for each dtype and
    layout, also if several threads request one at once; ``array(out=)``, ``padded`` and ``tokens`` copy a result that
    it has. All methods that run it raise one :class:`DecodeError` for the images that could not be decoded, under
    ``on_error="raise"``.

    On the CPU a batch can be pickled: its file bytes or pixels and the recorded operations, but not its results.
    ``copy.copy`` returns the batch itself, ``copy.deepcopy`` one that shares no memory, on a GPU too.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = gpuimg.resize([np.zeros((4, 6, 3), np.uint8), np.zeros((5, 5, 3), np.uint8)], (2, 2))
    >>> len(x), x.device, x.sizes.tolist(), np.asarray(x).shape
    (2, 'cpu', [[2, 2], [2, 2]], (2, 2, 2, 3))
    """

    __slots__ = ("_locks", "_recording", "_results")

    def __init__(self, recording: Recording) -> None:
        if not isinstance(recording, Recording):
            raise TypeError(
                f"Batch() does not take a {type(recording).__name__}: files are opened by gpuimg.open_batch(paths), "
                "and arrays are passed to functions as they are"
            )
        self._recording = recording
        self._results: dict[tuple[str, str], tuple[Pixels, Callable[[], None]]] = {}
        self._locks: dict[int, threading.RLock] = {}

    if not TYPE_CHECKING:  # type checkers report other names themselves

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse other names; say what stands for those of arrays."""
            hint = f"; a batch {_OF_ARRAYS[name]}" if name in _OF_ARRAYS else ""
            raise AttributeError(f"'Batch' object has no attribute {name!r}{hint}", name=name, obj=self)

    # -- properties --------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._recording)

    def __repr__(self) -> str:
        sizes = np.unique(self.sizes, axis=0)
        shape = "x".join(map(str, sizes[0])) if len(sizes) == 1 else f"{len(sizes)} sizes"
        state = "decoded" if isinstance(self._recording.source, Pixels) else "encoded"
        todo = "" if self.changes_nothing else ", operations recorded"
        shown = self._recording.shown
        return f"<gpuimg.Batch of {shown}, {shape}, {self.channels} channels, {state}{todo}, on {self.device}>"

    def _repr_html_(self) -> str:
        return contact_sheet.as_html(self)

    @property
    def device(self) -> str:
        """``"cpu"``, or ``"cuda:0"`` and so on."""
        return self._recording.runtime.name

    @property
    def frames(self) -> int | None:
        """Frames of each clip; clips are stored one after another among the images. None for a batch of images."""
        return self._recording.frames

    @property
    def sizes(self) -> Ints:
        """(N, 2) int64: height and width of each result, after the EXIF orientation."""
        return self._recording.sizes

    @property
    def channels(self) -> int:
        """Channels of each result."""
        return self._recording.channels

    @property
    def dtype(self) -> str:
        """Default dtype of the result: that of the source; float32 after ``normalize``."""
        return self._recording.dtype

    @property
    def normalized(self) -> bool:
        """True if values of any image may lie outside [0, 1]."""
        return self._recording.normalized

    @property
    def changes_nothing(self) -> bool:
        """True if the results are the source images themselves."""
        return self._recording.changes_nothing

    @property
    def errors(self) -> dict[int, Failure]:
        """Images or clips that could not be decoded, by index; complete once the batch has run."""
        return dict(self._recording.source.failures)

    @property
    def status(self) -> list[str]:
        """``"ok"`` or the reason of the failure, for each image or clip; final once the batch has run."""
        errors = self.errors
        return [errors[i].reason if i in errors else "ok" for i in range(self._recording.units)]

    def take(self, indices: Indices) -> Batch:
        """Return a batch of some of the images, or whole clips, in any order and any number of times.

        An image that is taken several times is decoded once, and only the region that all its uses read; the same holds
        for the frames of a clip.

        Parameters
        ----------
        indices : (M,) int
            Positions in this batch, from 0; in a batch of clips, positions of clips, not of frames. Or (N,) bool: the
            images or clips to keep.

        Returns
        -------
        Batch
            M images or clips. Each is independent: random functions given :meth:`Rng.views` draw separately for each.
            Pixels equal those of an image opened once for each use, except with ``draft``: the most demanding use
            decides for all.

        Raises
        ------
        IndexError
            For a position outside this batch.
        ValueError
            For indices of a different shape or kind.

        Examples
        --------
        >>> import gpuimg, numpy as np
        >>> x = gpuimg.resize(np.zeros((2, 40, 50, 3), np.uint8), 32)
        >>> views = x.take([0, 1, 0, 1])
        >>> rng = gpuimg.Rng(0, indices=[7, 8])
        >>> gpuimg.random_resized_crop(views, 16, rng=rng.views(2)).array().shape
        (4, 16, 16, 3)
        """
        each = "image" if self.frames is None else "clip"
        rows = arguments.positions(indices, self._recording.units, "indices", each)
        return Batch(self._recording.taken(rows))

    # -- running -----------------------------------------------------------------------------------------------

    def compute(self, dtype: DType | None = None, layout: Layout = "NHWC") -> Batch:
        """Run now and return the results as a batch, whose items are views of one buffer; sizes may differ.

        Parameters
        ----------
        dtype : {"uint8", "uint16", "float16", "bfloat16", "float32"}, optional
            uint8 is 0 to 255, uint16 0 to 65535, rounded half to even; floating point is 0 to 1 unless normalized.
        layout : {"NHWC", "NCHW"}
            Items are (H, W, C) or (C, H, W).
        """
        return Batch(self._recording.with_results(self._checked_result(dtype, layout)))

    def array(self, dtype: DType | None = None, layout: ClipLayout = "NHWC", *, out: Array | None = None) -> Array:
        """Run now and return all images as one array.

        Parameters
        ----------
        dtype : {"uint8", "uint16", "float16", "bfloat16", "float32"}, optional
            As in :meth:`compute`; by default that of ``out`` if given.
        layout : {"NHWC", "NCHW", "NTHWC", "NTCHW", "NCTHW"}
            Layouts with T, frames, are for batches of clips.
        out : array, optional
            Write into this C-contiguous array of the result's shape, on the batch's device, and return it.

        Returns
        -------
        numpy.ndarray or cupy.ndarray
            (N, H, W, C) and so on; in batches of clips, N counts the frames of all clips if the layout has no T. The
            batch returns the same memory again for the same dtype and layout: copy it before you write into it. Without
            images, H and W are those that one image would have had (after :meth:`take`, the first one), or 0 if no size
            is known, as of ``open_batch([])``.

        Raises
        ------
        ValueError
            If the images differ in size, ``out`` does not fit, or a clip layout is used for images.
        """
        return self._array_in(None, dtype, layout, out)

    def arrays(self, dtype: DType | None = None, layout: ClipLayout = "NHWC") -> list[Array]:
        """Run now and return as few arrays as the image sizes allow: one for each run of images of equal size.

        Parameters
        ----------
        dtype, layout
            As in :meth:`array`.

        Returns
        -------
        list of numpy.ndarray or cupy.ndarray
            Each as returned by :meth:`array`, in the order of the images or clips, which are not split; views of one
            buffer, except for ``"NCTHW"``.

        Examples
        --------
        >>> import gpuimg, numpy as np
        >>> x = gpuimg.resize(np.zeros((3, 40, 50, 3), np.uint8), ([32, 32, 16], [32, 32, 16]))
        >>> [array.shape for array in x.arrays()]
        [(2, 32, 32, 3), (1, 16, 16, 3)]
        """
        flat: Any = CLIP_LAYOUTS.get(layout, layout) if isinstance(layout, str) else layout
        computed = self.compute(dtype, flat)
        ends = np.flatnonzero(np.any(np.diff(self.sizes[:: self.frames or 1], axis=0) != 0, 1)) + 1
        parts = [part for part in np.split(np.arange(self._recording.units), ends) if len(part)]
        name = recording_of(computed).source.dtype
        return [computed.take(part)._array_in(None, name, layout) for part in parts]

    def ragged(self, dtype: DType | None = None, layout: Layout = "NHWC") -> several.Ragged:
        """Run now and return images of any sizes in one flat array.

        Parameters
        ----------
        dtype, layout
            As in :meth:`compute`.

        Returns
        -------
        Ragged
            With the fields ``values``, ``starts`` and ``sizes``.

        Examples
        --------
        >>> import gpuimg, numpy as np
        >>> x = gpuimg.resize(np.zeros((2, 40, 50, 3), np.uint8), ([4, 2], [5, 3]))
        >>> ragged = x.ragged()
        >>> ragged.values.shape, ragged.starts.tolist()
        ((78,), [0, 60])
        """
        pixels = self._checked_result(dtype, layout)
        return several.Ragged(pixels.flat, pixels.offsets.copy(), pixels.sizes.copy())

    def padded(
        self,
        value: float = 0.0,
        align: Literal["corner", "center"] = "corner",
        *,
        multiple: int = 1,
        dtype: DType | None = None,
        layout: Layout = "NHWC",
    ) -> several.Padded:
        """Run now and return images of any sizes in one array, as high and as wide as the largest.

        Parameters
        ----------
        value : float
            Of the padding, as it is stored: a whole number from 0 to 255 in uint8, and after :func:`normalize` a finite
            normalized value.
        align : {"corner", "center"}
            Images begin at the top left corner, or are centered.
        multiple : int
            Height and width of the array are multiples of this.
        dtype, layout
            As in :meth:`compute`.

        Returns
        -------
        Padded
            With the fields ``values``, ``mask``, ``corners`` and ``sizes``.

        Examples
        --------
        >>> import gpuimg, numpy as np
        >>> x = gpuimg.resize(np.zeros((2, 40, 50, 3), np.uint8), ([4, 2], [5, 3]))
        >>> padded = x.padded(255)
        >>> padded.values.shape, padded.mask[1].sum()
        ((2, 4, 5, 3), np.int64(6))
        """
        return several.padded(self._recording, self._run, value, align, multiple, dtype, layout)

    def tokens(
        self,
        patch: int,
        *,
        merge: int = 1,
        frames: int = 1,
        order: several.Order = "CTPP",
        pad: int | Literal["longest"] | None = None,
        counts: Indices | None = None,
        dtype: DType | None = None,
    ) -> several.Tokens:
        """Run now and return square patches, the input of vision transformers, instead of images.

        Parameters
        ----------
        patch : int
            Side of a patch in pixels. Heights and widths must be multiples of ``patch * merge``;
            :mod:`gpuimg.sizes` has rules that give such sizes.
        merge : int
            Patches of an image follow one another row by row, or, above 1, in blocks of ``merge`` x ``merge``.
        frames : int
            Frames of a patch of a clip, whose last frame is repeated to a multiple of them; images are repeated as
            often.
        order : {"CTPP", "PPC"}
            Values of a patch: by channel, frame, row and column, or by row, column and channel.
        pad : int or "longest", optional
            Give every image this number of tokens, or that of the image with most, with zeros at the end and a mask.
            By default the tokens of all images form one array.
        counts : (M,) int, optional
            Images or clips of each sample, whose tokens follow one another and are padded together. By default 1 each.
        dtype
            As in :meth:`compute`.

        Returns
        -------
        Tokens
            With the fields ``values``, ``starts``, ``grids``, ``mask`` and ``errors``.

        Raises
        ------
        ValueError
            For a size that is not a multiple, a ``pad`` below the tokens of a sample, or ``counts`` of other images.

        Notes
        -----
        Pixels are stored in their patches in the pass that computes them; 16-bit values, and pixels of other than 1 or
        3 channels, are copied there by a second one.

        Examples
        --------
        >>> import gpuimg, numpy as np
        >>> x = gpuimg.resize(np.zeros((2, 40, 50, 3), np.uint8), ([28, 56], [28, 84]))
        >>> tokens = x.tokens(14, merge=2, frames=2)
        >>> tokens.values.shape, tokens.starts.tolist(), tokens.grids.tolist()
        ((28, 1176), [0, 4, 28], [[1, 2, 2], [1, 4, 6]])
        """
        times = several.times_of_whole_patches(self._recording, frames)
        recording = self._recording if times is None else self._recording.at_frames(times)
        run = partial(self._run, times=times)
        return several.tokens(recording, run, patch, merge, frames, order, pad, counts, dtype)

    def _array_in(self, allocate: Allocate | None, dtype: Any, layout: str, out: Any = None) -> Any:
        """Implement :meth:`array`, with memory from ``allocate``, by default the runtime's."""
        recording, plan = self._recording, self._recording.plan
        flat = CLIP_LAYOUTS.get(layout, layout) if isinstance(layout, str) else layout
        if flat is not layout and recording.frames is None:
            raise ValueError(f"layout {layout!r} is for batches of clips, and these are images")
        height, width = one_size(plan)
        check_layout(flat)
        image = (height, width, plan.channels) if flat == "NHWC" else (plan.channels, height, width)
        shape = (len(plan), *image) if flat is layout else (recording.units, recording.frames or 1, *image)
        is_inside = layout == "NCTHW"  # frames (N, T, C, H, W) become (N, C, T, H, W) by a copy; decoding takes longer
        wanted = (shape[0], shape[2], shape[1], *shape[3:]) if is_inside else shape
        name = result_dtype(recording, dtype) if out is None else checked_out(recording, out, dtype, wanted)
        if out is not None and not is_inside:
            self._run(out.reshape(-1), offsets_of(plan.sizes, plan.channels)[0], flat)
            return out
        result = self._result(name, flat, allocate)
        frames = (result.stacked() if len(plan) else result.flat).reshape(shape)
        if not is_inside:
            return frames
        out = recording.runtime.empty(math.prod(wanted), name).reshape(wanted) if out is None else out
        out[:] = frames.swapaxes(1, 2)
        return out

    @property
    def is_uniform(self) -> bool:
        """True if all results have one size."""
        return not np.any(self.sizes[1:] != self.sizes[:-1])

    def _checked_result(self, dtype: Any, layout: str) -> Pixels:
        """Return the results in a dtype and layout of a caller's, see :meth:`_result`."""
        check_layout(layout)
        return self._result(result_dtype(self._recording, dtype), layout)

    def _result(self, name: str, layout: str, allocate: Allocate | None = None) -> Pixels:
        """Return the results in a dtype and layout, both checked, in memory that later calls return again."""
        recording = self._recording
        source, plan, runtime = recording.source, recording.plan, recording.runtime
        with self._one_thread():
            if (done := self._finished(name, layout)) is not None:
                return done
            if len(plan) and recording.is_unchanged(name) and self._is_stored_as(layout):
                result = recording.decoded()
            else:
                offsets, total = offsets_of(plan.sizes, plan.channels)
                flat = (allocate or runtime.empty_for_results)(total, name)
                self._run_now(recording, flat, offsets, layout)
                result = Pixels(flat, offsets, plan.sizes, plan.channels, layout, source.failures, source.frames)
            # A signal handler may have requested the same result while this thread computed it.
            return self._results.setdefault((name, layout), (result, runtime.finished()))[0]

    def _one_thread(self) -> threading.RLock:
        """Return the lock of this process under which the batch runs: one that is held during a fork stays locked."""
        return self._locks.setdefault(os.getpid(), threading.RLock())

    def _finished(self, name: str, layout: str | PatchLayout) -> Pixels | None:
        """Return the result of a dtype, and a layout unless it is one of patches, if there is one to return or copy."""
        if not self._results:
            return None
        for one in ("NHWC", "NCHW") if isinstance(layout, PatchLayout) else (layout,):
            if (name, one) in self._results:
                result, wait = self._results[name, one]
                wait()
                return result
        return None

    def _is_stored_as(self, layout: str) -> bool:
        source = self._recording.source
        if isinstance(source, Pixels):
            return source.layout == layout and not source.is_shared and source.follow(exactly=self.is_uniform)
        single = isinstance(source, EncodedImages) and source.is_single_file and self._recording.runtime.on_host
        separate = single or not self.is_uniform or whole_files.is_special(source)
        return layout == "NHWC" and separate and source.selection is None

    def _run(self, flat: Any, offsets: Ints, layout: str | PatchLayout, times: Ints | None = None) -> None:
        """Write the results, in a batch of clips those at ``times``, to a flat array; run if there are none yet."""
        recording = self._recording if times is None else self._recording.at_frames(times)
        with self._one_thread():
            if (done := self._finished(name_of(flat.dtype), layout)) is not None:
                done = done if times is None else done.at_frames(times)
                planes.store(recording.runtime, done, flat, offsets, layout)
                return
            self._run_now(recording, flat, offsets, layout)

    @staticmethod
    def _run_now(recording: Recording, flat: Any, offsets: Ints, layout: str | PatchLayout) -> None:
        source, runtime = recording.source, recording.runtime
        if not len(recording.plan):
            return
        if isinstance(source, Pixels):
            if recording.is_unchanged(name_of(flat.dtype)):
                planes.store(runtime, source, flat, offsets, layout)
                return
            if source.layout != "NHWC" or source.dtype not in UNITS:
                raise TypeError(
                    f"cannot record operations on a {source.dtype} {source.layout} result; use "
                    'compute("uint8" or "float32", layout="NHWC"), or record first'
                )
        run = partial(planes.run, runtime, planes.Job(source, recording.segments, flat, offsets, layout))
        recording.record_outcome(run() if runtime.on_host else delivered(run))

    # -- sequence ----------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, index: SupportsIndex) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> Batch: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Array | Batch:
        """Return image ``index`` as an array, a view of the computed batch; for a slice, the batch of :meth:`take`."""
        if isinstance(index, slice):
            if self.frames is not None:
                raise TypeError(
                    f"a slice of {self._recording.shown} could mean frames or clips; use take(), which selects clips"
                )
            return self.take(np.arange(len(self))[index])
        try:
            i = operator.index(index)
        except TypeError:
            raise TypeError(f"an index is a number or a slice, not {type(index).__name__}; use take()") from None
        if not -len(self) <= i < len(self):
            raise IndexError(f"image {i} of a batch of {len(self)}")
        return self._items().view(i % len(self))

    def __iter__(self) -> Iterator[Array]:
        pixels = self._items()
        return (pixels.view(i) for i in range(len(self)))

    def _items(self) -> Pixels:
        """Return the results: pixels to which nothing is done as they are, others in the default dtype."""
        return self._checked_result(*self._stored())

    # -- copies ------------------------------------------------------------------------------------------------

    def __copy__(self) -> Batch:
        return self  # it never changes

    def __deepcopy__(self, memo: Any) -> Batch:
        return _restored(self.device, *self._packed())

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._recording.runtime.on_host:
            raise TypeError(
                f"a batch on {self.device} cannot be pickled; pickle its result on the host, "
                "cupy.asnumpy(batch.array()), or a batch of the same files on the CPU"
            )
        pickling.check_functions(self._recording.segments)
        return _restored, (self.device, *self._packed())

    def _packed(self) -> tuple[Any, tuple[Plan, ...]]:
        return pickling.packed(self._recording.source), self._recording.segments

    # -- hand-off ----------------------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if not self._recording.runtime.on_host:
            raise TypeError("a batch on a GPU is not copied to the host silently; use cupy.asnumpy(batch.array())")
        array: NDArray[Any] = self._as_stored()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"a {array.dtype} result as {np.dtype(dtype)} needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def _as_stored(self) -> Any:
        return self._array_in(None, *self._stored())

    def _stored(self) -> tuple[str | None, Any]:
        """Return the dtype of the pixels if they are the results, None for the default one, and their layout."""
        source = self._recording.source
        return source.dtype if isinstance(source, Pixels) and self.changes_nothing else None, source.layout

    def __dlpack__(self, **options: Any) -> Any:
        return dlpack.export(self._as_stored(), **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self._recording.runtime.on_host:
            return dlpack.CPU, 0
        device: tuple[int, int] = self._as_stored().__dlpack_device__()
        return device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._recording.runtime.on_host:
            raise AttributeError("a batch on the CPU has no __cuda_array_interface__")
        interface: dict[str, Any] = self._as_stored().__cuda_array_interface__
        return interface


Images: TypeAlias = Batch | ImageArray | Sequence[ImageArray]


def _restored(device: str, source: Any, segments: tuple[Plan, ...]) -> Batch:
    runtime = runtime_for(device)
    return Batch(Recording.start(runtime, pickling.unpacked(source, runtime)).with_segments(segments))


def as_batch(images: Images) -> Batch:
    """Return a batch of a caller's images: a Batch, a list of (H, W, C) arrays or one (N, H, W, C) array."""
    return images if isinstance(images, Batch) else Batch(recording_of(images))


def views_of(images: Any, samples: int) -> list[Any]:
    """Return the versions of ``samples`` samples among the images of a loader's batch, as arrays where possible."""
    if not isinstance(images, Batch):
        return [images[k : k + samples] for k in range(0, len(images), samples)]
    views = [images.take(np.arange(k, k + samples)) for k in range(0, recording_of(images).units, samples)]
    return [view._as_stored() if view.is_uniform else view for view in views]


def has_result(batch: Batch, dtype: str, layout: str) -> bool:
    """Return True if a batch keeps its results in a dtype and layout."""
    return (dtype, layout) in batch._results


def run_into(batch: Batch, flat: Any, offsets: Ints, layout: str | PatchLayout) -> None:
    """Run a batch into a flat array, at an element offset for each image."""
    batch._run(flat, offsets, layout)
