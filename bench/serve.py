"""The service of examples/serve.py: latencies at a given rate, and the highest rate.

    python -m bench.serve [--rate 200] [--seconds 8] [--out bench/results/serve.json]

At a rate, requests start at random times, a Poisson process, whether earlier ones are answered or not; a latency counts
from that time to the last byte of the answer, so a stalled service is charged for all requests of that time. For the
highest rate 64 connections send their next request as soon as they have an answer. The client is a separate process
and shares the cores with the service.

The services differ only in the preparation of the images: batches of up to 32 images, which wait at most 5 ms for each
other, or other times; one image a call; and one image at a time by Pillow and NumPy, on two threads.
"""

import argparse
import asyncio
import importlib
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import psutil

from bench import common, photos
from bench.peers.pillow_threads import evaluated

SERVICES = {
    "batches, --wait 5": (), "batches, --wait 0": ("--wait", "0"), "batches, --wait 20": ("--wait", "20"),
    "one image a call": ("--most", "1"), "Pillow and NumPy": ("--pillow",),
}  # fmt: skip
CONNECTIONS = 64


class Pillow:
    """A replacement for the service's Batcher."""

    def __init__(self, *_: Any) -> None:
        self.images = self.batches = 0
        self._pool = ThreadPoolExecutor(2)

    async def __call__(self, file: bytes) -> bytes:
        run = asyncio.get_running_loop().run_in_executor
        return await run(self._pool, lambda: bytes(evaluated(file).astype(np.float16)))

    def close(self) -> None:
        self._pool.shutdown()


def service() -> None:
    """Run the example in this process, with ``--pillow`` without gpuimg."""
    sys.path.insert(0, str(common.ROOT / "examples"))
    module: Any = importlib.import_module("serve")
    if "--pillow" in sys.argv:
        sys.argv.remove("--pillow")
        module.Batcher = Pillow
    module.main()


@contextmanager
def running(*arguments: str) -> Iterator[tuple[int, int]]:
    """Run a service during the block; return its process and port."""
    command = [sys.executable, "-c", "from bench import serve; serve.service()", "--port", "0", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := re.search(r"running on http://127\.0\.0\.1:(\d+)", line):
                    break
            else:
                raise RuntimeError("the service did not start")
            yield process.pid, int(found[1])
        finally:
            process.send_signal(2)  # as Ctrl-C does
            process.communicate()


# -- the client --------------------------------------------------------------------------------------------------------


async def ask(connection: Any, request: bytes) -> None:
    """Send a request on an open connection, and read the answer."""
    reader, writer = connection
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(re.findall(rb"content-length: (\d+)", head)[0]))
    if head[9:12] != b"200":
        raise RuntimeError(f"the answer was {head[:40]!r}")


async def client(port: int, requests: list[bytes], rate: float, seconds: float) -> list[float]:
    """Return the latencies of requests at a rate, or of the highest rate if it is 0."""
    loop, latencies = asyncio.get_running_loop(), list[float]()
    idle: list[Any] = []
    end = loop.time() + seconds

    async def one(due: float) -> None:
        connection = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        await ask(connection, random.choice(requests))
        latencies.append(loop.time() - due)
        idle.append(connection)

    async def forever() -> None:
        while (now := loop.time()) < end:
            await one(now)

    async with asyncio.TaskGroup() as group:
        if not rate:
            for _ in range(CONNECTIONS):
                group.create_task(forever())
        due = loop.time()
        while rate and due < end:
            await asyncio.sleep(max(0.0, due - loop.time()))
            group.create_task(one(due))
            due += random.expovariate(rate)
    return latencies


def loaded(service: tuple[int, int], rate: float, seconds: float, count: int | None) -> dict[str, float]:
    """Run the client in a separate process; return the latencies, the rate and the CPU time of the service."""
    process, port = service
    before, command = cpu(process), [sys.executable, "-m", "bench.serve", "--client", str(port), "--rate", str(rate)]
    command += ["--seconds", str(seconds), *(["--count", str(count)] if count else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    latencies = 1e3 * np.array(json.loads(done.stdout))
    p50, p99 = (round(float(value), 1) for value in np.percentile(latencies, (50, 99)))
    used = 1e3 * (cpu(process) - before) / len(latencies)
    return {"p50_ms": p50, "p99_ms": p99, "requests_s": round(len(latencies) / seconds), "cpu_ms": round(used, 2)}


def cpu(process: int) -> float:
    return float(sum(psutil.Process(process).cpu_times()[:2]))


# -- measurements ------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = common.arguments(__doc__, "serve.json", count=True)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--client", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    files = photos.load_set("S", options.count)
    if options.client is not None:
        head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n"
        requests = [head.format(len(file)).encode() + file for file in files]
        print(json.dumps(asyncio.run(client(options.client, requests, options.rate, options.seconds))))
        return
    found: dict[str, Any] = {}
    for name, arguments in SERVICES.items():
        with running(*arguments) as service:
            loaded(service, 50, min(2.0, options.seconds), options.count)  # warms up
            at_rate = loaded(service, options.rate, options.seconds, options.count)
            time.sleep(1)
            found[name] = {"at_rate": at_rate, "highest": loaded(service, 0, options.seconds, options.count)}
    about = common.environment(photos.summary_of_set("S", files), options.rounds, 32)
    common.write({**about, "rate": options.rate, "services": found}, options.out)


if __name__ == "__main__":
    main()
