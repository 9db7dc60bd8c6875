"""The op table: one row for each operation of a program, from which all else is derived.

A program is an array of float32 values: instructions, each an op code, the number of values to the next instruction,
and the op's parameters. Recording, compilation, descriptions, and the dispatch of both runtimes follow the table. The
formula of an op is the function of :mod:`kernels.color`, :mod:`kernels.noise` or :mod:`kernels.weather` that has its
name. Nothing here imports Numba.

To add an op, write its formula, add a row (codes are positions), and a public function that records it.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

#: Values of an instruction before its parameters: op code, values to the next instruction.
INSTRUCTION_HEADER: Final = 2

#: Values of the matrix to the coordinates of an earlier grid, the first parameters of an op that uses those.
MATRIX_WIDTH: Final = 9

# Statistics of the whole image, and the contents of their slots.
MEAN: Final = "mean"  # of gray: one value
RANGE: Final = "range"  # low end and gain of each channel: six values
HISTOGRAM: Final = "histogram"  # a table of levels for each channel
LEVELS: Final = 256  # of a byte: size of a histogram and of a table
STATISTICS_WORDS: Final = 3 * LEVELS  # float32 values of a slot, whatever its statistic

# Positions of parameters that the plan fills in for every op with a statistic: channels of the image, and the slot.
CHANNELS: Final = 1
SLOT: Final = 2


@dataclass(frozen=True)
class Op:
    """One row of the table.

    ``channelwise`` formulas are ``(x, *parameters) -> x``, called for each channel; the others ``(r, g, b,
    *parameters) -> (r, g, b)``. With ``coordinates``, the pixel's position ``(x, y)`` comes before the parameters; with
    a statistic, its values come after them (of a histogram: the tables and where they begin).
    """

    code: int
    name: str
    parameters: tuple[str, ...]
    channelwise: bool = False
    coordinates: bool = False  # uses the pixel's position in an earlier grid: its parameters begin with a matrix
    statistic: str | None = None  # has at most one named parameter, since CHANNELS and SLOT follow it
    neighbors: bool = False  # reads surrounding pixels: has no formula of one pixel
    user: bool = False  # calls a function of the user
    rare: bool = False  # on a GPU in the full kernels only, so that those of other programs stay small
    placed: bool = False  # adds a pattern to the pixels of its grid: geometry after it needs a new segment
    prepass: bool = False  # has separate loops or kernels, before the passes of the segment that it begins
    area: bool = False  # a prepass on a CPU, too, whose parameters are those of :data:`AREA_PARAMETERS`

    @property
    def offset(self) -> int:
        """Number of parameters before the named ones."""
        return MATRIX_WIDTH if self.coordinates else 0

    @property
    def width(self) -> int:
        """Number of parameters of an instruction."""
        return self.offset + (SLOT + 1 if self.statistic else len(self.parameters))

    def at(self, parameter: str) -> int:
        """Return the position of a named parameter among those of an instruction."""
        return self.offset + self.parameters.index(parameter)


OPS: list[Op] = []


def _op(name: str, *parameters: str, **options: Any) -> Op:
    """Append a row."""
    OPS.append(Op(len(OPS), name, parameters, **options))
    return OPS[-1]


END = _op("end")
SKIP = _op("skip")
BRIGHTNESS = _op("brightness", "factor", channelwise=True)
CONTRAST = _op("contrast", "factor", channelwise=True, statistic=MEAN)
SATURATION = _op("saturation", "factor")
HUE = _op("hue", "turns")
GRAYSCALE = _op("grayscale")
INVERT = _op("invert", channelwise=True)
SOLARIZE = _op("solarize", "threshold", channelwise=True)
POSTERIZE = _op("posterize", "in_scale", "top", "out_scale", channelwise=True)
AUTOCONTRAST = _op("autocontrast", statistic=RANGE)
EQUALIZE = _op("equalize", statistic=HISTOGRAM)
NORMALIZE = _op("normalize", "scale_r", "scale_g", "scale_b", "shift_r", "shift_g", "shift_b")
PAINT = _op(
    "paint", "x0", "y0", "x1", "y1", "sharpness_x", "sharpness_y", "red", "green", "blue", "inside", coordinates=True
)  # fmt: skip
POINTWISE = _op("pointwise", "function", coordinates=True, user=True)  # its values follow
SHARPNESS = _op("sharpness", "factor", neighbors=True, rare=True)
GAMMA = _op("gamma", "gamma", "gain", channelwise=True)
PERMUTE = _op("permute", "first", "second", "third", rare=True)
NOISE = _op(
    "noise", "x0", "y0", "x1", "y1", "seed_0", "seed_1", "mean", "scale", "keep", "uniform", "colored", "low", "high",
    coordinates=True, rare=True, placed=True,
)  # fmt: skip
GRID = _op(
    "grid", "along", "across", "x", "y", "share", "red", "green", "blue", coordinates=True, rare=True, placed=True
)  # fmt: skip

MOTION = _op("motion", "taps", "x", "y", neighbors=True, rare=True)
MOST_TAPS: Final = 255  # of a motion

JPEG = _op("jpeg", "quality", "colored", neighbors=True, prepass=True)

ELASTIC = _op(
    "elastic", "seed_0", "seed_1", "density", "phase_x", "phase_y", "along", "down", "red", "green", "blue", "repeat",
    "nearest", neighbors=True, prepass=True,
)  # fmt: skip

NORMALIZE_BYTES = _op(
    "normalize_bytes", "mean_r", "mean_g", "mean_b", "std_r", "std_g", "std_b", "divisor"
)  # fmt: skip

HSV = _op("hsv", "turns", "saturation_gain", "value_gain", rare=True)

SOLARIZE_ADD = _op("solarize_add", "addition", "threshold", channelwise=True, rare=True)

#: Parameters of ops on whole images, which :class:`kernels.prepass.AREA` describes, and whether the op works on bytes.
AREA_PARAMETERS: Final = ("rows", "columns", "border", "option", "limit", "red", "green", "blue", "bytes")

AREA_COLOR: Final = slice(5, 8)  # red, green and blue of these


def _area(name: str) -> Op:
    return _op(name, *AREA_PARAMETERS, prepass=True, area=True)


MEDIAN = _area("median")
MORPHOLOGY = _area("morphology")
WEIGHTED = _area("weighted")
CLAHE = _area("clahe")
REMAP = _area("remap")
LOOK_UP = _area("look_up")
OF_ANY_CHANNELS: Final = (MEDIAN, MORPHOLOGY, WEIGHTED, REMAP, LOOK_UP)  # of these

COLOR_MATRIX = _op("color_matrix", *(f"{to}{of}" for to in "rgb" for of in "rgb0"), rare=True)

_SEEDED = ("seed_0", "seed_1")
_PATTERN: Final = {"coordinates": True, "rare": True, "placed": True}
SALT_AND_PEPPER = _op("salt_and_pepper", *_SEEDED, "salt", "amount", "colored", **_PATTERN)
SHOT_NOISE = _op("shot_noise", *_SEEDED, "photons", "colored", **_PATTERN)
FOG = _op("fog", *_SEEDED, "density", "per_pixel", "red", "green", "blue", **_PATTERN)
RAIN = _op(
    "rain", *_SEEDED, "amount", "across_x", "across_y", "along_x", "along_y", "opacity", "red", "green", "blue",
    **_PATTERN,
)  # fmt: skip
STREAK_WIDTH: Final = 0.125  # of a cell's that may have one
STREAK_LENGTH: Final = 0.5
MOST_CORNERS: Final = 6  # of a shadow
SHADOW = _op("shadow", "factor", *(f"{axis}{k}" for k in range(MOST_CORNERS) for axis in "xy"), **_PATTERN)

# Nodes of an elastic displacement, which a cubic B-spline interpolates. Their distance in pixels for a smoothness of 1
# pixel: the standard deviation of the spline is the root of 1/3 of that. And the mean variance of the spline's values
# where nodes are unit normals.
NODE_SPACING: Final = 3.0**0.5
NODE_SPREAD: Final = 151.0 / 315.0

#: A seed is two parameters, each a whole number below this, which float32 holds.
SEED_WORD: Final = 1 << 24

#: Positions of the parameters of "paint" that belong together, for ``params[:, RECTANGLE]``.
RECTANGLE: Final = slice(PAINT.at("x0"), PAINT.at("y1") + 1)
EDGES: Final = slice(PAINT.at("sharpness_x"), PAINT.at("sharpness_y") + 1)
COLOR: Final = slice(PAINT.at("red"), PAINT.at("blue") + 1)

# Builds of the GPU's kernels: for common programs; with rare ops, sharpness and mirrored borders; and with motion.
PLAIN: Final = ""
FULL: Final = "full"
MOVING: Final = "motion"

#: By op code, for ``HAS_STATISTIC[codes]``: whether the op takes a statistic.
HAS_STATISTIC = np.array([op.statistic is not None for op in OPS])

#: By op code: whether it needs the full kernels on a GPU; whether geometry after it needs a new segment.
IS_RARE = np.array([op.rare for op in OPS])
IS_PLACED = np.array([op.placed for op in OPS])

#: By op code: whether it reads surrounding pixels; a segment has one such instruction at most.
READS_NEIGHBORS = np.array([op.neighbors for op in OPS])

#: By op code: whether it has a prepass, and is the first instruction of its segment.
HAS_PREPASS = np.array([op.prepass for op in OPS])
IS_AREA = np.array([op.area for op in OPS])


def elastic_scale(sigma: Any) -> Any:
    """Return the ratio of alpha to the factor of the nodes' normal numbers, for a smoothness of ``sigma`` pixels."""
    return 4.0 * np.sqrt(3.0 * np.pi) * NODE_SPREAD * sigma
