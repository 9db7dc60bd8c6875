"""The service of examples/serve.py, as a process: pixels, bad uploads among good ones, limits, its end."""

import asyncio
import http.client
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from importlib import import_module
from typing import Any

import pytest
from PIL import Image

import gpuimg as gi

from .. import samples

PHOTOS = [path.read_bytes() for path in samples.PHOTOS]
#: Files that are no images, and what is said of them; the last has more pixels than any may have.
BAD = {
    PHOTOS[0][:5000]: "data end in MCU row", b"": "empty", b"hello": "not an image file",
    samples.file_of(Image.new("1", (8000, 7000)), "PNG"): "56000000 pixels",
}  # fmt: skip

LIBRARIES = "starlette", "uvicorn"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(importlib.util.find_spec, LIBRARIES)), reason="needs starlette and uvicorn"),
]


@contextmanager
def running(number: int = signal.SIGINT) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run the service; yield its process and port. A signal must end it."""
    command = [sys.executable, str(samples.ROOT / "examples" / "serve.py"), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(samples.ROOT), "GPUIMG_DEVICE": "cpu"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        started = next(line for line in process.stderr if "running on" in line)
        yield process, int(re.findall(r"127\.0\.0\.1:(\d+)", started)[0])
        process.send_signal(number)
        assert "Traceback" not in process.communicate(timeout=300)[1]
    assert process.returncode in (0, 130, -number)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running() as (_, port):
        yield port


def post(port: int, body: Any, **options: Any) -> tuple[int, dict[str, str], bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=300)) as connection:
        connection.request("POST", "/", body, **options)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def direct(file: bytes) -> bytes:
    x = gi.presets.imagenet_eval(224)(gi.open_batch([file], device="cpu"))
    return bytes(x.array("float16", "NCHW").tobytes())


def test_photos_get_values_and_bad_uploads_the_reason(port: int) -> None:
    files = [*PHOTOS, *BAD] * 4
    with ThreadPoolExecutor(len(files)) as pool:
        answers = list(pool.map(lambda file: post(port, file), files))
    for file, (status, headers, content) in zip(files, answers, strict=True):
        if file in BAD:
            assert status == 422
            assert BAD[file] in content.decode()
        else:
            assert (status, headers["x-shape"], headers["x-dtype"]) == (200, "3,224,224", "float16")
            assert content == direct(file)


@pytest.mark.parametrize("options", [{}, {"encode_chunked": True}])
def test_files_that_are_too_large_are_refused(port: int, options: dict[str, Any]) -> None:
    body = (bytes(1_000_000) for _ in range(9)) if options else bytes(8_000_001)
    status, _, reason = post(port, body, **options)
    assert (status, reason) == (413, b"more than 8,000,000 bytes")
    assert post(port, PHOTOS[0])[0] == 200


def test_batches_are_full_or_as_old_as_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the call is that of its batch alone."""
    monkeypatch.syspath_prepend(samples.ROOT / "examples")
    batcher_of, batches = import_module("serve").Batcher, list[list[bytes]]()

    def function(files: list[bytes]) -> list[bytes | Exception]:
        batches.append(files)
        return [file[::-1] for file in files if 1 / len(file)]

    async def answers(most: int, wait: float, files: list[bytes]) -> list[Any]:
        with closing(batcher_of(function, most, wait)) as batcher:
            return await asyncio.gather(*map(batcher, files), return_exceptions=True)

    assert asyncio.run(answers(3, 60, [b"ab", b"cd", b"", b"e", b"fg", b"h"]))[3:] == [b"e", b"gf", b"h"]
    assert [len(files) for files in batches] == [3, 3]
    assert asyncio.run(answers(9, 0.01, [b"ij", b"k"])) == [b"ji", b"k"]
    assert batches[2:] == [[b"ij", b"k"]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_it_after_open_requests(number: int) -> None:
    with running(number) as (process, port), socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        head = f"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {len(PHOTOS[0])}\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 100")  # it is being answered
        process.send_signal(number)
        connection.sendall(PHOTOS[0])
        answer = b"".join(iter(lambda: connection.recv(100_000), b""))
        process.wait(timeout=300)
    assert answer.endswith(direct(PHOTOS[0]))
