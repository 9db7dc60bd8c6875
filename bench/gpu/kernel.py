"""The fused kernel against the memory's bandwidth, and against torchvision's functions on the same GPU.

Model of the bytes of a batch: every launch that samples the source reads, once, the window of each image that its plan
may read (``height * width * channels * item size``); the last launch of a stage writes ``height * width * channels *
item size`` of each result. Statistics read and write nothing else worth counting. Bytes over the kernels' time, as a
share of a device-to-device copy that moves as many bytes (read and written) in the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import gpuimg as gi
from bench.gpu.chains import CHAINS, DTYPE, LAYOUT, SIZE
from bench.gpu.child import Context
from bench.gpu.measure import KernelTimes, Spin, kept, rate, synchronize
from gpuimg._batch.batch import recording_of

ROUNDS = 20
BATCHES = (64, 256)
LARGE_COPY = 1 << 29  # bytes copied to see the memory's bandwidth rather than the cache's
_ITEM = {"uint8": 1, "float16": 2, "bfloat16": 2, "float32": 4}
_LEAST_S = 4.0
_BOUND = 0.6  # of a copy's bandwidth, from which on memory is what limits a kernel


def model_bytes(batch: gi.Batch, dtype: str) -> dict[str, int]:
    """Bytes that the kernels of a recorded batch must move, by the model above, and its launches."""
    source, channels = _ITEM[recording_of(batch).source.dtype], recording_of(batch).source.channels
    read = written = launches = 0
    for k, plan in enumerate(recording_of(batch).segments):
        from gpuimg._plan.compile import compile_plan

        passes, region = compile_plan(plan)
        window = int(((region[:, 2] - region[:, 0]) * (region[:, 3] - region[:, 1])).sum()) * channels * source
        statistics = passes[-1].end_slot
        source, channels = (_ITEM[dtype] if k == len(recording_of(batch).segments) - 1 else 4), plan.channels
        read += window * (statistics + 1)
        written += int(plan.sizes.prod(1).sum()) * channels * source
        launches += statistics + 1
    pixels = int(batch.sizes.prod(1).sum())
    return {"read": read, "written": written, "total": read + written, "pixels": pixels, "launches": launches}


def run(context: Context) -> None:
    """Each chain on each batch size; then torchvision."""
    files = context.photos("S", max(BATCHES))
    chains: dict[str, Any] = {}
    if context.on_gpu:
        moved = 2 * (1 << 16 if context.smoke else LARGE_COPY)
        context.record("copy", {"bytes": moved, "gb_per_s": _copy_rate(moved)})
    for size in (len(files),) if context.smoke else BATCHES:
        images = gi.decode_batch(files[:size], device=context.device)
        for name, chain in CHAINS.items():
            if context.left() > _LEAST_S:
                chains[f"{name}, batch {len(images)}"] = kept(partial(_chain, context, images, chain))
                context.record("chains", chains)
    if context.on_gpu:
        try:
            _beside_torchvision(context)
        except ImportError as error:
            context.record("torchvision", {"skipped": f"not installed: {error}"[:300]})
        except Exception as error:
            context.record("torchvision", {"error": f"{type(error).__name__}: {error}"[:300]})


def _recorded(images: Any, chain: Callable[[Any, Any], gi.Batch]) -> gi.Batch:
    return chain(images, gi.Rng(0, indices=range(len(images))))


def _chain(context: Context, images: gi.Batch, chain: Callable[[Any, Any], gi.Batch]) -> dict[str, Any]:
    """Bytes, launches and times of one chain on decoded images."""
    batch = _recorded(images, chain)
    model = model_bytes(batch, DTYPE)

    def whole() -> None:
        _recorded(images, chain).array(DTYPE, LAYOUT)
        synchronize(context.device)

    batch.array(DTYPE, LAYOUT)
    found: dict[str, Any] = {
        "model": model,
        "bytes_per_output_pixel": round(model["total"] / model["pixels"], 2),
        "launches": batch.launches,
        "recording included": rate(whole, len(images), **context.rounds),
    }
    if context.on_gpu:
        found.update(kernel_times(images, chain, model, 1 if context.smoke else ROUNDS))
    return found


def kernel_times(
    images: Any, chain: Callable[[Any, Any], gi.Batch], model: dict[str, int], rounds: int = ROUNDS
) -> dict[str, Any]:
    """GPU time of the launches alone, without the host's part, and what that is of a copy of as many bytes."""
    times = KernelTimes(Spin())
    totals, kinds = [], {}
    with times.watching():
        for k in range(rounds + 2):
            _recorded(images, chain).array(DTYPE, LAYOUT)
            taken = times.taken()
            if k >= 2:
                totals.append(sum(sum(each) for each in taken.values()))
                kinds = {kind: [round(1e3 * one, 1) for one in each] for kind, each in taken.items()}
    median = float(np.median(totals))
    bandwidth = model["total"] / (median * 1e6)
    copy = _copy_rate(model["total"])
    return {
        "kernels_us": round(1e3 * median, 1),
        "kernels_us_range": [round(1e3 * min(totals), 1), round(1e3 * max(totals), 1)],
        "rounds": rounds,
        "launches_us": kinds,
        "gb_per_s": round(bandwidth, 1),
        "copy_of_as_many_bytes_gb_per_s": copy,
        "share_of_copy": round(bandwidth / copy, 3),
        "registers": times.registers(),
    }


def _copy_rate(moved: int) -> float:
    """GB/s, read and written, of a copy on the device that moves so many bytes."""
    import cupy

    half = max(moved // 2, 1)
    source, target = cupy.zeros(half, cupy.uint8), cupy.zeros(half, cupy.uint8)
    spin = Spin()
    stream = cupy.cuda.get_current_stream()
    taken = [
        spin.time(lambda: target.data.copy_from_device_async(source.data, half, stream)) for _ in range(ROUNDS + 2)
    ]
    return round(2 * half / (float(np.median(taken[2:])) * 1e6), 1)


def _beside_torchvision(context: Context) -> None:
    """Both on one array of photos of one size; gpuimg with other parameters for each image, torchvision cannot."""
    import torch
    from torchvision.transforms.v2 import functional

    decoded = gi.decode_batch(context.photos("P", 64), device=context.device).array("uint8", "NHWC")
    tensor = torch.from_dlpack(decoded).permute(0, 3, 1, 2).contiguous()
    found: dict[str, Any] = {"images": list(tensor.shape)}
    for name, chain in (("train", _torch_train), ("train+rotate+color", _torch_rotate_color)):
        if context.left() < _LEAST_S:
            return
        ours = kept(partial(_ours, decoded, CHAINS[name]))
        theirs = kept(partial(_torch_times, torch, partial(chain, functional, torch, tensor)))
        found[name] = {"gpuimg": ours, "torchvision": theirs}
        context.record("torchvision", found)


def _ours(images: Any, chain: Callable[[Any, Any], gi.Batch]) -> dict[str, Any]:
    batch = _recorded(images, chain)
    batch.array(DTYPE, LAYOUT)
    return {**kernel_times(images, chain, model_bytes(batch, DTYPE)), "launches": batch.launches}


def _torch_train(functional: Any, torch: Any, x: Any) -> Any:
    x = functional.resized_crop(x, 40, 120, 400, 500, [SIZE, SIZE], antialias=True)
    return _torch_end(functional, torch, functional.horizontal_flip(x))


def _torch_rotate_color(functional: Any, torch: Any, x: Any) -> Any:
    x = functional.resized_crop(x, 40, 120, 400, 500, [SIZE, SIZE], antialias=True)
    x = functional.rotate(functional.horizontal_flip(x), 33.0, functional.InterpolationMode.BILINEAR)
    x = functional.adjust_brightness(x, 1.2)
    x = functional.adjust_contrast(x, 0.8)
    x = functional.adjust_saturation(x, 1.3)
    return _torch_end(functional, torch, functional.adjust_hue(x, 0.05))


def _torch_end(functional: Any, torch: Any, x: Any) -> Any:
    x = functional.to_dtype(x, torch.float16, scale=True)
    return functional.normalize(x, list(gi.IMAGENET_MEAN), list(gi.IMAGENET_STD))


def _torch_times(torch: Any, work: Callable[[], Any]) -> dict[str, Any]:
    """GPU time and kernels of torch's work."""
    taken = []
    for _ in range(ROUNDS + 2):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(20_000_000)  # about 10 ms: longer than the host takes to launch a hundred kernels
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        taken.append(start.elapsed_time(end))
    found = {
        "kernels_us": round(1e3 * float(np.median(taken[2:])), 1),
        "kernels_us_range": [round(1e3 * min(taken[2:]), 1), round(1e3 * max(taken[2:]), 1)],
        "rounds": ROUNDS,
    }
    return {**found, "launches": _torch_kernels(torch, work)}


def _torch_kernels(torch: Any, work: Callable[[], Any]) -> int | str:
    """Kernels and copies that torch's profiler saw."""
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            work()
            torch.cuda.synchronize()
        cuda = torch.autograd.DeviceType.CUDA
        return sum(bool(event.device_type == cuda) for event in profile.events())
    except Exception as error:
        return f"not counted: {type(error).__name__}: {error}"[:200]


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Launches, bytes and bandwidth."""
    lines = []
    if "copy" in results:
        copied, rate_ = results["copy"]["bytes"] >> 21, results["copy"]["gb_per_s"]
        lines.append(f"a copy of {copied} MiB on the device moves {rate_:,.0f} GB/s")
    chains = {name: row for name, row in results.get("chains", {}).items() if "error" not in row}
    problems = [f"{name}: {row['error']}" for name, row in results.get("chains", {}).items() if "error" in row]
    if chains:
        lines += [
            "",
            "| chain | launches | B / output pixel | kernels, us (n) | GB/s | of a copy | images/s, recorded |",
        ]
        lines += ["|---|---|---|---|---|---|---|", *(_row(name, row) for name, row in chains.items()), ""]
    for name, row in chains.items():
        if name.startswith("train,") and row["launches"] != 1:
            problems.append(f"{name}: {row['launches']} launches instead of one")
        if row["launches"] != row["model"]["launches"]:
            problems.append(f"{name}: {row['launches']} launches, {row['model']['launches']} by the model")
        if "registers" in row:
            lines.append(f"{name}: {_registers(row['registers'])}")
    beside = results.get("torchvision", {})
    problems += [f"torchvision: {beside['error']}"] if "error" in beside else []
    lines += [f"torchvision: skipped, {beside['skipped']}"] if "skipped" in beside else []
    for name, row in beside.items():
        if isinstance(row, dict) and "torchvision" in row:
            bad = [f"{name}, {who}: {side['error']}" for who, side in row.items() if "error" in side]
            problems += bad
            lines += [] if bad else [_compared(name, beside["images"], row["gpuimg"], row["torchvision"])]
    return problems, lines


def _registers(kernels: dict[str, Any]) -> str:
    return "; ".join(
        f"{kind} kernel {one['registers']} registers, {one['local_bytes']} bytes of local memory"
        for kind, one in kernels.items()
    )


def _compared(name: str, images: Any, ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    return (
        f"{name} on {images}: gpuimg {ours['kernels_us']} us in {ours['launches']} launches, torchvision "
        f"{theirs['kernels_us']} us in {theirs['launches']}: {theirs['kernels_us'] / ours['kernels_us']:.1f} times "
        f"(n = {ours['rounds']} each)"
    )


def _row(name: str, row: dict[str, Any]) -> str:
    whole = f"{row['recording included']['images_per_second']:,.0f}"
    first = f"| {name} | {row['launches']} | {row['bytes_per_output_pixel']} |"
    if "kernels_us" not in row:
        return f"{first} | | | {whole} |"
    return (
        f"{first} {row['kernels_us']:,.1f} ({row['rounds']}) | {row['gb_per_s']:,.0f} | {row['share_of_copy']:.0%} "
        f"of {row['copy_of_as_many_bytes_gb_per_s']:,.0f} | {whole} |"
    )


def advice(results: dict[str, Any]) -> list[str]:
    """Whether the kernel's time matters, and against whom."""
    said = []
    for name, row in results.get("chains", {}).items():
        if "kernels_us" not in row:
            continue
        share = row["share_of_copy"]
        rate_ = 1e6 * row["model"]["pixels"] / (SIZE * SIZE) / row["kernels_us"]
        said.append(
            f"{name}: {rate_:,.0f} images/s by the kernels alone, {share:.0%} of a copy's bandwidth: "
            + ("it is bound by memory, leave it" if share > _BOUND else "memory is not what limits it")
        )
        spilt = [kind for kind, one in row.get("registers", {}).items() if one["local_bytes"]]
        if spilt:
            said.append(f"{name}: lower the blocks a multiprocessor is to run of {', '.join(spilt)}: registers spill")
    for name, row in results.get("torchvision", {}).items():
        if isinstance(row, dict) and all("kernels_us" in row.get(who, {}) for who in ("gpuimg", "torchvision")):
            ratio = row["torchvision"]["kernels_us"] / row["gpuimg"]["kernels_us"]
            if ratio < 1:
                said.append(f"{name}: torchvision's kernels take {ratio:.2f} times gpuimg's time: find out why")
    return said
