"""Headers of JPEG XL files, before a library decodes anything: size, bits, orientation, alpha.

Format: JPEG XL (ISO/IEC 18181-1), annex D; its container (ISO/IEC 18181-2).
"""

from .box_parts import boxes
from .decoder import PillowHeader, RefusedError

CODESTREAM, CONTAINER = b"\xff\x0a", b"\0\0\0\x0cJXL \r\n\x87\n"
_SIDES, _RATIOS = (9, 13, 18, 30), ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
_BYTE = 8
_MOST_HEADER = 64  # bytes of the fields that are read


class _Bits:
    """Bits of a codestream, the lowest of each byte first."""

    def __init__(self, data: bytes) -> None:
        self._value, self._left = int.from_bytes(data, "little"), _BYTE * len(data)

    def read(self, count: int) -> int:
        if count > self._left:
            raise ValueError("the header is truncated")
        found = self._value & (1 << count) - 1
        self._value, self._left = self._value >> count, self._left - count
        return found

    def choice(self, *ways: tuple[int, int]) -> int:
        """Read one of four ways: a base, and the bits of what is added to it."""
        base, count = ways[self.read(2)]
        return base + self.read(count)

    def size(self) -> tuple[int, int]:
        """Read height and width."""
        is_small = self.read(1)
        height, ratio = self._side(is_small), self.read(3)
        if ratio == 0:
            return height, self._side(is_small)
        across, down = _RATIOS[ratio - 1]
        return height, height * across // down

    def _side(self, is_small: int) -> int:
        return 8 * (1 + self.read(5)) if is_small else self.choice(*((1, count) for count in _SIDES))


def jxl_contents(data: bytes) -> PillowHeader:
    """Read the header of a JPEG XL file."""
    bits = _Bits(_codestream(data)[2 : 2 + _MOST_HEADER])
    height, width = bits.size()
    if bits.read(1):  # all else is as usual: 8 bits of sRGB
        return PillowHeader(height, width, 3, [data])
    orientation = 1
    if bits.read(1):
        orientation = 1 + bits.read(3)
        if bits.read(1):
            bits.size()  # that is meant to be shown
        if bits.read(2):
            raise RefusedError("animations and previews in JPEG XL files are not supported")
    if bits.read(1):
        raise RefusedError("floating-point samples are not supported")
    depth = bits.choice((8, 0), (10, 0), (12, 0), (1, 6))
    if depth != _BYTE:
        raise RefusedError(f"JPEG XL with {depth} bits per value is not supported, only with 8")
    bits.read(1)
    if bits.choice((0, 0), (1, 0), (2, 4), (1, 12)) > 1:
        raise RefusedError("JPEG XL with several extra channels is not supported")
    # libjxl turns the image, so its size is that of the result.
    return PillowHeader(*((width, height) if orientation > 4 else (height, width)), 4, [data])


def _codestream(data: bytes) -> bytes:
    """Return the start of the codestream."""
    if data[:2] == CODESTREAM:
        return data[: _MOST_HEADER + 2]
    for name, start, _ in boxes(data, 0, len(data)):
        if name in (b"jxlc", b"jxlp"):
            start += 4 * (name == b"jxlp")
            if data[start : start + 2] == CODESTREAM:
                return data[start : start + 2 + _MOST_HEADER]
            break
    raise ValueError("no codestream")
