"""Damaged slides: directories, which say where tiles are, and tiles in all their compressions.

A damaged slide is refused, or each of its tiles is a file of the size and the channels that the directory gives, or is
refused by its name.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import gpuimg as gi

from ..sources.laws import assert_names
from ..sources.slides import Form, deflated, jpeg_pyramid, picture, pyramid, raw, saved
from .mutate import Draw, changed

_TILES = 6  # read of each level


def originals() -> dict[str, bytes]:
    image = picture(150, 170)
    return {
        "shared tables": jpeg_pyramid(image, levels=2, side=64, inner=True),
        "own tables": jpeg_pyramid(image, Form(shared=False, markers="own"), levels=2, side=64, big=True),
        "raw": pyramid(image, raw(">"), {259: 1, 262: 2}, levels=2, side=64, order=">"),
        "deflate": pyramid(image, deflated, {259: 8, 262: 2, 317: 2}, levels=2, side=64),
        "webp": pyramid(image, lambda tile: saved(tile, "WEBP"), {259: 50001, 262: 2}, levels=2, side=64),
        "jpeg2k": pyramid(
            image, lambda tile: saved(tile, "JPEG2000", no_jp2=True), {259: 33003, 262: 6}, levels=2, side=64
        ),
    }


def check(folder: Path) -> Callable[[int], dict[str, int]]:
    files, path = originals(), folder / "a.tif"
    names = list(files)

    def checked(number: int) -> dict[str, int]:
        draw = Draw(number)
        name = names[number % len(names)]
        data, found = files[name], Counter[str]()
        start = int.from_bytes(data[4:8], "little" if data[:2] == b"II" else "big") if data[2:4] != b"+\0" else 0
        start = start or int.from_bytes(data[8:16], "little")
        if draw.below(3):  # most in the directories
            data = data[:start] + changed(draw, data[start:], data[start:])[0]
        else:
            data = changed(draw, data, files[draw.pick(names)])[0]
        path.write_bytes(data)
        try:
            levels = len(gi.tiles(path, edges="keep").slides[0].levels)
        except ValueError as error:
            assert_names(error, str(path))
            return {f"{name}: refused": 1}
        for level in range(levels):
            found += _tiles(path, level, name)
        return dict(found)

    return checked


def _tiles(path: Path, level: int, name: str) -> Counter[str]:
    try:
        source = gi.tiles(path, level=level, edges="keep")
    except ValueError as error:
        assert_names(error, str(path))
        return Counter({f"{name}: level refused": 1})
    files, found = [], Counter[str]()
    for i in range(min(_TILES, len(source))):
        try:
            files.append(source[i][0])
        except ValueError as error:
            assert_names(error, source.describe(i))
            found[f"{name}: tile refused"] += 1
    if files:
        one = source.slides[0].levels[level]
        batch = gi.decode_batch(files, device="cpu", on_error="fill", depth="native")
        for k, status in enumerate(batch.status):
            found[f"{name}: {'decoded' if status == 'ok' else 'damaged'}"] += 1
            assert status != "ok" or batch[k].shape[:2] == (one.tile_height, one.tile_width), batch[k].shape
    return found
