"""Recoded JPEGs: the JPEG's pixels, and the JPEG itself, byte for byte; a plain reader's coefficients; damage."""

import hashlib
import io
import platform
import tracemalloc
import zlib
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_features
from PIL import Image

import gpuimg as gi
from gpuimg._cli import main as cli
from gpuimg._decoding.recoded import ENDING
from gpuimg.kernels.jpeg import books
from gpuimg.kernels.jpeg import layout as words
from gpuimg.kernels.jpeg import recode as kernels
from gpuimg.kernels.jpeg.usual import USUAL_TABLES

from ..processes import python
from ..robustness.originals import jpeg, originals, picture
from ..samples import file_of, write_files
from . import jpegs, progressive_jpegs, recoded_oracle
from .jpegs import DHT, Decoder, encoded, noise, pillow_pixels, rebuilt, scan_start
from .progressive_jpegs import FACTORS
from .test_icc import profile
from .test_progressive import irregular

recode: Any = partial(gi.recode_jpeg, progressive=True)


def recoded_originals() -> dict[str, tuple[bytes, bytes]]:
    return {name: (one, recode(one)) for name, one in originals().items() if jpegs.is_ours(one)}


# -- pixels, and files restored ----------------------------------------------------------------------------------------


def test_made_files(decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    rng = np.random.default_rng()
    count = 0
    scripts = ((f"script {k}", progressive_jpegs.made(rng)) for k in range(80))
    for k, (name, data) in enumerate([*jpegs.made(photo), *scripts]):
        if not jpegs.is_ours(data):
            continue
        recoded = recode(data)
        assert not jpegs.is_baseline(data) or gi.restore_jpeg(recoded) == data, name
        assert gi.image_info(recoded) == gi.image_info(data), name
        assert jpegs.header_of(recoded)["kind"] == words.RECODED, name
        jpegs.assert_pillows(decoders[k % 2], data, name, [(8, 8, 4, 2, 1)[k % 5]], recoded)
        count += 1
    assert count >= 440


@pytest.mark.parametrize("size", [(20, 5000), (4200, 24), (700, 900)])
def test_segments_of_many_blocks_and_bytes(size: tuple[int, int], decoders: tuple[Decoder, Decoder]) -> None:
    data = encoded(noise(*size, 1), "4:4:4", quality=100)
    recoded = gi.recode_jpeg(data)
    assert (size[1] == 5000) == any(len(one) >= 1 << 16 for one in recoded_oracle.parts_of(recoded).segments)
    np.testing.assert_array_equal(decoders[0](recoded).pixels, pillow_pixels(data))
    assert gi.restore_jpeg(recoded) == data


def test_coefficients_by_a_plain_reader() -> None:
    """They are those that an encoder was given."""
    natural = sorted(range(64), key=lambda k: (k // 8 + k % 8, k if (k // 8 + k % 8) % 2 else k % 8))
    rng = np.random.default_rng()
    for k in range(24):
        image = progressive_jpegs.picture(rng, *rng.integers(8, 90, 2).tolist(), FACTORS[k % len(FACTORS)])
        progressive = progressive_jpegs.written(image, progressive_jpegs.script(rng, len(image.factors)))
        found = recoded_oracle.coefficients(recode(progressive if k < 12 else progressive_jpegs.baseline(image)))
        for c, blocks in enumerate(image.blocks):
            rows, columns = image.size(c)
            np.testing.assert_array_equal(found[c][:rows, :columns, natural], blocks[:rows, :columns])


@pytest.mark.parametrize(
    "options",
    [{}, {"color": "gray"}, {"draft": 1.0}, {"icc": "srgb"}, {"color": "rgba"}, {"color": "gray", "depth": "native"}],
    ids=str,
)
def test_batches(options: dict[str, Any]) -> None:
    files = list(recoded_originals().values())
    files.append((one := jpeg(picture(60, 90, 1), orientation=6, icc_profile=profile()), gi.recode_jpeg(one)))
    mixed = [pair[k % 2] for k, pair in enumerate(files)]
    results = []
    for batch in ([data for data, _ in files], [recoded for _, recoded in files], mixed):
        x = gi.open_batch(batch, device="cpu", **options)
        if "depth" not in options:
            x = gi.random_resized_crop(x, 17, rng=gi.Rng(3, indices=np.arange(len(x))))
        results.append([x[k : k + 1].array()[0] for k in range(len(x))])
    for expected, *found in zip(*results, strict=True):
        np.testing.assert_array_equal(found, [expected] * 2)


# -- files -------------------------------------------------------------------------------------------------------------


def test_what_is_restored() -> None:
    data = originals()["4:2:0 odd"]
    scan = scan_start(data)

    def merged(marker: int, body: bytes) -> list[tuple[int, bytes]]:
        return [(marker, body), (0xFE, b"between")] if marker == DHT else [(marker, body)]

    for name, one in {
        "comments between tables": rebuilt(data, merged),
        "bytes after it": data + b"more" * 5000,
        "a second file after it": data + data,
        "fill bytes before tables": data[:scan].replace(b"\xff\xc4", b"\xff\xff\xff\xc4") + data[scan:],
        "no end": data[:-2],
    }.items():
        assert gi.restore_jpeg(gi.recode_jpeg(one)) == one, name


def test_padding_of_zeros() -> None:
    data = originals()["4:2:2"]
    count = 0
    for n in range(1, 8):  # one of these is the number of bits that fill the last byte, now with ones
        one = data[:-3] + bytes([data[-3] & -1 << n]) + data[-2:]
        with suppress(ValueError):  # padding of both kinds
            assert gi.restore_jpeg(gi.recode_jpeg(one)) == one
            count += 1
    assert count


def test_what_is_not_recoded() -> None:
    data, start = originals()["restart blocks"], scan_start(originals()["restart blocks"])
    marker = data.index(b"\xff\xd0", start)
    for name, one in {
        "truncated": data[: start + 200],
        "cut off before its scan": data[:start],
        "fill bytes in the scan": data[:marker] + b"\xff" + data[marker:],
        "a restart marker out of order": data[: marker + 1] + b"\xd3" + data[marker + 2 :],
        "progressive": originals()["progressive"],
        "progressive, truncated": originals()["progressive"][:-300],
        "CMYK": originals()["cmyk"],
        "tables without end": data[:2] + b"\xff\xc4\0\2" * 65_540 + data[2:],
        "a large size": jpegs.resized(data, 65_500, 65_500),
        "zeros without end": data + bytes(30_000_000),
        "PNG": file_of(picture(9, 9, 0), "PNG"),
        "nothing": b"",
    }.items():
        with pytest.raises(ValueError, match=r"its scan|progressive|not a"):
            gi.recode_jpeg(one, progressive=name != "progressive"), name
    for name, one in irregular().items():
        with pytest.raises(ValueError, match="it is progressive, and damaged or coded in an unusual way"):
            recode(one), name


def test_progressive_files_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernels.write_scan

    def wrong(*arguments: Any) -> int:
        size = right(*arguments)
        arguments[-1][size // 2] ^= 8
        return int(size)

    monkeypatch.setattr(kernels, "write_scan", wrong)
    with pytest.raises(ValueError, match="it is progressive, and damaged"):
        recode(originals()["progressive"])


def test_sizes(photo: Image.Image) -> None:
    """As large as the JPEG with the usual tables, also without their 420 bytes."""
    for quality in (75, 85, 95):
        data = encoded(photo, quality=quality)
        assert 0.9 * len(data) < len(gi.recode_jpeg(data)) < 1.01 * len(data)


# -- damage ------------------------------------------------------------------------------------------------------------


def test_every_byte_counts() -> None:
    data = originals()["tiny"]
    recoded = gi.recode_jpeg(data)
    expected = gi.decode_image(data, device="cpu")
    reasons = set()
    rest = len(recoded) - len(recoded_oracle.parts_of(recoded).rest)
    for at in range(len(recoded)):
        damaged = bytearray(recoded)
        damaged[at] ^= 1 << at % 8
        with suppress(ValueError):
            assert gi.restore_jpeg(damaged) == data, at  # a bit of the packed rest that says nothing
            assert at >= rest
        try:
            np.testing.assert_array_equal(gi.decode_image(bytes(damaged), device="cpu"), expected)
            assert at >= rest, at  # which decoding does not read
        except gi.DecodeError as error:
            reasons.add(str(error).partition("): ")[2])
    assert {"MCU row 1: the segment of a recoded JPEG is damaged", "a recoded JPEG with a damaged header"} <= reasons


def test_truncated_files() -> None:
    recoded = gi.recode_jpeg(originals()["tiny"])
    for size in range(len(recoded)):
        with pytest.raises(ValueError, match=r"recoded JPEG|not a"):
            gi.restore_jpeg(recoded[:size])
    whole = len(recoded) - len(recoded_oracle.parts_of(recoded).rest)
    for size in (*range(40), whole // 2, whole - 1):
        with pytest.raises(gi.DecodeError):
            gi.decode_image(recoded[:size], device="cpu")


def test_a_damaged_segment_is_that_images_failure() -> None:
    data = originals()["large"]
    recoded = gi.recode_jpeg(data)
    parts = recoded_oracle.parts_of(recoded)
    damaged = bytearray(recoded)
    damaged[recoded.index(parts.segments[-1]) + 9] ^= 4
    batch = gi.open_batch([recoded, bytes(damaged), data], device="cpu", on_error="fill")
    found = batch.array()
    np.testing.assert_array_equal(found[0], found[2])
    assert not found[1].any()
    assert "segment of a recoded JPEG is damaged" in batch.errors[1].reason
    top = gi.crop(gi.open_batch([bytes(damaged)], device="cpu"), 0, 0, 8, 200)  # the first segments are whole
    np.testing.assert_array_equal(top.array()[0], pillow_pixels(data)[:8])


def test_a_newer_version_is_named() -> None:
    parts = recoded_oracle.parts_of(recode(originals()["tiny"]))
    for magic, flags in ((b"GPUIMGJ\x02", 0), (parts.head[0], 2)):
        one = parts._replace(head=(magic, *parts.head[1:8], flags)).joined()
        with pytest.raises(gi.DecodeError, match=f"of version {magic[7]} with flags {flags}, and this gpuimg reads"):
            gi.decode_image(one, device="cpu")


def forged_segments() -> dict[str, bytes]:
    """Files with right checksums, of which one thing is wrong."""
    parts = recoded_oracle.parts_of(gi.recode_jpeg(originals()["rgb"]))
    shapes, codes = recoded_oracle.shapes_of(parts)[0], recoded_oracle.codes_of(parts)
    first: Any = SimpleNamespace(choices=lambda found, _, k: [found[0]] * k, random=lambda: 1.0)
    streams, planes, _ = recoded_oracle.drawn(first, 0.0, shapes, codes)
    assert not any(b"".join([*streams, planes]))  # so that one stream goes on in the next, and the last one in planes
    segments = {"": recoded_oracle.put_together(streams, planes)}
    for k in range(4):
        for name, one in (("a byte too short", streams[k][:-1]), ("a byte too long", streams[k] + b"\0")):
            some = [*streams[:k], one, *streams[k + 1 :]]
            segments[f"stream {k} is {name}"] = recoded_oracle.put_together(some, planes)
    for low, high in ((512, 1023), (1024, 2047), (2048, 4095)):
        found = (recoded_oracle.drawn(Random(seed), 0.4, shapes, codes) for seed in count())
        streams, planes, largest = next(one for one in found if low <= one[2] <= high)
        segments["" if low == 512 else f"a magnitude of {largest}"] = recoded_oracle.put_together(streams, planes)
        assert recoded_oracle.is_taken(parts._replace(segments=[segments[""], *parts.segments[1:]]).joined())
    files = {key: parts._replace(segments=[one, *parts.segments[1:]]).joined() for key, one in segments.items() if key}
    files["no JPEG"] = parts._replace(header=b"\x7f" + parts.header[1:]).joined()
    whole = parts.joined()
    for size in (0, len(parts.segments) - 1, len(parts.segments) + 1):
        files[f"{size} segments"] = recoded_oracle.resummed(whole[:16] + size.to_bytes(4, "little") + whole[20:])
    return files


def test_forged_segments() -> None:
    for name, data in forged_segments().items():
        assert not recoded_oracle.is_taken(data) or name == "no JPEG", name
        with pytest.raises(gi.DecodeError, match="a recoded JPEG"):
            gi.decode_image(data, device="cpu"), name


def test_forged_last_parts() -> None:
    """Each is refused, by what restores and by what needs the JPEG for Pillow, and takes little memory."""

    def with_last(data: bytes, tables: list[tuple[int, bytes]], size: int, rest: bytes = b"", crc: int = 0) -> bytes:
        last = recoded_oracle.LAST.pack(crc, size, 1, len(tables))
        last += b"".join(place.to_bytes(4, "little") + table for place, table in tables) + rest
        return recoded_oracle.parts_of(gi.recode_jpeg(data)).with_last(last).joined()

    wide = encoded(Image.new("L", (65_500, 8)), "gray", icc_profile=profile())
    tiny = jpeg(picture(24, 24, 4), icc_profile=profile())

    def tables_of(data: bytes, all_of_them: bool = False) -> list[tuple[int, bytes]]:
        found, at = [], 2
        for marker, body in jpegs.header_segments(data):
            one = jpegs.segment(marker, body)
            found += [(at, one)] if all_of_them or marker == DHT else []
            at += len(one)
        return found

    tables = tables_of(tiny)
    (first, table), *others = tables
    comment = (scan_start(tiny) - 14, b"\xff\xfe\0\3a")  # before the scan's header
    other = tiny[: comment[0]] + comment[1] + tiny[comment[0] :]
    assert gi.restore_jpeg(gi.recode_jpeg(other)) == other
    forged = with_last(tiny, [*tables, comment], len(tiny) - scan_start(tiny) - 2, tiny[-2:], zlib.crc32(other))
    with pytest.raises(ValueError, match="a damaged end"):
        gi.restore_jpeg(forged)
    for name, data, found, size in (
        ("a header of its own", wide, tables_of(originals()["4:2:0"], True), 3_400_000),
        ("half a table", tiny, [(first, table[:9]), *others], 300),
        ("a table within another segment", tiny, [(8, table), *others], 300),
        ("tables out of order", tiny, tables[::-1], 300),
        ("tables without end", tiny, [(2, b"\xff\xc4\xff\xff" + bytes(65_533))] * 1000, 300),
        ("a large scan", tiny, tables, 1 << 40),
    ):
        forged = with_last(data, found, size)
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="a recoded JPEG with a damaged"):
                gi.restore_jpeg(forged), name
            assert tracemalloc.get_traced_memory()[1] < 64 << 20, name
        finally:
            tracemalloc.stop()
        with pytest.raises(gi.DecodeError, match="a recoded JPEG with a damaged"):
            gi.decode_image(forged, device="cpu", icc="srgb"), name
    zeros = with_last(tiny, tables, 300, bytes(30_000_000))
    with pytest.raises(ValueError, match="a damaged end"):
        gi.restore_jpeg(zeros)
    large = jpegs.header_of(zeros)
    with pytest.raises(gi.DecodeError, match="over the limit"):
        gi.decode_image(zeros, device="cpu", icc="srgb", max_pixels=int(large["height"] * large["width"]) - 1)


# -- pieces ------------------------------------------------------------------------------------------------------------


def test_tables_never_change() -> None:
    """They are part of the format."""
    found = books.lengths()
    assert hashlib.sha256(found.tobytes()).hexdigest()[:32] == "f15ef9f30e4e1d7a9b8e3b8858cd2462"
    np.testing.assert_array_equal(np.where(found, 0.5 ** found.astype(float), 0).sum(-1), 1.0)  # complete
    assert not found[:, :, 1, 1::2].any()  # no mask has the DC coefficient
    assert USUAL_TABLES in originals()["tiny"]  # as libjpeg writes them


def results() -> dict[str, Any]:
    """Pixels of all files, and their recoded forms; every file has the pixels of its recoded form."""
    found: dict[str, Any] = {name: gi.decode_image(one, device="cpu") for name, one in originals().items()}
    for name, (_, recoded) in recoded_originals().items():
        np.testing.assert_array_equal(gi.decode_image(recoded, device="cpu"), found[name])
        found[f"{name} recoded"] = np.frombuffer(recoded, np.uint8)
    return found


SAME = """
import numpy as np, sys
from tests.decoding.test_recoded import results
expected = np.load(sys.argv[1])
for name, one in results().items():
    np.testing.assert_array_equal(one, expected[name])
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors have one form")
@pytest.mark.parametrize("without", [("avx512",), ("avx", "bmi", "ssse", "sse4", "sha", "gfni")], ids=["AVX2", "plain"])
def test_processors_with_less(without: tuple[str, ...], tmp_path: Path) -> None:
    """Loops without the instructions of this processor decode to the same pixels, and recode to the same bytes."""
    np.savez(tmp_path / "all.npz", **results())
    mine = get_host_cpu_features()
    lacks = {key for key in mine if key.startswith((*without, "amx"))}
    features = ",".join(f"{'+' if has and key not in lacks else '-'}{key}" for key, has in mine.items())
    python("-c", SAME, tmp_path / "all.npz", NUMBA_CPU_NAME="x86-64", NUMBA_CPU_FEATURES=features)


# -- the commands ------------------------------------------------------------------------------------------------------


def test_prepared_and_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"a/1.jpg": originals()["large"], "a/2.JPEG": originals()["gray"], "b/3.jpg": originals()["progressive"]}
    files["b/4.png"] = file_of(picture(30, 40, 1), "PNG")
    write_files(tmp_path / "in", files)
    assert cli.main(["prepare", str(tmp_path / "in"), str(tmp_path / "out"), "--recode", "--no-measure"]) == 0
    printed = capsys.readouterr().out
    assert "2  recoded" in printed
    assert "kept       sample 2 (b/3.jpg): it is progressive" in printed
    found = gi.sources.folder(tmp_path / "out")
    assert [path.rpartition("/")[2] for path in map(found.describe, range(4))] == [
        f"1.{ENDING}", f"2.{ENDING}", "3.jpg", "4.png"
    ]  # fmt: skip
    shown = [gi.decode_image(found[k][0], device="cpu") for k in range(4)]
    for pixels, data in zip(shown, files.values(), strict=True):
        np.testing.assert_array_equal(pixels, np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))
    assert cli.main(["restore", str(tmp_path / "out"), str(tmp_path / "back")]) == 0
    assert (tmp_path / "back/a/1.jpg").read_bytes() == files["a/1.jpg"]
    assert (tmp_path / "back/a/2.jpg").read_bytes() == files["a/2.JPEG"]
    arguments = [str(tmp_path / "in"), str(tmp_path / "new"), "--recode", "--progressive", "--no-measure"]
    assert cli.main(["prepare", *arguments]) == 0
    assert "1  recoded from progressive files, and not restorable" in capsys.readouterr().out
    np.testing.assert_array_equal(gi.decode_image(tmp_path / f"new/b/3.{ENDING}", device="cpu"), shown[2])
    assert cli.main(["restore", str(tmp_path / "new"), str(tmp_path / "back")]) == 1
    reason = "a recoded JPEG that was made of a progressive JPEG, and has its pixels but not its bytes"
    assert f"new/b/3.{ENDING}: {reason}\n" in capsys.readouterr().out
    damaged = tmp_path / "out" / f"a/1.{ENDING}"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert cli.main(["restore", str(damaged), str(tmp_path / "back")]) == 1
    assert "a recoded JPEG with a damaged end" in capsys.readouterr().out
    (tmp_path / f"new/folder.{ENDING}").mkdir()
    (tmp_path / f"new/link.{ENDING}").symlink_to("nowhere")
    (tmp_path / "back/a/1.jpg").unlink()
    (tmp_path / "back/a/1.jpg").mkdir()  # cannot be replaced
    (tmp_path / "back/a/2.jpg").unlink()
    assert cli.main(["restore", str(tmp_path / "new"), str(tmp_path / "back")]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith(f"restored   1 file\nfailed     {tmp_path}/new/a/1.{ENDING}: [Errno "), printed
    assert sorted(path.name for path in (tmp_path / "back").rglob("*")) == ["1.jpg", "2.jpg", "a"]
    tables = b"\xff\xc4\0\2" * 65_540
    one = files["a/1.jpg"]
    write_files(tmp_path / "many", {"a/1.jpg": one[:2] + tables + one[2:], "a/2.jpg": one})
    report = gi.prepare(gi.folder(tmp_path / "many"), tmp_path / "kept", recode=True, measure=False)
    assert (report.recoded, report.copied, report.kept[0].index) == (1, 1, 0)
    assert "more Huffman tables than any photo has" in report.kept[0].reason
    with pytest.raises(ValueError, match="recode leaves the pixels as they are, and excludes short_side"):
        gi.prepare(gi.folder(tmp_path / "in"), tmp_path / "no", recode=True, short_side=20)
    with pytest.raises(ValueError, match="progressive is an option of recode"):
        gi.prepare(gi.folder(tmp_path / "in"), tmp_path / "no", progressive=True)


def test_recoded_files_in_tars(tmp_path: Path) -> None:
    source = [(originals()["large"], 3), (originals()["gray"], 4), (originals()["progressive"], 5)]
    report = gi.prepare(source, tmp_path / "out", recode=True, measure=False)
    assert (report.recoded, report.copied, [one.index for one in report.kept]) == (2, 1, [2])
    again = gi.prepare(source, tmp_path / "out", recode=True, measure=False)
    assert (again.resumed, again.recoded, again.kept) == (3, 2, report.kept)
    found = gi.sources.tar([tmp_path / "out" / "shard-000000.tar"])
    for k, (data, _) in enumerate(source):
        np.testing.assert_array_equal(gi.decode_image(found[k][0], device="cpu"), gi.decode_image(data, device="cpu"))
