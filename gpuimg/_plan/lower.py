"""Lowering: what a device does with the images of a batch, decided once, before a device is asked.

A source and its plan become a :class:`Work`: at which scale files are decoded, which files are equal, which parts of
images are read, and the compiled segments, of which the last one stores the results. Runtimes only execute it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._checks.types import Ints, Mask
from .._data.images import (
    ALIGNMENT,
    Encoded,
    Pixels,
    check_reach,
    offsets_of,
    rows_of,
    sizes_of,
    union_regions,
    whole_regions,
)
from .._data.patches import Form
from .._data.selection import unique
from ..kernels import layout, ops
from .compile import Pass, Stored, areas_of, build_for, compile_plan, exact_resizes, stored_bytes
from .draft import at_scales, reduced, scaled_sizes
from .plan import Operand, Plan


class CompiledArea(NamedTuple):
    """An op on whole images."""

    op: ops.Op
    records: Any  # (N,) AREA
    operand: Operand | None
    on_bytes: bool  # its results are bytes, or float32
    applies: Mask  # (N,)
    channels: int  # before the plan's other ops, which may change their number
    sizes: Ints  # (N, 2) heights and widths of the images
    out_sizes: Ints  # (N, 2), of its results

    @property
    def dtype(self) -> str:
        """Dtype of its results on the host."""
        return "uint8" if self.on_bytes else "float32"


class CompiledSegment(NamedTuple):
    """A segment as kernels read it: passes, or an exact resize, which may store a part of its results.

    Without passes, the results are those of the op on whole images, which comes before the passes if there is one.
    """

    plan: Plan  # of the images as they are decoded
    sizes: Ints  # (N, 2) of the results that are stored
    regions: Ints  # (N, 4) of its source that they are computed from
    kind: int  # of the elements that are stored
    form: Form
    passes: Sequence[Pass] = ()
    used: Any = None  # by passes, see :func:`.compile_plan`
    offsets: Ints | None = None  # (N,), on a GPU: where the results lie that the next segment reads, if there is one
    total: int = 0  # elements of those
    exact: Any = None  # (N,) EXACT records, with the part
    stored: Any = None  # :class:`.Stored`, how an exact resize stores its results
    area: CompiledArea | None = None

    @property
    def build(self) -> str:
        """Name of the smallest build of a GPU's kernels that can run the passes."""
        return build_for(self.plan, self.used)

    @property
    def strides(self) -> Ints:
        """(N,) elements from one row of its stored results to the next."""
        strides: Ints = self.sizes[:, 1] * self.plan.channels
        return strides

    @property
    def corner(self) -> Ints:
        """(N, 2): x and y of the first pixel that is stored."""
        return np.zeros_like(self.sizes) if self.exact is None else self.exact["part"][:, :2]


class Work(NamedTuple):
    """What is done with the images of a batch."""

    source: Encoded | Pixels
    segments: Sequence[CompiledSegment]  # none where decoded images are the results
    starts: Ints  # (N,): the first segment of each image that changes it, or the last segment
    scales: Ints  # (N,): eighths of their sizes at which files are decoded
    sizes: Ints  # (N, 2) of the images as they are decoded
    first: Ints | None  # of each image or clip: the index of its first occurrence; None if all differ
    files: "Files | None"  # what a GPU decodes; None for pixels, and on the host, which goes from image to image


class Files(NamedTuple):
    """Files to decode into one buffer, each once, with the regions that all its occurrences read."""

    images: Encoded
    sizes: Ints  # (M, 2) of the images or frames as they are decoded
    regions: Ints  # (M, 4) of those that are read: x0, y0, x1, y1
    offsets: Ints  # (M,), where they lie
    total: int  # elements of the buffer
    first: Ints | None = None  # of each file, the index of its first occurrence; None if all differ
    rows: Ints | None = None  # (N,): the image or frame, among these, that each of the batch is

    @staticmethod
    def of(source: Encoded, sizes: Ints, scales: Ints, regions: Ints, occurrences: Ints | None) -> "Files":
        """Return the files of a source whose images have these sizes and scales, and are read in these regions."""
        images, first, inverse = unique(source, occurrences)
        rows = None
        if first is not None and inverse is not None:
            chosen, rows = rows_of(first, images.frames), rows_of(inverse, images.frames)
            sizes, scales, regions = sizes[chosen], scales[chosen], union_regions(regions, rows)
        offsets, total = offsets_of(sizes, images.channels, ALIGNMENT)
        return Files(at_scales(images, scales), sizes, regions, offsets, total, first, rows)


def lower(source: Encoded | Pixels, segments: Sequence[Plan], kind: int, form: Form, *, on_host: bool) -> Work:
    """Decide what a device does to store the results of a plan as elements of ``kind``, in ``form``.

    The host runs one image after the other: so it can leave out the segments that do not change an image, decode into
    place, and store the bytes of an exact resize in any form.
    """
    first = None if isinstance(source, Pixels) else source.first_occurrences()
    if on_host and first is None and not isinstance(source, Pixels) and _as_decoded(source, segments, kind, form):
        segments = ()
    segments, stored = _with_store(segments, kind, form, on_host=on_host)
    scaled = reduced(source, segments, on_host=on_host)
    sizes = source.sizes if scaled.segments is segments else scaled_sizes(source.sizes, scaled.scales)
    compiled: list[CompiledSegment] = []
    for k in range(len(segments) - 1, -1, -1):
        plan, after = scaled.segments[k], compiled[-1] if compiled else None
        result: tuple[int, Form] = (kind, form)
        if after is not None:
            # The kind that the next one reads: bytes of and for exact resizes.
            of_bytes = plan.exact is not None or after.plan.exact is not None or _takes_bytes(after.area)
            result = layout.UINT8 if of_bytes else layout.FLOAT32, "pixels"
        if plan.exact is None:
            area = compiled_area(plan, scaled.segments[k - 1].channels if k else source.channels)
            if area is None:
                passes, regions, used = compile_plan(plan)
                one = CompiledSegment(plan, plan.sizes, regions, *result, passes, used)
            else:
                regions = whole_regions(area.sizes)
                one = CompiledSegment(plan, plan.sizes, regions, *result, area=area)
                if len(plan.entries) > 1 or not _stores(area, result, after, on_host=on_host):
                    passes, _, used = compile_plan(plan)
                    one = one._replace(passes=passes, used=used)
        else:
            # Only the part that the next one reads is computed.
            parts = after.regions if after else stored.parts if stored else whole_regions(plan.sizes)
            exact, regions = exact_resizes(plan, parts)
            how = stored if stored and after is None else Stored.of(parts)
            one = CompiledSegment(plan, sizes_of(parts), regions, *result, exact=exact, stored=how)
        if after is not None:
            check_reach(after.regions, np.where(scaled.starts <= k, one.strides, 0) if on_host else one.strides)
            if not on_host:
                offsets, total = offsets_of(one.sizes, plan.channels, ALIGNMENT)
                one = one._replace(offsets=offsets, total=total)
        compiled.append(one)
    files = None
    if not on_host:
        check_reach(compiled[-1].regions, sizes[:, 1] * source.channels)
        if not isinstance(source, Pixels):
            files = Files.of(source, sizes, scaled.scales, compiled[-1].regions, first)
    return Work(source, compiled[::-1], scaled.starts, scaled.scales, sizes, first, files)


def compiled_area(plan: Plan, channels: int) -> CompiledArea | None:
    """Return the op on whole images, of so many channels, that a plan begins with, or None."""
    entry = plan.area
    if entry is None:
        return None
    applies = entry.codes != ops.SKIP.code
    first = int(np.argmax(applies))
    on_bytes = bool(entry.params[first, ops.AREA_PARAMETERS.index("bytes")])
    # Images that it does not apply to have the size that they are decoded at.
    sizes = np.where(applies[:, None], plan.source_sizes, plan.sizes)
    records = areas_of(plan, entry, applies, sizes)
    op = ops.OPS[entry.codes[first]]
    return CompiledArea(op, records, entry.operand, on_bytes, applies, channels, sizes, plan.sizes)


def _takes_bytes(area: CompiledArea | None) -> bool:
    """Return True if images become bytes anyway."""
    return area is not None and area.on_bytes and bool(area.applies.all())


def _stores(area: CompiledArea, result: tuple[int, Form], after: CompiledSegment | None, *, on_host: bool) -> bool:
    """Return True if the results of an op on whole images need no pass: bytes that the host stores, or any for another.

    Images that it does not apply to stay what they are, for a segment that takes bytes as well as float32.
    """
    if after is None:
        return on_host and area.on_bytes and result == (layout.UINT8, "pixels")
    return after.plan.exact is None


def _as_decoded(source: Encoded, segments: Sequence[Plan], kind: int, form: Form) -> bool:
    """Return True if results are the decoded images themselves, which are then decoded into place without a pass."""
    plain = kind == layout.UINT8 and form == "pixels"
    return plain and all(plan.channels == source.channels and plan.changes_nothing for plan in segments)


def _with_store(
    segments: Sequence[Plan], kind: int, form: Form, *, on_host: bool
) -> tuple[Sequence[Plan], Stored | None]:
    """Leave out a last segment that the store of the exact resize before it can do; return that store."""
    if len(segments) < 2 or segments[-2].exact is None:
        return segments, None
    copies = kind == layout.UINT8 and form == "pixels" and segments[-1].changes_nothing
    stored = stored_bytes(segments[-1]) if on_host or copies else None
    return (segments if stored is None else segments[:-1]), stored
