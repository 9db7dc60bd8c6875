"""The fake GPU on which parts of bench.gpu are rehearsed, with the faults that GPU_PLANTED names as PART=FAULT."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gpuimg._decoding import nvimgcodec
from gpuimg._runtimes import self_test
from tests.ptx.device import executing


def photos() -> list[bytes]:
    made = self_test.files()
    return [made["4:2:0"], made["gray"]]


class Compiled:
    """A kernel of CuPy's, which the fake's compiler cannot compile."""

    def __init__(self, *_: Any) -> None:
        pass

    def __call__(self, *_: Any) -> None:
        pass


@contextmanager
def device() -> Iterator[None]:
    part, _, fault = os.environ.get("GPU_PLANTED", "").partition("=")
    with executing() as launches, pytest.MonkeyPatch.context() as patch:
        gpu = launches.gpu
        patch.setattr(gpu.cupy, "RawKernel", Compiled)
        patch.setattr(gpu.cupy.cuda, "get_elapsed_time", lambda *_: 1.0)
        patch.delenv("GPUIMG_DECODER")
        make = gpu.library.Decoder
        gpu.library.Decoder = lambda backends, **how: make(backends=backends[:1], **how)
        if part in sys.argv or part == "all":
            plant(fault, gpu, patch)
        yield
    for problem in gpu.problems:
        print("the fake found:", problem, file=sys.stderr)


def plant(fault: str, gpu: Any, patch: pytest.MonkeyPatch) -> None:
    driver = gpu.cupy.cuda.driver

    def illegal(*_: Any) -> None:
        raise driver.CUDADriverError(700)

    def broken() -> None:
        raise OSError("libnvjpeg.so.13: cannot open shared object file: No such file or directory")

    if fault == "illegal":
        patch.setattr(driver, "launchKernel", illegal)
    elif fault == "crash":
        patch.setattr(driver, "launchKernel", lambda *_: os.abort())
    elif fault == "hang":
        patch.setattr(driver, "launchKernel", lambda *_: time.sleep(1e6))
    elif fault == "nvimgcodec":
        patch.setattr(nvimgcodec, "library", broken)
    else:
        raise ValueError(fault)
