"""A service that prepares images for a model: files over HTTP in, arrays out, images of many requests in one call.

pip install starlette uvicorn httptools
python examples/serve.py --port 8000
curl --data-binary @examples/photos/cat.jpg -D - -o cat.float16 http://127.0.0.1:8000/

The body of a POST is one image file, the answer the values in the order and type that its headers X-Shape and X-Dtype
tell: numpy.frombuffer(answer, "float16").reshape(3, 224, 224). Many images: many requests at a time. Files that are not
images, or are cut off, are answered by 422 with the reason, files that are too large by 413, and requests beyond what
the service keeps up with by 503. GET /stats tells how many images and batches there were. Ctrl-C ends it.
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
MAX_PIXELS = 50_000_000  # of an image, by its header: a small file may hold a very large one
AT_A_TIME = 256  # requests that are read or wait for their batch: at most this many times MAX_BYTES are held
CONNECTIONS = 1024

SHAPE = 3, 224, 224
DTYPE: Final = "float16"
LAYOUT: Final = "NCHW"
prepare = gpuimg.presets.imagenet_eval(224)


class BadImageError(ValueError):
    """The reason why a file gives no image."""


def preprocess(files: list[bytes]) -> list[bytes | Exception]:
    """The values of each file, or what is wrong with it: one call for all, and a bad file spoils no other's result."""
    x = prepare(gpuimg.open_batch(files, on_error="fill", max_pixels=MAX_PIXELS))
    values = x.array(DTYPE, LAYOUT)  # reads, decodes, resizes, crops and normalizes; a model would take these
    return [values[k].tobytes() if said == "ok" else BadImageError(said) for k, said in enumerate(x.status)]


class Upload(NamedTuple):
    """A file, when it came, and the future that its request waits for."""

    file: bytes
    arrived: float
    answer: asyncio.Future[bytes]


class Batcher:
    """Calls a function with the files of up to ``most`` requests on a thread of its own: the event loop stays free.

    A batch begins when it is full, or when its first file has waited for ``wait`` seconds. What came while the batch
    before was worked on has waited already: under load, batches grow and nobody waits for the clock.
    """

    def __init__(self, function: Callable[[list[bytes]], list[bytes | Exception]], most: int, wait: float) -> None:
        self._function, self._most, self._wait = function, most, wait
        self.images = self.batches = 0
        self._loop = asyncio.get_running_loop()
        self._uploads: queue.SimpleQueue[Upload | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="batcher")
        self._thread.start()

    async def __call__(self, file: bytes) -> bytes:
        """The result for one file."""
        upload = Upload(file, time.monotonic(), self._loop.create_future())
        self._uploads.put(upload)
        return await upload.answer

    def close(self) -> None:
        """End the thread, after what it has got."""
        self._uploads.put(None)
        self._thread.join()

    def _work(self) -> None:
        while batch := self._batch():
            try:
                results = self._function([upload.file for upload in batch])
            except Exception as error:  # not of one image: these requests get 500, the next are served
                results = [error] * len(batch)
            self.images += len(batch)
            self.batches += 1
            self._loop.call_soon_threadsafe(_deliver, batch, results)

    def _batch(self) -> list[Upload]:
        """The next uploads; none at the end."""
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


async def body(request: Request) -> bytes:
    """The file in a request; of one that is too large no more than that is kept."""
    too_large = HTTPException(413, f"more than {MAX_BYTES:,} bytes")
    if int(request.headers.get("content-length", 0)) > MAX_BYTES:
        raise too_large
    file = bytearray()
    async for chunk in request.stream():
        if len(file) + len(chunk) > MAX_BYTES:
            raise too_large
        file += chunk
    return bytes(file)


async def answer(request: Request) -> Response:
    if request.state.places.locked():
        raise HTTPException(503, "too many requests at a time", {"Retry-After": "1"})
    async with request.state.places:
        try:
            values = await request.state.batcher(await body(request))
        except BadImageError as error:
            raise HTTPException(422, str(error)) from error
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
    shape = ",".join(map(str, SHAPE))
    return Response(values, media_type="application/octet-stream", headers={"X-Shape": shape, "X-Dtype": DTYPE})


async def stats(request: Request) -> Response:
    batcher = request.state.batcher
    return JSONResponse({"images": batcher.images, "batches": batcher.batches})


def service(most: int, wait: float) -> Starlette:
    """The application."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
        with contextlib.closing(Batcher(preprocess, most, wait)) as batcher:
            first = io.BytesIO()
            Image.new("RGB", (300, 300)).save(first, "JPEG")
            await batcher(first.getvalue())  # compiles, where nothing did so before: no request shall wait for that
            yield {"batcher": batcher, "places": asyncio.Semaphore(AT_A_TIME)}

    routes = [Route("/", answer, methods=["POST"]), Route("/stats", stats)]
    return Starlette(routes=routes, lifespan=lifespan)


def main() -> None:
    parser = argparse.ArgumentParser(description="Prepare images for a model, over HTTP.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0: any that is free")
    parser.add_argument("--most", type=int, default=32, help="images of a batch (default: 32)")
    parser.add_argument("--wait", type=float, default=5, help="milliseconds that an image may wait for others (5)")
    options = parser.parse_args()
    uvicorn.run(
        service(options.most, options.wait / 1000), host=options.host, port=options.port,
        access_log=False, limit_concurrency=CONNECTIONS, timeout_graceful_shutdown=10,
    )  # fmt: skip


if __name__ == "__main__":
    main()
