"""Sums over patches of source pixels, four pixels of the result at a time, as LLVM vectors.

A patch is the rectangle of source pixels that has the taps of a pixel. A load takes ``lanes`` consecutive elements of
one of its rows: taps one after the other, the channels of each side by side. Sums over rows come first, with weights in
y; then each lane is weighted in x; then lanes of the same channel are added, for four pixels together.
"""

from __future__ import annotations

from typing import Any

from ..lang import cgutils, intrinsic, ir, types
from .intrinsics import pointer, shuffle

#: Elements after the last pixel of a source that loads may touch, and after a result of bytes that may be written.
SOURCE_SLACK = 15

LANES = SOURCE_SLACK + 1  # elements of a load; half of them where the rows of a patch are as short
PIXELS = 4  # pixels of the result that are summed together: their chains of dependent additions overlap

_INDEX = ir.IntType(32)
_WIDTH = ir.IntType(64)
_FLOAT = ir.FloatType()
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

    ``values`` are the arguments of :func:`make_sum_four_patches`, ``kinds`` their Numba types.
    """

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any, channels: int, lanes: int) -> None:
        (self.source, self.starts, self.stride, self.rows, self.loads, self.weights, self.step, self.distances,
         self.lane_table, self.x, self.out) = values  # fmt: skip
        self._context, self._builder, self._kinds = context, builder, kinds
        self._channels, self._lanes = channels, lanes
        self._vector = ir.VectorType(_FLOAT, lanes)
        self._zero = ir.Constant(self._vector, [0.0] * lanes)

    def _load(self, position: int, array: Any, index: Any, kind: Any, align: int) -> Any:
        value = self._builder.load(pointer(self._context, self._builder, self._kinds[position], array, index, kind))
        value.align = align
        return value

    def _spread(self, value: Any) -> Any:
        one = self._builder.insert_element(ir.Constant(self._vector, ir.Undefined), value, _INDEX(0))
        return shuffle(self._builder, one, one, [0] * self._lanes)

    def _plus_product(self, total: Any, a: Any, b: Any) -> Any:
        # "contract" allows a fused multiply-add, and no other order.
        product = self._builder.fmul(a, b, flags=("contract",))
        return self._builder.fadd(product, total, flags=("contract",))

    def _values(self, index: Any) -> Any:
        """Load elements of the source as float32."""
        if self._kinds[0].dtype == types.float32:
            return self._load(0, self.source, index, self._vector, 4)
        raw = self._load(0, self.source, index, ir.VectorType(ir.IntType(8), self._lanes), 1)
        return self._builder.uitofp(raw, self._vector)

    def _all_weights(self, load: Any) -> list[Any]:
        """Return the weights in x of the lanes of one load, for each pixel."""
        # A lane's distance is that of the pixel's first tap, and the lane's step from there.
        first = self._builder.mul(load, _WIDTH(LANES))
        steps = self._load(8, self.lane_table, first, self._vector, 4)
        distances = [self._load(7, self.distances, self._pixel(k), None, 4) for k in range(PIXELS)]
        return [self._weight(self._builder.fadd(steps, self._spread(distance))) for distance in distances]

    def _weight(self, away: Any) -> Any:
        """Return the weights at distances ``away``, as :func:`sampling.triangle`."""
        builder = self._builder
        # 1 - |away|, where it is positive; a NaN yields 0, since an ordered comparison with it is false.
        bits = ir.VectorType(_INDEX, self._lanes)
        unsigned = builder.and_(builder.bitcast(away, bits), ir.Constant(bits, [_NO_SIGN] * self._lanes))
        one = ir.Constant(self._vector, [1.0] * self._lanes)
        weight = builder.fsub(one, builder.bitcast(unsigned, self._vector))
        return builder.select(builder.fcmp_ordered(">", weight, self._zero), weight, self._zero)

    def _weighted(self, total: Any, sums: Any, weight: Any) -> Any:
        if self._kinds[0].dtype == types.float32:
            # Lanes of no tap may hold NaN or infinity, which times zero is NaN: they are replaced, not multiplied.
            used = self._builder.fcmp_ordered(">", weight, self._zero)
            sums = self._builder.select(used, sums, self._zero)
        return self._plus_product(total, sums, weight)

    def _pixel(self, k: int) -> Any:
        return self._builder.add(self.x, self.x.type(k))

    def _row_sums(self, load: Any, begins: list[Any]) -> list[Any]:
        """Return the lanes of one load of each pixel's patch, summed over the patch's rows."""
        builder = self._builder
        sums = [cgutils.alloca_once_value(builder, self._zero) for _ in begins]
        # A load of colors uses whole pixels only: its last lane is the next load's first one. In elements.
        skipped = builder.mul(load, _WIDTH(self._lanes // self._channels * self._channels))
        row = cgutils.alloca_once_value(builder, skipped)
        at = cgutils.alloca_once_value(builder, self.x)
        with cgutils.for_range(builder, self.rows):
            offset, weight_at = builder.load(row), builder.load(at)
            for pixel, (total, begin) in enumerate(zip(sums, begins, strict=True)):
                weight = self._load(5, self.weights, builder.add(weight_at, weight_at.type(pixel)), None, 4)
                values = self._values(builder.add(begin, offset))
                builder.store(self._plus_product(builder.load(total), values, self._spread(weight)), total)
            builder.store(builder.add(offset, self.stride), row)
            builder.store(builder.add(weight_at, self.step), at)
        return [builder.load(total) for total in sums]

    def patches(self) -> list[Any]:
        """Return the weighted lanes of each pixel, summed over rows and loads."""
        builder = self._builder
        # Offsets are int32, see check_reach in gpuimg; addresses are computed in 64 bits.
        begins = [builder.sext(self._load(1, self.starts, self._pixel(k), None, 4), _WIDTH) for k in range(PIXELS)]
        if self._lanes < LANES:  # one load has a whole row of the patch
            sums = self._row_sums(_WIDTH(0), begins)
            return [self._weighted(self._zero, *pair) for pair in zip(sums, self._all_weights(_WIDTH(0)), strict=True)]
        totals = [cgutils.alloca_once_value(builder, self._zero) for _ in begins]
        with cgutils.for_range(builder, self.loads) as loop:
            sums, weights = self._row_sums(loop.index, begins), self._all_weights(loop.index)
            for total, *pair in zip(totals, sums, weights, strict=True):
                builder.store(self._weighted(builder.load(total), *pair), total)
        return [builder.load(total) for total in totals]

    def store(self, patches: list[Any]) -> None:
        """Add the lanes of four pixels by channel, and store the channels to their planes."""
        builder = self._builder
        pairing = _pairing(self._channels, self._lanes)
        first, second = (_folded(builder, patches[k], patches[k + 1], pairing) for k in (0, 2))
        planes = _folded(builder, first, second, _gathering(self._channels))
        quad = ir.VectorType(_FLOAT, PIXELS)
        for channel in range(self._channels):
            picks = list(range(PIXELS * channel, PIXELS * (channel + 1)))
            plane = builder.extract_value(self.out, channel)
            kind = self._kinds[10].types[channel]
            place = pointer(self._context, builder, kind, plane, self.x, quad)
            builder.store(shuffle(builder, planes, planes, picks), place).align = 4


def make_sum_four_patches(channels: int, lanes: int) -> Any:
    """Return an intrinsic that sums the patches of the pixels ``x`` to ``x + 4``, by loads of ``lanes`` lanes.

    Its arguments: the source; the element at which each pixel's patch begins; elements from row to row; the number of
    rows, and of loads in a row; weights of the rows, ``step`` elements from one row to the next; the distance of each
    pixel's first tap, and the steps of the lanes from it; ``x``; the planes of the result.
    """

    @intrinsic
    def sum_four_patches(
        typing_context, source, starts, stride, rows, loads, weights, step, distances, lane_table, x, out
    ):  # fmt: skip
        def generate(context, builder, signature, args):
            loads_ = _Loads(context, builder, signature.args, args, channels, lanes)
            loads_.store(loads_.patches())
            return context.get_dummy_value()

        given = (source, starts, stride, rows, loads, weights, step, distances, lane_table, x, out)
        return types.none(*given), generate

    return sum_four_patches
