"""Preparing a data set in parts, and parts of a data set that torch chose."""

import json
from pathlib import Path
from typing import Any

import pytest

import gpuimg as gi
from gpuimg.typing import PrepareReport

from ..libraries import library
from ..processes import run_command
from ..robustness.originals import jpeg, picture
from ..samples import write_files
from ..sources.writers import write_tar
from .test_prepare import members_of, prepared


def shards(root: Path, counts: tuple[int, ...]) -> Any:
    """Tar files with so many samples, each with a caption."""
    photos = [jpeg(picture(40, 60, k)) for k in range(3)]
    paths = []
    for k, count in enumerate(counts):
        samples = [((f"{k}/{i}.jpg", photos[i % 3]), (f"{k}/{i}.txt", b"a %d" % i)) for i in range(count)]
        paths.append(write_tar(root / f"{k}.tar", *(member for sample in samples for member in sample)))
    return gi.tar(paths, label="txt")


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_parts_are_the_whole(n: int, tmp_path: Path) -> None:
    source = shards(tmp_path, (3, 1, 4))
    whole = prepared(source, tmp_path / "whole", short_side=20)
    reports = [prepared(source, tmp_path / "parts", short_side=20, part=(k, n)) for k in range(n)]
    folders = [tmp_path / "parts" / f"part-{k:05d}-of-{n:05d}" for k in range(n)]
    found = [members_of(folder) for folder in folders]
    assert {name: data for one in found for name, data in one.items()} == members_of(tmp_path / "whole")
    assert sum(map(len, found)) == 16
    if n <= 3:  # whole shards
        assert len({(name[0], k) for k, one in enumerate(found) for name in one}) == 3
    merged = PrepareReport.merged(reports)
    assert (merged.samples, merged.encoded, merged.bytes) == (whole.samples, whole.encoded, whole.bytes)
    assert merged.path == str(tmp_path / "parts") if n > 1 else str(folders[0])
    together, alone = (gi.tar(f"{tmp_path}/{name}.tar", label="txt") for name in ("parts/*/*", "whole/*"))
    assert list(together) == list(alone)
    again = prepared(source, tmp_path / "parts", short_side=20, part=(n - 1, n))
    assert again.resumed == again.samples == reports[-1].samples


def test_failures_of_parts_are_named_as_those_of_the_whole(tmp_path: Path) -> None:
    data = [jpeg(picture(40, 60, 1)), b"no image"] * 4
    source = [(one, k) for k, one in enumerate(data)]
    reports = [prepared(source, tmp_path / "parts", part=(k, 3)) for k in range(3)]
    assert [failure.index for failure in PrepareReport.merged(reports).failed] == [1, 3, 5, 7]
    resumed = prepared(source, tmp_path / "parts", part=(1, 3))
    assert resumed.failed == reports[1].failed


@pytest.mark.parametrize(("part", "message"), [
    ((3, 3), "the number of the part must be"), ((0, 9), "the number of parts must be"), (1, r"part must be \(k, n\)"),
    ((0, 2, 3), r"part must be \(k, n\)"),
])  # fmt: skip
def test_wrong_parts(part: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        prepared([(b"", 0)] * 8, tmp_path / "out", part=part)
    folder = gi.folder(write_files(tmp_path / "in", {"a/1.jpg": jpeg(picture(40, 60, 1))}))
    with pytest.raises(ValueError, match="part is for tar files"):
        prepared(folder, tmp_path / "out", part=(0, 1))


def test_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shards(tmp_path, (2, 2))
    words = ["prepare", f"{tmp_path}/{{0..1}}.tar", f"{tmp_path}/out", "--short-side", "20", "--no-measure", "--json"]
    assert run_command(*words, "--part", "1/2") == 0
    assert json.loads(capfd.readouterr().out)["samples"] == 2
    assert run_command(*words, "--part", "1") == 2
    assert "--part must be K/N such as 0/16" in capfd.readouterr().err


def test_names_and_members_of_subsets_stay(tmp_path: Path) -> None:
    torch = library("torch")
    source = shards(tmp_path, (3, 3))
    chosen = torch.utils.data.Subset(torch.utils.data.Subset(source, [5, 0, 4, 2]), [0, 1, 3])
    prepared(chosen, tmp_path / "out", short_side=20)
    assert list(members_of(tmp_path / "out")) == ["1/2.jpg", "1/2.txt", "0/0.jpg", "0/0.txt", "0/2.jpg", "0/2.txt"]
    files = gi.folder(write_files(tmp_path / "in", {f"c/{k}.png": jpeg(picture(40, 60, k)) for k in range(3)}))
    prepared(torch.utils.data.Subset(files, [2, 0]), tmp_path / "files")
    assert list(members_of(tmp_path / "files")) == ["c/2.jpg", "c/2.cls", "c/0.jpg", "c/0.cls"]
