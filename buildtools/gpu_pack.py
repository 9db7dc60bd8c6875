"""Everything that measuring a GPU takes on a machine without a network, in one file: ``make gpu-pack``.

The working tree as it is, its loops and CUDA kernels compiled, photos, videos, and the packages that a machine with
CuPy, PyTorch and pytest may lack: nvImageCodec without what decodes neither JPEG nor JPEG 2000, nvJPEG, nvJPEG2000, and
PyAV. There: ``python -m tarfile -e gpu-pack.tar.xz && cd gpu-pack && python -m bench.gpu``.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from bench.common import ROOT, commit
from bench.video import SETS, video
from gpuimg.kernels.native import source_digest

from .build import build

_BUILD: Final = ROOT / "build" / "gpu-pack"
_LEVELS: Final = ("x86-64-v3", "x86-64-v4")
_PHOTOS: Final = 288  # as `make gpu-photos` makes
_MOST_BYTES: Final = 50 << 20
#: By CUDA's major version; nvJPEG's must not be newer than the driver's CUDA.
_PACKAGES: Final = {
    "13": (
        "nvidia-nvimgcodec-cu13==0.9.0.20",
        "nvidia-nvjpeg==13.0.4.44",
        "nvidia-nvjpeg2k-cu13==0.11.0.51",
        "av==18.1.0",
    ),
    "12": (
        "nvidia-nvimgcodec-cu12==0.9.0.20",
        "nvidia-nvjpeg-cu12==12.4.0.76",
        "nvidia-nvjpeg2k-cu12==0.11.0.51",
        "av==18.1.0",
    ),
}
_PLATFORMS: Final = ("manylinux_2_28_x86_64", "manylinux2014_x86_64")
#: In front of the machine's packages, with which it shares the name ``nvidia``.
_ALL_FOLDERS: Final = '__path__ = __import__("pkgutil").extend_path(__path__, __name__)\n'
_NEEDLESS: Final = ("opencv", "tiff", "nvtiff", "nvbmp", "nvpnm")  # extensions of other formats


def compiled() -> Path:
    """The folder of loops and kernels of these sources, which are compiled unless they are there."""
    folder = _BUILD / "lib"
    manifest = folder / "manifest.json"
    if not manifest.exists() or source_digest() not in manifest.read_text():
        shutil.rmtree(folder, ignore_errors=True)
        build(_LEVELS, folder, True)
    return folder


def packages(cuda: str, python: str) -> Path:
    """The folder of the packages, which are downloaded unless they are there."""
    folder, wheels = _BUILD / f"site-{cuda}-{python}", _BUILD / f"wheels-{cuda}-{python}"
    if folder.exists():
        return folder
    of = [f"--platform={one}" for one in _PLATFORMS] + [
        f"--python-version={python}",
        "--only-binary=:all:",
        "--no-deps",
    ]
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheels), *of, *_PACKAGES[cuda]]
    subprocess.run(download, check=True)
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    for wheel in wheels.glob("*.whl"):
        with ZipFile(wheel) as file:
            file.extractall(partial)
    codec, tag = partial / "nvidia" / "nvimgcodec", f"cpython-{python.replace('.', '')}-x86"
    needless = [codec / "include", codec / "tools"]
    needless += [one for one in codec.glob("nvimgcodec_impl.*.so") if tag not in one.name]
    needless += [one for name in _NEEDLESS for one in (codec / "extensions").glob(f"lib{name}_ext*")]
    for one in needless:
        shutil.rmtree(one) if one.is_dir() else one.unlink()
    # Beside nvImageCodec, which looks there, too: a second folder of NVIDIA's would hide the machine's own.
    for name in ("nvjpeg", "nvjpeg2k"):
        (library,) = partial.glob(f"nvidia/*/lib/lib{name}.so.*")
        library.rename(codec / library.name)
        if not list(library.parent.glob("lib*.so.*")):
            shutil.rmtree(library.parents[1])
    (codec.parent / "__init__.py").write_text(_ALL_FOLDERS)
    partial.rename(folder)
    return folder


def pack(out: Path, cuda: str, python: str) -> int:
    """Write the file; return its size."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    (_BUILD / "COMMIT").write_text(commit())
    members = {name: ROOT / name for name in names if os.path.lexists(ROOT / name)}
    members |= {f"kernels/_lib/{one.name}": one for one in compiled().iterdir()}
    members |= {
        f"bench/.photos/S/{one.name}": one for one in sorted((ROOT / "bench/.photos/S").glob("*.jpg"))[:_PHOTOS]
    }
    members |= {f"bench/.videos/{one.name}": one for one in map(video, SETS)}
    members |= {"site": packages(cuda, python), "COMMIT": _BUILD / "COMMIT"}
    partial = out.with_suffix(".partial")
    with tarfile.open(partial, "w:xz", preset=6) as archive:
        for name, path in members.items():
            archive.add(path, f"gpu-pack/{name}")
    partial.rename(out)
    return out.stat().st_size


def main() -> None:
    """Write the file that the command line describes."""
    parser = argparse.ArgumentParser(prog="python -m buildtools.gpu_pack", description=__doc__)
    parser.add_argument("--cuda", choices=[*_PACKAGES], default="13", help="of the machine (%(default)s)")
    parser.add_argument("--python", default="3.12", help="of the machine (%(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu-pack.tar.xz")
    given = parser.parse_args()
    _BUILD.mkdir(parents=True, exist_ok=True)
    size = pack(given.out, given.cuda, given.python)
    print(f"{given.out}: {size / 2**20:.1f} of {_MOST_BYTES >> 20} MiB")
    if size > _MOST_BYTES:
        raise SystemExit("the file is too large: `git status` lists what travels without being tracked")


if __name__ == "__main__":
    main()
