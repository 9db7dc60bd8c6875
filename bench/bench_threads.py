"""Images/s by threads: ``train`` and whole images by gpuimg and other libraries with 1, 2, 4, ... threads.

    python -m bench.bench_threads [--rounds 3] [--set S] [--out bench/results/threads.json]

Up to the number of cores. Other libraries have worker processes or threads, see bench.peers.
"""

from __future__ import annotations

import os
from typing import Any

from bench import common, photos
from bench.peers.__main__ import measure

PEERS = ("gpuimg", "gpuimg.load", "simplejpeg", "dali", "torchvision", "albumentations", "grain", "kornia")
WORKS = ("decode", "train")


def counts(cores: int) -> list[int]:
    """Return 1, 2, 4, ... and the number of cores."""
    return sorted({2**k for k in range(cores.bit_length()) if 2**k <= cores} | {cores})


def main(command: list[str] | None = None) -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "threads.json", rounds=3)
    parser.add_argument("--set", choices=list(photos.SETS), default="S")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--count", type=int, help="use only the first files of the set, for a try")
    options = parser.parse_args(command)
    files, batch = photos.load_set(options.set, options.count), photos.SETS[options.set].batch
    found: dict[str, Any] = {
        str(count): measure(files, options.peers.split(","), list(WORKS), options.rounds, count, batch, costs_too=False)
        for count in counts(len(os.sched_getaffinity(0)))
    }
    about = common.environment(photos.summary_of_set(options.set, files), options.rounds, batch)
    common.write(about | {"threads": found}, options.out)


if __name__ == "__main__":
    main()
