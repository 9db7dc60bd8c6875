"""An HTTP service that prepares images for a model; images of several requests are processed in one call.

pip install starlette uvicorn httptools
python examples/serve.py --port 8000
curl --data-binary @examples/photos/cat.jpg -D - -o cat.float16 http://127.0.0.1:8000/

The body of a POST is one image file. The answer is an array, whose shape and type are in the headers X-Shape and
X-Dtype: numpy.frombuffer(answer, "float16").reshape(3, 224, 224). To send many images, send several requests at a time.
Status 422 with a reason answers files that are truncated or not images, 413 files that are too large, and 503 requests
beyond the number of connections. Ctrl-C ends the service.
"""

import argparse
import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import uvicorn
from PIL import Image
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

import gpuimg

MAX_BYTES = 8_000_000  # of a file
MAX_PIXELS = 50_000_000  # of an image, by its header: a small file may contain a very large image
CONNECTIONS = 128  # whose files together take up to 1 GB

SHAPE = 3, 224, 224
DTYPE: Final = "float16"
prepare = gpuimg.presets.imagenet_eval(224)


class BadImageError(ValueError):
    """The reason why a file could not be decoded."""


def preprocess(files: list[bytes]) -> list[bytes | Exception]:
    """Return each file's values or error. One call decodes all files, and a bad file does not affect the others."""
    x = prepare(gpuimg.open_batch(files, on_error="fill", max_pixels=MAX_PIXELS))
    values = x.array(DTYPE, "NCHW")  # reads, decodes, resizes, crops and normalizes; a model would take these
    return [values[k].tobytes() if status == "ok" else BadImageError(status) for k, status in enumerate(x.status)]


class Batcher:
    """Call a function with the files of up to ``most`` requests, on a thread that leaves the event loop free.

    A batch starts when it is full, or when its first file has waited for ``wait`` seconds. Files that arrive while a
    batch is processed have waited by its end, so that batches grow with the load.
    """

    def __init__(self, function: Callable[[list[bytes]], list[bytes | Exception]], most: int, wait: float) -> None:
        self._function, self._most, self._wait = function, most, wait
        self._uploads: asyncio.Queue[tuple[bytes, float, asyncio.Future[bytes]]] = asyncio.Queue()
        self._task = asyncio.create_task(self._work())

    async def __call__(self, file: bytes) -> bytes:
        """Return the result for one file."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        self._uploads.put_nowait((file, loop.time(), answer))
        return await answer

    def close(self) -> None:
        """End the work; all requests have been answered."""
        self._task.cancel()

    async def _work(self) -> None:
        while True:
            batch = [await self._uploads.get()]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(batch[0][1] + self._wait):
                    while len(batch) < self._most:
                        batch.append(await self._uploads.get())
            results: list[bytes | Exception]
            try:
                results = await asyncio.to_thread(self._function, [file for file, _, _ in batch])
            except Exception as error:  # of the call, not of an image: all its requests get 500, later ones are served
                results = [error] * len(batch)
            for (_, _, answer), result in zip(batch, results, strict=True):
                if answer.done():  # cancelled
                    continue
                if isinstance(result, Exception):
                    answer.set_exception(result)
                else:
                    answer.set_result(result)


async def answer(request: Request) -> Response:
    file = bytearray()
    try:
        async for chunk in request.stream():
            file += chunk
            if len(file) > MAX_BYTES:
                raise HTTPException(413, f"more than {MAX_BYTES:,} bytes")
        values = await request.state.batcher(bytes(file))
    except BadImageError as error:
        raise HTTPException(422, str(error)) from error
    except ClientDisconnect:
        return Response(status_code=400)  # the client is gone
    shape = ",".join(map(str, SHAPE))
    return Response(values, media_type="application/octet-stream", headers={"X-Shape": shape, "X-Dtype": DTYPE})


def main() -> None:
    parser = argparse.ArgumentParser(description="Prepare images for a model, over HTTP.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0: any that is free")
    parser.add_argument("--most", type=int, default=32, help="images of a batch (default: 32)")
    parser.add_argument("--wait", type=float, default=5, help="milliseconds that an image may wait for others (5)")
    options = parser.parse_args()

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
        with contextlib.closing(Batcher(preprocess, options.most, options.wait / 1000)) as batcher:
            first = io.BytesIO()
            Image.new("RGB", (300, 300)).save(first, "JPEG")
            await batcher(first.getvalue())  # compiles the kernels if they are not cached: requests must not wait
            yield {"batcher": batcher}

    application = Starlette(routes=[Route("/", answer, methods=["POST"])], lifespan=lifespan)
    uvicorn.run(
        application, host=options.host, port=options.port, access_log=False, limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=10,
    )  # fmt: skip


if __name__ == "__main__":
    main()
