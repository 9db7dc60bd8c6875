"""Data sets on a server that fails: no sample is lost, repeated or wrong.

Loaders read a tar, TFRecord and folder source over HTTP and the tar from moto's S3 server, in order and
shuffled, with and without a cache, on one rank and on two, left and resumed in the middle. One of four requests is
answered by an error, by half of its body, or not at all, up to ``MOST`` times in a row. Every epoch must give each
sample once, with the pixels of the local file.
"""

import collections
import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import gpuimg as gi
from gpuimg.sources import _retries

from ..data_sets import FILES, cpu, pixels_of
from ..sources.remote_server import Fault, Request, Server, serving
from ..sources.writers import archive, framed

MOST = 5  # faults of one request in a row; sources try 8 times
FAULTS: tuple[Fault, ...] = (500, 502, 503, 504, 429, 408, "drop", "cut", "short")
SAMPLES = [(data, k) for k, data in enumerate(FILES)]
KINDS = "tar", "tfrecord", "folder", "tar on S3", "folder on S3"
KEYS = {"key": "testing", "secret": "testing"}


class Chance:
    """Faults by chance; what stays the same is how many there may be of one request."""

    def __init__(self, seed: int, share: float = 0.25) -> None:
        self.random, self.share = random.Random(seed), share
        self.row: collections.Counter[tuple[str, str, str | None]] = collections.Counter()
        self.injected: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Fault:
        key = request.method, request.path, request.range
        with self._lock:
            fault = self.random.choice(FAULTS) if self.random.random() < self.share else None
            if request.range is None and fault == "short":  # half a size is believed
                fault = "drop"
            if fault is None or self.row[key] >= MOST:
                self.row[key] = 0
                return None
            self.row[key] += 1
            self.injected[str(fault)] += 1
            return fault


@contextmanager
def s3(objects: dict[str, bytes]) -> Iterator[Server]:
    """Moto's S3 server with objects, proxied by a server that can fail."""
    import boto3
    from moto.server import ThreadedMotoServer

    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    try:
        upstream = "http://{}:{}".format(*moto.get_host_and_port())
        client = boto3.client(
            "s3", endpoint_url=upstream, region_name="us-east-1", aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )  # fmt: skip
        client.create_bucket(Bucket="bucket")
        for name, data in objects.items():
            client.put_object(Bucket="bucket", Key=name, Body=data)
        client.close()
        with serving(upstream=upstream) as server:
            yield server
    finally:
        moto.stop()


def options(server: Server, **others: Any) -> gi.Remote:
    return gi.Remote(storage_options={**KEYS, "endpoint_url": server.url}, **others)


def data_set() -> dict[str, bytes]:
    shards = {f"{k}.tar": archive(SAMPLES[k::3]) for k in range(3)}
    files = {f"train/{label % 4}/{label:05d}.jpg": data for data, label in SAMPLES}
    return shards | files | {"records": framed(*FILES)}


def _digests(loader: Any) -> list[str]:
    return list(pixels_of(loader).values())


def _loader(source: Any, **options: Any) -> gi.Loader:
    return cpu(source, lambda x: gi.resize(x, (24, 24)), seed=1, **options)


def _epoch(source: Any, draw: random.Random) -> list[str]:
    chosen: dict[str, Any] = {"shuffle": draw.random() < 0.7, "batch_size": draw.choice((5, 8, 16))}
    way = draw.choice(("whole", "ranks", "resumed"))
    if way == "ranks":
        return [digest for rank in range(2) for digest in _digests(_loader(source, shard=(rank, 2), **chosen))]
    first = _loader(source, **chosen)
    if way == "whole":
        return _digests(first)
    with first:
        before = _digests([next(first) for _ in range(draw.randint(1, 3))])
    rest = _loader(source, **{**chosen, "batch_size": 7})
    rest.load_state_dict(first.state_dict())
    return before + _digests(rest)


def check(folder: Path) -> Callable[[int], dict[str, int]]:
    _retries._FIRST_PAUSE = 0.005
    objects = data_set()
    with ExitStack() as opened:  # what fails to open must not leave threads of the other
        web = opened.enter_context(serving({f"/bucket/{name}": data for name, data in objects.items()}))
        store, stack = opened.enter_context(s3(objects)), opened.pop_all()
    expected = sorted(_digests(_loader(SAMPLES)))

    def checked(number: int, stack: ExitStack = stack) -> dict[str, int]:  # which keeps the servers
        draw, web.fault = random.Random(number), Chance(number)
        store.fault = web.fault
        kind, count = KINDS[number % len(KINDS)], 0
        source = _source(kind, web, store, f"{folder}/{number}" if draw.random() < 0.3 else None)
        for _ in range(2):
            found = _epoch(source, draw)
            count += len(found)
            assert sorted(found) == expected, "samples are lost, repeated or wrong"
        return {"samples": count, "faults": sum(web.fault.injected.values())}

    return checked


def _source(kind: str, web: Server, store: Server, cache: str | None) -> Any:
    name = kind.split()[0]
    if kind.endswith("S3"):
        remote, base = options(store, cache=cache), "s3://bucket"
    else:
        remote, base = gi.Remote(cache=cache), f"{web.url}/bucket"
    if name == "tar":
        return gi.tar(f"{base}/{{0..2}}.tar", remote=remote)
    if name == "tfrecord":
        return gi.tfrecord(f"{base}/records", image=None, remote=remote)
    return gi.folder(f"{base}/train", remote=remote)
