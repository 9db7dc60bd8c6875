"""The loader with few file descriptors and little memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
import os, resource, sys, warnings
from pathlib import Path
import gpuimg as gi
from tests.data_sets import FILES, Source, cpu
from tests.sources.writers import archive
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


#: Two hundred shards with a dozen descriptors to spare.
FEW_DESCRIPTORS = """
folder = Path(sys.argv[1])
for shard in range(200):
    (folder / f"{shard:03d}.tar").write_bytes(archive([(FILES[shard % 64], shard)]))
table = gi.tar(str(folder / "{000..199}.tar"))
list(cpu(Source(8)))
limit(resource.RLIMIT_NOFILE, open_files() + 12)
before = open_files()
with no_hang(250):
    for _ in range(3):
        labels = [label for batch in cpu(table, shuffle=True, readers=8) for label in batch.labels.tolist()]
        assert sorted(labels) == list(range(200))
assert open_files() <= before + 64  # of the shards, which are kept open for the next reads
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
VANISHING_FILES = """
warnings.simplefilter("ignore", RuntimeWarning)
folder = Path(sys.argv[1]) / "class"
folder.mkdir()
for k in range(64):
    (folder / f"{k:02d}.jpg").write_bytes(FILES[k])
loader = cpu(gi.folder(folder.parent), on_error=sys.argv[2], readers=1)
with no_hang(250):
    for k, batch in enumerate(loader):
        if k == 0:
            (folder / "63.jpg").unlink()
            (folder / "62.jpg").write_bytes(b"")
            (folder / "61.jpg").write_bytes(FILES[61][: len(FILES[61]) // 3])
assert [(failure.index, failure.source[-6:]) for failure in loader.failures] == [
    (61, "61.jpg"), (62, "62.jpg"), (63, "63.jpg")
], loader.failures
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "policy"),
    [
        pytest.param(FEW_DESCRIPTORS, "", id="few descriptors"),
        pytest.param(NO_DESCRIPTOR, "", id="no descriptor"),
        pytest.param(LITTLE_MEMORY, "", id="little memory"),
        *(pytest.param(VANISHING_FILES, policy, id=f"vanishing files, {policy}") for policy in ("skip", "fill")),
    ],
)
def test_loader_within_limits(body: str, policy: str, tmp_path: Path) -> None:
    """In a separate process, which must succeed without output on stderr."""
    command = [sys.executable, "-c", SCRIPT + body + END, str(tmp_path), policy]
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
    environment = {**os.environ, "GPUIMG_NUM_THREADS": threads}
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
