"""Systems without what only Linux has, or only POSIX, as far as a process without these names can tell."""

from pathlib import Path

from ..data_sets import jpeg
from ..libraries import cases, needs
from ..processes import python
from ..samples import write_files
from ..sources.writers import archive

NAMES = {
    "darwin": ("sched_getaffinity", "memfd_create", "posix_fadvise"),
    "win32": (
        "sched_getaffinity", "memfd_create", "posix_fadvise", "geteuid", "getuid", "pread", "pwrite", "fork", "sysconf",
        "register_at_fork", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC",
    ),
}  # fmt: skip

PROGRAM = """
import os, signal, sys, tempfile, threading, time, urllib.request
import numba.core.caching, numba.core.registry, numpy as np, PIL.Image, torch.utils.data
system, folder, *names = sys.argv[1:]
for name in names:
    delattr(os, name)
if system == "win32":
    sys.modules |= dict.fromkeys(("fcntl", "pwd", "resource"))
    del time.clock_gettime
sys.platform = system
import gpuimg as gi, gpuimg.torch
data = open(folder + "/train/a/0.jpg", "rb").read()
shown = np.asarray(PIL.Image.open(folder + "/train/a/0.jpg"))
evaluate = gi.presets.imagenet_eval(32, 36)
for file in (data, folder + "/train/a/0.jpg"):
    np.testing.assert_array_equal(gi.decode_image(file, device="cpu"), shown)
for source in (gi.folder(folder + "/train"), gi.tar(folder + "/x.tar")):
    loader = gi.load(source, evaluate, batch_size=2, device="cpu", shuffle=False, epochs=1)
    found = np.concatenate([batch.images for batch in loader])
    files = [source[k][0] for k in range(4)]
    np.testing.assert_array_equal(found, evaluate(gi.open_batch(files, device="cpu")).array())
    try:
        out = folder + "/" + type(source).__name__
        report = gi.prepare(source, out, short_side=16, measure=False)
        print(report.encoded, len(gpuimg.torch.Dataset(source, evaluate)[1]))
    except OSError as error:
        print(error)
"""


@cases("torch", "system", NAMES)
def test_without_the_names_of(system: str, tmp_path: Path) -> None:
    needs("torch")
    files = {f"train/{'ab'[k % 2]}/{k}.jpg": jpeg(k) for k in range(4)}
    write_files(tmp_path, files | {"x.tar": archive((one, k) for k, one in enumerate(files.values()))})
    printed = python("-c", PROGRAM, system, tmp_path, *NAMES[system]).splitlines()
    refusal = "[Errno 95] prepared data sets are written on POSIX systems only, such as Linux and macOS"
    assert printed == (["4 2"] * 2 if system == "darwin" else [refusal] * 2)
