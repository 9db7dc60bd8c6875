"""Sums over patches of source pixels, four pixels of the result at a time, as LLVM vectors.

A patch is the rectangle of source pixels that has the taps of a pixel. A load takes ``lanes`` consecutive elements of
one of its rows: taps one after the other, the channels of each side by side. Sums over rows come first, with weights in
y; then each lane is weighted in x; then lanes of the same channel are added, for four pixels together.
"""

from typing import Any

from ..lang import cgutils, types
from .intrinsics import F32, I8, I32, I64, emitted, load, plus_product, shuffle, splat, spread, store, vector

#: Elements after the last pixel of a source that loads may touch, and after a result of bytes that may be written.
SOURCE_SLACK = 15

LANES = SOURCE_SLACK + 1  # elements of a load; half of them where the rows of a patch are as short
PIXELS = 4  # pixels of the result that are summed together: their chains of dependent additions overlap

_NO_SIGN = 0x7FFFFFFF  # all bits of a float32 but its sign


def _folded(builder: Any, one: Any, other: Any, masks: list[list[int]]) -> Any:
    """Return the sum of several choices of lanes from two vectors."""
    parts = [shuffle(builder, one, other, picks) for picks in masks]
    total = parts[0]
    for part in parts[1:]:
        total = builder.fadd(total, part)
    return total


def _pairing(channels: int, lanes: int) -> list[list[int]]:
    """Return choices of lanes of two patches, whose sum has 8 lanes of each patch: two colors, or eight gray taps."""
    if lanes == LANES // 2:  # a patch has no more: both are put side by side
        return [list(range(LANES))]
    if channels == 1:
        return [[*range(8), *range(16, 24)], [*range(8, 16), *range(24, 32)]]
    # Five colors in 15 lanes, as 8 lanes (two colors and more), the two colors after the first two, and the fifth one.
    # Of each 8 lanes the first 6 count. Lane 15 has no tap, so it is zero, and fills the fifth choice.
    fifth = [12, 13, 14, 15, 15, 15, 15, 15]
    return [[first + lane for first in (0, 16) for lane in picks] for picks in (range(8), range(6, 14), fifth)]


def _gathering(channels: int) -> list[list[int]]:
    """Return choices of lanes of two pairs of patches, whose sum has the first channel of all four, then the next."""
    if channels == 1:  # all 8 lanes of each patch are added
        return [[first + lane for first in range(0, 32, 8)] for lane in range(8)]
    # Patches begin at every eighth lane; in each are two colors, whose channels are 3 lanes from each other.
    order = [first + channel for channel in range(3) for first in range(0, 32, 8)]
    return [order, [lane + 3 for lane in order]]


class _Loads:
    """Emitter of one intrinsic's code: loads of ``lanes`` lanes from pixels of ``channels`` channels.

    ``values`` are the arguments of :func:`make_sum_four_patches`.
    """

    def __init__(self, builder: Any, values: Any, channels: int, lanes: int) -> None:
        (self.source, self.starts, self.stride, self.rows, self.loads, self.weights, self.step, self.distances,
         self.lane_table, self.x) = values  # fmt: skip
        self._builder, self._channels, self._lanes = builder, channels, lanes
        self._zero = splat(F32, 0.0, lanes)

    def _spread(self, value: Any) -> Any:
        return spread(self._builder, value, self._lanes)

    def _plus_product(self, total: Any, a: Any, b: Any) -> Any:
        return plus_product(self._builder, total, a, b)

    def _values(self, index: Any) -> Any:
        """Load elements of the source as float32."""
        place = self.source.at(index, self._lanes)
        if self.source.kind.dtype == types.float32:
            return load(self._builder, place, self._zero.type)
        return self._builder.uitofp(load(self._builder, place, vector(I8, self._lanes)), self._zero.type)

    def _all_weights(self, number: Any) -> list[Any]:
        """Return the weights in x of the lanes of one load, for each pixel."""
        # A lane's distance is that of the pixel's first tap, and the lane's step from there.
        place = self.lane_table.at(self._builder.mul(number, I64(LANES)), self._lanes)
        steps = load(self._builder, place, self._zero.type)
        distances = (self._spread(self.distances.element(self._pixel(k))) for k in range(PIXELS))
        return [self._weight(self._builder.fadd(steps, one)) for one in distances]

    def _weight(self, away: Any) -> Any:
        """Return the weights at distances ``away``, as :func:`sampling.triangle`."""
        builder = self._builder
        # 1 - |away|, where it is positive; a NaN yields 0, since an ordered comparison with it is false.
        bits = splat(I32, _NO_SIGN, self._lanes)
        unsigned = builder.and_(builder.bitcast(away, bits.type), bits)
        weight = builder.fsub(splat(F32, 1.0, self._lanes), builder.bitcast(unsigned, away.type))
        return builder.select(builder.fcmp_ordered(">", weight, self._zero), weight, self._zero)

    def _weighted(self, total: Any, sums: Any, weight: Any) -> Any:
        if self.source.kind.dtype == types.float32:
            # Lanes of no tap may hold NaN or infinity, which times zero is NaN: they are replaced, not multiplied.
            used = self._builder.fcmp_ordered(">", weight, self._zero)
            sums = self._builder.select(used, sums, self._zero)
        return self._plus_product(total, sums, weight)

    def _pixel(self, k: int) -> Any:
        return self._builder.add(self.x, I64(k))

    def _row_sums(self, number: Any, begins: list[Any]) -> list[Any]:
        """Return the lanes of one load of each pixel's patch, summed over the patch's rows."""
        builder = self._builder
        sums = [cgutils.alloca_once_value(builder, self._zero) for _ in begins]
        # A load of colors uses whole pixels only: its last lane is the next load's first one. In elements.
        skipped = builder.mul(number, I64(self._lanes // self._channels * self._channels))
        row = cgutils.alloca_once_value(builder, skipped)
        at = cgutils.alloca_once_value(builder, self.x)
        with cgutils.for_range(builder, self.rows):
            offset, weight_at = builder.load(row), builder.load(at)
            for pixel, (total, begin) in enumerate(zip(sums, begins, strict=True)):
                weight = self.weights.element(builder.add(weight_at, I64(pixel)))
                values = self._values(builder.add(begin, offset))
                builder.store(self._plus_product(builder.load(total), values, self._spread(weight)), total)
            builder.store(builder.add(offset, self.stride), row)
            builder.store(builder.add(weight_at, self.step), at)
        return [builder.load(total) for total in sums]

    def patches(self) -> list[Any]:
        """Return the weighted lanes of each pixel, summed over rows and loads."""
        builder = self._builder
        # Offsets are int32, see check_reach in gpuimg; addresses are computed in 64 bits.
        begins = [builder.sext(self.starts.element(self._pixel(k)), I64) for k in range(PIXELS)]
        if self._lanes < LANES:  # one load has a whole row of the patch
            sums = self._row_sums(I64(0), begins)
            return [self._weighted(self._zero, *pair) for pair in zip(sums, self._all_weights(I64(0)), strict=True)]
        totals = [cgutils.alloca_once_value(builder, self._zero) for _ in begins]
        with cgutils.for_range(builder, self.loads) as loop:
            sums, weights = self._row_sums(loop.index, begins), self._all_weights(loop.index)
            for total, *pair in zip(totals, sums, weights, strict=True):
                builder.store(self._weighted(builder.load(total), *pair), total)
        return [builder.load(total) for total in totals]


def make_sum_four_patches(channels: int, lanes: int) -> Any:
    """Return an intrinsic that sums the patches of the pixels ``x`` to ``x + 4``, by loads of ``lanes`` lanes.

    Its arguments: the source; the element at which each pixel's patch begins; elements from row to row; the number of
    rows, and of loads in a row; weights of the rows, ``step`` elements from one row to the next; the distance of each
    pixel's first tap, and the steps of the lanes from it; ``x``; the planes of the result.
    """
    whole = types.int64

    @emitted(types.none, None, None, whole, whole, whole, None, whole, None, None, whole, None, None, None)
    def sum_four_patches(
        builder, source, starts, stride, rows, loads, weights, step, distances, lane_table, x, r, g, b
    ):  # fmt: skip
        values = source, starts, stride, rows, loads, weights, step, distances, lane_table, x
        patches = _Loads(builder, values, channels, lanes).patches()
        pairing = _pairing(channels, lanes)
        first, second = (_folded(builder, patches[k], patches[k + 1], pairing) for k in (0, 2))
        sums = _folded(builder, first, second, _gathering(channels))
        for channel, plane in enumerate((r, g, b)[:channels]):
            picks = range(PIXELS * channel, PIXELS * (channel + 1))
            store(builder, shuffle(builder, sums, sums, picks), plane.at(x, PIXELS))

    return sum_four_patches
