"""Remote files through fsspec: options of file systems, retries, and detection of changed files."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from .._checks.arguments import number, whole_number
from .._io.file_bytes import MAX_BYTES, check_bytes
from .._version import install_hint
from ._blocks import Blocks, blocks_of, key_of
from ._retries import Retries, status_of

__all__ = ["Remote"]

T = TypeVar("T")

_URL = re.compile(rb"([a-z][a-z0-9+.-]*::)*[a-z][a-z0-9+.-]*://", re.IGNORECASE)
UNKNOWN = -1  # in place of the size of a file
#: Fields of a file's info that identify its version, as the file systems name them; the first that is present is used.
_VALIDATORS = (
    "ETag", "etag", "md5Hash", "blob_id", "oid", "LastModified", "Last-Modified", "last_modified", "updated", "mtime",
    "created",
)  # fmt: skip
_CONNECTIONS = 128  # per file system at most: each of the loader's readers uses up to four
_LISTED_AT_ONCE = 8  # folders listed concurrently
# No cached listings: they would hide that a file has changed. No concurrent parts of one read: they cost a request for
# its size. No retries in botocore: they are counted here.
_S3 = {
    "use_listings_cache": False,
    "max_concurrency": 1,
    "config_kwargs": {"max_pool_connections": _CONNECTIONS, "retries": {"max_attempts": 0}},
}
_NO_PARTS = "the server does not serve parts of files, which this source needs; gpuimg.folder and file_list do not"
_STALLED = 30.0  # seconds without a byte; aiohttp waits for 300


@dataclass(frozen=True)
class Remote:
    """Settings for reading files from URLs.

    Attributes
    ----------
    storage_options : mapping
        Options of the file system, as in pandas and dask: ``{"anon": True}`` for public S3 buckets,
        ``{"endpoint_url": ...}`` for other stores with the S3 protocol. Credentials are best left where the file system
        itself looks for them.
    cache : path, optional
        A local folder that caches what was read for later epochs and runs. Several processes may share it. None: no
        disk cache.
    cache_bytes : int
        Maximum size of that folder in bytes: the least recently used parts are removed.
    retry_seconds : float
        A request that fails for a reason that may be temporary is repeated for so long, after random pauses of up to
        5 s, before the failure is an error of the sample.
    hedge_seconds : float, optional
        Over S3 and HTTP, a part of a file that has not arrived after so long is requested a second time, and the first
        answer is used. Choose a time that few requests take. None: never.

    Examples
    --------
    >>> import gpuimg
    >>> gpuimg.Remote(cache="/tmp/photos", retry_seconds=300)
    Remote(cache='/tmp/photos', cache_bytes=64000000000, retry_seconds=300, hedge_seconds=None)
    """

    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)  # not shown: may hold secrets
    cache: str | os.PathLike[str] | None = None
    cache_bytes: int = 64_000_000_000
    retry_seconds: float = 60.0
    hedge_seconds: float | None = None

    def __post_init__(self) -> None:
        whole_number(self.cache_bytes, "cache_bytes")
        number(self.retry_seconds, "retry_seconds", low=0.0)
        if self.hedge_seconds is not None:
            number(self.hedge_seconds, "hedge_seconds", low=0.0)
        if not isinstance(self.storage_options, Mapping):
            raise TypeError(f"storage_options must be a mapping, not {type(self.storage_options).__name__}")
        if self.cache is not None:
            local(self.cache, "cache", "folder")


def is_url(path: str | bytes) -> bool:
    """Return whether a path is read by fsspec: ``protocol://...``, also chained as in ``simplecache::s3://...``."""
    return _URL.match(os.fsencode(path)) is not None


def local(path: str | bytes | os.PathLike[str] | os.PathLike[bytes], what: str, kind: str = "file") -> str:
    """Return a path that must be local, not a URL; ``what`` and ``kind`` name it in the message."""
    name = os.fsdecode(path)
    if is_url(name):
        raise ValueError(f"{what} must be a local {kind}, not {name!r}")
    return name


def without_archive(path: bytes) -> tuple[bytes, bytes]:
    """Split the archive from a URL of what is in it: ``zip://train::s3://bucket/x.zip``; other paths have none."""
    parts = path.split(b"::") if is_url(path) else [path]
    count = 1 + next((k for k, part in enumerate(parts) if b"://" in part), len(parts))
    return b"::".join(parts[:count]), b"".join(b"::" + part for part in parts[count:])


class Status(NamedTuple):
    """Size and version of a remote file; both are equal as long as it has not changed."""

    size: int
    mark: str  # version, such as an ETag; "" if the storage reports none

    @property
    def etag(self) -> str:
        """The ETag, for requests of this version; "" without a strong one, as weak ones never match in If-Match."""
        name, _, tag = self.mark.partition(" ")
        return tag if name in ("ETag", "etag") and tag.startswith('"') else ""

    def __str__(self) -> str:
        return f"{self.size} bytes" + (f", {self.mark}" if self.mark else "")


class Storage:
    """Access to remote files; copies and pickles hold only the settings."""

    def __init__(self, remote: Remote | None = None) -> None:
        self.remote = remote or Remote()
        self.retries = Retries(self.remote.retry_seconds)
        self.blocks = None if self.remote.cache is None else Blocks(self.remote.cache, self.remote.cache_bytes)

    def __reduce__(self) -> tuple[type[Storage], tuple[Remote]]:
        return type(self), (self.remote,)

    def find(self, url: str) -> tuple[Any, str]:
        """Return the file system of a URL, for this process and thread, and the path in it."""
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise ImportError(f"reading {url} needs fsspec; {install_hint('remote')}") from error
        try:
            return url_to_fs(url, **_options(url, self.remote.storage_options))  # type: ignore[no-any-return]
        except ImportError as error:
            raise ImportError(f"{url}: {error}; for S3 and HTTP, {install_hint('remote')}") from error

    def status(self, url: str) -> Status:
        """Return size and version of a file."""
        return self.retries.run(url, "its size", lambda: _status(self._info(url)))

    def _info(self, url: str) -> Any:
        fs, path = self.find(url)
        return fs.info(path)

    def whole(self, url: str, mark: str, size: int = UNKNOWN, max_bytes: int = MAX_BYTES) -> bytes:
        """Return all bytes of a file, from the disk cache if it has this version; refuse more than ``max_bytes``.

        The file is cached if its length is the ``size`` in its listing or, without a listing, the length that the
        server declared: a response without a declared length may have been cut off.
        """
        blocks, key = self.blocks, key_of(url, "whole", mark)
        found = None if blocks is None else blocks.get(key, 0)
        if found is None:
            found, size = self.retries.run(url, "reading", lambda: self._cat(url, size, max_bytes))
            check_bytes(max(len(found), size), max_bytes)
            if blocks is not None and len(found) == size:
                blocks.put(key, 0, found)
        check_bytes(len(found), max_bytes)
        return found

    def forget(self, url: str, mark: str) -> None:
        """Remove a whole file from the disk cache."""
        if self.blocks is not None:
            self.blocks.remove(key_of(url, "whole", mark), 0)

    def _cat(self, url: str, size: int, max_bytes: int) -> tuple[bytes, int]:
        """Return the bytes of a file, at most slightly more than ``max_bytes``, and its size if known."""
        fs, path = self.find(url)
        if _is_of(fs, "http"):
            from fsspec.asyn import sync

            body: tuple[bytes, int] = sync(fs.loop, _http_get, fs, path, size, max_bytes)
            return body
        size = _status(fs.info(path)).size if size == UNKNOWN else size
        if not 0 < size <= max_bytes:
            return b"", size
        return bytes(fs.cat_file(path, start=0, end=max_bytes + 1)), size

    def listed(self, url: str) -> dict[str, tuple[str, int]]:
        """List all files below a folder concurrently: version and size by relative path."""
        path = self.find(url)[1].rstrip("/")
        found: dict[str, tuple[str, int]] = {}
        folders, seen = [path], {path}
        with ThreadPoolExecutor(_LISTED_AT_ONCE, "gpuimg-list") as pool:
            while folders:
                infos = [info for infos in pool.map(partial(self._folder, url), folders) for info in infos]
                files = [info for info in infos if info["type"] != "directory"]
                names = (info["name"].removeprefix(path).removeprefix("/") for info in files)  # an archive's path: ""
                found |= {name: (_mark(info), _size(info)) for name, info in zip(names, files, strict=True)}
                inner = dict.fromkeys(info["name"].rstrip("/") for info in infos if info["type"] == "directory")
                folders = [name for name in inner if name not in seen]
                seen.update(folders)
        return found

    def matching(self, url: str) -> list[str]:
        """Return the URLs of files that a pattern with ``*`` matches."""
        fs, path = self.find(url)
        archive = os.fsdecode(without_archive(os.fsencode(url))[1])
        return [fs.unstrip_protocol(name) + archive for name in self.retries.run(url, "listing", lambda: fs.glob(path))]

    def _folder(self, url: str, folder: str) -> list[dict[str, Any]]:
        """List one folder, without the folder itself, which some stores list as an empty file."""
        found = self.retries.run(url, f"listing {folder}", lambda: self.find(url)[0].ls(folder, detail=True))
        within = folder and folder + "/"  # the top of an archive is ""
        return [info for info in found if info["name"].rstrip("/").startswith(within) and info["name"].strip("/")]


class RemoteFile:
    """One remote file, any part of which any thread may read; an error if its status is not ``expected``."""

    def __init__(self, url: str, storage: Storage, expected: Status | None = None) -> None:
        self.url, self._storage = url, storage
        self._handle, self.status = storage.retries.run(url, "opening", lambda: self._opened(expected))
        self._check(self.status, expected)
        self._key = key_of(url, "blocks", str(self.status))

    def _check(self, found: Status, expected: Status | None) -> None:
        if expected is not None and found != expected:
            text = (
                f"changed since it was indexed: {expected} then, {found} now; delete the file of index_cache, if there "
                "is one, and open the source again"
            )
            raise OSError(errno.ESTALE, text, self.url)

    def _opened(self, known: Status | None) -> tuple[Any, Status]:
        """Return the handle that reads parts, None for file systems without a thread-safe one, and the status now.

        Handles of asynchronous file systems may be used by several threads. Those for S3 and HTTP request one version;
        if that is ``known`` with its ETag, it is taken as the status now, which saves a request.
        """
        fs, path = self._storage.find(self.url)
        if not fs.async_impl:
            return None, _status(fs.info(path))
        if not _is_of(fs, "http", "s3"):
            handle = fs.open(path, "rb", cache_type="none")
            return handle, _status(handle.details)
        status = known
        if status is None or not status.etag:
            info = fs.info(path)
            if info.get("partial") is False:
                raise ValueError(_NO_PARTS)
            status = _status(info)
        size, etag = max(status.size, 1), status.etag
        if _is_of(fs, "http"):
            headers = {**fs.kwargs.get("headers", {}), "Accept-Encoding": "identity"}
            headers |= {"If-Match": etag} if etag else {}
            return fs.open(path, "rb", cache_type="none", size=size, headers=headers), status
        handle = fs.open(path, "rb", cache_type="none", size=size)
        handle.details = {"name": path, "size": status.size, "type": "file", "ETag": etag}
        if etag and not getattr(fs, "local_expiry_check", False):
            name = _s3_options(handle)
            setattr(handle, name, {**getattr(handle, name), "IfMatch": etag})
        return handle, status

    def read(self, start: int, stop: int) -> bytes:
        """Return exactly bytes ``start`` to ``stop - 1``, from the disk cache if there is one."""
        if stop > self.status.size:
            raise OSError(errno.EIO, f"bytes {start} to {stop} of {self.status.size}: it was cut off", self.url)
        blocks = self._storage.blocks
        if blocks is None or start >= stop:
            return self._fetched(start, stop)
        return blocks.part(self._key, self.status.size, start, stop, self._fetched)

    def forget(self, start: int, stop: int) -> None:
        """Remove the blocks with these bytes from the disk cache."""
        blocks = self._storage.blocks
        if blocks is not None and start < stop:
            for block in blocks_of(start, stop):
                blocks.remove(self._key, block)

    def _fetched(self, start: int, stop: int) -> bytes:
        if start >= stop:
            return b""
        return self._storage.retries.run(self.url, f"bytes {start} to {stop}", lambda: self._attempt(start, stop))

    def _attempt(self, start: int, stop: int) -> bytes:
        try:
            data = self._part(start, stop)
        except Exception as error:
            if _is_of_another_version(error):
                self._check(self._storage.status(self.url), self.status)
            raise
        if len(data) != stop - start:
            self._check(self._storage.status(self.url), self.status)
            raise OSError(errno.EIO, f"only {len(data)} of {stop - start} bytes were received")
        return data

    def _part(self, start: int, stop: int) -> bytes:
        if self._handle is not None:
            after, fs = self._storage.remote.hedge_seconds, self._handle.fs
            try:
                if after is not None and _is_of(fs, "http", "s3"):
                    from fsspec.asyn import sync

                    return sync(fs.loop, _first_of_two, partial(_part_of, self._handle, start, stop), after)  # type: ignore[no-any-return]
                return self._handle._fetch_range(start, stop)  # type: ignore[no-any-return]
            except ValueError as error:  # fsspec's advice is for its own users
                raise ValueError(_NO_PARTS) if "range requests" in str(error) else error from error
        fs, path = self._storage.find(self.url)
        return bytes(fs.cat_file(path, start=start, end=stop))


def _options(url: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options for a file system: the user's, with defaults that suit many concurrent reads."""
    protocol = url.partition(":")[0].lower()
    options = dict(given)
    if protocol in ("s3", "s3a"):
        inner = {**_S3["config_kwargs"], **options.get("config_kwargs", {})}  # type: ignore[dict-item]
        return {**_S3, **options, "config_kwargs": inner}
    if protocol in ("http", "https") and "client_kwargs" not in options and "get_client" not in options:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_STALLED, sock_read=_STALLED)
        options["client_kwargs"] = {"timeout": timeout}
    return options


async def _http_get(fs: Any, path: str, size: int, max_bytes: int) -> tuple[bytes, int]:
    """Return the body of an HTTP response, at most slightly more than ``max_bytes`` of it, and its size if known.

    aiohttp verifies the length of a body that declares one, and the last chunk of a chunked one. Any other body ends
    where the connection ends, for whatever reason: then ``size`` is returned unchanged.
    """
    session = await fs.set_session()
    options = {**fs.kwargs, "headers": {**fs.kwargs.get("headers", {}), "Accept-Encoding": "identity"}}
    body = bytearray()
    async with session.get(fs.encode_url(path), **options) as response:
        fs._raise_not_found_for_status(response, path)
        headers = response.headers
        framed = "Content-Length" in headers or headers.get("Transfer-Encoding", "").lower() == "chunked"
        declared = response.content_length if headers.get("Content-Encoding", "identity") == "identity" else None
        size = size if declared is None else declared
        if size <= max_bytes:
            async for part in response.content.iter_any():
                body += part
                if len(body) > max_bytes:
                    break
    return bytes(body), len(body) if framed and declared is None else size


async def _part_of(handle: Any, start: int, stop: int) -> bytes:
    """Return bytes of an open file over HTTP or S3."""
    if _is_of(handle.fs, "http"):
        return bytes(await handle.async_fetch_range(start, stop))
    version = {} if handle.version_id is None else {"VersionId": handle.version_id}
    wanted = {"Bucket": handle.bucket, "Key": handle.key, "Range": f"bytes={start}-{stop - 1}"}
    answer = await handle.fs._call_s3("get_object", **wanted, **version, **getattr(handle, _s3_options(handle)))
    async with answer["Body"] as body:
        return bytes(await body.read())


def _s3_options(handle: Any) -> str:
    """Return the name of what an open file adds to its requests, which was another one in earlier versions of s3fs."""
    return "read_kw" if hasattr(handle, "read_kw") else "req_kw"


async def _first_of_two(request: Callable[[], Coroutine[Any, Any, T]], after: float) -> T:
    """Return the result of a request, or of a second one if that comes first; it is sent ``after`` seconds."""
    running = {asyncio.ensure_future(request())}
    try:
        if not (await asyncio.wait(running, timeout=after))[0]:
            running.add(asyncio.ensure_future(request()))
        while True:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            good = [one for one in done if one.exception() is None]
            if good or not running:
                return (good or list(done))[0].result()
    finally:
        for one in running:
            one.cancel()


def _is_of_another_version(error: Exception) -> bool:
    """Return whether a request failed because it was for an earlier version."""
    refused = isinstance(error, OSError) and re.search("pre-?condition", str(error), re.IGNORECASE)
    return bool(refused) or status_of(error) == 412 or type(error).__name__ == "FileExpired"


def _is_of(fs: Any, *protocols: str) -> bool:
    return not set(protocols).isdisjoint(fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,))


def _size(info: Mapping[str, Any]) -> int:
    size = info.get("size")
    return UNKNOWN if size is None else int(size)


def _status(info: Mapping[str, Any]) -> Status:
    size = info.get("size")
    if size is None:
        raise ValueError("the server does not report its size")
    if info.get("type") == "directory":
        raise OSError(errno.EISDIR, "a folder, not a file")
    return Status(int(size), _mark(info))


def _mark(info: Mapping[str, Any]) -> str:
    name = next((name for name in _VALIDATORS if info.get(name) is not None), None)
    return "" if name is None else f"{name} {info[name]}"
