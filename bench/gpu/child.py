"""The process of one part: runs it, writes its results to disk as they come, and reports its status."""

from __future__ import annotations

import argparse
import importlib
import time
import traceback
from pathlib import Path
from typing import Any

from bench.gpu.harness import ROOT, part_path, write_json

SMOKE_PHOTOS = 8


class Context:
    """The environment of a part: the device, its time, photos, and the folder of its results."""

    def __init__(self, name: str, out: Path, device: str, seconds: float, smoke: bool) -> None:
        self.out = out
        self.device = device
        self.smoke = smoke
        self.results: dict[str, Any] = {}
        self._path = part_path(out, name)
        self._end = time.monotonic() + seconds

    @property
    def on_gpu(self) -> bool:
        """Return True if there is a GPU to measure; without one the run only tests this code."""
        return self.device != "cpu"

    @property
    def rounds(self) -> dict[str, Any]:
        """Return options of :func:`bench.gpu.measure.rate`: a test of this code needs no precise numbers."""
        return {"rounds": 1, "passes": 1} if self.smoke else {}

    def left(self) -> float:
        """Return the remaining seconds of this part."""
        return self._end - time.monotonic()

    def record(self, key: str, value: Any) -> None:
        """Store a result."""
        self.results[key] = value
        self.write("running")

    def write(self, status: str, error: str | None = None) -> None:
        """Write all results so far."""
        write_json(self._path, {"status": status, "results": self.results, "error": error})

    def photos(self, name: str, count: int) -> list[bytes]:
        """Return at most ``count`` files of a set from the disk, or the example photos if there are none."""
        folder = ROOT / "bench" / ".photos" / name
        paths = sorted(folder.glob("*.jpg"))[: SMOKE_PHOTOS if self.smoke else count]
        if not paths:
            examples = sorted((ROOT / "examples" / "photos").glob("*.jpg"))
            paths = (examples * -(-count // len(examples)))[: SMOKE_PHOTOS if self.smoke else count]
            self.record(f"photos of set {name}", f"missing: {len(examples)} example photos, repeated")
        return [path.read_bytes() for path in paths]


def main(command: list[str] | None = None) -> int:
    """Run a part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("module")
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args(command)
    context = Context(options.name, options.out, options.device, options.seconds, options.smoke)
    try:
        importlib.import_module(options.module).run(context)
    except Exception as error:
        traceback.print_exc()
        context.write("failed", f"{type(error).__name__}: {error}")
        return 1
    context.write("ok (a try)" if options.smoke else "ok")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
