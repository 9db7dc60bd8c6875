"""A CUDA kernel as the runtime launches it: its arguments and blocks, and where its machine code comes from.

A new kernel is one line of this package's ``__init__``, and is then shipped, compiled, cached and launched like the
others::

    DOUBLE = Kernel("double", device_code("doubling", "double"), ("float32[]", "int32"), block=256)

    launch(DOUBLE, stream, (blocks, images), array, 5)  # of gpuimg._runtimes.cuda_launch

``double`` is a Python function in the module ``doubling``, of device code. Arguments are one-dimensional arrays and
numbers of 32 or 64 bits. Nothing here imports Numba: machine code is read from the file that a wheel brings, and only
what is not in it, as functions of users, is compiled (:mod:`.compiler`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

from ..native import with_numba
from .shipped import Capability, lack, shipped_image


class Image(NamedTuple):
    """Code that a driver loads: a cubin, or PTX, which the driver assembles; and the kernel's name in it."""

    entry: str
    code: bytes


def device_code(module: str, name: str, *arguments: Any) -> Callable[[str], Any]:
    """A function that imports a kernel's function from a module of device code of a package, such as this one.

    With arguments the name is of a function that returns the kernel's for them.
    """

    def load(package: str) -> Any:
        found = getattr(import_module(f"{package}.{module}"), name)
        return found(*arguments) if arguments else found

    return load


class Kernel:
    """A kernel: its function of device code, the types of its arguments, and the threads of its blocks.

    Parameters
    ----------
    name : str
        Of no other kernel but those with functions of users.
    code : function
        Returns the Python function, see :func:`device_code`; called where the kernel is compiled.
    arguments : tuple of str
        NumPy's names of their types; flat arrays end in ``[]``.
    block : int
        Threads of a block.
    blocks : int
        Blocks that are to run on a multiprocessor at the same time, which limits their registers.
    users : tuple
        Functions of users in it. It is cached on disk if its checksum covers all that they do, else in memory.
    """

    all: ClassVar[list[Kernel]] = []  # but those with functions of the users'
    compile_count: ClassVar[int] = 0  # compiled in this process rather than read from disk

    def __init__(
        self,
        name: str,
        code: Callable[[str], Any],
        arguments: tuple[str, ...],
        block: int,
        blocks: int = 1,
        *,
        users: tuple[Any, ...] = (),
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.block = block
        self.bounds = block, blocks
        self.users = users
        self.code = code
        if not users:
            Kernel.all.append(self)

    @cached_property
    def key(self) -> str:
        """Name of the kernel in this process: kernels with equal keys are the same."""
        return str(self._compiler((0, 0)).key_of(self)) if self.users else self.name

    def image(self, capability: Capability) -> Image:
        """Machine code for a compute capability: shipped, else from memory, from disk, or compiled; needs no GPU.

        Raises
        ------
        ImportError
            Where it has to be compiled, without numba-cuda.
        """
        found = None if self.users else shipped_image(self, capability)
        return Image(*(found or self._compiler(capability).image(self, capability)))

    def _compiler(self, capability: Capability) -> Any:
        """Return the compiler module, needed if no machine code for this capability came with the package."""
        try:
            return with_numba("cuda.compiler")
        except ImportError as error:
            reason = "it calls functions of yours" if self.users else lack(capability)
            raise ImportError(
                f"kernel {self.name} is not among those that come compiled: {reason}; numba-cuda, which compiles it, "
                "is not installed"
            ) from error
