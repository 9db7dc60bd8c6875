"""Loops as they come with a package: nothing is written, and a checkout shares them.

With an installed wheel (``make test-wheel``, ``make cross``) these are the library's; in a checkout Numba's.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from buildtools.wheel_env import READ_ONLY
from gpuimg.kernels import native

from .. import samples

PHOTOS = list(map(str, samples.PHOTOS[:4]))

#: What a batch has, as one number.
BATCH = """
import os, sys, threading, warnings
warnings.simplefilter("error")
import numpy as np
import gpuimg

def batch(seed):
    files = sys.argv[1:]
    opened = gpuimg.open_batch(files, device="cpu")
    train = gpuimg.presets.imagenet_train(64)
    images = train(opened, gpuimg.Rng(seed, indices=range(len(files)))).array("float32", "NCHW")
    return float(np.abs(images.astype(np.float64)).sum())
"""
only_installed = pytest.mark.skipif(native.LIBRARY is None, reason="Numba compiles here: make test-wheel runs this")


def said(code: str, **environment: str) -> str:
    """What a process prints, which must end well without a word on stderr."""
    given = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    command = [sys.executable, "-B", "-c", code, *PHOTOS]
    given |= {"PYTHONPATH": os.pathsep.join(sys.path), **environment}
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.fixture(scope="module")
def expected() -> str:
    return said(f"{BATCH}print([batch(seed) for seed in range(3)])")


@only_installed
@pytest.mark.parametrize("home", ["", "/nowhere"], ids=["no home", "another home"])
def test_nothing_is_written_and_nothing_is_said(expected: str, home: str) -> None:
    """As in a container whose files are read-only."""
    found = {"HOME": home} if home else {}
    code = BATCH.replace("import numpy", READ_ONLY + "import numpy", 1)
    assert said(f"{code}print([batch(seed) for seed in range(3)])", **found) == expected


@only_installed
def test_a_checkout_uses_the_installed_libraries(expected: str, tmp_path: Path) -> None:
    """Python imports the package of the folder that it runs in."""
    here = tmp_path / "gpuimg"
    shutil.copytree(native.FOLDER.parents[1], here, ignore=shutil.ignore_patterns("_lib", "__pycache__"))
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}){BATCH}print([batch(seed) for seed in range(3)])"
    assert said(f"{code}; print(gpuimg.__file__)").splitlines() == [expected, str(here / "__init__.py")]
