"""The service of examples/serve.py under load: latencies at a given rate, and the highest rate that it sustains.

    python -m bench.bench_serve [--rate 200] [--seconds 60] [--out bench/results/serve.json]

Requests start at times drawn in advance, a Poisson process of the given rate, whether earlier ones are answered or not;
a latency counts from that time to the last byte of the answer, so a stalled service is charged for all requests that
start during the stall. The client is a separate process with keep-alive connections and shares the cores with the
service: the result has its CPU time, the number of busy cores in total, and its own largest delay, which is part of
the latencies. A request that is not answered by 200 and all values within 10 seconds is lost.

Three services, which differ only in the preparation of the images:

- batches: up to 32 images in a call of gpuimg, which wait at most 5 ms for each other;
- single: gpuimg with one image a call;
- Pillow: one image at a time by Pillow and NumPy, on a pool of two threads.

Then the latencies of the first for other waits, and milliseconds an image of a call by itself, without a service.
It needs the extra bench, and starlette, uvicorn and httptools.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import gpuimg as gi
from bench import common, photos

SCRIPT = Path(__file__).parents[1] / "examples" / "serve.py"
BYTES = 3 * 224 * 224 * 2
PATIENCE = 10.0
KEPT = 4.0  # seconds for which an idle connection is reused; uvicorn closes it after 5
BOUND_MS = 100.0
SERVICES = {"batches": (), "single": ("--most", "1"), "Pillow": ("--pillow",)}
WAITS_MS = (0, 2, 5, 20)
LOWEST, TRIES = 80.0, 2  # of the ladder of rates


# -- the services ------------------------------------------------------------------------------------------------------


def with_pillow(file: bytes) -> bytes:
    """The service's preset in Pillow and NumPy, one image at a time."""
    with Image.open(io.BytesIO(file)) as image:
        picture = image.convert("RGB")
    short = min(picture.size)
    picture = picture.resize([256 * side // short for side in picture.size], Image.Resampling.BILINEAR)
    left, top = round((picture.width - 224) / 2), round((picture.height - 224) / 2)
    pixels = np.asarray(picture.crop((left, top, left + 224, top + 224)), np.float32)
    mean, std = np.array(gi.IMAGENET_MEAN, np.float32), np.array(gi.IMAGENET_STD, np.float32)
    values = (pixels * np.float32(1 / 255) - mean) / std
    return np.ascontiguousarray(values.transpose(2, 0, 1), np.float16).tobytes()


class Pillow:
    """A replacement for the service's Batcher."""

    def __init__(self, *_: Any) -> None:
        self.images = self.batches = 0
        self._pool = ThreadPoolExecutor(2)

    async def __call__(self, file: bytes) -> bytes:
        """Return the values of one file."""
        values = await asyncio.get_running_loop().run_in_executor(self._pool, with_pillow, file)
        self.images += 1
        self.batches += 1
        return values

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()


def example() -> Any:
    """Import the example as a module."""
    spec = importlib.util.spec_from_file_location("serve", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Service:
    """A service as a process."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.bench_serve", "--serve", "--port", "0", *arguments],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stderr is not None
        said = ""
        for line in self._process.stderr:
            said += line
            if found := re.search(r"running on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                return
        raise RuntimeError(said)

    def resident(self) -> float:
        """Return the MiB of memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return round(int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024, 1)

    def cpu(self) -> float:
        """Return its CPU seconds so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def counts(self) -> tuple[int, int]:
        """Return the number of images and batches so far."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stats") as answer:
            said = json.load(answer)
        return said["images"], said["batches"]

    def close(self) -> None:
        """End the process as Ctrl-C does."""
        self._process.send_signal(2)
        self._process.communicate()


@contextmanager
def running(*arguments: str) -> Iterator[Service]:
    """Run a service during the block."""
    service = Service(*arguments)
    try:
        yield service
    finally:
        service.close()


# -- the client --------------------------------------------------------------------------------------------------------


def all_cpu() -> float:
    """Return the seconds that all cores of the machine were busy so far."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


class Connection:
    """A kept-alive connection with one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.used = 0.0  # time of the last answer

    async def ask(self, request: bytes) -> str:
        """Send a request; return the status of the answer, or its error."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(re.findall(rb"content-length: (\d+)", head)[0])
        await self._reader.readexactly(length)
        status = head[9:12].decode()
        return status if status != "200" or length == BYTES else "another length"

    def abort(self) -> None:
        """Close the connection at once."""
        self._writer.transport.abort()


class Load:
    """Requests at times drawn in advance."""

    def __init__(self, port: int, files: list[bytes]) -> None:
        self._port = port
        head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n"
        self._requests = [head.format(len(file)).encode() + file for file in files]
        self._idle: list[Connection] = []
        self._latencies: list[float] = []
        self._lost = Counter[str]()
        self._late = 0.0

    async def run(self, rate: float, seconds: float) -> dict[str, Any]:
        """Run one measurement."""
        loop = asyncio.get_running_loop()
        due = loop.time() + 0.5
        end = due + seconds
        tasks = set()
        number = 0
        cpu, busy, start = time.process_time(), all_cpu(), loop.time()
        while due < end:
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            task = asyncio.create_task(self._one(self._requests[number % len(self._requests)], due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            number += 1
            due += random.expovariate(rate)
        if tasks:
            await asyncio.wait(tasks)
        for connection in self._idle:
            connection.abort()
        latencies = 1e3 * np.array(self._latencies)
        p50, p90, p99 = np.percentile(latencies, (50, 90, 99)) if len(latencies) else (np.inf,) * 3
        return {
            "requests": number, "lost": self._lost.total(), "lost_by": dict(self._lost),
            "p50_ms": round(float(p50), 1), "p90_ms": round(float(p90), 1), "p99_ms": round(float(p99), 1),
            "max_ms": round(float(latencies.max(initial=0)), 1), "client_late_ms": round(1e3 * self._late, 1),
            "cores_of_the_client": round((time.process_time() - cpu) / seconds, 2),
            "cores_of_all": round((all_cpu() - busy) / (loop.time() - start), 2),
        }  # fmt: skip

    async def _one(self, request: bytes, due: float) -> None:
        loop = asyncio.get_running_loop()
        connection = None
        self._late = max(self._late, loop.time() - due)
        try:
            async with asyncio.timeout(PATIENCE):
                connection = self._kept()
                if connection is None:
                    connection = Connection(*await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20))
                status = await connection.ask(request)
        except (TimeoutError, OSError, EOFError) as error:
            status = type(error).__name__
        if status == "200" and connection is not None:
            connection.used = loop.time()
            self._latencies.append(connection.used - due)
            self._idle.append(connection)
        else:
            self._lost[status] += 1
            if connection is not None:
                connection.abort()

    def _kept(self) -> Connection | None:
        """Return the most recently used connection; none if the server may be about to close it."""
        if self._idle and asyncio.get_running_loop().time() - self._idle[-1].used < KEPT:
            return self._idle.pop()
        return None


# -- measurements ------------------------------------------------------------------------------------------------------


def loaded(service: Service, folder: str, rate: float, seconds: float) -> dict[str, Any]:
    """Run a client in a separate process and return its measurement."""
    images, batches = service.counts()
    memory, cpu = service.resident(), service.cpu()
    client = [sys.executable, "-m", "bench.bench_serve", "--client", str(service.port), "--files", folder]
    done = subprocess.run(
        [*client, "--rate", str(rate), "--seconds", str(seconds)], capture_output=True, text=True, check=True
    )
    after, cpu = service.counts(), service.cpu() - cpu
    said = json.loads(done.stdout)
    result = {
        "rate": rate, "seconds": seconds, **said,
        "images_of_a_batch": round((after[0] - images) / max(1, after[1] - batches), 2),
        "cpu_ms_of_the_service_a_request": round(1e3 * cpu / said["requests"], 2),
        "cores_of_the_service": round(cpu / seconds, 2),
        "mib_before_and_after": [memory, service.resident()],
    }  # fmt: skip
    print(result, file=sys.stderr, flush=True)
    return result


def highest(services: dict[str, Service], folder: str, seconds: float) -> dict[str, Any]:
    """Find the highest rate that each sustains with 99 % of the answers in time and none lost; steps take turns."""
    result: dict[str, dict[str, Any]] = {name: {"bound_ms": BOUND_MS, "rate": 0.0, "steps": []} for name in services}
    climbing = dict.fromkeys(services, True)
    rate = LOWEST
    while any(climbing.values()):
        for name, service in services.items():
            for _ in range(TRIES if climbing[name] else 0):  # a machine that others share may miss some
                step = loaded(service, folder, rate, seconds)
                result[name]["steps"].append(step)
                climbing[name] = step["lost"] == 0 and step["p99_ms"] <= BOUND_MS
                if climbing[name]:
                    result[name]["rate"] = rate
                    break
                time.sleep(1)
        rate = round(1.3 * rate)
    return result


def calls(files: list[bytes], rounds: int) -> dict[str, Any]:
    """Measure milliseconds per image of calls without a service, by wall clock and CPU time."""
    preprocess = example().preprocess

    def in_calls_of(count: int) -> None:
        for k in range(0, len(files), count):
            preprocess(files[k : k + count])

    def by_pillow() -> None:
        for file in files:
            with_pillow(file)

    names = {f"gpuimg, {count} a call": partial(in_calls_of, count) for count in (1, 2, 4, 8, 32)}
    wall, cpu = common.interleaved({"Pillow": by_pillow, **names}, rounds)
    return {
        name: {
            "ms_an_image": round(1e3 * float(np.median(wall[name])) / len(files), 2),
            "cpu_ms_an_image": round(1e3 * float(np.median(cpu[name])) / len(files), 2),
            "pillow_over_this": common.ratio(wall["Pillow"], wall[name]),
        }
        for name in wall
    }  # fmt: skip


def check(files: list[bytes]) -> float:
    """Return the mean difference between Pillow's values and ours, in levels."""
    ours = np.frombuffer(b"".join(example().preprocess(files)), np.float16).astype(np.float32)
    theirs = np.frombuffer(b"".join(map(with_pillow, files)), np.float16).astype(np.float32)
    return round(float(np.abs(ours - theirs).mean() * 255 * np.mean(gi.IMAGENET_STD)), 3)


def measured(folder: str, rate: float, seconds: float) -> dict[str, Any]:
    """Run all measurements of services."""
    with ExitStack() as stack:
        services = {name: stack.enter_context(running(*arguments)) for name, arguments in SERVICES.items()}
        for service in services.values():
            loaded(service, folder, 50.0, 3.0)  # warms up
        stated = {
            name: loaded(service, folder, rate, seconds if name == "batches" else min(20.0, seconds))
            for name, service in services.items()
        }
        rates = highest(services, folder, min(5.0, seconds))
    with ExitStack() as stack:
        of_waits = {f"{ms} ms": stack.enter_context(running("--wait", str(ms))) for ms in WAITS_MS}
        waits: dict[str, list[dict[str, Any]]] = {name: [] for name in of_waits}
        for service in of_waits.values():
            loaded(service, folder, 50.0, 3.0)
        for each in (rate / 8, rate):
            for name, service in of_waits.items():
                waits[name].append(loaded(service, folder, each, min(8.0, seconds)))
    return {"stated": stated, "highest": rates, "waits": waits}


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "serve.json")
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--count", type=int, default=256, help="photos")
    for name in ("--serve", "--pillow"):
        parser.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--client", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--files", type=Path, help=argparse.SUPPRESS)
    options, others = parser.parse_known_args()
    if options.serve:
        module = example()
        if options.pillow:
            module.Batcher = Pillow
        sys.argv[1:] = others
        module.main()
    elif options.client is not None:
        files = [path.read_bytes() for path in sorted(options.files.iterdir())]
        print(json.dumps(asyncio.run(Load(options.client, files).run(options.rate, options.seconds))))
    else:
        files = photos.load(options.count)
        with tempfile.TemporaryDirectory() as folder:
            for k, file in enumerate(files):
                (Path(folder) / f"{k:04}.jpg").write_bytes(file)
            libraries = {name: version(name) for name in ("starlette", "uvicorn", "httptools", "pillow")}
            environment = common.environment(photos.summary(files), options.rounds, 32)
            environment["versions"] |= libraries
            environment["machine"]["nice"] = os.nice(0)
            difference = check(files[:32])
            of_calls = calls(files, options.rounds)
            services = measured(folder, options.rate, options.seconds)
        common.write(
            {**environment, "mean_difference_in_levels": difference, "calls": of_calls, **services}, options.out
        )


if __name__ == "__main__":
    main()
