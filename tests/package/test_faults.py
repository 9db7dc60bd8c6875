"""The table of planted faults fits the tree; ``python -m tests.faults`` plants them."""

from ..faults import problems


def test_every_fault_has_one_place_and_tests() -> None:
    assert problems() == []
