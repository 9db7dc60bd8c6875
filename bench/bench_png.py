"""PNG files by gpuimg, inflated by each library that is installed, and by Pillow: same files, same threads, same run.

    python -m bench.bench_png [--rounds 7] [--count 12] [--out bench/results/png.json]

- photo: photos of 1280x960 in RGB;
- screenshot: windows and text of 1280x800 in RGB; mask: labels of 1280x960 in gray. Both are drawn.

All are written by Pillow with its defaults, and compared with it. Medians of the rounds, which take turns, of CPU
seconds of all threads: they vary less than wall clocks on shared machines. Ratios are images per CPU second over
Pillow's.
"""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import util
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

import gpuimg as gi
from bench import common, photos
from gpuimg._decoding import png
from gpuimg._threads.threads import threads

_PILLOW = "Pillow"


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
    """Windows and text on a light ground."""
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


def mask(seed: int) -> Image.Image:
    """Labels of ellipses that cover each other."""
    rng = random.Random(seed)
    image = Image.new("L", (1280, 960))
    draw = ImageDraw.Draw(image)
    for _ in range(14):
        x, y = rng.randrange(1200), rng.randrange(900)
        draw.ellipse((x, y, x + rng.randrange(30, 400), y + rng.randrange(30, 300)), rng.randrange(1, 40))
    return image


def _encoded(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def kinds(count: int) -> dict[str, list[bytes]]:
    """Return the files of each kind."""
    opened = (Image.open(io.BytesIO(data)).convert("RGB") for data in photos.load_set("1280x960", count))
    return {
        "photo": [_encoded(image) for image in opened],
        "screenshot": [_encoded(screenshot(seed)) for seed in range(count)],
        "mask": [_encoded(mask(seed)) for seed in range(count)],
    }


def _pillow(files: list[bytes], pool: ThreadPoolExecutor) -> list[Any]:
    return list(pool.map(lambda data: np.asarray(Image.open(io.BytesIO(data))), files))


def measured(files: list[bytes], rounds: int) -> dict[str, Any]:
    """Compare Pillow and gpuimg by each inflating library on files of one kind."""
    pool = ThreadPoolExecutor(threads())
    color = "gray" if Image.open(io.BytesIO(files[0])).mode == "L" else "rgb"

    def ours() -> list[Any]:
        return list(gi.decode_batch(files, color=color, device="cpu"))

    def by(name: str) -> Callable[[], object]:
        def run() -> object:
            with inflating_by(name):
                return ours()

        return run

    names = [*(name for name in png.FASTER if util.find_spec(name)), "zlib"]
    for one, other in zip(ours(), _pillow(files, pool), strict=True):
        np.testing.assert_array_equal(one.squeeze(), other)
    runs: dict[str, Callable[[], object]] = {
        _PILLOW: lambda: _pillow(files, pool),
        **{name: by(name) for name in names},
    }
    _, worked = common.interleaved(runs, rounds)
    result: dict[str, Any] = {"kilobytes": round(sum(map(len, files)) / len(files) / 1000, 1)}
    for name, seconds in worked.items():
        result[name] = {"images_per_cpu_second": round(len(files) / float(np.median(seconds)), 1)}
        if name != _PILLOW:
            result[name]["over_pillow"], result[name]["range"] = common.ratio(worked[_PILLOW], seconds)
    return result


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "png.json")
    parser.add_argument("--count", type=int, default=12)
    options = parser.parse_args()
    found = kinds(options.count)
    common.write(
        {
            **common.environment({"count": options.count}, options.rounds, options.count),
            **{kind: measured(files, options.rounds) for kind, files in found.items()},
        },
        options.out,
    )


if __name__ == "__main__":
    main()
