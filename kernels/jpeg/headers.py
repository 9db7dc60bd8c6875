"""Headers of JPEG files, a whole batch in one call: sizes, EXIF orientation, and the places of tables and scan data.

A file is a sequence of marker segments: FF, a code, and except for a few codes a length of two bytes that counts itself
and the data. Only files of which every byte up to the scan is understood become ``BASELINE`` or ``PROGRESSIVE``.
Whatever is unusual, damaged or rare is left to other decoders, which then also report what is wrong.
"""

import numpy as np

from ..compiled import cached_jit
from ..cpu.intrinsics import address_of, bytes_at, load_bytes
from ..scalar import loop
from .books import SETS
from .checksum import checksum
from .frame import FULL, is_too_narrow, set_frame
from .layout import (
    BASELINE,
    FOR_PILLOW,
    GRAY,
    HEADER,
    JPEG,
    KEPT_BLOCKS,
    NO_FRAMES,
    OTHER,
    PROGRESSIVE,
    RECODED,
    RECODED_HEAD,
    RECODED_MAGIC,
    RGB,
    SEGMENT_BLOCKS,
    TOO_LARGE,
    YCBCR,
)

i64, u32 = np.int64, np.uint32

_ORIENTATION_TAG = 0x0112
_TRANSPOSED = 5  # the first orientation that exchanges height and width
_TIFF = 42  # the number after the byte order
_IFD = 13  # the last of the types of TIFF 6.0 and its supplements
_ENTRY = 12  # bytes of an entry of a TIFF directory: tag 2, type 2, count 4, and 4 of the value or its offset
_BITS = 8  # of a sample
_LARGEST = 4  # sampling factor that T.81 allows
_PROGRESSIVE_PROCESS = 2  # in a frame header's marker
_TAIL = 1 << 16  # bytes at the end in which the end-of-image marker is looked for: cameras append other data


@loop
def big(data, at):
    """Return two bytes as a big-endian number."""
    return data[at] << 8 | data[at + 1]


@loop
def _number(data, at, size, little):
    """Return a number of a TIFF file in its byte order."""
    value = 0
    for k in range(size):
        value |= data[at + k] << 8 * (k if little else size - 1 - k)
    return value


@loop
def _whole_number_bytes(kind):
    """Return the bytes of a value of a TIFF type of whole numbers; 0 for other types."""
    if kind == 6:  # SBYTE; the values of BYTE and UNDEFINED are bytes, not numbers
        return 1
    if kind == 3 or kind == 8:  # SHORT, SSHORT
        return 2
    return 4 if kind == 4 or kind == 9 or kind == _IFD else 0  # LONG, SLONG


@loop
def orientation_in(data, start, stop):
    """Return the orientation, 1 to 8, in the TIFF file ``data[start:stop]``; 1 where it is missing or unreadable.

    EXIF wants one SHORT. As in Pillow's ``exif_transpose``, any type of whole number is accepted, the first of several
    values is taken if all of them are there, and the 42 of the header may be in either byte order. (Pillow also takes
    fractions that equal a whole number.)
    """
    if stop - start < 8:
        return 1
    little = data[start] == 0x49  # "II" is little-endian, "MM" big-endian
    if data[start + 1] != data[start] or (data[start] != 0x49 and data[start] != 0x4D):
        return 1
    if _number(data, start + 2, 2, False) != _TIFF and _number(data, start + 2, 2, True) != _TIFF:
        return 1
    directory = start + _number(data, start + 4, 4, little)
    if directory + 2 > stop:
        return 1
    entry = directory + 2
    for _ in range(_number(data, directory, 2, little)):
        if entry + _ENTRY > stop:
            return 1
        tag, kind = _number(data, entry, 2, little), _number(data, entry + 2, 2, little)
        count = _number(data, entry + 4, 4, little)
        if tag == _ORIENTATION_TAG and 1 <= kind <= _IFD and count:
            size = _whole_number_bytes(kind)
            at = entry + 8
            if count * size > 4:  # the entry then holds their offset
                at = start + _number(data, at, 4, little)
            value = _number(data, at, size, little) if at + count * size <= stop else 0
            return value if 1 <= value <= 8 else 1
        entry += _ENTRY
    return 1


@cached_jit("int64(uint8[::1])")
def read_orientation(block):
    """Return the orientation of an EXIF block, given as an array of bytes; see :func:`orientation_in`."""
    return orientation_in(block, 0, block.size)


@loop
def _is_exif(data, at, stop):
    """Return whether "Exif" and two zeros are at a place."""
    return (
        at + 6 <= stop and data[at] == 0x45 and data[at + 1] == 0x78 and data[at + 2] == 0x69 and data[at + 3] == 0x66
        and data[at + 4] == 0 and data[at + 5] == 0
    )  # fmt: skip


@loop
def find_tables(data, at, stop, huffman):
    """Record the places of Huffman tables; return whether they fill the marker segment exactly."""
    while at + 17 <= stop:  # kind << 4 | number, 16 counts of codes by length, their symbols
        kind, table = data[at] >> 4, data[at] & 15
        count = 0
        for k in range(1, 17):
            count += data[at + k]
        if kind > 1 or table > 3 or count > 256 or at + 17 + count > stop:
            return False
        huffman[4 * kind + table] = at + 1
        at += 17 + count
    return at == stop


@loop
def _read_quant(data, at, stop, places):
    """Record the places of quantization tables; return whether they fill the marker segment exactly."""
    while at < stop:  # precision << 4 | number, 64 steps of one or two bytes
        wide, table = data[at] >> 4, data[at] & 15
        end = at + 1 + 64 * (1 + wide)
        if wide > 1 or table > 3 or end > stop:
            return False
        places[table] = at
        at = end
    return at == stop


@loop
def _read_frame(data, at, size, process, header):
    """Read the frame header whose length field lies at a place."""
    # Offsets from there: precision 2, height 3, width 5, components 7, then 3 bytes each: id, sampling, table.
    header.process = process
    header.height = big(data, at + 3)
    header.width = big(data, at + 5)
    components = data[at + 7]
    header.components = components
    if size == 8 + 3 * components:
        for c in range(min(components, 4)):
            header.sampling[c] = data[at + 9 + 3 * c]


@loop
def _sampling_is_ours(header):
    """Return whether this decoder implements the subsampling of an image: 4:4:4, 4:2:2, 4:2:0 or 4:4:0."""
    if header.components == 1:  # its factors have no effect, but must be legal
        return 1 <= header.sampling[0] >> 4 <= _LARGEST and 1 <= header.sampling[0] & 15 <= _LARGEST
    if header.sampling[1] != 0x11 or header.sampling[2] != 0x11:
        return False
    luma = header.sampling[0]
    return luma == 0x11 or (header.color == YCBCR and (luma == 0x12 or luma == 0x21 or luma == 0x22))


@loop
def _find_quant(data, frame, places, header):
    """Record the place of each component's quantization table; return whether all are there."""
    for c in range(header.components):
        table = data[frame + 10 + 3 * c]
        if table > 3 or places[table] == 0:
            return False
        header.quant[c] = places[table]
    return True


@loop
def _scan_is_ours(data, frame, scan, coded, header):
    """Return whether the first scan holds all components in their order, each with tables; record those tables.

    ``coded`` is False where the file has other tables instead.
    """
    # Offsets from the length field: count 2; then id and tables of each component; 3 bytes of the progressive mode.
    n = header.components
    if big(data, scan) != 6 + 2 * n or data[scan + 2] != n:
        return False
    # Spectral selection from 0 to 63 without successive approximation: all coefficients, at once.
    if data[scan + 3 + 2 * n] != 0 or data[scan + 4 + 2 * n] != 63 or data[scan + 5 + 2 * n] != 0:
        return False
    for c in range(n):
        selector = data[scan + 4 + 2 * c]
        dc, ac = selector >> 4, selector & 15
        if data[scan + 3 + 2 * c] != data[frame + 8 + 3 * c] or dc > 3 or ac > 3:
            return False
        if coded and (header.huffman[dc] == 0 or header.huffman[4 + ac] == 0):
            return False
        header.dc_table[c] = dc
        header.ac_table[c] = 4 + ac
    return True


@loop
def _color_of(data, frame, components, jfif, adobe):
    """Return the color space, by the rules of libjpeg. ``adobe`` is the transform flag of Adobe's marker, or -1."""
    if components == 1:
        return GRAY
    if jfif:
        return YCBCR
    if adobe >= 0:
        return RGB if adobe == 0 else YCBCR
    named = data[frame + 8] == 0x52 and data[frame + 11] == 0x47 and data[frame + 14] == 0x42  # "RGB"
    return RGB if named else YCBCR


@loop
def _is_whole(data, scan):
    """Return 1 if the last bytes hold an end-of-image marker, else 0."""
    # Not before the scan: the thumbnail in an EXIF block has such a marker, too.
    at = data.size - 2
    first = max(scan, data.size - _TAIL)
    while at >= first:
        if data[at] == 0xFF and data[at + 1] == 0xD9:
            return 1
        at -= 1
    return 0


@loop
def _is_frame(marker):
    low = marker & 15
    return marker >> 4 == 0xC and low != NO_FRAMES[0] and low != NO_FRAMES[1] and low != NO_FRAMES[2]


@loop
def _read(data, first, header, places):
    """Read the marker segments of one file up to the first scan; they must follow each other without gaps.

    ``first`` is the place where the JPEG begins.
    """
    header.kind = JPEG  # each return below leaves the file, and the report of what is wrong with it, to Pillow
    header.orientation = 1
    size = data.size
    at = first + 2
    frame = 0
    jfif, adobe, tagged, whole = False, -1, False, True
    while True:
        while at + 4 <= size and data[at] == 0xFF and data[at + 1] == 0xFF:  # fill bytes
            at += 1
        if at + 4 > size:
            return
        marker, length = data[at + 1], big(data, at + 2)
        start, stop = at + 4, at + 2 + length
        # Markers without a length (FF D0 to D9), and what is no marker, are for other decoders.
        if data[at] != 0xFF or marker < 0xC0 or 0xD0 <= marker <= 0xD9 or length < 2 or stop > size:
            return
        if marker == 0xDA:
            break
        if _is_frame(marker):
            if frame or length < 8:
                return
            frame = at + 2
            _read_frame(data, frame, length, marker & 15, header)
        elif marker == 0xC4:
            whole = find_tables(data, start, stop, header.huffman) and whole
        elif marker == 0xDB:
            whole = _read_quant(data, start, stop, places) and whole
        elif marker == 0xDD and length == 4:
            header.restart = big(data, start)
        elif marker < 0xE0 or (marker > 0xEF and marker != 0xFE):  # neither APPn nor COM: rare or reserved
            whole = False
        elif marker == 0xE0 and length >= 16 and big(data, start) == 0x4A46 and big(data, start + 2) == 0x4946:
            jfif = jfif or data[start + 4] == 0
        elif marker == 0xEE and length >= 14 and big(data, start) == 0x4164 and big(data, start + 2) == 0x6F62:
            if data[start + 4] == 0x65:
                adobe = data[start + 11]
        elif marker == 0xE1 and not tagged and _is_exif(data, start, stop):
            tagged = True
            header.orientation = orientation_in(data, start + 6, stop)
        at = stop
    if not frame:
        return
    # Sizes, orientation and scan are now reliable. Whether this decoder can decode the file is decided below.
    header.strict = 1
    header.frame, header.scan_header = frame, at + 2
    header.scan = at + 2 + big(data, at + 2)
    header.whole = _is_whole(data, header.scan)
    components = header.components
    if not whole or header.process > _PROGRESSIVE_PROCESS or data[frame + 2] != _BITS:
        return
    if components != 1 and components != 3:
        return
    if header.height == 0 or header.width == 0 or big(data, frame) != 8 + 3 * components:
        return
    header.color = _color_of(data, frame, components, jfif, adobe)
    if not _sampling_is_ours(header) or not _find_quant(data, frame, places, header):
        return
    set_frame(header)
    if is_too_narrow(header, i64(FULL)):
        return
    if header.process == _PROGRESSIVE_PROCESS:
        if header.whole and header.rows * header.columns * header.per <= KEPT_BLOCKS:
            header.kind = PROGRESSIVE
    elif _scan_is_ours(data, frame, at + 2, first == 0, header):
        header.kind = BASELINE


@loop
def is_recoded(data):
    """Return whether a file begins as a recoded one of this version, all of it undamaged up to the first segment."""
    if data.size < RECODED_HEAD:
        return False
    for k in range(len(RECODED_MAGIC)):
        if data[k] != RECODED_MAGIC[k]:
            return False
    if data[RECODED_HEAD - 1] > 1:  # flags
        return False
    stop = RECODED_HEAD + i64(load_bytes(data, 12)) + 4 * i64(load_bytes(data, 16))
    return stop <= data.size and load_bytes(data, 8) == u32(checksum(data[:stop], 12))


@loop
def read_head(header, data):
    """Return MCU rows of a segment, 0 for a damaged file, its sets of tables, and the blocks of an MCU row."""
    rows, blocks = header.rows, header.columns * header.per
    each = min(i64(data[RECODED_HEAD - 4]), rows)
    luma, chroma = i64(data[RECODED_HEAD - 3]), i64(data[RECODED_HEAD - 2])
    if (each > 1 and each * blocks > SEGMENT_BLOCKS) or max(luma, chroma) >= SETS:
        each = luma = chroma = i64(0)
    total = -(-rows // max(each, 1))
    if i64(load_bytes(data, 16)) != total or header.scan + 4 * total > data.size:
        each = i64(0)
    return each, luma, chroma, blocks


@loop
def _read_file(data, header, places):
    for k in range(places.size):
        places[k] = 0
    if data.size >= 2 and data[0] == 0xFF and data[1] == 0xD8:
        _read(data, i64(0), header, places)
    elif is_recoded(data):
        stop = min(RECODED_HEAD + i64(load_bytes(data, 12)), data.size)  # changed since, perhaps
        _read(data[:stop], i64(RECODED_HEAD), header, places)
        fits = header.kind == BASELINE and header.scan == stop and read_head(header, data)[0] != 0
        fits = fits and data[RECODED_HEAD] == 0xFF and data[RECODED_HEAD + 1] == 0xD8
        header.kind = RECODED if fits else OTHER
        header.strict = header.whole = 1 if fits else 0
    else:
        header.kind = OTHER


@cached_jit("none(int64[::1], int64[::1], HEADER[::1], int64[::1])", nogil=False, HEADER=HEADER)  # a microsecond a file
def read_headers(addresses, sizes, headers, places):
    """Fill the headers, zeros before, of files in memory; ``places`` (4,) is scratch.

    Sizes may be missing where the kind is not ``BASELINE`` and ``strict`` not 1.
    """
    for i in range(sizes.size):
        _read_file(bytes_at(addresses[i], sizes[i]), headers[i], places)


@cached_jit("int64(uint8[::1], HEADER[::1], int64[::1])", nogil=False, HEADER=HEADER)
def read_header(data, headers, places):
    """Read the header of one file into (1,) HEADER, as above; return the address of its bytes."""
    _read_file(data, headers[0], places)
    return address_of(data)


@cached_jit("int64(HEADER[::1], int64, int64[:, ::1], int64[::1])", nogil=False, HEADER=HEADER)
def shown_sizes(headers, most, sizes, left):
    """Find the sizes (N, 2) of images as displayed; return how many files are left to other readers.

    ``left`` is ``FOR_PILLOW`` for files that only Pillow may decode, else 0; it is filled also for headers that are not
    reliable, and with ``TOO_LARGE`` for more than ``most`` pixels.
    """
    count = 0
    for i in range(headers.size):
        header = headers[i]
        if left[i]:
            header.kind = JPEG
        elif header.strict == 0 or header.height == 0 or header.width == 0:
            left[i] = FOR_PILLOW
        elif header.height * header.width > most:
            left[i] = TOO_LARGE
        count += left[i] != 0
        turned = header.orientation >= _TRANSPOSED
        sizes[i, 0] = header.width if turned else header.height
        sizes[i, 1] = header.height if turned else header.width
    return count
