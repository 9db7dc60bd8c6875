"""Words in pictures, by Pillow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

#: Pixels from one line to the next.
LINE = 13
_SIZE = 11  # of the letters, whose tails hang below their line by less than the gap to the next
_INDENT = "  "


@lru_cache(maxsize=1)
def _font() -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(_SIZE)


def wrap(lines: Iterable[str], width: int) -> list[str]:
    """Break lines of text to fit into ``width`` pixels; what is broken off is indented."""
    return [part for line in lines for part in _broken(line, width)]


def _broken(line: str, width: int) -> Iterator[str]:
    part = ""
    for word in line.split():
        longer = f"{part} {word}" if part.strip() else part + word
        if _fits(longer, width):
            part = longer
            continue
        if part.strip():
            yield part
            part = _INDENT
        while word and not _fits(part + word, width):  # a word longer than a line, such as the name of a file
            count = max((n for n in range(1, len(word)) if _fits(part + word[:n], width)), default=1)
            yield part + word[:count]
            part, word = _INDENT, word[count:]
        part += word
    if part.strip():
        yield part


def _fits(text: str, width: int) -> bool:
    return bool(_font().getlength(_spaced(text)) < width)  # a last letter may hang over its own width by a pixel


def _spaced(text: str) -> str:
    """Text whose words stand apart: in small print this font's spaces nearly vanish."""
    return text.replace(" ", "  ")


def draw(
    picture: np.ndarray[Any, np.dtype[np.uint8]], text: str, left: int, top: int, color: int | tuple[int, ...] = 0
) -> None:
    """Write one line of text into an (H, W, 3) picture, in place; what reaches out of it is cut.

    Parameters
    ----------
    picture : (H, W, 3) uint8
    text : str
    left, top : int
        Corner of the line, at least 0.
    color : int or (3,)
    """
    from PIL import Image, ImageDraw

    strip = picture[top : top + LINE]
    if strip.size == 0:
        return
    image = Image.fromarray(strip)
    fill = (color, color, color) if isinstance(color, int) else color
    ImageDraw.Draw(image).text((left, 0), _spaced(text), fill, _font())
    strip[...] = np.asarray(image)
