"""Numbers in what objects say of themselves."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number of things, with separators.

    Examples
    --------
    >>> counted(1, "image"), counted(1_281_167, "image"), counted(2, "class", "classes")
    ('1 image', '1,281,167 images', '2 classes')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
