"""The op table: everything the library knows of an operation of a program, once.

An entry of a program is an op code, the words to the next entry, and the op's parameters. A row below says what they
are; the recording, the compilation, saved plans, descriptions, and the dispatch of both runtimes are made from it. Its
formula is the function of :mod:`kernels.color` or :mod:`kernels.noise` that has the op's name. Nothing here imports
Numba.

To add an op, write its formula, add a row at the end (codes are positions, and saved plans keep them), and a public
function that records it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

#: Words of an entry before its parameters: op code, words to the next entry.
ENTRY_HEADER: Final = 2

#: Words of the matrix to an earlier frame, the first parameters of an op that refers to one.
FRAME_WORDS: Final = 9

# What a statistic of the whole image holds in its slot.
MEAN: Final = "mean"  # of gray: one word
RANGE: Final = "range"  # low end and gain of each channel: six words
HISTOGRAM: Final = "histogram"  # a table of levels for each channel
LEVELS: Final = 256  # of a byte: entries of a histogram and of a table
STATISTICS_WORDS: Final = 3 * LEVELS  # float32 a slot, whatever its statistic

# Parameters of every op with a statistic, filled in by the plan: the channels it is taken over, and its slot.
CHANNELS: Final = 1
SLOT: Final = 2


@dataclass(frozen=True)
class Op:
    """One row of the table.

    ``channelwise`` formulas are ``(x, *parameters) -> x``, called for each channel; the others ``(r, g, b,
    *parameters) -> (r, g, b)``. With a ``frame``, the position ``(x, y)`` in it comes before the parameters; with a
    statistic, its words come after them (of a histogram: the tables and where they begin).
    """

    code: int
    name: str
    parameters: tuple[str, ...]
    channelwise: bool
    frame: bool
    statistic: str | None
    neighbors: bool  # reads the pixels around: no formula of one pixel
    user: bool  # calls a function of the user's: cannot be saved
    rare: bool  # on a GPU in the full kernels only, so that those of other programs stay small
    placed: bool  # gives each pixel something of its own: geometry after it needs a new stage
    prepass_launches: int  # launches of separate kernels on a GPU, over the source of its segment

    @property
    def offset(self) -> int:
        """Words of an entry's parameters before the named ones."""
        return FRAME_WORDS if self.frame else 0

    @property
    def width(self) -> int:
        """Words of an entry's parameters."""
        return self.offset + (SLOT + 1 if self.statistic else len(self.parameters))

    def at(self, parameter: str) -> int:
        """Position of a named parameter among an entry's."""
        return self.offset + self.parameters.index(parameter)


OPS: list[Op] = []


def _op(
    name: str,
    *parameters: str,
    channelwise: bool = False,
    frame: bool = False,
    statistic: str | None = None,
    neighbors: bool = False,
    user: bool = False,
    rare: bool = False,
    placed: bool = False,
    prepass_launches: int = 0,
) -> Op:
    """Append a row; an op with a statistic has one parameter of its own at most."""
    rare |= neighbors and prepass_launches == 0
    OPS.append(
        Op(len(OPS), name, parameters, channelwise, frame, statistic, neighbors, user, rare, placed, prepass_launches)
    )
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
    "paint", "x0", "y0", "x1", "y1", "sharpness_x", "sharpness_y", "red", "green", "blue", "inside", frame=True
)  # fmt: skip
POINTWISE = _op("pointwise", "function", "value", frame=True, user=True)
SHARPNESS = _op("sharpness", "factor", neighbors=True)
GAMMA = _op("gamma", "gamma", "gain", channelwise=True)
PERMUTE = _op("permute", "first", "second", "third", rare=True)
NOISE = _op(
    "noise", "x0", "y0", "x1", "y1", "seed_0", "seed_1", "mean", "scale", "keep", "uniform", "colored", "low", "high",
    frame=True, rare=True, placed=True,
)  # fmt: skip
GRID = _op(
    "grid", "along", "across", "x", "y", "share", "red", "green", "blue", frame=True, rare=True, placed=True
)  # fmt: skip

MOTION = _op("motion", "taps", "x", "y", neighbors=True)
MOST_TAPS: Final = 255  # of a motion

JPEG = _op("jpeg", "quality", "colored", neighbors=True, prepass_launches=2)

ELASTIC = _op(
    "elastic", "seed_0", "seed_1", "density", "phase_x", "phase_y", "along", "down", "red", "green", "blue", "repeat",
    "nearest", neighbors=True, prepass_launches=1,
)  # fmt: skip

# The nodes of an elastic displacement, under a cubic B-spline: pixels between them for a smoothness of 1 pixel, since
# the standard deviation of the spline is the root of 1/3 of them; and how a sum of unit normals varies, on average.
NODE_SPACING: Final = 3.0**0.5
NODE_SPREAD: Final = 151.0 / 315.0

#: A seed is two words of a program, each of which holds whole numbers below this.
SEED_WORD: Final = 1 << 24

#: Where the parameters of "paint" are that are four and three numbers, for ``params[:, RECTANGLE]``.
RECTANGLE: Final = slice(PAINT.at("x0"), PAINT.at("y1") + 1)
EDGES: Final = slice(PAINT.at("sharpness_x"), PAINT.at("sharpness_y") + 1)
COLOR: Final = slice(PAINT.at("red"), PAINT.at("blue") + 1)

# Builds of the GPU's kernels: what programs have as a rule; rare ops, sharpness, mirrored borders too; motion as well.
PLAIN: Final = ""
FULL: Final = "full"
MOVING: Final = "motion"

#: Which op codes take a statistic, for ``HAS_STATISTIC[codes]``.
HAS_STATISTIC = np.array([op.statistic is not None for op in OPS])

#: Which need the full kernels on a GPU, and which a new stage for geometry after them.
IS_RARE = np.array([op.rare for op in OPS])
IS_PLACED = np.array([op.placed for op in OPS])

#: Which read the pixels around; a segment has one such entry at most.
READS_NEIGHBORS = np.array([op.neighbors for op in OPS])

#: Launches of kernels of their own on a GPU, before the passes of their segment, whose first entry they are.
PREPASS_LAUNCHES = np.array([op.prepass_launches for op in OPS])


def elastic_scale(sigma: Any) -> Any:
    """Alpha over what the normal numbers of nodes are multiplied with."""
    return 4.0 * np.sqrt(3.0 * np.pi) * NODE_SPREAD * sigma
