"""Sources without a length: the batches of a list of the same samples."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._loading.sharding import Share
from gpuimg._loading.streams import shuffled_within

from ..data_sets import CORRUPT, FILES, cpu, pixels_of, resumed, valid_indices
from ..samples import write_files

pytestmark = pytest.mark.usefixtures("watched")


def pairs(n: int) -> list[tuple[bytes, int]]:
    return [(FILES[k % len(FILES)], k) for k in range(n)]


def stream(n: int, **options: Any) -> Any:
    return gi.iterable(lambda: iter(pairs(n)), **options)


def seen(loader: Any) -> list[tuple[list[int], list[int], list[bool]]]:
    """Indices, labels and validity of each batch."""
    return [(b.indices.tolist(), b.labels.tolist(), b.valid.tolist()) for b in loader]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("world", [1, 3])
@pytest.mark.parametrize(("n", "batch"), [(1, 4), (7, 1), (16, 4), (23, 5)])
def test_a_stream_is_a_list(n: int, batch: int, world: int, drop_last: bool) -> None:
    options: dict[str, Any] = {"batch_size": batch, "drop_last": drop_last, "epochs": 2}
    for rank in range(world):
        share = Share(n, (), rank, world)  # of a stream, ranks take one sample at a time
        places, valid = share.places(0, share.count(batch, drop_last))
        rows = [(places[k : k + batch].tolist(), valid[k : k + batch].tolist()) for k in range(0, len(places), batch)]
        expected = [(ids, ids, real) for ids, real in rows] * 2
        assert world > 1 or not expected or seen(cpu(pairs(n), **options)) == expected
        loader = cpu(stream(n), shard=(rank, world), **options)
        if expected:
            assert seen(loader) == expected
            assert loader.epoch == 2
        else:
            with pytest.raises(ValueError, match=f"drop_last leaves no full batch of {n} sample"):
                seen(loader)


def test_pixels_are_those_of_a_list(tmp_path: Path) -> None:
    write_files(tmp_path, {f"{k}.jpg": FILES[k] for k in range(20)})
    rows = gi.iterable(lambda: ({"image": tmp_path / f"{k}.jpg", "label": k} for k in range(20)))
    expected = pixels_of(cpu(pairs(20)))
    for loader in (cpu(stream(20)), cpu(stream(20), shuffle=True), cpu(gi.iterable(pairs(20))), cpu(rows)):
        assert pixels_of(loader) == expected


@pytest.mark.parametrize("shuffle", [False, True])
def test_resume_again_and_again_has_each_sample_once(shuffle: bool) -> None:
    found = resumed(partial(cpu, stream(50, buffer=8), shuffle=shuffle), valid_indices)
    assert Counter(found) == dict.fromkeys(range(50), 2)


def test_resume_continues_a_shuffled_stream() -> None:
    whole = valid_indices(cpu(stream(50, buffer=8), shuffle=True, epochs=2))
    loader = cpu(stream(50, buffer=8), shuffle=True, epochs=2)
    with loader:
        before = valid_indices([next(loader) for _ in range(9)])
    other = cpu(stream(50, buffer=8), shuffle=True, epochs=2)
    other.load_state_dict(loader.state_dict())
    assert before + valid_indices(other) == whole
    with pytest.raises(ValueError, match="buffer=8, but this loader has 9"):
        cpu(stream(50, buffer=9), shuffle=True).load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match="samples=None, but this loader has 50"):
        cpu(pairs(50), shuffle=True).load_state_dict(loader.state_dict())


def test_loops_left_at_the_last_batch() -> None:
    loader = cpu(stream(16), epochs=1)
    for epoch in range(3):
        assert loader.epoch == epoch
        for batch in loader:
            if 15 in batch.indices:
                break
        assert loader.epoch == epoch + 1


def test_shuffling() -> None:
    orders = [[item for _, item in shuffled_within(iter(range(500)), 50, 3, epoch)] for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == list(range(500))
    assert all(place <= at + 49 for at, place in enumerate(orders[0]))  # none comes before it is in the buffer
    assert [place for place, _ in shuffled_within(iter("abc"), 1, 0, 0)] == [0, 1, 2]
    # Each of four is the first one a quarter of the time: within 5 standard deviations of 4,000 draws.
    firsts = np.bincount([next(shuffled_within(iter(range(4)), 4, seed, 0))[0] for seed in range(4000)], minlength=4)
    assert np.all(abs(firsts - 1000) < 5 * np.sqrt(4000 * 0.25 * 0.75))


def test_a_stream_for_each_rank() -> None:
    def own(rank: int, world: int) -> Iterator[tuple[bytes, int]]:
        return ((FILES[k], k) for k in range(rank, 40, world))

    source = gi.iterable(own, sharded=True)
    assert repr(gi.iterable([], buffer=2000)) == "<gpuimg.iterable list: shuffled 2,000 at a time>"
    loaders = [cpu(source, shard=(rank, 2), batch_size=4) for rank in range(2)]
    for rank, loader in enumerate(loaders):
        batches = list(loader)
        assert [b.indices.tolist() for b in batches] == [b.labels.tolist() for b in batches]
        assert [k for b in batches for k in b.labels.tolist()] == list(range(rank, 40, 2))
    with pytest.raises(ValueError, match="the state is of 2 ranks with a stream each, but this loader's are 3"):
        cpu(source, shard=(0, 3), batch_size=4).load_state_dict(loaders[0].state_dict())


def test_failures() -> None:
    bad = [(CORRUPT if k == 5 else FILES[k], k) for k in range(12)]
    with pytest.raises(gi.DecodeError, match=r"image 5 \(sample 5 of the stream\)"):
        list(cpu(gi.iterable(bad)))
    with pytest.warns(RuntimeWarning, match="1 sample could not be decoded"):
        assert valid_indices(cpu(gi.iterable(bad), on_error="fill")) == [k for k in range(12) if k != 5]

    def breaks() -> Iterator[tuple[bytes, int]]:
        yield from pairs(20)
        raise OSError("the line is dead")

    with pytest.raises(OSError, match="the line is dead"):
        list(cpu(gi.iterable(breaks)))


@pytest.mark.parametrize(("error", "match", "make"), [
    (TypeError, "is exhausted after one epoch", lambda: gi.iterable(iter([]))),
    (TypeError, "must be a function or an iterable, not int", lambda: gi.iterable(5)),  # type: ignore[arg-type]
    (TypeError, "needs a function that takes", lambda: gi.iterable([], sharded=True)),
    (ValueError, "buffer", lambda: gi.iterable([], buffer=0)),
    (ValueError, 'use "fill"', lambda: cpu(stream(5), on_error="skip")),
    (ValueError, "max_failures must be a whole number", lambda: cpu(stream(5), max_failures=0.5)),
    *((ValueError, "need a source with a length", lambda choice=choice: cpu(stream(5), **choice))
      for choice in ({"indices": [0]}, {"weights": np.ones(2)}, {"repeats": 2})),
    (TypeError, "has no length", lambda: len(cpu(stream(5)))),
    (TypeError, "gpuimg.iterable makes a source", lambda: cpu(iter([]))),
    (ValueError, "it yielded no samples", lambda: list(cpu(stream(0), epochs=None))),
    (TypeError, "must return an iterator, not int", lambda: list(cpu(gi.iterable(lambda: 5)))),  # type: ignore[arg-type,return-value]
])  # fmt: skip
def test_what_is_refused(error: type[Exception], match: str, make: Any) -> None:
    with pytest.raises(error, match=match):
        make()
