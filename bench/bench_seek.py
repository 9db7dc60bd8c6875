"""The seek index: speedup of crops, cost, and a check that the pixels are the same.

    python -m bench.bench_seek [--rounds 7] [--sets S,1280x960,L] [--out bench/results/seek.json]

- regions: values of random regions of photos that differ from those without an index, for each k;
- chains: `train` and `eval` with an index of k=8 and with draft, the same without, DALI, and whole images by
  nvImageCodec, each in a separate process, taking turns (see bench.peers);
- every: images/s of `train` and bytes of the index for each k, in this process, taking turns;
- build: megabytes of JPEG a second of one core;
- opening: milliseconds and resident memory of opening an index of a million samples.

Medians of the rounds; ratios are round by round, images/s over those of the other.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import gpuimg as gi
from bench import chains, common, photos
from bench.peers.host import Host, PeerError
from gpuimg._threads.threads import threads

EVERY: dict[str, int | str] = {"rows": "rows", "16": 16, "8": 8, "4": 4, "1": 1}
REGIONS = 5_000
_CHAINS = {
    "gpuimg": ("train", "eval"),
    "gpuimg-index": ("train", "eval"),
    "gpuimg-draft": ("train",),
    "dali": ("train", "eval"),
    "nvimagecodec": ("decode",),
}
_BUILT = 20 << 20  # bytes of photos that are indexed to take the time

Files = list[bytes]


def index_of(files: Files, every: int | str, folder: str) -> gi.SeekIndex:
    """Build an index of files."""
    path = Path(folder, f"{every}.gpuimg-index")
    if not path.exists():
        gi.build_index([(data, 0) for data in files], path, every=every)
    return gi.SeekIndex(path)


def differing(files: Files, count: int) -> dict[str, Any]:
    """Compare random regions with and without an index, for each k."""
    rng = np.random.default_rng()
    result: dict[str, Any] = {"regions": 0, "values": 0, "differing": 0}
    with tempfile.TemporaryDirectory() as folder:
        for every in EVERY.values():
            index = index_of(files, every, folder)
            for _ in range(-(-count // (len(EVERY) * common.BATCH))):
                numbers = rng.integers(len(files), size=common.BATCH).tolist()
                batch = [files[number] for number in numbers]
                seed = int(rng.integers(1 << 62))
                one = _cropped(gi.open_batch(batch, device="cpu"), seed)
                other = _cropped(gi.open_batch(batch, device="cpu", index=index, indices=numbers), seed)
                result["regions"] += len(batch)
                result["values"] += sum(image.size for image in one)
                result["differing"] += sum(int(np.count_nonzero(a != b)) for a, b in zip(one, other, strict=True))
    return result


def _cropped(x: gi.Batch, seed: int) -> gi.Batch:
    """Crop random regions of random sizes, without resampling."""
    rng = np.random.default_rng(seed)
    height, width = x.sizes.T
    top, left = rng.integers(height), rng.integers(width)
    return gi.crop(x, top, left, rng.integers(1, height - top + 1), rng.integers(1, width - left + 1)).compute()


def raced(name: str, files: Files, rounds: int, threads: int) -> dict[str, Any]:
    """Measure images/s of the chains, and each one's ratio to others in the same round."""
    batch = photos.SETS[name].batch
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        pickle.dump(files, file)
        file.flush()
        hosts = {peer: Host(peer, threads, batch, Path(file.name)) for peer in _CHAINS}
        try:
            return _taking_turns(hosts, len(files), rounds)
        finally:
            for host in hosts.values():
                host.close()


def _taking_turns(hosts: dict[str, Host], count: int, rounds: int) -> dict[str, Any]:
    runs = [(peer, work) for peer, works in _CHAINS.items() for work in works]
    seconds: dict[tuple[str, str], list[float]] = {run: [] for run in runs}
    failed: dict[str, str] = {}
    for k in range(rounds + 1):
        for peer, work in [*runs[k % len(runs) :], *runs[: k % len(runs)]]:
            if peer in failed:
                continue
            try:
                wall, _ = hosts[peer].request("epoch", work)
            except PeerError as error:
                failed[peer] = str(error)
                continue
            if k:  # the first round warms up
                seconds[peer, work].append(wall)
        print(f"round {k} of {rounds}", flush=True)
    result: dict[str, Any] = {"failed": failed}
    for work in ("train", "eval"):
        result[work] = {}
        for peer in [peer for peer, works in _CHAINS.items() if work in works and peer not in failed]:
            taken = seconds[peer, work]
            entry: dict[str, Any] = {"images_per_second": common.per_second(count, taken)}
            for other, other_work in (
                ("gpuimg", work),
                ("gpuimg-index", work),
                ("dali", work),
                ("nvimagecodec", "decode"),
            ):
                if other != peer and other not in failed:
                    ratio, span = common.ratio(seconds[other, other_work], taken)
                    entry[f"over {other}{', decode' if other_work != work else ''}"] = [ratio, *span]
            result[work][peer] = entry
    return result


def each_every(files: Files, rounds: int) -> dict[str, Any]:
    """Measure ``train`` for each k, and with an index learned in memory, and the bytes of the index."""
    total = sum(map(len, files))
    out = np.zeros((common.BATCH, 3, chains.SIZE, chains.SIZE), np.float32)
    result: dict[str, Any] = {"none": {}}
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, gi.SeekIndex | None] = {"none": None}
        for name, every in EVERY.items():
            found[name] = index_of(files, every, folder)
            size = os.path.getsize(Path(folder, f"{every}.gpuimg-index"))
            result[name] = {
                "bytes_an_image": round(size / len(files)),
                "percent_of_files": round(100 * size / total, 2),
            }

        def train(index: gi.SeekIndex | None) -> None:
            for at in range(0, len(files), common.BATCH):
                batch = files[at : at + common.BATCH]
                numbers = None if index is None else range(at, at + len(batch))
                x = gi.open_batch(batch, device="cpu", index=index, indices=numbers)
                x = chains.train(x, np.random.default_rng(at))
                x.array("float32", "NCHW", out=out[: len(batch)])

        seconds, _ = common.interleaved({name: partial(train, index) for name, index in found.items()}, rounds)
    for name, taken in seconds.items():
        result[name]["images_per_second"] = common.per_second(len(files), taken)
        if name != "none":
            result[name]["over_none"], result[name]["range"] = common.ratio(seconds["none"], taken)
    return result


def building(files: Files, rounds: int) -> dict[str, Any]:
    """Measure building on one thread, in a separate process."""
    code = (
        "import json, pickle, sys, time, gpuimg, tempfile\n"
        "files, rounds = pickle.load(open(sys.argv[1], 'rb')), int(sys.argv[2])\n"
        "rates = []\n"
        "for _ in range(rounds + 1):\n"
        "    with tempfile.TemporaryDirectory() as folder:\n"
        "        start = time.process_time()\n"
        "        report = gpuimg.build_index([(data, 0) for data in files], folder + '/index', every=8)\n"
        "        rates.append(report.indexed_bytes / 1e6 / (time.process_time() - start))\n"
        "print(json.dumps(sorted(rates[1:])))\n"
    )
    count = next((k for k in range(len(files)) if sum(map(len, files[:k])) > _BUILT), len(files))
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        pickle.dump(files[:count], file)
        file.flush()
        done = subprocess.run(
            [sys.executable, "-c", code, file.name, str(rounds)], capture_output=True, text=True, check=True,
            env={**os.environ, "GPUIMG_NUM_THREADS": "1"},
        )  # fmt: skip
    rates = json.loads(done.stdout)
    return {
        "files": count,
        "megabytes_a_second_of_cpu_time": round(rates[len(rates) // 2], 1),
        "range": [round(rates[0], 1), round(rates[-1], 1)],
    }


_MILLION = 1_000_000
_OPENING = """
import json, os, sys, time, gpuimg, numpy as np
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
gpuimg.SeekIndex(sys.argv[1]).entries([0])  # what is imported and compiled at first
before, start = resident(), time.perf_counter()
index = gpuimg.SeekIndex(sys.argv[1])
opened, after = time.perf_counter() - start, resident()
rng = np.random.default_rng()
times = []
for _ in range(9):
    numbers = rng.integers(len(index), size=256).tolist()
    start = time.perf_counter()
    index.entries(numbers)
    times.append(time.perf_counter() - start)
print(json.dumps({
    "samples": len(index), "milliseconds": round(1e3 * opened, 3), "resident_kilobytes": round((after - before) / 1e3),
    "microseconds_an_entry_of_256": round(1e6 * sorted(times)[4] / 256, 2),
}))
"""


def opening() -> dict[str, Any]:
    """Measure the opening of an index of a million samples, in a separate process."""
    file = io.BytesIO()
    Image.new("RGB", (64, 64), (200, 30, 90)).save(file, "JPEG")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "index")
        gi.build_index([(file.getvalue(), 0)] * _MILLION, path)
        done = subprocess.run([sys.executable, "-c", _OPENING, str(path)], capture_output=True, text=True, check=True)
        size = path.stat().st_size
    result: dict[str, Any] = json.loads(done.stdout)
    return {**result, "megabytes": round(size / 1e6, 1)}


def main() -> None:
    """Run all measurements."""
    parser = common.arguments(__doc__, "seek.json")
    parser.add_argument("--sets", default="S,1280x960,L", help="of the chains; %(default)s")
    options = parser.parse_args()
    files = photos.load()
    large = photos.load(64, (960, 1280))
    result: dict[str, Any] = common.environment(photos.summary(files, photos.SIZE), options.rounds)
    result["chains"] = {}
    for name in filter(None, options.sets.split(",")):
        print(f"set {name}", flush=True)
        rounds = options.rounds if name != "L" else min(options.rounds, 3)
        result["chains"][name] = raced(name, photos.load_set(name), rounds, threads())
    print("each k", flush=True)
    result["every"] = {"500x375": each_every(files, options.rounds), "1280x960": each_every(large, options.rounds)}
    print("building, opening, regions", flush=True)
    result["build"] = building(files, options.rounds)
    result["opening"] = opening()
    result["regions"] = differing(files, REGIONS)
    common.write(result, options.out)


if __name__ == "__main__":
    main()
