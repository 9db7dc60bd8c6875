"""Checks of a linked library: what it needs of the system, and that its code lies in memory that nobody writes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

#: Functions of the C library that loops call.
ALLOWED: Final = {
    "clock_gettime", "close", "cos", "expf", "memset", "open", "powf", "pread", "sin", "sincos", "sqrtf", "statx",
    "usleep",
}  # fmt: skip
NEEDED: Final = {"libc.so.6", "libm.so.6"}
NEWEST_GLIBC: Final = (2, 28)  # that of manylinux_2_28

_MACHINES: Final = {"x86_64": 62, "aarch64": 183}
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551  # types of segments
_EXECUTABLE, _WRITABLE = 1, 2
_NEEDED, _STRTAB, _SYMTAB, _TEXTREL, _FLAGS, _VERNEED = 1, 5, 6, 22, 30, 0x6FFFFFFE  # tags of the dynamic section
_DF_TEXTREL = 4


class BadLibraryError(Exception):
    """A library must not be shipped."""


def check(path: Path, triple: str) -> None:
    """Raise where a library would not run on every system that its wheel names, or has writable code.

    It is a 64-bit little-endian shared library that is linked to lie at address 0.
    """
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise BadLibraryError("not a 64-bit little-endian ELF file")
    (machine,) = struct.unpack_from("<H", data, 18)
    start, sections = struct.unpack_from("<QQ", data, 32)
    size, count, section_size, section_count = struct.unpack_from("<HHHH", data, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", data, start + k * size) for k in range(count)]

    def place(address: int) -> int:
        for kind, _, offset, first, _, length, _, _ in segments:
            if kind == _LOAD and first <= address < first + length:
                return int(address - first + offset)
        raise BadLibraryError(f"address {address:#x} is in no segment")

    (dynamic,) = (one for one in segments if one[0] == _DYNAMIC)
    pairs = list(struct.iter_unpack("<QQ", data[dynamic[2] : dynamic[2] + dynamic[5]]))
    tags = dict(reversed(pairs))
    strings = place(tags[_STRTAB])

    def text(offset: int) -> str:
        return data[strings + offset : data.index(b"\0", strings + offset)].decode()

    needed = {text(value) for tag, value in pairs if tag == _NEEDED}
    undefined = _undefined(data, sections, section_size, section_count, text)
    newest = max(_versions(data, place(tags[_VERNEED]), text), default=(0,)) if _VERNEED in tags else (0,)
    problems = []
    if machine != _MACHINES[triple.partition("-")[0]]:
        problems.append(f"it is for machine {machine}")
    for kind, names, allowed in (("libraries", needed, NEEDED), ("symbols", undefined, ALLOWED)):
        if names - allowed:
            problems.append(f"it needs {kind} that are not on the list: {', '.join(sorted(names - allowed))}")
    if newest > NEWEST_GLIBC:
        problems.append(f"it needs glibc {'.'.join(map(str, newest))}")
    if _TEXTREL in tags or tags.get(_FLAGS, 0) & _DF_TEXTREL:
        problems.append("it has text relocations")
    if any(one[0] in (_LOAD, _STACK) and one[1] & _EXECUTABLE and one[1] & _WRITABLE for one in segments):
        problems.append("its code, or its stack, is writable and executable")
    if problems:
        raise BadLibraryError(f"{path.name}: {'; '.join(problems)}")


def _undefined(data: bytes, sections: int, size: int, count: int, text: Callable[[int], str]) -> set[str]:
    """Names of the dynamic symbols that the system must have."""
    dynsym = 11
    for k in range(count):
        _, kind, _, _, offset, length = struct.unpack_from("<IIQQQQ", data, sections + k * size)
        if kind == dynsym:
            symbols = struct.iter_unpack("<IBBHQQ", data[offset : offset + length])
            return {text(name) for name, _, _, section, _, _ in symbols if name and section == 0}
    raise BadLibraryError("no dynamic symbols")


def _versions(data: bytes, at: int, text: Callable[[int], str]) -> set[tuple[int, ...]]:
    """Versions of glibc whose symbols are used."""
    found = set()
    while True:
        _, count, _, first, following = struct.unpack_from("<HHIII", data, at)
        inner = at + first
        for _ in range(count):
            _, _, _, name, beyond = struct.unpack_from("<IHHII", data, inner)
            version = text(name).removeprefix("GLIBC_")
            found.add(tuple(map(int, version.split("."))))
            inner += beyond
        if not following:
            return found
        at += following
