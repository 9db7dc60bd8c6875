"""Our decoder's native code with every index checked, over a sample of the damaged files; all of them: `make soak`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from . import soak

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SAMPLE = 600

SCRIPT = """
import sys
from gpuimg.kernels.jpeg import decode as jpeg
from gpuimg.kernels.jpeg import layout as words
from tests import jpegs
from tests.robustness import mutate, originals, soak

sys.unraisablehook = soak._end_process
decoder = jpegs.Decoder()
{body}
print("done")
"""

DECODE = """
count = 0
for seed in range(int(sys.argv[1])):
    data = mutate.mutation(seed)[0]
    header = jpegs.header_of(data)
    if header["kind"] in (words.BASELINE, words.PROGRESSIVE) and header["width"] * header["height"] < 1 << 20:
        height, width = int(header["height"]), int(header["width"])
        draw = mutate.Draw(~seed)
        x0, y0 = draw.below(width), draw.below(height)
        decoder(data, (x0, y0, draw.between(x0 + 1, width), draw.between(y0 + 1, height)), 1 + 2 * draw.below(2))
        decoder(data)
        decoder(data, scale=2 ** draw.below(3))
        if header["components"] == 3:
            decoder(data, channels=words.PLANES)
        count += 1
assert count > int(sys.argv[1]) // 4, count
"""


def run(body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run in a separate process, compiled with checks."""
    command = [sys.executable, "-c", SCRIPT.format(body=body), *arguments]
    environment = {**os.environ, **soak.checked_bounds()}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)


def test_a_sample() -> None:
    done = run(DECODE, str(SAMPLE))
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "done\n")


PLANTED = {
    "a table past the file": 'header["huffman"][0] = len(data)',
    "steps past the file": 'header["quant"][0] = len(data) - 10',
    "too little scratch": "jpeg.work_bytes = lambda width: work(width) // 2",
    "no scratch": "jpeg.work_bytes = lambda width: 16",
    "no room for the result": "jpegs.Guarded = lambda size, fill, real=jpegs.Guarded: real(size // 2, fill)",
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_ends_the_process(fault: str) -> None:
    """In scalar code an exception that the decoder cannot pass on, in vector code a trap."""
    body = f"""
data, work = originals.originals()["4:2:0"], jpeg.work_bytes
header = jpegs.header_of(data)
{PLANTED[fault]}
decoder(data, header=header)
"""
    done = run(body)
    assert done.returncode in (-signal.SIGABRT, -signal.SIGILL, -signal.SIGTRAP), done.stderr
    assert done.stdout == ""
