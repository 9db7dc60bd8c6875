"""The CUDA runtime on the fake GPU, with its kernels compiled to PTX and interpreted.

Kernels are launched by the runtime's own code on the fake's memory; what they read must have been written, by the
decoder, a copy or another kernel.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gpuimg.kernels import cuda as kernels
from gpuimg.kernels.cuda.compiler import function_of
from tests.fakecuda import FakeGpu, Stream, installed
from tests.fakecuda.launches import Array, Dim, packed

from .launch import Buffer, run
from .variants import ptx_of

Edit = Callable[[kernels.Kernel, str], str]


class Launches:
    """Launches that ran, and their GPU."""

    def __init__(self, gpu: FakeGpu, edit: Edit | None) -> None:
        self.gpu = gpu
        self.behind: tuple[int, int] | None = None
        self.kernels: list[kernels.Kernel] = []
        self._edit = edit

    def launch(self, entry: str, stream: Stream, grid: Dim, block: Dim, extra: int) -> None:
        """Run a kernel; the fake sees the launch, but not what of its memory holds something: here is seen what is."""
        kernel, order = self.gpu.driver.kernels[entry], self.gpu.order
        arguments = self.gpu.driver.unpacked(kernel, packed(extra))
        arrays = [one for one in arguments if isinstance(one, Array)]
        before = [(one.values.copy(), order.written(*one.range).copy()) for one in arrays]
        for one in arrays:
            order.written(*one.range)[:] = True
        self.gpu.driver.launch(entry, stream, grid, block, extra)
        for one, (values, written) in zip(arrays, before, strict=True):
            one.values[:] = values
            order.written(*one.range)[:] = written
        for k, name in enumerate(inspect.signature(function_of(kernel)).parameters):
            if isinstance(one := arguments[k], Array):  # "compare" looks for bytes that were not written
                known = None if kernel.name == "compare" else order.written(*one.range)
                arguments[k] = Buffer(one.values, name, known)
        text = ptx_of(kernel)
        run(self._edit(kernel, text) if self._edit else text, grid[:2], block[0], arguments, behind=self.behind)
        self.kernels.append(kernel)


@contextmanager
def executing(edit: Edit | None = None) -> Iterator[Launches]:
    """Let ``device="cuda:0"`` interpret its kernels, perhaps edited."""
    with installed() as gpu, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUIMG_DECODER", "gpuimg")
        launches = Launches(gpu, edit)
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
