"""The part of CuPy that the CUDA runtime uses, over NumPy memory; all device operations are recorded.

What is copied and filled is done at once, so that a test sees what came where; kernels compute nothing.

The memory pool is CuPy's in what matters: memory goes back to the stream it was allocated on when its last reference
dies, and the next allocation there has it at once, whatever still uses it on other streams. Streams are known by their
addresses, and a new one has the address of one that is gone, as CUDA's do.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import threading
from collections import deque
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, Self

import numpy as np

from .order import Clock, Op, Order, Stream

_UNIT = 512  # bytes that sizes are rounded up to, as CuPy's pool does
DEVICES = 2


def _host(address: int, size: int) -> Any:
    """Memory of the host."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


class _Thread(threading.local):
    """CuPy's state of a thread: the device, and each device's stream; and CUDA's: the device whose context it has."""

    def __init__(self) -> None:
        self.context: int | None = None
        self.devices = [0]
        self.streams: list[list[Any]] = [[None] for _ in range(DEVICES)]
        self.entered: list[int] = []


class OutOfMemoryError(MemoryError):
    """The error that CuPy raises."""


class CUDARuntimeError(RuntimeError):
    """The other error that CuPy raises."""


class Pool:
    """Memory of one device: free blocks of each stream."""

    def __init__(self, order: Order, device: int) -> None:
        self._order = order
        self._device = device
        self._free: dict[int, list[tuple[int, int]]] = {}  # by the address of the stream
        self._returned: deque[tuple[int, int, int]] = deque()  # by destructors, which may run anywhere
        self.refuse_above: int | None = None

    def take(self, size: int, stream: int) -> int:
        """Address of a block."""
        rounded = max(-(-size // _UNIT), 1) * _UNIT
        order = self._order
        with order.lock:
            while self._returned:
                owner, address, length = self._returned.popleft()
                self._free.setdefault(owner, []).append((address, length))
            if self.refuse_above is not None and size > self.refuse_above:
                raise OutOfMemoryError(f"Out of memory allocating {size} bytes")
            free = self._free.setdefault(stream, [])
            fitting = [block for block in free if block[1] >= rounded]
            if fitting:
                block = min(reversed(fitting), key=lambda block: block[1])
                free.remove(block)
                address, length = block
                if length > rounded:
                    free.append((address + rounded, length - rounded))
            else:
                address = order.new_chunk(rounded)
            order.forget(address, address + rounded)
            order.note("allocate", (self._device, stream), size=size, address=address, again=bool(fitting))
            return address

    def give(self, stream: int, address: int, size: int) -> None:
        """Take a block back."""
        self._returned.append((stream, address, max(-(-size // _UNIT), 1) * _UNIT))


class _Lease:
    """A block's lease, which releases it when it is collected."""

    def __init__(self, pool: Pool, stream: int, address: int, size: int) -> None:
        self._pool = pool
        self._block = stream, address, size

    def __del__(self) -> None:
        self._pool.give(*self._block)


class _Block:
    def __init__(self, pool: Pool, size: int, stream: int, device: Any) -> None:
        self.ptr = pool.take(size, stream)
        self.device = device
        # The garbage collector does not look into an array. It must not see a destructor here, as it sees none of
        # CuPy's: it runs those of everything in a cycle, even of what another destructor keeps alive.
        self._lease = np.array([_Lease(pool, stream, self.ptr, size)], object)


def make(order: Order) -> tuple[ModuleType, list[Pool]]:
    """A module that passes for ``cupy``, and the memory of its devices."""
    local = _Thread()
    pools = [Pool(order, device) for device in range(DEVICES)]
    addresses = list(range(0x10000, 0x1000, -0x10))

    def set_device(device: int) -> None:
        local.devices[-1] = local.context = device

    class Device:
        def __init__(self, device: int | None = None) -> None:
            self.id = local.devices[-1] if device is None else device

        compute_capability = "90"

        def __enter__(self) -> Self:
            if self.id != local.devices[-1]:
                local.context = self.id  # CuPy leaves a device that is current as it is, and a thread without a context
            local.devices.append(self.id)
            return self

        def __exit__(self, *_: object) -> None:
            if local.devices.pop() != local.devices[-1]:
                local.context = local.devices[-1]

        def synchronize(self) -> None:
            order.host_waits("device", order.clock_of(device=self.id))

    handles = itertools.count(1)
    events: dict[int, tuple[int, Op | None, Clock]] = {}  # of each handle: the device, and what it follows

    def event(handle: int) -> tuple[int, Op | None, Clock]:
        if handle not in events:
            order.found("an event is used that was destroyed")
        return events.get(handle, (local.devices[-1], None, {}))

    def event_record(handle: int, stream: int) -> None:
        if stream not in alive:
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
        key, (device, _, _) = ExternalStream(stream).key, event(handle)
        if key[0] != device:
            order.found(f"an event of device {device} is recorded on stream {key}")
        events[handle] = (device, *order.record(key))

    def event_wait(stream: int, handle: int, flags: int = 0) -> None:
        _, recorded, clock = event(handle)
        order.stream_waits(ExternalStream(stream).key, recorded, clock)

    class Event:
        def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
            self.ptr = next(handles)
            events[self.ptr] = local.devices[-1], None, {}

        def __del__(self) -> None:  # as CuPy's, which keeps ``ptr``
            events.pop(self.ptr, None)

        def record(self, stream: Any = None) -> None:
            event_record(self.ptr, (stream or get_current_stream()).ptr)

        def synchronize(self) -> None:
            _, recorded, clock = event(self.ptr)
            order.host_waits("event", clock, recorded)

        @property
        def done(self) -> bool:
            return order.is_done(event(self.ptr)[2])

    class ExternalStream:
        def __init__(self, ptr: int, device_id: int = -1) -> None:
            self.ptr = ptr
            self.device_id = local.devices[-1] if device_id == -1 else device_id

        @property
        def key(self) -> Stream:
            # The null stream's address is that of each device's.
            return order.stream_at(self.device_id if self.ptr else local.devices[-1], self.ptr)

        def __enter__(self) -> Self:
            device = local.devices[-1]
            if self.ptr and self.device_id != device:
                raise RuntimeError(f"stream of device {self.device_id} used on device {device}")
            local.streams[device].append(self)
            local.entered.append(device)
            return self

        def __exit__(self, *_: object) -> None:
            local.streams[local.entered.pop()].pop()

        def record(self, event: Any = None) -> Any:
            event = event or Event()
            event.record(self)
            return event

        def wait_event(self, event: Any) -> None:
            event_wait(self.ptr, event.ptr)

        def synchronize(self) -> None:
            order.host_waits("stream", order.clock_of([self.key]))

    alive = {0, 1, 2}  # addresses: of the default streams, and of those that were created

    class StreamOfOurs(ExternalStream):
        def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
            super().__init__(0 if null else addresses.pop())
            alive.add(self.ptr)
            self._key = None if null else order.stream_at(self.device_id, self.ptr)
            if not null and not non_blocking:
                order.found("a stream that waits for the null stream was made")

        @property
        def key(self) -> Stream:
            return super().key if self._key is None else self._key

        def __del__(self) -> None:
            if self.ptr:
                order.end_stream(self.ptr)
                alive.discard(self.ptr)
                addresses.append(self.ptr)

    null = StreamOfOurs(null=True)

    def get_current_stream(device_id: int = -1) -> Any:
        stream = local.streams[local.devices[-1] if device_id == -1 else device_id][-1]
        return stream or null

    class MemoryPointer:
        def __init__(self, mem: Any, offset: int) -> None:
            self.mem = mem
            self.ptr = mem.ptr + offset

        def memset_async(self, value: int, size: int, stream: Any = None) -> None:
            key = (stream or get_current_stream()).key
            order.content(self.ptr, self.ptr + size)[:] = value
            order.enqueue(key, "fill", writes=[(self.ptr, self.ptr + size)])

        def copy_from_host_async(self, mem: int, size: int, stream: Any = None) -> None:
            key = (stream or get_current_stream()).key
            host = _host(mem, size)
            before = host.copy()
            order.content(self.ptr, self.ptr + size)[:] = host
            order.enqueue(key, "upload", writes=[(self.ptr, self.ptr + size)], bytes=size, pinned=True)

            def check() -> None:
                if not np.array_equal(host, before):
                    order.found("pinned memory was changed before its copy was done")

            order.when_done(key, check)

        def copy_to_host_async(self, mem: int, size: int, stream: Any = None) -> None:
            key = (stream or get_current_stream()).key
            content, host = order.content(self.ptr, self.ptr + size).copy(), _host(mem, size)
            host[:] = 0xA5
            order.enqueue(key, "download", reads=[(self.ptr, self.ptr + size)], bytes=size)
            order.when_done(key, lambda: np.copyto(host, content))

    class UnownedMemory:
        def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
            self.ptr = ptr
            self.size = size
            self.owner = owner
            self.device = Device(device_id)

    class ndarray:  # noqa: N801 - as CuPy's
        def __init__(self, shape: Any, dtype: Any = float, memptr: Any = None, values: Any = None) -> None:
            kind = np.dtype(dtype)
            shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
            if memptr is None:
                memptr = MemoryPointer(_allocate(math.prod(shape) * kind.itemsize), 0)
            if values is None:
                size = math.prod(shape) * kind.itemsize
                values = order.content(memptr.ptr, memptr.ptr + size).view(kind).reshape(shape)
            self.data = memptr
            self.values = values
            self.shape = values.shape
            self.dtype = values.dtype
            self.size = values.size
            self.nbytes = values.nbytes
            self.ndim = values.ndim
            self.flags = values.flags
            self.device = memptr.mem.device

        def __len__(self) -> int:
            return len(self.values)

        def _same_memory(self, values: Any) -> Any:
            moved = values.__array_interface__["data"][0] - self.values.__array_interface__["data"][0]
            pointer = MemoryPointer(self.data.mem, self.data.ptr - self.data.mem.ptr + (moved if values.size else 0))
            return ndarray(values.shape, values.dtype, pointer, values)

        @property
        def range(self) -> tuple[int, int]:
            low, high = np.lib.array_utils.byte_bounds(self.values)
            first = self.data.ptr - self.values.__array_interface__["data"][0]
            return first + low, first + high

        def __iter__(self) -> Iterator[Any]:
            return (self[k] for k in range(len(self)))

        def reshape(self, *shape: Any) -> Any:
            return self._same_memory(self.values.reshape(*shape))

        def swapaxes(self, one: int, other: int) -> Any:
            return self._same_memory(self.values.swapaxes(one, other))

        def view(self, dtype: Any) -> Any:
            return self._same_memory(self.values.view(dtype))

        def __getitem__(self, index: Any) -> Any:
            return self._same_memory(self.values[index])

        def transpose(self, *axes: Any) -> Any:
            return self._same_memory(self.values.transpose(*axes))

        def get(self) -> Any:
            return self.values

        def astype(self, dtype: Any) -> Any:
            result = ndarray(self.shape, dtype)
            result.values[...] = self.values
            order.enqueue(_key(), "arithmetic", reads=[self.range], writes=[result.range])
            return result

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any) -> Any:
            arrays = [one for one in inputs if isinstance(one, ndarray)]
            with np.errstate(all="ignore"):  # of memory that nothing was written to
                ufunc(*(one.values if isinstance(one, ndarray) else one for one in inputs), out=out[0].values)
            order.enqueue(_key(), "arithmetic", reads=[one.range for one in arrays], writes=[out[0].range])
            return out[0]

        def __setitem__(self, index: Any, value: Any) -> None:
            target = self[index]
            if not isinstance(value, ndarray):
                target.fill(value)
                return
            with np.errstate(all="ignore"):
                target.values[...] = value.values
            order.enqueue(_key(), "copy", reads=[value.range], writes=[target.range], source=value.range)

        def fill(self, value: Any) -> None:
            self.values.fill(value)
            order.enqueue(_key(), "fill", writes=[self.range])

        def set(self, values: Any) -> None:
            if values.shape != self.shape or values.dtype != self.dtype:
                raise ValueError(f"{values.dtype} {values.shape} set to {self.dtype} {self.shape}")
            self.values[...] = values
            order.enqueue(_key(), "upload", writes=[self.range], bytes=values.nbytes)

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            stream = get_current_stream().ptr or 1
            return {"version": 3, "shape": self.shape, "data": (self.data.ptr, False), "stream": stream}

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, self.device.id

    def _key() -> Stream:
        key: Stream = get_current_stream().key
        if key[0] != local.devices[-1]:
            order.found(f"work for stream {key} on device {local.devices[-1]}")
        return key

    def _allocate(size: int) -> _Block:
        device = local.devices[-1]
        return _Block(pools[device], size, get_current_stream().ptr, Device(device))

    def empty(shape: Any, dtype: Any = float) -> Any:
        return ndarray(shape, dtype)

    def zeros(shape: Any, dtype: Any = float) -> Any:
        array = ndarray(shape, dtype)
        array.fill(0)
        return array

    def asarray(values: Any) -> Any:
        if isinstance(values, ndarray):
            return values
        array = ndarray(values.shape, values.dtype)
        array.set(values)
        return array

    def from_dlpack(array: Any) -> Any:
        """Import memory, also of other libraries, whose ``__dlpack__`` result contains its address in this stand-in."""
        if isinstance(array, (ndarray, np.ndarray)):
            return asarray(array)
        kind, device = array.__dlpack_device__()
        assert kind == 2
        taken = array.__dlpack__(stream=get_current_stream().ptr, max_version=(1, 0))
        reach = [(n - 1) * step for n, step in zip(taken.shape, taken.strides, strict=True)]
        size = sum(reach) + taken.dtype.itemsize if all(taken.shape) else 0
        values = np.ndarray(taken.shape, taken.dtype, order.content(taken.low, taken.low + size), 0, taken.strides)
        return ndarray(
            taken.shape, taken.dtype, MemoryPointer(UnownedMemory(taken.low, size, taken, device), 0), values
        )

    module: Any = ModuleType("cupy")
    ndarray.__module__ = "cupy"
    module.ndarray, module.empty, module.zeros, module.asarray = ndarray, empty, zeros, asarray
    module.ascontiguousarray = asarray
    module.int16 = np.int16
    module.uint8, module.int32, module.int64, module.float32 = np.uint8, np.int32, np.int64, np.float32
    module.from_dlpack = from_dlpack
    cuda: Any = ModuleType("cupy.cuda")
    cuda.Device, cuda.Event, cuda.Stream, cuda.ExternalStream = Device, Event, StreamOfOurs, ExternalStream
    cuda.MemoryPointer, cuda.UnownedMemory, cuda.get_current_stream = MemoryPointer, UnownedMemory, get_current_stream
    cuda.memory = SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
    cuda.alloc_pinned_memory = lambda size: np.full(size, 0xA5, np.uint8)  # any memory will do
    cuda.driver, cuda.function = ModuleType("cupy.cuda.driver"), ModuleType("cupy.cuda.function")
    cuda.runtime = ModuleType("cupy.cuda.runtime")
    cuda.runtime.getDeviceCount = lambda: DEVICES
    cuda.runtime.driverGetVersion = lambda: 12090
    cuda.runtime.setDevice = set_device
    cuda.runtime.eventRecord = event_record
    cuda.runtime.streamWaitEvent = event_wait
    cuda.current_context = lambda: local.context  # of the calling thread: the number of its device
    module.cuda = cuda
    return module, pools
