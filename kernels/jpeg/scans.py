"""The scans of a progressive JPEG: their headers, read and checked before any of their data are decoded.

The DC coefficients come in scans of one or several components, AC coefficients in scans of one component and a band of
positions. A first scan has all bits of a coefficient but the lowest ones, a refinement one bit more. Only files whose
scans follow each other as T.81, G.1.1.1 demands and which hold all bits of all coefficients are accepted: libjpeg
smooths an image that lacks some, and warns of others.
"""

from typing import Final

import numpy as np

from ..scalar import loop
from .headers import big, find_tables
from .huffman import next_marker
from .layout import TABLES

MOST_SCANS: Final = 256  # of a file; each visits all blocks, encoders write about ten
i64 = np.int64

COMPONENTS: Final = 3
_LOWEST: Final = 13  # bits by which a coefficient is shifted at most, as in libjpeg
_UNKNOWN = -1

#: A scan. Places are offsets in the file.
SCAN: Final = np.dtype(
    [
        ("start", "<i8"),  # place of its data,
        ("stop", "<i8"),  # and of the marker after them
        ("components", "<i8"),  # their number
        ("component", "<i8", COMPONENTS),  # each of them, 0 to 2
        ("table", "<i8", COMPONENTS),  # place of the Huffman table of each; 0 where none is needed
        ("first", "<i8"),  # positions in the block: 0 to 0, or a band of AC coefficients
        ("last", "<i8"),
        ("refines", "<i8"),  # 1 for a scan of one more bit of each coefficient
        ("low", "<i8"),  # the lowest bit that is known after it
        ("restart", "<i8"),  # MCUs of a restart interval; 0 for none
    ],
    align=True,
)

#: The scans of a file, and scratch to read them.
SCANS: Final = np.dtype(
    [
        ("scans", SCAN, MOST_SCANS),
        ("huffman", "<i8", TABLES),  # place of each Huffman table, as in HEADER
        ("known", "<i8", (COMPONENTS, 64)),  # lowest known bit of each coefficient
    ],
    align=True,
)


@loop
def _read_components(data, at, size, header, scan):
    """Read the components of a scan, in the order of the frame; return whether they are."""
    count = data[at + 2]
    if count < 1 or count > header.components or size != 6 + 2 * count:
        return False
    scan.components = count
    c = 0
    for k in range(count):
        while c < header.components and data[header.frame + 8 + 3 * c] != data[at + 3 + 2 * k]:
            c += 1
        if c == header.components:
            return False
        scan.component[k] = c
        c += 1
    return True


@loop
def _read_band(data, at, scan):
    """Read the band of a scan from the last three bytes of its header; return whether it is legal."""
    scan.first, scan.last = data[at], data[at + 1]
    high, scan.low = data[at + 2] >> 4, data[at + 2] & 15
    scan.refines = 1 if high else 0
    if scan.first == 0:
        band = scan.last == 0
    else:
        band = scan.components == 1 and scan.first <= scan.last < 64
    return band and scan.low <= _LOWEST and (high == 0 or high == scan.low + 1)


@loop
def _follows(scan, known):
    """Record the bits of a scan; return whether they are those after the ones that are known."""
    for k in range(scan.components):
        bits = known[scan.component[k]]
        if scan.first and bits[0] == _UNKNOWN:
            return False
        for z in range(scan.first, scan.last + 1):
            if bits[z] != (scan.low + 1 if scan.refines else _UNKNOWN):
                return False
            bits[z] = scan.low
    return True


@loop
def _tables_of(data, at, huffman, scan):
    """Record the Huffman tables of a scan; return whether they are there."""
    for k in range(scan.components):
        scan.table[k] = 0
        if scan.first == 0 and scan.refines:
            continue
        selector = i64(data[at + 4 + 2 * k])
        number = selector >> 4 if scan.first == 0 else selector & 15
        if number > 3:
            return False
        scan.table[k] = huffman[number if scan.first == 0 else 4 + number]
        if scan.table[k] == 0:
            return False
    return True


@loop
def end_of(data, at, restart):
    """Return the place of the marker after a scan's data; restart markers belong to these."""
    at = next_marker(data, at)
    while restart and at + 1 < data.size and data[at + 1] >> 3 == 0xD0 >> 3:
        at = next_marker(data, at + 2)
    return at


@loop
def list_scans(data, header, found):
    """Read all scans of a file; return their number, or 0 if anything about them is unusual."""
    scans, huffman, known = found.scans, found.huffman, found.known
    for k in range(TABLES):
        huffman[k] = header.huffman[k]
    for c in range(COMPONENTS):
        for z in range(64):
            known[c, z] = _UNKNOWN
    restart = header.restart
    count = 0
    at = header.scan_header - 2
    while at + 4 <= data.size and data[at] == 0xFF:
        marker, size = data[at + 1], big(data, at + 2)
        if marker == 0xD9:
            break
        start, stop = at + 4, at + 2 + size
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        if size < 2 or stop > data.size:
            return 0
        if marker == 0xDA:
            if count == MOST_SCANS or size < 8:
                return 0
            scan = scans[count]
            if not _read_components(data, at + 2, size, header, scan) or not _read_band(data, stop - 3, scan):
                return 0
            if not _follows(scan, known) or not _tables_of(data, at + 2, huffman, scan):
                return 0
            scan.restart = restart
            scan.start = stop
            stop = end_of(data, stop, restart)
            scan.stop = stop
            count += 1
        elif marker == 0xC4:
            if not find_tables(data, start, stop, huffman):
                return 0
        elif marker == 0xDD and size == 4:
            restart = big(data, start)
        elif not (0xE0 <= marker <= 0xEF or marker == 0xFE):  # neither APPn nor COM
            return 0
        at = stop
    if at + 2 > data.size or data[at] != 0xFF or data[at + 1] != 0xD9:
        return 0
    for c in range(header.components):
        for z in range(64):
            if known[c, z] != 0:
                return 0
    return count
