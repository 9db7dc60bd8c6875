"""The process of one part: runs it, keeps its results up to date on the disk, and says how it went."""

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
    """What a part is given: the device, its time, photos, and where its results go."""

    def __init__(self, name: str, out: Path, device: str, seconds: float, smoke: bool) -> None:
        self.out = out
        self.device = device
        self.smoke = smoke
        self.results: dict[str, Any] = {}
        self._path = part_path(out, name)
        self._end = time.monotonic() + seconds

    @property
    def on_gpu(self) -> bool:
        """Whether there is a GPU to measure, rather than this code to try."""
        return self.device != "cpu"

    @property
    def rounds(self) -> dict[str, Any]:
        """Options of :func:`bench.gpu.measure.rate`: a try of the program needs no numbers."""
        return {"rounds": 1, "passes": 1} if self.smoke else {}

    def left(self) -> float:
        """Seconds that are left for this part."""
        return self._end - time.monotonic()

    def record(self, key: str, value: Any) -> None:
        """Keep a result."""
        self.results[key] = value
        self.write("running")

    def write(self, status: str, error: str | None = None) -> None:
        """Write all results so far."""
        write_json(self._path, {"status": status, "results": self.results, "error": error})

    def photos(self, name: str, count: int) -> list[bytes]:
        """At most so many files of a set, as they are on the disk; where there are none, the example photos."""
        folder = ROOT / "bench" / ".photos" / name
        paths = sorted(folder.glob("*.jpg"))[: SMOKE_PHOTOS if self.smoke else count]
        if not paths or (self.smoke and name == "L"):
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
    context.write("ok (cpu smoke)" if options.smoke else "ok")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
