"""One result of all parts, and its report as Markdown."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from bench.gpu.harness import Part, Result, Settings, read_json, write_json
from bench.gpu.targets import table

GOOD = ("ok", "ok (a try)")


def assemble(parts: Sequence[Part], settings: Settings, found: dict[str, Result], header: dict[str, Any]) -> None:
    """Write ``gpu.json``, ``summary.json`` and ``summary.md``."""
    settings.out.mkdir(parents=True, exist_ok=True)
    write_json(settings.out / "gpu.json", {**header, "device": settings.device, "parts": found})
    write_json(settings.out / "summary.json", {**header, "device": settings.device, **short(parts, found)})
    (settings.out / "summary.md").write_text(markdown(parts, settings, found, header))


def short(parts: Sequence[Part], found: dict[str, Result]) -> dict[str, Any]:
    """Return the status of each part, and its failures."""
    return {
        "parts": {
            part.name: {
                "status": found[part.name]["status"],
                "failures": claims_of(part, found[part.name])[0],
            }
            for part in parts
            if part.name in found
        }
    }


def results_of(out: Any) -> dict[str, Result]:
    """Return the parts of an earlier run in this folder."""
    return {name: part for name, part in read_json(out / "gpu.json").get("parts", {}).items() if isinstance(part, dict)}


def markdown(parts: Sequence[Part], settings: Settings, found: dict[str, Result], header: dict[str, Any]) -> str:
    """Return targets and failures first, then the claims with their numbers, then the machine."""
    words = {part.name: claims_of(part, found[part.name]) for part in parts if part.name in found}
    lines = ["# gpuimg on a GPU", ""]
    if settings.smoke:
        lines += ["**A try of this program without a GPU: none of these numbers says anything about one.**", ""]
    lines += ["## Targets", "", *table(found), ""]
    lines += ["Times are medians; `n` is the number of repetitions of each, warm-up not counted.", ""]
    lines += ["## Failures", ""] + (_failures(parts, found, words) or ["None."]) + [""]
    for part in parts:
        if part.name in words and words[part.name][1]:
            lines += [f"## {part.title[0].upper()}{part.title[1:]} (`{part.name}`)", ""]
            lines += [_item(line) for line in words[part.name][1]] + [""]
    lines += ["## Run", ""]
    lines += [f"- {key}: {value}" for key, value in header.items()]
    lines += ["", "| part | status | seconds |", "|---|---|---|"]
    lines += [
        f"| {p.name} | {found[p.name]['status']} | {found[p.name].get('seconds', 0)} |"
        for p in parts
        if p.name in found
    ]
    return "\n".join(lines) + "\n"


def _failures(
    parts: Sequence[Part], found: dict[str, Result], words: dict[str, tuple[list[str], list[str]]]
) -> list[str]:
    """Return the parts that did not run, and the claims that do not hold."""
    lines = []
    for part in parts:
        result = found.get(part.name)
        if result is None:
            continue
        if result.get("status") not in GOOD:
            error = str(result.get("error") or "").strip()
            first, _, rest = error.partition("\n")
            lines.append(f"- **{part.name}: {result.get('status')}**: {first}")
            if rest:
                lines += ["", "  ```", *(f"  {line}" for line in rest.splitlines()[-15:]), "  ```", ""]
        lines += [f"- {part.name}: {problem}" for problem in words[part.name][0]]
    return lines


def claims_of(part: Part, result: Result) -> tuple[list[str], list[str]]:
    """Return problems and claims of a part, even if it is incomplete."""
    results = result.get("results") or {}
    if not results:
        return [], []
    try:
        problems, claims = importlib.import_module(part.module).claims(results)
    except Exception as error:
        return [f"its results could not be put in words: {type(error).__name__}: {error}"], []
    return list(problems), list(claims)


def _item(line: str) -> str:
    """Format a line as a list item, except tables."""
    return line if line.startswith("|") or not line else f"- {line}"
