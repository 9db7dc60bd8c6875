"""Batches by the sizes of images: target sizes, token budgets, their order, and the sizes kept in a file."""

import pickle
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image, ImageOps

import gpuimg as gi
from gpuimg._loading.buckets import batches_of
from gpuimg._loading.order import BatchOrder, order_of
from tests.data_sets import Source, cpu, jpeg, resumed, valid_indices
from tests.samples import PHOTOS, file_of, with_orientation, write_files

pytestmark = pytest.mark.usefixtures("watched")

SIZES = [(20, 28), (28, 20), (24, 24), (20, 40), (21, 30), (33, 16), (25, 24)]
ALLOWED = [(16, 32), (32, 16), (24, 24)]


class Various(Source):
    """Files of several sizes, labeled by their index."""

    def __getitem__(self, i: int) -> tuple[bytes, int]:
        data, label = super().__getitem__(i)
        return (data if i in self.corrupt else jpeg(i, SIZES[i * i % 7])), label

    def describe(self, i: int) -> str:
        return f"{i}.jpg"


def resized(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    """Pixels that tell the sample, its draws and the target."""
    return gi.adjust_brightness(gi.resize(x, x.target_sizes), rng.uniform(0.2, 0.9))


RULES: list[Any] = [gi.Buckets(3, ALLOWED), gi.TokenBudget(100, 4, lambda sizes: sizes // 4 * 4)]


def planned(rule: Any, sizes: Any, **options: Any) -> BatchOrder:
    """The order of batches of images of these sizes."""
    given_ = {"shuffle": True, "indices": None, "weights": None, "repeats": 1, **options}
    drop_last = given_.pop("drop_last", False)
    n = len(sizes)
    with_sizes = type(rule)(**{**vars(rule), "sizes": sizes})
    return batches_of(with_sizes, range(n), order_of(n, **given_), "image", drop_last)


def batches(order: BatchOrder, seed: int = 0, epoch: int = 0) -> list[tuple[int, ...]]:
    """Samples of the batches of an epoch."""
    return [tuple(order.at(place, seed, epoch).indices.tolist()) for place in range(order.choices)]


# -- the order ---------------------------------------------------------------------------------------------------------

sizes_of = arrays.arrays(np.int64, st.tuples(st.integers(1, 200), st.just(2)), elements=st.integers(0, 300))


def nearest(size: Any, allowed: Any) -> list[int]:
    """The allowed size with the nearest aspect ratio, one image at a time."""
    height, width = np.maximum(size, 1).tolist()
    distances = [round(abs(np.log(width / height) - np.log(w / h)), 9) for h, w in allowed]
    return list(allowed[int(np.argmin(distances))])


@given(sizes=sizes_of, images=st.integers(1, 9), shuffle=st.booleans(), seed=st.integers(0, 2**64 - 1))
def test_batches_have_one_target_size_and_each_sample_once(sizes: Any, images: int, shuffle: bool, seed: int) -> None:
    order = planned(gi.Buckets(images, ALLOWED), sizes, shuffle=shuffle)
    found = [order.at(place, seed, 3) for place in range(order.choices)]
    assert sorted(i for batch in found for i in batch.indices) == list(range(len(sizes)))
    full: Counter[tuple[int, int]] = Counter()
    for batch in found:
        (target,) = {tuple(one) for one in batch.targets.tolist()}
        assert [list(target)] * len(batch.indices) == [nearest(sizes[i], ALLOWED) for i in batch.indices]
        assert len(batch.indices) <= images
        full[target] += len(batch.indices) < images
    assert max(full.values()) <= 1  # one smaller batch of each size
    assert order.lengths(np.arange(order.choices), seed, 3).tolist() == [len(batch.indices) for batch in found]


@given(sizes=sizes_of, budget=st.integers(75 * 75, 30_000), seed=st.integers(0, 100))
def test_budgets_hold_with_little_padding(sizes: Any, budget: int, seed: int) -> None:
    order = planned(gi.TokenBudget(budget, 4, lambda sizes: -(-sizes // 4) * 4), sizes)
    found = [order.at(place, seed, 0) for place in range(order.choices)]
    assert sorted(i for batch in found for i in batch.indices) == list(range(len(sizes)))
    for batch in found:
        counts = batch.targets.prod(1) // 16
        np.testing.assert_array_equal(batch.targets, -(-np.maximum(sizes[batch.indices], 1) // 4) * 4)
        assert len(counts) * counts.max() <= budget
        assert counts.min() > 0.95 * counts.max()


@pytest.mark.parametrize("rule", RULES)
def test_epochs_differ_but_not_in_their_number_of_batches(rule: Any) -> None:
    sizes = np.array(SIZES * 9)
    order = planned(rule, sizes)
    epochs = [batches(order, epoch=epoch) for epoch in range(5)] + [batches(order, seed=1)]
    assert len({frozenset(map(frozenset, epoch)) for epoch in epochs}) == 6
    assert {len(epoch) for epoch in epochs} == {order.choices}
    targets = {tuple(tuple(order.at(k, 0, epoch).targets[0]) for k in range(order.choices)) for epoch in range(5)}
    assert len(targets) == 5  # batches of the sizes come mixed
    twice = planned(rule, np.repeat([(16, 32), (32, 16)], 30, 0))  # two groups are shuffled independently
    halves = [{frozenset(i % 30 for i in one) for one in batches(twice) if one[0] // 30 == half} for half in (0, 1)]
    assert halves[0] != halves[1]
    fixed = planned(rule, sizes, shuffle=False)
    assert batches(fixed) == batches(fixed, epoch=4)
    firsts = [batch[0] for batch in batches(fixed)]
    assert firsts == sorted(firsts)
    assert all(list(batch) == sorted(batch) for batch in batches(fixed))


@pytest.mark.parametrize("rule", RULES)
def test_dropped_batches_are_the_smaller_ones(rule: Any) -> None:
    sizes = np.array(SIZES * 9 + SIZES[:2])
    whole, dropped = planned(rule, sizes), planned(rule, sizes, drop_last=True)
    assert dropped.choices < whole.choices
    left_out = [frozenset(range(65)) - {i for one in batches(dropped, epoch=epoch) for i in one} for epoch in range(5)]
    assert len(set(left_out)) > 1
    full = whole.lengths(np.arange(whole.choices), 0, 0)
    copied = planned(rule, np.array(SIZES), indices=[3, 0, 3, 3])
    found = [copied.at(place, 0, 0) for place in range(copied.choices)]
    pairs = [(int(i), int(k)) for one in found for i, k in zip(one.indices, one.copies, strict=True)]
    assert sorted(pairs) == [(0, 0), (3, 0), (3, 1), (3, 2)]
    assert sorted(dropped.lengths(np.arange(dropped.choices), 0, 0)) == sorted(full)[whole.choices - dropped.choices :]


def test_a_million_sizes_take_50_mb() -> None:
    rng, n = np.random.default_rng(0), 1_000_000  # sizes as of photos on the web
    area, aspect = np.exp(rng.normal(np.log(480_000), 0.7, n)), np.exp(rng.normal(0.1, 0.35, n))
    sizes = np.clip(np.stack([np.sqrt(area / aspect), np.sqrt(area * aspect)], 1).astype(np.int64), 32, 8000)
    rule = gi.TokenBudget(16384, 16)
    planned(rule, sizes[:10]).at(0, 0, 0)  # imports and compiles
    tracemalloc.start()
    order = planned(rule, sizes)
    for place in range(0, order.choices, order.choices // 10):
        order.at(place, 0, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6


# -- loads -------------------------------------------------------------------------------------------------------------


def drawn(loop: Any) -> list[tuple[tuple[int, ...], bytes]]:
    """Indices and pixels of each batch, with valid samples only."""
    return [(tuple(b.indices.tolist()), np.ascontiguousarray(b.images).tobytes()) for b in loop if b.valid.all()]


@pytest.mark.parametrize("drop_last", [False, True])
def test_ranks_together_have_the_batches_of_one(drop_last: bool) -> None:
    options: dict[str, Any] = {"batch_size": gi.Buckets(3, ALLOWED), "shuffle": True, "drop_last": drop_last}
    one = drawn(cpu(Various(40), resized, **options))
    ranks = [cpu(Various(40), resized, **options, shard=(rank, 3)) for rank in range(3)]
    samples = [rank.samples for rank in ranks]
    each = [list(rank) for rank in ranks]
    assert [sum(len(b.indices) for b in found) for found in each] == samples
    assert {len(found) for found in each} == {len(rank) for rank in ranks} == {len(each[0])}
    together = Counter(batch for found in each for batch in drawn(found))
    assert together == Counter(one[: len(one) // 3 * 3] if drop_last else one)


@pytest.mark.parametrize("rule", RULES)
def test_resume_again_and_again_has_each_batch_once(rule: Any) -> None:
    def of(**options: Any) -> gi.Loader:
        options = {"seed": 3, "epochs": 2, **options, "batch_size": rule}
        return cpu(Various(30), lambda x: gi.resize(x, (2, 2)), shuffle=True, **options)

    assert Counter(indices for indices, _ in resumed(of, drawn)) == Counter(indices for indices, _ in drawn(of()))


def test_states_of_other_batches_are_refused() -> None:
    source = Various(20)
    state = cpu(source, resized, batch_size=gi.Buckets(3, ALLOWED)).state_dict()
    cpu(source, resized, batch_size=gi.Buckets(3, ALLOWED)).load_state_dict(state)
    others = [(gi.Buckets(4, ALLOWED), False), (gi.Buckets(3, ALLOWED[:2]), False), (RULES[0], True), (RULES[1], False)]
    for rule, drop_last in (*others, (3, False)):
        with pytest.raises(ValueError, match="other indices, weights, repeats or batches"):
            cpu(source, resized, batch_size=rule, drop_last=drop_last).load_state_dict(state)


def test_bad_images_have_the_size_of_their_batch() -> None:
    source = Various(20, corrupt={4, 11})
    with pytest.warns(RuntimeWarning, match="2 samples"):
        found = list(cpu(source, resized, batch_size=gi.Buckets(3, ALLOWED), on_error="fill"))
    assert {int(i) for b in found for i in b.indices[~b.valid]} == {4, 11}
    assert all(not b.images[~b.valid].any() for b in found)
    with pytest.raises(gi.DecodeError):
        list(cpu(source, resized, batch_size=gi.Buckets(3, ALLOWED)))


def test_targets_follow_the_images_of_a_batch() -> None:
    seen: list[Any] = []

    def keep(x: gi.Batch) -> gi.Batch:
        assert x.target_sizes is not None
        taken = gi.horizontal_flip(x).take(range(len(x))[::-1])
        np.testing.assert_array_equal(taken.target_sizes, x.target_sizes[::-1])
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)).target_sizes, x.target_sizes)
        seen.append(x.target_sizes.tolist())
        return gi.resize(x, 2)

    list(cpu(Various(9), keep, batch_size=RULES[1]))
    assert sorted(size for sizes in seen for size in sizes) == sorted(
        [height // 4 * 4, width // 4 * 4] for height, width in gi.read_sizes(Various(9)).tolist()
    )
    assert gi.open_batch([jpeg(0)], device="cpu").target_sizes is None


def test_tokens_of_a_budget() -> None:
    source = Various(30)
    sizes = gi.read_sizes(source)
    tokens: Any = lambda x: gi.resize(x, x.target_sizes).tokens(4, pad="longest")  # noqa: E731
    for batch in cpu(source, tokens, batch_size=RULES[1], shuffle=True):
        counts = (sizes[batch.indices] // 4).prod(1)
        assert batch.images.values.shape == (len(counts), counts.max(), 48)
        assert batch.images.values[..., 0].size <= 100
        np.testing.assert_array_equal(batch.images.mask.sum(1), counts)
        x = gi.open_batch([source[i][0] for i in batch.indices], device="cpu")
        expected = gi.resize(x, sizes[batch.indices] // 4 * 4).tokens(4, pad="longest")
        np.testing.assert_array_equal(batch.images.values, expected.values)


# -- sizes -------------------------------------------------------------------------------------------------------------


def test_sizes_are_those_of_the_opened_images() -> None:
    image = np.zeros((20, 30, 3), np.uint8)
    files = [file_of(image), file_of(image, exif=with_orientation(6)), file_of(image, "PNG"), b"", b"nothing"]
    source = [(data, k) for k, data in enumerate(files)]
    assert gi.read_sizes(source).tolist() == [[20, 30], [30, 20], [20, 30], [0, 0], [0, 0]]
    assert gi.read_sizes([{"photo": data} for data in files[:1]], image="photo").tolist() == [[20, 30]]
    shown = [ImageOps.exif_transpose(Image.open(path)) for path in PHOTOS]
    assert gi.read_sizes(gi.file_list(PHOTOS), threads=2).tolist() == [[one.height, one.width] for one in shown]


def test_sizes_are_read_once(tmp_path: Path) -> None:
    source, cache = Various(20), tmp_path / "sizes"
    first = gi.read_sizes(source, cache)
    assert source.reads.total() == 20
    np.testing.assert_array_equal(gi.read_sizes(source, cache), first)
    loader = cpu(source, resized, batch_size=gi.Buckets(3, ALLOWED, cache))
    assert source.reads.total() == 20 + 2 * 16  # compared with the file
    assert len(list(loader)) == len(loader)
    assert len(gi.read_sizes(Various(21), cache)) == 21  # of another source: read again
    seen: list[tuple[int, int]] = []
    gi.read_sizes(source, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (20, 20)
    gi.read_sizes(source, cache)
    stamp = np.load(cache)["stamp"]
    with open(cache, "wb") as file:
        np.savez(file, stamp=stamp, sizes=np.full((20, 2), -1, np.int32))
    with pytest.warns(RuntimeWarning, match="damaged"):
        np.testing.assert_array_equal(gi.read_sizes(source, cache), first)


def test_sizes_of_other_images_are_never_used(tmp_path: Path) -> None:
    """The two data sets have as many samples, of the same names."""
    wide, tall = ([(jpeg(k, size), k) for k in range(40)] for size in ((10, 40), (40, 10)))
    for kind, source in (("wide", wide), ("tall", tall)):
        write_files(tmp_path / kind, {f"{k:02}.jpg": data for data, k in source})
    first, second = (gi.file_list(sorted((tmp_path / kind).iterdir())) for kind in ("wide", "tall"))
    cache = tmp_path / "sizes"
    gi.read_sizes(first, cache)
    with pytest.warns(RuntimeWarning, match="sample 0 is 40 x 10, not 10 x 40 pixels"):
        assert gi.read_sizes(second, cache).tolist() == [[40, 10]] * 40
    (tmp_path / "tall" / "01.jpg").write_bytes(wide[1][0])  # not one of those that are compared
    for rule in (gi.Buckets(3, ALLOWED, cache), gi.TokenBudget(100, 4, lambda sizes: sizes // 4 * 4, cache)):
        with pytest.raises(gi.DecodeError, match=r"image 1 \(.*01.jpg\): its size is 10 x 40, not that in sizes="):
            list(cpu(second, resized, batch_size=rule))
    with pytest.warns(RuntimeWarning, match="1 sample could not be decoded and was black and not valid"):
        valid = valid_indices(cpu(second, resized, batch_size=gi.Buckets(3, ALLOWED, cache), on_error="fill"))
    assert sorted(valid) == [k for k in range(40) if k != 1]
    for unnamed in (wide, tall):
        with pytest.raises(ValueError, match="cache is for sources whose samples have names"):
            cpu(unnamed, resized, batch_size=gi.Buckets(3, ALLOWED, cache))


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "message"), [
    (lambda: gi.Buckets(0), "images must be"), (lambda: gi.Buckets(4, [(0, 3)]), "allowed must be at least 1 x 1"),
    (lambda: gi.Buckets(4, []), "allowed must hold"), (lambda: gi.TokenBudget(0), "tokens must be"),
    (lambda: gi.TokenBudget(9, 0), "patch must be"),
    (lambda: gi.TokenBudget(9, 4, 256), "targets must be a function"),  # type: ignore[arg-type]
    (lambda: cpu(gi.iterable([]), batch_size=gi.Buckets(3)), "batch_size=Buckets needs a source with a length"),
])  # fmt: skip
def test_wrong_rules(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize(("options", "message"), [
    ({"weights": [1.0] * 9}, "neither"), ({"repeats": 2, "shuffle": True}, "neither"),
    ({"shuffle": gi.Blocks(4)}, "neither"), ({"on_error": "skip"}, 'use "fill"'),
    ({"clips": gi.Clips(4)}, "for images, not for clips"),
    ({"batch_size": gi.Buckets(3, ALLOWED, np.ones((8, 2), int))}, "each of 9 images"),
    ({"batch_size": gi.Buckets(3, ALLOWED, np.ones((9, 2)))}, "whole numbers"),
    ({"batch_size": gi.TokenBudget(10, 4, lambda sizes: sizes // 4 * 4)}, "image . has .* a batch may have 10"),
    ({"batch_size": gi.TokenBudget(100, 4, lambda sizes: sizes)}, "multiples of patch, 4 pixels"),
    ({"batch_size": gi.TokenBudget(100, 4, lambda sizes: cast(Any, sizes / 2))}, "targets must return whole numbers"),
    ({"batch_size": gi.Buckets(9, ALLOWED), "drop_last": True, "epochs": None}, "drop_last leaves no full batch of 9"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_at_the_call(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cpu(Various(9), resized, **{"batch_size": gi.Buckets(3, ALLOWED), **options})
