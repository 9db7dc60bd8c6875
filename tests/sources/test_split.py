"""Splits of a source by names."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuimg as gi

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
        for name in NAMES[:100]:
            (tmp_path / root / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / root / name).touch()
    one, other = (gi.split(gi.folder(tmp_path / root), 0.5) for root in ("a", "b"))
    assert [part.tolist() for part in one] == [part.tolist() for part in other]  # wherever the folder is
    pairs = [(b"", k) for k in range(100)]
    assert [part.tolist() for part in gi.split(pairs, 0.5)] == [
        [i for i in part if i < 100] for part in gi.split([*pairs, *pairs], 0.5)
    ]
    assert gi.split(pairs, 0.5, seed=1)[0].tolist() != gi.split(pairs, 0.5)[0].tolist()
    assert len(gi.load(pairs, batch_size=2, indices=gi.split(pairs, 0.9)[0])) > 30


def test_errors() -> None:
    pairs = [(b"", 1)] * 3
    for fractions in (0.0, 1.0, 1.5, [0.5, 0.6], [1.2, -0.2], [[0.5, 0.5]]):
        with pytest.raises(ValueError, match="fractions must be between 0 and 1, or several whose sum is 1, not"):
            gi.split(pairs, fractions)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"stratified=True needs source\.labels; pass the labels"):
        gi.split(pairs, 0.5, stratified=True)
    with pytest.raises(ValueError, match=r"stratified must be 3 labels, one for each sample, not of shape \(2,\)"):
        gi.split(pairs, 0.5, stratified=[1, 2])
