"""Pack all that checking and measuring a GPU takes, for a machine without a network.

    python -m bench.gpu.pack --out DIR --wheels DIR [--python 3.12] [--photos S,P] [--lib DIR]

``DIR`` then has at most 60 MB: ``gpuimg.tar.xz``, the files of this checkout with compiled loops and CUDA kernels;
``photos.tar``; ``site.tar.xz``, the wheels of a folder that you give, without what the measurements do not use; and
the scripts of ``bench/gpu/scripts``. Copy it, and run ``bash DIR/check.sh``: see docs/gpu.md.

On that machine Python, NumPy, CuPy, Pillow, pytest and hypothesis must be installed; Numba and numba-cuda are needed
for functions of users only.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from bench.gpu.__main__ import COMMIT, header
from bench.gpu.harness import ROOT
from bench.gpu.prepare import COUNTS, FOLDER, PACKED

MOST_BYTES = 60_000_000
LEVELS = ("x86-64-v3", "x86-64-v4")  # of the machines that GPUs of data centers are in
SCRIPTS = Path(__file__).with_name("scripts")
_LIB = "kernels/_lib"
_PHOTOS = FOLDER.relative_to(ROOT).as_posix()

#: What is left out of wheels, by their distribution; modules for other versions of Python are left out of all.
LEFT_OUT = {
    "nvidia_nvimgcodec": (
        "*/include/*", "*/tools/*", *(f"*/extensions/lib{name}_ext*" for name in (
            "opencv", "tiff", "nvtiff", "nvjpeg2k", "nvbmp", "nvpnm",
        )),
    ),
    "nvidia_nvjpeg": ("*/include/*",),
    "nvidia_dali": ("*/include/*", "*/test/*", "*/examples/*"),
}  # fmt: skip
_MODULE_OF = re.compile(r"\.cpython-(\d+t?)-[^/]*\.so$")


def names_of(wheel: zipfile.ZipFile, distribution: str, python: str) -> Iterator[str]:
    """Yield the names of a wheel's files that are packed."""
    patterns = next((found for start, found in LEFT_OUT.items() if distribution.startswith(start)), ())
    version = python.replace(".", "")
    for name in wheel.namelist():
        match = _MODULE_OF.search(name)
        other = match is not None and match[1] != version
        if not (name.endswith("/") or other or any(fnmatch(name, pattern) for pattern in patterns)):
            yield name


def pack_wheels(folder: Path, out: Path, python: str) -> list[str]:
    """Pack the contents of a folder's wheels; return their names."""
    found = sorted(folder.glob("*.whl"))
    with tarfile.open(out, "w:xz") as archive:
        for path in found:
            with zipfile.ZipFile(path) as wheel:
                for name in names_of(wheel, path.name.partition("-")[0], python):
                    _add(archive, name, wheel.read(name))
    return [path.name for path in found]


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o644
    archive.addfile(member, io.BytesIO(content))


def sources() -> list[str]:
    """Return the tracked files of this checkout."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


def pack_sources(lib: Path | None, out: Path) -> None:
    """Pack the files of this checkout as they are, with compiled loops and kernels."""
    with tarfile.open(out, "w:xz") as archive:
        for name in sources():
            if os.path.lexists(ROOT / name):  # not one that was removed and is not committed
                archive.add(ROOT / name, f"gpuimg/{name}", recursive=False)
        for path in sorted(lib.iterdir()) if lib is not None else ():
            archive.add(path, f"gpuimg/{_LIB}/{path.name}")
        _add(archive, f"gpuimg/{COMMIT}", f"{header(0.0, '')['commit']}\n".encode())


def pack_photos(sets: list[str], out: Path) -> None:
    """Pack the photos of some sets.

    Raises
    ------
    FileNotFoundError
        If they were not made.
    """
    with tarfile.open(out, "w") as archive:
        for name in sets:
            paths = sorted((FOLDER / name).glob("*.jpg"))[: COUNTS[name]]
            if len(paths) < COUNTS[name]:
                raise FileNotFoundError(f"set {name} has {len(paths)} of {COUNTS[name]} photos: make gpu-photos")
            for path in paths:
                archive.add(path, f"gpuimg/{_PHOTOS}/{name}/{path.name}")
        _add(archive, f"gpuimg/{_PHOTOS}/{PACKED}", b"")


def built(lib: Path) -> Path:
    """Return a folder with loops and kernels compiled from these sources; compile them if it has others."""
    from gpuimg.kernels.native import MANIFEST, source_digest

    try:
        made_of = json.loads((lib / MANIFEST).read_text())["sources"]
    except (OSError, ValueError, KeyError):
        made_of = None
    if made_of != source_digest():
        print(f"compiling into {lib}, which takes some minutes", flush=True)
        shutil.rmtree(lib, ignore_errors=True)
        command = [sys.executable, "-m", "buildtools", "--cuda", "--out", str(lib.resolve()), *LEVELS]
        subprocess.run(command, cwd=ROOT, check=True)
    return lib


def pack(out: Path, wheels: Path, python: str, sets: list[str], lib: Path | None) -> dict[str, int]:
    """Write the folder; return the sizes of its files.

    Raises
    ------
    ValueError
        If it is too large.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    pack_sources(lib, out / "gpuimg.tar.xz")
    pack_photos(sets, out / "photos.tar")
    named = pack_wheels(wheels, out / "site.tar.xz", python)
    for path in sorted(SCRIPTS.glob("*.sh")):
        shutil.copyfile(path, out / path.name)
    (out / "WHEELS").write_text("".join(f"{name}\n" for name in named))
    sizes = {path.name: path.stat().st_size for path in sorted(out.iterdir())}
    if sum(sizes.values()) > MOST_BYTES:
        raise ValueError(
            f"{sum(sizes.values()):,} bytes are more than {MOST_BYTES:,}: {sizes}; take fewer wheels, or fewer photos "
            "(PHOTOS=S)"
        )
    return sizes


def main(command: list[str] | None = None) -> None:
    """Pack, and print what it takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--wheels", type=Path, required=True, help="folder with wheels for the GPU's machine")
    parser.add_argument("--python", default="3.12", help="its version of Python (%(default)s)")
    parser.add_argument("--photos", default=",".join(COUNTS), help="sets of photos (%(default)s)")
    parser.add_argument("--lib", type=Path, default=ROOT / "build" / "gpu-lib", help="compiled loops and kernels")
    options = parser.parse_args(command)
    if not options.wheels.is_dir():
        parser.error(f"--wheels: {options.wheels} is no folder")
    unknown = set(options.photos.split(",")) - set(COUNTS)
    if unknown:
        parser.error(f"--photos: there are {', '.join(COUNTS)}, not {', '.join(sorted(unknown))}")
    sizes = pack(options.out, options.wheels, options.python, options.photos.split(","), built(options.lib))
    for name, size in sizes.items():
        print(f"{size:12,}  {name}")
    print(f"{sum(sizes.values()):12,}  bytes in {options.out}")


if __name__ == "__main__":
    main()
