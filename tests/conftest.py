"""Settings and fixtures shared by all tests."""

import gc
import os
import random
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from PIL import Image

from bench.torchvision_import import define_on_import
from gpuimg._runtimes.probe import gpu_problem

from .libraries import needs
from .samples import PHOTOS
from .watchdog import ends_after, keep_stderr, no_hang

if TYPE_CHECKING:
    from .decoding.jpegs import Decoder
    from .fakecuda import FakeGpu

os.environ.setdefault("GPUIMG_SELFTEST", "0")  # the fake GPU's kernels compute nothing

# A torchvision that is here and in programs that tests start: see tests/site.
define_on_import()
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent / "site"), os.environ.get("PYTHONPATH", "")])

# -- Hypothesis --------------------------------------------------------------------------------------------------------

# deadline=None: the first call of a kernel compiles it. derandomize=False: under CI=1 Hypothesis would else draw the
# same examples in every run.
for _name, _examples in (("dev", 25), ("ci", 100), ("nightly", 1000)):
    settings.register_profile(_name, max_examples=_examples, deadline=None, derandomize=False)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
settings.load_profile(_PROFILE)


def _seed() -> int | None:
    """The seed of this run; None leaves it to Hypothesis."""
    given = os.environ.get("HYPOTHESIS_SEED")
    if given:
        if not given.isdecimal():
            raise pytest.UsageError(f"HYPOTHESIS_SEED must be a whole number, not {given!r}")
        return int(given)
    # Runs with different seeds do not replay earlier failures. "dev" does: while a law is being repaired, the example
    # that broke it must come again.
    return None if _PROFILE == "dev" else random.SystemRandom().randrange(2**32)


@pytest.hookimpl(tryfirst=True)  # before Hypothesis's own plugin reads the option
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of all property tests, unless the command line has."""
    keep_stderr()
    if config.getoption("--hypothesis-seed") is None and (seed := _seed()) is not None:
        config.option.hypothesis_seed = str(seed)


def pytest_collection_finish() -> None:
    """Keep what was imported out of garbage collections: each took a second."""
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    """Report how to draw the same examples again."""
    seed = config.getoption("--hypothesis-seed")
    if seed is None:
        return "hypothesis seed: a new one for each test; failures are replayed first (HYPOTHESIS_SEED=N for one seed)"
    return f"hypothesis seed: {seed} (HYPOTHESIS_SEED={seed} reproduces it)"


# -- processes ---------------------------------------------------------------------------------------------------------

# A shell's background jobs ignore Ctrl-C, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """No test may keep the run from its end, nor a GPU that has stopped working be an end to the tests after it."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and "PYTEST_XDIST_WORKER" in os.environ and gpu_problem() is None:
        try:
            cupy.cuda.runtime.deviceSynchronize()
        except Exception:
            os._exit(17)  # pytest-xdist starts another worker
    with ends_after(float(os.environ.get("GPUIMG_TEST_LIMIT", "600"))):
        return (yield)


# -- GPU ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def any_gpu() -> Iterator[None]:
    """A GPU; where there is none, a fake one on which kernels are interpreted, unless it must be real."""
    problem = gpu_problem()
    if problem is None:
        yield
        return
    if os.environ.get("GPUIMG_REQUIRE_GPU") == "1":
        pytest.fail(f"GPUIMG_REQUIRE_GPU=1, but {problem.reason}", pytrace=False)
    needs("numba_cuda")
    from .ptx.device import executing

    with executing() as launches:
        yield
        assert launches.gpu.problems == []


@pytest.fixture
def faulty() -> "Iterator[FakeGpu]":
    """A fake GPU, for tests that expect problems."""
    needs("numba_cuda")
    from .fakecuda import installed  # loads numba.cuda, which most tests do without

    with no_hang(), installed() as gpu:
        yield gpu


@pytest.fixture
def gpu(faulty: "FakeGpu") -> "Iterator[FakeGpu]":
    """A fake GPU on which nothing may be out of order."""
    yield faulty
    assert faulty.problems == []


@pytest.fixture
def kernel_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for compiled kernels, of which there are none in memory."""
    from gpuimg.kernels import disk
    from gpuimg.kernels.cuda import kernel

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel, "_images", {})
    disk.folder.cache_clear()
    yield tmp_path / "cache"
    disk.folder.cache_clear()


# -- JPEGs -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def photo() -> Image.Image:
    """A photo of 300 x 240."""
    return Image.open(PHOTOS[0]).convert("RGB").resize((300, 240))


@pytest.fixture(scope="module")
def decoders() -> "tuple[Decoder, Decoder]":
    """In turn: what memory holds before must not matter."""
    from .decoding.jpegs import Decoder

    return Decoder(0x55), Decoder(0xAA)


# -- threads -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def watched() -> Iterator[None]:
    """Fail a test that hangs or leaves a thread running."""
    with no_hang():
        yield
