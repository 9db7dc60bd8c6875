"""A sample of every subject, from a new number in each run (more: ``make soak``); little memory, and interrupts."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from ..libraries import needs
from ..processes import ROOT, python
from . import engine
from .foreign import FILES
from .formats import originals as formats
from .slides import originals as slides

FIRST = random.SystemRandom().randrange(1 << 40)

#: Numbers of a sample, and outcomes that it must have.
SAMPLES = {
    "jpegs": (40, {"whole, ours: decoded", "crop, ours: decoded", "whole, Pillow: decoded", "whole, ours: refused"}),
    "guard pages": (400, {"as Pillow's", "damaged"}),
    "guard recoded": (200, {"as Pillow's", "decoded", "damaged", "not ours"}),
    "guard pngs": (300, {"as Pillow's", "refused", "left to Pillow"}),
    "gpu jpegs": (12, {"whole", "reported by kernels"}),
    "changing": (16, {"pixels", "a reason"}),
    "formats": (400, {f"{form}: refused" for form in formats() if form != "tiff"}),
    "tiff": (100, {"tiff: decoded", "tiff: refused"}),
    "foreign": (840, {f"{form}: decoded" for form in FILES} | {f"{form}: all bits" for form in ("png", "pnm", "tiff")}),
    "prepared": (100, {"resumed", "refused: ValueError"}),
    "sources": (300, {"lmdb: refused", "recordio: refused", "tar: refused", "tfrecord: some unreadable"}),
    "slides": (300, {f"{name}: decoded" for name in slides()} | {f"{name}: refused" for name in slides()}),
    "remote": (10, {"samples", "faults"}),
    "videos": (60, {"decoded", "refused"}),
}
NEEDED = {"gpu jpegs": ("numba_cuda",), "remote": ("moto", "s3fs")}
FAST = ("foreign", "slides", "jpegs", "guard pages", "guard recoded", "guard pngs")


def test_every_subject_has_a_sample() -> None:
    assert SAMPLES.keys() == engine.SUBJECTS.keys()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in SAMPLES]
)
def test_sample(name: str) -> None:
    needs(*NEEDED.get(name, ()))
    number, wanted = SAMPLES[name]
    results = list(engine.run(name, FIRST, FIRST + number))
    assert [one for one in results if one.finding] == []
    assert [one.number for one in results] == list(range(FIRST, FIRST + number))
    assert {outcome for one in results for outcome in one.outcomes} >= wanted, FIRST


@pytest.mark.slow
@pytest.mark.parametrize("name", ["guard pages", "guard recoded"])
def test_sample_with_checked_bounds(name: str) -> None:
    assert [one for one in engine.run(name, FIRST, FIRST + 200, bounds=True) if one.finding] == []


#: The beginning of programs that test the loader without file descriptors and with little memory.
SCRIPT = """
import os, resource, sys, warnings
from pathlib import Path
import gpuimg as gi
from tests.data_sets import FILES, Source, cpu
from tests.watchdog import no_hang, ours

def open_files():
    return len(os.listdir("/proc/self/fd"))

def limit(kind, value):
    resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))

"""
END = """
assert ours() == []
print("done")
"""


#: An error of the samples, not of the process; with descriptors again, it goes on.
NO_DESCRIPTOR = """
warnings.simplefilter("ignore", RuntimeWarning)
folder = Path(sys.argv[1]) / "class"
folder.mkdir()
for k in range(16):
    (folder / f"{k}.jpg").write_bytes(FILES[k])
table = gi.folder(folder.parent)
list(cpu(Source(8)))
before, (soft, hard) = open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)
limit(resource.RLIMIT_NOFILE, before - 1)
with no_hang(250):
    loader = cpu(table, on_error="fill")
    assert not any(batch.valid.any() for batch in loader)
limit(resource.RLIMIT_NOFILE, soft)
assert {failure.reason for failure in loader.failures} == {"cannot be read: Too many open files"}
assert all(batch.valid.all() for batch in loader)
assert open_files() == before
"""
#: A batch that does not fit is a MemoryError in the loop; smaller ones go on.
LITTLE_MEMORY = """
list(cpu(Source(16)))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resize = lambda x: gi.resize(x, (2000, 2000))
small, large = (cpu(Source(64), resize, batch_size=size, dtype="float32", prefetch=1) for size in (1, 32))
next(small)
small.close()
limit(resource.RLIMIT_AS, used + (900 << 20))
with no_hang(250):
    try:
        list(large)
    except MemoryError:
        pass
    else:
        raise AssertionError("1.5 GB fitted")
    assert ours() == []
    assert sum(len(batch.indices) for batch in cpu(Source(20), resize, batch_size=1, dtype="float32", prefetch=1)) == 20
"""


@pytest.mark.slow
@pytest.mark.parametrize("body", [NO_DESCRIPTOR, LITTLE_MEMORY], ids=["no descriptor", "little memory"])
def test_loader_within_limits(body: str, tmp_path: Path) -> None:
    """In a separate process, which must succeed without output on stderr."""
    command = [sys.executable, "-c", SCRIPT + body + END, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", ""), done.stderr


INTERRUPTED = """
import signal, threading, time
import gpuimg as gi
from tests.decoding.jpegs import encoded, noise

file = encoded(noise(1200, 1600, 0))
gi.resize(gi.open_batch([file], device="cpu"), (8, 8)).array()
before = threading.active_count()
x = gi.resize(gi.open_batch([file] * 3_000, device="cpu"), (8, 8))
signal.signal(signal.SIGALRM, signal.default_int_handler)
begin = time.thread_time()
try:
    signal.setitimer(signal.ITIMER_REAL, 0.3)  # by a clock of this process: others may get no time before it has ended
    x.array()
    print("ended after", time.thread_time() - begin)
except KeyboardInterrupt:
    took = time.thread_time() - begin
    gi.resize(gi.open_batch([file], device="cpu"), (8, 8)).array()
    assert threading.active_count() == before
    print("interrupted" if took < 3 else f"interrupted after {took} s of work")
"""


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2"])
def test_an_interrupt_ends_a_long_decode(threads: str) -> None:
    """Between two of many images, some ten seconds' worth; the runtime works on."""
    assert python("-c", INTERRUPTED, GPUIMG_NUM_THREADS=threads) == "interrupted\n"
