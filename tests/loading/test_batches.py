"""Listed batches: their order, ranks and states; functions that list them by size, and sizes kept in a file."""

import time
import tracemalloc
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image, ImageOps

import gpuimg as gi
from tests.data_sets import Source, assert_states_differ, cpu, jpeg, resumed
from tests.libraries import library
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
    return gi.adjust_brightness(gi.resize(x, gi.sizes.nearest(x.sizes, ALLOWED)), rng.uniform(0.2, 0.9))


def by_bucket(sizes: Any, images: int = 3, **options: Any) -> Any:
    return gi.bucket_batches(gi.sizes.nearest(np.clip(sizes, 1, None), ALLOWED), images, **options)


def by_tokens(sizes: Any, tokens: int = 100, **options: Any) -> Any:
    return gi.token_batches((np.clip(sizes, 4, None) // 4).prod(1), tokens, **options)


RULES: list[Any] = [by_bucket, by_tokens]


sizes_of = arrays.arrays(np.int64, st.tuples(st.integers(1, 200), st.just(2)), elements=st.integers(0, 300))


@given(sizes=sizes_of, images=st.integers(1, 9), seed=st.none() | st.integers(0, 2**64 - 1))
def test_batches_have_one_size_and_each_sample_once(sizes: Any, images: int, seed: int | None) -> None:
    sizes = sizes // 99 + 1
    found = gi.bucket_batches(sizes, images, seed=seed)(3)
    assert sorted(i for batch in found for i in batch) == list(range(len(sizes)))
    smaller = Counter(tuple(sizes[batch[0]].tolist()) for batch in found if len(batch) < images)
    assert max(smaller.values(), default=0) <= 1  # of each size
    assert all(len(batch) <= images and np.ptp(sizes[batch], 0).tolist() == [0, 0] for batch in found)


@given(sizes=sizes_of, budget=st.integers(75 * 75, 30_000), seed=st.none() | st.integers(0, 100))
def test_budgets_hold_with_little_padding(sizes: Any, budget: int, seed: int | None) -> None:
    tokens = (sizes // 4 + 1).prod(1).clip(None, budget)
    found = gi.token_batches(tokens, budget, seed=seed)(0)
    assert sorted(i for batch in found for i in batch) == list(range(len(sizes)))
    for batch in found:
        assert len(batch) * tokens[batch].max() <= budget
        assert tokens[batch].min() > 0.95 * tokens[batch].max()


@pytest.mark.parametrize(
    ("tokens", "budget", "images"), [(256, 1024, 4), (729, 2916, 4), (1024, 4096, 4), (256, 2048, 8)]
)
def test_batches_of_equal_images_are_full(tokens: int, budget: int, images: int) -> None:
    assert {len(batch) for batch in gi.token_batches([tokens] * 40, budget)(0)} == {images}


def test_batches_are_read_ahead_in_parts() -> None:
    """However many readers there are, they do not read a batch each."""
    source = Source(6400)
    with cpu(source, None, batches=np.arange(6400).reshape(-1, 200), readers=16, prefetch=1, decoders=1) as loader:
        next(loader)
        before = -1
        while before < (before := source.reads.total()):
            time.sleep(0.3)
    assert before <= 4 * 200 + 16 * 64


@pytest.mark.parametrize("rule", RULES)
def test_epochs_differ_but_not_in_their_number_of_batches(rule: Any) -> None:
    sizes = np.array(SIZES * 9 + SIZES[:2])
    first, other, dropped = rule(sizes, seed=0), rule(sizes, seed=1), rule(sizes, seed=0, drop_last=True)
    epochs = [[tuple(batch.tolist()) for batch in found] for found in (*map(first, range(5)), other(0))]
    assert len({frozenset(map(frozenset, epoch)) for epoch in epochs}) == 6
    targets = gi.sizes.nearest(sizes, ALLOWED)
    assert len({targets[[batch[0] for batch in epoch]].tobytes() for epoch in epochs}) == 6  # groups come mixed
    assert len(set(map(len, epochs))) == 1
    twice = rule(np.repeat([(16, 32), (32, 20)], 30, 0), seed=0)(0)  # two groups are shuffled independently
    halves = [{frozenset(one % 30) for one in twice if one[0] // 30 == half} for half in (0, 1)]
    assert halves[0] != halves[1]
    fixed = [batch.tolist() for batch in rule(sizes)(4)]
    assert fixed == sorted(map(sorted, fixed))
    assert len({frozenset(range(65)) - {i for one in dropped(epoch) for i in one} for epoch in range(5)}) > 1
    lengths = sorted(map(len, dropped(0)))
    assert lengths == sorted(map(len, epochs[0]))[len(epochs[0]) - len(lengths) :] != sorted(map(len, epochs[0]))


def test_a_million_images_take_60_mb() -> None:
    rng, n = np.random.default_rng(0), 1_000_000
    tokens = np.clip(rng.lognormal(5.0, 0.7, n).astype(int), 1, 256)
    gi.token_batches(tokens[:10], 16384, seed=0)(0)  # imports and compiles
    tracemalloc.start()
    loader = cpu([(jpeg(0), 0)] * n, lambda x: gi.resize(x, 1), batches=gi.token_batches(tokens, 16384, seed=0))
    next(loader)
    assert tracemalloc.get_traced_memory()[1] - 8 * n < 60e6
    tracemalloc.stop()
    loader.close()


# -- loads -------------------------------------------------------------------------------------------------------------


def drawn(loop: Any) -> list[tuple[tuple[int, ...], bytes]]:
    """Indices and pixels of each batch, with valid samples only."""
    return [(tuple(b.indices.tolist()), b"".join(image.tobytes() for image in b.images)) for b in loop if b.valid.all()]


@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_are_those_of_a_batch_sampler(drop_last: bool) -> None:
    data, torch = library("torch.utils.data"), library("torch")

    def sampler() -> Any:
        order = data.RandomSampler(range(20), generator=torch.Generator().manual_seed(1))
        return data.BatchSampler(order, 3, drop_last)

    expected, twice, again = list(sampler()), sampler(), sampler()
    forms: list[Any] = [
        expected, tuple(map(np.array, expected)), list(map(torch.tensor, expected)), lambda _: sampler(),
    ]  # fmt: skip
    for form in forms + ([np.array(expected), torch.tensor(expected).to(torch.uint8)] if drop_last else []):
        loader = cpu(Source(20), batches=form)
        assert [b.indices.tolist() for b in loader] == expected
        assert (len(loader), loader.samples) == (len(expected), sum(map(len, expected)))
    assert [b.indices.tolist() for b in cpu(Source(20), batches=lambda _: twice, epochs=2)] == [*again, *again]


@given(
    lists=st.lists(st.lists(st.integers(0, 19), min_size=1, max_size=5), min_size=1, max_size=9),
    world=st.integers(1, 4),
)
def test_ranks_take_batches_in_turn(lists: list[list[int]], world: int) -> None:
    ranks = [cpu(Source(20), resized, batches=lists, shard=(rank, world)) for rank in range(world)]
    each = [list(rank) for rank in ranks]
    assert {len(found) for found in each} == {len(rank) for rank in ranks} == {-(-len(lists) // world)}
    assert [sum(len(b.indices) for b in found) for found in each] == [rank.samples for rank in ranks]
    turns = [batch for turn in zip(*each, strict=True) for batch in turn]
    assert [b.valid.tolist() for b in turns[: len(lists)]] == [[True] * len(one) for one in lists]
    assert not any(b.valid.any() for b in turns[len(lists) :])
    one = drawn(cpu(Source(20), resized, batches=lists, cache="1 MB", decoders=1))
    assert [list(indices) for indices, _ in one] == lists
    assert drawn(turns) == one
    pixels = [image.tobytes() for batch in turns[: len(lists)] for image in batch.images]
    assert len(set(pixels)) == sum(map(len, lists))  # a sample that comes again has other draws


LISTS: Any = [[7, 3, 3], [2], [29, 0], *([k] for k in range(10, 25)), [3]]
VARIOUS = gi.read_sizes(Various(30))
FORMS: list[Any] = [
    LISTS, LISTS[::-1], [[7, 3], [3, 2], *LISTS[2:]], *(rule(VARIOUS, seed=3) for rule in RULES), by_bucket(VARIOUS),
    lambda epoch: [[k, (k + epoch) % 30] for k in range(9 + 4 * epoch)],
]  # fmt: skip


@pytest.mark.parametrize("batches", FORMS)
def test_resume_again_and_again_has_each_batch_once(batches: Any) -> None:
    def of(batch_size: int = 0, **options: Any) -> gi.Loader:
        return cpu(Various(30), resized, **{"seed": 3, "epochs": 2, **options}, batches=batches)

    assert Counter(resumed(of, drawn)) == Counter(drawn(of()))


def test_states_of_other_batches_are_refused() -> None:
    kinds: list[dict[str, Any]] = [*({"batches": form} for form in FORMS), {"batch_size": 3}]
    assert_states_differ([partial(cpu, Various(30), **kind) for kind in kinds], "the state was taken with other")


def test_a_function_is_called_once_an_epoch() -> None:
    epochs: list[int] = []

    def batches(epoch: int) -> list[list[int]]:
        epochs.append(epoch)
        return [[[0, 1], [2]], [[3, 4], [5], [6]], [[7]]][epoch]

    loader = cpu(Source(8), batches=batches)
    assert repr(loader).startswith("<gpuimg.Loader of 8 samples, listed batches ")
    assert not epochs
    assert (len(loader), loader.samples) == (2, 3)
    for epoch, most in enumerate([2, 3, 1]):
        for k, _ in enumerate(loader):
            state = loader.state_dict()
            assert (state["epoch"], state["given"]) == ((epoch, k + 1) if k + 1 < most else (epoch + 1, 0))
        assert len(loader) == most
    cpu(Source(8), batches=batches).load_state_dict(state)  # of the epoch after the last one
    with pytest.raises(ValueError, match="the state was taken with other"):
        cpu(Source(8), batches=[[7]]).load_state_dict(state)
    assert epochs == [0, 1, 2]
    found = cpu(Source(8), batches=batches, epochs=3)
    assert [b.indices.tolist() for b in found] == [[0, 1], [2], [3, 4], [5], [6], [7]]


def test_the_number_of_samples_is_known_while_epochs_are_read() -> None:
    with cpu(Source(8), batches=lambda epoch: [[0]] * (1 + epoch * 7 % 20), epochs=None, prefetch=6) as loader:
        for _, _ in zip(range(3000), loader, strict=False):
            assert 1 <= loader.samples <= 20


@pytest.mark.parametrize("cache", [None, "1 MB"])
def test_bad_images_have_the_size_of_their_batch(cache: str | None) -> None:
    """Those that cannot be read any more, too, and those that a function is not possible for."""
    source = Various(40, corrupt={4}, unreadable={11})
    batches = by_bucket(gi.read_sizes(source))
    source.unreadable |= {12, 30}
    unfit = int(batches(0)[3][0])

    def choosy(x: gi.Batch, rng: gi.Rng, labels: Any) -> tuple[gi.Batch, Any]:
        if unfit in labels:
            raise gi.ImageError(labels.tolist().index(unfit), "unfit")
        return resized(x, rng), labels

    def check(preprocess: Any, bad: set[int]) -> None:
        loader = cpu(source, preprocess, batches=batches, on_error="fill", max_failures=0.5, epochs=2, cache=cache)
        with pytest.warns(RuntimeWarning, match=f"{2 * len(bad)} samples"):
            found = list(loader)
        assert {int(i) for b in found for i in b.indices[~b.valid]} == bad
        assert all(isinstance(b.images, np.ndarray) and not b.images[~b.valid].any() for b in found)
        assert {failure.index for failure in loader.failures} == bad

    check(resized, source.bad)
    check(choosy, source.bad | {unfit})
    with pytest.raises(gi.DecodeError):
        list(cpu(source, resized, batches=batches))


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
    assert source.reads.total() == 20 + 16  # compared with the file
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
    loader = cpu(second, resized, batches=[[0, 1], [2, 3]])
    assert [[image.shape[:2] for image in batch.images] for batch in loader] == [[(32, 16), (16, 32)], [(32, 16)] * 2]
    for unnamed in (wide, tall):
        with pytest.raises(ValueError, match="cache is for sources whose samples have names"):
            gi.read_sizes(unnamed, cache)


@pytest.mark.parametrize(("batches", "message"), [
    ([], " has no batches"), (np.zeros((0, 3), int), " has no batches"), ([[0], []], r"\[1\] must be a list of whole"),
    ([[0], [1.0]], r"\[1\] must .* not float64 of shape \(1,\)"), ([[True, False]], r"\[0\] must .* not bool"),
    ([1, 2], r"\[0\] must .* not int64 of shape \(\)"), ([[[1], [2]]], r"\[0\] must .* of shape \(2, 1\)"),
    ([[[1], [2, 3]]], r"\[0\] must be a list"), ([["a"]], r"\[0\] must be a list"), ([[2**70]], r"\[0\] must be"),
    ([[0, 1], [2, 9]], r"\[1\] has 9, but the source has samples 0 to 8"), ([[-1]], r"\[0\] has -1"),
    (np.array([[2**64 - 1]], np.uint64), r"\[0\] has -1"), ("ab", " must be a sequence of lists"),
    ({0: [1]}, " must be a sequence of lists"), (7, " must be a sequence of lists"),
])  # fmt: skip
def test_wrong_batches(batches: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match="^batches" + message):
        cpu(Source(9), batches=batches)
    loader = cpu(Source(9), batches=lambda epoch: batches if epoch else [[3], [4]], epochs=2)
    assert [next(loader).indices.tolist() for _ in range(2)] == [[3], [4]]
    with pytest.raises((ValueError, TypeError), match=r"^batches\(1\)" + message):
        next(loader)


@pytest.mark.parametrize(("options", "message"), [
    ({"batch_size": 4}, "without batch_size="), ({"shuffle": True, "drop_last": True}, "without shuffle=, drop_last="),
    ({"shuffle": gi.Blocks(4)}, "without shuffle="), ({"indices": [1]}, "without indices="),
    ({"weights": [1.0] * 9}, "without weights="), ({"repeats": 2}, "without repeats="),
    ({"on_error": "skip"}, 'use "fill"'), ({"batches": iter([[0]])}, r"lambda epoch: list\(sampler\)"),
    ({"batches": None}, r"load\(\) needs batch_size=, .* or batches="),
    ({"source": gi.iterable([])}, "batches needs a source with a length"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_at_the_call(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        cpu(**{"source": Source(9), "batches": [[0]], **options})


@pytest.mark.parametrize(("make", "message"), [
    (lambda: by_bucket(SIZES, 0), "batch_size must be"), (lambda: gi.bucket_batches([], 4), r"sizes must .* \(N, 2\)"),
    (lambda: gi.bucket_batches("a.sizes", 4), "not <U7 of"),  # type: ignore[arg-type]
    (lambda: gi.bucket_batches(np.ones((9, 2)), 4), "not float64"), (lambda: gi.bucket_batches([1], 1), r"\(N, 2\)"),
    (lambda: gi.bucket_batches([(0, 0)], 1), "at least 1, .* the least 0"),
    (lambda: by_bucket(SIZES, 9, drop_last=True), "drop_last leaves no full batch of 7 images"),
    (lambda: by_bucket(SIZES, seed=-1), "seed"), (lambda: by_bucket(SIZES)(-1), "epoch must be"),
    (lambda: by_tokens(SIZES, 0), "max_tokens must be"), (lambda: gi.token_batches(SIZES, 9), r"of shape \(N,\)"),
    (lambda: by_tokens(SIZES, 10), "image . has .* a batch may have 10"),
])  # fmt: skip
def test_wrong_rules(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()
