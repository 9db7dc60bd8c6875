"""The order of operations of loaders on a fake GPU that runs everything as late as it may."""

import ctypes
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from tests.fakecuda import FakeGpu, file
from tests.fakecuda.work import (
    PREPROCESS,
    Source,
    arrays_of,
    epoch,
    files,
    load,
    small,
    told,
    waits_for,
    waits_of_loaders,
)
from tests.libraries import library, needs
from tests.video.videos import BUILDS, make

needs("numba_cuda")


@pytest.mark.parametrize("preprocess", PREPROCESS)
@pytest.mark.parametrize("held", [0, 1, 3])
@pytest.mark.parametrize("decoders", [1, 2, 3])
def test_loaders(gpu: FakeGpu, decoders: int, held: int, preprocess: str) -> None:
    """Two epochs with a smaller batch between them, and consumers that keep some of the batches."""
    loader = load(Source(30), PREPROCESS[preprocess], decoders=decoders, epochs=2)
    assert epoch(gpu, loader, held) == 16
    lanes = {(op.thread, op.stream) for op in gpu.order.log if op.thread.startswith("gpuimg-decode") and op.stream}
    workers = {thread for thread, _ in lanes}
    assert len(lanes) == len({stream for _, stream in lanes}) == 2 * len(workers)  # for the decoder, and for kernels
    assert len(workers) <= decoders
    assert (0, 0) not in {stream for _, stream in lanes}


@pytest.mark.parametrize("layout", ["NTHWC", "NCTHW"])
@pytest.mark.parametrize("views", [1, 2])
def test_loaders_of_clips(gpu: FakeGpu, views: int, layout: str) -> None:
    video = make(BUILDS["h264"], frames=12)

    def several(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
        x = x.take(np.tile(np.arange(len(rng)), views))
        return gi.random_resized_crop(x, 12, rng=rng.views(views))

    source = [(video, k) for k in range(14)]
    loader = load(source, several, clips=gi.Clips(3, 2), layout=layout, decoders=2, epochs=2)
    for held in (0, 1):
        assert epoch(gpu, loader, held) == 8


FORMS: dict[str, Callable[[int], Any]] = {
    "cupy": lambda address: library("cupy").cuda.Stream.from_external(FORMS["method"](address)),
    "cuda.core": lambda address: library("cuda.core").Stream.from_handle(address),
    "cuda.core, legacy": lambda address: library("cuda.core").LEGACY_DEFAULT_STREAM,
    "cuda.bindings": lambda address: library("cuda.bindings.driver").CUstream(address),
    "numba-cuda": lambda address: library("numba.cuda.cudadrv.driver").Stream(FORMS["cuda.bindings"](address)),
    "numba": lambda address: SimpleNamespace(handle=ctypes.c_void_p(address)),
    # Its class takes a GPU, its method an address.
    "torch": lambda address: SimpleNamespace(
        __cuda_stream__=partial(library("torch").cuda.Stream.__cuda_stream__, FORMS["torch 2.3"](address))
    ),
    "torch 2.3": lambda address: SimpleNamespace(cuda_stream=address),
    "method": lambda address: SimpleNamespace(__cuda_stream__=lambda: (0, address)),
    "property": lambda address: SimpleNamespace(__cuda_stream__=(0, address)),
    "address": int,
    "NumPy's": np.uint64,
}


@pytest.mark.parametrize("preprocess", ["small", "ragged", "mixed", "growing"])
@pytest.mark.parametrize("given", ["address", "method", None])
def test_a_consumer_on_a_separate_stream(gpu: FakeGpu, given: str | None, preprocess: str) -> None:
    stream = gpu.stream()
    loader = load(Source(30), PREPROCESS[preprocess], stream=FORMS[given](stream.ptr) if given else None)
    kept: list[Any] = []
    for batch in loader if given else in_stream(loader, stream):
        with stream:
            gpu.use_all(arrays_of(batch))
        kept = [*kept, batch][-2:]  # dropped outside the stream's block
        del batch
    assert kept


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("default", [False, True])
def test_every_form_of_a_stream(gpu: FakeGpu, form: str, default: bool) -> None:
    """Of a consumer that has one current only while it reads."""
    stream = gpu.cupy.cuda.Stream.null if default or "legacy" in form else gpu.stream()
    for batch in load(Source(12), stream=FORMS[form](stream.ptr)):
        with stream:
            gpu.use(batch.images)


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


def test_arrays_that_preprocess_made_itself(gpu: FakeGpu) -> None:
    """They are of CuPy's pool, which would have them again when the consumer drops them."""

    def copied(x: gi.Batch, rng: gi.Rng) -> Any:
        images = gi.resize(x, (12, 12)).array()
        copy = gpu.cupy.empty(images.shape, np.uint8)
        copy[:] = images
        return copy

    epoch(gpu, load(Source(40), copied, decoders=2))
    epoch(gpu, load(Source(40), lambda x, rng: list(copied(x, rng)), decoders=2))


def test_memory_that_the_garbage_collector_gives_back_on_a_loaders_thread(gpu: FakeGpu) -> None:
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


WAYS = ["full", "break", "close", "with", "next", "error"]
BASELINE = [(file(20, 20, progressive=False), 0)] * 40


def leave(gpu: FakeGpu, loader: Any, way: str) -> None:
    """Begin a loop, and leave it in some way."""
    with suppress(ZeroDivisionError), loader if way == "with" else nullcontext():
        for batch in [next(iter(loader))] if way == "next" else loader:
            gpu.use_all(arrays_of(batch))
            del batch
            if way == "error":
                raise ZeroDivisionError
            if way != "full":
                break
    if way == "close":
        loader.close()


@pytest.mark.parametrize("kernels", [False, True], ids=["nvimagecodec", "kernels"])
@pytest.mark.parametrize("preprocess", ["small", "ragged", "mixed"])
@pytest.mark.parametrize("way", WAYS)
def test_loops_that_are_left_early(gpu: FakeGpu, way: str, preprocess: str, kernels: bool) -> None:
    """Prefetched batches may be unfinished when a garbage collection, in any order, gives their memory back."""
    source: Any = BASELINE if kernels else Source(40)
    for _ in range(3):
        leave(gpu, load(source, PREPROCESS[preprocess], decoders=3, prefetch=3), way)
        gc.collect()
    epoch(gpu, load(source, PREPROCESS[preprocess]))


def test_a_result_may_return_after_its_event_was_destroyed(gpu: FakeGpu) -> None:
    """By the collector, with the reference cycle of a loop that was left."""
    loader = load(BASELINE[:8], small)
    batch = next(iter(loader))
    loader.close()
    events = [one for one in gc.get_objects() if type(one).__name__ == "_LastUse" and one.ptr]
    assert events
    for event in events:
        event.__del__()
    del batch
    gc.collect()


@pytest.mark.slow
def test_a_thousand_loops_leave_nothing(gpu: FakeGpu) -> None:
    left = []
    for number in range(1000):
        leave(gpu, load(BASELINE[:12], small, decoders=2), WAYS[number % len(WAYS)])
        gpu.cupy.cuda.Device().synchronize()  # else nothing is ever done
        gc.collect()
        if number in (99, 999):
            left.append(gpu.cuda.left())
        gpu.order.log.clear()
    assert left[1]["streams"] == left[0]["streams"]
    assert all(left[1][name] - left[0][name] <= 4 for name in ("events", "pinned"))  # a loop may overlap more
    assert left[1]["bytes"] - left[0]["bytes"] < 50_000


@pytest.mark.parametrize("preprocess", ["small", "ragged", "mixed", "growing"])
@pytest.mark.parametrize("on_error", ["skip", "fill"])
def test_loaders_with_bad_images(gpu: FakeGpu, on_error: str, preprocess: str) -> None:
    loader = load(Source(30, "broken"), PREPROCESS[preprocess], on_error=on_error, decoders=3)
    with pytest.warns(RuntimeWarning, match="could not be decoded"):
        epoch(gpu, loader, 1)
    assert len(loader.failures) == 4


@pytest.mark.parametrize("decoders", [1, 3])
def test_loaders_with_images_that_nvimagecodec_did_not_write(gpu: FakeGpu, decoders: int) -> None:
    """One warning, and how many there were."""
    loader = load(Source(30, "skipped"), decoders=decoders)
    with told("skipped") as caught:
        epoch(gpu, loader, 1)
    assert len(caught) == 1
    assert len(loader.failures) == 0
    assert loader.stats()["unwritten"] == 4
    good = load(Source(30))
    epoch(gpu, good)
    assert "unwritten" not in good.stats()


@pytest.mark.parametrize("fate", ["broken", "memory"])
def test_loaders_that_end_with_an_error(gpu: FakeGpu, fate: str) -> None:
    loader = load(Source(30, fate), decoders=3)
    for _ in range(3):
        with pytest.raises(MemoryError if fate == "memory" else gi.DecodeError):
            epoch(gpu, loader, 1)
    epoch(gpu, load(Source(30)))


@pytest.mark.parametrize("preprocess", PREPROCESS)
def test_two_devices(gpu: FakeGpu, preprocess: str) -> None:
    loader = load(Source(40), PREPROCESS[preprocess], device=None, devices=["cuda:0", "cuda:1"], decoders=2)
    for k, batch in enumerate(loader):
        with gpu.cupy.cuda.Device(k % 2):
            for array in arrays_of(batch):
                assert array.device.id == k % 2
                gpu.use(array)
        del batch, array


def test_loaders_run_beside_the_capture_of_a_graph(gpu: FakeGpu) -> None:
    """Of the caller's thread: others may then allocate and query only in the relaxed mode."""
    loop = iter(load(Source(40), decoders=1))
    stream = gpu.stream()
    stream.begin_capture()
    batches = [next(loop) for _ in range(3)]
    gpu.cuda.capturing = None
    assert len([*batches, *loop]) == 10


def test_nvimagecodec_on_the_second_device(gpu: FakeGpu) -> None:
    """Its two decoders run side by side: a thread that helps begins with the first device as its current one."""
    data = [file(200, 200, progressive=k % 2 == 0) for k in range(8)]
    for _ in range(20):
        gi.decode_batch(data, device="cuda:1", decoder="nvimagecodec")
    assert len({op.told["name"] for op in gpu.order.of("call")}) == 2  # both decoders


# -- waiting -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preprocess", PREPROCESS)
def test_a_loader_does_not_wait_for_what_its_consumer_computes(gpu: FakeGpu, preprocess: str) -> None:
    """As long as the consumer keeps its batches, nothing of a loader depends on the consumer's stream."""
    with gpu.stream() as stream:
        kept = []
        for batch in load(Source(40), PREPROCESS[preprocess], decoders=2):
            gpu.use_all(arrays_of(batch))
            kept.append(batch)
    assert waits_of_loaders(gpu, gpu.key(stream)) == []


@pytest.mark.parametrize("preprocess", ["small", "ragged", "mixed", "float_mixed", "growing"])
def test_kernels_wait_for_what_read_the_memory_they_write_again(gpu: FakeGpu, preprocess: str) -> None:
    """The GPU runs them after the decoding of their batch: neither host nor decoder waits for the consumer."""
    with gpu.stream() as stream:
        epoch(gpu, load(Source(40), PREPROCESS[preprocess], decoders=2))
    assert waits_for(gpu, gpu.key(stream), "host wait") == []
    waits = waits_for(gpu, gpu.key(stream), "stream wait")
    assert waits
    for wait in waits:
        later = gpu.order.log[wait.number :]
        ops = (op for op in later if op.thread == wait.thread and op.kind in ("decode", "launch"))
        assert next(ops).kind == "launch"


def test_the_host_waits_for_what_read_the_memory_that_a_decoder_writes_again(gpu: FakeGpu) -> None:
    with gpu.stream() as stream:
        epoch(gpu, load(Source(40), None, decoders=2))
    assert waits_for(gpu, gpu.key(stream), "host wait")
    assert waits_for(gpu, gpu.key(stream), "stream wait") == []


@pytest.mark.parametrize("preprocess", ["small", "blurred", "mixed"])
def test_a_batch_is_decoded_while_the_one_before_is_computed(gpu: FakeGpu, preprocess: str) -> None:
    """A lane's host does not wait for the last work on its own stream if files need no separate copy."""
    with gpu.stream():
        epoch(gpu, load([(data, 0) for data in files([(40, 56)] * 40)], PREPROCESS[preprocess], decoders=1))
    lane = [op for op in gpu.order.log if op.thread.startswith("gpuimg-decode")]
    decodes = [k for k, op in enumerate(lane) if op.kind == "decode"][::4]
    launches = [k for k, op in enumerate(lane) if op.kind == "launch"]
    others = {op.number for op in gpu.waits}
    for k, later in pairwise(decodes[3:]):
        last = max(at for at in launches if at < later)
        waits = [op for op in lane[k:later] if op.number in others]
        assert waits
        assert all(op.told["recorded"].number < lane[k].number < lane[last].number for op in waits)


# -- streams that are gone ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preprocess", ["small", "ragged", "nothing"])
def test_a_consumer_whose_stream_is_destroyed_before_its_batches(gpu: FakeGpu, preprocess: str) -> None:
    """The work that reads them is waited for all the same, and the memory is not lost."""
    stream = gpu.stream()
    loader = load(Source(12), PREPROCESS[preprocess], stream=stream.ptr, epochs=None)
    batches = iter(loader)
    kept = [next(batches) for _ in range(3)]
    with stream:
        for batch in kept:
            gpu.use_all(arrays_of(batch))
    del stream, batch
    spare = len(loader._memory[0]._spare)  # type: ignore[attr-defined]
    kept.clear()
    if preprocess == "small":
        assert len(loader._memory[0]._spare) >= spare + 1  # type: ignore[attr-defined]
    assert "device" in {op.told["name"] for op in gpu.order.of("host wait")}
    with gpu.stream():  # at the address of the one that is gone
        for _ in range(4):
            next(batches)  # later batches reuse that memory
    loader.close()


def test_a_consumers_current_stream_lives_as_long_as_its_batches(gpu: FakeGpu) -> None:
    batches = iter(load(Source(40), small))
    with gpu.stream() as stream:
        kept = [next(batches) for _ in range(3)]
    gone, key = weakref.ref(stream), gpu.key(stream)
    del stream
    assert gone() is not None
    kept.clear()
    assert key in {op.stream for op in gpu.order.of("record")}


def test_a_consumer_on_the_per_thread_default_stream(gpu: FakeGpu) -> None:
    """Its address names another stream on a thread that lets go of a batch."""
    with gpu.cupy.cuda.Stream.ptds:
        epoch(gpu, load(Source(16), small))
    records = [op for op in gpu.order.of("record") if op.stream == (0, 2)]
    assert records == []


def test_arrays_of_a_source_are_uploaded(gpu: FakeGpu) -> None:
    images = [np.random.default_rng(k).integers(0, 256, (20 + k, 30, 3), np.uint8) for k in range(14)]
    loader = load([(image, k) for k, image in enumerate(images)], PREPROCESS["small"], decoders=2, epochs=2)
    assert epoch(gpu, loader, 1) == 8
