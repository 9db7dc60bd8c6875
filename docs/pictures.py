"""Pictures of the gallery: if the last value of an example's block is a batch, show it as a contact sheet."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from PIL import Image

import gpuimg
from gpuimg._batch.contact_sheet import ContactSheet, contact_sheet

_MOST = 12  # images of a sheet
_SIDE = 190  # pixels of the longer side
_QUALITY = 92  # of the JPEGs: a page has about a hundred pictures


class Pictures:
    """A scraper of sphinx-gallery, which calls it after each block of an example for reStructuredText."""

    def __init__(self) -> None:
        self._shown: Any = None

    def __repr__(self) -> str:
        return "Pictures()"  # sphinx-gallery compares it between builds

    def __call__(self, block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
        """Return the value of the block as reStructuredText if it is a batch, else an empty string."""
        value = vars(block_vars["fake_main"]).get("___")  # value of the last expression
        if value is self._shown or not isinstance(value, gpuimg.Batch):
            return ""
        self._shown = value
        sheet = contact_sheet(value, _MOST, _SIDE)
        names = [Path(next(block_vars["image_path_iterator"])).with_suffix(".jpg") for _ in sheet.tiles]
        for name, tile in zip(names, sheet.tiles, strict=True):
            Image.fromarray(tile.picture).save(name, quality=_QUALITY, subsampling=0)
        return _written(sheet, [name.relative_to(gallery_conf["src_dir"]).as_posix() for name in names])


def _written(sheet: ContactSheet, names: list[str]) -> str:
    """Return the sheet as figures in rows, as many in each as fit the page."""
    lines = ["", ".. container:: contact-sheet", ""]
    for name, tile, number in zip(names, sheet.tiles, count()):
        width = tile.picture.shape[1]
        lines += [f"   .. figure:: /{name}", f"      :alt: result {number}", f"      :width: {width}px", ""]
        lines += [
            "      ..",
            "",
            *(f"      | {_literal(line)}" for line in tile.lines),
            "",
        ]
    if sheet.same:
        lines += [".. container:: contact-sheet-same", "", f"   All: {_literal('; '.join(sheet.same))}", ""]
    return "\n".join([*lines, ""])


def _literal(text: str) -> str:
    """Escape markup."""
    return "".join(f"\\{letter}" if letter in "\\*`_|:" else letter for letter in text)
