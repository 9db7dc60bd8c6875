"""Whether a decoder writes into memory that a kernel enqueued before it still reads.

A spinning kernel and a copy of the buffer are enqueued, then the decoder is called with that buffer as its
destination, on the same stream or on one that waits for an event behind the copy. In stream order the copy sees what
was in the buffer before; where it sees anything else, the decoder did not honour the order. A wait on the host before
the call must help in every case. Last, gpuimg's own arenas: as they are, and with their host wait taken out.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bench.gpu.child import Context

REPETITIONS = 100
IMAGES = 16
_SPIN_MS = 10.0
_BEFORE = 77  # what the buffer holds
_FAR = 0.02  # mean difference of results in [0, 1] that rounding does not give
_LEAST_S = 3.0


def run(context: Context) -> None:
    """Decoders by themselves, then gpuimg."""
    if not context.on_gpu:
        context.record("skipped", "needs a GPU")
        return
    from gpuimg import image_info
    from gpuimg._decoding import nvimgcodec

    files = uniform_baseline(context.photos("P", 128), IMAGES)
    context.record("images", f"{len(files)} baseline photos of {image_info(files[0])[:2]}")
    context.record("repetitions", REPETITIONS)
    table: dict[str, Any] = {}
    library = nvimgcodec.library()
    for name, kind, options in (
        ("hardware, batched", library.HW_GPU_ONLY, ""),
        ("hardware, one by one", library.HW_GPU_ONLY, "nvjpeg_hw_decoder:force_batch_single=1"),
        ("hardware, legacy batch", library.HW_GPU_ONLY, "nvjpeg_hw_decoder:force_legacy_batch=1"),
        ("hybrid", library.HYBRID_CPU_GPU, ""),
    ):
        table[name] = _backend(context, files, kind, options)
        context.record("decoders", table)
    context.record("gpuimg", _gpuimg(context, files))


def uniform_baseline(files: list[bytes], count: int) -> list[bytes]:
    """Baseline 4:2:0 photos of one size: what the hardware engine takes."""
    from gpuimg import image_info

    chosen: dict[tuple[int, int], list[bytes]] = {}
    for data in filter(is_common, files):
        about = image_info(data)
        if about.orientation == 1:
            chosen.setdefault((about.height, about.width), []).append(data)
    return max(chosen.values(), key=len)[:count]


def is_common(data: bytes) -> bool:
    """Whether a file is a baseline 4:2:0 JPEG, what the hardware engine takes."""
    from gpuimg import image_info

    about = image_info(data)
    return about.codec == "jpeg" and about.chroma_subsampling == "4:2:0" and b"\xff\xc2" not in data[:4096]


def _backend(context: Context, files: list[bytes], kind: Any, options: str) -> dict[str, Any]:
    """Corrupted reads of one kind of decoder; an error where this machine has none."""
    from gpuimg._decoding import nvimgcodec

    library = nvimgcodec.library()
    found: dict[str, Any] = {}
    try:
        decoder = library.Decoder(
            device_id=0, max_num_cpu_threads=8, backends=[library.Backend(kind, load_hint=1.0)], options=options
        )
        trial = _Trial(files, decoder)
        for same in (True, False):
            for wait in (False, True):
                name = f"{'same stream' if same else 'other stream, event'}, {'host wait' if wait else 'no wait'}"
                if context.left() > _LEAST_S:
                    found[name] = trial.repeat(context, same, wait)
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"[:300]
    return found


class _Trial:
    """A buffer, its readers and a decoder."""

    def __init__(self, files: list[bytes], decoder: Any) -> None:
        import cupy

        from bench.gpu.measure import Spin
        from gpuimg import image_info
        from gpuimg._decoding import nvimgcodec

        self._cupy = cupy
        self._files = files
        self._decoder = decoder
        self._library = nvimgcodec.library()
        self._params = nvimgcodec.decode_params("rgb")
        self._spin = Spin()
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._other = cupy.cuda.Stream(non_blocking=True)
        height, width = image_info(files[0])[:2]
        with self._stream:
            self._buffer = cupy.empty((len(files), height, width, 3), cupy.uint8)
            self._seen = cupy.empty_like(self._buffer)
            self._targets = self._library.as_images([self._buffer[i] for i in range(len(files))])
        self._decode()
        cupy.cuda.Device(0).synchronize()
        self._expected = self._buffer.get()

    def _decode(self) -> None:
        streams = [self._library.CodeStream(data) for data in self._files]
        done = self._decoder.decode(streams, images=self._targets, params=self._params, cuda_stream=self._stream.ptr)
        if any(image is None for image in done):
            raise RuntimeError("this decoder does not take these photos")

    def repeat(self, context: Context, same: bool, wait: bool) -> dict[str, Any]:
        """Counts of corrupted reads and wrong decodes, and how long the call took on the host."""
        corrupted, wrong, taken = 0, 0, []
        done = 0
        while done < REPETITIONS and context.left() > _LEAST_S:
            seconds, clean, right = self._once(same, wait)
            corrupted += not clean
            wrong += not right
            taken.append(seconds)
            done += 1
        return {
            "corrupted_reads": corrupted,
            "wrong_decodes": wrong,
            "n": done,
            "decode_call_ms": round(1e3 * float(np.median(taken)), 2) if taken else None,
            "queued_ms": _SPIN_MS,
        }

    def _once(self, same: bool, wait: bool) -> tuple[float, bool, bool]:
        cupy = self._cupy
        reader = self._stream if same else self._other
        with self._stream:
            self._buffer.fill(_BEFORE)
            self._seen.fill(0)
        cupy.cuda.Device(0).synchronize()
        with reader:
            self._spin(_SPIN_MS)
            self._seen.data.copy_from_device_async(self._buffer.data, self._buffer.nbytes, reader)
        read = reader.record()
        if not same:
            self._stream.wait_event(read)
        if wait:
            read.synchronize()
        begin = time.perf_counter()
        self._decode()
        taken = time.perf_counter() - begin
        cupy.cuda.Device(0).synchronize()
        clean = bool((self._seen == _BEFORE).all())
        apart = np.abs(self._buffer[0].get().astype(int) - self._expected[0].astype(int)).max()
        return taken, clean, int(apart) <= 3  # two decoders may share the work


def _gpuimg(context: Context, files: list[bytes]) -> dict[str, Any]:
    """Two batches in turn behind work that keeps the GPU busy: the second decodes while the first is to be read."""
    import cupy

    import gpuimg as gi
    from bench.gpu.measure import Spin, replaced, to_host
    from gpuimg._runtimes.cuda_memory import Pinned, Ring

    spin = Spin()
    half = len(files) // 2
    batches = (files[:half], files[half : 2 * half])
    expected = [gi.resize(gi.open_batch(b, device="cpu"), (64, 64)).array("float32") for b in batches]

    def repeat() -> dict[str, int]:
        wrong, done = 0, 0
        while done < REPETITIONS and context.left() > _LEAST_S:
            results = []
            for batch in batches:
                spin(_SPIN_MS / 2)  # on the caller's stream, which the runtime's kernels wait for
                results.append(gi.resize(gi.open_batch(batch, device="cuda"), (64, 64)).array("float32"))
            cupy.cuda.Device(0).synchronize()
            wrong += any(np.abs(to_host(r) - e).mean() > _FAR for r, e in zip(results, expected, strict=True))
            done += 1
        return {"wrong_results": wrong, "n": done}

    found = {"as it is": repeat()}
    take = Ring.take

    def at_once(ring: Any, size: int) -> Any:
        """An arena that the GPU may still read."""
        found = next((block for block in ring._spare if block.size >= size), None)
        if found is None or isinstance(found.memory, Pinned):
            return take(ring, size)
        ring._spare.remove(found)
        return found

    with replaced(Ring, "take", at_once):
        found["without its host wait"] = repeat()
    return found


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Where the order is not kept, and whether gpuimg's wait is needed."""
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
