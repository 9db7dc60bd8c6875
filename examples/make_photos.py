"""Create the JPEGs in examples/photos from images that ship with scikit-image (needs scikit-image and Pillow).

python examples/make_photos.py

Only images in the public domain or under CC0 are used; photos/PROVENANCE.md, written by hand, names them. The
pixels are the same on every run; the bytes depend on the JPEG library of the installed Pillow.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import skimage
from PIL import Image

SOURCES = Path(skimage.__file__).parent / "data"
TARGET = Path(__file__).parent / "photos"
ORIENTATION_TAG = 0x0112


class Photo(NamedTuple):
    """A crop ``(left, top, right, bottom)`` of a source, its new ``size`` (width, height), and options for saving."""

    name: str
    source: str
    box: tuple[int, int, int, int]
    size: tuple[int, int]
    quality: int = 88
    subsampling: str = "4:2:0"
    progressive: bool = False
    orientation: int = 1


PHOTOS = (
    Photo("astronaut", "astronaut.png", (0, 0, 512, 512), (400, 400)),
    Photo("astronaut_portrait", "astronaut.png", (90, 0, 402, 416), (312, 416), subsampling="4:4:4", quality=82),
    Photo("camera", "camera.png", (0, 60, 512, 452), (480, 368), quality=85),  # gray
    Photo("cat", "chelsea.png", (0, 0, 451, 300), (451, 300), quality=92),
    Photo("cat_portrait", "chelsea.png", (75, 0, 300, 300), (255, 340), quality=92),
    Photo("coffee", "coffee.png", (0, 0, 600, 400), (480, 320), subsampling="4:2:2"),
    Photo("coffee_cup", "coffee.png", (168, 14, 453, 400), (285, 386), progressive=True),
    Photo("deep_field", "hubble_deep_field.jpg", (120, 150, 870, 620), (400, 251), quality=80),
    Photo("galaxies", "hubble_deep_field.jpg", (580, 392, 940, 872), (330, 440), quality=80),
    Photo("retina", "retina.jpg", (60, 60, 1351, 1351), (360, 360), quality=90),
    Photo("rocket", "rocket.jpg", (0, 0, 640, 427), (500, 333), quality=92),
    Photo("rocket_tall", "rocket.jpg", (205, 0, 490, 427), (320, 480), quality=92, orientation=6),
)


def render(photo: Photo) -> Image.Image:
    """Return the pixels as stored: rotated if the file gets an EXIF orientation, which rotates them back."""
    with Image.open(SOURCES / photo.source) as source:
        image = source.convert("L" if source.mode in ("L", "P") else "RGB")
    image = image.resize(photo.size, Image.Resampling.LANCZOS, box=photo.box)
    return image.transpose(Image.Transpose.ROTATE_90) if photo.orientation == 6 else image


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    for photo in PHOTOS:
        exif = Image.Exif()
        if photo.orientation != 1:
            exif[ORIENTATION_TAG] = photo.orientation
        image = render(photo)
        path = TARGET / f"{photo.name}.jpg"
        chroma = {} if image.mode == "L" else {"subsampling": photo.subsampling}
        image.save(path, "JPEG", quality=photo.quality, progressive=photo.progressive, exif=exif, **chroma)
        print(f"{path.name:24} {image.width} x {image.height}  {path.stat().st_size / 1024:5.1f} KiB")
    total = sum(path.stat().st_size for path in TARGET.glob("*.jpg"))
    print(f"{len(PHOTOS)} photos, {total / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
