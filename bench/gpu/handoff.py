"""Results in other libraries: the same memory, in the order of the consumer's stream, and unharmed while it is held.

Each check of an order is made twice: as gpuimg is, and with what gives the order taken out. The second must show wrong
results, or the first says nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

import gpuimg as gi
from bench.gpu.chains import CHAINS
from bench.gpu.child import Context
from bench.gpu.measure import mean_apart, synchronize, to_host

BATCH = 32
BATCHES = 24
HELD = 6  # batches kept, of all
FAR = 0.05  # mean difference of normalised results that decoders' rounding does not give
_SPIN_MS = 10.0
_LEAST_S = 3.0


def run(context: Context) -> None:
    """Pointers, then order, then memory."""
    files = context.photos("S", 256)[: BATCH * (1 if context.smoke else 4)]
    context.record("pointers", _pointers(context, files[:8]))
    context.record("held", _held(context, files))
    if context.on_gpu:
        for name, check in (("order", _order), ("dropped while read", _dropped)):
            try:
                context.record(name, check(context, files))
            except Exception as error:
                context.record(name, {"error": f"{type(error).__name__}: {error}"[:300]})


# -- pointers ----------------------------------------------------------------------------------------------------


def _pointers(context: Context, files: list[bytes]) -> dict[str, Any]:
    """Whether each library's array is where gpuimg's result is."""
    x = gi.resize(gi.open_batch(files, device=context.device), (32, 32))
    array = x.array("float32", "NHWC")
    address = array.data.ptr if context.on_gpu else array.ctypes.data
    ways: dict[str, Callable[[], int]] = {
        "torch.from_dlpack(batch)": lambda: _torch().from_dlpack(x.compute("float32")).data_ptr(),
        "torch.from_dlpack(array)": lambda: _torch().from_dlpack(array).data_ptr(),
        "gpuimg.to_torch": lambda: gi.to_torch(x, dtype="float32", layout="NHWC").data_ptr(),
        "jax.dlpack.from_dlpack": lambda: _jax(context.on_gpu).dlpack.from_dlpack(array).unsafe_buffer_pointer(),
        "gpuimg.to_jax": lambda: _jax(context.on_gpu) and gi.to_jax(x, dtype="float32").unsafe_buffer_pointer(),
    }
    if context.on_gpu:
        ways["__cuda_array_interface__"] = lambda: x.compute("float32").__cuda_array_interface__["data"][0]
        ways["torch.as_tensor"] = lambda: _torch().as_tensor(array, device="cuda").data_ptr()
        ways["cupy.from_dlpack of torch"] = lambda: _round_trip(array)
    return {name: _same(way, address) for name, way in ways.items()}


def _same(way: Callable[[], int], address: int) -> str:
    try:
        return "same memory" if way() == address else "copied"
    except ImportError as error:
        return f"not installed: {error}"
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"[:300]


def _torch() -> Any:
    import torch

    return torch


def _jax(on_gpu: bool) -> Any:
    import jax
    import jax.dlpack

    if on_gpu and jax.default_backend() != "gpu":
        raise ImportError("this jax has no GPU backend")
    return jax


def _round_trip(array: Any) -> int:
    import cupy

    return int(cupy.from_dlpack(_torch().from_dlpack(array)).data.ptr)


# -- memory that is held -------------------------------------------------------------------------------------------


def _loader(context: Context, files: list[bytes], preprocess: Any, stream: Any = None) -> Any:
    """The same batches in the same order each time."""
    source = [(data, i) for i, data in enumerate(files)]
    return gi.load(
        source, preprocess, batch_size=min(BATCH, len(files)), device=context.device, dtype="float32", layout="NCHW",
        epochs=None, stream=stream, decoders=2, prefetch=2,
    )  # fmt: skip


def _held(context: Context, files: list[bytes]) -> dict[str, Any]:
    """Tensors of some batches are kept while the loader goes on; they must stay what they were when they came."""
    kept: list[tuple[Any, Any]] = []
    with contextlib.closing(iter(_loader(context, files, CHAINS["train"]))) as batches:
        for number, batch in zip(range(_count(context)), batches, strict=False):
            tensor = _tensor(batch.images)
            if number % (BATCHES // HELD) == 0:
                synchronize(context.device)
                kept.append((tensor, _host(tensor).copy()))
    synchronize(context.device)
    changed = sum(not np.array_equal(_host(tensor), copy) for tensor, copy in kept)
    return {"held": len(kept), "as": type(tensor).__name__, "changed": changed, "batches": number + 1}


def _tensor(array: Any) -> Any:
    """A tensor of torch's, where it takes the array; :func:`_pointers` says why not."""
    try:
        return _torch().from_dlpack(array)
    except Exception:
        return array


def _host(tensor: Any) -> Any:
    return tensor.cpu().numpy() if hasattr(tensor, "cpu") else to_host(tensor)


# -- order -----------------------------------------------------------------------------------------------------------


def _expected(context: Context, files: list[bytes]) -> list[Any]:
    """The batches of the loader, each finished before it is looked at."""
    found = []
    with contextlib.closing(iter(_loader(context, files, CHAINS["train"]))) as batches:
        for _, batch in zip(range(_count(context)), batches, strict=False):
            synchronize(context.device)
            found.append(to_host(batch.images))
    return found


def _consumed(context: Context, files: list[bytes], delay: Callable[[], object], expected: list[Any]) -> dict[str, int]:
    """Copies of the batches made on a stream of the consumer's, after what delays it, and each batch let go at once."""
    import cupy

    side = cupy.cuda.Stream(non_blocking=True)
    taken: list[Any] = []
    with contextlib.closing(iter(_loader(context, files, CHAINS["train"], side.ptr))) as batches:
        while len(taken) < _count(context) and context.left() > _LEAST_S:
            batch = next(batches)  # not by zip, which would hold on to it
            with side:
                delay()
                copy = cupy.empty_like(batch.images)
                copy.data.copy_from_device_async(batch.images.data, copy.nbytes, side)
            taken.append(copy)
            del batch
        side.synchronize()
    return {"wrong": _wrong(taken, expected), "n": len(taken)}


def _order(context: Context, files: list[bytes]) -> dict[str, Any]:
    """A consumer on a stream of its own, of batches that the GPU is late with."""
    from bench.gpu.hooks import late_kernels, without_stream_order
    from bench.gpu.measure import Spin

    expected = _expected(context, files)
    spin = Spin()
    with late_kernels(lambda: spin(_SPIN_MS)):
        found = {"as it is": _consumed(context, files, lambda: None, expected)}
        with without_stream_order():
            found["order taken out"] = _consumed(context, files, lambda: None, expected)
    return found


def _dropped(context: Context, files: list[bytes]) -> dict[str, Any]:
    """A consumer lets go of each batch while its stream still has to read it."""
    from bench.gpu.hooks import without_result_wait
    from bench.gpu.measure import Spin

    expected = _expected(context, files)
    spin = Spin()
    found = {"as it is": _consumed(context, files, lambda: spin(_SPIN_MS), expected)}
    with without_result_wait():
        found["host wait taken out"] = _consumed(context, files, lambda: spin(_SPIN_MS), expected)
    return found


def _count(context: Context) -> int:
    return 3 if context.smoke else BATCHES


def _wrong(taken: list[Any], expected: list[Any]) -> int:
    """How many batches are not the expected ones."""
    return sum(mean_apart(one, other) > FAR for one, other in zip(taken, expected, strict=False))


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What is shared, what is ordered, what stays."""
    problems, lines = [], []
    for way, outcome in results.get("pointers", {}).items():
        lines.append(f"{way}: {outcome}")
        problems += [] if outcome.startswith(("same", "not installed")) else [f"{way}: {outcome}"]
    held = results.get("held")
    if held:
        lines.append(f"{held['held']} of {held['batches']} batches held as {held.get('as')}: {held['changed']} changed")
        problems += [f"{held['changed']} held batches changed"] if held["changed"] else []
    for name in ("order", "dropped while read"):
        for case, row in results.get(name, {}).items():
            if case == "error":
                problems.append(f"{name}: {row}")
                continue
            lines.append(f"{name}, {case}: {row['wrong']} wrong of n = {row['n']}")
            if case == "as it is" and row["wrong"]:
                problems.append(f"{name}: {row['wrong']} of {row['n']} batches wrong")
            if case != "as it is" and not row["wrong"]:
                problems.append(f"{name}, {case}: nothing wrong was seen, so that this check shows nothing")
    return problems, lines


def advice(results: dict[str, Any]) -> list[str]:
    """Which orders hold, and whether what gives them is needed."""
    said = []
    for name, out in (("order", "order taken out"), ("dropped while read", "host wait taken out")):
        rows = results.get(name, {})
        if "as it is" not in rows or out not in rows:
            continue
        if rows["as it is"]["wrong"]:
            said.append(
                f"{name}: mend the hand-off before anything is trained on it ({rows['as it is']['wrong']} wrong)"
            )
        elif rows[out]["wrong"]:
            said.append(f"{name}: right, and wrong with what gives the order taken out: leave it")
        else:
            said.append(f"{name}: nothing was wrong either way: make the delay longer, this check shows nothing yet")
    copied = [way for way, outcome in results.get("pointers", {}).items() if outcome == "copied"]
    if copied:
        said.append(f"say in the docs that these copy, or mend them: {', '.join(copied)}")
    if results.get("held", {}).get("changed"):
        said.append("take results out of the pool until held batches stay what they were")
    return said
