"""The seek index: its file, building it of every source, going on after interruptions, and the command."""

import json
import os
import pickle
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi
from gpuimg._index import format as layout
from gpuimg._index.seek_index import SeekIndex
from gpuimg._index.writing import PartialIndex

from ..libraries import needs
from ..processes import python, run_command
from ..robustness.originals import jpeg, originals, picture
from ..samples import file_of, write_files
from ..sources.laws import flipped, open_files
from ..sources.writers import SOURCES, archive, make_source
from ..watchdog import on_threads
from . import jpegs
from .seek_oracle import points_of, read_entry, read_index


def files(n: int, size: tuple[int, int] = (75, 110)) -> list[bytes]:
    """Small baseline files, no two alike."""
    return [jpeg(picture(*size, k), subsampling=k % 3, optimize=k % 4 == 3) for k in range(n)]


def pairs(data: list[bytes]) -> list[tuple[bytes, int]]:
    return [(one, k) for k, one in enumerate(data)]


def built(data: list[bytes], path: Path) -> SeekIndex:
    gi.build_index(pairs(data), path)
    return SeekIndex(path)


def class_folder(root: Path, data: Iterable[bytes]) -> Path:
    """A folder with one class."""
    return write_files(root, {f"class/{k:04}.jpg": one for k, one in enumerate(data)})


def entry_bytes(index: SeekIndex, indices: Iterable[int] | None = None) -> list[bytes | None]:
    """Entries of all samples, or of some; None for those without."""
    found = index.entries(list(range(len(index)) if indices is None else indices))
    assert all(one is None or one.ctypes.data % 8 == 0 for one in found)
    return [None if one is None else one.tobytes() for one in found]


# -- what is in it -----------------------------------------------------------------------------------------------------


def test_points_are_where_the_stream_is(tmp_path: Path) -> None:
    data = [one for one in originals().values() if jpegs.is_baseline(one)]
    data += [jpeg(Image.fromarray(np.random.default_rng().integers(0, 256, (40, 90, 3), np.uint8)), quality=100)]
    count = 0
    for one, entry in zip(data, entry_bytes(built(data, tmp_path / "index")), strict=True):
        if entry is None:
            assert jpegs.header_of(one)["restart"]
        else:
            assert read_entry(entry, one) == points_of(one)
            count += 1
    assert count >= 10


def mixed() -> dict[str, bytes]:
    """One file of each kind."""
    webp = file_of(picture(20, 30, 0), "WEBP")
    small = originals()
    return {
        "4:2:0": small["4:2:0"], "gray": small["gray"], "4:4:4": small["4:4:4"], "optimised": small["optimised"],
        "restart": jpeg(picture(40, 50, 1), restart_marker_blocks=2), "progressive": small["progressive"],
        "cmyk": small["cmyk"], "webp": webp, "cut off": small["4:2:2"][:-300], "text": b"hello",
        "nothing": b"", "too large": jpegs.resized(small["4:4:4"], 65500, 65500),
    }  # fmt: skip


class Named(list[Any]):
    """A source whose samples have names."""

    def describe(self, i: int) -> str:
        return f"folder/file {i}"


def test_report(tmp_path: Path) -> None:
    source = Named(pairs(list(mixed().values())))
    report = gi.build_index(source, tmp_path / "index")
    counts = {
        "samples": 12, "indexed": 4, "restart": 1, "progressive": 1, "other_jpeg": 1, "other_formats": 1,
        "too_large": 0, "resumed": 0,
    }  # fmt: skip
    assert {name: getattr(report, name) for name in counts} == counts
    assert report.path == str(tmp_path / "index")
    assert report.subsampling == {"gray": 1, "4:4:4": 1, "4:2:0": 3}
    assert [(one.index, one.source) for one in report.refused] == [(k, f"folder/file {k}") for k in (8, 9, 10, 11)]
    reasons = [one.reason for one in report.refused]
    assert reasons[0].startswith("the data end in MCU row")
    assert all(word in reason for word, reason in zip(["not an image", "", "too few"], reasons[1:], strict=True))
    indexed = [data for name, data in mixed().items() if name in ("4:2:0", "gray", "4:4:4", "optimised")]
    assert report.indexed_bytes == sum(map(len, indexed))
    assert report.bytes == (tmp_path / "index").stat().st_size
    samples = read_index((tmp_path / "index").read_bytes())
    kinds = ["indexed"] * 4 + ["restart", "progressive", "other jpeg", "other format"] + ["refused"] * 4
    assert [one.kind for one in samples] == kinds
    assert [one.sampling for one in samples] == ["4:2:0", "gray", "4:4:4", "4:2:0", "4:2:0"] + [""] * 7
    assert [one.content for one in samples[4:8]] == [b""] * 4
    said = [f"{one.source}\0{one.reason}".encode() for one in report.refused]
    assert [one.content for one in samples[8:]] == said
    assert [entry is not None for entry in entry_bytes(SeekIndex(tmp_path / "index"))] == [True] * 4 + [False] * 8


def test_dry_run_counts_and_writes_nothing(tmp_path: Path) -> None:
    source = Named(pairs(list(mixed().values())))
    dry = gi.build_index(source, dry_run=True)
    built = gi.build_index(source, tmp_path / "index")
    assert dry.path is None
    for name in ("samples", "restart", "progressive", "other_jpeg", "other_formats"):
        assert getattr(dry, name) == getattr(built, name), name
    # What is wrong inside a scan, only decoding it tells.
    assert [one.index for one in dry.refused] == [9, 10, 11]
    assert dry.indexed == built.indexed + 1
    assert dry.bytes >= built.bytes
    assert os.listdir(tmp_path) == ["index"]


# -- its file ----------------------------------------------------------------------------------------------------------


def test_entries_in_any_order(tmp_path: Path) -> None:
    index = built([*files(5), b"no image"], tmp_path / "index")
    one_by_one = entry_bytes(index)
    order = [3, 3, 5, 0, -1, 6, 1 << 40, 4]
    wanted = [one_by_one[i] if 0 <= i < 5 else None for i in order]
    assert entry_bytes(index, order) == wanted
    assert entry_bytes(index, []) == []
    child = os.fork()
    if child == 0:
        os._exit(any(entry_bytes(index) != one_by_one for _ in range(20)))
    assert all(entry_bytes(index) == one_by_one for _ in range(20))
    assert os.waitpid(child, 0)[1] == 0


def test_pickles_and_closes(tmp_path: Path) -> None:
    before = open_files(tmp_path)
    index = built(files(3), tmp_path / "index")
    copy = pickle.loads(pickle.dumps(index))
    assert entry_bytes(copy) == entry_bytes(index)
    assert (len(copy), copy.path) == (3, str(tmp_path / "index"))
    assert repr(copy) == f"<SeekIndex '{tmp_path}/index': 3 samples>"
    (tmp_path / "index").rename(tmp_path / "other")
    assert entry_bytes(copy) == entry_bytes(index)  # what is open stays
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickle.dumps(index))
    assert open_files(tmp_path) == before + 2
    del copy, index
    assert open_files(tmp_path) == before


REFUSED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "is not a seek index: it is empty"),
    "another file": (lambda data: files(1)[0], r"is not a seek index: it begins with b'\\xff\\xd8"),
    "byte order": (lambda data: data[:8] + data[8:12][::-1] + data[12:], "is big-endian"),
    "version": (lambda data: data[:12] + b"\x01" + data[13:], "has version 1; this gpuimg reads version 2"),
    "flipped": (lambda data: flipped(data, 25), "is damaged: the checksum of its header is wrong"),
    "cut off": (lambda data: data[:-1], r"is cut off: \d+ of \d+ bytes"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_index_is_refused(what: str, tmp_path: Path) -> None:
    path = tmp_path / "train.gpuimg-index"
    built(files(2), path)
    change, reason = REFUSED[what]
    path.write_bytes(change(path.read_bytes()))
    before = open_files(tmp_path)
    with pytest.raises(ValueError, match=reason) as caught:
        SeekIndex(path)
    assert str(caught.value).startswith(f"{path} ")
    assert str(caught.value).endswith(f"; build it again: gpuimg index SOURCE --out {path}")
    del caught
    assert open_files(tmp_path) == before
    for absent, error in ((tmp_path / "nothing", FileNotFoundError), (tmp_path, OSError)):
        with pytest.raises(error, match=str(absent)):
            SeekIndex(absent)


def test_cut_off_while_it_is_open(tmp_path: Path) -> None:
    index = built(files(4), tmp_path / "index")
    wanted = entry_bytes(index)
    whole = os.path.getsize(index.path)
    for size in (whole - 1, whole // 2, 64, 0):
        os.truncate(index.path, size)
        for found, entry in zip(entry_bytes(index), wanted, strict=True):
            assert found is None or found == entry or size < whole
    assert entry_bytes(index) == [None] * 4


def test_whose_it_is(tmp_path: Path) -> None:
    data = files(3)
    source = gi.folder(class_folder(tmp_path / "set", data))
    gi.build_index(source, tmp_path / "index")
    index = SeekIndex(tmp_path / "index")
    assert index.problem_with(source) == ""
    (tmp_path / "set").rename(tmp_path / "moved")
    assert index.problem_with(gi.folder(tmp_path / "moved")) == ""
    paths = [tmp_path / "moved" / "class" / f"{k:04}.jpg" for k in (1, 0, 2)]
    assert index.problem_with(gi.file_list(paths)).endswith(
        "is for a source with different sample names, or a different order"
    )
    assert index.problem_with(pairs(data[:2])).endswith("is for 3 samples, but the source has 2")


# -- of every source ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source(kind: str, tmp_path: Path, watched: None, capfd: pytest.CaptureFixture[str]) -> None:
    data = files(9)
    wanted = entry_bytes(built(data, tmp_path / "index"))
    source, name, arguments = make_source(kind, tmp_path, data)
    if name is None:
        with pytest.raises(ValueError, match=r"path is needed: .* is not read from a single local file or folder"):
            gi.build_index(source)
        gi.build_index(source, tmp_path / "other")
    else:
        kept = sorted(str(path) for path in tmp_path.rglob("*"))
        assert gi.build_index(source).path == f"{tmp_path}/{name}.gpuimg-index"
        assert sorted(map(str, tmp_path.rglob("*"))) == sorted([*kept, f"{tmp_path}/{name}.gpuimg-index"])
        (tmp_path / f"{name}.gpuimg-index").rename(tmp_path / "other")
    assert entry_bytes(SeekIndex(tmp_path / "other")) == wanted
    assert SeekIndex(tmp_path / "other").problem_with(source) == ""
    if arguments:
        assert run_command("index", *arguments) == 0
        assert (tmp_path / f"{name}.gpuimg-index").read_bytes() == (tmp_path / "other").read_bytes()
        assert "9 images" in capfd.readouterr().out


def test_threads_do_not_matter(tmp_path: Path, watched: None) -> None:
    data = [*files(40), b"no image"] * 5
    one = gi.build_index(pairs(data), tmp_path / "one", threads=1)
    five = gi.build_index(pairs(data), tmp_path / "five", threads=5)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "five").read_bytes()
    assert one.refused == five.refused
    assert len(one.refused) == 5


class Broken(list[bytes]):
    """A source that fails in every way: for samples, and altogether."""

    def __getitem__(self, i: Any) -> Any:
        if i == 3:
            raise RuntimeError("the disk is on fire")
        if i == 200:
            raise KeyboardInterrupt
        return "no/such/file.jpg" if i == 5 else super().__getitem__(i), None


def test_samples_that_cannot_be_read(tmp_path: Path) -> None:
    report = gi.build_index(Broken(files(7)), tmp_path / "index")
    assert [str(one) for one in report.refused] == [
        "image 3 (sample 3): cannot be read: the disk is on fire",
        "image 5 (no/such/file.jpg): cannot be read: No such file or directory",
    ]
    assert report.indexed == 5


def test_what_stops_it(tmp_path: Path, watched: None) -> None:
    with pytest.raises(KeyboardInterrupt):
        gi.build_index(Broken(files(5) * 100), tmp_path / "index", threads=3)
    with pytest.raises(TypeError, match=r"source\[0\] must be a pair"):
        gi.build_index([b"..."], tmp_path / "index")
    with pytest.raises(TypeError, match="returns a decoded image"):
        gi.build_index([(picture(8, 8, 0), 1)], tmp_path / "index")
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(("option", "value"), [("threads", 0), ("image", "")])
def test_arguments(option: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{option} must be"):
        gi.build_index(pairs(files(1)), tmp_path / "index", **{option: value})
    assert os.listdir(tmp_path) == []


def test_progress(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int]] = []
    gi.build_index(pairs(files(5) * 20), tmp_path / "index", progress=lambda *now: seen.append(now))
    assert seen[0] == (0, 100)
    assert seen[-1] == (100, 100)
    assert seen == sorted(seen)
    needs("tqdm")
    gi.build_index(pairs(files(5)), tmp_path / "index", progress=True)
    assert "5/5" in capfd.readouterr().err.replace("5.00/5.00", "5/5")


# -- going on ----------------------------------------------------------------------------------------------------------


class StopError(Exception):
    pass


def interrupted(source: Any, path: Path, after: int) -> None:
    """Build as far as some samples."""

    def stop(done: int, _: int) -> None:
        if done >= after:
            raise StopError

    with pytest.raises(StopError):
        gi.build_index(source, path, threads=2, progress=stop)
    assert not path.exists()


@pytest.fixture(scope="module")
def many() -> list[bytes]:
    return [*files(30, (40, 60)), b"no image", *list(mixed().values())[4:]] * 5


def test_goes_on(many: list[bytes], tmp_path: Path, watched: None) -> None:
    whole = gi.build_index(pairs(many), tmp_path / "whole")
    for after in (1, 70, 150):
        interrupted(pairs(many), tmp_path / "index", after)
    assert problem_opening(tmp_path / "index.partial") == "is not finished"
    report = gi.build_index(pairs(many), tmp_path / "index")
    assert report.resumed >= 150
    assert (tmp_path / "index").read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["index", "whole"]
    same = {"path": None, "resumed": 0, "seconds": 0.0}
    assert vars(report) | same == vars(whole) | same


def problem_opening(path: Path) -> str:
    with pytest.raises(ValueError, match="; build it again") as caught:
        SeekIndex(path)
    return str(caught.value).partition(";")[0].removeprefix(f"{path} ")


def test_damage_to_what_is_done(many: list[bytes], tmp_path: Path) -> None:
    """Cut off anywhere, or with flipped bits: what is not whole is done again."""
    gi.build_index(pairs(many), tmp_path / "whole")
    interrupted(pairs(many), tmp_path / "index", 150)
    partial = (tmp_path / "index.partial").read_bytes()
    draw = np.random.default_rng()
    for k in range(60):
        damaged = bytearray(partial[: draw.integers(len(partial) + 1)] if k % 2 else partial)
        for _ in range(0 if k % 3 == 1 or not damaged else draw.integers(1, 4)):
            damaged[draw.integers(len(damaged))] ^= 1 << int(draw.integers(8))
        (tmp_path / "index.partial").write_bytes(damaged)
        gi.build_index(pairs(many), tmp_path / "index")
        assert (tmp_path / "index").read_bytes() == (tmp_path / "whole").read_bytes()


def test_every_bit_of_what_is_done(tmp_path: Path) -> None:
    few = [*files(1, (9, 9)), b"no image"]
    gi.build_index(pairs(few), tmp_path / "whole")
    interrupted(pairs(few), tmp_path / "index", len(few))
    partial = (tmp_path / "index.partial").read_bytes()
    for bit in range(8 * len(partial)):
        (tmp_path / "index.partial").write_bytes(flipped(partial, *divmod(bit, 8)))
        gi.build_index(pairs(few), tmp_path / "index")
        assert (tmp_path / "index").read_bytes() == (tmp_path / "whole").read_bytes(), bit


def test_partial_of_something_else(many: list[bytes], tmp_path: Path) -> None:
    gi.build_index(pairs(many), tmp_path / "whole")
    for other in (pairs(many[1:]), Named(pairs(many))):
        interrupted(other, tmp_path / "index", 100)
        assert gi.build_index(pairs(many), tmp_path / "index").resumed == 0
        assert (tmp_path / "index").read_bytes() == (tmp_path / "whole").read_bytes()
        (tmp_path / "index").unlink()
    (tmp_path / "index.partial").write_bytes(b"something else")
    assert gi.build_index(pairs(many), tmp_path / "index").resumed == 0


def test_entries_that_overlap_are_not_read_again_and_again(tmp_path: Path) -> None:
    """An index of 80 MB whose 500 entries are said to be nearly all of it each would take 40 GB."""
    samples, size = 1000, 80_000_000
    header = layout.Header(True, samples, size, size, 0)
    table = np.full(samples + 1, size, "<u8")
    table[::2] = header.table_end
    path = tmp_path / "index"
    path.write_bytes(header.packed() + layout.pack_record(table, np.uint64(layout.INDEXED)).astype("<u8").tobytes())
    os.truncate(path, size)
    found = SeekIndex(path).read(range(samples))
    assert found.memory.size <= 2 * size
    assert np.flatnonzero(found.sizes).tolist() == [0]


def test_one_at_a_time(tmp_path: Path) -> None:
    partial = PartialIndex(str(tmp_path / "index"), 1, 0)
    with pytest.raises(BlockingIOError, match=r"another process is writing it: .*index\.partial"):
        gi.build_index(pairs(files(1)), tmp_path / "index")
    partial.close()
    assert gi.build_index(pairs(files(1)), tmp_path / "index").indexed == 1


def test_another_that_is_done_meanwhile(tmp_path: Path, watched: None) -> None:
    """Whoever gets the lock of a file that has been renamed must not write to the finished index."""
    data = pairs(files(20))
    gi.build_index(data, tmp_path / "whole")

    def build() -> None:
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            with suppress(BlockingIOError):
                gi.build_index(data, tmp_path / "index", threads=1)

    on_threads(build)
    assert (tmp_path / "index").read_bytes() == (tmp_path / "whole").read_bytes()


# -- the command -------------------------------------------------------------------------------------------------------


def test_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    mixed_set = class_folder(tmp_path / "set", mixed().values())
    assert run_command("index", mixed_set, "--dry-run") == 1
    assert os.listdir(tmp_path) == ["set"]
    assert "would take up to" in capfd.readouterr().out
    assert run_command("index", mixed_set) == 1
    said = " ".join(capfd.readouterr().out.split())
    for part in (
        "samples 12 images 5 baseline JPEG 1 with restart markers 1 gray 1 4:4:4 3 4:2:0",
        "1 progressive JPEG 1 other JPEG 1 other formats 4 refused",
        f"index {mixed_set}.gpuimg-index",
        f"refused sample 9 ({mixed_set}/class/0009.jpg): not an image file (starts with b'hello')",
    ):
        assert part in said
    assert len(SeekIndex(f"{mixed_set}.gpuimg-index")) == 12
    for k in (8, 9, 10, 11):
        (mixed_set / "class" / f"{k:04}.jpg").unlink()
    assert run_command("index", mixed_set, "--out", tmp_path / "index", "--threads", 1, "--json") == 0
    report = json.loads(capfd.readouterr().out)
    assert (report["indexed"], report["refused"]) == (4, [])
    assert len(SeekIndex(tmp_path / "index")) == 8


def test_command_errors(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "what").write_bytes(b"?")
    (tmp_path / "boxes.json").write_text("{}")
    shard = tmp_path / "a.tar"
    shard.write_bytes(archive([(files(1)[0], 1)]))
    for arguments, message in (
        ([tmp_path / "what"], "unknown kind of source: .*what; pass --kind, one of array_record, coco"),
        ([tmp_path / "boxes.json"], "COCO annotations need --images"),
        ([shard, shard], "--out is needed: the source consists of several files"),
        ([shard, "--out", tmp_path / "what"], "exists and is not a seek index"),
        ([shard, "--out", tmp_path / "no" / "index"], "No such file or directory"),
    ):
        assert run_command("index", *arguments) == 2
        said = capfd.readouterr().err
        assert "Traceback" not in said
        assert re.search(message, said), said
    assert (tmp_path / "what").read_bytes() == b"?"
    for count in (1, 2):  # written over
        assert run_command("index", *[shard] * count, "--out", tmp_path / "index") == 0
    assert len(SeekIndex(tmp_path / "index")) == 2


@pytest.mark.parametrize("call", ["build_index", "read_sizes"])
def test_a_file_that_cannot_be_written_is_named(call: str, tmp_path: Path) -> None:
    """Here for a limit of the process, as for a full disk; nothing is left."""
    code = f"""
import gpuimg, resource
class Named(list):
    def describe(self, i):
        return str(i)
resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))
try:
    gpuimg.{call}(Named([(b"", 0)] * 99), {str(tmp_path / "file")!r})
except OSError as error:
    print(error)
"""
    assert python("-c", code) == f"[Errno 27] File too large: '{tmp_path}/file'\n"
    assert list(tmp_path.iterdir()) == []
