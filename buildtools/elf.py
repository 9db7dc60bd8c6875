"""Checks of a linked library: what it needs of the system, and that its code lies in memory that nobody writes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

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


class Elf(NamedTuple):
    """Needs and properties of a library."""

    machine: int
    needed: set[str]
    undefined: set[str]
    glibc: set[tuple[int, ...]]
    text_relocations: bool
    writable_code: bool


def read(data: bytes) -> Elf:
    """Read a 64-bit little-endian shared library that is linked to lie at address 0."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise BadLibraryError("not a 64-bit little-endian ELF file")
    (machine,) = struct.unpack_from("<H", data, 18)
    start, sections = struct.unpack_from("<QQ", data, 32)
    size, count, section_size, section_count = struct.unpack_from("<HHHH", data, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", data, start + k * size) for k in range(count)]
    loads = [one for one in segments if one[0] == _LOAD]

    def place(address: int) -> int:
        for _, _, offset, first, _, length, _, _ in loads:
            if first <= address < first + length:
                return int(address - first + offset)
        raise BadLibraryError(f"address {address:#x} is in no segment")

    (dynamic,) = (one for one in segments if one[0] == _DYNAMIC)
    pairs = list(struct.iter_unpack("<QQ", data[dynamic[2] : dynamic[2] + dynamic[5]]))
    tags = dict(reversed(pairs))
    strings = place(tags[_STRTAB])

    def text(offset: int) -> str:
        return data[strings + offset : data.index(b"\0", strings + offset)].decode()

    return Elf(
        machine,
        {text(value) for tag, value in pairs if tag == _NEEDED},
        _undefined(data, sections, section_size, section_count, text),
        _versions(data, place(tags[_VERNEED]), text) if _VERNEED in tags else set(),
        _TEXTREL in tags or bool(tags.get(_FLAGS, 0) & _DF_TEXTREL),
        any(one[0] in (_LOAD, _STACK) and one[1] & _EXECUTABLE and one[1] & _WRITABLE for one in segments),
    )


def _undefined(data: bytes, sections: int, size: int, count: int, text: object) -> set[str]:
    """Names of the dynamic symbols that the system must have."""
    dynsym = 11
    for k in range(count):
        _, kind, _, _, offset, length = struct.unpack_from("<IIQQQQ", data, sections + k * size)
        if kind == dynsym:
            symbols = struct.iter_unpack("<IBBHQQ", data[offset : offset + length])
            return {text(name) for name, _, _, section, _, _ in symbols if name and section == 0}  # type: ignore[operator]
    raise BadLibraryError("no dynamic symbols")


def _versions(data: bytes, at: int, text: object) -> set[tuple[int, ...]]:
    """Versions of glibc whose symbols are used."""
    found = set()
    while True:
        _, count, _, first, following = struct.unpack_from("<HHIII", data, at)
        inner = at + first
        for _ in range(count):
            _, _, _, name, beyond = struct.unpack_from("<IHHII", data, inner)
            version = text(name).removeprefix("GLIBC_")  # type: ignore[operator]
            found.add(tuple(map(int, version.split("."))))
            inner += beyond
        if not following:
            return found
        at += following


def check(path: Path, triple: str) -> None:
    """Raise where a library would not run on every system that its wheel names, or has writable code."""
    found = read(path.read_bytes())
    problems = []
    if found.machine != _MACHINES[triple.partition("-")[0]]:
        problems.append(f"it is for machine {found.machine}")
    for kind, names, allowed in (("libraries", found.needed, NEEDED), ("symbols", found.undefined, ALLOWED)):
        if names - allowed:
            problems.append(f"it needs {kind} that are not on the list: {', '.join(sorted(names - allowed))}")
    if max(found.glibc, default=(0,)) > NEWEST_GLIBC:
        problems.append(f"it needs glibc {'.'.join(map(str, max(found.glibc)))}")
    if found.text_relocations:
        problems.append("it has text relocations")
    if found.writable_code:
        problems.append("its code, or its stack, is writable and executable")
    if problems:
        raise BadLibraryError(f"{path.name}: {'; '.join(problems)}")
