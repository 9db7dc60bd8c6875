"""The benchmarks' own parts: their photos, and the form of the peer benchmark's results."""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench import (
    bench_draft,
    bench_exact,
    bench_png,
    bench_seek,
    bench_threads,
    common,
    formats,
    imread_board,
    photos,
    transfer,
)
from bench.peers import __main__ as peers
from bench.peers import checks, processes, registry
from bench.peers.base import WORKS
from bench.peers.race import Race
from bench.peers.table import details

from .samples import file_of

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[1] / "examples" / "photos"


@pytest.fixture(autouse=True)
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Photographs of this repository in place of scikit-image's, and a folder of the test's own."""
    images = [Image.open(path).convert("RGB") for path in sorted(EXAMPLES.glob("*.jpg"))[:4]]
    monkeypatch.setattr(photos, "photographs", lambda: images)
    monkeypatch.setattr(photos, "FOLDER", tmp_path / "photos")


@pytest.mark.parametrize("name", ["S", "P", "S-2.7", "S-4.8"])
def test_a_photo_depends_on_its_set_and_index_alone(name: str) -> None:
    made = [photos.make(name, index) for index in (0, 1)]
    assert made == [photos.make(name, index) for index in (0, 1)]
    assert made[0] != made[1]


def test_the_photos_of_a_set_are_of_all_kinds() -> None:
    files = photos.load_set("S", 48)
    assert photos.load_set("S", 48) == files
    said = photos.summary_of_set("S", files)
    assert said["count"] == 48
    assert said["as_recorded"] == "a part of the set"
    assert set(said["kinds"]) == {"4:2:0", "4:4:4", "gray", "progressive"}  # type: ignore[call-overload]


def test_peers_write_a_result_and_lines_about_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "peers.json"
    command = (
        "--count 16 --batch 8 --rounds 1 --threads 2 --works decode,train --peers gpuimg,nvimagecodec,torchvision-gpu"
    )
    peers.main([*command.split(), "--out", str(out)])
    capsys.readouterr()
    result = json.loads(out.read_text())
    assert {"machine", "versions", "photos", "batch", "rounds", "peers", "works", "checks", "not_run"} <= set(result)
    assert list(result["works"]) == ["decode", "train"]
    assert result["checks"]["decode"]["nvimagecodec"]["mean_difference_in_levels"] <= 0.01
    ours = result["works"]["train"]["gpuimg"]
    assert ours["images_per_second"] > 0
    assert ours["cpu_seconds_per_1000_images"] > 0
    assert ours["gpuimg_over_this"] == 1.0
    assert 0 < ours["ratio_to_floor"] <= ours["ratio_to_floor_range"][1]
    assert result["works"]["train"]["nvimagecodec"] is None
    assert "train" in result["peers"]["nvimagecodec"]["lacks"]
    assert result["peers"]["gpuimg"]["failed"] == {}
    for cost in ("import_seconds", "first_batch_cold_seconds", "first_batch_seconds", "peak_mib"):
        assert result["peers"]["gpuimg"][cost] > 0
    assert "torchvision-gpu" in result["not_run"] or "torchvision-gpu" in result["peers"]
    lines = "\n".join(details(result))
    assert f"{result['peers']['gpuimg']['peak_mib']:,}" in lines
    assert f"- nvImageCodec (floor): {result['peers']['nvimagecodec']['notes']}." in lines


def test_a_peer_that_does_not_start_is_named(tmp_path: Path) -> None:
    files = tmp_path / "files.pickle"
    files.write_bytes(pickle.dumps([b"not an image"]))
    with Race(["nobody", "nvimagecodec"], 1, 1, files) as race:
        result = race.run(["decode"], 1, 1)
    assert "nobody" in result["not_run"]["nobody"]
    assert result["works"]["decode"] == {"nvimagecodec": None}
    assert "decode" in result["peers"]["nvimagecodec"]["failed"]


def test_a_wrong_output_is_noticed() -> None:
    ours = [np.full((4, 5, 3), 100, "uint8")]
    assert checks.difference("decode", [ours[0] + 3], ours) == {
        "mean_difference_in_levels": 3.0,
        "within_2_levels": 0.0,
    }
    with pytest.raises(ValueError, match="shape"):
        checks.difference("decode", [ours[0][:2]], ours)
    with pytest.raises(ValueError, match="instead of float32"):
        checks.plausible(ours[0], 1)


def test_every_peer_says_which_works_it_lacks() -> None:
    found = registry.peer_class("gpuimg")
    assert set(found.lacks) <= set(WORKS)
    assert registry.compared_with("torchvision-gpu") == "gpuimg-gpu"


def test_ratios_are_those_of_the_rounds() -> None:
    assert common.ratio([2.0, 3.0, 8.0], [1.0, 1.0, 2.0]) == (3.0, [2.0, 4.0])


def test_memory_and_time_of_this_process_are_read() -> None:
    assert processes.memory_mib(os.getpid()) > 10
    assert processes.cpu_seconds() > 0


def test_the_seek_index_is_measured_for_each_k() -> None:
    files = [file_of(Image.effect_noise((300, 200), 40).convert("RGB"))] * 3
    found = bench_seek.each_every(files, rounds=1)
    assert list(found) == ["none", *bench_seek.EVERY]
    sizes = [found[name]["percent_of_files"] for name in bench_seek.EVERY]
    assert sizes == sorted(sizes)
    assert bench_seek.differing(files, 64)["differing"] == 0


def test_means_against_decoding_are_measured() -> None:
    files = photos.load_set("S-4.8", 3)
    found = bench_draft.levers("S-4.8", files, 1)
    assert 0 < found["planes"]["mean"] < 1
    assert found["prepared_bytes"] < found["photos"]["mean_bytes"]
    assert set(bench_draft.MEANS) < set(found["train"]) == set(found["eval"])
    gains, differences = bench_draft.tables({"levers": {"S-4.8": found}})
    assert [line.count("|") for line in gains.splitlines()] == [len(bench_draft.MEANS) + 4] * 4
    assert [line.count("|") for line in differences.splitlines()] == [7] * 3


def test_threads_are_counted_up_to_the_cores(tmp_path: Path) -> None:
    assert [bench_threads.counts(cores) for cores in (1, 2, 6, 8)] == [[1], [1, 2], [1, 2, 4, 6], [1, 2, 4, 8]]
    out = tmp_path / "threads.json"
    bench_threads.main(["--count", "4", "--rounds", "1", "--peers", "gpuimg", "--out", str(out)])
    found = json.loads(out.read_text())["threads"]
    assert all(one["works"]["train"]["gpuimg"]["images_per_second"] > 0 for one in found.values())


def test_a_decoder_of_the_public_board_has_its_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "1")  # which the decoder sets
    data = (EXAMPLES / "cat.jpg").read_bytes()
    decoder = imread_board.GpuimgDecoder()
    assert (decoder.name, decoder.package_name) == ("gpuimg", "gpuimg")
    np.testing.assert_array_equal(decoder.decode(data), Image.open(EXAMPLES / "cat.jpg").convert("RGB"))
    pytest.importorskip("simplejpeg")
    out = tmp_path / "board.json"
    imread_board.main(["--count", "4", "--rounds", "1", "--out", str(out)])
    found = json.loads(out.read_text())
    assert found["single"]["simplejpeg"]["gpuimg_over_this"] > 0
    assert found["workers"]["1"]["gpuimg, batches"]["images_per_second"] > 0


def test_exact_resizes_are_compared_and_measured() -> None:
    found = bench_exact.compare(20_000, seed=3)
    assert found["differing"] == 0
    assert found["values"] >= 20_000
    runs = bench_exact.contenders(np.zeros((1, 30, 40, 3), np.uint8), (7, 9), "bicubic")
    assert {"exact", "float32", "pillow"} <= set(runs)
    for run in runs.values():
        assert run() is not None


# -- what sending compressed images saves ------------------------------------------------------------------------------


def test_png_files_are_measured_by_each_library_that_inflates() -> None:
    file = file_of(bench_png.mask(0), "PNG")
    found = bench_png.measured([file, file], rounds=1)
    assert {"Pillow", "zlib"} <= set(found)
    assert found["zlib"]["range"][0] == found["zlib"]["over_pillow"] > 0


@pytest.mark.parametrize(("quality", "mebibytes"), [(95, 112), (80, 64)])
def test_the_random_image_is_that_of_the_claim(quality: int, mebibytes: int) -> None:
    """10000 x 10000 random pixels, of which one says that they take 112 and 64 MB."""
    share = (10000 / 400) ** 2
    assert len(transfer.encoded(transfer.random_pixels(400), quality)) * share / 2**20 == pytest.approx(mebibytes, 0.02)


def test_nominal_rates() -> None:
    found = transfer.arithmetic({"raw": 12_000_000})["raw"]
    assert found == {  # 15.754, 31.508 and 63.015 GB/s
        "PCIe 3.0 x16": 0.762, "PCIe 4.0 x16": 0.381, "PCIe 5.0 x16": 0.19, "network, 10 Gbit/s": 9.6,
        "disk, 200 MB/s": 60.0,
    }  # fmt: skip


def test_a_transfer_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "transfer.json"
    command = "transfer --rounds 1 --large-rounds 1 --photos 12 --sides 64 48 --out"
    monkeypatch.setattr(sys, "argv", [*command.split(), str(out)])
    transfer.main()
    assert capsys.readouterr().out == out.read_text()
    result = json.loads(out.read_text())
    photo = result["photo 64 x 64"]
    raw, *jpegs, times = photo.values()
    assert raw["bytes"] == 64 * 64 * 3
    sizes = [raw["bytes"], *(each["bytes"] for each in jpegs)]
    assert sizes == sorted(sizes, reverse=True)
    for each in jpegs:
        assert each["ms"]["CPU, gpuimg"] > 0
    assert list(times) == ["raw", "q95", "q90", "q80", "q70"]
    assert list(result["formats"]) == ["files", "tar", "LMDB", "TFRecord", "RecordIO", "Parquet"]
    assert result["formats"]["files"]["of_files"] == 1.0


def test_each_format_holds_the_same_photos(tmp_path: Path) -> None:
    files = photos.load(12)
    for name, write in formats.FORMATS.items():
        source = write(files, tmp_path / name)
        assert sorted(bytes(source[i][0]) for i in range(len(source))) == sorted(files), name


def test_a_format_whose_library_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", None)
    found = formats.measure(photos.load(4), tmp_path, 1)
    assert found["LMDB"].startswith("not measured: ")
    assert found["tar"]["images_per_second"] > 0
