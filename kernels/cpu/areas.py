"""The CPU's loops of ops on whole images, and the memory that they need."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ..compiled import NativeFunction
from ..ops import CLAHE, LOOK_UP, MEDIAN, MORPHOLOGY, REMAP, WEIGHTED
from . import clahe, remap, windows


class AreaLoop(NamedTuple):
    """The loop of an op, and the bytes of work space, (N,), of (N,) AREA with this number of channels."""

    function: NativeFunction
    space: Callable[[Any, int], Any]


#: By op code, and the dtype of results.
AREA_LOOPS = {
    (MEDIAN.code, "uint8"): AreaLoop(windows.median_bytes, partial(windows.space, itemsize=1, layers=1)),
    (MEDIAN.code, "float32"): AreaLoop(windows.median_floats, partial(windows.space, itemsize=4, layers=1)),
    (MORPHOLOGY.code, "uint8"): AreaLoop(windows.morphology_bytes, partial(windows.space, itemsize=1)),
    (MORPHOLOGY.code, "float32"): AreaLoop(windows.morphology_floats, partial(windows.space, itemsize=4)),
    (WEIGHTED.code, "uint8"): AreaLoop(windows.weighted_bytes, partial(windows.space, itemsize=4, layers=1)),
    (WEIGHTED.code, "float32"): AreaLoop(windows.weighted_floats, partial(windows.space, itemsize=4, layers=1)),
    (CLAHE.code, "uint8"): AreaLoop(clahe.clahe, clahe.space),
    (REMAP.code, "uint8"): AreaLoop(remap.remap_bytes, partial(remap.space, itemsize=1)),
    (REMAP.code, "float32"): AreaLoop(remap.remap_floats, partial(remap.space, itemsize=4)),
    (LOOK_UP.code, "uint8"): AreaLoop(remap.look_up_bytes, remap.row_space),
    (LOOK_UP.code, "float32"): AreaLoop(remap.look_up_floats, remap.row_space),
}
