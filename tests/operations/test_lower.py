"""What a device is told to do with a batch: a table, without files and without a device."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._data.images import EncodedImages, Pixels
from gpuimg._decoding.jpeg import Headers
from gpuimg._decoding.options import DecodeOptions
from gpuimg._plan.draft import FULL
from gpuimg._plan.lower import Work, lower
from gpuimg._plan.plan import Plan
from gpuimg.kernels import layout
from gpuimg.kernels.jpeg import layout as words

UINT8, FLOAT32 = layout.UINT8, layout.FLOAT32
SIZES = np.array([(60, 80), (90, 50), (40, 40)])
Chain = Callable[[gi.Batch], gi.Batch]


def files(draft: float | None = None, kinds: Any = words.BASELINE) -> EncodedImages:
    """Files of which there is nothing but what their headers say."""
    n = len(SIZES)
    records = np.zeros(n, words.HEADER)
    records["kind"], records["orientation"] = kinds, 1
    records["height"], records["width"] = SIZES.T
    records["strict"] = records["whole"] = 1
    records["components"], records["color"] = 3, words.YCBCR
    headers = Headers(records, np.zeros(n, np.int64), np.zeros(n, np.int64))
    options = DecodeOptions(draft=draft)
    return EncodedImages([b""] * n, headers, {}, [str(k) for k in range(n)], SIZES, options, "raise")


def lowered(chain: Chain, source: Any, kind: int, *, on_host: bool = True, form: Any = "pixels") -> Work:
    """The work of functions on images of these sizes, recorded on others that are there."""
    recorded = recording_of(chain(_zeros()))
    return lower(source, recorded.segments, kind, form, on_host=on_host)


def _zeros() -> gi.Batch:
    x: Any = gi.resize([np.zeros((h, w, 3), np.uint8) for h, w in SIZES.tolist()], (1, 1))
    return gi.Batch(recording_of(x).with_segments(()))


def pixels() -> Pixels:
    source = recording_of(_zeros()).source
    assert isinstance(source, Pixels)
    return source


def exact(x: gi.Batch) -> gi.Batch:
    return gi.resize(x, (24, 32), exact="pillow")


def cut(x: gi.Batch) -> gi.Batch:
    return gi.horizontal_flip(gi.crop(exact(x), 3, 5, 20, 10), where=[True, False, True])


def blurred(x: gi.Batch) -> gi.Batch:
    return gi.rotate(gi.gaussian_blur(x, 5, 1.0, where=[False, True, False]), 30.0)


#: Functions; the kind of the results; and of each segment, the kind that it stores: on the host and on a GPU.
KINDS: dict[str, tuple[Chain, int, list[int], list[int]]] = {
    "nothing": (lambda x: x, UINT8, [], [UINT8]),
    "nothing, as float32": (lambda x: x, FLOAT32, [FLOAT32], [FLOAT32]),
    "geometry and color": (lambda x: gi.adjust_gamma(gi.rotate(x, 9.0), 2.0), UINT8, [UINT8], [UINT8]),
    "a blur, then geometry": (blurred, UINT8, [FLOAT32, UINT8], [FLOAT32, UINT8]),
    "exact": (exact, UINT8, [UINT8], [UINT8]),
    "exact, as float32": (exact, FLOAT32, [FLOAT32], [UINT8, FLOAT32]),
    "exact, cut": (cut, UINT8, [UINT8], [UINT8, UINT8]),
    "exact, cut and normalized": (lambda x: gi.normalize(cut(x), 0.5, 0.2), FLOAT32, [FLOAT32], [UINT8, FLOAT32]),
    "exact, rotated": (lambda x: gi.rotate(exact(x), 9.0), UINT8, [UINT8, UINT8], [UINT8, UINT8]),
    "exact twice": (lambda x: gi.resize(cut(x), (7, 8), exact="torch"), UINT8, [UINT8] * 3, [UINT8] * 3),
    "a blur, exact": (lambda x: exact(gi.gaussian_blur(x, 3, 1.0)), UINT8, [UINT8] * 2, [UINT8] * 2),
}  # fmt: skip


@pytest.mark.parametrize("on_host", [True, False], ids=["host", "GPU"])
@pytest.mark.parametrize("name", KINDS)
def test_segments(name: str, on_host: bool) -> None:
    """A segment stores what the next one reads, in the form of the results only at the end."""
    chain, kind, *expected = KINDS[name]
    work = lowered(chain, files(), kind, on_host=on_host)
    assert [one.kind for one in work.segments] == expected[not on_host]
    assert work.first is None
    assert (work.scales == FULL).all()
    sizes = SIZES
    for k, one in enumerate(work.segments):
        assert (one.exact is None) == bool(one.passes) == (one.plan.exact is None)
        limits = np.tile(sizes[:, ::-1], 2)
        assert (one.regions >= 0).all()
        assert (one.regions <= limits).all()
        if k:
            before = work.segments[k - 1]
            stored = one.regions if before.exact is not None else np.pad(sizes[:, ::-1], ((0, 0), (2, 0)))
            np.testing.assert_array_equal(before.corner, stored[:, :2])
            np.testing.assert_array_equal(before.sizes, (stored[:, 2:] - stored[:, :2])[:, ::-1])
        sizes = one.plan.sizes


def test_the_store_of_an_exact_resize() -> None:
    """The part that is cut out, mirrored and normalized; elsewhere as it is."""
    (one,) = lowered(lambda x: gi.normalize(cut(x), 0.5, 0.2), files(), FLOAT32).segments
    assert one.exact["part"].tolist() == [[5, 3, 15, 23]] * 3
    assert one.stored.mirrored.tolist() == [True, False, True]
    np.testing.assert_allclose(one.stored.normal, [[0.5] * 3 + [0.2] * 3 + [255.0]] * 3)
    plain, _ = lowered(cut, files(), UINT8, on_host=False).segments
    assert not plain.stored.mirrored.any()
    assert not plain.stored.normal.any()


#: Kinds of files; on a GPU; and the scales of one that is shrunk by 4, by 1.5, and not at all.
SCALES: dict[str, tuple[Any, bool, list[int]]] = {
    "baseline": (words.BASELINE, True, [2, 8, 8]), "other formats": (words.OTHER, True, [8, 8, 8]),
    "baseline on a GPU": (words.BASELINE, False, [2, 8, 8]), "for nvImageCodec": (words.PROGRESSIVE, False, [8, 8, 8]),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALES)
def test_reduced_sizes(name: str) -> None:
    kinds, on_host, expected = SCALES[name]
    source = files(1.0, kinds)
    work = lowered(lambda x: gi.resize(x, np.array([(15, 20), (60, 33), (40, 40)])), source, UINT8, on_host=on_host)
    assert work.scales.tolist() == expected
    np.testing.assert_array_equal(work.sizes, -(-SIZES * work.scales[:, None] // FULL))
    assert (work.segments[0].regions <= np.tile(work.sizes[:, ::-1], 2)).all()


def test_segments_that_do_not_change_an_image_are_not_its_own() -> None:
    work = lowered(blurred, pixels(), UINT8)
    assert work.starts.tolist() == [1, 0, 1]


def test_regions_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets of a GPU's kernels are of 32 bits: what they cannot hold is refused before a file is decoded."""
    monkeypatch.setattr("tests.operations.test_lower.SIZES", SIZES * 600)
    source = files()
    with pytest.raises(ValueError, match="image 0 is too large: 36,000 rows of 144,000 values"):
        lower(source, (Plan.start(source.sizes, 3, of_bytes=True),), UINT8, "pixels", on_host=False)


def test_equal_files() -> None:
    source = files().take(np.array([2, 0, 2, 1, 0]))
    plan = Plan.start(source.sizes, 3, of_bytes=True)
    work = lower(source, (plan,), UINT8, "pixels", on_host=True)
    assert work.first is not None
    assert work.first.tolist() == [0, 1, 0, 3, 1]
    assert len(work.segments) == 1  # each occurrence has memory of its own
    assert work.files is None


@pytest.mark.parametrize("rows", [[2, 0, 2, 1, 0], [1, 2], [1, 1]], ids=str)
def test_the_files_that_a_gpu_decodes(rows: list[int]) -> None:
    """Each once, one after another, with the region that all its occurrences read."""
    source, lefts = files().take(np.array(rows)), np.arange(len(rows))
    plan = Plan.start(source.sizes, 3, of_bytes=True)
    corners = np.stack([np.zeros_like(lefts), lefts], 1)
    work = lower(source, (plan.cropped(corners, np.full((len(rows), 2), 9)),), UINT8, "pixels", on_host=False)
    found = work.files
    assert found is not None
    kept = sorted({rows.index(row) for row in rows})
    shown = list(range(len(rows))) if found.rows is None else found.rows.tolist()
    assert (found.first is None) == (found.rows is None) == (len(kept) == len(rows))
    assert [kept[k] for k in shown] == [rows.index(row) for row in rows]
    assert [found.images.names[k] for k in shown] == [str(row) for row in rows]
    areas = SIZES[[rows[k] for k in kept]].prod(1) * 3
    assert found.sizes.tolist() == SIZES[[rows[k] for k in kept]].tolist()
    assert (np.diff([*found.offsets, found.total]) >= areas).all()
    for k, place in enumerate(kept):
        own = [one for one, row in enumerate(rows) if row == rows[place]]
        region = work.segments[0].regions[own]
        assert found.regions[k].tolist() == [*region[:, :2].min(0), *region[:, 2:].max(0)]
