"""An HTTP server on the loopback that answers byte ranges, as fast, as late and as badly as a test asks for.

It also answers as much of S3 as reading takes: ``http://127.0.0.1:PORT/bucket/key``. In front of another server (moto's
S3) it hands requests on. As a separate process:

    python -m tests.sources.remote_server FOLDER [--delay 0.02]
"""

import argparse
import hashlib
import html
import http.client
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit


class Request(NamedTuple):
    number: int  # of all requests, from 0
    method: str
    path: str
    range: str | None


#: What becomes of a request: None is a proper answer; a number a status such as 503; "drop" closes the connection,
#: "cut" does so in the middle of the body, "short" says and sends half of it; "unsaid" sends a body without its length,
#: and "unsaid cut" half of one; "other" sends other bytes.
Fault = int | str | None


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Server(ThreadingHTTPServer):
    """Objects by their paths, ``"/bucket/key"``; ``fault`` and ``delay`` may be changed at any time."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, objects: Mapping[str, bytes] | None = None, upstream: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects = dict(objects or {})
        self.upstream = None if upstream is None else urlsplit(upstream).netloc
        self.fault: Callable[[Request], Fault] = lambda request: None
        self.delay = 0.0
        self.ranges: bool | None = True  # False: send whole files, ignore Range headers and say so; None: say nothing
        self.requests: list[Request] = []
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def record(self, method: str, path: str, wanted: str | None) -> Request:
        with self._lock:
            request = Request(len(self.requests), method, path, wanted)
            self.requests.append(request)
        return request

    def answer(self, request: Request, headers: Mapping[str, str], body: bytes) -> Answer:
        if self.upstream is not None:
            return _handed_on(self.upstream, request, headers, body)
        path = unquote(urlsplit(request.path).path)
        data = self.objects.get(path)
        if data is None:
            return self._listing(path)
        tag = _tag(data)
        common = {"ETag": tag} | ({} if self.ranges is None else {"Accept-Ranges": "bytes" if self.ranges else "none"})
        if headers.get("If-Match", tag) != tag:
            return Answer(412, {}, b"")
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", request.range or "") if self.ranges else None
        if match is None:
            return Answer(200, common, data)
        first, last = int(match[1]), min(int(match[2] or len(data)), len(data) - 1)
        if first > last:
            return Answer(416, {"Content-Range": f"bytes */{len(data)}"}, b"")
        return Answer(206, {**common, "Content-Range": f"bytes {first}-{last}/{len(data)}"}, data[first : last + 1])

    def _listing(self, path: str) -> Answer:
        """A page with links, as servers give for folders."""
        start = path.rstrip("/") + "/"
        names = {name[len(start) :].partition("/") for name in self.objects if name.startswith(start)}
        links = "".join(f'<a href="{html.escape(name + slash)}">x</a>' for name, slash, _ in sorted(names))
        return Answer(200 if names else 404, {"Content-Type": "text/html"}, links.encode())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go are no news."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True  # as other servers: an answer's end would wait 40 ms for the client's delayed ACK
    server: Server

    def do_GET(self) -> None:
        server = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = server.record(self.command, self.path, self.headers.get("Range"))
        if server.delay:
            time.sleep(server.delay)
        fault = server.fault(request)
        if fault == "drop":
            self.close_connection = True
            return
        if isinstance(fault, int):
            self._send(Answer(fault, {}, b"<Error><Code>InternalError</Code></Error>"))
            return
        self._send(server.answer(request, self.headers, body), fault)  # type: ignore[arg-type]

    def handle_expect_100(self) -> bool:
        """A buffer that is sent only when flushed."""
        result = super().handle_expect_100()
        self.wfile.flush()
        return result

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def _send(self, answer: Answer, fault: str | None = None) -> None:
        body = answer.body[: len(answer.body) // 2] if fault in ("cut", "short", "unsaid cut") else answer.body
        body = bytes(255 - byte for byte in body) if fault == "other" else body
        length = len(body) if fault == "short" else len(answer.body)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if fault in ("unsaid", "unsaid cut"):
            self.send_header("Connection", "close")
            self.close_connection = True
        elif "Content-Length" not in answer.headers:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()
        if fault == "cut":
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


@lru_cache(1024)  # bytes keep their hash, and large ones are compared by identity first
def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


def _handed_on(netloc: str, request: Request, headers: Mapping[str, str], body: bytes) -> Answer:
    connection = http.client.HTTPConnection(netloc, timeout=30)
    try:
        connection.request(request.method, request.path, body or None, {**dict(headers), "Connection": "close"})
        response = connection.getresponse()
        data = response.read()
    finally:
        connection.close()
    skipped = {"connection", "transfer-encoding", "server", "date"}
    skipped |= {"content-length"} if request.method != "HEAD" else set()
    kept = {name: value for name, value in response.getheaders() if name.lower() not in skipped}
    return Answer(response.status, kept, data)


@contextmanager
def serving(objects: Mapping[str, bytes] | None = None, upstream: str | None = None) -> Iterator[Server]:
    server = Server(objects, upstream)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name="test-server")
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def shards(server: Server) -> str:
    return f"{server.url}/bucket/{{0..2}}.tar"


def requests_since(server: Server, since: int = 0) -> list[Request]:
    return [request for request in server.requests[since:] if request.method == "GET"]


def main() -> None:
    """Serve the files of a folder as ``/bucket/NAME`` until the standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--delay", type=float, default=0.0)
    options = parser.parse_args()
    objects = {f"/bucket/{path.name}": path.read_bytes() for path in options.folder.iterdir()}
    with serving(objects) as server:
        server.delay = options.delay
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
