"""Tiles of a slide, by gpuimg and by other libraries.

    python -m bench.tiles [--rounds 7] [--out bench/results/tiles.json]

CPU time of one thread per tile: random tiles of the largest level of a pyramid of photos, 15,000 x 20,000 pixels with
JPEG compression at quality 85 (4:2:0), from the page cache to pixels in batches of 256; contenders in turn, medians of
the rounds. tifffile decodes with imagecodecs. Before timing, all pixels are compared with tifffile's. Then the time to
open the slide, and the memory that ten slides of 100,000 tiles take.
"""

import os
import tempfile
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import openslide
import simplejpeg
import tifffile

import gpuimg as gi
from bench import common, photos
from tests.decoding.tiffs import pages
from tests.sources.slides import Form, jpeg_pyramid

_BATCH, _BATCHES = 256, 8
_SIZE = 15000, 20000
_OPENINGS = 20


def canvas() -> Any:
    """Photos side by side."""
    files, (height, width) = photos.load_set("S", 256), _SIZE
    pictures = [np.asarray(one) for one in gi.decode_batch(files, device="cpu")]
    h, w = min(len(one) for one in pictures), min(one.shape[1] for one in pictures)
    chosen = np.random.default_rng(0).integers(0, len(pictures), (-(-height // h), -(-width // w)))
    rows = [np.concatenate([pictures[k][:h, :w] for k in row], 1) for row in chosen.tolist()]
    return np.concatenate(rows)[:height, :width]


def contenders(path: Path, side: int, picks: list[int]) -> dict[str, Callable[[], None]]:
    source, file, slide = gi.tiles(path), tifffile.TiffFile(path), openslide.OpenSlide(path)
    page: Any = file.pages[0]
    columns, out = -(-_SIZE[1] // side), np.empty((_BATCH, side, side, 3), np.uint8)
    labels = [source.label(k)[1:].tolist() for k in picks]

    def by_tifffile(k: int) -> None:
        y, x = labels[k]
        tile = y // side * columns + x // side
        file.filehandle.seek(page.dataoffsets[tile])
        data = file.filehandle.read(page.databytecounts[tile])
        out[k % _BATCH] = page.decode(data, tile, jpegtables=page.jpegtables)[0][0]

    def by_openslide(k: int) -> None:
        y, x = labels[k]
        out[k % _BATCH] = np.asarray(slide.read_region((x, y), 0, (side, side)))[..., :3]

    def by_simplejpeg(k: int) -> None:
        data = source[picks[k]][0]
        simplejpeg.decode_jpeg(data, fastdct=False, fastupsample=False, buffer=out[k % _BATCH])

    def each(function: Callable[[int], None], first: int = 0) -> None:
        for k in range(first, len(picks)):
            function(k)

    def by_loop() -> None:
        for _ in gi.load(source, batch_size=_BATCH, indices=picks, device="cpu"):
            pass

    _ = page.decode  # made at its first use, which moves the file's position
    others = {"tifffile": by_tifffile, "simplejpeg": by_simplejpeg, "openslide": by_openslide}
    (wanted,) = gi.load(source, batch_size=_BATCH, indices=picks[-_BATCH:], device="cpu")
    for name, function in others.items():
        each(function, len(picks) - _BATCH)
        assert np.array_equal(out, wanted.images), name
    return {"gpuimg": by_loop, **{name: partial(each, function) for name, function in others.items()}}


def openings(path: Path) -> dict[str, Callable[[], object]]:
    def each(function: Callable[[], object]) -> None:
        for _ in range(_OPENINGS):
            function()

    found: dict[str, Callable[[], object]] = {
        "gpuimg": partial(gi.tiles, path), "tifffile": lambda: tifffile.TiffFile(path).series,
        "openslide": lambda: openslide.OpenSlide(path).close(),
    }  # fmt: skip
    return {name: partial(each, function) for name, function in found.items()}


def memory_of_ten(folder: Path) -> dict[str, float]:
    """MB that a source of ten slides of 100,000 tiles keeps and takes; all tiles of a file are the same one."""
    tile = Form().encode(np.zeros((256, 256, 3), np.uint8))
    for k in range(10):
        images = []
        for rows, columns in ((250, 400), (125, 200)):
            tags = {256: 256 * columns, 257: 256 * rows, 258: [8] * 3, 277: 3, 322: 256, 323: 256} | Form().tags(3)
            images.append(([tile], tags | {324: [16] * (rows * columns), 325: [len(tile)] * (rows * columns)}))
        (folder / f"{k}.tif").write_bytes(pages(images, big=True, tiled=True))
    tracemalloc.start()
    source = gi.tiles(folder / "?.tif")
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(source) == 10**6
    return {"kept_mb": round(kept / 1e6, 1), "peak_mb": round(peak / 1e6, 1)}


def main() -> None:
    options = common.arguments(__doc__, "tiles.json", rounds=7).parse_args()
    os.environ["GPUIMG_NUM_THREADS"] = "1"
    image, rows, opened = canvas(), [], {}
    with tempfile.TemporaryDirectory() as folder:
        for side in (256, 512):
            path = Path(folder) / f"slide{side}.tif"
            path.write_bytes(jpeg_pyramid(image, side=side, levels=5, big=True))
            tiles = len(gi.tiles(path))
            picks = np.random.default_rng(side).integers(0, tiles, _BATCH * _BATCHES).tolist()
            _, worked = common.interleaved(contenders(path, side, picks), options.rounds)
            rows.append({
                "side": side, "tiles": tiles,
                "microseconds": {key: round(float(np.median(s)) / len(picks) * 1e6, 1) for key, s in worked.items()},
                "over_gpuimg": {key: common.ratio(s, worked["gpuimg"]) for key, s in worked.items() if key != "gpuimg"},
            })  # fmt: skip
            print(rows[-1], flush=True)
        walls, _ = common.interleaved(openings(path), options.rounds)
        opened = {key: round(float(np.median(s)) / _OPENINGS * 1e3, 3) for key, s in walls.items()}
        memory = memory_of_ten(Path(folder))
    found = common.environment({"set": "S", "count": 256}, options.rounds, _BATCH)
    common.write(found | {"rows": rows, "milliseconds_to_open": opened, "ten_slides": memory}, options.out)


if __name__ == "__main__":
    main()
