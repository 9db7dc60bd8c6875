"""The row filters of PNG, undone for a pixel at a time: all bytes of a pixel are the lanes of one vector.

A byte is stored as the difference from a prediction, which is computed of the bytes of the pixels to the left, above,
and above to the left. So pixels wait for the one before, but the bytes of a pixel do not wait for each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cpu.intrinsics import copy
from ..jpeg.vectors import load, place, store
from ..lang import cgutils, intrinsic, ir, types
from ..scalar import loop, up

NONE, SUB, UP, AVERAGE, PAETH = range(5)
COUNT = 5

_LANES = {1: 1, 2: 2, 3: 4, 4: 4, 6: 8, 8: 8}  # that are loaded of a pixel, by its bytes


@loop
def predicted(kind, left, above, corner):
    """Return the prediction of a byte by :data:`SUB`, :data:`AVERAGE` or :data:`PAETH`, from three int64."""
    if kind == SUB:
        return left
    if kind == AVERAGE:
        return (left + above) >> 1
    # The neighbor nearest to left + above - corner: by PNG, of equally near ones left before above before corner.
    far = 3 * corner - left - above
    low, high = min(left, above), max(left, above)
    if far <= low:
        return high
    return low if far >= high else corner


def _lesser(builder: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Return the lesser and the greater of each lane."""
    less = builder.icmp_signed("<", a, b)
    return builder.select(less, a, b), builder.select(less, b, a)


def _prediction(builder: Any, kind: int, left: Any, above: Any, corner: Any) -> Any:
    """Emit :func:`predicted` for vectors of wider integers."""
    if kind == SUB:
        return left
    if kind == AVERAGE:
        one = ir.Constant(left.type, [1] * left.type.count if isinstance(left.type, ir.VectorType) else 1)
        return builder.lshr(builder.add(left, above), one)
    # What does not depend on the pixel to the left comes first: the chain of dependent steps is what takes time.
    twice = builder.add(corner, corner)
    far = builder.sub(builder.add(twice, builder.sub(corner, above)), left)
    low, high = _lesser(builder, left, above)
    nearest = builder.select(builder.icmp_signed("<=", high, far), low, corner)
    return builder.select(builder.icmp_signed("<=", far, low), high, nearest)


def _make_undo(kind: int, size: int) -> Any:
    """Return an intrinsic that undoes a filter in ``count`` pixels of ``size`` bytes from the left edge on."""
    lanes = _LANES[size]
    narrow, wide = ir.IntType(8), ir.IntType(32)
    if lanes > 1:
        narrow, wide = ir.VectorType(ir.IntType(8), lanes), ir.VectorType(ir.IntType(16), lanes)

    @intrinsic
    def undo(typing_context, raw, at, rows, above, row, count):
        def generate(context, builder, signature, args):
            kinds = signature.args
            raw, at, rows, above, row, count = args

            def address(kind, array, start, index):
                return place(context, builder, kind, array, builder.add(start, index), lanes)

            zero = ir.Constant(wide, None)
            left, corner = (cgutils.alloca_once_value(builder, zero) for _ in range(2))
            with cgutils.for_range(builder, count) as each:
                index = builder.mul(each.index, each.index.type(size))
                over = zero
                if kind != SUB:
                    over = builder.zext(load(builder, address(kinds[2], rows, above, index), narrow), wide)
                value = _prediction(builder, kind, builder.load(left), over, builder.load(corner))
                stored = load(builder, address(kinds[0], raw, at, index), narrow)
                value = builder.add(builder.trunc(value, narrow), stored)
                store(builder, value, address(kinds[2], rows, row, index))
                builder.store(builder.zext(value, wide), left)
                builder.store(over, corner)
            return context.get_dummy_value()

        whole = types.int64
        return types.none(raw, whole, rows, whole, whole, whole), generate

    return undo


_sub1, _sub2, _sub3, _sub4, _sub6, _sub8 = (_make_undo(SUB, size) for size in _LANES)
_average1, _average2, _average3, _average4, _average6, _average8 = (_make_undo(AVERAGE, size) for size in _LANES)
_paeth1, _paeth2, _paeth3, _paeth4, _paeth6, _paeth8 = (_make_undo(PAETH, size) for size in _LANES)


@loop
def _undo_pixels(kind, raw, at, rows, above, row, count, size):
    """Undo a filter that needs the pixel to the left."""
    if kind == SUB:
        if size == 1:
            _sub1(raw, at, rows, above, row, count)
        elif size == 2:
            _sub2(raw, at, rows, above, row, count)
        elif size == 3:
            _sub3(raw, at, rows, above, row, count)
        elif size == 4:
            _sub4(raw, at, rows, above, row, count)
        elif size == 6:
            _sub6(raw, at, rows, above, row, count)
        else:
            _sub8(raw, at, rows, above, row, count)
    elif kind == AVERAGE:
        if size == 1:
            _average1(raw, at, rows, above, row, count)
        elif size == 2:
            _average2(raw, at, rows, above, row, count)
        elif size == 3:
            _average3(raw, at, rows, above, row, count)
        elif size == 4:
            _average4(raw, at, rows, above, row, count)
        elif size == 6:
            _average6(raw, at, rows, above, row, count)
        else:
            _average8(raw, at, rows, above, row, count)
    elif size == 1:
        _paeth1(raw, at, rows, above, row, count)
    elif size == 2:
        _paeth2(raw, at, rows, above, row, count)
    elif size == 3:
        _paeth3(raw, at, rows, above, row, count)
    elif size == 4:
        _paeth4(raw, at, rows, above, row, count)
    elif size == 6:
        _paeth6(raw, at, rows, above, row, count)
    else:
        _paeth8(raw, at, rows, above, row, count)


@loop
def undo_filter(raw, at, rows, above, row, used, size):
    """Undo the filter of a row of ``used`` bytes in pixels of ``size`` bytes.

    Parameters
    ----------
    raw : (B,) uint8
        The filter's number at ``at``, and the filtered bytes after it.
    rows : (M,) uint8
        The row above, at ``above``; zeros for the first one. The row at ``row`` is filled; up to 2 bytes more are
        written, and read of the row above.
    """
    kind = raw[up(at)]
    at += 1
    if kind == NONE:
        copy(raw[at : at + used], rows[row : row + used])
    elif kind == UP:
        for k in range(used):
            rows[up(row) + up(k)] = raw[up(at) + up(k)] + rows[up(above) + up(k)]
    else:
        # Vectors reach up to 2 bytes beyond a pixel, and nothing follows the last row.
        whole = used // size if size != 3 and size != 6 else (used - size // 3) // size
        _undo_pixels(kind, raw, at, rows, above, row, whole, size)
        for k in range(whole * size, used):
            has_left = k >= size
            left = np.int64(rows[row + k - size]) if has_left else 0
            corner = np.int64(rows[above + k - size]) if has_left else 0
            rows[row + k] = raw[at + k] + np.uint8(predicted(kind, left, np.int64(rows[above + k]), corner))
