"""The command line: what it prints, what it writes, and how it fails."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from PIL import Image, ImageDraw

import gpuimg
from gpuimg._cli import bench, check, preview
from gpuimg._cli import info as inspection
from gpuimg._cli import main as cli
from gpuimg._runtimes import probe
from gpuimg.kernels.cuda import every_kernel

from ..libraries import needs
from ..processes import python
from ..samples import ROOT, file_of, write_files

Captured: TypeAlias = pytest.CaptureFixture[str]
Patch: TypeAlias = pytest.MonkeyPatch
PHOTOS = ROOT / "examples" / "photos"
needs_no_gpu = pytest.mark.skipif(probe.driver_devices() > 0, reason="about machines without a GPU")


def run(*arguments: str, block: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """``python -m gpuimg`` in a separate process, optionally with a module made unimportable."""
    start = f"import sys; sys.modules[{block!r}] = None; " if block else "import sys; "
    code = f"{start}from gpuimg._cli.main import main; sys.exit(main({list(arguments)!r}))"
    given = os.environ | environment
    return subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, timeout=300)


def fails(capfd: Captured, *arguments: str) -> str:
    """Run in this process; the exit status must be 2, and the message on stderr, in one piece, is given."""
    assert cli.main(list(arguments)) == 2
    captured = capfd.readouterr()
    assert "Traceback" not in captured.err
    assert "gpuimg: " in captured.err
    return captured.err


def sheet(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image)


def test_demo_is_a_preview_of_the_photos_that_come_with_gpuimg(tmp_path: Path) -> None:
    photos = [str(photo) for photo in gpuimg.example_photos()]
    for k, words in enumerate((["demo"], ["preview", *photos])):
        options = ["--preset", "deit3_train", "-n", "2", "--seed", "5", "--device", "cpu", "--out"]
        assert cli.main([*words, *options, f"{tmp_path}/{k}.png"]) == 0
    assert len(photos) == 4
    assert (tmp_path / "0.png").read_bytes() == (tmp_path / "1.png").read_bytes()


MINE = """
import gpuimg

def flip(batch, rng):
    return gpuimg.random_horizontal_flip(batch, rng=rng)

def cut(batch, rng):
    return gpuimg.cutmix(gpuimg.resize(batch, (64, 64)), rng=rng)

def fails(batch, rng):
    return gpuimg.rotate(batch, "far")

def loses(batch, rng):
    return [batch[0]]
"""
PREVIEW = ["preview", str(PHOTOS / "cat.jpg"), str(PHOTOS / "cat_portrait.jpg"), "--device", "cpu"]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: Patch) -> str:
    """The name of a module in the working directory."""
    name = f"mine_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


def test_preview_draws_one_epoch_a_column(tmp_path: Path) -> None:
    """The tiles are what the preset makes of the images under the generator that the README names."""
    out = tmp_path / "preview.png"
    paths = [Path(PREVIEW[1]), Path(PREVIEW[2])]
    assert cli.main([*PREVIEW, "--preset", "simclr", "--size", "168", "-n", "2", "--seed", "7", "--out", str(out)]) == 0
    pixels = sheet(out)
    images = gpuimg.decode_batch(paths, device="cpu")
    filled = (pixels[:, 16:184].min(2) < 250).mean(1) > 0.7  # rows of the originals
    tops = np.flatnonzero(np.diff(filled.astype(int)) == 1) + 1
    assert len(tops) == 2
    for epoch in range(2):
        x = gpuimg.presets.simclr(168)(images, gpuimg.Rng(7, epoch=epoch, indices=[0, 1])).array("float32")
        for k, top in enumerate(tops):
            left = 16 + (epoch + 1) * 176
            tile = pixels[top : top + 168, left : left + 168].astype(int)
            assert np.abs(tile - np.clip(x[k], 0, 1) * 255).max() <= 0.51


@pytest.mark.parametrize("name", sorted(preview.PRESETS))
def test_preview_of_every_preset(name: str, tmp_path: Path) -> None:
    assert cli.main([*PREVIEW, "--preset", name, "-n", "1", "--out", str(tmp_path / "preview.png")]) == 0
    views = {"simclr_train": 2, "dino_train": 10, "dinov3_train": 10}.get(name, 1)
    assert sheet(tmp_path / "preview.png").shape[1] == 32 + (1 + views) * 176 - 8


def test_preview_prints_what_was_drawn(tmp_path: Path, mine: str, monkeypatch: Patch, capfd: Captured) -> None:
    """Under the tiles what differs; above them, once, what is the same."""
    written: list[str] = []
    monkeypatch.setattr(ImageDraw.ImageDraw, "text", lambda *given: written.append(given[2].replace("  ", " ")))

    def preview_of(*arguments: str) -> list[str]:
        written.clear()
        assert cli.main(["preview", *arguments, "--device", "cpu", "--out", str(tmp_path / "preview.png")]) == 0
        return written

    both = PREVIEW[1:3]
    assert preview_of(*both, "--function", f"{mine}:flip", "-n", "4")[:2] == ["seed 0", "original"]
    assert [written.count(path.name) for path in map(Path, both)] == [1, 1]
    flips = np.sum([gpuimg.Rng(0, epoch=epoch, indices=[0, 1]).bernoulli(0.5) for epoch in range(4)])
    assert [written.count(text) for text in ("flip left and right", "unchanged")] == [flips, 8 - flips]
    preview_of(*both, "--preset", "deit3_train", "-n", "2")
    assert written[0].startswith("seed 0; resize to 224 x 224; normalize with mean 0.485")
    assert "resize to 224 x 224" not in written
    assert [sum(text.startswith(start) for text in written) for start in ("crop rows ", "brightness ")] == [4, 4]
    preview_of(both[0], "--preset", "imagenet_eval", "-n", "2")
    assert (written[0], written.count("resize to 256 x 384")) == ("seed 0", 2)  # nothing differs: it is under the tiles
    preview_of(*both, "--function", f"{mine}:cut", "-n", "2")
    assert written.count("mixed with image 1") == written.count("mixed with image 0") == 2
    capfd.readouterr()


NONE = "; the presets are clip_train, deit3_train, dino_train, dinov3_train"
CPU = ["--device", "cpu"]
DEMO = ["demo"]
MINE_OF = [*PREVIEW, "--function"]
REFUSED: list[Any] = [
    ([*PREVIEW, "--preset", "imagenet"], f"no preset 'imagenet'{NONE}"),
    (["warm", "--preset", "imagenette"], f"no preset 'imagenette'{NONE}"),
    ([*MINE_OF, "flip"], "--function must be module:function, not 'flip'"),
    ([*MINE_OF, "no_such_module:flip"], "module 'no_such_module' cannot be imported: ModuleNotFoundError"),
    ([*MINE_OF, "MINE:no"], "has no function 'no'"),
    ([*MINE_OF, "MINE:fails"], "the preprocessing failed: TypeError: angle must be a number"),
    ([*MINE_OF, "MINE:fails"], "line 11)"),
    ([*MINE_OF, "MINE:loses"], "the preprocessing returned a batch of 1 for 2 images"),
    ([*MINE_OF, "MINE:flip", "--size", "8"], "--size is for presets"),
    ([*PREVIEW, "-n", "0"], "-n must be at least 1, not 0"),
    ([*PREVIEW[:3], "none.jpg", *CPU, "--preset", "simclr"], "no such image: none.jpg"),
    *(([*command, *CPU, "--seed", "-1"], "--seed must be at least 0, not -1") for command in (DEMO, PREVIEW[:3])),
    *(([*command, *CPU, "--out", "no/folder.png"], "no/folder.png") for command in (DEMO, PREVIEW[:3])),
    *(([*command, "--device", "tpu"], "'tpu'") for command in (DEMO, PREVIEW[:3])),
    pytest.param([*DEMO, "--device", "cuda"], "no GPU", marks=needs_no_gpu),
    *((["warm", "--capability", name], "a compute capability is written like 9.0") for name in ("90", "sm_90")),
    *((["bench", str(PHOTOS), *words], message) for *words, message in (
        ("--batch-size", "0", "--batch-size must be at least 1, not 0"),
        ("--seconds", "0", "--seconds must be 1 to 86400, not 0"),
        ("--seconds", "nan", "--seconds must be 1 to 86400, not nan"),
        ("--preset", "none", "no preset 'none'; the presets are"),
        ("--function", "nothing", "--function must be module:function"),
        ("--device", "gpu", "gpu"), ("--kind", "tar", "photos"),
    )),
    (["check", str(PHOTOS), "--threads", "0"], "--threads must be a whole number from 1 to 1024"),
    (["check", str(PHOTOS / "cat.jpg")], "unknown kind of source: "),
    (["check", "boxes.json"], "COCO annotations need --images"),
    (["index", "train", "--dry-run"], "gpuimg check counts"), (["index"], "gpuimg prepare --recode writes"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_wrong_arguments(arguments: list[str], message: str, mine: str, capfd: Captured) -> None:
    assert message in fails(capfd, *(argument.replace("MINE", mine) for argument in arguments))
    assert not Path("preview.png").exists()


def test_a_capability_that_the_toolkit_does_not_have(capfd: Captured) -> None:
    needs("numba_cuda")
    assert "a compute capability must be one of" in fails(capfd, "warm", "--capability", "1.0")


@pytest.mark.parametrize("arguments", [[], ["polish"], ["demo", "--seed", "x"]])
def test_usage(arguments: list[str], capfd: Captured) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(arguments)
    assert capfd.readouterr().err.startswith("usage: gpuimg demo" if arguments[:1] == ["demo"] else "usage: gpuimg [-h")


GRADIENT = np.arange(96 * 64, dtype=np.uint32).reshape(64, 96)
PICTURE = Image.fromarray(np.stack([GRADIENT, GRADIENT // 7, GRADIENT * 3], 2).astype(np.uint8))
BASELINE, PNG = file_of(PICTURE), file_of(PICTURE, "PNG")
HEADER = BASELINE.index(b"\xff\xda")
#: Files by name, what each is counted as, and why it is refused: those with a kind only if they are decoded.
FILES: dict[str, tuple[bytes, str, str]] = {
    "baseline": (BASELINE, "baseline JPEG, 4:2:0", ""),
    "full": (file_of(PICTURE, subsampling="4:4:4"), "baseline JPEG, 4:4:4", ""),
    "gray": (file_of(PICTURE.convert("L")), "baseline JPEG, gray", ""),
    "restart": (
        file_of(PICTURE, subsampling="4:2:2", restart_marker_rows=1), "baseline JPEG, 4:2:2, with restart markers", "",
    ),
    "progressive": (file_of(PICTURE, progressive=True), "progressive JPEG, 4:2:0", ""),
    "cmyk": (file_of(PICTURE.convert("CMYK")), "other JPEG, unknown", ""),
    "cmyk, progressive": (file_of(PICTURE.convert("CMYK"), progressive=True), "progressive JPEG, unknown", ""),
    "recoded": (gpuimg.recode_jpeg(BASELINE), "recoded JPEG, 4:2:0", ""),
    "no end": (BASELINE[:-2], "baseline JPEG, 4:2:0", ""),  # complete without its marker
    "gaps": (BASELINE[:2] + b"junk" + BASELINE[2:], "other JPEG, 4:2:0", ""),
    "png": (PNG, "PNG", ""),
    "webp": (file_of(PICTURE, "WEBP"), "WebP", ""),
    "truncated": (BASELINE[: len(BASELINE) // 2], "", "the data end in MCU row"),
    "truncated, progressive": (file_of(PICTURE, progressive=True)[:-600], "", "truncated"),
    "12 bits": (BASELINE[:HEADER].replace(b"\0\x11\x08\0", b"\0\x11\x0c\0") + BASELINE[HEADER:], "", "bits"),
    "header alone": (BASELINE[: HEADER - 8], "", ""),
    "empty": (b"", "", "empty: 0 bytes"),
    "text": (b"hello", "", "not an image file (starts with b'hello')"),
    "icon": (b"\0\0\1\0" + bytes(40), "", "ICO is not supported"),
    "png, damaged": (PNG[: len(PNG) // 2] + bytes(40) + PNG[len(PNG) // 2 + 40 :], "PNG", "damaged PNG"),
    "recoded, damaged": (gpuimg.recode_jpeg(BASELINE)[:-200] + bytes(200), "recoded JPEG, 4:2:0", "damaged"),
}  # fmt: skip


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A folder with these files, and one that has no bytes to read."""
    (tmp_path / "gone.jpg").symlink_to("nowhere")
    return write_files(tmp_path, {f"{name}.jpg": data for name, (data, _, _) in FILES.items()})


@pytest.mark.parametrize("decodes", [False, True])
def test_check_counts_all_files(decodes: bool, mixed: Path, monkeypatch: Patch, capfd: Captured) -> None:
    """Kinds are those that the files were made as; bad ones, as :func:`gpuimg.decode_image` has it, are named."""
    monkeypatch.setattr(check, "_SECONDS", 0.1)
    status = cli.main(["check", str(mixed), "--json", *["--decode"] * decodes])
    report = json.loads(capfd.readouterr().out)
    good = {name: kinds.split(", ") for name, (_, kinds, why) in FILES.items() if kinds and not (decodes and why)}
    refused = {Path(one["source"]).stem: one for one in report["refused"]}
    assert (status, report["samples"]) == (1, len(FILES) + 1)
    assert refused.keys() == {*FILES, "gone"} - {*good}
    for name, one in refused.items():
        assert one["index"] == sorted([*FILES, "gone"], key=lambda stem: f"{stem}.jpg").index(name)
        assert (FILES[name][2] if name in FILES else "No such file") in one["reason"]
    counts = Counter(kind for kinds in good.values() for kind in kinds)
    assert report["kinds"] | report["jpegs"] == counts
    assert (report["smallest"], report["largest"], report["pixels"]) == ([64, 96], [64, 96], 64 * 96 * len(good))
    assert report["bytes"] == sum(len(FILES[name][0]) for name in good)
    assert report["epoch_seconds"] * report["images_per_second"] == pytest.approx(report["samples"])
    for name, (data, _, _) in FILES.items() if decodes else ():
        with nullcontext() if name in good else pytest.raises(gpuimg.DecodeError):
            gpuimg.decode_image(data, device="cpu")


def test_check_in_words(tmp_path: Path, monkeypatch: Patch, capfd: Captured) -> None:
    """Bad files are listed up to twenty; the epoch is that of all samples at the measured rate."""
    monkeypatch.setattr(bench, "images_per_second", lambda loader, seconds: 4 / 3600)
    write_files(tmp_path, {f"{k:02}.jpg": b"hello" for k in range(22)})
    assert cli.main(["check", str(tmp_path), "--threads", "2"]) == 1  # none is good: nothing is measured
    text = capfd.readouterr().out
    assert (text.count("\nrefused "), "and 2 more; --json lists all" in text, "epoch" in text) == (20, True, False)
    write_files(tmp_path, {f"{k:02}.jpg": FILES["restart"][0] for k in range(22)})
    assert cli.main(["check", str(tmp_path)]) == 0
    said = " ".join(capfd.readouterr().out.split())
    for part in ("samples 22 images 22 baseline JPEG 22 4:2:2 22 with restart markers", "96 x 64 to 96 x 64 pixels",
                 "epoch takes about 5.5 h (0 images/s in ", ": reading, decoding, imagenet_train(224))"):  # fmt: skip
        assert part in said


def test_corrupt_photos_are_named(tmp_path: Path, capfd: Captured) -> None:
    shutil.copy(PHOTOS / "cat.jpg", tmp_path / "a.jpg")
    (tmp_path / "b.jpg").write_bytes((PHOTOS / "cat.jpg").read_bytes()[:100])
    given = [str(tmp_path / name) for name in ("a.jpg", "b.jpg")]
    message = fails(capfd, "preview", *given, "--device", "cpu", "--out", str(tmp_path / "s.png"))
    assert "b.jpg" in message
    assert "a.jpg" not in message
    assert not (tmp_path / "s.png").exists()


@pytest.mark.parametrize("command", [
    pytest.param("bench", marks=pytest.mark.slow), "check", "demo", "info", "prepare", "preview", "restore", "warm",
])  # fmt: skip
def test_examples_of_the_help_work(command: str, tmp_path: Path, monkeypatch: Patch, capfd: Captured) -> None:
    """In a folder with `train`, of class folders, and `photos`."""
    shutil.copytree(PHOTOS, tmp_path / "train" / "cats")
    (tmp_path / "photos").symlink_to(tmp_path / "train" / "cats")
    monkeypatch.chdir(tmp_path)
    if command == "restore":
        assert cli.main(["prepare", "train", "train-recoded", "--recode", "--no-measure"]) == 0
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    example = capfd.readouterr().out.rstrip().splitlines()[-1]
    assert example.startswith(f"example: gpuimg {command}")
    words = example.removeprefix("example: gpuimg ").replace("--seconds 20", "--seconds 1").split()
    assert cli.main(words) == 0, capfd.readouterr().err


INTERRUPTED = {  # by what Python imports last before the signal
    "demo": "numpy.linalg", "info": "gpuimg._cli.main", "preview": "gpuimg._batch.contact_sheet",
    "bench": "gpuimg._cli.contenders", "warm": "gpuimg._cli.preview",
}  # fmt: skip


@pytest.mark.parametrize("command", INTERRUPTED)
def test_interrupted(command: str, tmp_path: Path) -> None:
    """Ctrl-C is one line, also during the imports."""
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    words = {"preview": ["a.png"], "bench": [".", "--seconds", "60"], "warm": ["--all"]}.get(command, [])
    code = f"import sys; sys.argv[1:] = {[command, *words]!r}; from _gpuimg_cli import main; sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", "-c", code], cwd=tmp_path, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if line.rpartition("|")[2].strip() == INTERRUPTED[command]:
                break
        process.send_signal(signal.SIGINT)
        said = [line for line in process.stderr if not line.startswith("import time:")]
    assert (process.returncode, said) == (130, ["gpuimg: interrupted\n"])


def test_interrupted_while_an_import_swallows_exceptions(tmp_path: Path) -> None:
    """As callbacks of weak references do, which run while torch is imported."""
    code = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException:\n    pass\n"
    write_files(tmp_path, {"torchvision/__init__.py": code.encode(), "torchvision/transforms/v2.py": b""})
    said = "from gpuimg._cli.contenders import torchvision_problem as f\ntry:\n    f()\nexcept KeyboardInterrupt:\n"
    said += "    print('interrupted')"
    assert python("-c", said, folder=tmp_path, PYTHONPATH=str(ROOT)) == "interrupted\n"  # without tests/site


def test_output_may_end_early() -> None:
    """As in ``gpuimg info | head -1``."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "gpuimg", "info"], stdout=writer, stderr=subprocess.PIPE, timeout=300)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


@needs_no_gpu
@pytest.mark.parametrize(("gpus", "cuda", "extra"), [
    (0, (13, 0), "cpu"), (1, (11, 8), "cpu"), (1, (12, 4), "cuda12"), (2, (14, 0), "cuda13"),
])  # fmt: skip
def test_info_says_what_a_gpu_needs(gpus: int, cuda: Any, extra: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(probe, "driver_devices", lambda: gpus)
    monkeypatch.setattr(probe, "driver_cuda", lambda: cuda)
    monkeypatch.setattr(probe, "device_names", lambda: ["Test GPU"] * gpus)
    monkeypatch.setitem(sys.modules, "cupy", None)
    probe.gpu_problem.cache_clear()
    try:
        text = inspection.report(inspection.facts())
    finally:
        probe.gpu_problem.cache_clear()
    assert probe.extra() == extra
    assert ("cuda:0        Test GPU" in text) == (gpus > 0)
    assert (f'pip install "cupy-{extra}x' in text) == (extra != "cpu")


def test_info_reports_two_decoder_packages(monkeypatch: Patch) -> None:
    plain, twice = metadata.version, ("nvidia-nvimgcodec-cu12", "nvidia-nvimgcodec-cu13")
    monkeypatch.setattr(metadata, "version", lambda name: "0.9.0" if name in twice else plain(name))
    assert any("installed twice" in line for line in inspection.missing())


def test_info_says_what_is_here(capfd: Captured) -> None:
    assert cli.main(["info"]) == 0
    text = capfd.readouterr().out
    lines = dict(line.split(maxsplit=1) for line in text.splitlines() if len(line.split(maxsplit=1)) == 2)
    assert lines["gpuimg"] == gpuimg.__version__
    assert lines["numpy"] == np.__version__
    assert lines["Pillow"] == metadata.version("pillow")
    decoders = r"JPEG on a CPU gpuimg \(baseline, progressive\)\nPNG +gpuimg, inflated by .+\nother files +Pillow "
    assert re.search(decoders, text)
    assert f"\nvideos        PyAV {metadata.version('av')}" in text
    assert re.fullmatch(r"\d+ threads? \(.+\)", lines["cpu"])  # and how that came about
    assert re.fullmatch(r"compiled (with the package, for \S+|by Numba when first used: .+)", lines["loops"])
    assert lines["default"].partition(":")[0] in ("cpu", "cuda")


@pytest.mark.parametrize(("name", "key", "value"), [
    ("info", "gpuimg", gpuimg.__version__), ("warm", "for", "imagenet_train"),
])  # fmt: skip
def test_json(name: str, key: str, value: str, capfd: Captured) -> None:
    assert cli.main([name, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)[key] == value


WRONG = {
    ("GPUIMG_DEVICE", "gpu"): 'GPUIMG_DEVICE must be "cpu", "cuda" or "cuda:1"',
    ("GPUIMG_DECODER", "foo"): "GPUIMG_DECODER must be one of 'auto', 'nvimagecodec', 'gpuimg', not 'foo'",
    ("GPUIMG_NUM_THREADS", "0"): "GPUIMG_NUM_THREADS must be a whole number of at least 1, not '0'",
    ("GPUIMG_HARDWARE_SHARE", "2"): "GPUIMG_HARDWARE_SHARE must be a number from 0 to 1, not '2'",
    ("GPUIMG_DEVICE", "cuda:99"): "GPUIMG_DEVICE ",
}


@pytest.mark.parametrize(("setting", "words"), WRONG.items(), ids=map("=".join, WRONG))
def test_info_says_what_is_wrong_with_settings(setting: Any, words: str, monkeypatch: Patch, capfd: Captured) -> None:
    monkeypatch.setenv(*setting)
    assert cli.main(["info"]) == 1
    assert f"\nwrong\n  {words}" in capfd.readouterr().out
    assert cli.main(["info", "--json"]) == 1
    assert json.loads(capfd.readouterr().out)["wrong"][0].startswith(words)


def test_info_says_that_nothing_can_run() -> None:
    """Its exit status is 1, and what it tells to install is what pyproject.toml demands."""
    done = run("info", block="numba", GPUIMG_NATIVE="jit")
    lack = 'cannot run: Numba is not installed, and GPUIMG_NATIVE=jit; pip install "numba>=0.61"'
    assert done.returncode == 1
    assert f"loops         {lack}\n" in done.stdout
    assert f"missing\n  {lack}\n" in done.stdout
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["jit"] == ["numba>=0.61"]


@pytest.mark.slow
def test_warm_compiles_what_a_preset_needs_once() -> None:
    """Kernels that other tests compiled are reused here and below, so this is quick after them."""
    first, again = (run("warm", "--preset", "imagenet_eval") for _ in range(2))
    assert re.match(r"compiled   \d+ loops for imagenet_eval in ", first.stdout)
    folder = Path(first.stdout.splitlines()[1].removeprefix("cached in  "))
    names = {path.name.partition("-")[0] for path in folder.glob("*.kernel")}
    assert {"separable", "row_normalize", "run_images"} <= names
    assert again.stdout.startswith("compiled   0 loops")


@pytest.mark.slow
def test_warm_all_has_every_loop() -> None:
    from gpuimg.kernels.compiled import NativeFunction, import_all

    done = run("warm", "--all")
    assert re.match(r"compiled   \d+ loops for everything in ", done.stdout)
    import_all()
    code = "from gpuimg.kernels.compiled import NativeFunction, import_all\nimport_all()\n"
    code += "[function.address for function in NativeFunction.all]\n"
    code += "print(len(NativeFunction.all), NativeFunction.compile_count)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300).stdout
    assert said.split() == [str(len(NativeFunction.all)), "0"]


@pytest.mark.slow
def test_warm_compiles_for_other_gpus(tmp_path: Path) -> None:
    needs("numba_cuda")
    warmed = run("warm", "--preset", "imagenet_eval").stdout.splitlines()[1].removeprefix("cached in  ")
    (tmp_path / "gpuimg").mkdir()
    for path in Path(warmed).glob("*.kernel"):  # of the CPU, which are not what this is about
        shutil.copy(path, tmp_path / "gpuimg")
    kernels = [kernel.name for kernel in every_kernel()]
    for given, counts in (("9.0", [len(kernels)]), ("9.0,9.0", [0, 0])):
        done = run("warm", "--preset", "imagenet_eval", "--capability", given, NUMBA_CACHE_DIR=str(tmp_path))
        assert done.stderr == ""
        for line, count in zip(done.stdout.splitlines()[2:], counts, strict=True):
            assert line.startswith(f"compiled   {count} kernels for GPUs of compute capability 9.0 in ")
    assert sorted(path.name.partition("-")[0] for path in tmp_path.rglob("*.cubin")) == kernels
