"""RecordIO files of MXNet."""

import hashlib
import os
import shutil
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuimg.sources import recordio
from gpuimg.sources.recordio import joined, unpack

from .laws import assert_law
from .writers import MAGIC, packed
from .writers import record as write

GOLDEN = Path(__file__).parent / "golden"
KEYS = (7, 17, 27, 37)
LABELS: tuple[Any, ...] = (3, 2.5, np.array([1.0, 0.25, 7.0, -2.0], np.float32), 6)
SUMS = (
    "f895ea2d224c63ee97339b6988ee0907", "73d9f64a6d4d0e88de7d23158285b8bc", "f74adfda5bb6a1ae4c0f20ed34163016",
    "5233f0dcf6738fbf030df210eeef00bd",
)  # fmt: skip


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A copy of the file that MXNet wrote, with its index."""
    for ending in ("rec", "idx"):
        shutil.copy(GOLDEN / f"golden.{ending}", tmp_path)
    return tmp_path / "golden.rec"


@pytest.fixture
def samples() -> list[tuple[bytes, Any]]:
    data = [recordio(GOLDEN / "golden.rec")[i][0] for i in range(4)]
    assert tuple(hashlib.sha256(content).hexdigest()[:32] for content in data) == SUMS
    return list(zip(data, LABELS, strict=True))


def test_what_mxnet_writes(golden: Path, samples: list[tuple[bytes, Any]]) -> None:
    assert golden.read_bytes().count(MAGIC) == 7
    assert samples[3][0].count(MAGIC) == 3
    assert_law(recordio(golden), samples, [f"{golden}: record {key}" for key in KEYS])
    golden.with_suffix(".idx").unlink()
    assert_law(recordio(golden), samples, [f"{golden}: record {i}" for i in range(4)])
    index = golden.with_suffix(".npz")
    assert recordio(golden, index_cache=index).describe(3) == f"{golden}: record 3"
    shutil.copy(GOLDEN / "golden.idx", golden.parent)  # another way to the same records
    assert recordio(golden, index_cache=index).describe(3) == f"{golden}: record 37"
    assert repr(recordio(golden)) == f"<gpuimg.recordio '{golden}': 4 records>"


def test_order_of_the_index(golden: Path, samples: list[tuple[bytes, Any]]) -> None:
    lines = golden.with_suffix(".idx").read_text().splitlines()
    golden.with_suffix(".idx").write_text("\r\n".join([lines[3], lines[0], "", lines[2]]))
    found = recordio(os.fsencode(golden))
    assert [data for data, _ in found] == [samples[i][0] for i in (3, 0, 2)]
    assert found.describe(0) == f"{golden}: record 37"


def test_writer_of_these_tests(golden: Path) -> None:
    whole = golden.read_bytes()
    offsets = [0, 804, 1612, 2440, len(whole)]
    stored = [whole[start:end] for start, end in pairwise(offsets)]
    assert [write(joined(record)) for record in stored] == stored


def test_image_headers() -> None:
    with pytest.raises(ValueError, match="23 of 24 bytes of an image header"):
        unpack(packed(b"", 1.0)[:-1])
    with pytest.raises(ValueError, match="4294967295 labels do not fit into 25 bytes"):
        unpack(struct.pack("<IfQQ", (1 << 32) - 1, 0, 0, 0) + b"x")
    for label, wanted in ((5.0, 5), (-1.0, -1), (0.25, 0.25), (float("inf"), float("inf"))):
        assert repr(unpack(packed(b"x", label))) == repr((b"x", wanted))
    assert np.isnan(unpack(packed(b"", float("nan")))[1])


def test_padding_between_parts() -> None:
    """No writer splits a record elsewhere than at a multiple of 4, but the format allows it."""
    first = MAGIC + struct.pack("<I", 1 << 29 | 3) + b"abc\0"
    assert joined(first + MAGIC + struct.pack("<I", 3 << 29 | 1) + b"d") == b"abc" + MAGIC + b"d"


@given(st.lists(st.sampled_from([MAGIC, b"a", b"", MAGIC[:3], bytes(5)]), max_size=12).map(b"".join))
def test_any_record(record: bytes) -> None:
    assert joined(write(record)) == record
    assert joined(write(record) + b"more") == record


@pytest.mark.parametrize(("stored", "match"), [
    (b"", "cut off: 0 of 8 bytes of a header at byte 0"), (write(b"abcd")[:7], "cut off: 7 of 8 bytes"),
    (write(b"abcd")[:-1], "a part takes 4 bytes, but 3 are left"),
    (write(MAGIC)[:8], "cut off: 0 of 8 bytes of a header at byte 8"),
    (write(MAGIC)[8:], "flag 0 or 1, not 0xced7230a and 3"),
    (write(MAGIC)[:8] + write(b""), "flag 2 or 3, not 0xced7230a and 0"),
    (MAGIC + struct.pack("<I", 5 << 29), "flag 0 or 1, not 0xced7230a and 5"),
])  # fmt: skip
def test_damaged_records(stored: bytes, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        joined(stored)


@pytest.mark.parametrize(("content", "match"), [
    ("7 0\n", r"golden\.idx: line 1 must be a key, a tab and an offset, not '7 0'"),
    ("7\t0\n8\t-4\n", r"golden\.idx: line 2 must be"),
    ("7\t0\n8\t99999999999999999999\n", r"golden\.idx: line 2 must be"), ("", r"golden\.idx: no records in it"),
    ("7\t0\n8\t5000\n", r"golden\.rec: cut off: record 8 starts at byte 5000 of 3292"),
    ("7\t0\n8\t804\n9\t2444\n", r"golden\.rec: record 9: damaged: a header at byte 2444"),
])  # fmt: skip
def test_wrong_index(golden: Path, content: str, match: str) -> None:
    golden.with_suffix(".idx").write_text(content)
    with pytest.raises(ValueError, match=match):
        recordio(golden)


def test_offset_between_records(golden: Path) -> None:
    golden.with_suffix(".idx").write_text("1\t0\n2\t12\n3\t2440\n")
    found = recordio(golden)
    with pytest.raises(ValueError, match=r"golden\.rec: record 1: damaged: a part takes 794 bytes, but 4 are left"):
        found[0]
    with pytest.raises(ValueError, match=r"golden\.rec: record 2: damaged: a header at byte 0 must"):
        found[1]
