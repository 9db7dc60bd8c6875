"""Splits of a source by names."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuimg as gi

from ..samples import write_files
from .writers import write_tar

NAMES = [f"{k % 7}/{k}.jpg" for k in range(1000)]
FRACTIONS = st.lists(st.integers(1, 9), min_size=2, max_size=5).map(lambda parts: [p / sum(parts) for p in parts])


@given(FRACTIONS, st.integers(0, 2**64 - 1), st.booleans())
def test_parts_are_disjoint_complete_and_of_their_sizes(fractions: list[float], seed: int, stratified: bool) -> None:
    source = gi.file_list(NAMES, [name[0] for name in NAMES])
    parts = gi.split(source, fractions, seed=seed, stratified=stratified)
    assert np.sort(np.concatenate(parts)).tolist() == list(range(len(source)))
    for part, fraction in zip(parts, fractions, strict=True):
        assert np.all(np.diff(part) > 0)
        assert abs(len(part) - 1000 * fraction) < (7 if stratified else 100)  # 6 standard deviations
        if stratified:
            counts = np.bincount(part % 7, minlength=7)
            assert np.all(np.abs(counts - np.bincount(np.arange(1000) % 7) * fraction) <= 1)


@given(st.integers(0, 999), st.integers(1, 999))
def test_samples_stay_in_their_part(first: int, step: int) -> None:
    def parts(names: list[str]) -> list[set[str]]:
        return [{names[i] for i in part} for part in gi.split(gi.file_list(names), [0.5, 0.3, 0.2])]

    some = NAMES[first::step]
    for all_of_part, part in zip(parts(NAMES), parts(some[::-1]), strict=True):
        assert part == all_of_part & set(some)


def test_names_and_seeds(tmp_path: Path) -> None:
    for root in ("a", "b"):
        write_files(tmp_path / root, dict.fromkeys(NAMES[:100], b""))
    one, other = (gi.split(gi.folder(tmp_path / root), 0.5) for root in ("a", "b"))
    assert [part.tolist() for part in one] == [part.tolist() for part in other]  # wherever the folder is
    pairs = [(b"", k) for k in range(100)]
    twice = gi.split([*pairs, *pairs], 0.5)
    assert [part.tolist() for part in gi.split(pairs, 0.5)] == [part[part < 100].tolist() for part in twice]
    assert gi.split(pairs, 0.5, seed=1)[0].tolist() != gi.split(pairs, 0.5)[0].tolist()
    assert len(gi.load(pairs, batch_size=2, indices=gi.split(pairs, 0.9)[0])) > 30


@pytest.mark.parametrize("kind", ["tar", "describe", "listed_name"])
def test_keys_with_folders_are_whole_names(tmp_path: Path, kind: str) -> None:
    names = [f"{folder}/{k:04d}.jpg" for folder in ("cat", "dog") for k in range(300)]
    records = gi.tar(write_tar(tmp_path / "s.tar", *((name, b"") for name in names)), label=None)
    wrapper: Any = type("Wrapper", (list,), {kind: lambda self, i: records.describe(i)})
    source = records if kind == "tar" else wrapper(names)
    part = np.zeros(600, int)
    part[gi.split(source, 0.7)[1]] = 1
    assert 130 < part.sum() < 230  # 180, 5 standard deviations of 11
    assert 90 < (part[:300] != part[300:]).sum() < 160  # 2 * 0.7 * 0.3 of 300: independent of the namesake


@pytest.mark.parametrize(("counts", "fractions"), [
    ([4] * 200, [0.9, 0.1]), ([3] * 200, [0.2] * 5), ([1] * 200, [0.5, 0.5]), ([1] * 10, [0.9, 0.1]),
    (list(range(1, 40)), [0.9, 0.1]), ([1, 2, 3, 4], [0.9, 0.1]), ([500, 80, 20, *[2] * 30, *[1] * 50], [0.25] * 4),
])  # fmt: skip
def test_rare_classes_are_in_all_parts(counts: list[int], fractions: list[float]) -> None:
    classes = np.repeat(np.arange(len(counts)), counts)
    names = [f"{k}.jpg" for k in range(len(classes))]
    for seed in range(5):
        parts = gi.split(gi.file_list(names), fractions, seed=seed, stratified=classes)
        for part, fraction in zip(parts, fractions, strict=True):
            assert abs(len(part) - len(names) * fraction) < 0.5 * len(set(counts)) ** 0.5 + 1.0
            assert len(part) > 0
            assert np.all(np.abs(np.bincount(classes[part], minlength=len(counts)) - np.multiply(counts, fraction)) < 1)
        more = gi.split(gi.file_list([*names, "more"]), fractions, seed=seed, stratified=[*classes, 0])
        assert sum(len(np.setdiff1d(a, b)) for a, b in zip(parts, more, strict=True)) <= 4 * len(fractions)


def test_errors() -> None:
    pairs = [(b"", 1)] * 3
    for fractions in (0.0, 1.0, 1.5, [0.5, 0.6], [1.2, -0.2], [[0.5, 0.5]]):
        with pytest.raises(ValueError, match="fractions must be between 0 and 1, or several whose sum is 1, not"):
            gi.split(pairs, fractions)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"stratified=True needs source\.labels; pass the labels"):
        gi.split(pairs, 0.5, stratified=True)
    with pytest.raises(ValueError, match=r"stratified must be 3 labels, one for each sample, not of shape \(2,\)"):
        gi.split(pairs, 0.5, stratified=[1, 2])
    with pytest.raises(ValueError, match="sample 2 has no class: its label is nan"):
        gi.class_weights([1, 2, float("nan")])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="sample 1 has no class: its label is None; leave it out"):
        gi.split(pairs, 0.5, stratified=["cat", None, "dog"])  # type: ignore[arg-type]
