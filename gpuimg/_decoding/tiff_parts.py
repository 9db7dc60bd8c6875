"""A directory of a TIFF file: which decoder it needs, and the tags that affect its pixels.

Pillow warns of damaged tags that do not affect the image, and it depends on their versions whether Pillow or libtiff
applies the orientation. So Pillow receives a file with the tags it needs and no orientation. It decodes the layouts of
its table here, except for uncompressed rows that follow each other, which are pixels already. Of other lossless files
it unpacks the bytes of each plane, as if they were gray pixels, and :func:`pixels_of_rows` makes pixels of them. What
is in neither table is refused.
"""

import struct
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from itertools import accumulate, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .decoder import PillowHeader, RefusedError, check_memory
from .tiff_directories import (
    HEAD,
    SUBDIRECTORIES,
    WHOLE,
    Directory,
    Entry,
    Form,
    Read,
    form_of,
    integers,
    pages_at,
    tags_at,
    with_values,
    written,
)  # fmt: skip

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _FILL_ORDER = 256, 257, 258, 259, 262, 266
_OFFSETS, _ORIENTATION, _SAMPLES, _ROWS, _COUNTS, _PLANAR, _PREDICTOR = 273, 274, 277, 278, 279, 284, 317
_TILE_WIDTH, _TILE_HEIGHT, _TILE_OFFSETS, _TILE_COUNTS, _EXTRA, _FORMAT = 322, 323, 324, 325, 338, 339
_GRAY, _RGB, _PALETTE, _CMYK, _YCBCR, _LAB = (0, 1), 2, 3, 5, 6, 8  # white is 0 in the first gray
_WHITE_IS_ZERO = 0
_RAW, _JPEG = 1, 7
_FAX = (2, 3, 4)
_PREDICTED = (5, 8, 32946, 34925, 50000)  # LZW, Deflate, LZMA and Zstandard: those for which predictors are defined
_BYTES = (_RAW, 32773, *_PREDICTED)  # with PackBits: compressions of any bytes
_PREMULTIPLIED, _ALPHA = 1, (1, 2, 999)  # of extra samples; Corel Draw writes 999
_REFERENCE = (0, 255, 128, 255, 128, 255)
_D50 = (0.3457, 0.3585)  # chromaticity of the white that L*a*b* colors have by default
_LUMA = (0.299, 0.587, 0.114)
_NAMES = {
    4: "a transparency mask", 9: "ICC L*a*b* colors", 10: "ITU L*a*b* colors", 32803: "a color filter array",
    32844: "LogL values", 32845: "LogLuv colors", 34892: "linear raw values",
}  # fmt: skip
_COLORS = {0: "white is 0", 1: "gray", 2: "RGB", 3: "palette", 5: "CMYK", 6: "YCbCr", 8: "L*a*b*"}
_COMPRESSIONS = {
    2: "CCITT RLE", 3: "CCITT group 3", 4: "CCITT group 4", 6: "old-style JPEG", _JPEG: "JPEG",
    32766: "NeXT", 32809: "ThunderScan", 34661: "JBIG", 34676: "SGI LogLuv", 34677: "SGI LogLuv24",
    34712: "JPEG 2000", 34887: "LERC", 50001: "WebP", 50002: "JPEG XL", 52546: "JPEG XL",
}  # fmt: skip
_SCALED = 8  # bits up to which values are scaled to bytes
_PLAIN = {
    (1, 1),
    (1, 2, 0),
    (1, 2, 2),
    (_RGB, 3),
    (_RGB, 4, 0),
    (_RGB, 4, 2),
}  # photometric interpretation, samples, extra ones
# Of JPEG and fax compression: photometric interpretation, samples and bits.
_CODED = {_JPEG: {(1, 1, 8), (_RGB, 3, 8), (_YCBCR, 3, 8), (_CMYK, 4, 8)}} | {
    kind: {(0, 1, 1), (1, 1, 1)} for kind in _FAX
}
_DEPTHS = {_PALETTE: (1, 2, 4, 8), _CMYK: (8, 16), _YCBCR: (8,), _LAB: (8,)}  # bits
#: Photometric interpretation, samples, bits and compression (LZW, Deflate or none) that nvTIFF has, too.
_COMMON = {(*kind, bits, way) for kind in ((1, 1), (_RGB, 3)) for bits in (8, 16) for way in (_RAW, 5, 8, 32946)}
#: Of pixels that need no decoder.
_STORED = {(1, 1, _RAW), (_RGB, 3, _RAW)}
_BAND = 1 << 16  # values unpacked at a time
_KEPT = {
    _WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _FILL_ORDER, _OFFSETS, _SAMPLES, _ROWS, _COUNTS, _PREDICTOR,
    _TILE_WIDTH, _TILE_HEIGHT, _TILE_OFFSETS, _TILE_COUNTS, _EXTRA, _FORMAT,
    292, 293,  # options of the fax compressions
    320, 347, 529, 530, 531, 532,  # palette, JPEG tables, YCbCr coefficients, sampling, position, reference
    *range(512, 522),  # old JPEG
}  # fmt: skip
_KIND, _WHITE, _INK_SET = 254, 318, 332
_COEFFICIENTS, _SUBSAMPLING, _BLACK_WHITE, _PROFILE = 529, 530, 532, 34675
_X_DPI, _Y_DPI, _UNIT, _INCH, _CENTIMETER = 282, 283, 296, 2, 3
_UNUSUAL = {_KIND, _WHITE, SUBDIRECTORIES}  # tags of which most files have none, or one that changes nothing
_READ = {*_KEPT, *_UNUSUAL, _ORIENTATION, _PLANAR, _INK_SET}  # Pillow misreads single planes
_SINGLE = {_WIDTH, _HEIGHT, _COMPRESSION, _PHOTOMETRIC, _FILL_ORDER, _SAMPLES, _ROWS, _PLANAR, _PREDICTOR,
           _TILE_WIDTH, _TILE_HEIGHT}  # fmt: skip
_MOST_SAMPLES = 8
_LEAST_TILE = 16


def tiff_contents(data: bytes, page: int = 0) -> PillowHeader:
    """Read a directory of a TIFF file, by default the first one."""
    with _truncation():
        directory = _read(data, page=page)
    return _header(data, directory)


def tiff_pages(data: bytes) -> Iterator[PillowHeader]:
    """Read all directories of a TIFF file, one after another."""
    read = _reader(data)
    with _truncation():
        form = form_of(read)
        for at in pages_at(read, len(data), form):
            yield _header(data, _directory(data, read, form, at))


def _header(data: bytes, directory: Directory) -> PillowHeader:
    height, width = directory.number(_HEIGHT, 0), directory.number(_WIDTH, 0)
    for tag in _SINGLE & directory.entries.keys():
        directory.number(tag, 0)
    if SUBDIRECTORIES in directory.entries and directory.number(_KIND, 0) & 1:
        raise RefusedError("its first image is a reduced copy of another one; raw photos are not supported")
    bits = _checked_bits(directory)
    blocks = _checked_blocks(directory, len(data), height, width, bits)
    rows = _rows(directory, width, bits, blocks)
    orientation = directory.entries.get(_ORIENTATION)
    turn = directory.number(_ORIENTATION, 1) if orientation and orientation.kind in WHOLE else 1
    channels = directory.number(_SAMPLES, 1)
    if directory.number(_PHOTOMETRIC, 0) == _PALETTE:
        channels += 2
    turn = turn if 1 <= turn <= 8 else 1
    kind = directory.number(_PHOTOMETRIC, 0), channels, bits, directory.number(_COMPRESSION, _RAW)
    is_common = kind in _COMMON and blocks.planes == 1 and turn == 1 and directory.order == "<"
    is_common = is_common and directory.number(_FILL_ORDER, 1) == 1
    parts = _parts(directory, data) if rows is None else _planes(directory, data, rows, blocks)
    layout = rows or _stored(directory, blocks, height, width)
    depth = max(bits, _SCALED)
    return PillowHeader(
        height, width, channels, parts, turn, bits=depth, depth=bits, layout=layout, is_common=is_common
    )


def tiff_profile(data: bytes, page: int = 0) -> bytes | None:
    """Return the ICC profile of a page; None if it has none. Pillow does not open all files that are decoded here."""
    entry = _read(data, {_PROFILE}, page).entries.get(_PROFILE)
    return None if entry is None else bytes(entry.value)


def tiff_page_count(data: bytes) -> int:
    """Return the number of pages of a file."""
    read = _reader(data)
    with _truncation():
        return sum(1 for _ in pages_at(read, len(data), form_of(read)))


@contextmanager
def _truncation() -> Iterator[None]:
    """Name what is missing where a directory cannot be read."""
    try:
        yield
    except struct.error:
        raise ValueError("the header is truncated or damaged: no directory at the offset it gives") from None


def _reader(data: bytes) -> Read:
    view = memoryview(data)
    return lambda offset, size: view[offset : offset + size]


def tiff_resolution(data: bytes) -> tuple[float, float] | None:
    """Return the pixels per inch of a file, horizontally and vertically; None if it does not say."""
    directory = _read(data, {_X_DPI, _Y_DPI, _UNIT})
    unit = {_INCH: 1.0, _CENTIMETER: 2.54}.get(directory.number(_UNIT, _INCH))
    entries = [directory.entries.get(tag) for tag in (_X_DPI, _Y_DPI)]
    if unit is None or any(one is None or one.kind != 5 for one in entries):
        return None
    across, down = (struct.unpack_from(f"{directory.order}2I", one.value) for one in entries if one is not None)
    return (unit * across[0] / across[1], unit * down[0] / down[1]) if across[1] and down[1] else None


def _read(data: bytes, wanted: AbstractSet[int] = frozenset(_READ), page: int = 0) -> Directory:
    read = _reader(data)
    form = form_of(read)
    at = form.first if page == 0 else next(islice(pages_at(read, len(data), form), page, None), 0)
    if at == 0 and page:
        raise ValueError(f"it has no page {page}, but {tiff_page_count(data)}, of which the first is 0")
    return _directory(data, read, form, at, wanted)


def _directory(data: bytes, read: Read, form: Form, at: int, wanted: AbstractSet[int] = frozenset(_READ)) -> Directory:
    return with_values(read, form, tags_at(read, len(data), form, at, wanted, _UNUSUAL)[0])


def _checked_bits(directory: Directory) -> int:
    """Return the bits of every sample; refuse numbers of samples and values that no decoder here takes."""
    samples, bits = directory.number(_SAMPLES, 1), directory.numbers(_BITS, (1,))
    if not 1 <= samples <= _MOST_SAMPLES or len(bits) > _MOST_SAMPLES:
        raise RefusedError(f"{samples} samples per pixel, not 1 to {_MOST_SAMPLES}")
    form = set(directory.numbers(_FORMAT, (1,)))
    if 3 in form:
        raise RefusedError(
            f"floating-point samples ({max(bits)} bits) are not supported, only integers of 1 to 16 bits"
        )
    if not 1 <= min(bits) <= max(bits) <= 16:
        raise RefusedError(f"samples of {max(bits)} bits are not supported, only of 1 to 16")
    if form != {1}:
        raise RefusedError(
            f"{'signed' if 2 in form else 'complex or untyped'} samples of {max(bits)} bits are not supported"
        )
    if len(set(bits)) > 1 or len(bits) not in (1, samples):
        raise RefusedError(f"samples of {', '.join(map(str, bits))} bits in one file are not supported")
    return bits[0]


class Rows(NamedTuple):
    """How samples lie in the bytes of unpacked rows: of one plane with all samples, or of one for each."""

    order: str
    bits: int
    width: int
    samples: int
    photometric: int
    colors: int
    alpha: int | None  # its sample
    is_premultiplied: bool
    is_predicted: bool
    block: int  # columns of a strip or tile
    planes: int


class Stored(NamedTuple):
    """Bytes of gray or RGB pixels that lie in the file row by row, uncompressed."""

    offset: int
    shape: tuple[int, int, int]


def _stored(directory: Directory, blocks: "_Blocks", height: int, width: int) -> Stored | None:
    """Return the place of the pixels of a file in Pillow's table; None if they need unpacking or joining."""
    samples, rows = directory.number(_SAMPLES, 1), min(directory.number(_ROWS, height), height)
    kind = directory.number(_PHOTOMETRIC, 0), samples, directory.number(_COMPRESSION, _RAW)
    if blocks.is_tiled or kind not in _STORED or directory.numbers(_BITS, (1,)) != (_SCALED,) * samples:
        return None
    counts = [min(rows, height - y) * width * samples for y in range(0, height, rows)]
    *offsets, _ = accumulate(counts, initial=blocks.offsets[0])
    is_whole = blocks.counts == tuple(counts) and blocks.offsets == tuple(offsets)
    return Stored(offsets[0], (height, width, samples)) if is_whole else None


def _rows(directory: Directory, width: int, bits: int, blocks: "_Blocks") -> Rows | None:
    """Return the layout of a file whose bytes are to be unpacked; None for Pillow's; refuse all others."""
    photometric, samples = directory.number(_PHOTOMETRIC, 0), directory.number(_SAMPLES, 1)
    compression, predictor = directory.number(_COMPRESSION, _RAW), directory.number(_PREDICTOR, 1)
    if photometric in _NAMES:
        raise RefusedError(f"{_NAMES[photometric]} (photometric interpretation {photometric}) are not supported")
    colors = {_RGB: 3, _CMYK: 4, _YCBCR: 3, _LAB: 3}.get(photometric, 1)
    extra = directory.numbers(_EXTRA)
    if photometric == 1 and samples == 3 and not any(extra):  # as OpenCV shows satellite images
        colors, extra = 3, ()
    if photometric == _RGB and samples == 4 and not extra:
        extra = (2,)
    name = _COLORS.get(photometric, f"photometric interpretation {photometric}")
    what = f"{samples} sample{'s' * (samples > 1)} of {bits} bits ({name})"
    if samples != colors + len(extra):
        raise RefusedError(f"{what} and {len(extra)} extra samples are not supported")
    if compression in _PREDICTED and predictor != 1 and (predictor != 2 or bits not in (8, 16)):
        raise RefusedError(f"predictor {predictor} of {bits}-bit samples is not supported")
    if compression in _COMPRESSIONS or compression not in _BYTES:
        _check_coded(directory, compression, photometric, what, is_planar=blocks.planes > 1)
        return None
    if photometric not in (*_GRAY, _RGB):
        _check_colors(directory, photometric, bits, extra, what, is_planar=blocks.planes > 1)
        return None
    alpha = next((k for k, kind in enumerate(extra) if kind in _ALPHA), None)
    is_premultiplied = alpha is not None and extra[alpha] == _PREMULTIPLIED
    if is_premultiplied and photometric == _WHITE_IS_ZERO:
        raise RefusedError("gray that is 0 for white, multiplied by alpha, is not supported")
    is_plain = bits == _SCALED and blocks.planes == 1 and directory.number(_FILL_ORDER, 1) == 1
    if is_plain and (photometric, samples, *extra) in _PLAIN:
        return None
    if blocks.columns * samples // blocks.planes * bits % 8 and blocks.columns != width:
        raise RefusedError(f"tiles of {blocks.columns} columns of {bits} bits are not supported")
    return Rows(
        directory.order, bits, width, samples, photometric, colors, None if alpha is None else colors + alpha,
        is_premultiplied, predictor == 2 and compression in _PREDICTED,
        blocks.columns, blocks.planes,
    )  # fmt: skip


def _check_coded(directory: Directory, compression: int, photometric: int, what: str, *, is_planar: bool) -> None:
    """Refuse layouts of JPEG and fax compression that are not known to be decoded right."""
    samples, bits = directory.number(_SAMPLES, 1), directory.numbers(_BITS, (1,))[0]
    if (photometric, samples, bits) not in _CODED.get(compression, ()) or is_planar:
        name = _COMPRESSIONS.get(compression, f"of type {compression}")
        raise RefusedError(f"{what}{', in planes,' * is_planar} and {name} compression are not supported")


def _check_colors(
    directory: Directory, photometric: int, bits: int, extra: Sequence[int], what: str, *, is_planar: bool
) -> None:
    """Refuse palettes, CMYK, YCbCr and L*a*b* in layouts that are not known to be decoded right."""
    if bits not in _DEPTHS.get(photometric, ()) or extra or is_planar:
        raise RefusedError(f"{what}{', in planes,' * is_planar} are not supported")
    if directory.number(_FILL_ORDER, 1) != 1:
        raise RefusedError(f"{what} and the lowest bit first are not supported")
    if photometric == _CMYK and directory.number(_INK_SET, 1) != 1:
        raise RefusedError("inks other than CMYK are not supported")
    if photometric == _LAB and not directory.has(_WHITE, _D50):
        raise RefusedError("L*a*b* colors of another white than D50 are not supported")
    if photometric == _YCBCR:
        if directory.numbers(_SUBSAMPLING, (2, 2)) != (1, 1):
            raise RefusedError("YCbCr with subsampled chroma is supported with JPEG compression only")
        if not directory.has(_BLACK_WHITE, _REFERENCE) or not directory.has(_COEFFICIENTS, _LUMA):
            raise RefusedError("YCbCr with other coefficients or reference levels than JPEG's is not supported")


class _Blocks(NamedTuple):
    """Strips or tiles: those of each plane follow those of the plane before."""

    columns: int
    planes: int
    offsets: tuple[int, ...]
    counts: tuple[int, ...]
    is_tiled: bool


def _checked_blocks(directory: Directory, end: int, height: int, width: int, bits: int) -> _Blocks:
    """Return strips or tiles; refuse those that do not fit the image, or that extend past the end of the file."""
    if height < 1 or width < 1:
        raise ValueError(f"size {height} x {width}")
    tiled = _TILE_OFFSETS in directory.entries and _OFFSETS not in directory.entries
    samples = directory.number(_SAMPLES, 1)
    planes = samples if directory.number(_PLANAR, 1) == 2 else 1
    rows, columns = min(directory.number(_ROWS, height), height), width
    if tiled:
        rows, columns = directory.number(_TILE_HEIGHT, 0), directory.number(_TILE_WIDTH, 0)
    if rows < 1 or (tiled and min(rows, columns) < _LEAST_TILE):
        raise ValueError(f"{'tiles' if tiled else 'strips'} of {rows} x {columns}")
    needed = 2 * rows * ((columns * samples // planes * bits + 7) // 8)
    check_memory(needed, height, width, f"{'a tile' if tiled else 'a strip'} of {rows} x {columns}")
    wanted = -(-height // rows) * -(-width // columns) * planes
    offsets = directory.numbers(_TILE_OFFSETS if tiled else _OFFSETS)
    counts = directory.numbers(_TILE_COUNTS if tiled else _COUNTS)
    if len(offsets) < wanted:
        raise ValueError(f"{len(offsets)} strips or tiles of {wanted}")
    if any(offset + count > end for offset, count in zip(offsets, counts, strict=False)):
        raise ValueError("the data ends before its last strip or tile")
    return _Blocks(columns, planes, offsets[:wanted], counts[:wanted], tiled)


# -- the file passed to Pillow -----------------------------------------------------------------------------------------


def _parts(directory: Directory, data: bytes) -> Iterator[bytes | memoryview]:
    """Yield a file with the directory; if strips are compressed, with all bytes of the original, for libtiff."""
    entries = {tag: _wide(directory, tag, entry) for tag, entry in directory.entries.items() if tag in _KEPT}
    at = HEAD if directory.number(_COMPRESSION, _RAW) == _RAW else len(data)
    yield (b"II" if directory.order == "<" else b"MM") + struct.pack(directory.order + "HI", 42, at)
    yield memoryview(data)[HEAD:at]
    yield written(directory.order, entries, at)


def _planes(directory: Directory, data: bytes, rows: Rows, blocks: _Blocks) -> Iterator[bytes | memoryview]:
    """Yield a file for each plane, whose bytes are gray pixels."""
    order, each = directory.order, len(blocks.offsets) // blocks.planes
    scale = rows.samples // blocks.planes * rows.bits
    places = (_TILE_OFFSETS, _TILE_COUNTS) if blocks.is_tiled else (_OFFSETS, _COUNTS)
    kept = {_HEIGHT, _COMPRESSION, _FILL_ORDER, _ROWS, _TILE_HEIGHT} & directory.entries.keys()
    for plane in range(blocks.planes):
        numbers: dict[int, tuple[int, ...]] = {_PHOTOMETRIC: (1,), _SAMPLES: (1,), _BITS: (8,)}
        numbers[_WIDTH] = (-(-rows.width * scale // 8),)
        if blocks.is_tiled:
            numbers[_TILE_WIDTH] = (-(-blocks.columns * scale // 8),)
        for tag, values in zip(places, (blocks.offsets, blocks.counts), strict=True):
            numbers[tag] = values[plane * each : (plane + 1) * each]
        entries = {tag: _wide(directory, tag, directory.entries[tag]) for tag in kept}
        entries |= {tag: integers(order, *values) for tag, values in numbers.items()}
        yield b"".join(_parts(Directory(order, entries), data))


def pixels_of_rows(rows: Rows, planes: Sequence[NDArray[np.uint8]], *, is_scaled: bool = True) -> NDArray[Any]:
    """Return pixels (H, W, C) of the bytes of each plane's rows (H, B): uint8, or uint16 of ``rows.bits`` over 8.

    C is 1 or 3, and one more with alpha, which is not premultiplied; other extra samples are left out. Values of fewer
    than 8 bits are scaled to 255, unless they are labels.
    """
    samples = [_samples(rows, plane) for plane in planes]
    values = samples[0] if len(samples) == 1 else np.concatenate(samples, 2)
    top = (1 << rows.bits) - 1
    colors = values[..., : rows.colors]
    if rows.photometric == _WHITE_IS_ZERO:
        colors = top - colors
    if rows.alpha is not None:
        colors = np.concatenate([colors, values[..., rows.alpha, None]], 2)
    if rows.bits < _SCALED and is_scaled:
        colors = (colors * np.uint32(510) + top) // (2 * top)
    if rows.is_premultiplied:  # as in Pillow, also where alpha is 0
        white, alpha = max(top, 0xFF), values[..., rows.alpha, None].astype(np.uint32)
        whole = values[..., : rows.colors].astype(np.uint32) * white // np.maximum(alpha, 1)
        colors[..., :-1] = np.where(alpha > 0, np.minimum(whole, white), 0)
    return np.ascontiguousarray(colors, np.uint8 if rows.bits <= _SCALED else np.uint16)


def _samples(rows: Rows, plane: NDArray[np.uint8]) -> NDArray[Any]:
    """Return the samples (H, W, S) of a plane: bytes, or uint16."""
    height, each = len(plane), rows.samples // rows.planes
    shape = height, rows.width, each
    if rows.bits not in (8, 16):
        found = np.zeros((height, rows.width * each), np.uint16)
        step = max(_BAND // (rows.width * each), 1)
        for y in range(0, height, step):
            bits = np.unpackbits(plane[y : y + step], axis=1)[:, : rows.width * each * rows.bits]
            bits = bits.reshape(len(bits), -1, rows.bits)
            for k in range(rows.bits):
                found[y : y + step] = found[y : y + step] << 1 | bits[..., k]
        return found.reshape(shape)
    values = plane.reshape(shape) if rows.bits == 8 else plane.view(rows.order + "u2").astype(np.uint16).reshape(shape)
    if rows.is_predicted:  # of each block's rows
        values = values.copy()
        for x in range(0, rows.width, rows.block):
            block = values[:, x : x + rows.block]
            np.add.accumulate(block, axis=1, out=block, dtype=values.dtype)
    return values


def _wide(directory: Directory, tag: int, entry: Entry) -> Entry:
    """Convert the 64-bit integers of BigTIFF to 32 bits; Pillow receives a classic TIFF file."""
    if entry.kind not in (16, 18):
        return entry
    numbers = directory.numbers(tag)
    if max(numbers) >= 1 << 32:
        raise ValueError(f"tag {tag} is {max(numbers)}")
    return integers(directory.order, *numbers)
