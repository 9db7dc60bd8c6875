"""Numbers in what objects say of themselves."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number of things, with separators: ``1,281,167 images``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
