"""One batch, twice, with a seek index and without: what profilers and NVIDIA's sanitizer look at.

python -m bench.gpu.one [IMAGES] [cpu]
"""

from __future__ import annotations

import sys
from typing import Any

import gpuimg as gi
from bench.gpu.chains import CHAINS, DTYPE, LAYOUT
from bench.gpu.jpeg import with_index
from bench.gpu.measure import to_host
from bench.gpu.prepare import FOLDER


def run(count: int, device: str) -> list[Any]:
    """Return the results of each batch."""
    files = [path.read_bytes() for path in sorted((FOLDER / "S").glob("*.jpg"))[:count]]
    found = []
    with with_index(files) as index:
        for known in (None, index):
            for epoch in range(2):
                x = gi.open_batch(files, device=device, index=known)
                rng = gi.Rng(0, epoch=epoch, indices=range(len(files)))
                found.append(to_host(CHAINS["train"](x, rng).array(DTYPE, LAYOUT)))
    return found


if __name__ == "__main__":
    print([result.shape for result in run(int((sys.argv[1:] or ["256"])[0]), (sys.argv[2:] or ["cuda"])[0])])
