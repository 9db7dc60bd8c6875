"""What the proof on a GPU advises: for figures of each kind the sentence that belongs to them."""

from __future__ import annotations

from typing import Any

import pytest

from bench.gpu import (
    agreement,
    busy,
    costs,
    decoding,
    handoff,
    jpeg,
    kernel,
    machine,
    order,
    paths,
    peers,
    priority,
    probe,
    sentinel,
    suite,
    sweep,
    throughput,
    truncated,
    video,
    warm,
)


def rates(**rows: float) -> dict[str, Any]:
    """Rows by name, underscores for spaces."""
    return {name.replace("_", " "): {"images_per_second": float(rate)} for name, rate in rows.items()}


def cases(free: int, waited: int = 0, n: int = 100) -> dict[str, Any]:
    row = {"wrong_decodes": 0, "n": n}
    return {
        "same stream, no wait": {**row, "corrupted_reads": free},
        "same stream, host wait": {**row, "corrupted_reads": waited},
    }


def seen(**bad: int) -> dict[str, int]:
    return {"images": 100_000, "unwritten": 0, "partly written": 0, "wrong": 0, **bad}


def point(share: float, path: str, rate: float, lanes: int = 2) -> dict[str, Any]:
    return {"share": share, "path": path, "lanes": lanes, "images_per_second": rate}


POINTS = [
    point(1.0, "one by one", 100),
    point(1.0, "legacy batch", 150),
    point(0.65, "one by one", 90),
    point(0.65, "legacy batch", 130),
    point(0.0, "one by one", 999),
]
OWN = {"2 lanes": {"images_per_second": 100.0}}
SWEPT = [
    {
        "variant": 0,
        "us": {"huffman": 100.0, "inverse_dct": 50.0},
        "sizes": {"THREADS": 64, "BLOCKS_AT_ONCE": 32, "PIXELS_AT_ONCE": 256},
    },
    {
        "variant": 1,
        "us": {"huffman": 50.0, "inverse_dct": 49.0},
        "sizes": {"THREADS": 32, "BLOCKS_AT_ONCE": 8, "PIXELS_AT_ONCE": 128},
    },
]
DAMAGE = {"hybrid": {"mates": 0}, "gpuimg": {"only the CPU refuses": 0, "only the GPU refuses": 0}}
FRAMES = {"frames": 24, "wrong frames": 0, "pixels": 999, "wrong pixels": 0, "rounded pixels": 1, "clips_on_cpu": 0}
FAR = {"errors": [], "share_beyond_1e-4": 0.5, "uint8_share_beyond_1": 0.0}
NEAR = {**FAR, "share_beyond_1e-4": 0.0}
TESTS = {"passed": ["a", "b"], "failed": {}}
CHAIN = {"kernels_us": 100.0, "share_of_copy": 0.9, "model": {"pixels": 224 * 224}, "registers": {}}

CASES: list[tuple[Any, dict[str, Any], str]] = [
    (machine, {"gpu problem": "no driver"}, "make a GPU usable first: no driver"),
    (machine, {"decoders": ["CUDA"]}, "from another GPU"),
    (probe, {"checks": {"nvrtc": {"status": "broken"}, "jax": {"status": "absent"}}}, "mend nvrtc first"),
    (probe, {"checks": {"nvrtc": {"status": "ok"}, "jax": {"status": "absent"}}}, "go on"),
    (warm, {"processes": {"kernels 1 of 2": {"error": "no ptxas"}}}, "mend the compiler first (kernels 1 of 2)"),
    (warm, {"processes": {"kernels 1 of 2": {"made": 3}}}, "more time"),
    (warm, {"processes": {"kernels 1 of 2": {"made": 3}}, "seconds": 9.0}, "take the folder of kernels along"),
    (
        suite,
        {"test_gpu": {**TESTS, "failed": {"t.py::c": "x"}}},
        "1 of 3 tests fail: begin with `python -m pytest -x 't.py",
    ),
    (suite, {"test_gpu": TESTS}, "all 2 tests pass"),
    (agreement, {"functions": {"resize": FAR, "crop": NEAR}}, "mend these functions on the GPU: resize"),
    (agreement, {"functions": {"crop": NEAR}, "chains": {"beyond_the_limit": 2}}, "chains of them do not"),
    (agreement, {"functions": {"crop": NEAR}, "chains": {"beyond_the_limit": 0}}, "say so in the README"),
    (
        order,
        {"decoders": {"hybrid": cases(0)}},
        "hybrid: 0 of 100 reads corrupted without a wait (at 95 % less than 3.0%)",
    ),
    (
        order,
        {"decoders": {"hybrid": cases(7)}},
        "hybrid: 7 of 100 reads corrupted without a wait: the host's wait stays",
    ),
    (order, {"decoders": {"hybrid": cases(7, waited=1)}}, "do not use this decoder"),
    (order, {"decoders": {"hybrid": cases(0, n=4)}}, "give it more time"),
    (order, {"gpuimg": {"as it is": {"wrong_results": 1}}}, "take the hardware decoder out"),
    (
        sentinel,
        {"decoders": {"hybrid": seen(), sentinel.OURS: seen()}},
        "in 100,000 images of each (at 95 % less than 3e-05)",
    ),
    (
        sentinel,
        {"decoders": {"hybrid": seen(), "hardware, batched": seen(wrong=1)}},
        "keep gpuimg away from: hardware, batched",
    ),
    (
        sentinel,
        {"decoders": {"hybrid": seen(), sentinel.OURS: seen(unwritten=1)}},
        "set the share of the hardware to 0; clean are hybrid",
    ),
    (truncated, {"damages": {"whole": DAMAGE}}, "the same on both devices"),
    (video, {"frames": {"h264": {**FRAMES, "wrong frames": 1}}}, "mend NVDEC's frames"),
    (video, {"frames": {"h264": {**FRAMES, "clips_on_cpu": 1}}}, "mend NVDEC's frames"),
    (
        video,
        {"opening": {"hevc": {"cuda:0": {"first frame_ms": 9.0, "clip_ms": 30.0}}}},
        "hevc: opening is 30% of a clip",
    ),
    (
        video,
        {
            "frames": {"h264": FRAMES},
            "rates": rates(**{"h264, cpu": 100, "h264, 2 at once": 300, "h264, 4 at once": 250}),
        },
        "h264, 2 at once is the fastest: 3.0 times the CPU",
    ),
    (
        video,
        {
            "memory": {
                "first": {"process_mib": 500.0, "gpu_mib": 900.0},
                "last": {"process_mib": 505.0, "gpu_mib": 999.0},
            }
        },
        "memory grows with opening",
    ),
    (
        truncated,
        {"damages": {"cut": {**DAMAGE, "gpuimg": {"only the CPU refuses": 5}}}},
        "5 bad files are images on the GPU",
    ),
    (truncated, {"damages": {"cut": {**DAMAGE, "hybrid": {"mates": 2}}}}, "hurt their batch in hybrid"),
    (paths, {"points": POINTS[:4], "gpuimg's decoder": OWN}, "set share 1.0, legacy batch, 2 lanes: 1.50 times"),
    (paths, {"points": POINTS[:1], "gpuimg's decoder": OWN}, "leave share, path and lanes as they are"),
    (
        paths,
        {"points": POINTS, "gpuimg's decoder": OWN},
        "the legacy batch is 1.50 times one by one: take force_batch_single out",
    ),
    (
        paths,
        {"points": POINTS, "gpuimg's decoder": OWN},
        "a share between 0 and 1 is 0.13 times the better of 0 and 1: remove",
    ),
    (
        decoding,
        {
            "points": [
                {**point(1, "", 100), "set": "S", "load": 1, "threads": 1, "batch": 1, "decoders": 1, "options": ""}
            ]
        },
        "leave threads, batches and options",
    ),
    (
        decoding,
        {
            "points": [
                {**point(1, "", r), "set": "S", "load": 1, "threads": r, "batch": 1, "decoders": 1, "options": ""}
                for r in (100, 200)
            ]
        },
        "200 threads, batch 1, 1 decoders, as it is: 2.00 times",
    ),
    (jpeg, {"pixels": {"whole images": 1, "crops": 0}}, "take gpuimg's JPEG kernels out"),
    (
        jpeg,
        {
            "rates": rates(
                **{"bytes_to_train_batches, batch 64": 200, "bytes_to_train_batches, without an index, batch 64": 100}
            )
        },
        "2.00 times nvImageCodec's rate: recommend an index",
    ),
    (
        jpeg,
        {
            "rates": rates(
                **{"bytes_to_train_batches, batch 64": 50, "bytes_to_train_batches, without an index, batch 64": 100}
            )
        },
        "let nvImageCodec decode files with an entry",
    ),
    (sweep, {"variants": SWEPT}, "set THREADS = 32: huffman is 2.00 times as fast"),
    (sweep, {"variants": SWEPT}, "leave BLOCKS_AT_ONCE = 32"),
    (
        sweep,
        {"every": {"8": {"all_us": 20.0}, "4": {"all_us": 10.0}}},
        "segments of every 4: the kernels are 2.00 times",
    ),
    (sweep, {"blocks at a time": {"8": {"all_us": 20.0}, "4": {"all_us": 30.0}}}, "MOST_BLOCKS = 8 stays"),
    (
        kernel,
        {"chains": {"train, batch 64": CHAIN}},
        "10,000 images/s by the kernels alone, 90% of a copy's bandwidth: it is bound by",
    ),
    (
        kernel,
        {"chains": {"train, batch 64": {**CHAIN, "registers": {"statistics": {"local_bytes": 8}}}}},
        "of statistics: registers spill",
    ),
    (
        kernel,
        {"torchvision": {"train": {"gpuimg": {"kernels_us": 10.0}, "torchvision": {"kernels_us": 5.0}}}},
        "0.50 times gpuimg's time",
    ),
    (
        throughput,
        {"S, train": rates(**{"decode alone: x": 100, "gpuimg.load, 2 decoders": 95})},
        "reaches 0.95 of decoding alone with 2 decoders: decoding limits",
    ),
    (throughput, {"S, train": rates(**{"decode alone: x": 100, "gpuimg.load, 2 decoders": 50})}, "the host limits it"),
    (
        busy,
        {
            "rows": {
                f"2 decoders, {who}": {"ms a batch": ms}
                for who, ms in ((busy.ALONE, 10), (busy.BUSY, 11), (busy.OFTEN, 11))
            }
        },
        "1.10 times as long: it overlaps",
    ),
    (
        busy,
        {
            "rows": {
                f"2 decoders, {who}": {"ms a batch": ms}
                for who, ms in ((busy.ALONE, 10), (busy.BUSY, 20), (busy.OFTEN, 12))
            }
        },
        "let load() switch every 0.5 ms while it runs (1.20 times)",
    ),
    (
        busy,
        {
            "rows": {
                f"2 decoders, {who}": {"ms a batch": ms}
                for who, ms in ((busy.ALONE, 10), (busy.BUSY, 20), (busy.OFTEN, 20))
            }
        },
        "move more of them out of it",
    ),
    (
        priority,
        {"rows": {name: {"ms a step": ms} for name, ms in (("neither", 20), ("lanes high", 10), ("step high", 15))}},
        "give the lanes' streams the priority -5: 2.00 times",
    ),
    (
        priority,
        {"rows": {name: {"ms a step": ms} for name, ms in (("neither", 20), ("lanes high", 20), ("step high", 20))}},
        "leave priorities alone",
    ),
    (
        handoff,
        {"order": {"as it is": {"wrong": 0}, "order taken out": {"wrong": 3}}},
        "order: right, and wrong with what gives",
    ),
    (handoff, {"order": {"as it is": {"wrong": 0}, "order taken out": {"wrong": 0}}}, "shows nothing yet"),
    (
        handoff,
        {"order": {"as it is": {"wrong": 1}, "order taken out": {"wrong": 3}}},
        "mend the hand-off before anything",
    ),
    (handoff, {"pointers": {"gpuimg.to_jax": "copied"}}, "these copy, or mend them: gpuimg.to_jax"),
    (
        costs,
        {"fresh process": {"cold": {"first_batch_s": 9.0}, "warm": {"first_batch_s": 1.0}}},
        "waits 1.0 s for its first batch",
    ),
    (
        costs,
        {"host_us_per_image": {"open_batch": {"median": 5.0}, "train, recorded and launched": {"median": 45.0}}},
        "at least 50 us an image, so at most 20,000 images/s a process, decoding not counted: take it out of Python",
    ),
    (costs, {"memory": {"growth_mib": {"host": 99.0}}}, "find who keeps memory: host grows"),
    (
        peers,
        {"works": {"train": rates(**{peers.OURS: 100, "dali-mixed": 150})}},
        "train: dali-mixed is 1.50 times gpuimg: say so in the README",
    ),
    (
        peers,
        {"works": {"train": rates(**{peers.OURS: 100, "dali-mixed": 50})}},
        "gpuimg is 2.00 times the best of 1, dali-mixed: claim that",
    ),
]


@pytest.mark.parametrize(
    ("part", "results", "said"), CASES, ids=lambda case: getattr(case, "__name__", "")[10:] or None
)
def test_advice(part: Any, results: dict[str, Any], said: str) -> None:
    assert said in "\n".join(part.advice(results))
