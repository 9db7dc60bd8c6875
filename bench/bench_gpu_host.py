"""What Python does for a batch on a GPU, measured without one: the device is replaced by calls that do nothing.

    python -m bench.bench_gpu_host [--rounds 30] [--out bench/results/gpu_host.json]

Of a whole batch of ``presets.imagenet_train`` in a loader's thread: headers, draws, records, the plan, what is told to
nvImageCodec (its real file headers and images, over memory of the host), uploads, launches and the hand-over. In place
of CuPy is a module over NumPy memory; its calls that let go of Python's lock on a GPU do so here, and do nothing else.
Decoding itself takes no time. Batches are made one after another by one thread, which is

- alone,
- beside a thread that is busy in Python: wherever it lets go of the lock, it may wait up to a switch interval, 5 ms.

``us`` is the wall time of an image, ``cpu_us`` the processor time of the thread that makes it; ``waits`` is how often a
batch had to wait for the lock, ``stubs_us`` what the calls of the device took by themselves, which is subtracted from
both. ``device_calls`` counts what a batch tells CuPy.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, Self

import numpy as np

import gpuimg as gi
from bench import photos
from bench.common import arguments, environment, write
from gpuimg._batch.batch import Batch
from gpuimg._batch.encoded import open_images
from gpuimg._decoding import nvimgcodec
from gpuimg._decoding.options import DecodeOptions
from gpuimg._plan.compile import compile_plan
from gpuimg._runtimes import devices, probe
from gpuimg.kernels import cuda as kernels

BATCHES = (64, 256)
LOCKED = ("Device", "eventCreate", "eventRecord", "malloc")  # calls of CuPy's that keep Python's lock
MAX_PIXELS = 1 << 28
_unlocked = ctypes.CDLL(None).getppid  # lets go of Python's lock for as short as can be

train = gi.presets.imagenet_train(224)


# -- the device --------------------------------------------------------------------------------------------------------


class Device:
    """What stands for CuPy, and how often its parts were called."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.cupy: Any = _cupy(self)

    def call(self, name: str) -> None:
        """Count one that keeps the lock."""
        self.calls[name] += 1

    def unlocked(self, name: str) -> None:
        """Count one that lets go of it."""
        self.calls[name] += 1
        _unlocked()


class _Memory:
    """Of an array: where it is, and copies: those to the device are not made."""

    def __init__(self, array: Any, device: Device) -> None:
        self.ptr: int = array.__array_interface__["data"][0]
        self.mem = array
        self._device = device

    def copy_from_host_async(self, address: int, size: int, stream: Any = None) -> None:
        self._device.unlocked("memcpyAsync")

    def copy_to_host_async(self, address: int, size: int, stream: Any = None) -> None:
        self._device.unlocked("memcpyAsync")
        ctypes.memmove(address, self.ptr, size)  # flags, which say that all is well

    def memset_async(self, value: int, size: int, stream: Any = None) -> None:
        self._device.unlocked("memsetAsync")


def _cupy(device: Device) -> Any:
    """As much of CuPy as the runtime needs for a batch of JPEGs."""
    streams: list[Any] = [None]

    class Array(np.ndarray[Any, Any]):
        @property
        def data(self) -> Any:
            return _Memory(self, device)

        def set(self, values: Any) -> None:
            device.unlocked("memcpyAsync")

    class Stream:
        def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
            self.ptr = 0 if null else id(self)

        def __enter__(self) -> Self:
            streams.append(self)
            return self

        def __exit__(self, *_: object) -> None:
            streams.pop()

        def synchronize(self) -> None:
            device.unlocked("streamSynchronize")

        def record(self, event: Any) -> None:
            device.call("eventRecord")

    class Event:
        done = True

        def __init__(self, disable_timing: bool = False) -> None:
            self.ptr = id(self)
            device.call("eventCreate")

        def record(self, stream: Any = None) -> None:
            device.call("eventRecord")

        def synchronize(self) -> None:
            device.unlocked("eventSynchronize")

    class TheDevice:
        compute_capability = "90"
        id = 0

        def __init__(self, number: int = 0) -> None:
            device.call("Device")

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def synchronize(self) -> None:
            device.unlocked("deviceSynchronize")

    class UnownedMemory:
        def __init__(self, ptr: int, size: int, owner: Any, device_id: int = -1) -> None:
            self.ptr, self.size, self.owner = ptr, size, owner

    class MemoryPointer:
        def __init__(self, mem: Any, offset: int) -> None:
            self.mem, self.ptr = mem, mem.ptr + offset

    class Owned(Array):
        owner: Any

    def array(shape: Any, dtype: Any = float, memptr: Any = None) -> Any:
        memory = (ctypes.c_uint8 * memptr.mem.size).from_address(memptr.ptr)
        found = np.frombuffer(memory, dtype).reshape(shape).view(Owned)
        found.owner = memptr.mem.owner
        return found

    def empty(shape: Any, dtype: Any = float) -> Any:
        device.call("malloc")
        return np.empty(shape, dtype).view(Array)

    module: Any = ModuleType("cupy")
    cuda: Any = ModuleType("cupy.cuda")

    def zeros(shape: Any, dtype: Any = float) -> Any:
        device.unlocked("memsetAsync")
        found = empty(shape, dtype)
        found[...] = 0
        return found

    module.ndarray, module.empty, module.zeros, module.cuda = array, empty, zeros, cuda
    for name in ("int16", "uint8", "int32", "int64", "float32"):
        setattr(module, name, getattr(np, name))
    null = Stream(null=True)
    cuda.Device, cuda.Event, cuda.Stream = TheDevice, Event, Stream
    cuda.MemoryPointer, cuda.UnownedMemory = MemoryPointer, UnownedMemory
    cuda.get_current_stream = lambda: streams[-1] or null
    cuda.alloc_pinned_memory = lambda size: np.empty(size, np.uint8)
    cuda.runtime = SimpleNamespace(
        getDeviceCount=lambda: 1,
        eventRecord=lambda event, stream: device.call("eventRecord"),
        streamWaitEvent=lambda stream, event: device.unlocked("streamWaitEvent"),
    )
    cuda.driver = SimpleNamespace(launchKernel=lambda *_: device.unlocked("launchKernel"))
    module_of_code = SimpleNamespace(load=lambda code: None, get_function=lambda entry: SimpleNamespace(ptr=1))
    cuda.function = SimpleNamespace(Module=lambda: module_of_code)
    return module


def _library(device: Device) -> Any:
    """nvImageCodec, but for the decoder."""
    real = nvimgcodec.library()

    class Decoder:
        def __init__(self, **_: Any) -> None:
            pass

        def decode(self, streams: Any, *, images: Any = None, **_: Any) -> Any:
            device.unlocked("decode")
            return images

    names = ("CodeStream", "Backend", "ColorSpec", "DecodeParams", "HW_GPU_ONLY", "HYBRID_CPU_GPU")
    return SimpleNamespace(**{name: getattr(real, name) for name in names}, Decoder=Decoder, as_images=real.as_images)


class HostImage:
    """What :class:`nvimgcodec.DeviceImage` is, for memory of the host."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, shape: tuple[int, int, int], stream: int) -> None:
        self.__array_interface__ = {
            "shape": shape, "typestr": "|u1", "data": (address, False), "strides": None, "version": 3
        }  # fmt: skip


@contextmanager
def replaced_device() -> Iterator[Device]:
    """Let ``device="cuda:0"`` be one that does nothing."""
    device = Device()
    library = _library(device)
    modules = {"cupy": device.cupy, "cupy.cuda": device.cupy.cuda}
    places: list[tuple[Any, str, Any]] = [
        (probe, "gpu_problem", lambda: None),
        (nvimgcodec, "library", lambda: library),
        (nvimgcodec, "DeviceImage", HostImage),
        (kernels.Kernel, "image", lambda kernel, capability: kernels.Image(kernel.name, b"")),
    ]
    before = [getattr(place, name) for place, name, _ in places]
    sys.modules.update(modules)
    for place, name, value in places:
        setattr(place, name, value)
    try:
        yield device
    finally:
        devices._cuda.cache_clear()
        for (place, name, _), value in zip(places, before, strict=True):
            setattr(place, name, value)
        for name in [name for name in sys.modules if name in modules or name.startswith("gpuimg._runtimes.cuda")]:
            del sys.modules[name]


# -- the batch ---------------------------------------------------------------------------------------------------------


class Work:
    """Batches as a loader's thread makes them."""

    def __init__(self, device: Device, files: list[bytes]) -> None:
        self.device = device
        self.files = files
        self.indices = np.arange(len(files))
        self.runtime = devices.runtime_for("cuda:0")
        self.memory = self.runtime.result_memory(None)

    def opened(self) -> Any:
        """Files with their headers."""
        return open_images(self.files, DecodeOptions(max_pixels=MAX_PIXELS), "fill")

    def recorded(self, opened: Any) -> Batch:
        """What is to be done to them."""
        return train(Batch(self.runtime, opened), gi.Rng(0, epoch=1, indices=self.indices))

    def batch(self) -> None:
        """All of one batch, until its consumer lets go of it."""
        with self.runtime.private_stream():
            images = self.recorded(self.opened())._array_in(self.memory.take, "float16", "NCHW")
            event = self.runtime.record_event()
        self.runtime.wait_event(event, None)
        del images

    def stages(self) -> dict[str, Callable[[], object]]:
        """Parts of the work that can be called by themselves."""
        opened = self.opened()
        recorded = self.recorded(opened)
        decoder = nvimgcodec.gpu_decoder(0, (9, 0), 2)
        assert decoder is not None
        for_engine = nvimgcodec.for_engine(opened.headers, nvimgcodec.hardware_share()).tolist()
        memory = [np.empty((*size, 3), np.uint8) for size in opened.sizes.tolist()]
        outs = [HostImage(one.ctypes.data, one.shape, 0) for one in memory]
        return {
            "headers": self.opened,
            "record": lambda: self.recorded(opened),
            "plan": lambda: compile_plan(recorded._plan),
            "nvimgcodec": lambda: decoder.decode(opened.data, outs, for_engine, "rgb", 0),
        }


def stub_seconds(calls: Counter[str]) -> float:
    """What so many calls of the device take by themselves."""
    device = Device()
    begin = time.perf_counter()
    for name, count in calls.items():
        call = device.call if name in LOCKED else device.unlocked
        for _ in range(count):
            call(name)
    return time.perf_counter() - begin


@contextmanager
def busy_thread() -> Iterator[None]:
    """Another thread computes in pure Python meanwhile."""
    stop = False

    def spin() -> None:
        value = 0
        while not stop:
            for k in range(1000):
                value = (value * 31 + k) & 0xFFFF

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        yield
    finally:
        stop = True
        thread.join()


def measured(run: Callable[[], object], images: int, rounds: int, less: float = 0.0) -> dict[str, float]:
    """Microseconds of an image, medians of some rounds, and waits of a batch."""
    walls, cpus, waits = [], [], []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        wall, cpu = time.perf_counter(), time.thread_time()
        run()
        cpus.append(time.thread_time() - cpu - less)
        walls.append(time.perf_counter() - wall - less)
        waits.append(resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before)
    each = 1e6 / images
    return {
        "us": round(each * float(np.median(walls)), 2),
        "us_mean": round(each * float(np.mean(walls)), 2),
        "cpu_us": round(each * float(np.median(cpus)), 2),
        "waits": round(float(np.mean(waits)), 2),
    }


def of_batch(files: list[bytes], rounds: int) -> dict[str, Any]:
    """All figures of batches of these files."""
    n = len(files)
    with replaced_device() as device:
        work = Work(device, files)
        for _ in range(5):  # loads kernels, fills pools
            work.batch()
        device.calls.clear()
        work.batch()
        calls = Counter(device.calls)
        stubs = min(stub_seconds(calls) for _ in range(20))
        found: dict[str, Any] = {
            "alone": measured(work.batch, n, rounds, stubs),
            "stages_cpu_us": {name: measured(run, n, rounds)["cpu_us"] for name, run in work.stages().items()},
            "stubs_us": round(1e6 * stubs / n, 2),
            "device_calls": dict(sorted(calls.items())),
        }
        with busy_thread():
            found["beside a busy thread"] = measured(work.batch, n, rounds, stubs)
    return found


def main() -> None:
    """Measure, print, and write the result."""
    options = arguments(__doc__, "gpu_host.json", rounds=30).parse_args()
    files = photos.load()
    result = {str(n): of_batch(files[:n], options.rounds) for n in BATCHES}
    load = round(os.getloadavg()[0], 1)  # others' work shows in the wall times
    write({**environment(photos.summary(files), options.rounds), "load_average": load, "batches": result}, options.out)


if __name__ == "__main__":
    main()
