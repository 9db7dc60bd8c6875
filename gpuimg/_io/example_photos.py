"""Photos to try functions on."""

from pathlib import Path

__all__ = ["example_photos"]


def example_photos() -> list[Path]:
    """Return the paths of four small photos that come with gpuimg: astronaut, cat, coffee, rocket.

    Returns
    -------
    list of Path
        JPEG files in the public domain or under CC0, 320 x 320 and 213 x 320 pixels.

    Examples
    --------
    >>> import gpuimg
    >>> [photo.name for photo in gpuimg.example_photos()]
    ['astronaut.jpg', 'cat.jpg', 'coffee.jpg', 'rocket.jpg']
    """
    return sorted(Path(__file__).with_name("photos").glob("*.jpg"))
