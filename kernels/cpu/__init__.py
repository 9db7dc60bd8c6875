"""The CPU runtime's loops: one image at a time, a planar float32 row at a time, no GIL."""

from .batch import run_images
from .run import call_table, mix_image
from .sample import SOURCE_SLACK, work_space
from .store import BYTES_OF

__all__ = ["BYTES_OF", "SOURCE_SLACK", "call_table", "mix_image", "run_images", "work_space"]
