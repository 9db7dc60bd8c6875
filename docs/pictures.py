"""Pictures of the gallery: if the last value of an example's block is a batch, show it as a contact sheet.

The sheet of a block that calls a function is also shown on the function's page of the reference.
"""

import ast
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

from docutils import nodes
from PIL import Image, ImageOps
from sphinx.util.docutils import SphinxDirective

import gpuimg
from gpuimg._batch.contact_sheet import ContactSheet, Tile, contact_sheet

_MOST = 12  # images of a sheet
_SIDE = 190  # pixels of the longer side
_QUALITY = 92  # of the JPEGs: a page has about a hundred pictures
_THUMBNAIL = 400, 280  # width and height
#: Folder of the sheets of functions, as reStructuredText. The site's builder deletes it with the gallery.
_SHEETS = "reference/examples"


class Pictures:
    """A scraper of sphinx-gallery, which calls it after each block of an example for reStructuredText.

    For thumbnails, the k-th sheet of ``plot_color.py`` is also written as one picture,
    ``gallery/images/sheets/plot_color_k.jpg``.
    """

    def __init__(self) -> None:
        self._shown: Any = None
        self._sheets: Counter[str] = Counter()  # by example
        self._ranks: dict[str, int] = {}  # of the sheets chosen so far, by function

    def __repr__(self) -> str:
        return "Pictures()"  # sphinx-gallery compares it between builds

    def __call__(self, block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
        """Return the value of the block as reStructuredText if it is a batch, else an empty string."""
        value = vars(block_vars["fake_main"]).get("___")  # value of the last expression
        if value is self._shown or not isinstance(value, gpuimg.Batch):
            return ""
        self._shown = value
        example = Path(block_vars["src_file"])
        folder = Path(gallery_conf["src_dir"])
        sheet = contact_sheet(value, _MOST, _SIDE)
        names = [Path(next(block_vars["image_path_iterator"])).with_suffix(".jpg") for _ in sheet.tiles]
        for name, tile in zip(names, sheet.tiles, strict=True):
            Image.fromarray(tile.picture).save(name, quality=_QUALITY, subsampling=0)
        self._sheets[example.stem] += 1
        thumbnail = names[0].parent / "sheets" / f"{example.stem}_{self._sheets[example.stem]}.jpg"
        thumbnail.parent.mkdir(exist_ok=True)
        _montage(sheet.tiles).save(thumbnail, quality=_QUALITY)
        subject = _title(example).lower()
        written = _written(sheet, [name.relative_to(folder).as_posix() for name in names], subject)
        self._show_on_pages(block[1], written, example, folder)
        return written

    def _show_on_pages(self, code: str, sheet: str, example: Path, folder: Path) -> None:
        """Write the sheet for the pages of the functions that the block calls, unless they have a better one."""
        (folder / _SHEETS).mkdir(exist_ok=True)
        for name, rank in _calls(code).items():
            if rank < self._ranks.get(name, 3):
                self._ranks[name] = rank
                lines = ["", ".. rubric:: Pictures", "", ".. code-block:: python", ""]
                lines += [f"   {line}" for line in code.strip().splitlines()]
                lines += [sheet, f"From the gallery: :doc:`/gallery/{example.stem}`.", ""]
                (folder / _SHEETS / f"{name}.sheet").write_text("\n".join(lines))


class PicturesOf(SphinxDirective):
    """``.. pictures-of:: gpuimg.resize``: the sheet of a function, if the gallery has one."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the sheet as nodes."""
        sheet = Path(self.env.srcdir) / _SHEETS / f"{self.arguments[0]}.sheet"
        return self.parse_text_to_nodes(sheet.read_text()) if sheet.is_file() else []


def name_thumbnails(app: Any, page: nodes.document) -> None:
    """Give the gallery's thumbnails their example's title as alternative text; refuse pictures without any."""
    for image in page.findall(nodes.image):
        stem = Path(image["uri"]).stem
        if stem.startswith("sphx_glr_") and stem.endswith("_thumb"):
            example = stem.removeprefix("sphx_glr_").removesuffix("_thumb")
            image["alt"] = _title(Path(app.confdir).parent / "examples" / "gallery" / f"{example}.py")
        if not image.get("alt"):
            raise ValueError(f"{page['source']}: {image['uri']} has no alternative text")


def _title(example: Path) -> str:
    return example.read_text().splitlines()[1]


def _calls(code: str) -> dict[str, int]:
    """Return the functions of gpuimg that a block of code calls, with 0 for the one whose value it shows.

    Others have 1 if the value shown is computed from theirs in the same line, else 2.
    """
    *_, last = ast.parse(code).body
    ranks: dict[str, int] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call):
            ranks[ast.unparse(node.func)] = 2
    for node in ast.walk(last):
        if isinstance(node, ast.Call):
            ranks[ast.unparse(node.func)] = 1
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        outer = last.value.func  # a preset is called twice: for the function, and with a batch
        ranks[ast.unparse(outer.func if isinstance(outer, ast.Call) else outer)] = 0
    return {name: rank for name, rank in ranks.items() if name.startswith("gpuimg.")}


def _montage(tiles: list[Tile]) -> Image.Image:
    """Return up to six tiles as one picture, each cut to fill its cell."""
    columns, rows = (3, 2) if len(tiles) >= 6 else (2, 2) if len(tiles) >= 4 else (min(len(tiles), 2), 1)
    width, height = _THUMBNAIL[0] // columns, _THUMBNAIL[1] // rows
    sheet = Image.new("RGB", (columns * width, rows * height))
    for k, tile in enumerate(tiles[: columns * rows]):
        cell = ImageOps.fit(Image.fromarray(tile.picture).convert("RGB"), (width, height))
        sheet.paste(cell, (k % columns * width, k // columns * height))
    return sheet


def _written(sheet: ContactSheet, names: list[str], subject: str) -> str:
    """Return the sheet as figures in rows, as many in each as fit the page."""
    lines = ["", ".. container:: contact-sheet", ""]
    for name, tile, number in zip(names, sheet.tiles, count(1)):
        width = tile.picture.shape[1]
        alt = "; ".join([f"{subject}, picture {number} of {len(names)}", *(sheet.same + tile.lines)[:4]])
        lines += [f"   .. figure:: /{name}", f"      :alt: {_literal(alt)}", f"      :width: {width}px", ""]
        lines += ["      ..", "", *(f"      | {_literal(line)}" for line in tile.lines), ""]
    if sheet.same:
        lines += [".. container:: contact-sheet-same", "", f"   All: {_literal('; '.join(sheet.same))}", ""]
    return "\n".join([*lines, ""])


def _literal(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\*`_|:" else letter for letter in text)
