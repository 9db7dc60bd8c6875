"""Decoding of other formats, compared with Pillow: same files, same threads, same run.

    python -m bench.formats decode|progressive|png [--rounds 5] [--count 64] [--out bench/results/png.json]

- decode: values of JPEGs that differ from libjpeg-turbo's (through Pillow), and the rates of WebP, BMP and GIF;
- progressive: the same of progressive JPEGs, and their rate;
- png: photos of 1280x960, and drawn windows and text of 1280x800, inflated by each library that is installed.

Every pixel is compared with Pillow's before timing. Medians of the rounds, which take turns; ratios are gpuimg's rate
over the other's, round by round, of PNG by the CPU time of all threads.
"""

import io
import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import util
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

import gpuimg as gi
from bench import common, photos
from bench.common import BATCH
from bench.peers.base import batches
from bench.photos import encoded
from gpuimg._decoding import png
from gpuimg._threads.threads import threads

Files = list[bytes]


def by_gpuimg(files: Files) -> list[Any]:
    return [image for batch in batches(files, BATCH) for image in gi.decode_batch(batch, device="cpu")]


def by_pillow(pool: ThreadPoolExecutor, files: Files) -> list[Any]:
    def decoded(data: bytes) -> Any:
        image = Image.open(io.BytesIO(data))
        return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))

    return list(pool.map(decoded, files))


def differing_values(files: Files, pool: ThreadPoolExecutor) -> dict[str, int]:
    """Count the values of all files, and those that differ from Pillow's."""
    values = differing = 0
    for batch in batches(files, BATCH):
        for ours, theirs in zip(by_gpuimg(batch), by_pillow(pool, batch), strict=True):
            values += theirs.size
            differing += int(np.count_nonzero(theirs != ours))
    return {"values": values, "differing": differing}


def compared(files: Files, pool: ThreadPoolExecutor, rounds: int) -> dict[str, Any]:
    if found := differing_values(files, pool)["differing"]:
        raise RuntimeError(f"{found} values differ from Pillow's")
    runs = {"gpuimg": partial(by_gpuimg, files), "Pillow": partial(by_pillow, pool, files)}
    seconds, _ = common.interleaved(runs, rounds)
    return {name: common.rated(len(files), taken, seconds["gpuimg"]) for name, taken in seconds.items()}


# -- PNG ---------------------------------------------------------------------------------------------------------------


@contextmanager
def inflating_by(name: str) -> Iterator[None]:
    """Have gpuimg inflate by one library, whatever else is installed."""
    hidden = {other: sys.modules.get(other) for other in png.FASTER if other != name}
    sys.modules.update(dict.fromkeys(hidden))  # None: an import of it fails
    png.inflater.cache_clear()
    try:
        assert png.inflater().name == name
        yield
    finally:
        for other, module in hidden.items():
            del sys.modules[other]
            if module is not None:
                sys.modules[other] = module
        png.inflater.cache_clear()


def screenshot(seed: int) -> Image.Image:
    rng = random.Random(seed)
    image = Image.new("RGB", (1280, 800), (245, 246, 248))
    draw = ImageDraw.Draw(image)
    for _ in range(12):
        x, y = rng.randrange(1100), rng.randrange(700)
        fill = tuple(rng.randrange(180, 256) for _ in range(3))
        draw.rectangle((x, y, x + rng.randrange(60, 500), y + rng.randrange(20, 200)), fill, (90, 90, 90))
    letters = "abcdefghij klmnopqr stuvwxyz 0123456789.,:;()"
    for line in range(60):
        text = "".join(rng.choice(letters) for _ in range(70))
        draw.text((rng.randrange(900), 13 * line), text, fill=(20, 20, rng.randrange(120)))
    return image


def pngs(count: int) -> dict[str, Files]:
    opened = (Image.open(io.BytesIO(data)).convert("RGB") for data in photos.load_set("1280x960", count))
    return {
        "photo": [encoded(image, "PNG") for image in opened],
        "screenshot": [encoded(screenshot(seed), "PNG") for seed in range(count)],
    }


def inflated(files: Files, pool: ThreadPoolExecutor, rounds: int) -> dict[str, Any]:
    def by(name: str) -> None:
        with inflating_by(name):
            by_gpuimg(files)

    if found := differing_values(files, pool)["differing"]:
        raise RuntimeError(f"{found} values differ from Pillow's")
    names = [*(name for name in png.FASTER if util.find_spec(name)), "zlib"]
    runs: dict[str, Callable[[], object]] = {name: partial(by, name) for name in names}
    _, worked = common.interleaved({"Pillow": partial(by_pillow, pool, files), **runs}, rounds)
    result: dict[str, Any] = {"kilobytes": round(sum(map(len, files)) / len(files) / 1000, 1)}
    for name in names:
        result[name] = common.rated(len(files), worked[name])
        result[name]["Pillow"] = common.rated(len(files), worked["Pillow"], worked[name])
    return result


def main() -> None:
    parser = common.arguments(__doc__, "", count=True)
    parser.add_argument("format", choices=["decode", "progressive", "png"])
    options = parser.parse_args()
    out = options.out if options.out.suffix else common.RESULTS / f"{options.format}.json"
    found: dict[str, Any]
    with ThreadPoolExecutor(threads()) as pool:
        if options.format == "png":
            about = common.environment({"count": options.count or 12}, options.rounds)
            found = {kind: inflated(own, pool, options.rounds) for kind, own in pngs(options.count or 12).items()}
        else:
            name = "S" if options.format == "decode" else "progressive"
            files = photos.load_set(name, options.count)
            about = common.environment(photos.summary_of_set(name, files), options.rounds)
            found = {"pixels": differing_values(files, pool)}
            if name == "S":
                opened = [Image.open(io.BytesIO(data)).convert("RGB") for data in files[:BATCH]]
                for form in ("WebP", "BMP", "GIF"):
                    timed = [encoded(image, form) for image in opened]
                    found[form.lower()] = compared(timed, pool, options.rounds)
            else:
                found["whole"] = compared(files, pool, options.rounds)
    common.write({**about, **found}, out)


if __name__ == "__main__":
    main()
