"""Text in pictures, drawn with Pillow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

#: Line height in pixels.
LINE = 13
_SIZE = 11  # font size in pixels; descenders fit into the gap between lines
_INDENT = "  "


@lru_cache(maxsize=1)
def _font() -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(_SIZE)


def wrap(lines: Iterable[str], width: int) -> list[str]:
    """Wrap lines of text to ``width`` pixels; continuation lines are indented."""
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
        while word and not _fits(part + word, width):  # a word longer than a line, such as a file name
            count = max((n for n in range(1, len(word)) if _fits(part + word[:n], width)), default=1)
            yield part + word[:count]
            part, word = _INDENT, word[count:]
        part += word
    if part.strip():
        yield part


def _fits(text: str, width: int) -> bool:
    return bool(_font().getlength(_spaced(text)) < width)  # not "<=": the last letter may be a pixel wider


def _spaced(text: str) -> str:
    """Double the spaces, which nearly vanish in this font at a small size."""
    return text.replace(" ", "  ")


def draw(
    picture: np.ndarray[Any, np.dtype[np.uint8]], text: str, left: int, top: int, color: int | tuple[int, ...] = 0
) -> None:
    """Write one line of text into an (H, W, 3) picture at a corner, in place and clipped."""
    from PIL import Image, ImageDraw

    strip = picture[top : top + LINE]
    if strip.size == 0:
        return
    image = Image.fromarray(strip)
    fill = (color, color, color) if isinstance(color, int) else color
    ImageDraw.Draw(image).text((left, 0), _spaced(text), fill, _font())
    strip[...] = np.asarray(image)
