"""Damaged files, decoder by decoder: who reports an error, who gives an image, and what the CPU says.

A file is bad if gpuimg refuses it on the CPU. Each is decoded alone and among good ones; those must stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpuimg as gi
from bench.gpu.child import Context
from bench.gpu.decoders import KINDS, decoder_of, gpuimg_decoder, one_batch, shape_of
from bench.gpu.measure import mean_apart
from bench.gpu.sentinel import OURS

PHOTOS = 6
GOOD = 4  # photos around the damaged one
_FAR = 3.0  # mean difference in levels
_LEAST_S = 2.0

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "whole": lambda data: data,
    "without its end marker": lambda data: data[:-2],
    "400 bytes cut off": lambda data: data[:-400],
    "half cut off": lambda data: data[: len(data) // 2],
    "ends behind the headers": lambda data: data[: data.index(b"\xff\xda") + 20],
    "zeros in its middle": lambda data: data[: len(data) // 2] + bytes(64) + data[len(data) // 2 + 64 :],
    "bytes behind its end": lambda data: data + bytes(1000),
}


def run(context: Context) -> None:
    """All decoders on each damage; then gpuimg itself."""
    if not context.on_gpu:
        context.record("skipped", "needs a GPU")
        return
    files = context.photos("S", 256)
    files, good = files[: 3 if context.smoke else PHOTOS], files[-(2 if context.smoke else GOOD) :]
    pixels = gi.decode_batch(good, device="cpu")
    table: dict[str, Any] = {}
    for damage, spoil in DAMAGES.items():
        spoiled = [spoil(data) for data in files]
        answers = [cpu_answer(data) for data in spoiled]
        table[damage] = {"the CPU": _kinds(answers)}
        for name in [*KINDS, OURS]:
            if context.left() > _LEAST_S:
                table[damage][name] = _decoder(name, spoiled, answers, good, list(pixels))
        table[damage]["gpuimg"] = _gpuimg(context.device, spoiled, answers)
        context.record("damages", table)


def cpu_answer(data: bytes) -> Any:
    """The CPU's image, or None where it refuses the file."""
    batch = gi.decode_batch([data], device="cpu", on_error="fill")
    return None if batch.errors else batch[0]


def _kinds(answers: list[Any]) -> dict[str, int]:
    bad = sum(answer is None for answer in answers)
    return {"error": bad, "image": len(answers) - bad}


def _decoder(
    name: str, spoiled: list[bytes], answers: list[Any], good: list[bytes], pixels: list[Any]
) -> dict[str, Any]:
    """What a decoder makes of files alone, and what becomes of good ones beside them."""
    try:
        decoder = gpuimg_decoder() if name == OURS else decoder_of(name)
    except Exception as error:
        return {"not run": f"{type(error).__name__}: {error}"[:200]}
    found = {"error": 0, "image": 0, "image of a bad file": 0, "other pixels": 0, "errors of the call": 0, "mates": 0}
    for data, answer in zip(spoiled, answers, strict=True):
        image = _images(decoder, [data], found)[0]
        found["error" if image is None else "image"] += 1
        if image is not None:
            found["image of a bad file"] += answer is None
            found["other pixels"] += answer is not None and _apart(image, answer)
        if _has_size(data):
            beside = _images(decoder, [*good, data], found)[:-1]
            found["mates"] += sum(one is None or _apart(one, other) for one, other in zip(beside, pixels, strict=True))
    return found


def _has_size(data: bytes) -> bool:
    """Whether nvImageCodec can read the header; without, a file comes into no batch."""
    try:
        return bool(shape_of(data))
    except Exception:
        return False


def _images(decoder: Any, files: list[bytes], found: dict[str, int]) -> list[Any]:
    """Images of a batch; none of it where the call fails."""
    try:
        return one_batch(decoder, files)
    except Exception:
        found["errors of the call"] += 1
        return [None] * len(files)


def _apart(image: Any, other: Any) -> bool:
    return image.shape != other.shape or mean_apart(image, other) > _FAR


def _gpuimg(device: str, spoiled: list[bytes], answers: list[Any]) -> dict[str, int]:
    """Where gpuimg's answers differ from device to device."""
    batch = gi.decode_batch(spoiled, device=device, on_error="fill")
    bad = {i for i, answer in enumerate(answers) if answer is None}
    return {
        **_kinds([None if i in batch.errors else 1 for i in range(len(spoiled))]),
        "only the CPU refuses": len(bad - set(batch.errors)),
        "only the GPU refuses": len(set(batch.errors) - bad),
    }


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The table, and where devices disagree."""
    problems, lines = [], []
    rows = [(damage, name, row) for damage, names in results.get("damages", {}).items() for name, row in names.items()]
    for damage, name, row in rows:
        if name == "gpuimg" and (row["only the CPU refuses"] or row["only the GPU refuses"]):
            problems.append(f"{damage}: gpuimg's answer differs from device to device: {row}")
        if row.get("mates"):
            problems.append(f"{damage}, {name}: {row['mates']} good images of the same batches failed or are wrong")
    if rows:
        lines += ["", "| damage | decoder | what it gives |", "|---|---|---|"]
        lines += [
            f"| {damage} | {name} | {', '.join(f'{value} {key}' for key, value in row.items() if value)} |"
            for damage, name, row in rows
        ] + [""]  # fmt: skip
    return problems, lines


def advice(results: dict[str, Any]) -> list[str]:
    """Whether the host must look for the end of an image."""
    damages = results.get("damages", {})
    if not damages:
        return []
    both = {
        name: sum(names.get("gpuimg", {}).get(f"only the {name} refuses", 0) for names in damages.values())
        for name in ("CPU", "GPU")
    }
    mates = sorted({name for names in damages.values() for name, row in names.items() if row.get("mates")})
    said = [
        "gpuimg's answers to damaged files are the same on both devices: nothing to do"
        if not sum(both.values())
        else f"{both['CPU']} bad files are images on the GPU, {both['GPU']} good ones errors: let the host's pass over "
        "the headers refuse what has no end marker in its place, and send the rest of what differs to the CPU"
    ]
    if mates:
        said.append(
            f"damaged files hurt their batch in {', '.join(mates)}: do not give them files that the host doubts"
        )
    return said
