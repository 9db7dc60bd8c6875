"""Rows of a PNG file after inflating: filters undone, and values expanded to the pixels that are requested."""

from ..compiled import cached_jit
from ..cpu.intrinsics import copy
from ..gray import gray_byte
from ..scalar import loop, up
from .filters import AVERAGE, COUNT, PAETH, TOGETHER, undo_filter, undo_four
from .layout import PALETTE

SLOTS = TOGETHER + 1  # rows in memory
_SLACK = 16  # bytes after a row that vectors reach
_OPAQUE = 255


def scratch_bytes(stride: int) -> int:
    """Return the bytes of the scratch of :func:`write_rows`, for rows of ``stride`` bytes."""
    return SLOTS * (stride + _SLACK)


@cached_jit("int64(uint8[::1], int64)", nogil=False)
def has_filters(raw, stride):
    """Return 1 if every row of ``stride`` bytes begins with the number of a filter."""
    for at in range(0, raw.size, stride + 1):
        if raw[at] >= COUNT:
            return 0
    return 1


@loop
def _slot(slot, k):
    """Return the slot of the row that is ``k`` below that of another slot."""
    return (slot + k) % SLOTS


@loop
def _are_slow(raw, at, line):
    """Return whether four rows take longer one by one than together, which takes as long whatever their filters are."""
    cost = 0
    for r in range(TOGETHER):
        kind = raw[at + r * line]
        cost += 5 * (kind == PAETH) + 2 * (kind == AVERAGE)
    return cost > 10


@loop
def _small_value(row, x, depth):
    """Return a value of 1, 2 or 4 bits; the first one of a byte is in its upper bits."""
    bit = x * depth
    return row[up(bit >> 3)] >> (8 - depth - (bit & 7)) & ((1 << depth) - 1)


@loop
def _look_up(rows, row, x0, x1, depth, palette, channels, out, to):
    """Write colors of a palette."""
    for x in range(x0, x1):
        index = rows[up(row) + up(x)] if depth == 8 else _small_value(rows[row:], x, depth)
        if channels == 1:
            out[up(to)] = palette[up(index)]
        else:
            for c in range(channels):
                out[up(to) + up(c)] = palette[up(channels * index) + up(c)]
        to += channels


@loop
def _write_small(rows, row, x0, x1, depth, channels, out, to):
    """Write gray values of fewer than 8 bits, scaled to the range of bytes."""
    scale = 255 // ((1 << depth) - 1)
    for x in range(x0, x1):
        value = _small_value(rows[row:], x, depth) * scale
        for _ in range(channels):
            out[up(to)] = value
            to += 1


@loop
def _write_row(rows, row, x0, x1, stored, step, channels, out, to):
    """Write values of ``step`` bytes."""
    size = stored * step
    first = row + x0 * size
    if channels == size:
        copy(rows[first : first + (x1 - x0) * size], out[to : to + (x1 - x0) * size])
    elif channels == stored:
        for k in range((x1 - x0) * stored):
            out[up(to) + up(k)] = rows[up(first) + up(2 * k)]
    elif channels == 3 and stored > 2:
        for k in range(x1 - x0):
            for c in range(3):
                out[up(to) + up(3 * k + c)] = rows[up(first) + up(size * k + c * step)]
    elif channels == 3:
        for k in range(x1 - x0):
            value = rows[up(first) + up(size * k)]
            for c in range(3):
                out[up(to) + up(3 * k + c)] = value
    elif stored > 2:
        for k in range(x1 - x0):
            at = up(first) + up(size * k)
            out[up(to) + up(k)] = gray_byte(rows[at], rows[at + up(step)], rows[at + up(2 * step)])
    else:
        for k in range(x1 - x0):
            out[up(to) + up(k)] = rows[up(first) + up(size * k)]


@cached_jit("none(uint8[::1], int64, int64, int64, int64, int64[::1], int64, uint8[::1], uint8[::1], uint8[::1])")
def write_rows(raw, stride, stored, depth, color, region, channels, palette, rows, out):
    """Write a region of an image, given the inflated rows ``raw``, up to the last of the region at least.

    ``stride`` are the bytes of a row without its filter; ``stored``, ``depth`` and ``color`` the values of a pixel,
    their bits and the color of the header; ``region`` x0, y0, x1, y1 in pixels. ``channels`` are those that are stored,
    or 1 or 3 without alpha. Of values of 16 bits the upper bytes are written; with twice as many channels as are
    stored, both bytes. ``palette`` has the pixels by index where there is one. ``rows`` is scratch of
    :func:`scratch_bytes`.
    """
    x0, y0, x1, y1 = region[0], region[1], region[2], region[3]
    size = max(stored * depth // 8, 1)  # bytes from a byte to the one that the filter takes for its left neighbor
    used = (x1 * stored * depth + 7) // 8  # bytes of a row on which the region depends: none are right of it
    pitch = stride + _SLACK
    for k in range(pitch):  # the row above the first one
        rows[k] = 0
    above = 0
    line = (x1 - x0) * channels
    y = 0
    while y < y1:
        at = y * (stride + 1)
        count = 1
        if y + TOGETHER <= y1 and used >= 8 * size and _are_slow(raw, at, stride + 1):
            count = TOGETHER
            row0, row1, row2, row3 = _slot(above, 1), _slot(above, 2), _slot(above, 3), _slot(above, 4)
            undo_four(
                raw,
                at,
                stride + 1,
                rows,
                above * pitch,
                row0 * pitch,
                row1 * pitch,
                row2 * pitch,
                row3 * pitch,
                used,
                size,
            )
        else:
            undo_filter(raw, at, rows, above * pitch, _slot(above, 1) * pitch, used, size)
        for _ in range(count):
            above = _slot(above, 1)
            row = above * pitch
            if y >= y0:
                to = (y - y0) * line
                if color == PALETTE:
                    _look_up(rows, row, x0, x1, depth, palette, channels, out, to)
                elif depth < 8:
                    _write_small(rows, row, x0, x1, depth, channels, out, to)
                else:
                    _write_row(rows, row, x0, x1, stored, depth // 8, channels, out, to)
            y += 1
