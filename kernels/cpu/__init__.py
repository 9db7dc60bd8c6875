"""The CPU runtime's loops: one image at a time, a planar float32 row at a time, no GIL."""

from .run import call_table, mix_image, run_image
from .sample import SOURCE_SLACK, work_space
from .store import BYTES_OF

__all__ = ["BYTES_OF", "SOURCE_SLACK", "call_table", "mix_image", "run_image", "work_space"]
