"""Priorities of streams: the loader's lanes beside a training step, each on streams of the default or a high priority.

CUDA's default is the lowest priority there is, so lanes cannot be put below a training step that runs on a default
stream: either they, or the step, can only be put above. The step here is a kernel that keeps every multiprocessor busy.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import gpuimg as gi
from bench.gpu.chains import CHAINS, DTYPE, LAYOUT
from bench.gpu.child import Context
from bench.gpu.hooks import new_runtime
from bench.gpu.measure import replaced

BATCH = 64
STEPS = 40
HIGH = -5  # the highest that GPUs know; they take the nearest that they have
CASES = {"neither": (None, None), "lanes high": (HIGH, None), "step high": (None, HIGH)}
_BLOCKS_EACH = 8  # of a multiprocessor
_LEAST_S = 2.5
_WORTH = 1.05

_BURN = """
extern "C" __global__ void burn(float* x, int rounds) {
    float a = threadIdx.x, b = 1.0001f;
    for (int i = 0; i < rounds; i++) a = a * b + 0.5f;
    if (a == 123.0f) x[0] = a;
}
"""


def run(context: Context) -> None:
    """The step alone, then beside the loader, with each pair of priorities."""
    if not context.on_gpu:
        context.record("skipped", "needs a GPU")
        return
    files = context.photos("S", 256)
    rows: dict[str, Any] = {"step alone": _measured(context, files, None, None, loading=False)}
    for name, (lanes, step) in CASES.items():
        if context.left() > _LEAST_S:
            rows[name] = _measured(context, files, lanes, step)
            context.record("rows", rows)


class _Step:
    """Work of about ten milliseconds for all of the GPU."""

    def __init__(self, priority: int | None) -> None:
        import cupy

        self.stream = _stream(priority)
        self._kernel = cupy.RawKernel(_BURN, "burn")
        self._blocks = _BLOCKS_EACH * int(cupy.cuda.Device(0).attributes["MultiProcessorCount"])
        with self.stream:
            self._memory = cupy.zeros(1, cupy.float32)
        self._rounds = 100_000
        self()
        self.stream.synchronize()
        begin = time.perf_counter()
        self()
        self.stream.synchronize()
        self._rounds = int(self._rounds * 0.01 / max(time.perf_counter() - begin, 1e-5))

    def __call__(self) -> None:
        """Enqueue it."""
        import numpy as np

        with self.stream:
            self._kernel((self._blocks,), (256,), (self._memory, np.int32(max(self._rounds, 1))))


def _stream(priority: int | None) -> Any:
    import cupy

    options = {} if priority is None else {"priority": priority}
    return cupy.cuda.Stream(non_blocking=True, **options)


def _measured(
    context: Context, files: list[bytes], lanes: int | None, priority: int | None, *, loading: bool = True
) -> dict[str, Any]:
    """Milliseconds of a step, with a batch of the loader before each; the lanes' streams are new ones."""
    import cupy

    step = _Step(priority)
    made, count = cupy.cuda.Stream, 3 if context.smoke else STEPS

    def stream_of_a_lane(**options: Any) -> Any:
        return made(**options, **({} if lanes is None else {"priority": lanes}))

    with new_runtime(), replaced(cupy.cuda, "Stream", stream_of_a_lane), contextlib.ExitStack() as stack:
        batches = stack.enter_context(contextlib.closing(iter(_loader(context, files, step)))) if loading else None
        for _ in range(2):
            if batches is not None:
                next(batches)
        begin = time.perf_counter()
        for _ in range(count):
            if batches is not None:
                next(batches)
            step()
            step.stream.synchronize()
        taken = time.perf_counter() - begin
    return {"ms a step": round(1e3 * taken / count, 2), "n": count}


def _loader(context: Context, files: list[bytes], step: _Step) -> Any:
    return gi.load(
        [(data, i) for i, data in enumerate(files)], CHAINS["train"], batch_size=min(BATCH, len(files)),
        device=context.device, dtype=DTYPE, layout=LAYOUT, epochs=None, decoders=2, stream=step.stream.ptr,
    )  # fmt: skip


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Milliseconds of a step."""
    rows = results.get("rows", {})
    return [], [f"{name}: a step takes {row['ms a step']} ms (n = {row['n']})" for name, row in rows.items()]


def advice(results: dict[str, Any]) -> list[str]:
    """Whose streams get a priority."""
    rows = results.get("rows", {})
    if not set(CASES) <= rows.keys():
        return []
    times = {name: rows[name]["ms a step"] for name in CASES}
    best = min(times, key=lambda name: times[name])
    gain = times["neither"] / max(times[best], 1e-9)
    if gain <= _WORTH:
        return [f"leave priorities alone: the best of them gives {gain:.2f} times the steps"]
    if best == "lanes high":
        return [f"give the lanes' streams the priority {HIGH}: {gain:.2f} times the steps"]
    return [f"say in load()'s text: a training step on a stream of high priority makes {gain:.2f} times the steps"]
