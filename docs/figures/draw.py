"""Figures of the pages: `python docs/figures/draw.py` writes them as SVG next to this file.

`python -m bench.figures` writes the plots of measurements.

The fields of a table entry and the example are data: if the layout changes, edit the lists in capitals.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).parent
WIDTH = 820

# Fills: wanted or stored, decoded without being stored, not decoded, recorded in an index.
STORED, SKIPPED, PASSED, KNOWN, PLAIN = "#cfe3f5", "#fbe0bf", "#eeeeee", "#2b6cb0", "#ffffff"
INK, MUTED = "#1c2733", "#5b6b7b"

#: Fields of an entry for up to two symbols of an AC table, highest bits first: name, bits, value in the example.
FIELDS = [
    ("coefficient of/the last, int16", 16, "16"),
    ("coefficient of/the first, int16", 16, "2"),
    ("missing/bits", 4, "4"),
    ("bits,/first", 4, "4"),
    ("advance/of both", 8, "2"),
    ("advance/of the first", 8, "1"),
    ("bits of/both", 8, "14"),
]
#: Fields of an entry of a DC table, and of the result of the slow path for an AC table.
DC_FIELDS = [("difference from the predictor", 48, ""), ("missing/bits", 8, ""), ("bits", 8, "")]
SLOW_FIELDS = [("coefficient", 48, ""), ("advance", 8, ""), ("bits", 8, "")]
#: The bits of the stream in the example, in groups: bits, meaning.
EXAMPLE = [
    ("01", "code of run 0,/size 2"),
    ("10", "value 2"),
    ("11010", "code of run 0, size 5"),
    ("1", "sign"),
    ("0110", "missing bits: 6"),
]
INDEX = 10  # bits of the stream that are looked up


class Figure:
    """An SVG image under construction."""

    def __init__(self, height: int, *, width: int = WIDTH) -> None:
        self._height, self._width = height, width
        self._parts: list[str] = []

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = PLAIN,
        text: str = "",
        *,
        edge: bool = True,
    ) -> None:
        """Draw a rectangle with text at its center; "/" separates lines."""
        stroke = f' stroke="{INK}"' if edge else ""
        self._parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"{stroke}/>')
        if text:
            lines = text.count("/") + 1
            self.text(x + width / 2, y + height / 2 + 4 - 7 * (lines - 1), text, anchor="middle", small=width < 50)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "start",
        muted: bool = False,
        mono: bool = False,
        small: bool = False,
        bold: bool = False,
    ) -> None:
        """Write lines, separated by "/"; y is the baseline of the first."""
        style = (
            f'fill="{MUTED if muted else INK}"'
            + (' font-family="monospace"' if mono else "")
            + (' font-size="10.5"' if small else "")
            + (' font-weight="bold"' if bold else "")
        )
        for k, line in enumerate(text.split("/")):
            self._parts.append(
                f'<text x="{x:g}" y="{y + 14 * k:g}" text-anchor="{anchor}" {style}>{escape(line)}</text>'
            )

    def arrow(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """Draw an arrow between two points."""
        self._parts.append(f'<path d="M{x0:g} {y0:g}L{x1:g} {y1:g}" stroke="{INK}" marker-end="url(#tip)"/>')

    def __str__(self) -> str:
        tip = '<marker id="tip" orient="auto" markerWidth="8" markerHeight="8" refX="7" refY="4">'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self._width} {self._height}" '
                f'width="{self._width}" height="{self._height}" font-family="sans-serif" font-size="12">',
                f'<defs>{tip}<path d="M0 0L8 4L0 8z"/></marker></defs>',
                '<rect width="100%" height="100%" fill="#ffffff"/>',
                *self._parts,
                "</svg>\n",
            ]
        )


def _fields(figure: Figure, y: float, fields: list[tuple[str, int, str]]) -> None:
    """Draw the fields of an entry of 64 bits, the highest on the left."""
    left, per_bit, high = 26.0, 12.0, 64
    for name, bits, value in fields:
        figure.box(left, y, bits * per_bit, 40, STORED, name)
        figure.text(left + 3, y - 4, str(high - 1), muted=True)
        figure.text(left + bits * per_bit - 3, y - 4, str(high - bits), anchor="end", muted=True)
        figure.text(left + bits * per_bit / 2, y + 56, value, anchor="middle")
        left, high = left + bits * per_bit, high - bits


def table_entry() -> Figure:
    """Draw the entries of the look-up tables by bits."""
    figure = Figure(492)
    figure.text(26, 22, "An entry for up to two symbols of an AC table. Below: its values in the example.")
    _fields(figure, 54, FIELDS)
    figure.text(26, 150, f"Example: the first {INDEX} of these bits are the index of the entry.")
    left, wide, place = 26.0, 46.0, 0
    for bits, meaning in EXAMPLE:
        for bit in bits:
            figure.box(26 + place * wide, 162, wide, 28, STORED if place < INDEX else SKIPPED, bit)
            place += 1
        figure.text(left + len(bits) * wide / 2, 206, meaning, anchor="middle", muted=True)
        left += len(bits) * wide
    notes = (
        "The entry holds both symbols. The second coefficient has 5 bits. The index contains only the first, its/"
        "sign, so the entry has 10000, or 16, with zeros for the missing bits. The decoder reads the 4 missing bits/"
        "from the stream and adds them: 16 + 6 = 22. Both symbols together have 14 bits."
    )
    figure.text(26, 244, notes)
    figure.text(26, 304, "An entry of a DC table")
    _fields(figure, 334, DC_FIELDS)
    figure.text(26, 406, "The result of the slow path for one symbol of an AC table")
    _fields(figure, 436, SLOW_FIELDS)
    return figure


def mcu_row() -> Figure:
    """Draw the way of an MCU row from the file to rows of pixels."""
    figure = Figure(640)
    x = 26.0

    def step(y: float, name: str, text: str) -> None:
        figure.arrow(x + 40, y, x + 40, y + 40)
        figure.text(x + 60, y + 16, name, mono=True)
        figure.text(x + 60, y + 31, text, muted=True)

    figure.text(x, 20, "File: a zero is stuffed after each 0xFF")
    for k, byte in enumerate(["3A", "FF", "00", "7C", "D1", "08", "FF", "00", "E2", "..."]):
        figure.box(x + 40 * k, 28, 40, 28, PASSED if byte == "00" else PLAIN, byte)
    step(58, "fill", "copies up to 16 KB without the stuffed zeros, 32 bytes at a time")
    figure.text(x, 116, "Clean bytes of the stream, then zeros to read past the end")
    for k, byte in enumerate(["3A", "FF", "7C", "D1", "08", "FF", "E2", "...", "0", "0"]):
        figure.box(x + 40 * k, 124, 40, 28, PASSED if byte == "0" else PLAIN, byte)
    step(154, "decode_mcus", "decodes Huffman codes; MCUs outside the region are decoded without being stored")
    figure.text(
        x,
        212,
        "Coefficients of the region's MCUs in this row: 64 int16 a block, natural order; last position of each block",
    )
    for m in range(3):
        for b, name in enumerate(["Y", "Y", "Y", "Y", "Cb", "Cr"]):
            figure.box(x + 216 * m + 34 * b, 220, 34, 34, STORED, name)
            figure.box(x + 216 * m + 34 * b, 254, 34, 16, PLAIN, str((9, 0, 2, 31, 0, 1)[b]))
    figure.text(x + 660, 242, "...")
    step(
        272,
        "transform_row",
        "dequantizes and transforms, shorter where the last position is below 1, 3 or 10; zeroes the block",
    )
    figure.text(x, 330, "Planes: two MCU rows of each component, used in turns")
    for left, width, name, height in ((0, 330, "Y", 48), (350, 165, "Cb", 24), (535, 165, "Cr", 24)):
        for half, fill in ((0, SKIPPED), (1, STORED)):
            label = f"{name} of MCU row {'r - 1' if half == 0 else 'r'}"
            figure.box(x + left, 340 + half * height, width, height, fill, label)
    step(438, "make_rows", "upsamples chroma and converts to RGB")
    figure.text(x, 496, "Pixels of the region, row by row")
    figure.box(x, 504, 700, 34, SKIPPED, "written with MCU row r - 1: rows up to 16 r - 2")
    figure.box(x, 538, 700, 34, STORED, "written with MCU row r: rows 16 r - 1 to 16 r + 14")
    figure.box(
        x, 572, 700, 26, PASSED, "row 16 r + 15 waits: its chroma is mixed with the first chroma row of MCU row r + 1"
    )
    figure.text(x, 622, "Numbers are those of 4:2:0 at full size, where an MCU has 16 x 16 pixels.", muted=True)
    return figure


def seek_entry() -> Figure:
    """Draw how decoding resumes at the starts that an entry of a seek index records."""
    figure = Figure(530)
    x, y, side = 26.0, 46.0, 24.0
    columns, rows, every, first, end, top, bottom = 22, 8, 4, 10, 15, 3, 6
    figure.text(x, 20, f"MCUs of an image, k = {every}: a recorded start every {every} MCUs of a row (dark edges)")
    figure.text(x, 36, "The region needs columns 10 to 14 of rows 3 to 5", muted=True)
    for r in range(rows):
        for c in range(columns):
            inside = top <= r < bottom
            start = first // every * every
            fill = STORED if inside and first <= c < end else SKIPPED if inside and start <= c < first else PASSED
            figure.box(x + c * side, y + r * side, side, side, fill)
        for s in range(0, columns, every):
            figure.box(x + s * side - 1.5, y + r * side + 2, 3, side - 4, KNOWN)
    for r in range(top, bottom):
        middle = y + r * side + side / 2
        figure.arrow(x + (first // every * every) * side + 3, middle, x + end * side - 2, middle)
    right = x + columns * side + 16
    for k, (fill, name) in enumerate(
        ((STORED, "decoded and stored"), (SKIPPED, "decoded, not stored"), (PASSED, "not decoded"))
    ):
        figure.box(right, y + 26 * k, 20, 18, fill)
        figure.text(right + 28, y + 13 + 26 * k, name)
    steps = (
        "For each of these rows:",
        "1. find the last start at or",
        "    before the first MCU, and",
        "    its bit in the file",
        "2. clean bytes from there on,",
        "    set the three predictors",
        "3. decode up to the region",
    )
    figure.text(right, y + 96, "/".join(steps))
    entry = y + rows * side + 46
    figure.text(x, entry, "The entry of a file with R MCU rows of S segments")
    parts = (
        ("checksums,/file size", 110, "16 bytes"),
        ("bit of each row/in the file", 180, "R x 4 bytes, uint32"),
        ("DC predictors of Y, Cb, Cr/at each start", 250, "R x S x 6 bytes, int16"),
        ("bits of each segment/but the last of a row", 200, "R x (S - 1) x 2 bytes, uint16"),
    )
    left = x
    for name, width, size in parts:
        figure.box(left, entry + 12, width, 44, STORED if left > x else PLAIN, name)
        figure.text(left + width / 2, entry + 72, size, anchor="middle", muted=True)
        left += width
    example = entry + 112
    figure.text(x, example, "Start of segment 2 in row 4: the bit of row 4, plus the lengths of segments 0 and 1")
    for k, (name, width) in enumerate((("segment 0", 170), ("segment 1", 130), ("segment 2", 150))):
        figure.box(x + (0, 170, 300)[k], example + 30, width, 26, STORED if k == 2 else PLAIN, name)
    figure.box(x + 450, example + 30, 60, 26, PLAIN, "...")
    for place, name in ((0, "bit of row 4"), (170, "+ length 0"), (300, "+ length 1 = bit to resume at")):
        figure.arrow(x + place, example + 12, x + place, example + 29)
        figure.text(x + place + 6, example + 22, name, muted=True)
    figure.text(
        x,
        example + 84,
        "The bit may lie inside a byte, and counts the file as it is, with stuffed zeros. Where decoding passes the/"
        "beginning of a row, its bit and predictors are compared with the entry's. After a mismatch the file is/"
        "decoded again without the entry.",
        muted=True,
    )
    return figure


FIGURES = {"table-entry.svg": table_entry, "mcu-row.svg": mcu_row, "seek-entry.svg": seek_entry}

if __name__ == "__main__":
    for name, draw in FIGURES.items():
        (HERE / name).write_text(str(draw()))
