"""Unpacking of TIFF's own compressions, LZW and PackBits.

Format: TIFF 6.0, sections 9 and 13.
"""

from __future__ import annotations

from .compiled import kept

_CLEAR, _END, _FIRST = 256, 257, 258
_LEAST_BITS, _MOST_BITS = 9, 12
TABLE = 1 << _MOST_BITS


@kept
def unpack_lzw(data, starts, lengths, out):
    """Unpack ``data`` into ``out``, both uint8; gives the bytes written, or -1 for a code that means nothing.

    Each string of the table has stood in ``out`` before: ``starts`` and ``lengths``, of TABLE int64, say where.
    """
    bits, held = 0, 0
    at, n = 0, 0
    width, free = _LEAST_BITS, _FIRST
    start, length = 0, 0  # of the string before; none behind a clear code
    while n < out.size:
        while held < width:
            if at == data.size:
                return n
            bits = (bits << 8 | data[at]) & 0xFFFFFF
            held += 8
            at += 1
        held -= width
        code = bits >> held & (1 << width) - 1
        if code == _END:
            return n
        if code == _CLEAR:
            width, free, length = _LEAST_BITS, _FIRST, 0
            continue
        if length and free < TABLE:
            starts[free], lengths[free] = start, length + 1
            free += 1
            if free >= (1 << width) - 1 and width < _MOST_BITS:
                width += 1
        start = n
        if code < _CLEAR:
            out[n] = code
            length = 1
        elif code < free:
            first = starts[code]
            length = min(lengths[code], out.size - n)
            for i in range(length):  # forward: the string may end in its own first byte
                out[n + i] = out[first + i]
        else:
            return -1
        n += length
    return n


@kept
def unpack_bits(data, out):
    """Unpack ``data`` packed by PackBits into ``out``, both uint8; gives the bytes written."""
    at, n = 0, 0
    while n < out.size and at < data.size:
        head = data[at]
        at += 1
        if head < 128:
            count = min(head + 1, data.size - at, out.size - n)
            for i in range(count):
                out[n + i] = data[at + i]
            at += head + 1
            n += count
        elif head > 128 and at < data.size:
            count = min(257 - head, out.size - n)
            for i in range(count):
                out[n + i] = data[at]
            at += 1
            n += count
    return n
