"""Our decoder of PNG files, one at a time, on the host; inflated by libdeflate, ISA-L or Python's zlib.

It takes files whose chunks are all regular, without interlacing. A file that it does not take, or that is damaged, is
left to Pillow, whose result or reason then counts. Chunks that do not affect the pixels, such as text, gamma and unused
profiles, are not looked at: ``PIL.Image.open`` refuses files in which they are damaged. It also shows some files that
do not begin with their header, or whose last chunk of pixels lacks only its checksum.
"""

import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks.types import Ints, Records
from ..kernels.png import layout
from .options import DecodeOptions
from .pixels import BACKGROUNDS, Pixels, laid_out, to_colors, with_key

#: Packages that inflate faster than Python's zlib, the fastest first.
FASTER = ("deflate", "isal")

_MOST = 1032  # bytes that a byte of DEFLATE can become
_DEEP = 16


class Inflater(NamedTuple):
    """A library that inflates."""

    name: str
    #: From compressed bytes, the bytes expected, and whether these are all there are; None if they are not.
    function: Callable[[Any, int, bool], Any]
    can_stop: bool  # False if it always inflates everything


# -- inflating ---------------------------------------------------------------------------------------------------------


def _by_deflate() -> Inflater:
    from deflate import DeflateError, zlib_decompress  # optional, not a dependency

    def inflate(data: Any, size: int, whole: bool) -> Any:
        assert whole
        try:
            return zlib_decompress(data, size)
        except DeflateError:
            return None

    return Inflater("deflate", inflate, can_stop=False)


def _by_stream(name: str, module: Any) -> Inflater:
    def inflate(data: Any, size: int, whole: bool) -> Any:
        stream = module.decompressobj()
        try:
            found = stream.decompress(data, size + whole)  # one byte more, and the checksum is read and must be right
        except module.error:
            return None
        return found if stream.eof or not whole else None

    return Inflater(name, inflate, can_stop=True)


@cache
def inflater() -> Inflater:
    """Return the fastest library that is installed."""
    with suppress(ImportError):
        return _by_deflate()
    with suppress(ImportError):
        from isal import isal_zlib  # optional, not a dependency

        return _by_stream("isal", isal_zlib)
    return _by_stream("zlib", zlib)


# -- files -------------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A region of a file, inflated; its filters are undone when its pixels are written."""

    raw: Pixels  # rows with their filters, the last of the region at least
    header: Any
    region: Ints
    stored: int  # values of a pixel in ``raw``
    palette: Pixels
    #: Channels that the loop writes; with another count than ``channels`` or a background, Pillow's functions follow.
    #: Twice as many as are stored are the bytes of values of 16 bits.
    made: int
    channels: int
    background: int | None
    key: tuple[int, ...] = ()  # the values of a color that is transparent

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the pixels."""
        x0, y0, x1, y1 = self.region.tolist()
        return (y1 - y0, x1 - x0, self.channels)

    @property
    def is_direct(self) -> bool:
        """True if :meth:`write` takes no memory for pixels."""
        return self.made == self.channels and self.background is None and not self.key

    def write(self, out: Pixels) -> None:
        """Fill ``out`` (H * W * C,) with pixels as stored."""
        if not self.is_direct:
            out.reshape(self.shape)[:] = self.pixels()
            return
        from ..kernels.png import rows  # imports Numba: only when it is used

        stride = _stride(self.header)
        scratch = np.empty(rows.scratch_bytes(stride), np.uint8)
        rows.write_rows(
            self.raw, stride, self.stored, int(self.header["depth"]), int(self.header["color"]),
            self.region, self.made, self.palette, scratch, out,
        )  # fmt: skip

    def pixels(self) -> Pixels:
        """Return the pixels (H, W, C) as stored."""
        height, width, _ = self.shape
        if self.key:
            depth = int(self.header["depth"])
            values = with_key(self.values(), self.key, depth)
            found = (values >> max(depth - 8, 0)).astype(np.uint8)
        else:
            found = np.empty((height, width, self.made), np.uint8)
            self._replace(channels=self.made, background=None).write(found.reshape(-1))
        return found if self.is_direct else laid_out(found, (height, width), self.channels, 8, self.background)

    def values(self) -> NDArray[Any]:
        """Return the values (H, W, S) as stored: uint8, those of fewer bits scaled to it, or uint16."""
        made = self.stored * (2 if self.header["depth"] == _DEEP else 1)
        found = self._replace(made=made, channels=made, background=None, key=()).pixels()
        return found if made == self.stored else found.view(">u2").astype(np.uint16)


def part_of(data: Any, options: DecodeOptions, region: Ints | None = None) -> Part | None:
    """Return a region of a file as stored, or all of it, of 8 bits per value; None for a file that is left to Pillow.

    ``region`` is x0, y0, x1, y1 in the image as stored.
    """
    keep_alpha = options.has_alpha or options.alpha != "drop"
    found = _read(data, alone=options.icc != "ignore")
    if found is None:
        return None
    array, records = found
    header = records[0]
    raw, region = _inflated(array, records, region)
    if raw is None:
        return None
    stored, channels = layout.SAMPLES[header["color"]], options.channels
    made, background, key = channels, None, ()  # type: int, int | None, tuple[int, ...]
    if keep_alpha and (key := _key(array, header)):
        made, background = stored, BACKGROUNDS.get(options.alpha)
    elif keep_alpha:
        is_palette = header["color"] == layout.PALETTE
        made = 3 + (header["transparency"][1] > 0) if is_palette else stored
        if options.alpha != "drop" and made in (1, 3):  # nothing is transparent
            made = channels
        elif options.alpha != "drop":
            background = BACKGROUNDS[options.alpha]
    palette = _palette(array, header, made)
    return Part(raw, header, region, stored, palette, made, channels, background, key)


def decode16(data: Any) -> NDArray[np.uint16] | None:
    """Return the pixels of a file with 16 bits per value, as stored; None for a file that is left to others."""
    found = _read(data, alone=False)
    if found is None or found[1]["depth"][0] != _DEEP:
        return None
    array, records = found
    raw, region = _inflated(array, records, None)
    if raw is None:
        return None
    stored = layout.SAMPLES[records["color"][0]]
    part = Part(raw, records[0], region, stored, raw[:0], stored, stored, None)
    key = _key(array, records[0])
    return with_key(part.values(), key, _DEEP) if key else part.values()


def _key(data: Pixels, header: Any) -> tuple[int, ...]:
    """Return the values of the transparent color of a gray or RGB file; none if it has none."""
    start, size = header["transparency"].tolist()
    stored = layout.SAMPLES[header["color"]]
    if stored not in (1, 3) or header["color"] == layout.PALETTE or size != 2 * stored:
        return ()
    return tuple(data[start : start + size].view(">u2").tolist())


def _read(data: Any, *, alone: bool) -> tuple[Pixels, Records] | None:
    """Return the bytes and the record of a file, or None for one that is left to Pillow."""
    from ..kernels.png import chunks

    array = np.frombuffer(data, np.uint8)
    found = np.zeros(1, layout.PNG)
    chunks.read_chunks(array, found)
    header = found[0]
    if not header["regular"] or header["interlaced"]:
        return None
    # Pillow reads all chunks of a file to look for a profile, and one of them may be damaged.
    return None if alone and header["others"] else (array, found)


def _stride(header: Any) -> int:
    """Return the bytes of a row without its filter."""
    return (int(header["width"]) * layout.SAMPLES[header["color"]] * int(header["depth"]) + 7) // 8


def _inflated(data: Pixels, records: Records, region: Ints | None) -> tuple[Pixels | None, Ints]:
    """Return the rows of a region, or None if they are damaged, and the region."""
    from ..kernels.png import chunks, rows

    header = records[0]
    height, width = int(header["height"]), int(header["width"])
    if region is None:
        region = np.array([0, 0, width, height])
    inflate = inflater()
    line = _stride(header) + 1
    last = int(region[3]) if inflate.can_stop else height
    size = last * line
    # A whole file ends with a checksum of its rows. Without those at the end, its chunks' checksums are compared.
    whole, length = last == height, int(header["bytes"])
    if size > _MOST * length:
        return None, region
    start = int(header["pixels"])
    packed = data[start : start + length]
    try:
        if header["parts"] > 1 or not whole:
            packed = np.empty(length, np.uint8)
            if not chunks.gather(data, records, int(not whole), packed):
                return None, region
        found = inflate.function(packed, size, whole)
    except MemoryError:
        return None, region
    if found is None or len(found) != size:
        return None, region
    raw = np.frombuffer(found, np.uint8)
    return (raw if rows.has_filters(raw, line - 1) else None), region


def _palette(data: Pixels, header: Any, channels: int) -> Pixels:
    """Return the pixels of a palette by index; nothing if the file has none."""
    if header["color"] != layout.PALETTE:
        return np.empty(0, np.uint8)
    start, size = header["palette"].tolist()
    found = np.zeros((256, min(channels, 3)), np.uint8)  # colors that it lacks are black
    found[: size // 3] = to_colors(data[start : start + size].reshape(1, -1, 3), channels)
    if channels > 3:
        start, size = header["transparency"].tolist()
        alpha = np.full((256, 1), 255, np.uint8)
        alpha[:size, 0] = data[start : start + size]
        found = np.concatenate([found, alpha], 1)
    return found.reshape(-1)
