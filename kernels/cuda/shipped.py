"""The kernels that a wheel holds as machine code, so that they are launched without a compiler.

``kernels/_lib/cuda.xz``, written by ``buildtools/cuda.py``, is one ``.xz`` stream after another, as
``xz -dc`` reads them: a manifest in JSON, then for each architecture the machine code of all kernels, then their PTX.
A process decompresses the manifest and one of the others. The manifest has the checksum of the sources that the file
was built from, which must be those of this package, and the length and the checksum of each stream.

The file is as trustworthy as the modules in the same package: anyone who can write to their folder can change either.
The loader checks that it is whole, and built from these sources.
"""

import hashlib
import json
import lzma
import threading
from functools import cache
from pathlib import Path
from typing import Any

from ..native import source_digest, wanted

Capability = tuple[int, int]

FILE = Path(__file__).resolve().parents[1] / "_lib" / "cuda.xz"
FORMAT = 1  # of the manifest
CUBIN, PTX = "cubin", "ptx"
_MOST_MANIFEST = 1 << 20  # bytes
_MOST_STREAM = 64 << 20
_MEMORY = 128 << 20  # that decompressing may take


class RefusedError(ValueError):
    """The reason for which a file is not used."""


def _decompressed(content: bytes, most: int) -> tuple[bytes, bytes]:
    """The first ``.xz`` stream of some bytes, and the rest of them."""
    stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    try:
        found = stream.decompress(content, most)
    except (lzma.LZMAError, MemoryError) as error:
        raise RefusedError(f"it is damaged ({error})") from error
    if not stream.eof:
        raise RefusedError("it is cut off, or larger than it may be")
    return found, stream.unused_data


class Shipped:
    """The kernels of such a file; :class:`RefusedError` if it is damaged, or built from sources of another digest."""

    def __init__(self, content: bytes, digest: str) -> None:
        text, self._streams = _decompressed(content, _MOST_MANIFEST)
        try:
            manifest = json.loads(text)
            if manifest["format"] != FORMAT or manifest["sources"] != digest:
                raise RefusedError("it was built from other sources than these")
            self.kernels: dict[str, Any] = {str(name): dict(one) for name, one in manifest["kernels"].items()}
            self.images = [_Stream(one) for one in manifest["images"]]
        except RefusedError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise RefusedError("its manifest is damaged") from error
        if sum(one.length for one in self.images) != len(self._streams):
            raise RefusedError("it is cut off, or longer than its manifest says")
        self._opened: dict[int, dict[str, bytes]] = {}
        self._lock = threading.Lock()

    def best(self, capability: Capability) -> int | None:
        """The number of the stream for a GPU; None where none fits.

        Machine code for a GPU runs on those of the same generation whose number is not lower, PTX on any later one.
        """
        fits = [
            (one.kind == CUBIN, one.capability, k)
            for k, one in enumerate(self.images)
            if one.capability <= capability and (one.kind == PTX or one.capability[0] == capability[0])
        ]
        return max(fits)[-1] if fits else None

    def code(self, number: int) -> dict[str, bytes]:
        """Machine code or PTX of all kernels, by their names, from a stream."""
        with self._lock:
            if number not in self._opened:
                self._opened[number] = self._read(number)
            return self._opened[number]

    def _read(self, number: int) -> dict[str, bytes]:
        one = self.images[number]
        start = sum(other.length for other in self.images[:number])
        packed = self._streams[start : start + one.length]
        if hashlib.sha256(packed).hexdigest() != one.digest:
            raise RefusedError(f"its {one.kind} for {one.number} is damaged")
        content, rest = _decompressed(packed, _MOST_STREAM)
        if rest or len(content) != sum(one.sizes) or len(one.sizes) != len(self.kernels):
            raise RefusedError(f"its {one.kind} for {one.number} is damaged")
        found, at = {}, 0
        for name, size in zip(self.kernels, one.sizes, strict=True):
            found[name] = content[at : at + size]
            at += size
        return found

    def image(self, kernel: Any, capability: Capability) -> tuple[str, bytes] | None:
        """Entry and code of a kernel for a GPU; None where the file has none."""
        number = self.best(capability)
        record = self.kernels.get(kernel.name)
        if number is None or record is None:
            return None
        if record != record_of(kernel, str(record.get("entry"))):
            raise RefusedError(f"kernel {kernel.name} has other arguments or blocks in it")
        return record["entry"], self.code(number)[kernel.name]


class _Stream:
    """Manifest entry of a stream."""

    def __init__(self, record: dict[str, Any]) -> None:
        major, minor = record["capability"]
        self.capability = int(major), int(minor)
        self.kind = str(record["kind"])
        self.length = int(record["length"])
        self.digest = str(record["sha256"])
        self.sizes = [int(size) for size in record["sizes"]]  # bytes of each kernel's code
        if self.kind not in (CUBIN, PTX) or self.length < 0 or min(self.sizes, default=0) < 0:
            raise ValueError

    @property
    def number(self) -> str:
        """The capability as users write it."""
        return f"{self.capability[0]}.{self.capability[1]}"


def record_of(kernel: Any, entry: str) -> dict[str, Any]:
    """Return the manifest entry of a kernel, with all that a launch needs."""
    block, blocks = kernel.bounds
    return {"entry": entry, "arguments": list(kernel.arguments), "block": block, "blocks": blocks}


# -- the file of this package ------------------------------------------------------------------------------------------


@cache
def shipped_file() -> Shipped | str:
    """The file, or the reason for which it is not used."""
    if wanted() == "jit":
        return "GPUIMG_NATIVE is jit"
    try:
        return Shipped(FILE.read_bytes(), source_digest())
    except FileNotFoundError:
        return "this installation has none"
    except (OSError, RefusedError) as error:
        return f"{FILE}: {error}"


def shipped_image(kernel: Any, capability: Capability) -> tuple[str, bytes] | None:
    """Entry and code of a kernel for a GPU; None where it must be compiled."""
    file = shipped_file()
    try:
        return None if isinstance(file, str) else file.image(kernel, capability)
    except RefusedError:  # `gpuimg info` says so
        return None


def lack(capability: Capability) -> str | None:
    """Why kernels for a GPU are not taken from the file; None where they are."""
    file = shipped_file()
    if isinstance(file, str):
        return file
    number = file.best(capability)
    if number is None:
        return f"none are for compute capability {capability[0]}.{capability[1]}"
    return _damage(file, number)


def description() -> str:
    """Describe the contents of the file, or why it is not used."""
    file = shipped_file()
    if isinstance(file, str):
        return f"not used: {file}"
    damage = next(filter(None, (_damage(file, number) for number in range(len(file.images)))), None)
    if damage:
        return f"not used: {damage}"
    of_kinds = {kind: [one.number for one in file.images if one.kind == kind] for kind in (CUBIN, PTX)}
    return f"machine code for {', '.join(of_kinds[CUBIN])}, PTX for {', '.join(of_kinds[PTX])} and later"


def _damage(file: Shipped, number: int) -> str | None:
    try:
        file.code(number)
    except RefusedError as error:
        return f"{FILE}: {error}"
    return None
