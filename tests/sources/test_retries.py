"""Requests that fail for a while, and those that are slow: time is lost, and no sample."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

import gpuimg as gi
from gpuimg.sources import _retries

from ..data_sets import cpu, valid_indices
from ..libraries import needs
from ..robustness.remote import SAMPLES, options
from .remote_server import Request, Server, requests_since, shards

needs("fsspec", "aiohttp")
pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.mark.parametrize("seconds", [1.0, pytest.param(20.0, marks=pytest.mark.slow)])
def test_a_storm_costs_time_and_no_sample(web: Server, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate of requests falls meanwhile, and the loop counts those that were repeated."""
    monkeypatch.setattr(_retries, "_FIRST_PAUSE", 0.1)
    source = gi.tar(shards(web))
    refused: list[float] = []

    def storm(request: Request) -> Any:
        now = time.monotonic()
        if refused and now > refused[0] + seconds:
            return None
        refused.append(now)
        return 503

    web.fault = storm
    with cpu(source, shuffle=True) as loader:
        assert sorted(valid_indices(loader)) == list(range(64))
        retries = loader.stats()["retries"]
    assert retries["count"] == len(refused)
    assert retries["waited"] > seconds
    assert retries["count"] < 100 + 12 * seconds
    web.fault = lambda request: None
    assert "retries" not in cpu(source).stats()


def test_the_rate_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """It falls to a part of the one that was too high, grows, and is unlimited again."""
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(_retries, "time", clock)
    retries, limit = _retries.Retries(1e9), [10**9]

    def request() -> None:
        now[0] += 0.001
        limit[0] -= 1
        if limit[0] < 0:
            limit[0] = 10**9
            raise SlowDownError

    class SlowDownError(Exception):
        status = 503

    def rate() -> float:
        begin = now[0]
        for _ in range(50):
            retries.run("url", "reading", request)
        return 50 / (now[0] - begin)

    for _ in range(40):
        rate()
    limit[0] = 50
    rates = [rate() for _ in range(400)]
    assert retries.count == 1
    assert 600 < min(rates) < 720
    assert rates[-1] > 950


@pytest.mark.parametrize("protocol", ["http", "s3"])
def test_a_second_request_for_a_straggler(protocol: str, web: Server) -> None:
    """The first answer counts, be it that of the first request; a changed file is still an error."""
    needs("s3fs")
    slow: set[str] = set()

    def straggles(request: Request) -> None:
        if request.range not in slow:  # the second request for these bytes is fast
            slow.add(str(request.range))
            time.sleep(3.0)

    remote = options(web, hedge_seconds=0.2) if protocol == "s3" else gi.Remote(hedge_seconds=0.2)
    source = gi.tar("s3://bucket/0.tar" if protocol == "s3" else f"{web.url}/bucket/0.tar", remote=remote)
    before, begin = len(web.requests), time.monotonic()
    web.fault = straggles
    for k in range(4):
        assert source[k][0] == SAMPLES[3 * k][0]
    assert time.monotonic() - begin < 3.0
    assert len(requests_since(web, before)) == 2 * len(slow)
    web.fault = lambda request: None
    web.objects["/bucket/0.tar"] = web.objects["/bucket/0.tar"][::-1]
    with pytest.raises(OSError, match="changed since it was indexed"):
        source[5]
