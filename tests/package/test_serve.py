"""The service of examples/serve.py, as a process: pixels, bad uploads among good ones, limits, its end."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuimg as gi

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "serve.py"
PHOTOS = [path.read_bytes() for path in sorted((ROOT / "examples" / "photos").glob("*.jpg"))]
CUT = PHOTOS[0][:5000]
#: Files that are no images, and what is said of them.
BAD = {CUT: "data end in MCU row", b"": "empty", b"hello": "not an image file"}

LIBRARIES = "starlette", "uvicorn"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(importlib.util.find_spec, LIBRARIES)), reason="needs starlette and uvicorn"),
]


class Service:
    """A process, and requests to it."""

    def __init__(self, *arguments: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "GPUIMG_DEVICE": "cpu"}
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "--port", "0", *arguments], stderr=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stderr is not None
        self.said = ""
        for line in self.process.stderr:
            self.said += line
            if found := re.search(r"running on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                return
        raise AssertionError(self.said)

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, path, body, **options)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def post(self, file: bytes) -> tuple[int, dict[str, str], bytes]:
        return self.ask("POST", "/", file)

    def end(self) -> int:
        """Wait for its end, and give its status."""
        self.said += self.process.communicate(timeout=300)[1]
        return self.process.returncode


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    # Batches wait for long, so that requests that come at about the same time share one.
    service = Service("--wait", "200")
    try:
        yield service
    finally:
        service.process.send_signal(signal.SIGINT)
        assert service.end() in (0, 130)


def direct(file: bytes) -> bytes:
    x = gi.presets.imagenet_eval(224)(gi.open_batch([file], device="cpu"))
    return bytes(x.array("float16", "NCHW").tobytes())


def test_the_values_are_those_of_a_direct_call(service: Service) -> None:
    for file in PHOTOS[:3]:
        status, headers, values = service.post(file)
        assert (status, headers["x-shape"], headers["x-dtype"]) == (200, "3,224,224", "float16")
        assert values == direct(file)
        assert np.isfinite(np.frombuffer(values, headers["x-dtype"]).reshape(3, 224, 224)).all()


def test_bad_uploads_get_the_reason_and_the_others_of_their_batch_are_unharmed(service: Service) -> None:
    files = [*PHOTOS, *BAD] * 4
    before = json.loads(service.ask("GET", "/stats")[2])
    with ThreadPoolExecutor(len(files)) as pool:
        answers = list(pool.map(service.post, files))
    after = json.loads(service.ask("GET", "/stats")[2])
    for file, (status, _, content) in zip(files, answers, strict=True):
        if file in BAD:
            assert status == 422
            assert BAD[file] in content.decode()
        else:
            assert status == 200
            assert content == direct(file)
    assert after["images"] - before["images"] == len(files)
    assert after["batches"] - before["batches"] < len(files) / 2


def test_files_that_are_too_large_are_refused(service: Service) -> None:
    status, _, reason = service.post(bytes(8_000_001))
    assert (status, reason) == (413, b"more than 8,000,000 bytes")
    parts = (bytes(1_000_000) for _ in range(20))  # without a length
    assert service.ask("POST", "/", parts, encode_chunked=True)[0] == 413
    # An image of more pixels than any, in a few bytes.
    assert service.post(b"P6 65000 65000 255\n" + bytes(100))[0] == 422
    assert service.post(PHOTOS[0])[0] == 200


def begun(service: Service, size: int, sent: int) -> socket.socket:
    """An upload that stops in the middle."""
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=300)
    connection.sendall(f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode() + bytes(sent))
    return connection


def held(service: Service) -> int:
    return int(json.loads(service.ask("GET", "/stats")[2])["held"])


def test_slow_uploads_keep_nobody_out(service: Service) -> None:
    """More of them than there are places."""
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(begun(service, 1000, 1))
        while held(service) < 300:
            pass
        for photo in PHOTOS[:5]:
            status, _, values = service.post(photo)
            assert status == 200
            assert values == direct(photo)


@pytest.mark.slow
def test_an_upload_has_a_deadline() -> None:
    service = Service("--seconds", "0.5")
    try:
        with begun(service, 1000, 10) as connection:
            answer = b"".join(iter(lambda: connection.recv(1000), b""))  # to the end: it is closed
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert answer.endswith(b"the body took more than 0.5 seconds")
        assert held(service) == 0
    finally:
        service.process.send_signal(signal.SIGINT)
        service.end()


@pytest.mark.slow
def test_requests_beyond_the_limits_get_a_retry_after() -> None:
    """By bytes, which uploads that do not go on hold, and by requests that wait for their batch."""
    service = Service("--held", "1000000", "--places", "1", "--most", "1", "--seconds", "1e6")
    try:
        with begun(service, 1_000_000, 990_000):
            while held(service) < 990_000:
                pass
            status, headers, reason = service.post(PHOTOS[0])
            assert (status, headers["retry-after"], reason) == (503, "1", b"too many bytes at a time")
        while held(service):  # a client that went away gives its room back
            pass
        answers: list[tuple[int, dict[str, str], bytes]] = []
        while all(status == 200 for status, _, _ in answers):
            with ThreadPoolExecutor(16) as pool:
                answers = list(pool.map(service.post, [PHOTOS[0]] * 16))
        for status, headers, content in answers:
            if status == 200:
                assert content == direct(PHOTOS[0])
            else:
                assert (status, headers["retry-after"], content) == (503, "1", b"too many requests at a time")
        assert service.post(PHOTOS[0])[0] == 200
        assert held(service) == 0
    finally:
        service.process.send_signal(signal.SIGINT)
        service.end()


def test_other_methods_and_paths(service: Service) -> None:
    assert service.ask("GET", "/")[0] == 405
    assert service.ask("POST", "/other", b"")[0] == 404


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, (0, 130)), (signal.SIGTERM, (0, -signal.SIGTERM))])
def test_a_signal_ends_it_after_the_requests_it_has(number: int, status: tuple[int, ...]) -> None:
    service = Service()
    with socket.create_connection(("127.0.0.1", service.port), timeout=300) as connection:
        head = f"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {len(PHOTOS[0])}\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 100")  # it is being answered
        service.process.send_signal(number)
        connection.sendall(PHOTOS[0])
        answer = b"".join(iter(lambda: connection.recv(100_000), b""))
    assert answer.endswith(direct(PHOTOS[0]))
    # Its thread is no daemon: the process would not end with it.
    assert service.end() in status
    assert "Traceback" not in service.said


def batched(function: Callable[[list[bytes]], list[Any]], files: list[bytes], most: int, wait: float) -> list[Any]:
    """Return a batcher's results for simultaneous files."""
    spec = importlib.util.spec_from_file_location("serve", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    async def all_of_them() -> list[Any]:
        batcher = module.Batcher(function, most, wait)
        try:
            return await asyncio.gather(*map(batcher, files), return_exceptions=True)
        finally:
            batcher.close()
            assert "batcher" not in {thread.name for thread in threading.enumerate()}

    return asyncio.run(all_of_them())


@pytest.mark.parametrize(("wait", "sizes"), [(60.0, [8, 8, 8]), (0.0, None)])
def test_batches_are_full_or_of_what_is_there(wait: float, sizes: list[int] | None) -> None:
    seen: list[list[bytes]] = []

    def function(files: list[bytes]) -> list[bytes]:
        seen.append(files)
        return files

    files = [bytes([k]) for k in range(24)]
    assert batched(function, files, 8, wait) == files
    assert [file for batch in seen for file in batch] == files
    assert sizes is None or [len(batch) for batch in seen] == sizes
    assert max(map(len, seen)) <= 8


def test_a_fault_is_that_of_its_batch_alone() -> None:
    def function(files: list[bytes]) -> list[bytes]:
        if b"1" in files:
            raise MemoryError
        return files

    one, other, third = batched(function, [b"0", b"1", b"2"], 1, 0.0)
    assert (one, third) == (b"0", b"2")
    assert isinstance(other, MemoryError)
