"""Small JPEGs and sources for the loader's tests."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi

from .samples import file_of


def jpeg(k: int, size: tuple[int, int] = (20, 28)) -> bytes:
    """A small photo-like file whose pixels tell it from the others."""
    rng = np.random.default_rng(k)
    coarse = Image.fromarray(rng.integers(0, 256, (4, 5, 3), np.uint8))
    return file_of(coarse.resize((size[1], size[0]), Image.Resampling.BICUBIC), quality=80)


FILES = [jpeg(k) for k in range(64)]
CORRUPT = b"\xff\xd8" + FILES[0][20:80]


class Source:
    """``n`` samples labelled by their index; some cannot be read, some cannot be decoded."""

    def __init__(self, n: int, unreadable: Any = (), corrupt: Any = ()) -> None:
        self.n = n
        self.unreadable = frozenset(unreadable)
        self.corrupt = frozenset(corrupt)
        self.reads = Counter[int]()

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[bytes, int]:
        self.reads[i] += 1
        if i in self.unreadable:
            raise OSError(5, "disk error")
        return (CORRUPT if i in self.corrupt else FILES[i % len(FILES)]), i

    @property
    def bad(self) -> frozenset[int]:
        return self.unreadable | self.corrupt


class Altered(Source):
    def __init__(self, n: int, change: Callable[[bytes, int], Any], unreadable: Any = ()) -> None:
        super().__init__(n, unreadable)
        self.change = change

    def __getitem__(self, i: int) -> Any:
        return self.change(*super().__getitem__(i))


train = gi.presets.imagenet_train(8)


def pixels_of(loader: Any) -> dict[int, str]:
    """A digest of the pixels of each valid sample."""
    return {
        int(i): hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest()
        for batch in loader
        for i, image, valid in zip(batch.indices, batch.images, batch.valid, strict=True)
        if valid
    }


def valid_indices(loader: Any) -> list[int]:
    return [int(i) for batch in loader for i in batch.indices[batch.valid]]


def cpu(source: Any, preprocess: Callable[..., Any] | None = train, **options: Any) -> gi.Loader:
    size = {} if "batches" in options else {"batch_size": 8}
    return gi.load(source, preprocess, **{"device": "cpu", **size, **options})


def assert_states_differ(makes: list[Callable[[], gi.Loader]], message: str) -> list[Any]:
    """A state that a loop leaves is taken by a loader of the same making, and by no other; return the states."""
    states = []
    for make in makes:
        with make() as loader:
            next(loader)
            states.append(loader.state_dict())
    for k, make in enumerate(makes):
        for j, state in enumerate(states):
            with nullcontext() if j == k else pytest.raises(ValueError, match=message):
                make().load_state_dict(state)
    return states


def resumed(make: Callable[..., gi.Loader], read: Callable[[Any], list[Any]]) -> list[Any]:
    """What a loop of two epochs gives that is left and resumed again and again, each time on other ranks.

    The loaders that resume have other seeds, in place of which that of the state counts.
    """
    draws, found, changes = np.random.default_rng(), list[Any](), 0
    state: Any = None
    while state is None or state["epoch"] < 2:
        world, count, size = (1, 1, 1) if state is None else draws.integers(1, 4, 3).tolist()
        seed = {} if state is None else {"seed": int(draws.integers(1, 99))}
        ranks = [make(epochs=2, shard=(rank, world), batch_size=size, **seed) for rank in range(world)]
        for rank in ranks:
            if state is not None:
                rank.load_state_dict(state)
            found += read(islice(rank, count))
            rank.close()
        state, changes = json.loads(json.dumps(ranks[-1].state_dict())), changes + 1
    assert changes > 1
    return found
