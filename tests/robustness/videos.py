"""Damaged videos by number: each decodes to clips or a reason, in bounded time and memory.

    python -m tests.robustness.videos 2000 [--out bench/results/video-robustness.json]

A child process opens them and is restarted after a file that kills it. A seed is the same damage of a file in every
run, but encoders of another version make another file.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

import gpuimg as gi

from ..videos import BUILDS, make
from .children import Dead, Voice, events
from .mutate import Draw

KINDS = ("h264", "h264 open gop mkv", "h264 fragments", "hevc", "hevc cut ts", "av1", "vp9", "mpeg4 avi", "mpeg2 ps")
SECONDS = 20.0  # that a file of 24 frames may take, on a machine that does other things as well
MEMORY = 600 << 10  # KiB that all files together may add
_MAX_PIXELS = 1 << 20
_FIELDS = (0, 1, 2, 127, 128, 255, 256, 32767, 65535, 1 << 20, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)


@cache
def original(kind: str) -> bytes:
    """An intact video of 24 frames."""
    return make(BUILDS[kind]._replace(dropped=min(BUILDS[kind].dropped, 3)), frames=24)


def mutation(seed: int) -> tuple[str, bytes]:
    """A kind, and a file of it with one to four things done to it."""
    draw = Draw(seed)
    kind = draw.pick(KINDS)
    data = bytearray(original(kind))
    for _ in range(draw.between(1, 4)):
        at, size = draw.below(len(data)), draw.between(1, 1 << draw.below(9))
        if draw.below(2):  # most of what matters to a demuxer is at the ends
            at = draw.below(min(len(data), 600)) if draw.below(2) else max(len(data) - 1 - draw.below(3000), 0)
        match draw.below(7):
            case 0:
                data[at] ^= 1 << draw.below(8)
            case 1:
                data[at : at + size] = draw.text(len(data[at : at + size]))
            case 2:
                data[at : at + 4] = draw.pick(_FIELDS).to_bytes(4, draw.pick(("big", "little")))
            case 3:
                del data[at : at + size]
            case 4:
                data[at:at] = draw.text(size)
            case 5:
                other = draw.below(len(data))
                data[at : at + size] = data[other : other + size]
            case _:
                del data[max(at, 16) :]
        if len(data) < 16:
            data += bytes(16)
    return kind, bytes(data)


def outcome(data: bytes) -> str:
    """Return the outcome of a file: "decoded", "refused", or a reason that it is neither."""
    try:
        info = gi.video_info(data, max_pixels=_MAX_PIXELS)
        rng = np.random.default_rng(len(data))
        x = gi.open_clips(
            [data] * 3, 4, start=rng.integers(0, info.frames, 3), device="cpu", on_error="fill", max_pixels=_MAX_PIXELS
        )
        shape = gi.resize(x, (16, 24)).array(layout="NTHWC").shape
    except ValueError as error:
        return "refused" if str(error) else "refused without a reason"
    if shape != (3, 4, 16, 24, 3):
        return f"of shape {shape}"
    return "decoded" if x.status == ["ok"] * 3 else "some clips refused"


def run(first: int, count: int) -> Iterator[tuple[int, str, float]]:
    """Seed, outcome and seconds of each file; the child is restarted after one that ends it."""
    seed = first
    while seed < first + count:
        command = (sys.executable, "-X", "faulthandler", "-W", "error", "-m", "tests.robustness.videos", "--child")
        try:
            for event in events([str(seed), str(first + count)], command=command, timeout=60.0):
                if "seed" in event:
                    seed = event["seed"] + 1
                    yield event["seed"], event["outcome"], event["seconds"]
                elif event["memory"] > MEMORY:
                    yield seed, f"kept {event['memory']} KiB", 0.0
        except Dead as death:
            yield seed, f"{death.how}: {death.last_words}", 0.0
            seed += 1


def findings(results: list[tuple[int, str, float]]) -> list[str]:
    """Return the forbidden outcomes and times."""
    good = {"decoded", "refused", "some clips refused"}
    bad = [f"{seed}: {what}" for seed, what, _ in results if what not in good]
    return bad + [f"{seed}: {seconds:.1f} s" for seed, _, seconds in results if seconds > SECONDS]


def _child(first: int, stop: int) -> None:
    voice = Voice()
    outcome(original("h264"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(first, stop):
        _, data = mutation(seed)
        start = time.perf_counter()
        voice.say(seed=seed, outcome=outcome(data), seconds=time.perf_counter() - start)
    voice.say(memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def main(arguments: list[str]) -> int:
    """The command line."""
    if arguments[0] == "--child":
        _child(int(arguments[1]), int(arguments[2]))
        return 0
    count = int(arguments[0])
    results = []
    for one in run(0, count):
        results.append(one)
        if len(results) % 100 == 0:
            print(len(results), "files", file=sys.stderr)
    found = findings(results)
    seconds = [seconds for *_, seconds in results]
    report: dict[str, Any] = {
        "files": count, "outcomes": Counter(what for _, what, _ in results if what in ("decoded", "refused")),
        "some clips refused": sum(what == "some clips refused" for _, what, _ in results),
        "slowest_s": round(max(seconds), 2), "findings": found,
    }  # fmt: skip
    text = json.dumps(report, indent=2)
    print(text)
    if "--out" in arguments:
        with open(arguments[arguments.index("--out") + 1], "w") as file:
            file.write(text + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
