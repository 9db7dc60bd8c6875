"""An HTTP service that prepares images for a model; images of several requests are processed in one call.

pip install starlette uvicorn httptools
python examples/serve.py --port 8000
curl --data-binary @examples/photos/cat.jpg -D - -o cat.float16 http://127.0.0.1:8000/

The body of a POST is one image file. The answer is an array, whose shape and type are in the headers X-Shape and
X-Dtype: numpy.frombuffer(answer, "float16").reshape(3, 224, 224). To send many images, send several requests at a time.
Status 422 with a reason answers files that are truncated or not images, 413 files that are too large, 408 bodies that
arrive too slowly, and 503 requests beyond the limits below. GET /stats returns the number of images and batches so far,
and the bytes in memory. Ctrl-C ends the service.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NamedTuple

import uvicorn
from PIL import Image
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import gpuimg

MAX_BYTES = 8_000_000  # of a file
MAX_PIXELS = 50_000_000  # of an image, by its header: a small file may contain a very large image
CONNECTIONS = 1024

SHAPE = 3, 224, 224
DTYPE: Final = "float16"
LAYOUT: Final = "NCHW"
prepare = gpuimg.presets.imagenet_eval(224)


class BadImageError(ValueError):
    """The reason why a file could not be decoded."""


def preprocess(files: list[bytes]) -> list[bytes | Exception]:
    """Return each file's values or error. One call decodes all files, and a bad file does not affect the others."""
    x = prepare(gpuimg.open_batch(files, on_error="fill", max_pixels=MAX_PIXELS))
    values = x.array(DTYPE, LAYOUT)  # reads, decodes, resizes, crops and normalizes; a model would take these
    return [values[k].tobytes() if status == "ok" else BadImageError(status) for k, status in enumerate(x.status)]


class Upload(NamedTuple):
    """A file, its time of arrival, and the future that its request waits for."""

    file: bytes
    arrived: float
    answer: asyncio.Future[bytes]


class Batcher:
    """Call a function with the files of up to ``most`` requests, on a separate thread that leaves the event loop free.

    A batch starts when it is full, or when its first file has waited for ``wait`` seconds. Files that arrive while a
    batch is processed have waited by its end, so that batches grow with the load.
    """

    def __init__(self, function: Callable[[list[bytes]], list[bytes | Exception]], most: int, wait: float) -> None:
        self._function, self._most, self._wait = function, most, wait
        self.images = self.batches = 0
        self._loop = asyncio.get_running_loop()
        self._uploads: queue.SimpleQueue[Upload | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="batcher")
        self._thread.start()

    async def __call__(self, file: bytes) -> bytes:
        """Return the result for one file."""
        upload = Upload(file, time.monotonic(), self._loop.create_future())
        self._uploads.put(upload)
        return await upload.answer

    def close(self) -> None:
        """End the thread after the files that it has received."""
        self._uploads.put(None)
        self._thread.join()

    def _work(self) -> None:
        while batch := self._batch():
            try:
                results = self._function([upload.file for upload in batch])
            except Exception as error:  # of the call, not of an image: all its requests get 500, later ones are served
                results = [error] * len(batch)
            self.images += len(batch)
            self.batches += 1
            self._loop.call_soon_threadsafe(_deliver, batch, results)

    def _batch(self) -> list[Upload]:
        """Return the next uploads; none at the end."""
        batch: list[Upload] = []
        upload = self._uploads.get()
        while upload is not None:
            batch.append(upload)
            if len(batch) == self._most:
                return batch
            try:
                upload = self._uploads.get(timeout=max(0.0, batch[0].arrived + self._wait - time.monotonic()))
            except queue.Empty:
                return batch
        if batch:
            self._uploads.put(None)  # the end, for the next call
        return batch


def _deliver(batch: list[Upload], results: list[bytes | Exception]) -> None:
    for upload, result in zip(batch, results, strict=True):
        if upload.answer.done():  # cancelled
            continue
        if isinstance(result, Exception):
            upload.answer.set_exception(result)
        else:
            upload.answer.set_result(result)


class Limits:
    """Limits of the memory for requests, and of their time."""

    def __init__(self, places: int, held: int, seconds: float) -> None:
        self.places = asyncio.Semaphore(places)  # for requests with a complete body, until they are answered
        self.most = held  # bytes of bodies, of all requests together
        self.seconds = seconds  # from the header of a request to the end of its body
        self.held = 0

    @contextlib.asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """Read the file of a request; its bytes count as held until the end of the block."""
        too_large = HTTPException(413, f"more than {MAX_BYTES:,} bytes")
        if int(request.headers.get("content-length", 0)) > MAX_BYTES:
            raise too_large
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.seconds):
                async for chunk in request.stream():
                    if size + len(chunk) > MAX_BYTES:
                        raise too_large
                    if self.held + len(chunk) > self.most:
                        raise busy("too many bytes at a time")
                    chunks.append(chunk)
                    size += len(chunk)
                    self.held += len(chunk)
            yield b"".join(chunks)
        finally:
            self.held -= size


def busy(reason: str) -> HTTPException:
    return HTTPException(503, reason, {"Retry-After": "1"})


async def answer(request: Request) -> Response:
    limits = request.state.limits
    try:
        async with limits.body(request) as file:
            if limits.places.locked():  # checked after the body, so that slow clients do not block others
                raise busy("too many requests at a time")
            async with limits.places:
                values = await request.state.batcher(file)
    except TimeoutError as error:
        reason = f"the body took more than {limits.seconds:g} seconds"
        raise HTTPException(408, reason, {"Connection": "close"}) from error
    except BadImageError as error:
        raise HTTPException(422, str(error)) from error
    except ClientDisconnect:
        return Response(status_code=400)  # the client is gone
    shape = ",".join(map(str, SHAPE))
    return Response(values, media_type="application/octet-stream", headers={"X-Shape": shape, "X-Dtype": DTYPE})


async def stats(request: Request) -> Response:
    batcher = request.state.batcher
    return JSONResponse({"images": batcher.images, "batches": batcher.batches, "held": request.state.limits.held})


def service(most: int, wait: float, places: int, held: int, seconds: float) -> Starlette:
    """Return the application."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
        with contextlib.closing(Batcher(preprocess, most, wait)) as batcher:
            first = io.BytesIO()
            Image.new("RGB", (300, 300)).save(first, "JPEG")
            await batcher(first.getvalue())  # compiles the kernels if they are not cached: requests must not wait
            yield {"batcher": batcher, "limits": Limits(places, held, seconds)}

    routes = [Route("/", answer, methods=["POST"]), Route("/stats", stats)]
    return Starlette(routes=routes, lifespan=lifespan)


def main() -> None:
    parser = argparse.ArgumentParser(description="Prepare images for a model, over HTTP.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0: any that is free")
    parser.add_argument("--most", type=int, default=32, help="images of a batch (default: 32)")
    parser.add_argument("--wait", type=float, default=5, help="milliseconds that an image may wait for others (5)")
    parser.add_argument("--places", type=int, default=256, help="requests that wait for their batch (256)")
    parser.add_argument("--held", type=int, default=500_000_000, help="bytes of all bodies at a time (500,000,000)")
    parser.add_argument("--seconds", type=float, default=10, help="that the body of a request may take (10)")
    options = parser.parse_args()
    uvicorn.run(
        service(options.most, options.wait / 1000, options.places, options.held, options.seconds),
        host=options.host, port=options.port, access_log=False, limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=10,
    )  # fmt: skip


if __name__ == "__main__":
    main()
