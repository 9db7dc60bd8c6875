"""Source of images in tar files, as WebDataset writes them."""

from __future__ import annotations

import json
import os
import re
import tarfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._indexes import Arrays, Names, cached_index, check_names, check_parts
from ._reading import OpenFiles, Path, Scan, naming, printable, shards
from ._remote import Remote
from ._table import Parts, Place

__all__ = ["tar"]

IMAGES = ("jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff", "jp2", "ppm", "pgm", "gif", "avif", "gji")
_CACHED_SHARDS = 8  # shards whose members are cached: threads read fewer at a time
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}

#: Offset and size of each member of a sample, by its ending.
Members: TypeAlias = "dict[str, tuple[int, int]]"
_MISSING = 0, 0  # of a member that a sample does not have; every other one has a header before it


class Field(NamedTuple):
    """A label: the ending of its member, and the keys of a value in its JSON."""

    ending: str
    keys: tuple[str, ...] = ()


class Tar(Parts):
    """Source of samples in tar files: the members whose names are equal up to the first dot."""

    _function = "tar"

    def __init__(
        self, files: OpenFiles, arrays: Arrays, images: tuple[str, ...], fields: tuple[Field, ...], single: bool
    ) -> None:
        super().__init__(files, arrays["offset"], arrays["size"], arrays["shard"])
        self._names, self._images, self._fields, self._single = Names.of(arrays), images, fields, single

    def _file_and_key(self, i: int) -> tuple[str, str]:
        return self._files.paths[self._file_of(i)], printable(self._names[i])

    def _places(self, i: int) -> list[Place]:
        shard, where = self._file_of(i), zip(self._offset[i], self._size[i], strict=True)
        return [self._files.span(shard, offset, size) for offset, size in where if offset]

    def _sample(self, i: int, contents: Sequence[Any]) -> tuple[Any, Any]:
        if not self._offset[i].all():
            raise ValueError(f"it has {_lacking(self._offset[i].tolist(), self._images, self._fields)}")
        image, *values = contents
        labels = tuple(_label(field, bytes(value)) for field, value in zip(self._fields, values, strict=True))
        if self._single:
            return image, labels[0]
        return image, labels or None

    def key(self, i: int) -> str:
        """Return the key of sample ``i``: the path of its members up to the first dot of the last part."""
        return os.fsdecode(self._names[i])


class TarMembers:
    """All members of the samples of a :class:`Tar`, also those that are neither image nor label.

    The index of a ``Tar`` does not have them, so shards are scanned again; those used last are cached.
    """

    def __init__(self, source: Tar) -> None:
        self._tar = source
        self._of_shard: Callable[[int], dict[str, Members]] = lru_cache(_CACHED_SHARDS)(self._scan)

    def _scan(self, shard: int) -> dict[str, Members]:
        with self._tar._files.scanning(shard) as scan:
            return samples_of(scan)

    def _members(self, i: int) -> Members:
        return self._of_shard(self._tar._file_of(i))[self._tar.key(i)]

    def image_ending(self, i: int) -> str:
        """Return the ending of the image of sample ``i``, without the dot."""
        image = int(self._tar._offset[i, 0])
        return next(ending for ending, (offset, _) in self._members(i).items() if offset == image)

    def others(self, i: int) -> list[tuple[str, bytes]]:
        """Return ending and bytes of each member of sample ``i`` but the image."""
        shard, image = self._tar._file_of(i), self.image_ending(i)
        return [
            (ending, self._tar._files.span(shard, *place).read())
            for ending, place in self._members(i).items()
            if ending != image
        ]  # fmt: skip


def tar(
    paths: Path | Sequence[Path],
    *,
    image: str | Sequence[str] = IMAGES,
    label: str | Sequence[str] | None = "cls",
    index_cache: Path | None = None,
    remote: Remote | None = None,
) -> Tar:
    """Read images in tar files in the layout of WebDataset.

    Parameters
    ----------
    paths : path, sequence of paths, or pattern
        Or URLs. ``"shard-{000..003}.tar"`` stands for four files, ``"shard-*.tar"`` for all that exist.
    image : str or sequence of str
        Endings of image members; the first one that a sample has is used.
    label : str, sequence of str or None
        Ending of the label member. ``"cls"``, or any ending whose last part is ``cls`` as in ``"top.cls"``, is an
        ``int``, or ``str`` if it is not an integer; ``"json"`` is parsed, and ``"json.caption"`` is the value of that
        key in it; ``"txt"`` is ``str``; others are ``bytes``. The label is a tuple for several endings, and None for
        None.
    index_cache : path, optional
        A file that caches the index for later calls with the same shards and options. Remote shards are not asked
        whether they have changed; reading one that has is an error. Above 64 MiB its rows are read when they are used.
    remote : Remote, optional
        Settings for URLs, see :class:`gpuimg.Remote`.

    Returns
    -------
    Tar
        Samples in the order of the shards and, within a shard, of their first members.

    Raises
    ------
    ValueError
        If a file is compressed, cut off or damaged (saying where), a sample has two members of one name (naming it), or
        every sample lacks its image or label.
    OSError
        If a file cannot be read.

    Notes
    -----
    A member's key is its path up to the first dot of the last part; its ending is the rest, in lower case. Members
    without an ending, hidden ones, keys ``__...__``, and all but regular files are ignored. Members of a sample need
    not be neighbors in their shard. A sample without image or label raises an error when it is read, so that
    ``on_error`` of :func:`gpuimg.load` applies. Building the index takes about 20 us per member, and 50 bytes of
    memory per sample.

    A sample is read with one ``pread`` for the image and one for each label. Members have no checksum: only the decoder
    can detect damage to their bytes.

    References
    ----------
    POSIX.1-2017, ``pax``: interchange formats ustar and pax. The WebDataset format,
    https://github.com/webdataset/webdataset.

    Examples
    --------
    >>> import io, pathlib, tarfile, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> with tarfile.open(root / "shard-0.tar", "w") as file:
    ...     for name, data in (("n01.jpg", b"..."), ("n01.cls", b"281")):
    ...         member = tarfile.TarInfo(name)
    ...         member.size = len(data)
    ...         file.addfile(member, io.BytesIO(data))
    >>> photos = tar(root / "shard-{0..0}.tar")
    >>> photos[0]
    (b'...', 281)
    """
    images = tuple(ending.lower() for ending in ([image] if isinstance(image, str) else image))
    fields = tuple(map(_field, [label] if isinstance(label, str) else label or ()))
    if not images:
        raise ValueError("image must name at least one ending")
    for ending in (*images, *(field.ending for field in fields)):
        if not ending or ending.startswith("."):
            raise ValueError(f'an ending is written without its dot, such as "jpg", not {ending!r}')
    files = OpenFiles(shards(paths, remote), remote)
    kind = json.dumps(["tar 1", images, [field.ending for field in fields]])
    arrays = cached_index(
        index_cache, kind, files, lambda: _index(files, images, fields), partial(_check, 1 + len(fields))
    )
    return Tar(files, arrays, images, fields, isinstance(label, str))


def _field(label: str) -> Field:
    """Return the ending and the keys of a label such as ``"top.json.caption"``."""
    parts = label.split(".")
    last = next((k for k, part in enumerate(parts) if part.lower() == "json"), len(parts))
    return Field(".".join(parts[: last + 1]).lower(), tuple(parts[last + 1 :]))


def _label(field: Field, value: bytes) -> Any:
    found = _content(field.ending, value)
    for key in field.keys:
        if not isinstance(found, dict) or key not in found:
            has = f"keys {', '.join(map(repr, found))}" if isinstance(found, dict) else type(found).__name__
            raise ValueError(f"its .{field.ending} has no {'.'.join(field.keys)!r}; it has {printable(has)}")
        found = found[key]
    return found


def _content(field: str, value: bytes) -> Any:
    kind = field.rpartition(".")[2]
    try:
        if kind == "cls":
            text = value.decode().strip()
            return int(text) if re.fullmatch("[-+]?[0-9]+", text) else text
        if kind == "json":
            return json.loads(value)
        return value.decode() if kind == "txt" else value
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its .{field} cannot be read: {error}") from error


def _index(files: OpenFiles, images: tuple[str, ...], fields: tuple[Field, ...]) -> Arrays:
    """Scan the shards: shard (N,), offset and size (N, 1 + L) of the image and the L labels, and the keys."""
    numbers, places, keys = array("i"), array("q"), []
    first: tuple[str, Members] | None = None  # while every sample lacks something
    complete = False
    for number, samples in enumerate(files.scanned(samples_of)):
        with naming(files.paths[number]):
            for key, members in samples.items():
                chosen = _chosen(members, images, fields)
                complete = complete or _MISSING not in chosen
                first = first or (key, members)
                for place in chosen:
                    places.extend(place)
                numbers.append(number)
                keys.append(os.fsencode(key))
    if first is None:
        more = ", nor in the others" if len(files.paths) > 1 else ""
        raise ValueError(f"{files.name(0)}: no samples in it{more}")
    if not complete:
        key, members = first
        lacking = _lacking([offset for offset, _ in _chosen(members, images, fields)], images, fields)
        has = ", ".join("." + printable(other) for other in members)
        more = f", nor has any of the {len(keys):,} samples all of these" if len(keys) > 1 else ""
        raise ValueError(f"{files.name(numbers[0])}: {printable(key)} has {lacking}{more}; it has {has}")
    table = np.array(places, np.int64).reshape(len(numbers), 1 + len(fields), 2)
    arrays: Arrays = {"shard": np.array(numbers, np.int32), "offset": table[..., 0], "size": table[..., 1]}
    return arrays | Names(keys).arrays()


def _check(columns: int, arrays: Arrays, sizes: NDArray[np.int64]) -> None:
    """Reject arrays that cannot be an index of files of these sizes."""
    check_parts(arrays, sizes, columns)
    check_names(arrays, len(arrays["shard"]))


def _chosen(members: Members, images: tuple[str, ...], fields: tuple[Field, ...]) -> list[tuple[int, int]]:
    image = next((members[ending] for ending in images if ending in members), _MISSING)
    return [image, *(members.get(field.ending, _MISSING) for field in fields)]


def _lacking(offsets: list[int], images: tuple[str, ...], fields: tuple[Field, ...]) -> str:
    """Return the members that a sample does not have, for a message."""
    names = [f"no image (.{', .'.join(images)})", *(f"no label .{field.ending}" for field in fields)]
    return " and ".join(name for name, offset in zip(names, offsets, strict=True) if not offset)


def samples_of(scan: Scan) -> dict[str, Members]:
    """Return the members of each sample by its key."""
    found: dict[str, Members] = {}
    for member in _members(scan):
        folder, name = os.path.split(member.name)
        stem, dot, ending = name.partition(".")
        if not (member.isreg() and stem and dot) or (stem.startswith("__") and stem.endswith("__")):
            continue
        sample = found.setdefault(os.path.join(folder, stem), {})
        if ending.lower() in sample:
            raise ValueError(f"{printable(member.name)} occurs twice")
        if member.issparse():
            raise ValueError(f"{printable(member.name)} is stored sparsely, not in one piece")
        sample[ending.lower()] = member.offset_data, member.size
    return found


def _members(scan: Scan) -> Iterator[tarfile.TarInfo]:
    """Yield the headers of a tar file. ``tarfile`` stops silently at a damaged header, so the end is checked here."""
    file, size, read_at, _ = scan
    _refuse(read_at(0, 8))
    file.seek(0)
    with _reader(file) as archive:
        end = 0
        while member := _next(archive):
            start, end = end, archive.offset
            if member.size >= 0 and member.offset_data + member.size > size:
                last = member.offset_data + member.size
                raise ValueError(f"cut off: {printable(member.name)} ends at byte {last} of {size}")
            if member.size < 0 or end <= start:
                raise ValueError(f"damaged: {printable(member.name)} has a size of {member.size} bytes")
            archive.members.clear()  # type: ignore[attr-defined]  # tarfile would keep all headers in memory
            yield member
    block = read_at(end, tarfile.BLOCKSIZE)
    if block != bytes(tarfile.BLOCKSIZE):
        what = "cut off" if len(block) < tarfile.BLOCKSIZE else "damaged"
        raise ValueError(f"{what}: no header and no end of the archive at byte {end} of {size}")


def _refuse(head: bytes) -> None:
    for magic, name in _COMPRESSED.items():
        if head.startswith(magic):
            raise ValueError(f"compressed with {name}, but samples are read in any order: decompress it")
    if not head:
        raise ValueError("empty: 0 bytes")


def _reader(file: Any) -> tarfile.TarFile:
    try:
        return tarfile.open(fileobj=file, mode="r:")
    except (RecursionError, MemoryError) as error:  # opening reads the first header, as `_next` does
        raise ValueError("damaged at byte 0: too many or too large headers of one member") from error
    except tarfile.TarError as error:
        raise ValueError(f"not a tar file, or damaged: {error}") from error


def _next(archive: tarfile.TarFile) -> tarfile.TarInfo | None:
    try:
        return archive.next()
    except (RecursionError, MemoryError) as error:  # extension headers are read whole, however large they claim to be
        raise ValueError(f"damaged at byte {archive.offset}: too many or too large headers of one member") from error
    except (tarfile.TarError, ValueError, LookupError, OverflowError) as error:  # raised by the parser of tarfile
        raise ValueError(f"damaged at byte {archive.offset}: {error}") from error
