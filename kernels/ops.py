"""The op table: everything the library knows of an operation of a program, once.

An entry of a program is an op code, the words to the next entry, and the op's parameters. A row below says what they
are; the recording, the compilation, saved plans, descriptions, and the dispatch of both runtimes are made from it. Its
formula is the function of :mod:`kernels.color` that has the op's name. Nothing here imports Numba.

To add an op, write its formula, add a row at the end (codes are positions, and saved plans keep them), and a public
function that records it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
) -> Op:
    """Append a row; an op with a statistic has one parameter of its own at most."""
    OPS.append(Op(len(OPS), name, parameters, channelwise, frame, statistic, neighbors, user))
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

#: Where the parameters of "paint" are that are four and three numbers, for ``params[:, RECTANGLE]``.
RECTANGLE: Final = slice(PAINT.at("x0"), PAINT.at("y1") + 1)
EDGES: Final = slice(PAINT.at("sharpness_x"), PAINT.at("sharpness_y") + 1)
COLOR: Final = slice(PAINT.at("red"), PAINT.at("blue") + 1)

#: Which op codes take a statistic, for ``HAS_STATISTIC[codes]``.
HAS_STATISTIC = np.array([op.statistic is not None for op in OPS])
