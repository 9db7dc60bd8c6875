"""Formatting of counts in messages and representations."""


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number of things, with separators: ``1,281,167 images``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def images_or_clips(images: int, frames: int | None) -> str:
    """Return the contents of a batch: ``32 images``, or ``2 clips of 16 frames``."""
    if frames is None:
        return counted(images, "image")
    return f"{counted(images // frames, 'clip')} of {counted(frames, 'frame')}"
