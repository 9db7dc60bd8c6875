"""A check that decoders do not write into memory that a kernel enqueued earlier still reads.

A spinning kernel and a copy of the buffer are enqueued, then the decoder is called with that buffer as its
destination, on the same stream or on one that waits for an event after the copy. In stream order the copy sees the
earlier contents of the buffer; if it sees anything else, the decoder did not honor the order. A wait on the host before
the call must help in every case. Last, gpuimg's own arenas: as they are, and with their host wait removed.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bench.gpu.child import Context
from bench.gpu.decoders import KINDS, Arena, decoder_of
from bench.gpu.hooks import without_arena_wait
from bench.gpu.measure import mean_difference, to_host

REPETITIONS = 100
IMAGES = 16
_SPIN_MS = 6.0
_BEFORE = 77  # what the buffer holds
_STEP = 7  # of the bytes of all images every seventh is looked at: rows, columns and channels in turn
_ROUNDING = 3  # levels by which decoders may differ
_FAR = 0.02  # mean difference of results in [0, 1] that rounding does not give
_LEAST_S = 3.0


def run(context: Context) -> None:
    """Check decoders alone, then gpuimg."""
    if not context.on_gpu:
        context.record("skipped", "needs a GPU")
        return
    from gpuimg import image_info

    files = uniform_baseline(context.photos("P", 128), IMAGES)
    context.record("images", f"{len(files)} baseline photos of {image_info(files[0])[:2]}")
    context.record("repetitions", REPETITIONS)
    table: dict[str, Any] = {}
    for k, kind in enumerate(KINDS):
        table[kind] = _backend(context, files, kind, context.left() / (len(KINDS) - k + 1))
        context.record("decoders", table)
    context.record("gpuimg", _gpuimg(context, files))


def uniform_baseline(files: list[bytes], count: int) -> list[bytes]:
    """Return baseline 4:2:0 photos of one size, which the hardware engine supports."""
    from gpuimg import image_info

    chosen: dict[tuple[int, int], list[bytes]] = {}
    for data in filter(is_common, files):
        about = image_info(data)
        if about.orientation == 1:
            chosen.setdefault((about.height, about.width), []).append(data)
    return max(chosen.values(), key=len)[:count]


def is_common(data: bytes) -> bool:
    """Return True for a baseline 4:2:0 JPEG, which the hardware engine supports."""
    from gpuimg import image_info

    about = image_info(data)
    return about.codec == "jpeg" and about.chroma_subsampling == "4:2:0" and b"\xff\xc2" not in data[:4096]


def _backend(context: Context, files: list[bytes], kind: str, seconds: float) -> dict[str, Any]:
    """Count corrupted reads of one kind of decoder in its share of the time; an error if this machine has none."""
    found: dict[str, Any] = {}
    try:
        trial = _Trial(files, decoder_of(kind))
        for same in (True, False):
            for wait in (False, True):
                name = f"{'same stream' if same else 'other stream, event'}, {'host wait' if wait else 'no wait'}"
                if context.left() > _LEAST_S:
                    found[name] = trial.repeat(context, same, wait, seconds / 4)
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"[:300]
    return found


class _Trial:
    """A buffer, its readers and a decoder."""

    def __init__(self, files: list[bytes], decoder: Any) -> None:
        import cupy

        from bench.gpu.measure import Spin

        self._cupy = cupy
        self._decoder = decoder
        self._spin = Spin()
        self._arena = Arena(files)
        self._stream = self._arena.stream
        self._other = cupy.cuda.Stream(non_blocking=True)
        with self._stream:
            self._seen = cupy.empty_like(self._arena.memory)
            self._arena.memory.fill(_BEFORE)  # also what lies between the images
        self._decode()
        cupy.cuda.Device(0).synchronize()
        self._expected = to_host(self._arena.memory[::_STEP])

    def _decode(self) -> None:
        if not all(self._arena.decode(self._decoder)):
            raise RuntimeError("this decoder does not take these photos")

    def repeat(self, context: Context, same: bool, wait: bool, seconds: float) -> dict[str, Any]:
        """Count corrupted reads and wrong decodes, and measure the call's time on the host."""
        corrupted, wrong, taken = 0, 0, []
        done, end = 0, time.monotonic() + min(seconds, context.left() - _LEAST_S)
        while done < (2 if context.smoke else REPETITIONS) and time.monotonic() < end:
            called, clean, right = self._once(same, wait)
            corrupted += not clean
            wrong += not right
            taken.append(called)
            done += 1
        return {
            "corrupted_reads": corrupted,
            "wrong_decodes": wrong,
            "n": done,
            "decode_call_ms": round(1e3 * float(np.median(taken)), 2) if taken else None,
            "queued_ms": _SPIN_MS,
        }

    def _once(self, same: bool, wait: bool) -> tuple[float, bool, bool]:
        cupy, memory = self._cupy, self._arena.memory
        reader = self._stream if same else self._other
        with self._stream:
            memory.fill(_BEFORE)
            self._seen.fill(0)
        cupy.cuda.Device(0).synchronize()
        with reader:
            self._spin(_SPIN_MS)
            self._seen.data.copy_from_device_async(memory.data, memory.nbytes, reader)
        read = reader.record()
        if not same:
            self._stream.wait_event(read)
        if wait:
            read.synchronize()
        begin = time.perf_counter()
        self._decode()
        taken = time.perf_counter() - begin
        cupy.cuda.Device(0).synchronize()
        clean = bool((to_host(self._seen[::_STEP]) == _BEFORE).all())
        # All images of the batch are what they were the first time; two decoders may share the work.
        difference = np.abs(to_host(memory[::_STEP]).astype(np.int16) - self._expected)
        return taken, clean, int(difference.max()) <= _ROUNDING


def _gpuimg(context: Context, files: list[bytes]) -> dict[str, Any]:
    """Run two batches in turn after work that keeps the GPU busy: the second decodes before the first is read."""
    import cupy

    import gpuimg as gi
    from bench.gpu.measure import Spin

    spin = Spin()
    half = len(files) // 2
    batches = (files[:half], files[half : 2 * half])
    expected = [gi.resize(gi.open_batch(b, device="cpu"), (64, 64)).array("float32") for b in batches]

    def repeat() -> dict[str, int]:
        wrong, done = 0, 0
        while done < (2 if context.smoke else REPETITIONS) and context.left() > _LEAST_S:
            results = []
            for batch in batches:
                spin(_SPIN_MS / 2)  # on the caller's stream, which the runtime's kernels wait for
                x = gi.open_batch(batch, device="cuda", decoder="nvimagecodec")
                results.append(gi.resize(x, (64, 64)).array("float32"))
            cupy.cuda.Device(0).synchronize()
            wrong += any(mean_difference(r, e) > _FAR for r, e in zip(results, expected, strict=True))
            done += 1
        return {"wrong_results": wrong, "n": done}

    found = {"as it is": repeat()}
    with without_arena_wait():
        found["without its host wait"] = repeat()
    return found


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return violations of the order, and the result without gpuimg's wait."""
    problems, lines = [], []
    rows = [(name, case, row) for name, cases in results.get("decoders", {}).items() for case, row in cases.items()]
    for name, case, row in rows:
        if case == "error":
            problems.append(f"{name}: {row}")
            continue
        if "host wait" in case and row["corrupted_reads"]:
            problems.append(
                f"{name}, {case}: {row['corrupted_reads']} of {row['n']} reads corrupted **despite the wait**"
            )
        if row["wrong_decodes"]:
            problems.append(f"{name}, {case}: {row['wrong_decodes']} of {row['n']} decodes wrong")
    if rows:
        lines += ["", "| decoder | case | corrupted reads | n | decode call, ms |", "|---|---|---|---|---|"]
        lines += [
            f"| {name} | {case} | {row['corrupted_reads']} | {row['n']} | {row['decode_call_ms']} |"
            for name, case, row in rows
            if case != "error"
        ] + [""]  # fmt: skip
    ours = results.get("gpuimg", {})
    for name, row in ours.items():
        lines.append(f"gpuimg {name}: {row['wrong_results']} wrong of n = {row['n']}")
    if ours.get("as it is", {}).get("wrong_results"):
        problems.append(f"gpuimg gives wrong results: {ours['as it is']}")
    return problems, lines
