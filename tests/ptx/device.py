"""The CUDA runtime on the fake GPU, with its kernels compiled to PTX and interpreted.

Kernels are launched by the runtime's own code on the fake's memory, with the parameters that its launcher packed;
what they read must have been written, by the decoder, a copy or another kernel.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

from gpuimg.kernels import cuda as kernels
from gpuimg.kernels.cuda.compiler import function_of
from tests.fakecuda import FakeGpu, Stream, installed
from tests.fakecuda.launches import Array, Dim, packed

from .fault import Fault
from .launch import Buffer, run
from .program import Program, program
from .variants import ptx_of

Capability = tuple[int, int]
Edit = Callable[[kernels.Kernel, str], str]

_ARRAY, _ADDRESS = 7, 4  # parameters of an array, and which of them is its address


# -- parameters --------------------------------------------------------------------------------------------------------


def split(made: Program, content: bytes) -> list[bytes]:
    """Split the arguments that a launcher packed into the parameters of the PTX."""
    if len(content) != made.parameter_bytes:
        raise Fault(f"wrong parameters: the kernel takes {made.parameter_bytes} bytes, given are {len(content)}")
    sizes = [parameter.size for parameter in made.kernel.parameters]
    return [content[at : at + size] for at, size in zip(made.offsets, sizes, strict=True)]


def _elsewhere(words: list[bytes], array: Any, address: int) -> list[Any]:
    """An array's parameters with the address that it has in the interpreter's memory."""
    return [*words[:_ADDRESS], address, *words[_ADDRESS + 1 :]]


# -- launches ----------------------------------------------------------------------------------------------------------


class Launches:
    """Launches that ran, and their GPU."""

    def __init__(self, gpu: FakeGpu, edit: Edit | None, capability: Capability) -> None:
        self.gpu = gpu
        self.behind: tuple[int, int] | None = None
        self.kernels: list[kernels.Kernel] = []
        self._capability = capability
        self._edit = edit or (lambda kernel, text: text)

    def launch(self, entry: str, stream: Stream, grid: Dim, block: Dim, extra: int) -> None:
        """Run a kernel; the fake sees the launch, but not what of its memory holds something: here is seen what is."""
        kernel, content, order = self.gpu.driver.kernels[entry], packed(extra), self.gpu.order
        arguments = self.gpu.driver.unpacked(kernel, content)
        arrays = [one for one in arguments if isinstance(one, Array)]
        before = [(one.values.copy(), order.written(*one.range).copy()) for one in arrays]
        for one in arrays:
            order.written(*one.range)[:] = True
        self.gpu.driver.launch(entry, stream, grid, block, extra)
        for one, (values, written) in zip(arrays, before, strict=True):
            one.values[:] = values
            order.written(*one.range)[:] = written
        made = program(self._edit(kernel, ptx_of(kernel, self._capability)))
        parameters = self._parameters(kernel, arguments, split(made, content))
        run(made, grid, block, parameters, behind=self.behind)
        self.kernels.append(kernel)

    def _parameters(self, kernel: kernels.Kernel, arguments: list[Any], words: list[bytes]) -> list[Any]:
        """Arrays as buffers that are named as the kernel's function names them, and numbers as they were packed."""
        made: list[Any] = []
        at = 0
        for name, argument in zip(inspect.signature(function_of(kernel)).parameters, arguments, strict=True):
            if not isinstance(argument, Array):
                made.append(words[at])
                at += 1
                continue
            known = self.gpu.order.written(*argument.range)
            if kernel.name == "compare":  # it looks for bytes that were not written
                known = np.ones_like(known)
            made.append(Buffer(argument.values, name, known, partial(_elsewhere, words[at : at + _ARRAY])))
            at += _ARRAY
        return made


@contextmanager
def executing(edit: Edit | None = None, capability: Capability = (9, 0)) -> Iterator[Launches]:
    """Let ``device="cuda:0"`` interpret its kernels as compiled for a GPU of this capability, perhaps edited."""
    with installed() as gpu, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUIMG_DECODER", "gpuimg")
        launches = Launches(gpu, edit, capability)
        gpu.cuda.launch = launches.launch
        driver = gpu.cupy.cuda.driver
        call = driver.launchKernel

        def launch(*arguments: int) -> None:
            try:
                call(*arguments)
            except driver.CUDADriverError:
                if not gpu.order.errors:
                    raise
                gpu.problems.pop()
                raise gpu.order.errors.pop() from None  # the interpreter's, which cannot pass through the driver

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driver, "launchKernel", launch)
            patch.setattr(gpu.cupy.ndarray, "values", property(lambda array: array.get()), raising=False)
            yield launches
