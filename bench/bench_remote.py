"""Remote shards compared with the same shards on the disk.

    python -m bench.bench_remote [--rounds 7] [--delay 0.02] [--out bench/results/remote.json]

A loader with its default settings reads tar shards, decodes, and augments as for ImageNet: from the disk; over S3 and
over HTTP from servers on the loopback that answer every request 20 ms late; in order, shuffled, and shuffled by blocks;
and once more from the cache. The servers are separate processes, but share the cores with the loader: moto's S3 with a
proxy that waits (two servers in Python, each of which copies all bytes), and a light one that answers ranges. The
result has their CPU time and the loader's.

It needs the extras bench and test. Round-robin, medians of the rounds, ratios of each round's neighbors.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import gpuimg as gi
from bench import photos
from bench.common import BATCH, arguments, per_second, processor, ratio, write
from gpuimg._threads.threads import threads
from tests.robustness.remote import s3

SHARDS = 4
# With the epochs of a measurement, which includes filling the pipeline once: about 0.05 s with a network.
ORDERS: dict[str, tuple[Any, int]] = {
    "in order": (False, 32), "shuffled": (True, 4), "shuffled by blocks of 32": (gi.Blocks(32, 256), 32),
}  # fmt: skip
CREDENTIALS = {"key": "testing", "secret": "testing"}  # moto takes any

train = gi.presets.imagenet_train(224)


def write_shards(files: list[bytes], folder: Path) -> None:
    """Write files, with their numbers as labels, to a few tar files."""
    for k in range(SHARDS):
        with tarfile.open(folder / f"{k}.tar", "w") as tar:
            for i in range(k, len(files), SHARDS):
                for ending, data in (("jpg", files[i]), ("cls", str(i).encode())):
                    member = tarfile.TarInfo(f"{i:05d}.{ending}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


class Process:
    """A server in a separate process."""

    def __init__(self, arguments: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def cpu(self) -> float:
        """Return its CPU seconds so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@contextmanager
def served(*arguments: str) -> Iterator[Process]:
    """Run a server during the block."""
    process = Process(list(arguments))
    try:
        yield process
    finally:
        process.close()


def serve(folder: Path, delay: float) -> None:
    """Serve the files of a folder by moto's S3 and a proxy that waits, until the standard input ends."""
    with s3({path.name: path.read_bytes() for path in folder.iterdir()}) as server:
        server.delay = delay
        print(server.url, flush=True)
        sys.stdin.read()


def seconds_of(loader: gi.Loader) -> tuple[float, float]:
    """Return wall-clock seconds of a loop, and CPU seconds of this process."""
    start, cpu = time.perf_counter(), time.process_time()
    for _ in loader:
        pass
    return time.perf_counter() - start, time.process_time() - cpu


def measure(sources: dict[str, Any], servers: dict[str, Process], images: int, rounds: int) -> dict[str, Any]:
    """Measure images/s of each source, relative to those of the local one in the same round."""
    result: dict[str, Any] = {}
    for order, (shuffle, epochs) in ORDERS.items():
        loaders = {
            name: gi.load(
                source, train, batch_size=BATCH, device="cpu", dtype="float32", layout="NCHW", shuffle=shuffle,
                epochs=epochs,
            )
            for name, source in sources.items()
        }  # fmt: skip
        seconds: dict[str, list[float]] = {name: [] for name in loaders}
        cpu = dict.fromkeys(loaders, 0.0)
        own: dict[str, list[float]] = {name: [] for name in loaders}
        for k in range(rounds + 1):
            for name, loader in loaders.items():
                before = servers[name].cpu() if name in servers else 0.0
                taken, computed = seconds_of(loader)
                if k:  # the first round warms up, and fills the cache
                    seconds[name].append(taken)
                    own[name].append(computed)
                    cpu[name] += servers[name].cpu() - before if name in servers else 0.0
        for name, times in seconds.items():
            middle, spread = ratio(seconds["local"], times)
            computing, _ = ratio(own[name], own["local"])
            result.setdefault(name, {})[order] = {
                "images_per_second": per_second(images * epochs, times), "of_local": middle, "range": spread,
                "cpu_of_the_loader_of_local": computing,
                "cores_of_the_server": round(cpu[name] / sum(times), 2),
                "limit": loaders[name].stats()["limit"],
            }  # fmt: skip
            print(name, order, result[name][order], flush=True)
    return result


def main() -> None:
    """Measure, print, and write the result."""
    parser = arguments(__doc__, "remote.json", 5)
    parser.add_argument("--delay", type=float, default=0.02)
    parser.add_argument("--images", type=int, default=photos.COUNT)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.delay)
        return
    files = photos.load(options.images)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cache = stack.enter_context(tempfile.TemporaryDirectory())
        write_shards(files, folder)
        delay = ("--delay", str(options.delay))
        light = stack.enter_context(served("-m", "tests.remote_server", str(folder), *delay))
        moto = stack.enter_context(served("-m", "bench.bench_remote", "--serve", str(folder), *delay))

        def remote(server: Process, **others: Any) -> gi.Remote:
            return gi.Remote(storage_options={**CREDENTIALS, "endpoint_url": server.url}, **others)

        pattern = f"{{0..{SHARDS - 1}}}.tar"
        sources = {
            "local": gi.tar(f"{folder}/{pattern}"),
            "S3, light server": gi.tar(f"s3://bucket/{pattern}", remote=remote(light)),
            "S3, moto": gi.tar(f"s3://bucket/{pattern}", remote=remote(moto)),
            "HTTP, light server": gi.tar(f"{light.url}/bucket/{pattern}"),
            "S3, moto, from the cache": gi.tar(f"s3://bucket/{pattern}", remote=remote(moto, cache=cache)),
        }
        servers = {name: moto if "moto" in name else light for name in sources if name != "local"}
        write(
            {
                "machine": {"processor": processor(), "threads": threads()},
                "photos": photos.summary(files), "batch": BATCH, "rounds": options.rounds,
                "delay_of_a_request_s": options.delay,
                "throughput": measure(sources, servers, len(files), options.rounds),
            },
            options.out,
        )  # fmt: skip


if __name__ == "__main__":
    main()
