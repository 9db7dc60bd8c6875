"""Seconds that compiling takes: ``pip install .`` in a new environment, and the first demo where Numba compiles."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import common


def seconds(*command: str | Path, **environment: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=os.environ | environment, check=True, stdout=subprocess.DEVNULL)
    return round(time.perf_counter() - start, 1)


def main() -> None:
    options = common.arguments(__doc__, "compiling.json", rounds=1).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        python, sheet = Path(folder, "bin", "python"), f"--out={folder}/sheet.png"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        found = {"install": seconds(python, "-m", "pip", "install", "--quiet", common.ROOT, PYTHONPATH="")}
        demo = (python, "-I", "-m", "gpuimg", "demo", sheet)
        found["demo"] = seconds(*demo)
        found["demo_by_numba"] = seconds(*demo, GPUIMG_NATIVE="jit", NUMBA_CACHE_DIR=folder)
    common.write({**common.environment({}, 1, 4), "seconds": found}, options.out)


if __name__ == "__main__":
    main()
