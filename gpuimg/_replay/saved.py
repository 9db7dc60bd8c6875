"""Saving recorded plans to files, loading them, and applying them to other images.

A file is one flat ``.npy`` array of bytes: the length of a JSON header, the header, and the arrays it refers to.
Objects shared by several parts of a plan are stored once, and shared again after loading.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._batch.batch import Batch, Images, as_batch, recording_of
from .._batch.result_spec import UNITS
from .._checks.text import counted
from .._checks.types import Floats, Ints
from .._io.open_file import open_regular
from .._plan.plan import KERNEL_CHANNELS, Entry, Frame, Grid, Plan, Step, check_channels
from .._runtimes.planes import MOST_CHANNELS
from ..kernels import exact, layout, ops

__all__ = ["SavedPlan", "apply_plan", "load_plan", "save_plan"]

_FORMAT = "gpuimg plan 2"
_ALIGNED = 8
_LARGE = 1e30  # largest number in a file: times image sizes it still fits in float32
_OF_PLANS = ("grid", "channels", "entries", "exact", "normalized", "blurs", "sharpens", "history")
_DTYPES = ("<i4", "<i8", "<f4", "<f8")
# Number of parameters that each op reads, by code; a file may hold only these ops, and no user functions.
_WIDTHS = {op.code: op.width for op in ops.OPS if not op.user and op is not ops.END}


@dataclass(frozen=True, eq=False)
class SavedPlan:
    """The operations recorded for a batch, without its images.

    Attributes
    ----------
    sizes : (N, 2) int64
        Heights and widths of the images that the plan applies to.
    channels : int
    dtype : str
        Dtype of the images, ``"uint8"`` or ``"float32"``: thresholds and levels depend on it.
    segments : tuple
        The plans, each applied to the results of the one before.
    """

    sizes: Ints
    channels: int
    dtype: str
    segments: tuple[Plan, ...]

    @staticmethod
    def of(batch: Batch) -> SavedPlan:
        """Return the plan of a recorded batch."""
        recording = recording_of(batch)
        source = recording.source
        return SavedPlan(source.sizes, source.channels, source.dtype, recording.segments)

    def __len__(self) -> int:
        return len(self.sizes)

    def __repr__(self) -> str:
        return f"<gpuimg.SavedPlan for {counted(len(self), 'image')}, {self.channels} channels, {self.dtype}>"


def apply_plan(plan: SavedPlan | Batch, images: Images) -> Batch:
    """Apply recorded operations, with the same parameters, to other images.

    Parameters
    ----------
    plan : SavedPlan or Batch
        The result of :func:`load_plan`, or a batch whose plan is to be used.
    images : Batch, list of arrays or array
        As many images as the plan is for, of the same sizes, channels and dtype. For a recorded batch, the plan applies
        to its results.

    Returns
    -------
    Batch
        N images with the sizes, channels and dtype of the plan's results.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = gpuimg.rotate(np.zeros((1, 2, 2, 1), np.uint8), [90])
    >>> gpuimg.apply_plan(x, np.array([[1, 2], [3, 4]], np.uint8).reshape(1, 2, 2, 1)).array()[0, :, :, 0].tolist()
    [[2, 4], [1, 3]]
    """
    saved = plan if isinstance(plan, SavedPlan) else SavedPlan.of(plan)
    batch = as_batch(images)
    if len(batch) != len(saved):
        raise ValueError(f"the plan is for {len(saved)} images, not {len(batch)}")
    different = np.any(batch.sizes != saved.sizes, 1)
    if np.any(different):
        k = int(np.argmax(different))
        raise ValueError(
            f"the plan is for an image {k} of size {tuple(saved.sizes[k].tolist())}, not "
            f"{tuple(batch.sizes[k].tolist())}"
        )
    if (batch.channels, batch.dtype) != (saved.channels, saved.dtype):
        raise ValueError(
            f"the plan is for {saved.dtype} images with {saved.channels} channels, not {batch.dtype} with "
            f"{batch.channels}"
        )
    recording = recording_of(batch)
    before = () if batch.changes_nothing else recording.segments
    return Batch(recording.with_segments((*before, *saved.segments)))


def save_plan(images: Batch, path: str | PathLike[str]) -> None:
    """Write the operations recorded in a batch to a ``.npy`` file.

    Parameters
    ----------
    images : Batch
    path : path
        Used as it is, without adding a suffix.

    Returns
    -------
    None

    Raises
    ------
    ValueError
        If the plan calls user functions, which cannot be saved.

    Examples
    --------
    >>> import gpuimg, numpy as np, pathlib, tempfile
    >>> images = np.arange(6, dtype=np.uint8).reshape(1, 1, 6, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gpuimg.save_plan(gpuimg.horizontal_flip(images), pathlib.Path(folder, "plan.npy"))
    ...     plan = gpuimg.load_plan(pathlib.Path(folder, "plan.npy"))
    >>> gpuimg.apply_plan(plan, images).array().ravel().tolist()
    [5, 4, 3, 2, 1, 0]
    """
    saved = SavedPlan.of(as_batch(images))
    if any(plan.functions for plan in saved.segments):
        raise ValueError("a plan that calls your own functions (pointwise) cannot be saved; apply_plan takes the batch")
    writer = _Writer()
    content = {
        "format": _FORMAT,
        "dtype": saved.dtype,
        "channels": saved.channels,
        "sizes": writer.json(saved.sizes),
        "stages": writer.json(saved.segments),
        **writer.tables,
    }
    header = json.dumps(content).encode()
    header += b" " * (-len(header) % _ALIGNED)
    parts = [np.array([len(header)], "<i8").tobytes(), header, *writer.parts]
    with open(path, "wb") as file:
        np.save(file, np.frombuffer(b"".join(parts), np.uint8), allow_pickle=False)


class _Writer:
    """Converter of plans to JSON; shared arrays, coordinate systems and grids are stored as indices into tables."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.tables: dict[str, list[Any]] = {"arrays": [], "frames": [], "grids": []}
        self._known: dict[int, int] = {}
        self._length = 0

    def json(self, value: Any) -> Any:
        """Return a part of a plan as JSON."""
        if isinstance(value, tuple):
            return [self.json(one) for one in value]
        if isinstance(value, np.ndarray):
            return self._once("arrays", value, self._place)
        if isinstance(value, Frame):
            return self._once("frames", value, lambda frame: self.json((frame.matrix, frame.support)))
        if isinstance(value, Grid):
            return self._once("grids", value, self._fields)
        if isinstance(value, Step):
            return self.json((value.at, value.matrix, value.sizes))
        if isinstance(value, Entry):
            return self._fields(value)
        if isinstance(value, Plan):
            return {name: self.json(getattr(value, name)) for name in _OF_PLANS}
        return value

    def _fields(self, record: Any) -> dict[str, Any]:
        return {name: self.json(value) for name, value in vars(record).items()}

    def _once(self, table: str, shared: Any, content: Callable[[Any], Any]) -> int:
        """Return the index of an object in its table; ``content`` returns the object's JSON."""
        if id(shared) not in self._known:
            value = content(shared)
            self._known[id(shared)] = len(self.tables[table])
            self.tables[table].append(value)
        return self._known[id(shared)]

    def _place(self, array: NDArray[Any]) -> list[Any]:
        """Store an array; return its dtype, its shape and its place."""
        start = self._length
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        data += b"\0" * (-len(data) % _ALIGNED)
        self.parts.append(data)
        self._length += len(data)
        return [array.dtype.newbyteorder("<").str, list(array.shape), start]


def load_plan(path: str | PathLike[str]) -> SavedPlan:
    """Read a plan that :func:`save_plan` wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    SavedPlan
        Accepted by :func:`apply_plan` and :func:`describe`.

    Raises
    ------
    ValueError
        For files of another kind, and damaged ones. No code from a file is executed.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import gpuimg, numpy as np, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gpuimg.save_plan(gpuimg.invert(np.zeros((2, 3, 4, 3), np.uint8)), pathlib.Path(folder, "plan.npy"))
    ...     gpuimg.load_plan(pathlib.Path(folder, "plan.npy")).sizes.tolist()
    [[3, 4], [3, 4]]
    """
    with open(path, "rb", opener=open_regular) as file:
        raw = io.BytesIO(file.read())
    try:
        data = np.lib.format.read_array(raw, allow_pickle=False)
        _demand(data.dtype == np.uint8 and data.ndim == 1, "bytes")
        start = _ALIGNED + int(data[:_ALIGNED].view("<i8")[0])
        content = json.loads(data[_ALIGNED:start].tobytes())
        _demand(content["format"] == _FORMAT, f"the format {_FORMAT!r}")
        return _Reader(content, data[start:]).saved(content)
    except Exception as error:  # NumPy and json raise many types, including those of Python's tokenizer
        raise ValueError(f"{path} is not a plan saved by this version of gpuimg: {error}") from error


def _demand(good: Any, what: str) -> None:
    if not good:
        raise ValueError(f"it must have {what}")


class _Reader:
    """Converter of JSON to plans, with validation: ops with too few parameters would read past a program's end."""

    def __init__(self, content: dict[str, Any], data: NDArray[np.uint8]) -> None:
        self._arrays = [_read(data, *array) for array in content["arrays"]]
        self._frames = [self._frame(*frame) for frame in content["frames"]]
        self._grids = [self._grid(grid) for grid in content["grids"]]

    def _array(self, index: int, dtype: Any, *shape: int) -> Any:
        array = self._arrays[index]
        _demand(array.dtype == dtype, f"an array of {np.dtype(dtype)}")
        _demand(array.shape[1:] == shape and array.ndim == len(shape) + 1, f"an array of shape (N, {shape})")
        _demand(array.dtype.kind != "f" or np.all(np.abs(array) <= _LARGE), "finite numbers")
        return array

    def _sizes(self, index: int) -> Ints:
        sizes: Ints = self._array(index, np.int64, 2)
        _demand(np.all((sizes >= 1) & (sizes <= layout.EXACT)), "image sizes")
        return sizes

    def _frame(self, matrix: int, support: int) -> Frame:
        supports: Floats = self._array(support, np.float64, 2)
        _demand(np.all((supports >= 1e-6) & (supports <= layout.EXACT)), "filters of some width")
        return Frame(self._array(matrix, np.float64, 3, 3), supports)

    def _grid(self, grid: dict[str, Any]) -> Grid:
        filters = self._array(grid["filter"], np.int64)
        blurred = filters == layout.GAUSSIAN
        _demand(np.all((filters >= layout.NEAREST) & (filters <= layout.SYMMETRIC)), "known filters")
        kernel = None if grid["kernel"] is None else self._array(grid["kernel"], np.int64, 2)
        _demand(kernel is not None or not blurred.any(), "the sizes of its blurs")
        _demand(kernel is None or np.all((kernel >= 1) & (kernel % 2 == 1)), "odd sizes of its blurs")
        frames = tuple(self._frames[k] for k in grid["frames"])
        _demand(frames, "a source")
        return Grid(self._sizes(grid["sizes"]), frames, filters, self._array(grid["window"], np.int64, 4), kernel)

    def saved(self, content: dict[str, Any]) -> SavedPlan:
        sizes = self._sizes(content["sizes"])
        channels, dtype = content["channels"], content["dtype"]
        is_count = isinstance(channels, int) and 1 <= channels <= MOST_CHANNELS
        _demand(is_count and dtype in UNITS, "images of uint8, uint16 or float32, of 1 to 16 channels")
        _demand(all(len(array) == len(sizes) for array in self._arrays), "the same number of images throughout")
        segments = []
        before = Plan.start(sizes, channels, of_bytes=dtype != "float32")
        for content_of_segment in content["stages"]:  # the file format's name for segments
            segments.append(self._plan(content_of_segment, before))
            before = segments[-1].then()
        _demand(segments and segments[-1].exact is None, "a segment after its exact resizes")
        return SavedPlan(sizes, channels, dtype, tuple(segments))

    def _plan(self, segment: dict[str, Any], before: Plan) -> Plan:
        source = before.sizes
        grid = self._grids[segment["grid"]]
        entries = [self._entry(entry, grid) for entry in segment["entries"]]
        grids = [grid, *(entry.taken_over for entry in entries if entry.taken_over is not None)]
        for one in grids:
            low, high = one.window[:, :2], one.window[:, 2:]
            _demand(np.all((low >= 0) & (low < high) & (high <= source[:, ::-1])), "windows inside the images")
            if one.kernel is not None:
                large = np.any(one.kernel // 2 >= source[:, ::-1], 1) & (one.filter == layout.GAUSSIAN)
                _demand(not large.any(), "blurs smaller than the images")
        for k, entry in enumerate(entries):
            known = len(grid.frames) if entry.taken_over is None else len(entry.taken_over.frames)
            _demand(all(before.frame < known for before in entries[: k + 1]), "the frames it refers to")
        reading = sum(ops.READS_NEIGHBORS[entry.codes].astype(int) for entry in entries)
        _demand(np.all(np.asarray(reading) <= 1), "one filter of neighbors per segment")
        _demand(
            not any(np.any(ops.PREPASS_LAUNCHES[entry.codes]) for entry in entries[1:]),
            "prepass ops only at the start of a segment",
        )
        _demand(segment["sharpens"] or not np.any(reading), "a mark of its filters")
        counts = KERNEL_CHANNELS if before.channels in KERNEL_CHANNELS else (before.channels,)
        _demand(segment["channels"] in counts, f"{' or '.join(map(str, counts))} channels")
        for entry in entries:
            check_channels(entry.codes, segment["channels"])
        flags = {name: segment[name] for name in ("normalized", "blurs", "sharpens")}
        _demand(all(isinstance(flag, bool) for flag in flags.values()), "flags")
        history = tuple(
            Step(int(at), self._array(matrix, np.float64, 3, 3), self._sizes(sizes))
            for at, matrix, sizes in segment["history"]
        )
        rule = segment["exact"]
        if rule is not None:
            _demand(rule in exact.RULES.values() and type(rule) is int, "a known rule of its exact resize")
            _demand(before.of_bytes and exact.allows(rule, before.channels), "bytes to resize exactly")
            _demand(not entries and not any(flags.values()), "nothing but an exact resize in its segment")
            _demand(np.all(grid.filter < layout.GAUSSIAN), "a filter of its exact resize")
        return Plan(
            grid, source, segment["channels"], before.of_bytes, tuple(entries), history=history, exact=rule,
            of_exact=before.of_exact, **flags,
        )  # fmt: skip

    def _entry(self, entry: dict[str, Any], grid: Grid) -> Entry:
        codes = self._array(entry["codes"], np.int32)
        width = self._arrays[entry["params"]].shape[1]
        params = self._array(entry["params"], np.float32, width)
        found = set(np.unique(codes).tolist())
        _demand(all(_WIDTHS.get(code, width + 1) <= width for code in found), "known ops with all their parameters")
        frame = entry["frame"]
        _demand(isinstance(frame, int) and 0 <= frame < len(grid.frames), "the frames it refers to")
        known = [ops.OPS[code] for code in found]
        _demand(frame or not any(op.coordinates for op in known), "the frames it refers to")
        taken_over = None if entry["taken_over"] is None else self._grids[entry["taken_over"]]
        _demand(taken_over is not None or not any(op.statistic for op in known), "the pixels its statistics are of")
        return Entry(codes, params, frame, taken_over)


def _read(data: NDArray[np.uint8], dtype: str, shape: list[int], start: int) -> NDArray[Any]:
    _demand(dtype in _DTYPES, "plain arrays")
    kind = np.dtype(dtype)
    _demand(all(n >= 0 for n in shape) and len(shape) >= 1 and start >= 0, "plain arrays")
    size = int(np.prod(shape, dtype=object)) * kind.itemsize
    part = data[start : start + size]
    _demand(len(part) == size, "all its data")
    array = part.view(kind).reshape(shape)
    array.flags.writeable = False
    return array
