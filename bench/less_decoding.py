"""Ways to decode less: ``draft``, recoded and prepared photos. docs/performance.md compares them.

    python -m bench.less_decoding draft|prepare|recode [--rounds 5] [--count 64] [--out bench/results/draft.json]

- draft: for photos of 500 x 375 at 1.7 and at 4.8 bits per pixel and of 1280 x 960, images/s with
  ``draft=1.5`` and photos made smaller by :func:`gpuimg.prepare`, over those without;
- prepare: the cost of preparing on one and two threads, and the bytes of the results.
- recode: images/s of ``train`` and ``eval`` with recoded photos over those with the JPEGs, and over DALI's with the
  JPEGs where it is installed, their bytes, and megapixels/s of recoding; the results must be equal.

Works take turns; medians of the rounds, ratios round by round, by the CPU time of all threads, for a machine that has
other work.
"""

import itertools
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from bench import common, photos
from bench.peers import peer_class
from bench.peers.base import batches
from gpuimg._threads.threads import threads
from gpuimg.typing import PrepareReport

SIZE, BATCH = 224, 32
DALI = "DALI, with the JPEGs"
SIDES = {"S": 256, "S-4.8": 256, "1280x960": 512}  # the shorter side that photos of a set are prepared to
SETS = {"draft": (*SIDES,), "prepare": ("S", "1280x960"), "recode": (*SIDES,)}

Files = list[bytes]
Chain = Callable[[gi.Batch], gi.Batch]


def train(x: gi.Batch) -> gi.Batch:
    """Apply the preprocessing of ImageNet training, always with the same crops."""
    crops = gi.random_resized_crop(x, SIZE, rng=gi.Rng(0, indices=np.arange(len(x))))
    return gi.normalize(gi.horizontal_flip(crops), gi.IMAGENET_MEAN, gi.IMAGENET_STD)


CHAINS: dict[str, Chain] = {"train": train, "eval": gi.presets.imagenet_eval(SIZE, 256)}


def run(files: Files, chain: Chain, draft: Any = None) -> None:
    """Run a chain over all files, into memory that is used again."""
    out = np.zeros((BATCH, 3, SIZE, SIZE), np.float32)
    for batch in batches(files, BATCH):
        chain(gi.open_batch(batch, device="cpu", draft=draft)).array("float32", "NCHW", out=out[: len(batch)])


def compared(files: int, runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, Any]:
    """Measure images/s of runs over the same number of files in turn, and their ratios to the first one's."""
    walls, worked = common.interleaved(runs, rounds)
    bases = {"without": next(iter(runs))} | ({"dali": DALI} if DALI in runs else {})
    result: dict[str, Any] = {}
    for name in runs:
        result[name] = {"images_per_second": common.per_second(files, walls[name])}
        for base, other in bases.items():
            ratio, spread = common.ratio(worked[other], worked[name])
            result[name] |= {f"times_{base}_by_cpu_time": ratio, f"range_{base}_by_cpu_time": spread}
    return result


# -- draft -------------------------------------------------------------------------------------------------------------


def prepared(files: Files, side: int, folder: str) -> Files:
    photos.write_classes(files, Path(folder, "photos"))
    gi.prepare(gi.folder(Path(folder, "photos")), Path(folder, "small"), short_side=side)
    return [path.read_bytes() for path in sorted(Path(folder, "small").rglob("*.jpg"), key=lambda path: path.name)]


def levers(name: str, files: Files, rounds: int) -> dict[str, Any]:
    result: dict[str, Any] = {"photos": photos.summary_of_set(name, files)}
    with tempfile.TemporaryDirectory() as folder:
        small = prepared(files, SIDES[name], folder)
        for work, chain in CHAINS.items():
            runs = {
                "without": partial(run, files, chain),
                "draft=1.5": partial(run, files, chain, 1.5),
                f"prepared to {SIDES[name]}": partial(run, small, chain),
            }
            result[work] = compared(len(files), runs, rounds)
    return result


# -- prepare and recode ------------------------------------------------------------------------------------------------


def preparing(name: str, files: Files, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        photos.write_classes(files, Path(folder, "in"))
        source, number = gi.folder(Path(folder, "in")), itertools.count()

        def prepare(threads: int) -> PrepareReport:
            # In another folder than the last run: ext4 does not reuse the inodes of deleted files for some seconds,
            # and skipping them takes up to half of the time, with the folder locked.
            out = Path(folder, f"out{next(number)}")
            return gi.prepare(source, out, short_side=SIDES[name], threads=threads, measure=False)

        runs = {"prepare": partial(prepare, 1), "prepare on 2 threads": partial(prepare, 2)}
        walls, worked = common.interleaved(runs, rounds)
        report = prepare(2)
    two_threads, spread = common.ratio(walls["prepare"], walls["prepare on 2 threads"])
    return {
        "milliseconds_of_cpu": {run: round(1e3 * float(np.median(s)) / len(files), 3) for run, s in worked.items()},
        "two_threads": two_threads,
        "two_threads_range": spread,
        "bytes": [report.source_bytes, report.bytes],
    }


def dali(files: Files, work: str) -> dict[str, Callable[[], None]]:
    """Return DALI's run of a work, with other random crops, if it is installed."""
    try:
        peer = peer_class("dali")(threads(), BATCH)
    except ImportError:
        return {}
    epoch = peer.start(work, files)
    return {DALI: lambda: common.drain(epoch())}


def recoding(name: str, files: Files, rounds: int) -> dict[str, Any]:
    """Measure recoded photos against the same as JPEGs, without those that are not recoded."""
    files = [data for data in files if b"\xff\xc2" not in data[: data.index(b"\xff\xda")]]
    recoded = [gi.recode_jpeg(data) for data in files]
    assert all(map(np.array_equal, map(gi.decode_image, files), map(gi.decode_image, recoded)))
    shares = [len(after) / len(before) for before, after in zip(files, recoded, strict=True)]
    pixels = sum(height * width for height, width, *_ in map(gi.image_info, files))
    _, worked = common.interleaved({"recode": lambda: [gi.recode_jpeg(data) for data in files]}, rounds)
    result = {
        "photos": photos.summary_of_set(name, files),
        "bytes": round(sum(map(len, recoded)) / sum(map(len, files)), 4),
        "bytes_p95": round(float(np.percentile(shares, 95)), 4),
        "megapixels_per_second_of_cpu": round(pixels / 1e6 / float(np.median(worked["recode"])), 1),
    }
    for work, chain in CHAINS.items():
        runs = {"jpeg": partial(run, files, chain), "recoded": partial(run, recoded, chain), **dali(files, work)}
        result[work] = compared(len(files), runs, rounds)
    return result


def main() -> None:
    parser = common.arguments(__doc__, "", count=True)
    parser.add_argument("what", choices=list(SETS))
    options = parser.parse_args()
    sets = {name: photos.load_set(name, options.count) for name in SETS[options.what]}
    about = {name: photos.summary_of_set(name, files) for name, files in sets.items()}
    result = common.environment(about, options.rounds, BATCH)
    measure = {"draft": levers, "prepare": preparing, "recode": recoding}[options.what]
    found = {name: measure(name, files, options.rounds) for name, files in sets.items()}
    if "nvidia.dali" in sys.modules:
        result["versions"]["dali"] = sys.modules["nvidia.dali"].__version__
    result |= {"levers" if options.what == "draft" else "sets": found, "short_side": SIDES}
    common.write(result, options.out if options.out.suffix else common.RESULTS / f"{options.what}.json")


if __name__ == "__main__":
    main()
