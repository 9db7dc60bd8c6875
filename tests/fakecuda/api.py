"""CUDA's functions, as the fake library calls them: what they do to memory, and what is wrong with a call.

What is copied, set and launched changes the memory at once, in the order of the calls; :class:`Order` finds what need
not come in that order. The host sees the result of a copy to pinned memory when it has waited for it, at the latest.
"""

import ctypes
import inspect
import itertools
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .launches import run_cupys
from .order import Clock, Op, Order, Stream

DEVICES = 2
_MOST_BLOCKS = 65535  # along y and z
_NO_DEVICE, _OUT_OF_MEMORY, _NO_CONTEXT, _BAD_HANDLE, _NOT_READY, _UNKNOWN = 100, 2, 201, 400, 600, 999
_UNSUPPORTED, _CAPTURING = 801, 900
_RELAXED = 2
#: Calls that no thread may make while one captures in the global mode, unless its own mode is relaxed.
_UNSAFE = {
    "cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost", "cudaEventQuery", "cudaEventSynchronize",
    "cudaStreamSynchronize", "cudaDeviceSynchronize", "cuModuleLoadData",
}  # fmt: skip


class _StatusError(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


class _Thread(threading.local):
    device = 0
    context: int | None = None  # the device whose context is current
    mode = 0  # of its calls while another thread captures: global


def _put(address: int, value: int, kind: Any = ctypes.c_int) -> None:
    kind.from_address(address).value = value


def host(address: int, size: int) -> Any:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


class Cuda:
    """The library of a process. A method has the name of the function, and returns an error unless all is well."""

    def __init__(self, install: Iterable[Callable[[Any], object]]) -> None:
        self.order = Order()  # what was called, and what was wrong
        self.is_on = False  # whether there are devices
        self.launch: Callable[..., None]  # launch(kernel, stream, grid, block, extra) runs a kernel of gpuimg's
        self.capturing: int | None = None  # a stream
        self._thread = _Thread()
        self._streams: dict[int, int] = {}  # devices, by handles
        self._spare = list(range(0x10000, 0x1000, -0x10))  # a new stream has the handle of the last that is gone
        self._handles = itertools.count(1 << 20, 8)  # of all others, each used once
        self._events: dict[int, tuple[int, Op | None, Clock]] = {}
        self._modules: dict[int, tuple[int, bytes]] = {}
        self._functions: dict[int, tuple[int, bytes, str]] = {}
        self._programs: dict[int, bytes] = {}
        self._pinned: dict[int, Any] = {}
        self._known: dict[bytes, tuple[Callable[..., int | None], int]] = {}
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64))
        self._callback = kind(self._call)
        for one in install:
            one(self._callback)

    def _call(self, name: bytes, words: Any) -> int:
        try:
            if name not in self._known:
                method = getattr(self, name.decode(), None)
                if method is None:
                    self.order.found(f"{name.decode()} is not a part of the fake")
                    return _UNSUPPORTED
                self._known[name] = method, len(inspect.signature(method).parameters)
            method, count = self._known[name]
            if self.capturing is not None and name.decode() in _UNSAFE and self._thread.mode != _RELAXED:
                self.order.found(f"{name.decode()} is called while a stream captures")
                return _CAPTURING
            return method(*words[:count]) or 0
        except _StatusError as refused:
            return refused.status
        except BaseException as error:  # it cannot pass through CuPy
            self.order.fail(f"{name.decode()}: {type(error).__name__}: {error}", error)
            return _UNKNOWN

    def left(self) -> dict[str, int]:
        memory = sum(self.order.allocated(device) for device in range(DEVICES))
        counts = {"streams": len(self._streams), "events": len(self._events), "pinned": len(self._pinned)}
        return counts | {"bytes": memory}

    def cuInit(self, flags: int) -> int:
        return 0 if self.is_on else _NO_DEVICE

    def cudaGetDeviceCount(self, count: int) -> int:
        _put(count, DEVICES)
        return 0 if self.is_on else _NO_DEVICE

    cuDeviceGetCount = cudaGetDeviceCount

    def cudaDriverGetVersion(self, version: int) -> None:
        _put(version, 13000)

    cuDriverGetVersion = cudaRuntimeGetVersion = cudaDriverGetVersion

    def cudaDeviceGetAttribute(self, value: int, attribute: int, device: int) -> None:
        _put(value, {75: 9, 76: 0}.get(ctypes.c_int(attribute).value, 0))  # compute capability

    def cudaGetDevice(self, device: int) -> None:
        _put(device, self._thread.device)

    def cudaSetDevice(self, device: int) -> int | None:
        device = ctypes.c_int(device).value
        if not 0 <= device < DEVICES:
            return 101
        self._thread.device = self._thread.context = device
        return None

    def current_context(self) -> int | None:
        return self._thread.context

    def _bind(self) -> int:
        """Give a thread without a context that of its device, as each call of the runtime does."""
        if self._thread.context is None:
            self._thread.context = self._thread.device
        return self._thread.device

    def _context(self) -> int:
        if self._thread.context is None:
            self.order.found("a function of the driver is called without a context")
            raise _StatusError(_NO_CONTEXT)
        return self._thread.context

    def cudaDeviceSynchronize(self) -> None:
        self.order.host_waits("device", self.order.clock_of(device=self._bind()))

    def cudaMalloc(self, address: int, size: int) -> None:
        _put(address, self.order.new_chunk(size, self._bind()), ctypes.c_uint64)

    def cudaFree(self, address: int) -> None:
        if address:
            self.order.free_chunk(address)

    def cudaMemGetInfo(self, free: int, total: int) -> None:
        _put(total, 8 << 30, ctypes.c_uint64)
        _put(free, (8 << 30) - self.order.allocated(self._bind()), ctypes.c_uint64)

    def cudaHostAlloc(self, address: int, size: int, flags: int) -> None:
        memory = np.full(max(size, 1), 0xA5, np.uint8)
        self._pinned[memory.ctypes.data] = memory
        _put(address, memory.ctypes.data, ctypes.c_uint64)

    def cudaFreeHost(self, address: int) -> None:
        self._pinned.pop(address)[:] = 0xDD  # what is still to be copied from it holds it

    def cudaPointerGetAttributes(self, found: int, address: int) -> None:
        device = self.order.device_of(address)
        kind = 2 if device is not None else 1 if self._pinned_at(address) is not None else 0  # of device, host, neither
        for at, value in enumerate((kind, -1 if device is None else device)):
            _put(found + 4 * at, value)
        for at in (8, 16):
            _put(found + at, address if kind else 0, ctypes.c_uint64)

    def _pinned_at(self, address: int) -> Any:
        found = (one for low, one in list(self._pinned.items()) if low <= address < low + one.size)
        return next(found, None)

    def cudaMemcpyAsync(self, target: int, source: int, size: int, kind: int, stream: int) -> None:
        key, order = self._stream(stream), self.order
        to, of = (order.device_of(address) is not None for address in (target, source))
        kind = ctypes.c_int(kind).value
        if not size:
            return
        if kind in (1, 2, 3) and (of, to) != (kind > 1, kind != 2):
            order.found(f"cudaMemcpyAsync of kind {kind} from {source:#x} to {target:#x}")
            raise _StatusError(1)
        there, here = (target, target + size), (source, source + size)
        pinned = self._pinned_at(target if of else source)
        if to and of:
            order.enqueue(key, "copy", reads=[here], writes=[there], source=here)
            order.content(*there)[:] = order.content(*here)
        elif to:
            order.content(*there)[:] = host(source, size)
            if pinned is None:  # pageable memory is read before the call returns
                order.enqueue(key, "upload", writes=[there], bytes=size)
                return
            order.enqueue(key, "upload", writes=[there], bytes=size, pinned=True)
            before = host(source, size).copy()

            def check(pinned: Any = pinned) -> None:
                if not np.array_equal(host(source, size), before):
                    order.found("pinned memory was changed before its copy was done")

            order.when_done(key, check)
        else:
            order.enqueue(key, "download", reads=[here], bytes=size)
            if not order.is_done(order.downloads.get(target, {})):
                order.found("the host's memory is written again before its last copy is known to be done")
            order.downloads[target] = order.clock_of([key])
            content = order.content(*here).copy()
            if pinned is None:  # pageable memory: the call returns when it is written
                order.host_knows(order.clock_of([key]))
                host(target, size)[:] = content
            else:
                host(target, size)[:] = 0xA5
                order.when_done(key, lambda pinned=pinned: np.copyto(host(target, size), content))

    def cudaMemsetAsync(self, target: int, value: int, size: int, stream: int) -> None:
        self.order.enqueue(self._stream(stream), "fill", writes=[(target, target + size)])
        self.order.content(target, target + size)[:] = value & 0xFF

    def _stream(self, handle: int, *, elsewhere: bool = False) -> Stream:
        """The stream of a handle; ``elsewhere``: it may be another device's than the current one."""
        current = self._bind()
        if handle > 2 and handle not in self._streams:
            self.order.found("a stream is used that was destroyed")
            raise _StatusError(_BAD_HANDLE)
        key = self.order.stream_at(self._streams.get(handle, current), handle)
        if key[0] != current and not elsewhere:
            self.order.found(f"work for stream {key} on device {current}")
        return key

    def stream_of(self, handle: int) -> Stream:
        return self.order.stream_at(self._streams.get(handle, self._thread.device), handle)

    def cudaStreamCreateWithPriority(self, stream: int, flags: int, priority: int) -> None:
        if not flags & 1:
            self.order.found("a stream that waits for the null stream was made")
        handle = self._spare.pop()
        self._streams[handle] = self._bind()
        _put(stream, handle, ctypes.c_uint64)

    def cudaStreamDestroy(self, stream: int) -> None:
        self._stream(stream, elsewhere=True)
        self.order.end_stream(stream)
        del self._streams[stream]
        self._spare.append(stream)

    def cudaStreamSynchronize(self, stream: int) -> None:
        self.order.host_waits("stream", self.order.clock_of([self._stream(stream, elsewhere=True)]))

    def cudaStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        _, recorded, clock = self._event(event)
        self.order.stream_waits(self._stream(stream, elsewhere=True), recorded, clock)

    def cudaStreamIsCapturing(self, stream: int, state: int) -> None:
        _put(state, self.capturing is not None and self.capturing == stream)

    def cuThreadExchangeStreamCaptureMode(self, mode: int) -> None:
        before, self._thread.mode = self._thread.mode, ctypes.c_int.from_address(mode).value
        _put(mode, before)

    def cudaStreamBeginCapture(self, stream: int, mode: int) -> None:
        self.capturing = stream

    def _event(self, handle: int) -> tuple[int, Op | None, Clock]:
        if handle not in self._events:
            self.order.found("an event is used that was destroyed")
            raise _StatusError(_BAD_HANDLE)
        return self._events[handle]

    def cudaEventCreateWithFlags(self, event: int, flags: int) -> None:
        self._events[self._made(event)] = self._bind(), None, {}

    def _made(self, at: int) -> int:
        """A new handle, which is written to an address."""
        _put(at, handle := next(self._handles), ctypes.c_uint64)
        return handle

    def cudaEventDestroy(self, event: int) -> None:
        self._event(event)
        del self._events[event]

    def cudaEventRecord(self, event: int, stream: int) -> int | None:
        device, _, _ = self._event(event)
        if stream > 2 and stream not in self._streams:
            return _BAD_HANDLE  # which gpuimg expects, of a stream of the user's
        key = self._stream(stream, elsewhere=True)
        if key[0] != device:
            self.order.found(f"an event of device {device} is recorded on stream {key}")
        self._events[event] = (device, *self.order.record(key))
        return None

    def cudaEventQuery(self, event: int) -> int:
        return 0 if self.order.is_done(self._event(event)[2]) else _NOT_READY

    def cudaEventSynchronize(self, event: int) -> None:
        _, recorded, clock = self._event(event)
        self.order.host_waits("event", clock, recorded)

    def cuModuleLoadData(self, module: int, image: int) -> None:
        self._modules[self._made(module)] = self._context(), ctypes.string_at(image)

    def cuModuleUnload(self, module: int) -> None:
        del self._modules[module]

    def cuModuleGetFunction(self, function: int, module: int, name: int) -> None:
        self._functions[self._made(function)] = (*self._modules[module], ctypes.string_at(name).decode())

    def cuFuncGetAttribute(self, value: int, attribute: int, function: int) -> None:
        _put(value, 0)

    def cuLaunchKernel(
        self, function: int, x: int, y: int, z: int, width: int, height: int, depth: int, shared: int, stream: int,
        parameters: int, extra: int,
    ) -> None:  # fmt: skip
        x, y, z, width, height, depth = (ctypes.c_uint32(word).value for word in (x, y, z, width, height, depth))
        device, image, name = self._functions[function]
        context, key = self._context(), self._stream(stream)
        if not device == context == key[0]:
            self.order.found(f"{name} is launched on stream {key}, loaded to device {device}")
        if not (x > 0 and 0 < y <= _MOST_BLOCKS and 0 < z <= _MOST_BLOCKS and 0 < width * height * depth <= 1024):
            self.order.found(f"{name} is launched with {x, y, z} blocks of {width, height, depth} threads")
            raise _StatusError(1)
        if extra:
            self.launch(name, key, (x, y, z), (width, height, depth), extra)
            return
        reads, writes, kind = run_cupys(image.decode(), name, parameters, self.order.content)
        told = {"source": reads[0]} if kind == "copy" else {}
        self.order.enqueue(key, kind, reads=reads, writes=writes, **told)

    def nvrtcVersion(self, major: int, minor: int) -> None:
        _put(major, 12)
        _put(minor, 9)

    def nvrtcCreateProgram(self, program: int, source: int, name: int, count: int, headers: int, names: int) -> None:
        self._programs[self._made(program)] = ctypes.string_at(source) + b"\0"

    def nvrtcDestroyProgram(self, program: int) -> None:
        del self._programs[ctypes.c_uint64.from_address(program).value]

    def nvrtcCompileProgram(self) -> None:
        """Nothing to do."""

    cudaGetLastError = nvrtcCompileProgram  # every call returns its own

    def nvrtcGetCUBINSize(self, program: int, size: int) -> None:
        _put(size, len(self._programs[program]), ctypes.c_uint64)

    def nvrtcGetCUBIN(self, program: int, code: int) -> None:
        ctypes.memmove(code, self._programs[program], len(self._programs[program]))

    nvrtcGetPTXSize, nvrtcGetPTX = nvrtcGetCUBINSize, nvrtcGetCUBIN
