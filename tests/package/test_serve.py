"""The service of examples/serve.py, as a process: pixels, bad uploads among good ones, limits, its end."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import gpuimg as gi

from .. import samples

SCRIPT = samples.ROOT / "examples" / "serve.py"
PHOTOS = [path.read_bytes() for path in samples.PHOTOS]
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
        environment = {**os.environ, "PYTHONPATH": str(samples.ROOT), "GPUIMG_DEVICE": "cpu"}
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


def test_photos_get_values_and_bad_uploads_the_reason(service: Service) -> None:
    files = [*PHOTOS, *BAD] * 4
    before = json.loads(service.ask("GET", "/stats")[2])
    with ThreadPoolExecutor(len(files)) as pool:
        answers = list(pool.map(service.post, files))
    after = json.loads(service.ask("GET", "/stats")[2])
    for file, (status, headers, content) in zip(files, answers, strict=True):
        if file in BAD:
            assert status == 422
            assert BAD[file] in content.decode()
        else:
            assert (status, headers["x-shape"], headers["x-dtype"]) == (200, "3,224,224", "float16")
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


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, (0, 130)), (signal.SIGTERM, (0, -signal.SIGTERM))])
def test_signal_ends_it_after_open_requests(number: int, status: tuple[int, ...]) -> None:
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
