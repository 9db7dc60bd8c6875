"""Memory of whole calls of exact presets: that of the result, and 24 bytes a pixel of the largest image."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bench.processors import OURS

from ..data_sets import jpeg
from ..processes import Forks, forks
from ..samples import write_files

NARROW = 64 << 20  # bytes that any call may need: those of narrow images, tables, code that is loaded
pytestmark = pytest.mark.slow
EVALS = ("imagenet_eval", "timm_eval", "open_clip_eval")

IMPORTS = """
import json, re, sys
from pathlib import Path
import numpy as np
import gpuimg as gi
from bench.processors import OURS
"""
MEASURED = """

PREPARE = {
    **OURS,
    "imagenet_eval": lambda: gi.presets.imagenet_eval(exact="pillow"),
    "timm_eval": lambda: gi.models.timm_eval({"interpolation": "bicubic"}),
    "open_clip_eval": gi.models.open_clip_eval,
}

def peak():
    return int(re.findall(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[0]) * 1024

def measured(prepare, images):
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    found = prepare(images)
    arrays = [found.array(layout="NCHW")] if isinstance(found, gi.Batch) else found.values()
    return sum(array.nbytes for array in arrays), peak() - before
"""
CALLS = """
prepare = PREPARE[sys.argv[1]]()
for one in map(json.loads, sys.argv[2:]):
    of_files = isinstance(one[0], str)
    images = gi.open_batch(one, device="cpu") if of_files else np.zeros((1, *one, 3), np.uint8)
    try:
        found = measured(prepare, images)
    except ValueError as error:
        found = str(error)
    print(json.dumps(found))
"""
#: Words of images that are refused.
REFUSED = ("times as long as wide", "pixels in between; resize it in two steps", "a side may grow to", "too narrow for")


@pytest.fixture(scope="module")
def process() -> Iterator[Forks]:
    """A process that has imported gpuimg and called nothing, with one thread."""
    with forks(IMPORTS, GPUIMG_NUM_THREADS="1") as made:
        yield made


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], str]:
    sizes = ((90, 120), (3000, 4000), (1200, 1600), (375, 500), (300, 640))
    folder = write_files(tmp_path_factory.mktemp("photos"), {f"{size}.jpg": jpeg(0, size) for size in sizes})
    return {size: str(folder / f"{size}.jpg") for size in sizes}


def calls(process: Forks, name: str, *images: Any) -> list[Any]:
    """Bytes of the result and of more memory, or the error, of a call for each list of paths or shape of an image."""
    done = process.run(IMPORTS + MEASURED + CALLS, name, *map(json.dumps, images))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


MIXED = [(1200, 1600), *[(375, 500)] * 4, (300, 640), (300, 640)]


@pytest.mark.parametrize(("name", "sizes", "more"), [
    *((name, sizes, NARROW) for name in (*OURS, *EVALS) for sizes in ([(3000, 4000)], MIXED)),
    ("idefics3", [(375, 500)] * 14, NARROW * 3 // 4),  # the bytes of all 14 are 67 MB
])  # fmt: skip
def test_memory_of_a_call(process: Forks, photos: Any, name: str, sizes: list[tuple[int, int]], more: int) -> None:
    _, (result, grown) = calls(process, name, [photos[90, 120]] * 2, [photos[size] for size in sizes])
    assert grown <= result + 24 * max(h * w for h, w in sizes) + more


@pytest.mark.parametrize("name", [*OURS, *EVALS])
def test_narrow_images_are_refused_or_cheap(process: Forks, name: str) -> None:
    first, shapes = [(40, 50), (1, 90), (90, 1)], [(1, 65535), (65535, 1), (30000, 1), (1, 30000)]
    for (height, width), found in zip(shapes, calls(process, name, *first, *shapes)[3:], strict=True):
        if isinstance(found, str):
            assert any(words in found for words in REFUSED), found
        else:
            result, grown = found
            assert result <= 1 << 28
            assert grown <= result + 24 * height * width + NARROW
