"""Pictures of the gallery: if the last value of an example's block is a batch, show it as a contact sheet.

The sheet of a block that calls a function is also shown on the function's page of the reference.
"""

import ast
import re
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
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
        self._show_on_pages(block, written, example, folder, block_vars["example_globals"])
        return written

    def _show_on_pages(self, block: Any, sheet: str, example: Path, folder: Path, known: dict[str, Any]) -> None:
        """Write the sheet for the pages of the functions that the block calls, unless they have a better one."""
        (folder / _SHEETS).mkdir(exist_ok=True)
        code = block[1]
        alone = _alone("\n".join(example.read_text().splitlines()[: block[2] - 1]), code.strip())
        for name, (rank, given) in _calls(code).items():
            if rank < self._ranks.get(name, 3):
                self._ranks[name] = rank
                lines = ["", ".. code-block:: python", "", *(f"   {line}" for line in alone.splitlines())]
                originals = _originals(given, known)
                if originals:
                    names = [f"gallery/images/originals/{name}_{k}.jpg" for k in range(len(originals.tiles))]
                    for path, tile in zip(names, originals.tiles, strict=True):
                        (folder / path).parent.mkdir(parents=True, exist_ok=True)
                        Image.fromarray(tile.picture).save(folder / path, quality=_QUALITY, subsampling=0)
                    lines += ["", "Before:", _written(originals, names, "the original", "originals"), "After:"]
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


def _calls(code: str) -> dict[str, tuple[int, str]]:
    """Return the functions of gpuimg that a block of code calls, with a rank and the expression of their images.

    The rank is 0 for the one whose value the block shows, 1 if that is computed from theirs in the same line, else 2.
    """
    *_, last = ast.parse(code).body
    found: dict[str, tuple[int, str]] = {}

    def note(call: ast.Call, rank: int) -> None:
        made = isinstance(call.func, ast.Call)  # a preset is called twice: for the function, and with a batch
        name = ast.unparse(call.func.func if isinstance(call.func, ast.Call) else call.func)
        if made or name not in found or found[name][0] >= rank:
            found[name] = rank, ast.unparse(call.args[0]) if call.args else ""

    for rank, part in ((2, ast.parse(code)), (1, last)):
        for node in reversed(list(ast.walk(part))):  # the outer call of a preset last
            if isinstance(node, ast.Call):
                note(node, rank)
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        note(last.value, 0)
    return {name: one for name, one in found.items() if name.startswith("gpuimg.")}


def _alone(before: str, code: str) -> str:
    """Return code with the statements before it that define its names: a program."""
    needed = _names_in(ast.parse(code))
    kept: list[str] = []
    for statement in reversed(ast.parse(before).body):
        defined = _names_in(statement, ast.Store)
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            defined = {(one.asname or one.name).partition(".")[0] for one in statement.names}
        elif isinstance(statement, ast.FunctionDef):
            defined = {statement.name}
        if defined & needed or isinstance(statement, (ast.With, ast.For)):  # the latter write a file
            needed = needed - defined | _names_in(statement)
            start = min([one.lineno for one in getattr(statement, "decorator_list", [])] or [statement.lineno])
            lines = before.splitlines()[start - 1 : statement.end_lineno]
            kept += [*["", ""] * isinstance(statement, ast.FunctionDef), "\n".join(lines)]
    imports = [one for one in kept if one.startswith(("import ", "from "))]
    others = [one for one in reversed(kept) if one not in imports]
    program = "\n".join([*sorted(imports, key=lambda one: "gpuimg" in one), "", *others, code])
    return re.sub(r"\n{4,}", "\n\n\n", program)


def _names_in(tree: ast.AST, kind: type[ast.expr_context] = ast.Load) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, kind)}


def _originals(expression: str, known: dict[str, Any]) -> ContactSheet | None:
    """Return the images that a function was given as a sheet, one if all are equal; None if they are no images."""
    try:
        given = eval(expression, dict(known))  # as the example did
    except Exception:
        return None
    if not isinstance(given, gpuimg.Batch) or not len(given) or given.frames is not None:
        return None
    pixels = given.compute("uint8")
    equal = all(np.array_equal(pixels[0], image) for image in pixels)
    sheet = contact_sheet(pixels.take(range(1 if equal else len(pixels))), 4, _SIDE)
    return ContactSheet([Tile(tile.picture, []) for tile in sheet.tiles], [], 0)


def _montage(tiles: list[Tile]) -> Image.Image:
    """Return up to six tiles as one picture, each cut to fill its cell."""
    columns, rows = (3, 2) if len(tiles) >= 6 else (2, 2) if len(tiles) >= 4 else (min(len(tiles), 2), 1)
    width, height = _THUMBNAIL[0] // columns, _THUMBNAIL[1] // rows
    sheet = Image.new("RGB", (columns * width, rows * height))
    for k, tile in enumerate(tiles[: columns * rows]):
        cell = ImageOps.fit(Image.fromarray(tile.picture).convert("RGB"), (width, height))
        sheet.paste(cell, (k % columns * width, k // columns * height))
    return sheet


def _written(sheet: ContactSheet, names: list[str], subject: str, kind: str = "") -> str:
    """Return the sheet as figures in rows, as many in each as fit the page."""
    lines = ["", f".. container:: contact-sheet {kind}".rstrip(), ""]
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
