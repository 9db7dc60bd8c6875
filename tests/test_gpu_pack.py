"""``make gpu-pack``: what the folder holds, and the scripts in it from end to end on the stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bench.gpu import one, pack
from gpuimg.kernels import disk, native

from .jpegs import encoded, noise

PHOTOS = {"S": 3, "P": 2}

WHEELS = {
    "nvidia_nvimgcodec_cu13-0.9.0.20-py3-none-linux.whl": [
        "nvidia/nvimgcodec/__init__.py", "nvidia/nvimgcodec/libnvimgcodec.so.0",
        "nvidia/nvimgcodec/nvimgcodec_impl.cpython-312-x86_64-linux-gnu.so",
        "nvidia/nvimgcodec/extensions/libnvjpeg_ext.so.0", "nvidia_nvimgcodec_cu13-0.9.0.20.dist-info/METADATA",
        "-nvidia/nvimgcodec/nvimgcodec_impl.cpython-311-x86_64-linux-gnu.so",
        "-nvidia/nvimgcodec/nvimgcodec_impl.cpython-314t-x86_64-linux-gnu.so",
        "-nvidia/nvimgcodec/extensions/libopencv_ext.so.0", "-nvidia/nvimgcodec/extensions/libnvtiff_ext.so.0",
        "-nvidia/nvimgcodec/include/nvimgcodec.h", "-nvidia/nvimgcodec/tools/convert.py",
    ],
    "nvidia_nvjpeg-13.0.4.44-py3-none-linux.whl": [
        "nvidia/cu13/lib/libnvjpeg.so.13", "-nvidia/cu13/include/nvjpeg.h",
    ],
    "av-18.1.0-cp312-linux.whl": ["av/__init__.py", "av/include/kept.h", "av/core.cpython-312-x86_64-linux-gnu.so"],
}  # fmt: skip


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder of wheels; names with a minus are not to be packed."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, files in WHEELS.items():
        with zipfile.ZipFile(folder / name, "w") as wheel:
            for file in files:
                wheel.writestr(file.removeprefix("-"), f"of {file}")
    return folder


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A few photos in place of those that take a minute to make."""
    folder = tmp_path / "photos"
    for name, count in PHOTOS.items():
        (folder / name).mkdir(parents=True)
        for k in range(count + 1):  # one more than is packed
            (folder / name / f"{k:04d}.jpg").write_bytes(encoded(noise(40, 56, k)))
    monkeypatch.setattr(pack, "COUNTS", PHOTOS)
    monkeypatch.setattr(pack, "FOLDER", folder)
    return folder


@pytest.fixture
def lib(tmp_path: Path) -> Path:
    """A folder as a build leaves it, of other sources: nothing in it is used."""
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / native.MANIFEST).write_text(json.dumps({"sources": "others", "libraries": {}}))
    (folder / "cuda.xz").write_bytes(b"kernels")
    return folder


def packed(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as archive:
        return {member.name: member for member in archive.getmembers()}


def test_the_folder_holds_what_measuring_takes(tmp_path: Path, wheels: Path, photos: Path, lib: Path) -> None:
    out = tmp_path / "pack"
    sizes = pack.pack(out, wheels, "3.12", ["S", "P"], lib)
    scripts = {path.name for path in pack.SCRIPTS.glob("*.sh")}
    assert {"check.sh", "counters.sh", "dali.sh", "env.sh", "figures.sh"} == scripts
    names = {path.name for path in out.iterdir()}
    assert names == {"gpuimg.tar.xz", "photos.tar", "site.tar.xz", "WHEELS", *scripts} == set(sizes)
    assert not any(path.is_symlink() or path.is_dir() for path in out.iterdir())
    assert sum(sizes.values()) < 8_000_000  # of the sources; photos and wheels are not those of a real pack

    site = packed(out / "site.tar.xz")
    assert set(site) == {name for files in WHEELS.values() for name in files if not name.startswith("-")}
    assert (out / "WHEELS").read_text().split() == sorted(WHEELS)
    images = {f"gpuimg/bench/.photos/{name}/{k:04d}.jpg" for name, count in PHOTOS.items() for k in range(count)}
    assert set(packed(out / "photos.tar")) == {*images, "gpuimg/bench/.photos/packed"}

    files = packed(out / "gpuimg.tar.xz")
    for name in ("bench/gpu/pack.py", "tests/standin/program.py", "kernels/cuda/jpeg_find.py", "Makefile", "COMMIT"):
        assert files[f"gpuimg/{name}"].isfile()
    assert files["gpuimg/gpuimg/kernels"].issym()
    assert {f"gpuimg/kernels/_lib/{path.name}" for path in lib.iterdir()} <= set(files)
    assert not any("__pycache__" in name or "/.git/" in name for name in files)


def test_too_much_is_refused(
    tmp_path: Path, wheels: Path, photos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pack, "sources", lambda: ["Makefile"])
    monkeypatch.setattr(pack, "MOST_BYTES", 3_000)
    with pytest.raises(
        ValueError, match=r"bytes are more than 3,000: .*'site.tar.xz': \d+.* fewer photos \(PHOTOS=S\)"
    ):
        pack.pack(tmp_path / "pack", wheels, "3.12", ["S", "P"], None)
    monkeypatch.setitem(PHOTOS, "P", 9)
    with pytest.raises(FileNotFoundError, match="set P has 3 of 9 photos: make gpu-photos"):
        pack.pack(tmp_path / "pack", wheels, "3.12", ["S", "P"], None)
    for arguments, reason in (
        (["--wheels", str(tmp_path / "none")], "is no folder"),
        (["--wheels", str(wheels), "--photos", "S,X"], "there are S, P, not X"),
    ):
        with pytest.raises(SystemExit):
            pack.main(["--out", str(tmp_path / "pack"), *arguments])
        assert reason in capsys.readouterr().err


def test_loops_and_kernels_are_compiled_from_these_sources(lib: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def compiled(command: list[str], **options: Any) -> None:
        commands.append(command)
        lib.mkdir()
        (lib / native.MANIFEST).write_text(json.dumps({"sources": native.source_digest()}))

    monkeypatch.setattr(subprocess, "run", compiled)
    for _ in range(2):  # the first time they are of other sources
        assert pack.built(lib) == lib
    assert len(commands) == 1
    assert commands[0][1:] == ["-m", "buildtools", "--cuda", "--out", str(lib), "x86-64-v3", "x86-64-v4"]
    assert not (lib / "cuda.xz").exists()


@pytest.mark.slow
def test_the_scripts_go_through_without_a_gpu(tmp_path: Path, wheels: Path, photos: Path) -> None:
    """On the stand-in, from the folder alone and without a network."""
    for path in wheels.iterdir():
        if not path.name.startswith("nvidia_nvjpeg"):  # the others would stand before the packages that are installed
            path.unlink()
    out = tmp_path / "pack"
    pack.pack(out, wheels, "3.12", ["S", "P"], None)
    cache = tmp_path / "cache"  # with the loops of this process's sources, which are the pack's
    cache.mkdir()
    (cache / "gpuimg").symlink_to(str(disk.folder()))
    results = tmp_path / "results"
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PARTS")} | {
        "GPU": "tests.standin.program", "PARTS": "machine jpeg", "PYTHON": sys.executable, "OUT": str(results),
        "WORK": str(tmp_path / "work"), "NUMBA_CACHE_DIR": str(cache),
    }  # fmt: skip
    alone = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True).returncode:
        alone = []  # this system lets nobody leave the network
    command = [*alone, "bash", str(out / "check.sh")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in results.iterdir()} == {
        "env.txt", "gpu.json", "parts.tar.gz", "summary.json", "summary.md"
    }  # fmt: skip
    parts = json.loads((results / "summary.json").read_text())
    assert {name: part["status"] for name, part in parts["parts"].items()} == dict.fromkeys(
        ("machine", "jpeg"), "ok (a try)"
    )
    assert parts["commit"] != "unknown"
    facts = (results / "env.txt").read_text()
    assert f"{tmp_path}/work/gpuimg/gpuimg/__init__.py" in facts
    assert "cupy BROKEN ModuleNotFoundError" in facts or "cupy 1" in facts
    assert "## Targets" in done.stdout


def test_one_batch_for_a_profiler(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with and without an index."""
    monkeypatch.setattr(one, "FOLDER", photos)
    results = one.run(2, "cpu")
    assert [result.shape for result in results] == [(2, 3, 224, 224)] * 4
    assert (results[0] == results[2]).all()
    assert (results[0] != results[1]).any()


@pytest.mark.parametrize("script", sorted(pack.SCRIPTS.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_are_bash(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True)
