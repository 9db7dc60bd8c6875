"""``gpuimg bench``: its report on a data set, the comparison programs, and how it ends."""

import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg
from gpuimg._cli import bench, contenders, operations
from gpuimg.kernels import native

from ..libraries import needs
from ..processes import run_command
from ..samples import ROOT, file_of
from ..watchdog import becomes_true, no_hang

PHOTOS = ROOT / "examples" / "photos"


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = threading.active_count()
    with no_hang():
        yield
    assert becomes_true(lambda: threading.active_count() <= before)  # queues of torch's workers have threads, too


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes; one file is none."""
    for k, photo in enumerate(sorted(PHOTOS.glob("*.jpg"))):
        target = tmp_path / "set" / "ab"[k % 2]
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(photo, target)
    (tmp_path / "set" / "a" / "bad.jpg").write_bytes(b"\xff\xd8 no image")
    return tmp_path / "set"


@pytest.mark.slow
def test_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("bench", folder, "--seconds", 2, "--batch-size", 4, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    files = list(folder.rglob("*.jpg"))
    assert report["samples"] == len(files)
    assert (report["images"]["looked_at"], report["images"]["bad"]) == (len(files), 1)
    assert report["images"]["mean_bytes"] == np.mean([path.stat().st_size for path in files])
    widths = [gpuimg.image_info(path).width for path in files if path.name != "bad.jpg"]
    assert abs(report["images"]["median_width"] - np.median(widths)) < 1
    assert set(report["images_per_second"]) >= {"gpuimg", "Pillow"}
    assert all(rate > 0 for rate in report["images_per_second"].values())
    assert report["limit"] in bench._ADVICE


@pytest.mark.slow
def test_report_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a folder of images; batches are no larger than the set."""
    assert run_command("bench", PHOTOS, "--seconds", 2, "--device", "cpu") == 0
    said = capsys.readouterr()
    assert "warming up" in said.err
    assert ("the first run compiles the kernels" in said.err) == (native.LEVEL is None)
    lines = dict(line.split(maxsplit=1) for line in said.out.splitlines())
    count = len(list(PHOTOS.glob("*.jpg")))
    assert lines["samples"] == str(count)
    assert re.fullmatch(rf"imagenet_train, batches of {count}, cpu \(\d+ threads?\)", lines["measured"])
    assert re.fullmatch(r"[\d,]+ images/s", lines["gpuimg"])
    assert re.fullmatch(r"[\d,]+ images/s in \d+ threads?; gpuimg: [\d.]+ times as fast", lines["Pillow"])
    problem = contenders.torchvision_problem()
    assert problem is None or lines["torchvision"] == f"left out: {problem}"


@pytest.mark.parametrize("what", [["--preset", "imagenet_eval"], ["--function", "gpuimg.presets:_imagenet_train"]])
def test_other_chains_are_not_compared(
    what: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = gpuimg.presets.imagenet_train(32)
    monkeypatch.setattr(gpuimg.presets, "_imagenet_train", lambda images, rng: chain(images, rng))
    assert run_command("bench", PHOTOS, "--seconds", 1, "--json", *what) == 0
    assert list(json.loads(capsys.readouterr().out)["images_per_second"]) == ["gpuimg"]


def crop_and_color(x: Any, rng: Any) -> Any:
    x = gpuimg.random_resized_crop(x, 16, rng=rng)
    x = gpuimg.random_horizontal_flip(x, rng=rng)
    return gpuimg.adjust_brightness(gpuimg.adjust_brightness(x, 2.0), 0.25)


def test_operations_that_can_be_left_out(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a user's function, and of a preset; those that others call are not among them."""
    monkeypatch.setattr(gpuimg.presets, "_mine", crop_and_color, raising=False)
    for options, last in ((("--function", "gpuimg.presets:_mine"), "adjust_brightness"), ((), "normalize")):
        assert run_command("bench", PHOTOS, "--operations", "--seconds", 1, "--json", *options) == 0
        report = json.loads(capsys.readouterr().out)
        assert list(report["images_per_second"]) == ["gpuimg"]
        without = report["without"]
        assert list(without) == ["random_resized_crop", "random_horizontal_flip", last]
        assert without.pop("random_resized_crop") is None
        assert all(cost["lowest"] <= cost["share"] <= cost["highest"] < 1 for cost in without.values())
    x = np.full((1, 20, 20, 3), 100, np.uint8)
    with operations.left_out("adjust_brightness"):
        assert np.max(np.asarray(crop_and_color(x, 0))) == 100
    assert np.max(np.asarray(crop_and_color(x, 0))) == 50


@pytest.mark.slow
def test_operations_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("bench", PHOTOS, "--operations", "--seconds", 1) == 0
    lines = capsys.readouterr().out
    assert "operation    random_resized_crop stays, because it sets the sizes of the results" in lines
    assert re.search(r"normalize takes (\d+% of the time \(\d+% to \d+%|too little time to tell: at most \d+%)", lines)


def one_color(color: tuple[int, int, int]) -> bytes:
    return file_of(Image.new("RGB", (61, 47), color), "PNG")


@pytest.mark.parametrize("color", [(0, 0, 0), (255, 128, 3)])
def test_pillows_chain_normalizes(color: tuple[int, int, int]) -> None:
    """Crops of one color are that color, by the formula."""
    files = contenders.Files([(one_color(color), 0)])
    expected = (np.array(color) / 255 - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    for draw in range(4):
        image = contenders._preprocessed(files, 0, draw)
        assert (image.shape, image.dtype) == ((3, 224, 224), np.float32)
        np.testing.assert_allclose(image, np.broadcast_to(expected[:, None, None], image.shape), rtol=1e-5)


@pytest.mark.parametrize("library", [contenders.pillow, pytest.param(contenders.torchvision, marks=pytest.mark.slow)])
def test_peers_go_on_over_what_is_bad(library: Any, tmp_path: Path) -> None:
    """For ever, until they are closed; their threads end then."""
    if library is contenders.torchvision:
        needs("torch", "torchvision")
    bad = [one_color((1, 2, 3)), b"no image", tmp_path / "nowhere.jpg"]
    files = contenders.Files([(data, k) for k, data in enumerate(bad)])
    with closing(library(files, 2, 2)) as batches:
        assert {1, 2} >= {*islice(batches, 9)}
