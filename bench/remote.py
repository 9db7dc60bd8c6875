"""Remote shards compared with the same shards on the disk.

    python -m bench.remote [--rounds 3] [--delay 0.02] [--out bench/results/remote.json]

A loader with its default settings reads tar shards, decodes, and augments as for ImageNet: from the disk; over S3 and
over HTTP from a server on the loopback that answers every request 20 ms late; in order, shuffled, and shuffled by
blocks; and once more from the cache. The server is a separate process, but shares the cores with the loader.

Sources take turns, medians of the rounds, ratios of each round's neighbors.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from bench import common, photos
from bench.loader import loader

SHARDS, SAMPLES = 300, 32  # of each
# With the epochs of a measurement, which includes filling the pipeline once: about 0.05 s with a network.
ORDERS: dict[str, tuple[Any, int]] = {
    "in order": (False, 1), "shuffled": (True, 1), "shuffled by blocks of 32": (gi.Blocks(32, 256), 1),
}  # fmt: skip


def write_shards(files: list[bytes], folder: Path) -> None:
    """Write files in turn, with their numbers as labels, to tar files."""
    for k in range(SHARDS):
        with tarfile.open(folder / f"{k}.tar", "w") as tar:
            for i in range(k * SAMPLES, (k + 1) * SAMPLES):
                for ending, data in (("jpg", files[i % len(files)]), ("cls", str(i).encode())):
                    member = tarfile.TarInfo(f"{i:05d}.{ending}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


@contextmanager
def served(folder: Path, delay: float) -> Iterator[str]:
    """Serve the files of a folder during the block; return the URL."""
    command = [sys.executable, "-m", "tests.sources.remote_server", str(folder), "--delay", str(delay)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def measure(sources: dict[str, Any], images: int, rounds: int) -> dict[str, Any]:
    """Measure images/s of each source, relative to those of the local one in the same round."""
    first = {name: next(iter(loader(source))).images for name, source in sources.items()}
    for batch in first.values():
        np.testing.assert_array_equal(batch, first["local"])
    result: dict[str, Any] = {}
    for order, (shuffle, epochs) in ORDERS.items():
        loaders = {name: loader(source, shuffle=shuffle, epochs=epochs) for name, source in sources.items()}
        walls, worked = common.interleaved({name: partial(common.drain, one) for name, one in loaders.items()}, rounds)
        for name, times in walls.items():
            of_local, spread = common.ratio(walls["local"], times)
            result.setdefault(name, {})[order] = {
                "images_per_second": common.per_second(images * epochs, times), "of_local": of_local, "range": spread,
                "cpu_of_the_loader_of_local": common.ratio(worked[name], worked["local"])[0],
            }  # fmt: skip
            print(name, order, result[name][order], flush=True)
    return result


def main() -> None:
    parser = common.arguments(__doc__, "remote.json", 3, count=True)
    parser.add_argument("--delay", type=float, default=0.02)
    options = parser.parse_args()
    files = photos.load_set("S", options.count)
    with tempfile.TemporaryDirectory() as shards, tempfile.TemporaryDirectory() as cache:
        write_shards(files, Path(shards))
        with served(Path(shards), options.delay) as url:
            storage = {"key": "testing", "secret": "testing", "endpoint_url": url}  # the server takes any
            pattern = f"{{0..{SHARDS - 1}}}.tar"
            sources = {
                "local": gi.tar(f"{shards}/{pattern}"),
                "S3, light server": gi.tar(f"s3://bucket/{pattern}", remote=gi.Remote(storage_options=storage)),
                "HTTP, light server": gi.tar(f"{url}/bucket/{pattern}"),
                "S3, light server, from the cache": gi.tar(
                    f"s3://bucket/{pattern}", remote=gi.Remote(storage_options=storage, cache=cache)
                ),
            }
            found = measure(sources, SHARDS * SAMPLES, options.rounds)
    about = common.environment(photos.summary_of_set("S", files), options.rounds)
    about |= {"shards": SHARDS, "samples": SHARDS * SAMPLES, "delay_of_a_request_s": options.delay}
    common.write({**about, "throughput": found}, options.out)


if __name__ == "__main__":
    main()
