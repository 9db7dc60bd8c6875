"""The CUDA runtime's order of operations, on a stand-in for a GPU that runs everything as late as it may."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg.pixels import ALIGNMENT, offsets_of
from tests.standin import Order, Standin, file, installed
from tests.watchdog import no_hang

SIZES = [(40, 56), (31, 33), (1, 9), (64, 64)]


@pytest.fixture
def faulty() -> Iterator[Standin]:
    """A stand-in, for tests that expect problems."""
    with no_hang(60.0), installed() as standin:
        yield standin


@pytest.fixture
def gpu(faulty: Standin) -> Iterator[Standin]:
    """A stand-in on which nothing may be out of order."""
    yield faulty
    assert faulty.problems == []


def files(sizes: Any = SIZES, fates: tuple[str, ...] = ("good",)) -> list[bytes]:
    return [file(height, width, fates[k % len(fates)]) for k, (height, width) in enumerate(sizes)]


def turned_files(orientations: list[int]) -> list[bytes]:
    return [file(40, 56, orientation=k) for k in orientations]


def opened(sizes: Any = SIZES, fates: tuple[str, ...] = ("good",), **options: Any) -> gi.Batch:
    return gi.open_batch(files(sizes, fates), device="cuda:0", **options)


def two_statistics(x: Any) -> gi.Batch:
    """Statistics over two grids, some images with none."""
    x = gi.adjust_contrast(gi.resize(x, (20, 30)), 0.5)
    return gi.equalize(gi.resize(x, (16, 16)), where=np.arange(len(x)) % 2 == 0)


CHAINS: dict[str, tuple[Callable[[Any], gi.Batch], int]] = {
    "resize": (lambda x: gi.resize(x, (24, 20)), 1),
    "crop beyond the image": (lambda x: gi.resized_crop(x, 0, [-3, 2, 1, 5], 30, 20, (16, 17)), 2),
    "rotate": (lambda x: gi.rotate(gi.resize(x, (20, 20)), 30, fill=9), 1),
    "expand": (lambda x: gi.rotate(x, [10, -40, 90, 180], expand=True), 1),
    "contrast": (lambda x: gi.adjust_contrast(gi.resize(x, (20, 20)), 0.5), 2),
    "two statistics": (two_statistics, 3),
    "blur": (lambda x: gi.gaussian_blur(gi.resize(x, (20, 20)), 3, 1.0), 2),
    "blurs": (lambda x: gi.resize(gi.gaussian_blur(gi.gaussian_blur(gi.resize(x, (9, 9)), 3, 1.0), 5, 2.0), (7, 5)), 4),
    "sharpness": (lambda x: gi.adjust_contrast(gi.adjust_sharpness(gi.resize(x, (8, 9)), 2.0), 0.5), 2),
    "grayscale": (lambda x: gi.rgb_to_grayscale(gi.resize(x, (8, 9))), 1),
}


# -- single calls ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["null stream", "own stream"])
@pytest.mark.parametrize("source", ["files", "list", "array"])
@pytest.mark.parametrize("chain", CHAINS)
def test_single_calls(gpu: Standin, chain: str, source: str, where: str) -> None:
    function, launches = CHAINS[chain]
    with gpu.stream() if where == "own stream" else nullcontext():
        x: Any = None
        if source == "files":
            x = opened()
        else:
            sizes = SIZES if source == "list" else [(40, 56)] * 4
            images = [gpu.cupy.zeros((*size, 3), np.uint8) for size in sizes]
            x = images if source == "list" else gpu.cupy.zeros((4, 40, 56, 3), np.uint8)
        begin = len(gpu.order.log)
        result = function(x).compute("float16")
        for image in result:
            gpu.use(image)
    assert result.launches == launches
    ops = gpu.order.log[begin:]
    assert sum(op.kind == "launch" for op in ops) == launches
    assert {op.stream for op in ops if op.kind == "launch"}.isdisjoint({(0, 0)})
    assert sum(op.kind == "decode" for op in ops) == (4 if source == "files" else 0)


@pytest.mark.parametrize("chain", CHAINS)
def test_a_plan_is_one_upload_of_its_records_and_programs(gpu: Standin, chain: str) -> None:
    x = CHAINS[chain][0](opened())
    x.compute()
    expected = []
    for plan in x.stages:
        passes, _ = plan.compile()
        expected.append(sum(part.nbytes for run in passes for part in (run.records, run.programs)))
    assert [op.told["bytes"] for op in gpu.order.of("upload")] == expected


@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_the_arena_is_as_large_as_its_images(gpu: Standin, color: str) -> None:
    channels = 3 if color == "rgb" else 1
    gi.resize(opened(color=color), (8, 8)).array()
    decodes = gpu.order.of("decode")
    ranges = [op.told["writes"][0] for op in decodes]
    arena = next(op for op in gpu.order.of("allocate") if op.told["address"] == ranges[0][0])
    sizes = [-(-height * width * channels // ALIGNMENT) * ALIGNMENT for height, width in SIZES]
    assert arena.told["size"] == sum(sizes)
    assert [low - ranges[0][0] for low, _ in ranges] == [sum(sizes[:k]) for k in range(len(sizes))]
    assert [high - low for low, high in ranges] == [height * width * channels for height, width in SIZES]
    assert {op.stream for op in decodes} == {op.stream for op in gpu.order.of("launch")}


def test_an_arena_is_used_again_after_the_host_has_waited(gpu: Standin) -> None:
    for size in (30, 40, 20, 40, 50, 50, 10, 50):
        gpu.use(gi.resize(opened([(size, size)] * 3), (8, 8)).array())
    arenas = {op.told["writes"][0][0] for op in gpu.order.of("decode")[::3]}
    assert len(arenas) == 3  # of 30, 40 and 50
    waited = [op for op in gpu.order.of("host wait") if op.told["name"] == "event" and op.told["pending"]]
    assert len(waited) == 7  # every call but the first


def test_whole_images_are_decoded_into_memory_of_the_caller(gpu: Standin) -> None:
    with gpu.stream():
        for _ in range(4):
            batch = gi.decode_batch(files(), device="cuda:0")
            for image in batch:
                gpu.use(image)
            gpu.use(gi.resize(batch, (5, 5)).array())


@pytest.mark.parametrize("whole", [False, True], ids=["resize", "whole"])
def test_turned_images(gpu: Standin, whole: bool) -> None:
    """Decoded as stored into memory of their own, and copied from there in the order of the stream."""
    turns = [1, 3, 6, 8]
    with gpu.stream():
        for _ in range(3):
            sources = turned_files(turns)
            x = gi.decode_batch(sources, device="cuda:0") if whole else gi.open_batch(sources, device="cuda:0")
            assert x.sizes.tolist() == [[40, 56], [40, 56], [56, 40], [56, 40]]
            for image in x.compute() if whole else gi.resize(x, (8, 8)).array():
                gpu.use(image)
            del image
    copies = gpu.order.of("copy")
    assert len(copies) == 3 * 3
    decoded = {op.told["writes"][0] for op in gpu.order.of("decode")}
    assert {op.told["source"] for op in copies} <= decoded
    assert {op.stream for op in copies} == {op.stream for op in gpu.order.of("decode")}


def test_an_array_of_the_callers_is_written_and_read_in_its_order(gpu: Standin) -> None:
    out = gpu.cupy.zeros((4, 8, 8, 3), np.uint8)
    for _ in range(3):
        gi.resize(opened(), (8, 8)).array(out=out)
        gpu.use(out)
        other = gi.invert(out).array()
        out.fill(1)
        gpu.use(other)


def test_mixing(gpu: Standin) -> None:
    with gpu.stream():
        for mix in (gi.mixup, gi.cutmix):
            x = gi.resize(opened(), (12, 10))
            mixed = mix(x, rng=3).images
            gpu.use(mixed.array())
            gpu.use(gi.adjust_contrast(mixed, 0.5).array("float16"))
        one, other = (gpu.cupy.zeros((2, 9, 9, 3), np.float32) for _ in range(2))
        gpu.use(gi.blend(one, other, 0.5).array())
    assert [op.told["name"] for op in gpu.order.of("launch")].count("mix") == 3


def test_mixing_nothing(gpu: Standin) -> None:
    images = gpu.cupy.zeros((0, 4, 5, 3), np.uint8)
    assert len(gi.mixup(images, rng=0).images.array()) == 0
    assert gpu.order.of("launch") == []


def test_too_many_images_for_a_launch_are_refused(gpu: Standin) -> None:
    images = gpu.cupy.zeros((65536, 1, 1, 3), np.float32)
    with pytest.raises(ValueError, match="at most 65535 images, not 65536"):
        gi.invert(images).array()
    with pytest.raises(ValueError, match="at most 65535 images, not 65536"):
        gi.blend(images, images, 0.5)
    assert gpu.order.of("launch") == []


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", ["none", "size", "fails"])
@pytest.mark.parametrize("whole", [False, True], ids=["resize", "whole"])
def test_images_that_do_not_decode_are_black(gpu: Standin, fate: str, whole: bool) -> None:
    for _ in range(3):
        x = opened(fates=("good", fate), on_error="fill")
        result = x.compute() if whole else gi.resize(x, (8, 8)).compute()
        for image in result:
            gpu.use(image)
        assert [status == "ok" for status in result.status] == [True, False, True, False]
        gpu.use(gi.resize(opened(), (9, 9)).array())
    assert len(gpu.order.of("fill")) == 6


def resized(sources: list[bytes], device: str) -> Any:
    return gi.resize(gi.open_batch(sources, device=device), (8, 8)).array()


@pytest.mark.parametrize("fate", ["none", "size", "fails", "memory"])
@pytest.mark.parametrize("call", [gi.decode_batch, resized])
def test_nothing_is_lost_by_an_exception(gpu: Standin, call: Callable[..., Any], fate: str) -> None:
    """Memory that was being decoded into is not used by others before that has ended."""
    bad = files(fates=("good", fate))
    for _ in range(3):
        with pytest.raises(MemoryError if fate == "memory" else gi.DecodeError):
            call(bad, device="cuda:0")
        # The caller's next allocations may well be that memory.
        taken = [gpu.cupy.zeros(size, np.uint8) for size in (20000, 2000, 500)]
        gpu.use(gi.resize(opened(), (8, 8)).array())
        del taken


@pytest.mark.parametrize("refused", [100, 5000, 50000])
def test_running_out_of_memory(gpu: Standin, refused: int) -> None:
    """Whichever allocation fails, the next call finds everything in order."""
    gpu.use(gi.resize(opened(), (40, 40)).array())
    for _ in range(2):
        gpu.pools[0].refuse_above = refused
        with pytest.raises(MemoryError):
            gi.gaussian_blur(gi.resize(opened([(90, 90)] * 4), (60, 60)), 3, 1.0).array()
        gpu.pools[0].refuse_above = None
        gpu.use(gi.gaussian_blur(gi.resize(opened([(90, 90)] * 4), (60, 60)), 3, 1.0).array())
    runtime = gi.open_batch(files(), device="cuda:0")._runtime
    assert len(runtime._arenas) == 1  # type: ignore[attr-defined]


# -- loaders -----------------------------------------------------------------------------------------------------------


class Source:
    """Files of many sizes, some turned, some bad."""

    def __init__(self, n: int, bad: str | None = None, uniform: bool = False) -> None:
        self.n = n
        self.bad = bad
        self.uniform = uniform

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[bytes, int]:
        fate = self.bad if self.bad is not None and i % 7 == 3 else "good"
        size = (24, 24) if self.uniform else (16 + 5 * i % 23, 20 + 11 * i % 17)
        return file(*size, fate, orientation=(1, 6, 1, 3)[i % 4]), i


def small(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    return gi.horizontal_flip(gi.resize(x, (12, 12)), where=rng.units(1)[:, 0] < 0.5)


def blurred(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    return gi.adjust_contrast(gi.gaussian_blur(gi.resize(x, (12, 12)), 3, 1.0), 0.5)


def ragged(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    return gi.resize(x, 12)


def mixed(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    return gi.mixup(gi.resize(x, (12, 12)), rng=rng).images


def growing(x: gi.Batch, rng: gi.Rng, labels: Any) -> tuple[gi.Batch, Any]:
    """Batches of different sizes."""
    return gi.resize(x, (8 + 7 * int(labels[0]) % 19, 10)), labels


def float_mixed(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    """What is computed in between and goes on from there."""
    return gi.normalize(gi.cutmix(gi.resize(x, (12, 12)), rng=rng).images, 0.5, 0.5)


def alternating(x: gi.Batch, rng: gi.Rng, labels: Any) -> tuple[gi.Batch, Any]:
    """Whole images, decoded after another batch's large intermediate results."""
    return (gi.gaussian_blur(gi.resize(x, (60, 60)), 3, 1.0) if labels[0] % 8 else x), labels


PREPROCESS: dict[str, Any] = {
    "small": small,
    "blurred": blurred,
    "ragged": ragged,
    "mixed": mixed,
    "float_mixed": float_mixed,
    "growing": growing,
    "alternating": alternating,
    "nothing": None,
}


def arrays_of(batch: Any) -> list[Any]:
    images = batch.images
    return list(images) if isinstance(images, gi.Batch) else [images]


def load(source: Any, preprocess: Any = small, **options: Any) -> gi.Loader:
    return gi.load(source, preprocess, **{"device": "cuda:0", "batch_size": 4, "readers": 1, **options})


def epoch(gpu: Standin, loader: Any, held: int = 0) -> int:
    """One loop whose consumer reads each batch and keeps the last few; gives the number of batches."""
    kept: list[Any] = []
    count = 0
    for count, batch in enumerate(loader, 1):  # noqa: B007
        for array in arrays_of(batch):
            gpu.use(array)
        kept = [*kept, batch][-held:] if held else []
        del batch, array
    return count


@pytest.mark.parametrize("preprocess", PREPROCESS)
@pytest.mark.parametrize("held", [0, 1, 3])
@pytest.mark.parametrize("decoders", [1, 2, 3])
def test_loaders(gpu: Standin, decoders: int, held: int, preprocess: str) -> None:
    """Two epochs with a smaller batch between them, and consumers that keep some of the batches."""
    loader = load(Source(30), PREPROCESS[preprocess], decoders=decoders, epochs=2)
    assert epoch(gpu, loader, held) == 16
    lanes = {(op.thread, op.stream) for op in gpu.order.log if op.thread.startswith("gpuimg-decode") and op.stream}
    assert len(lanes) == len({thread for thread, _ in lanes}) == len({stream for _, stream in lanes}) <= decoders
    assert (0, 0) not in {stream for _, stream in lanes}


@pytest.mark.parametrize("preprocess", ["small", "growing", "mixed"])
def test_loops_one_after_another(gpu: Standin, preprocess: str) -> None:
    """Each has threads and streams of its own, but memory of the one before."""
    loader = load(Source(14), PREPROCESS[preprocess], decoders=2)
    for _ in range(4):
        epoch(gpu, loader, 1)
    for _ in range(3):
        epoch(gpu, load(Source(14), PREPROCESS[preprocess]), 1)


@pytest.mark.parametrize("preprocess", ["small", "ragged", "mixed", "growing"])
@pytest.mark.parametrize("given", [True, False], ids=["given", "current"])
def test_a_consumer_on_a_stream_of_its_own(gpu: Standin, given: bool, preprocess: str) -> None:
    stream = gpu.stream()
    loader = load(Source(30), PREPROCESS[preprocess], stream=stream.ptr if given else None)
    kept: list[Any] = []
    for batch in loader if given else in_stream(loader, stream):
        with stream:
            for array in arrays_of(batch):
                gpu.use(array)
        kept = [*kept, batch][-2:]  # dropped outside the stream's block
        del batch, array
    assert kept


def in_stream(loader: Any, stream: Any) -> Iterator[Any]:
    """A loop whose steps are made with a stream as CuPy's current one, its body without."""
    iterator = iter(loader)
    while True:
        with stream:
            batch = next(iterator, None)
        if batch is None:
            return
        yield batch
        del batch


def test_arrays_that_preprocess_made_itself(gpu: Standin) -> None:
    """They are of CuPy's pool, which would have them again when the consumer drops them."""

    def copied(x: gi.Batch, rng: gi.Rng) -> Any:
        images = gi.resize(x, (12, 12)).array()
        copy = gpu.cupy.empty(images.shape, np.uint8)
        copy[:] = images
        return copy

    epoch(gpu, load(Source(40), copied, decoders=2))
    epoch(gpu, load(Source(40), lambda x, rng: list(copied(x, rng)), decoders=2))


def test_memory_that_the_garbage_collector_gives_back_on_a_loaders_thread(gpu: Standin) -> None:
    """Its current stream there is not its reader's."""

    def collecting(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
        gc.collect()
        return small(x, rng)

    with gpu.stream():
        for batch in load(Source(40), collecting, decoders=2):
            gpu.use(batch.images)
            cycle: list[Any] = [batch]
            cycle.append(cycle)
            del batch, cycle


def test_a_loader_that_the_garbage_collector_ends(gpu: Standin) -> None:
    """Destructors of what is in a cycle run in any order."""
    for _ in range(4):
        cycle: list[Any] = [load(Source(4), small)]
        cycle.append(cycle)
        for batch in cycle[0]:
            gpu.use(batch.images)
        cycle.append(batch)
        del cycle, batch
        gc.collect()


@pytest.mark.parametrize("preprocess", ["small", "ragged", "mixed"])
def test_loops_that_are_left_early(gpu: Standin, preprocess: str) -> None:
    """What was made but not given may be unfinished when its memory comes back."""
    loader = load(Source(40), PREPROCESS[preprocess], decoders=3, prefetch=3)
    for _ in range(6):
        for k, batch in enumerate(loader):
            for array in arrays_of(batch):
                gpu.use(array)
            del batch, array
            if k == 1:
                break
        loader.close()


@pytest.mark.parametrize("preprocess", ["small", "ragged", "mixed", "growing"])
@pytest.mark.parametrize("fate", ["none", "size", "fails"])
@pytest.mark.parametrize("on_error", ["skip", "fill"])
def test_loaders_with_bad_images(gpu: Standin, on_error: str, fate: str, preprocess: str) -> None:
    loader = load(Source(30, fate), PREPROCESS[preprocess], on_error=on_error, decoders=3)
    with pytest.warns(RuntimeWarning, match="could not be decoded"):
        epoch(gpu, loader, 1)
    assert len(loader.failures) == 4


@pytest.mark.parametrize("fate", ["none", "fails", "memory"])
def test_loaders_that_end_with_an_error(gpu: Standin, fate: str) -> None:
    loader = load(Source(30, fate), decoders=3)
    for _ in range(3):
        with pytest.raises(MemoryError if fate == "memory" else gi.DecodeError):
            epoch(gpu, loader, 1)
    epoch(gpu, load(Source(30)))


@pytest.mark.parametrize("preprocess", PREPROCESS)
def test_two_devices(gpu: Standin, preprocess: str) -> None:
    loader = load(Source(40), PREPROCESS[preprocess], device=None, devices=["cuda:0", "cuda:1"], decoders=2)
    for k, batch in enumerate(loader):
        with gpu.cupy.cuda.Device(k % 2):
            for array in arrays_of(batch):
                assert array.device.id == k % 2
                gpu.use(array)
        del batch, array


# -- waiting -----------------------------------------------------------------------------------------------------------


def waits_of_loaders(gpu: Standin, stream: tuple[int, int]) -> list[Any]:
    """Waits of a loader's threads that a stream with endless work would not let end."""
    loaders = [op for op in gpu.order.of("host wait", "stream wait") if op.thread.startswith("gpuimg-")]
    host = [op for op in loaders if op.kind == "host wait" and stream in op.told["pending"]]
    return host + [op for op in loaders if op.kind == "stream wait" and op.told["recorded"].stream == stream]


@pytest.mark.parametrize("preprocess", PREPROCESS)
def test_a_loader_does_not_wait_for_what_its_consumer_computes(gpu: Standin, preprocess: str) -> None:
    """As long as the consumer keeps its batches, nothing of a loader depends on the consumer's stream."""
    with gpu.stream() as stream:
        kept = []
        for batch in load(Source(40), PREPROCESS[preprocess], decoders=2):
            for array in arrays_of(batch):
                gpu.use(array)
            kept.append(batch)
    assert waits_of_loaders(gpu, stream.key) == []


@pytest.mark.parametrize("preprocess", ["small", "ragged", "mixed"])
def test_a_loader_waits_for_what_read_the_memory_it_takes_again(gpu: Standin, preprocess: str) -> None:
    with gpu.stream() as stream:
        epoch(gpu, load(Source(40), PREPROCESS[preprocess], decoders=2))
    waits = waits_of_loaders(gpu, stream.key)
    assert waits
    assert {(op.kind, op.told["name"]) for op in waits} == {("host wait", "event")}
    assert {op.told["recorded"].stream for op in waits} == {stream.key}


# -- the checks themselves ---------------------------------------------------------------------------------------------


def much_work(gpu: Standin) -> None:
    """What every fault below shows in."""
    for size in (30, 50, 20):
        for _ in range(2):
            for image in gi.decode_batch(files([(size, size)] * 3), device="cuda:0"):
                gpu.use(image)
            del image
            gpu.use(gi.resize(opened([(size, size)] * 3), (8, 8)).array())
    with gpu.stream():
        image = gpu.cupy.zeros((1, 9, 9, 3), np.uint8)
        gpu.use(two_statistics(image).array())
        del image
        for preprocess in (small, ragged, mixed, growing):
            epoch(gpu, load(Source(40), preprocess, decoders=2))
        epoch(gpu, load(Source(40), None, decoders=1))


def test_much_work_is_in_order(gpu: Standin) -> None:
    much_work(gpu)


def _arena_event_of_another_stream(gpu: Standin, patch: pytest.MonkeyPatch) -> None:
    def give(self: Any, arena: Any) -> None:
        arena.read.record(gpu.stream())
        self._arenas.append(arena)

    patch.setattr(gpu.runtime.CudaRuntime, "_give_arena", give)


def _overlapping_images(gpu: Standin, patch: pytest.MonkeyPatch) -> None:
    def offsets(sizes: Any, channels: int, step: int = 1) -> Any:
        starts, total = offsets_of(sizes, channels, step)
        return np.maximum(starts - step, 0), total

    patch.setattr(gpu.runtime, "offsets_of", offsets)


def _results_given_back_on_the_current_stream(gpu: Standin, patch: pytest.MonkeyPatch) -> None:
    give = gpu.runtime.Slots.give
    other = gpu.stream()
    patch.setattr(gpu.runtime.Slots, "give", lambda self, memory, stream: give(self, memory, other.ptr))


def _nothing(*_: Any) -> None:
    """Instead of a wait."""


FAULTS: dict[str, tuple[Callable[[Standin, pytest.MonkeyPatch], None], str]] = {
    "the host does not wait for events": (
        lambda gpu, patch: patch.setattr(gpu.cupy.cuda.Event, "synchronize", _nothing),
        r"decode .* writes what .* launch .* reads: the host did not wait",
    ),
    "the host does not wait for the device": (
        lambda gpu, patch: patch.setattr(gpu.cupy.cuda.Device, "synchronize", _nothing),
        r"decode .* writes what .* use .* reads: the host did not wait",
    ),
    "the event after an arena's reader is of another stream": (
        _arena_event_of_another_stream,
        r"decode .* writes what .* launch .* reads: the host did not wait",
    ),
    "the host does not wait for the copies of turned images": (
        lambda gpu, patch: patch.setattr(gpu.cupy.cuda.ExternalStream, "synchronize", _nothing),
        r"decode .* writes what .* copy .* reads: the host did not wait",
    ),
    "images overlap in the arena": (
        _overlapping_images,
        r"decode .* writes what .* decode .* writes: the host did not wait",
    ),
    "the caller's stream goes on before the result": (
        lambda gpu, patch: patch.setattr(gpu.runtime, "follow", _nothing),
        r"use .* reads what .* launch .* writes: nothing puts them in order",
    ),
    "kernels run on the caller's stream": (
        lambda gpu, patch: patch.setattr(
            gpu.runtime.numba_cuda, "external_stream", lambda _: gpu.order.stream_at(0, 0)
        ),
        r"launch .* reads what .* decode .* writes: nothing puts them in order",
    ),
    "a batch is not ordered before its consumer": (
        lambda gpu, patch: patch.setattr(gpu.runtime.CudaRuntime, "follow", _nothing),
        r"use .* reads what .* launch .* writes: nothing puts them in order",
    ),
    "the event after a result's reader is of another stream": (
        _results_given_back_on_the_current_stream,
        r"launch .* writes what .* use .* reads: nothing puts them in order",
    ),
    "results of a loader are of CuPy's pool": (
        lambda gpu, patch: patch.setattr(
            gpu.runtime.CudaRuntime, "empty", lambda self, elements, dtype: gpu.cupy.empty(elements, dtype)
        ),
        r"launch .* writes what .* use .* reads: nothing puts them in order",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(faulty: Standin, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    put_in, words = FAULTS[fault]
    put_in(faulty, monkeypatch)
    much_work(faulty)
    assert any(re.search(words, problem) for problem in faulty.problems)


def test_a_loader_that_waits_for_its_consumer_is_found(gpu: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu.runtime.CudaRuntime, "_in_lane", False)
    with gpu.stream() as stream:
        kept = []
        for batch in load(Source(40)):
            gpu.use(batch.images)
            kept.append(batch)
    assert waits_of_loaders(gpu, stream.key)


A, B = (0, 1), (0, 2)


def test_what_is_in_order() -> None:
    order = Order()
    low = order.new_chunk(64)
    memory = (low, low + 64)
    order.enqueue(A, "write", writes=[memory])
    order.enqueue(A, "read", reads=[memory])
    recorded, clock = order.record(A)
    order.stream_waits(B, recorded, clock)
    order.enqueue(B, "write", writes=[memory])
    order.host_waits("stream", order.clock_of([B]))
    order.enqueue(A, "decode", writes=[memory], file="a")
    order.enqueue(A, "decode", writes=[memory], file="a")  # the same again
    assert order.problems == []


@pytest.mark.parametrize("after", ["nothing", "event", "same stream"])
def test_a_decoder_waits_for_nothing_but_the_host(after: str) -> None:
    order = Order()
    low = order.new_chunk(64)
    order.enqueue(A, "write", writes=[(low, low + 64)])
    if after == "event":
        order.stream_waits(B, *order.record(A))
    order.enqueue(A if after == "same stream" else B, "decode", writes=[(low + 63, low + 64)], file="a")
    assert len(order.problems) == 1
    assert "the host did not wait" in order.problems[0]


def test_what_is_not_in_order() -> None:
    order = Order()
    low = order.new_chunk(64)
    order.enqueue(A, "read", reads=[(low, low + 8)])
    assert "nobody wrote" in order.problems.pop()
    order.enqueue(A, "write", writes=[(low, low + 32)])
    recorded, clock = order.record(A)
    order.enqueue(A, "write", writes=[(low + 32, low + 64)])
    order.stream_waits(B, recorded, clock)
    order.enqueue(B, "read", reads=[(low, low + 32)])
    assert order.problems == []
    order.enqueue(B, "read", reads=[(low, low + 33)])  # behind the event
    assert "nothing puts them in order" in order.problems.pop()
    order.enqueue(B, "write", writes=[(low + 60, low + 65)])
    assert "behind its array's end" in order.problems.pop(0)


def test_a_stream_knows_nothing_of_one_that_had_its_address() -> None:
    order = Order()
    low = order.new_chunk(64)
    order.enqueue(order.stream_at(0, 16), "write", writes=[(low, low + 64)])
    order.end_stream(16)
    order.enqueue(order.stream_at(0, 16), "read", reads=[(low, low + 64)])
    assert len(order.problems) == 1
