"""The CUDA runtime on the stand-in for a GPU, with its kernels compiled to PTX and interpreted.

Kernels are launched by the runtime's own code on the stand-in's memory, with the parameters that its launcher packed;
what they read must have been written, by the decoder, a copy or another kernel.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from gpuimg.kernels import cuda as kernels
from gpuimg.kernels.cuda.compiler import function_of
from tests.fakecuda import FakeGpu, installed
from tests.fakecuda.launches import Array, packed

from .fault import Fault
from .launch import Buffer, Ran, run
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
    """Launches that ran, and their stand-in."""

    def __init__(self, standin: FakeGpu, edit: Edit | None, capability: Capability) -> None:
        self.standin = standin
        self.behind: tuple[int, int] | None = None
        self.kernels: list[kernels.Kernel] = []
        self.ran: list[Ran] = []
        self._capability = capability
        self._edit = edit or (lambda kernel, text: text)

    def launch(self, function: int, *configuration: int) -> None:
        """``cuLaunchKernel``."""
        grid, block, content = configuration[:3], configuration[3:6], packed(configuration[-1])
        kernel = self.standin.driver.loaded(function).kernel
        arguments = self.standin.driver.unpacked(kernel, content)
        self._check_order(function, configuration, [one for one in arguments if isinstance(one, Array)])
        made = program(self._edit(kernel, ptx_of(kernel, self._capability)))
        parameters = self._parameters(kernel, arguments, split(made, content))
        self.ran.append(run(made, grid, block, parameters, behind=self.behind))
        self.kernels.append(kernel)

    def _check_order(self, function: int, configuration: tuple[int, ...], arrays: list[Array]) -> None:
        """Let the stand-in see the launch, but not what of its memory holds something: here is seen what is touched."""
        before = [(one.values.copy(), self.standin.order.written(*one.range).copy()) for one in arrays]
        for one in arrays:
            self.standin.order.written(*one.range)[:] = True
        self.standin.driver.launch(function, *configuration)
        for one, (values, written) in zip(arrays, before, strict=True):
            one.values[:] = values
            self.standin.order.written(*one.range)[:] = written

    def _parameters(self, kernel: kernels.Kernel, arguments: list[Any], words: list[bytes]) -> list[Any]:
        """Arrays as buffers that are named as the kernel's function names them, and numbers as they were packed."""
        made: list[Any] = []
        at = 0
        for name, argument in zip(inspect.signature(function_of(kernel)).parameters, arguments, strict=True):
            if not isinstance(argument, Array):
                made.append(words[at])
                at += 1
                continue
            known = self.standin.order.written(*argument.range)
            if kernel.name == "compare":  # it looks for bytes that were not written
                known = np.ones_like(known)
            made.append(Buffer(argument.values, name, known, partial(_elsewhere, words[at : at + _ARRAY])))
            at += _ARRAY
        return made


@contextmanager
def executing(edit: Edit | None = None, capability: Capability = (9, 0)) -> Iterator[Launches]:
    """Let ``device="cuda:0"`` interpret its kernels as compiled for a GPU of this capability, perhaps edited."""
    with installed() as standin:
        launches = Launches(standin, edit, capability)
        standin.cupy.cuda.driver.launchKernel = launches.launch
        yield launches
