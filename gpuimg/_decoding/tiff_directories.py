"""Directories of TIFF files, of memory or of files of which only parts are read.

Formats: TIFF 6.0 and its technical notes; BigTIFF.
"""

import struct
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeAlias

#: Return up to ``size`` bytes from ``offset``, fewer only at the end of the file.
Read: TypeAlias = Callable[[int, int], bytes | memoryview]

SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
WHOLE = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}  # kinds of integers that are not signed
LONG = 4
HEAD = 8  # bytes of the file header, before the data it points to
SUBDIRECTORIES = 330
_MOST_TAGS, _MOST_DIRECTORIES, _MOST_DEPTH = 4096, 1000, 2


class Form(NamedTuple):
    """How numbers are stored, and the offset of the first directory."""

    order: str
    is_big: bool
    first: int


class Tag(NamedTuple):
    """Where the values of a tag are."""

    kind: int
    length: int
    place: int

    @property
    def size(self) -> int:
        """Bytes of the values."""
        return self.length * SIZES[self.kind]


class Entry(NamedTuple):
    """A tag with its values."""

    kind: int
    length: int
    value: bytes | memoryview


class Directory(NamedTuple):
    """Tags of a directory with their values."""

    order: str
    entries: dict[int, Entry]

    def numbers(self, tag: int, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return the integers of a tag."""
        entry = self.entries.get(tag)
        if entry is None:
            return default
        if entry.kind not in WHOLE:
            raise ValueError(f"tag {tag} is of type {entry.kind}")
        return struct.unpack(f"{self.order}{entry.length}{WHOLE[entry.kind]}", entry.value)

    def number(self, tag: int, default: int) -> int:
        """Return the integer of a tag that holds only one."""
        found = self.numbers(tag, (default,))
        if len(found) != 1:
            raise ValueError(f"tag {tag} has {len(found)} values, not 1")
        return found[0]

    def has(self, tag: int, default: tuple[float, ...]) -> bool:
        """Return True if the fractions of a tag are those that it has by default, or if there is no such tag."""
        entry = self.entries.get(tag)
        if entry is None:
            return True
        if entry.kind != 5 or entry.length != len(default):
            raise ValueError(f"tag {tag} is of type {entry.kind} and has {entry.length} values")
        pairs = struct.iter_unpack(f"{self.order}2I", entry.value)
        return all(b and abs(a - b * usual) <= 1e-3 * b for (a, b), usual in zip(pairs, default, strict=True))


def form_of(read: Read) -> Form:
    """Read the header of a file."""
    head = read(0, 16)
    order = "<" if head[:2] == b"II" else ">"
    (magic,) = struct.unpack_from(order + "H", head, 2)
    is_big = magic == 43
    (first,) = struct.unpack_from(order + ("Q" if is_big else "I"), head, 8 if is_big else 4)
    return Form(order, is_big, first)


def tags_at(
    read: Read, end: int, form: Form, at: int, wanted: AbstractSet[int], optional: AbstractSet[int] = frozenset()
) -> tuple[dict[int, Tag], int]:
    """Return the wanted tags of the directory at byte ``at`` of ``end``, and the offset of the next one, 0 for none.

    A tag whose values are not within the file is an error, or is left out if it is ``optional``.
    """
    order, pointer = form.order, "Q" if form.is_big else "I"
    step, inline, first = (20, 8, 8) if form.is_big else (12, 4, 2)
    (count,) = struct.unpack(order + ("Q" if form.is_big else "H"), read(at, first))
    at += first
    if count > _MOST_TAGS or count * step > end:
        raise ValueError(f"the directory has {count} tags")
    table = read(at, count * step + inline)
    tags: dict[int, Tag] = {}
    for start in range(0, count * step, step):
        tag, kind, length = struct.unpack_from(order + "HH" + pointer, table, start)
        if tag not in wanted or tag in tags or kind not in SIZES:
            continue
        found = Tag(kind, length, at + start + step - inline)
        if found.size > inline:
            found = found._replace(place=struct.unpack_from(order + pointer, table, start + step - inline)[0])
        if found.place + found.size > end or length == 0:
            if tag in optional:
                continue
            raise ValueError(f"tag {tag} has {length} values at byte {found.place}, outside the file")
        tags[tag] = found
    rest = table[count * step :]
    return tags, int.from_bytes(rest, "little" if order == "<" else "big") if len(rest) == inline else 0


def pages_at(read: Read, end: int, form: Form) -> Iterator[int]:
    """Yield the offset of the directory of each page; raise ValueError where they form a loop."""
    seen: set[int] = set()
    at = form.first
    while at:
        if at in seen:
            raise ValueError(f"the directory at byte {at} comes twice")
        seen.add(at)
        yield at
        at = tags_at(read, end, form, at, frozenset())[1]


def with_values(read: Read, form: Form, tags: dict[int, Tag]) -> Directory:
    """Read the values of tags."""
    return Directory(form.order, {tag: Entry(*one[:2], read(one.place, one.size)) for tag, one in tags.items()})


def directories(read: Read, end: int, form: Form, wanted: AbstractSet[int]) -> Iterator[dict[int, Tag]]:
    """Yield the wanted tags of each directory, and of those that it refers to as parts of it.

    Raises ValueError where directories form a loop, or are too many.
    """
    seen: set[int] = set()
    following = form.first
    while following:
        waiting, following = [(following, 0)], 0
        while waiting:
            at, depth = waiting.pop(0)
            if at in seen or len(seen) == _MOST_DIRECTORIES:
                what = f"the directory at byte {at} comes twice" if at in seen else f"over {len(seen)} directories"
                raise ValueError(what)
            seen.add(at)
            tags, after = tags_at(read, end, form, at, {*wanted, SUBDIRECTORIES}, {SUBDIRECTORIES})
            following = following if depth else after
            inner = tags.pop(SUBDIRECTORIES, None)
            if inner is not None and depth < _MOST_DEPTH and inner.length <= _MOST_DIRECTORIES:
                places = with_values(read, form, {SUBDIRECTORIES: inner}).numbers(SUBDIRECTORIES)
                waiting += [(place, depth + 1) for place in places]
            yield tags


def written(order: str, entries: dict[int, Entry], at: int) -> bytes:
    """Return a directory for byte ``at`` of a classic file, followed by the values that do not fit into it."""
    table = struct.pack(order + "H", len(entries))
    values_at = at + len(table) + len(entries) * 12 + 4
    values = b""
    for tag, entry in sorted(entries.items()):
        value = bytes(entry.value)
        if len(value) > 4:
            place = struct.pack(order + "I", values_at + len(values))
            values += value + bytes(len(value) & 1)
        else:
            place = value.ljust(4, b"\0")
        table += struct.pack(order + "HHI", tag, entry.kind, entry.length) + place
    return table + bytes(4) + values


def integers(order: str, *numbers: int) -> Entry:
    """Return the entry of 32-bit integers."""
    return Entry(LONG, len(numbers), struct.pack(f"{order}{len(numbers)}I", *numbers))
