"""kornia-rs in threads: libjpeg-turbo, and its resize and normalization in Rust."""

from typing import Any, ClassVar

import kornia_rs
import numpy as np

from bench.peers import base
from bench.peers.base import Epoch, Peer


def _decoded(data: bytes) -> Any:
    return kornia_rs.io.decode_image_jpegturbo(data, "rgb")


def _evaluated(data: bytes) -> Any:
    image: Any = _decoded(data)
    shorter = min(image.shape[:2])
    image = kornia_rs.imgproc.resize(
        image, tuple(int(base.SHORTER * side / shorter) for side in image.shape[:2]), "bilinear"
    )
    top, left = (round((side - base.SIZE) / 2) for side in image.shape[:2])
    return base.normalized(image[top : top + base.SIZE, left : left + base.SIZE])


def _trained(data: bytes, rng: np.random.Generator) -> Any:
    image = _decoded(data)
    top, left, height, width = base.random_box(rng, *image.shape[:2])
    crop = np.ascontiguousarray(image[top : top + height, left : left + width])
    if rng.random() < 0.5:
        crop = kornia_rs.imgproc.horizontal_flip(crop)
    return kornia_rs.pipeline.resize_normalize_to_tensor(crop, (base.SIZE, base.SIZE), base.MEAN, base.STD)


class Kornia(Peer):
    """kornia-rs in a pool of threads, a batch at a time."""

    name = "kornia-rs"
    distributions = ("kornia-rs", "numpy")
    lacks: ClassVar[dict[str, str]] = {
        "train+rotate+color": "not written: its augmentations take image objects, one at a time"
    }
    notes = "train resizes, normalizes and transposes in one pass, without antialiasing"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        return base.in_threads(self, work, files, {"decode": _decoded, "eval": _evaluated}, {"train": _trained})
