"""The loader without file descriptors and with little memory, and decoding that is interrupted."""

import subprocess
import sys
from pathlib import Path

import pytest

from ..processes import ROOT, python

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
