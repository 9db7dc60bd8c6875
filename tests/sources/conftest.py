"""A server of remote files, and retries that do not wait."""

from collections.abc import Iterator

import pytest

from gpuimg.sources import _retries

from ..robustness.remote import data_set
from ..watchdog import no_hang
from .remote_server import Server, serving


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_retries, "_FIRST_PAUSE", 0.002)
    with no_hang(240.0):
        yield


@pytest.fixture
def web() -> Iterator[Server]:
    with serving({f"/bucket/{name}": data for name, data in data_set().items()}) as server:
        yield server
