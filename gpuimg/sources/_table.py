"""What every source is: a table of ``(data, label)`` that many threads read at once."""

from __future__ import annotations

import errno
import importlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex

from .._checks.words import counted
from .._version import install_hint
from ._names import printable


class Table(ABC):
    """Encoded images and their labels, by number.

    ``len(table)`` is the number of samples and ``table[i]`` the pair of file bytes and label; negative numbers count
    from the end, as in a list. Any number of threads may read at once. A failure of one sample is an ``OSError`` or a
    ``ValueError`` that starts with ``describe(i)``.

    Examples
    --------
    >>> class Letters(Table):
    ...     def __len__(self):
    ...         return 2
    ...     def _read(self, i):
    ...         return b"ab"[i : i + 1], i
    ...     def _name(self, i):
    ...         return f"letter {i}"
    >>> Letters()[-1], Letters().describe(-1)
    ((b'b', 1), 'letter 1')
    >>> Letters()
    <Letters: 2 samples>
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _read(self, i: int) -> tuple[Any, Any]:
        """File bytes and label of sample ``i``, which is in range."""

    @abstractmethod
    def _name(self, i: int) -> str:
        """Sample ``i`` in a message: its file and what it is called there."""

    def __getitem__(self, index: SupportsIndex) -> tuple[Any, Any]:
        i = self._position(index)
        try:
            return self._read(i)
        except OSError as error:
            reason = f"{self._name(i)}: {error.strerror or error}"
            raise OSError(error.errno or errno.EIO, reason) from error
        except ValueError as error:
            raise ValueError(f"{self._name(i)}: {error}") from error

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._amount()}>"

    def _amount(self) -> str:
        """How much there is of what, for people to read."""
        return counted(len(self), "sample")

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return (self[i] for i in range(len(self)))

    def describe(self, index: SupportsIndex) -> str:
        """Name of a sample for messages: its file, and what it is called in there."""
        return self._name(self._position(index))

    def _position(self, index: SupportsIndex) -> int:
        i, n = operator.index(index), len(self)
        if not -n <= i < n:
            raise IndexError(f"sample {i} of {n}")
        return i % n


def shown(function: str, paths: Sequence[str | bytes], amount: str) -> str:
    """What a source says of itself: the function that made it, its files, and how much there is of what."""
    first = f" '{printable(paths[0])}'" if paths else ""
    more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
    return f"<gpuimg.{function}{first}{more}: {amount}>"


def optional(module: str, subject: str, package: str, extra: str) -> Any:
    """A module of an optional package.

    Raises
    ------
    ImportError
        With what to install, where it is missing.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"reading {subject} needs {package}; {install_hint(extra)}") from error
