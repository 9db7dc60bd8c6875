"""Intact files of random layouts of the formats that other libraries decode: each is right, or refused with a reason.

What is right is computed here, from the samples that a file is made of; libraries only compress them. A third of the
values are near white or black, where rounding overflows.
"""

import io
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi

from ..decoding.pngs import COLORS, FILTERS, packed_rows
from ..decoding.pngs import encode as encode_png
from ..decoding.tiffs import of_array
from ..libraries import library
from ..samples import file_of
from .jpegs import turned
from .mutate import Draw

Values = NDArray[Any]


class Made(NamedTuple):
    """A file and its pixels: RGB and alpha, 0 to 1; how far bytes may be from them; and values of 16 bits."""

    data: bytes
    words: str
    pixels: NDArray[np.float64]
    bits: int = 8
    tolerance: float = 0.51
    native: Values | None = None


def noise(draw: Draw, height: int, width: int, channels: int, top: int) -> Values:
    rng = np.random.default_rng(draw.word())
    values = rng.integers(0, top + 1, (height, width, channels))
    edge = np.where(rng.integers(0, 2, values.shape), top - values // 64, values // 64)
    return np.where(draw.below(3) == 0, edge, values).astype(np.uint16)


def size_of(draw: Draw) -> tuple[int, int]:
    return draw.between(1, 40), draw.between(1, 60)


def rgba(colors: Values, alpha: Values | None = None) -> NDArray[np.float64]:
    shape, alpha = colors.shape[:2], np.ones(1) if alpha is None else alpha
    return np.dstack([np.broadcast_to(colors, (*shape, 3)), np.broadcast_to(alpha, (*shape, 1))])


def rgb_of_ycc(values: Values) -> Values:
    y, cb, cr = np.moveaxis(values * 255.0, 2, 0)
    colors = y + 1.402 * (cr - 128), y - 0.344136 * (cb - 128) - 0.714136 * (cr - 128), y + 1.772 * (cb - 128)
    return np.clip(np.stack(colors, 2) / 255, 0, 1)


# -- TIFF --------------------------------------------------------------------------------------------------------------


def packed_bits(data: bytes) -> bytes:
    return b"".join(bytes([len(part) - 1]) + part for k in range(0, len(data), 128) if (part := data[k : k + 128]))


PACKS: dict[int, Callable[[bytes], bytes]] = {1: bytes, 8: zlib.compress, 32946: zlib.compress, 32773: packed_bits}
#: Of YCbCr and L*a*b*: a tag, the values that it has by default, and those of other colors.
COLORS_OF_TIFF = {
    6: [
        (529, [0.299, 0.587, 0.114], [0.2126, 0.7152, 0.0722]),
        (532, [0.0, 255.0, 128.0, 255.0, 128.0, 255.0], [16.0, 235.0, 128.0, 240.0, 128.0, 240.0]),
    ],
    8: [(318, [0.3457, 0.3585], [0.3127, 0.329])],
}
REVERSED = bytes(int(f"{k:08b}"[::-1], 2) for k in range(256))


def tiff_file(draw: Draw) -> Made:
    bits = draw.pick((1, 2, 4, 8, 8, 8, 8, 16, 16, 16, draw.between(1, 16)))
    photometric = draw.pick((0, 1, 1, 2, 2, 2, 3, 5, 6, draw.pick((4, 8, 9, 32803))))
    colors = {2: 3, 5: 4, 6: 3, 8: 3, 9: 3}.get(photometric, 1)
    extra = [draw.pick((0, 1, 2)) for _ in range(draw.pick((0, 0, 0, 1, 1, 2, 3)))]
    is_listed = draw.below(5) > 0
    samples, (height, width), top = colors + len(extra), size_of(draw), (1 << bits) - 1
    order, planar, compression = draw.pick("<>"), draw.below(3) == 0, draw.pick(list(PACKS))
    predictor = draw.pick((1, 2)) if compression in (8, 32946) else 1
    tile = (16 * draw.between(1, 3), 16 * draw.between(1, 3)) if draw.below(3) == 0 else None
    rows, big, reverse = draw.between(1, height), draw.below(4) == 0, draw.below(6) == 0
    form = draw.pick((1,) * 9 + (2,))
    values = noise(draw, height, width, samples, top)
    tags: dict[int, Any] = {258: [bits] * samples, 259: compression, 317: predictor, 339: [form] * samples}
    tags |= {338: extra} if extra and is_listed else {}
    tags |= {530: [draw.pick((1, 1, 2)), 1]} if photometric == 6 else {}
    tag, usual, other = draw.pick(COLORS_OF_TIFF.get(photometric, [(0, [], [])]))
    is_other = tag > 0 and draw.below(3) == 0
    if tag and (is_other or draw.below(2)):
        tags[tag] = other if is_other else usual
    palette = noise(draw, 3, 1 << bits, 1, 65535)[..., 0] if photometric == 3 else None
    if palette is not None:
        tags[320] = palette.ravel().tolist()
    turn = draw.pick((1, 1, 1, draw.between(1, 8)))
    tags |= {266: 2} if reverse else {}
    tags |= {274: turn} if turn > 1 else {}

    def encode(block: Values) -> bytes:
        if predictor == 2:
            block = np.diff(block, axis=1, prepend=np.zeros_like(block[:, :1])) & top
        return b"".join(packed_rows(block, bits, order))

    def pack(body: bytes) -> bytes:
        return PACKS[compression](body).translate(REVERSED if reverse else None)

    data = of_array(
        values, photometric, order=order, tile=tile, planar=planar, rows=rows, pack=pack, tags=tags, big=big,
        encode=encode,
    )  # fmt: skip
    words = f"{bits} bits, {photometric=}, {extra=}, {is_listed=}, {order}, {planar=}, {compression=}, {predictor=}"
    words += f", {tile=}, {reverse=}, {big=}, {turn=}"
    unit, tolerance, alpha = values / top, 0.51, np.ones(1)
    seen = extra if is_listed or not extra else [2] if (photometric, samples) == (2, 4) else None
    if photometric == 1 and samples == 3 and not any(seen or ()):  # as OpenCV shows satellite images
        colored, seen = unit, []
    else:
        colored = 1 - unit[..., :1] if photometric == 0 else unit[..., :colors]
    kind = next((k for k, one in enumerate(seen or ()) if one), None)
    if seen and kind is not None:
        alpha = unit[..., colors + kind, None]
        if seen[kind] == 1:
            colored = np.where(alpha > 0, np.minimum(colored / np.maximum(alpha, 1e-9), 1), 0)
            tolerance = 1.0
    native = rgba(colored, alpha) if bits == 16 and photometric < 3 else None
    if palette is not None:
        colored, tolerance = palette.T[values[..., 0]] / 65535, 1.0
    elif photometric == 5:
        colored, tolerance = (1 - colored[..., :3]) * (1 - colored[..., 3:]), 2.5
    elif photometric == 6:
        colored, tolerance = rgb_of_ycc(colored), 1.5
    elif photometric == 8:
        colored, tolerance = colored[..., :1], 256.0  # its colors are in test_pillow
    is_unclear = photometric == 0 and bool(seen and kind is not None and seen[kind] == 1)
    is_unclear = is_unclear or is_other or photometric in (4, 9, 32803)
    if seen is None or form == 2 or is_unclear:  # nothing says what these are
        tolerance = -1.0
    native = None if native is None else turned(native, turn)
    return Made(data, words, turned(rgba(colored, alpha), turn), bits, tolerance, native)


# -- JPEG 2000 ---------------------------------------------------------------------------------------------------------


def jpeg2k_file(draw: Draw) -> Made:
    """A lossless file, half of them with something else in the header than the encoder wrote."""
    bits = draw.pick((8, 8, 16))
    channels = draw.pick((1, 2, 3, 4) if bits == 8 else (1, 3))
    height, width = draw.between(32, 50), draw.between(32, 60)  # OpenCV's encoder takes no smaller ones
    values = noise(draw, height, width, channels, (1 << bits) - 1)
    if channels in (1, 3) and draw.below(2 if bits == 8 else 1) == 0:
        cv2 = library("cv2")
        stored = values.astype(f"u{bits // 8}")[..., ::-1]
        data = cv2.imencode(".jp2", stored, [cv2.IMWRITE_JPEG2000_COMPRESSION_X1000, 1000])[1].tobytes()
    else:
        image = Image.fromarray(values.astype(np.uint8).squeeze(2) if channels == 1 else values.astype(np.uint8))
        data = file_of(image, "JPEG2000", no_jp2=draw.below(3) == 0)
    colored, alpha = values / ((1 << bits) - 1), np.ones(1)
    if channels in (2, 4):
        colored, alpha = colored[..., :-1], colored[..., -1:]
    at, kind, tolerance = data.index(b"\xff\x4f\xff\x51") + 42, draw.below(12), 0.51
    header, space = data.find(b"ihdr") + 14, data.find(b"colr") + 4
    changed = bytearray(data)
    if kind == 0:  # signed, or of fewer bits
        changed[at : at + 3 * channels : 3] = bytes([draw.pick((0x80 | bits - 1, 6, 3))]) * channels
        if header > 13:
            changed[header] = changed[at]
        tolerance = -1.0
    elif kind == 1:  # subsampled
        changed[at + 1 + draw.below(2) + 3 * draw.below(channels)] = 2
        tolerance = -1.0
    elif kind == 2 and space > 3 and data[space] == 1:
        changed[space + 3 : space + 7] = struct.pack(">I", number := draw.pick((12, 14, 17, 18, 20, 24)))
        tolerance = 1.5 if number == 18 and channels == 3 else 0.51 if number == 17 and channels < 3 else -1.0
        colored = rgb_of_ycc(colored) if number == 18 and channels == 3 else colored
    elif kind == 3 and space > 3:  # channels in another order
        order = [channels - 1, *range(channels - 1)]
        body = struct.pack(">H", channels) + b"".join(struct.pack(">3H", k, 0, order[k] + 1) for k in range(channels))
        end, size = space - 8 + struct.unpack(">I", data[space - 8 : space - 4])[0], data.index(b"jp2h") - 4
        changed[end:end] = struct.pack(">I", 8 + len(body)) + b"cdef" + body
        changed[size : size + 4] = struct.pack(">I", struct.unpack(">I", data[size : size + 4])[0] + 8 + len(body))
        tolerance = 0.51 if channels == 1 else -1.0
    elif kind == 4 and header > 13:  # as FFmpeg writes it
        changed[header] += 1
    words = f"{bits} bits, {channels} components, {kind=}"
    native = rgba(colored, alpha) if bits == 16 else None
    return Made(bytes(changed), words, rgba(colored, alpha), bits, tolerance, native)


# -- PNM, PNG, BMP and GIF ---------------------------------------------------------------------------------------------


def pnm_file(draw: Draw) -> Made:
    kind, (height, width) = draw.between(1, 6), size_of(draw)
    white = draw.pick((1, 15, 254, 255, 256, 1000, 4095, 65534, 65535, 65535, draw.between(1, 65535)))
    white = 1 if kind in (1, 4) else white
    values = noise(draw, height, width, 3 if kind in (3, 6) else 1, white)
    gaps = draw.pick((b" ", b"\n# a comment\n", b"\t")), draw.pick((b" ", b" # another\r"))
    head = b"P%d%s%d%s%d\n" % (kind, gaps[0], width, gaps[1], height)
    if kind not in (1, 4):
        head += b"%d\n" % white
    text = b"".join(b"%d%s" % (value, draw.pick((b" ", b"\n", b" #x\n"))) for value in values.ravel())
    bodies = {4: b"".join(packed_rows(values, 1))}
    body = bodies.get(kind, values.astype(">u2" if white > 255 else np.uint8).tobytes()) if kind > 3 else text
    colored = rgba(values / white)
    colored = 1 - colored if kind in (1, 4) else colored
    colored[..., 3] = 1
    bits = 16 if white > 255 and kind in (2, 5) else 8
    return Made(head + body, f"P{kind} of {white}", colored, bits, 0.51, colored if white == 65535 else None)


def png_file(draw: Draw) -> Made:
    color = draw.pick(list(COLORS))
    depth = draw.pick({"gray": (1, 2, 4, 8, 16), "palette": (1, 2, 4, 8)}.get(color, (8, 16)))
    (height, width), (_, samples, _), top = size_of(draw), COLORS[color], (1 << depth) - 1
    values = noise(draw, height, width, samples, top)
    palette, transparency, alpha = np.empty((0, 3), np.uint8), b"", np.ones(1)
    if color == "palette":
        palette = noise(draw, 1, 1 << depth, 3, 255)[0].astype(np.uint8)
        clear = noise(draw, 1, draw.between(0, 1 << depth), 1, 255).ravel().astype(np.uint8)
        transparency, alphas = clear.tobytes(), np.append(clear, np.full(256, 255))
        alpha = alphas[values] / 255
    elif samples in (1, 3) and draw.below(2):
        values[:, ::3] = values[:1, :1]
        transparency = (values[0, 0] | (0xFFFF ^ top if draw.below(2) else 0)).astype(">u2").tobytes()
        alpha = 1.0 - (values == values[0, 0]).all(2, keepdims=True)
    interlaced = draw.below(3) == 0
    data = encode_png(values, color, depth, [draw.pick(FILTERS)], palette=palette.tobytes(), transparency=transparency,
                  interlaced=interlaced)  # fmt: skip
    colored = palette[values[..., 0]] / 255 if color == "palette" else values / top
    if samples in (2, 4):
        colored, alpha = colored[..., :-1], colored[..., -1:]
    native = rgba(colored, alpha) if depth == 16 else None
    words = f"{color} of {depth} bits, {transparency=}, {interlaced=}"
    return Made(data, words, rgba(colored, alpha), depth, 0.51, native)


FIELDS = {
    16: [(0xF800, 0x7E0, 0x1F, 0), (0x7C00, 0x3E0, 0x1F, 0x8000), (0xF00, 0xF0, 0xF, 0xF000), (0x1F, 0x7E0, 0xF800, 0)],
    32: [(0xFF0000, 0xFF00, 0xFF, 0xFF000000), (0xFF, 0xFF00, 0xFF0000, 0), (0xFF000000, 0xFF0000, 0xFF00, 0xFF),
         (0x3FF00000, 0xFFC00, 0x3FF, 0), (0xF, 0xF0, 0xF00, 0), (0xF000F000, 0xF00, 0xF, 0)],
}  # fmt: skip


def bmp_file(draw: Draw) -> Made:
    size, bits = draw.pick((12, 40, 40, 52, 56, 64, 108, 124)), draw.pick((1, 4, 8, 16, 24, 32))
    (height, width), down = size_of(draw), draw.below(3) == 0 and size > 12
    packing = 3 if bits in (16, 32) and size > 12 and draw.below(2) else 0
    masks = (0x7C00, 0x3E0, 0x1F, 0) if bits == 16 else (0xFF0000, 0xFF00, 0xFF, 0)
    if packing:
        masks = draw.pick(FIELDS[bits])
        masks = masks if size > 52 else (*masks[:3], 0)
    words = noise(draw, height, width, 2, 65535).astype(np.uint32)
    values = (words[..., 0] << 16 | words[..., 1]) & ((1 << bits) - 1)
    used, palette, table = 0, np.zeros((256, 3), np.uint8), b""
    if bits <= 8:
        used = draw.pick((0, 2, draw.between(1, 1 << bits))) if size > 12 else 0
        count = min(used or 1 << bits, 1 << bits)
        palette[:count] = noise(draw, 1, count, 3, 255)[0]
        if draw.below(3) == 0:
            palette[:count] = np.arange(count)[:, None] * (255 if count == 2 else 1)  # what Pillow takes for gray
        table = b"".join(bytes(one[::-1]) + b"\0" * (size > 12) for one in palette[:count])
        colors = palette[values]
    else:
        units = [(mask, mask & -mask) for mask in masks]
        fields = [(values & mask) // one / (mask // one) if mask else 0 * values + 1 for mask, one in units]
        colors = np.stack(fields[:3], 2) * 255
    alpha = np.stack(fields[3:], 2) if bits > 8 else None
    stride = (width * bits + 31) // 32 * 4
    rows = b"".join(packed_rows(values[..., None], bits)) if bits < 8 else values.astype("<u4").view(np.uint8).reshape(
        height, width, 4)[..., : bits // 8].tobytes()  # fmt: skip
    lines = np.frombuffer(rows, np.uint8).reshape(height, -1)
    lines = np.pad(lines, [(0, 0), (0, stride - lines.shape[1])])[:: 1 if down else -1]
    head = struct.pack("<IHHHH", 12, width, height, 1, bits) if size == 12 else struct.pack(
        "<IiiHHIIiiII", size, width, -height if down else height, 1, bits, packing, 0, 0, 0, used, 0)  # fmt: skip
    fields_ = struct.pack("<4I", *masks) if packing else bytes(16)
    head = (head + fields_)[:size].ljust(size, b"\0") if size > 40 else head + fields_[:12] * bool(packing)
    gap = bytes(draw.pick((0, 0, 7)))
    start = 14 + len(head) + len(table) + len(gap)
    data = struct.pack("<2sIII", b"BM", 0, 0, 0 if draw.below(4) == 0 and not gap else start)
    data += head + table + gap + lines.tobytes()
    says = f"header of {size}, {bits} bits, {packing=}, masks {[hex(mask) for mask in masks]}, {used=}, {down=}"
    return Made(data, says, rgba(colors / 255, alpha), 8, 1.0 if bits > 8 else 0.51)


def gif_file(draw: Draw) -> Made:
    """A file whose pixels are codes of LZW that stay as short as at the beginning."""
    bits, (height, width) = draw.between(2, 7), size_of(draw)
    rows, columns = (height, width) if draw.below(3) == 0 else (draw.between(1, height), draw.between(1, width))
    top, left = draw.between(0, height - rows), draw.between(0, width - columns)
    values = noise(draw, rows, columns, 1, (1 << bits) - 1)[..., 0]
    tables = [noise(draw, 1, 1 << bits, 3, 255)[0].astype(np.uint8) for _ in range(2)]
    has_global, has_local = draw.pick(((True, False), (True, True), (False, True)))
    background, key = draw.below(1 << bits), draw.below(1 << bits) if draw.below(2) else None
    interlaced, clear = draw.below(3) == 0, 1 << bits
    passes = ((0, 8), (4, 8), (2, 4), (1, 2)) if interlaced else ((0, 1),)
    order = [y for first, step in passes for y in range(first, rows, step)]
    codes: list[int] = []
    for k, value in enumerate(values[order].ravel().tolist()):
        codes += [clear] * (k % (clear - 2) == 0) + [value]
    stream = sum(code << (bits + 1) * k for k, code in enumerate([*codes, clear + 1]))
    body = stream.to_bytes(((bits + 1) * (len(codes) + 1) + 7) // 8, "little")
    data = b"GIF89a" + struct.pack("<HHBBB", width, height, has_global << 7 | bits - 1, background, 0)
    data += tables[0].tobytes() * has_global
    data += b"" if key is None else b"!\xf9\4" + struct.pack("<BHB", 1, 0, key) + b"\0"
    data += b"," + struct.pack("<HHHHB", left, top, columns, rows, has_local << 7 | interlaced << 6 | bits - 1)
    data += tables[1].tobytes() * has_local + bytes([bits])
    data += b"".join(bytes([len(part := body[k : k + 255])]) + part for k in range(0, len(body), 255)) + b"\0;"
    pixels = np.zeros((height, width, 4))
    pixels[..., :3] = tables[0][background] / 255 if has_global else 0
    place = pixels[top : top + rows, left : left + columns]
    place[..., :3] = tables[int(has_local)][values] / 255
    place[..., 3] = 1.0 if key is None else values != key
    words = f"{bits} bits, {has_global=}, {has_local=}, {key=}, {interlaced=}, {rows} x {columns} at {top}, {left}"
    return Made(data, words, pixels)


# -- AVIF --------------------------------------------------------------------------------------------------------------


def avif_file(draw: Draw) -> Made:
    """A file whose primary image has properties that its encoder did not write; Pillow's pixels without them."""
    height, width = draw.between(8, 40), draw.between(8, 60)
    image = Image.fromarray(noise(draw, height, width, 3, 255).astype(np.uint8))
    data = file_of(image, "AVIF", quality=100, subsampling="4:4:4")
    colors = np.asarray(Image.open(io.BytesIO(data))) / 255
    names = [name for name in (b"clap", b"irot", b"imir") if draw.below(2)]
    if draw.below(5) == 0:
        names = names[::-1]
    y0, x0 = draw.below(height), draw.below(width)
    y1, x1 = draw.between(y0 + 1, height), draw.between(x0 + 1, width)
    turn, mirror, half = draw.below(4), draw.below(2), draw.below(5) == 0
    # The center of the crop, from that of the image, in halves of a pixel; a quarter of one is none at all.
    crop = struct.pack(">4I", x1 - x0, 1, y1 - y0, 1) + struct.pack(
        ">iIiI", (x0 + x1 - width) * 2 + half, 4, (y0 + y1 - height) * 2, 4)  # fmt: skip
    bodies = {b"clap": crop, b"irot": bytes([turn]), b"imir": bytes([mirror])}
    for name in names:
        if name == b"clap":
            colors = colors[y0:y1, x0:x1]
        elif name == b"irot":
            colors = np.rot90(colors, turn)
        else:
            colors = colors[:, ::-1] if mirror else colors[::-1]
    order = [(b"clap", b"irot", b"imir").index(name) for name in names]
    tolerance = -1.0 if (b"clap" in names and half) or order != sorted(order) else 0.51
    data = with_properties(data, [(name, bodies[name]) for name in names])
    return Made(data, f"{names} {half=}", rgba(colors), 8, tolerance)


def with_properties(data: bytes, properties: list[tuple[bytes, bytes]]) -> bytes:
    """An AVIF file of Pillow whose first item has more properties."""
    added = b"".join(struct.pack(">I", 8 + len(body)) + name + body for name, body in properties)
    at = {name: data.index(name) for name in (b"meta", b"iloc", b"iprp", b"ipco", b"ipma")}
    sizes = {name: struct.unpack_from(">I", data, place - 4)[0] for name, place in at.items()}
    number, place, end = 0, at[b"ipco"] + 4, at[b"ipco"] - 4 + sizes[b"ipco"]
    while place < end:
        number, place = number + 1, place + struct.unpack_from(">I", data, place)[0]
    links = at[b"ipma"] + 14  # version and flags, number of items, the first item's number: its properties
    new = bytearray(data)
    more = bytes(0x80 | number + 1 + k for k in range(len(properties)))
    new[links] += len(properties)
    new[links + 1 + data[links] : links + 1 + data[links]] = more
    new[end:end] = added
    delta = len(added) + len(more)
    for name in (b"meta", b"iprp"):
        struct.pack_into(">I", new, at[name] - 4, sizes[name] + delta)
    struct.pack_into(">I", new, at[b"ipco"] - 4, sizes[b"ipco"] + len(added))
    struct.pack_into(">I", new, at[b"ipma"] - 4 + len(added), sizes[b"ipma"] + len(more))
    items, place = struct.unpack_from(">H", data, at[b"iloc"] + 10)[0], at[b"iloc"] + 12
    for _ in range(items):  # its number, its file, one extent: offset and size
        struct.pack_into(">I", new, place + 6, struct.unpack_from(">I", data, place + 6)[0] + delta)
        place += 14
    return bytes(new)


FILES = {
    "tiff": tiff_file, "jpeg2k": jpeg2k_file, "pnm": pnm_file, "png": png_file, "bmp": bmp_file, "gif": gif_file,
    "avif": avif_file,
}  # fmt: skip

_POISON = 0xA5


def check(folder: Path) -> Callable[[int], str]:
    """Return the check of a file, of each format in turn; memory that Pillow's decoders get holds a pattern."""
    Image.core.new = lambda mode, size: Image.core.fill(mode, size, _POISON)  # type: ignore[attr-defined]
    return right


def right(number: int) -> str:
    """Check file number ``number``, and return what becomes of it."""
    form = list(FILES)[number % len(FILES)]
    made = FILES[form](Draw(number))
    size = made.pixels.shape[:2]
    try:
        found = gi.decode_image(made.data, color="rgba", device="cpu")
    except gi.DecodeError as error:
        reason = error.failures[0].reason
        assert re.search("supported|needs", reason), f"{form}, {made.words}: {reason}"
        return f"{form}: refused"
    wanted: Values = made.pixels * ((1 << made.bits) - 1)
    wanted = np.rint(wanted).astype(int) >> made.bits - 8 if made.bits > 8 else made.pixels * 255
    assert found.shape[:2] == size, f"{form}, {made.words}: {found.shape}, not {size}"
    error = np.abs(found - wanted).max()
    assert error <= made.tolerance, f"{form}, {made.words}: off by {error}"
    managed = gi.decode_image(made.data, color="rgba", icc="srgb", device="cpu")  # none has a profile
    np.testing.assert_array_equal(managed, found, err_msg=f"{form}, {made.words}")
    try:
        deep = gi.decode_image(made.data, color="rgba", depth="native", device="cpu")
    except gi.DecodeError:
        assert made.native is None or form in ("png", "tiff"), f"{form}, {made.words}: refused with all bits"
        return f"{form}: decoded"
    if made.native is None:
        np.testing.assert_array_equal(deep, found * np.uint16(257), err_msg=f"{form}, {made.words}")
    else:
        np.testing.assert_allclose(deep, made.native * 65535, 0, made.tolerance, err_msg=f"{form}, {made.words}")
    return f"{form}: {'all bits' if made.native is not None else 'decoded'}"
