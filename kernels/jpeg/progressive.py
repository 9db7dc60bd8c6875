"""Decoder of a region of a progressive JPEG: all scans into coefficients, then pixels as of a baseline file.

Coefficients lie in memory MCU by MCU, as those of a baseline file, but of all MCU rows that the region needs. Of blocks
outside the region only the positions of coefficients other than zero are kept, which refinements need. A scan is read
up to the last row of the region. Whatever libjpeg would warn of is left to Pillow.
"""

from typing import Any, Final

import numpy as np

from ..compiled import NativeFunction
from ..cpu.intrinsics import array_at, bytes_at, longs_in, records_in, shorts_in
from ..scalar import loop
from .decode import DECODER
from .frame import MCU, chroma_side, list_blocks, mcus_of, region_bytes
from .huffman import STREAM, begin, fill, restart
from .layout import DONE, IRREGULAR, TABLES
from .refine import CODES, PART, ac_first, ac_refine, build_codes, dc_first, dc_refine
from .rows import SHAPE, finish_row, read_steps, room_for_rows
from .scans import SCANS, list_scans
from .tables import ZIGZAG, build_table
from .vectors import trailing_zeros

i64, u64 = np.int64, np.uint64

#: The first part of the scratch, whose size does not depend on the image.
_WORK: Final = np.dtype(
    [("stream", STREAM), ("scans", SCANS), ("codes", CODES), ("part", PART), ("mcu", MCU), ("shape", SHAPE)], align=True
)
_WORK_BYTES: Final = _WORK.itemsize
_work_in = records_in(_WORK)

_BLOCK_BYTES = 64 * 2 + 8  # coefficients, and the mask of those that are not zero
_DC_PLACE = u64(1 << 63)  # of a mask


def coefficient_bytes(header: Any) -> int:
    """Return the bytes of scratch that an image of a progressive HEADER needs in addition to one that is not."""
    return _WORK_BYTES + int(header["rows"] * header["columns"] * header["per"] + 1) * _BLOCK_BYTES


@loop
def _set_grid(header, scan, part):
    """Fill in a scan's blocks; return the rows and columns of its MCUs, and how many of the rows an MCU row has."""
    part.blocks = 0
    for k in range(scan.components):
        c = scan.component[k]
        for j in range(header.across[c] * header.down[c]):
            part.offsets[part.blocks] = header.first_block[c] + j
            part.predictor[part.blocks] = k
            part.blocks += 1
    c = scan.component[0]
    if scan.components == 1:  # each block is an MCU
        part.blocks, part.across = 1, header.across[c]
        if c == 0:  # those that only fill up the image's MCUs are left out
            return -(-header.height // 8), -(-header.width // 8), header.down[c]
    else:  # the MCUs are those of the image, less the other components
        part.across = 1
    return header.rows, header.columns, i64(1)


@loop
def _decode_rows(data, header, scan, limits, tables, work, coefficients, masks):
    """Decode a scan up to the last MCU row of the region; return whether it is as it should be."""
    first, end, top, bottom = limits
    stream, part, codes = work.stream, work.part, work.codes
    total = header.columns
    rows, columns, down = _set_grid(header, scan, part)
    part.run = 0
    begin(data, scan.start, scan.restart, stream)
    stream.marker = 0
    wanted = min(rows, bottom * down)
    for y in range(wanted):
        row = y // down
        part.block = row * total * part.per + (y % down) * part.across
        part.low, part.high = (first, end) if row >= top else (i64(0), i64(0))
        x = i64(0)
        while x < columns:
            if stream.left == 0:
                if not restart(data, scan.restart, stream):
                    return False
                part.run = 0
            until = min(columns, x + stream.left)
            if scan.first:
                if scan.refines:
                    after = ac_refine(stream, x, until, scan, part, codes, coefficients, masks, ZIGZAG)
                else:
                    after = ac_first(stream, x, until, scan, part, codes, coefficients, masks, ZIGZAG)
            elif scan.refines:
                after = dc_refine(stream, x, until, scan, part, coefficients)
            else:
                after = dc_first(stream, x, until, scan, part, tables, coefficients)
            if after < 0 or (stream.ended != 0 and (after < until or stream.bit > 8 * stream.length)):
                return False
            if after < until:
                fill(data, stream)
            stream.left -= after - x
            x = after
    if wanted < rows:
        return True
    if not stream.ended:
        fill(data, stream)
    return stream.ended != 0 and stream.raw == scan.stop and 0 <= 8 * stream.length - stream.bit < 8


@loop
def _build_tables(data, scan, tables, codes):
    """Build the look-up tables of a scan; return whether they are legal."""
    if scan.first:
        return build_codes(data, scan.table[0], scan, codes)
    for k in range(scan.components):
        if not scan.refines and not build_table(data, scan.table[k], tables[k], False):
            return False
    return True


@loop
def _is_needed(scan, header, scale, channels):
    """Return whether the result depends on a scan: not on chroma if it is gray, and on DC alone at an eighth."""
    c = scan.component[0]
    if scan.components == 1 and c > 0 and channels == 1:
        return False
    return scan.first == 0 or (scale if c == 0 else chroma_side(header, scale)) > 1


@loop
def decode_scans(data, header, limits, scale, channels, tables, memory):
    """Decode the scans that a region depends on, with ``limits`` in MCUs: columns, then rows, first and end each.

    Return whether the file is as it should be, the coefficients of these rows, the masks of all rows up to the end, and
    the byte of scratch after them.
    """
    first, end, top, bottom = limits
    total, per = header.columns, header.per
    work = _work_in(memory, 0, 1)[0]
    count = list_scans(data, header, work.scans)
    at = _WORK_BYTES
    masks = longs_in(memory, at, bottom * total * per)
    at += 8 * masks.size
    kept = (bottom - top) * total * per
    coefficients = shorts_in(memory, at, 64 * (kept + 1))
    part = work.part
    part.per, part.before, part.spare = per, top * total * per, kept
    for k in range(masks.size):
        masks[k] = 0
    for row in range(bottom - top):
        begins = 64 * (row * total + first) * per
        some = coefficients[begins : begins + 64 * (end - first) * per]
        for k in range(some.size):
            some[k] = 0
    good = count > 0
    for k in range(count):
        scan = work.scans.scans[k]
        if good and _is_needed(scan, header, scale, channels):
            good = _build_tables(data, scan, tables, work.codes)
            good = good and _decode_rows(data, header, scan, limits, tables, work, coefficients, masks)
    return good, coefficients, masks, at + 2 * coefficients.size


@loop
def _decode_region(data, header, request, out, tables, memory, status):
    """Decode the requested region; return whether the file is as it should be."""
    total, per = header.columns, header.per
    first, end, top, bottom = limits = mcus_of(header, request.scale, request.region)
    columns = end - first
    good, coefficients, masks, at = decode_scans(data, header, limits, request.scale, request.channels, tables, memory)
    if not good:
        return False
    work = _work_in(memory, 0, 1)[0]
    mcu, shape = work.mcu, work.shape
    list_blocks(header, mcu)
    lasts = memory[at : at + columns * per]
    at += columns * per + (columns * per & 1)
    room = room_for_rows(header, request.scale, columns, memory, at, shape)
    read_steps(header, data, room[0])
    for row in range(top, bottom):
        status.row = row
        begins = (row * total + first) * per
        for b in range(columns * per):
            lasts[b] = 63 - i64(trailing_zeros(u64(masks[begins + b]) | _DC_PLACE))
        begins = 64 * (begins - top * total * per)
        some = coefficients[begins : begins + 64 * columns * per]
        finish_row(header, request, mcu, shape, row, first, columns, some, lasts, room, out)
    return True


def _decode(header, request, out_, tables_, work_, work_size, status):
    """Decode the pixels of a region; the arguments are those of the baseline decoder."""
    region, data = request.region, bytes_at(request.data, request.size)
    out = array_at(out_, region_bytes(region, request.channels))
    status.row = 0
    status.rows = header.rows
    tables, memory = array_at(tables_, TABLES), array_at(work_, work_size)
    status.result = DONE if _decode_region(data, header, request, out, tables, memory, status) else IRREGULAR


DECODE_FUNCTION = NativeFunction("decode_progressive_jpeg", _decode, DECODER)
