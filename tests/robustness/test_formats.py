"""A sample of the damaged files of every format that Pillow decodes; see :mod:`tests.robustness.formats`."""

import pytest

from .formats import CHUNK, mutation, originals, run

pytestmark = pytest.mark.slow

#: A damaged TIFF makes libtiff print a line, which Pillow has no way to stop.
NOISY = {"tiff"}


@pytest.mark.parametrize("form", originals())
def test_damaged_files_are_decoded_or_refused(form: str) -> None:
    results = list(run(form, 0, CHUNK))
    findings = [found for _, found_here in results for found in found_here]
    assert not [found for found in findings if found.rule != "stderr" or form not in NOISY]
    outcomes = {outcome for outcome, _ in results}
    assert outcomes == {"decoded", "refused"}


def test_a_seed_is_a_file() -> None:
    assert mutation("png", 7) == mutation("png", 7)
    assert mutation("png", 7) != mutation("png", 8)
