"""Descriptions of plans: one line of text for each operation applied to an image.

A line is an operation with its values, in words without a colon: ``contrast 1.38``, ``hue -0.007 turns``.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._checks.text import counted
from .._checks.types import Floats
from ..kernels import exact, layout, ops, prepass
from .plan import Plan

_FILTERS = {
    layout.NEAREST: "nearest",
    layout.LINEAR: "bilinear",
    layout.CUBIC_RENORMALIZED: "bicubic",
    layout.CUBIC_CLAMPED: "bicubic",
    layout.LANCZOS: "lanczos",
    layout.BOX: "box",
    layout.HAMMING: "hamming",
}
_LIBRARIES = {exact.PILLOW: "Pillow 13", exact.PILLOW_12: "Pillow 12", exact.TORCH: "torch"}
_BORDERS = {
    layout.REFLECT: "the border is a mirror image, without the outermost pixels",
    layout.SYMMETRIC: "the border is a mirror image",
}
_SAME = 1e-9  # relative and absolute difference of equal matrices


def describe_segments(segments: Sequence[Plan], k: int, dtype: str) -> list[str]:
    """Return a line for each operation applied to image ``k`` of a source of this dtype."""
    lines, white = [], 255.0 if dtype == "uint8" else 1.0
    for number, plan in enumerate(segments):
        described = _segment(plan, k, white)
        if number and described:
            lines.append(f"segment {number + 1}, on the result so far:")
        lines += described
        white = 1.0 if plan.normalized else white
    return lines


def _segment(plan: Plan, k: int, white: float) -> list[str]:
    lines, before = [], plan.source_sizes[k]
    chosen = int(plan.grid.filter[k])
    if chosen == layout.GAUSSIAN and plan.grid.kernel is not None:
        size, sigma = plan.grid.kernel[k], plan.grid.origins[0].support[k]
        lines.append(f"gaussian blur {size[0]} x {size[1]} pixels, sigma {_list(sigma)} (x, y)")
    moved = False
    for at, entry in enumerate([*plan.entries, None]):
        for step in (step for step in plan.history if step.at == at):
            moves = _geometry(step.matrix[k], before, step.sizes[k])
            lines += moves
            moved |= bool(moves)
            before = step.sizes[k]
        normalized = None if entry is None else entry.normalization(k)
        if normalized is not None:
            white = 1.0  # colors painted after normalize are not in the source's unit
            lines.append(f"normalize with mean {_color(normalized[0])}, std {_color(normalized[1])}")
        elif entry is not None:
            lines += _op(plan, ops.OPS[entry.codes[k]], entry.params[k].astype(np.float64), white)
    if moved and chosen in _FILTERS:
        once = "sampled once" if plan.exact is None else f"sampled exactly as {_LIBRARIES[plan.exact]} does"
        lines.append(f"{once}, {_FILTERS[chosen]}")
    if moved and chosen in _BORDERS:
        lines.append(_BORDERS[chosen])
    return lines


# -- geometry ----------------------------------------------------------------------------------------------------------


def _geometry(matrix: Floats, old: Any, new: Any) -> list[str]:
    """Describe one step from a grid of size ``old`` to one of size ``new``; ``matrix`` maps the new grid to the old."""
    height, width = (int(v) for v in old)
    rows, columns = (int(v) for v in new)
    if _is(matrix, np.eye(3)):
        return [] if (height, width) == (rows, columns) else [_window(0, 0, rows, columns, height, width)]
    if _is(matrix, _matrix(-1.0, 1.0, width, 0.0)):
        return ["flip left and right"]
    if _is(matrix, _matrix(1.0, -1.0, 0.0, height)):
        return ["flip top and bottom"]
    if _is(matrix, _matrix(width / columns, height / rows, 0.0, 0.0)):
        return [f"resize to {rows} x {columns}"]
    left, top = matrix[:2, 2]
    if _is(matrix, _matrix(1.0, 1.0, left, top)):
        if (height, width) == (rows, columns):
            return [f"shift by {_list((-left, -top))} pixels (x, y)"]
        return [_window(top, left, rows, columns, height, width)]
    forward = np.asarray(np.linalg.inv(matrix), np.float64)
    if not _is(matrix[2], (0.0, 0.0, 1.0)):
        corners = np.array([(0, 0, 1), (width, 0, 1), (width, height, 1), (0, height, 1)], np.float64) @ forward.T
        points = ", ".join(f"({_list(point[:2] / point[2])})" for point in corners)
        return [f"perspective with corners at {points} (x, y)"]
    return [_affine(forward, (width, height), (columns, rows))]


def _affine(forward: Floats, old: tuple[int, int], new: tuple[int, int]) -> str:
    """Describe an affine map as scale, then shear, then rotation, about the center."""
    (a, b), (c, d) = forward[:2, :2]
    across = math.hypot(a, c)
    down = (a * d - b * c) / across
    shear = math.degrees(math.atan2(a * b + c * d, across * abs(down)))
    angle = -math.degrees(math.atan2(c, a))
    shift = forward[:2, :2] @ (np.array(old) / 2.0) + forward[:2, 2] - np.array(new) / 2.0
    parts = []
    if not _is((across, down), (1.0, 1.0)):
        parts.append(f"scale by {_list((across, down))} (x, y)")
    if abs(shear) > _SAME:
        parts.append(f"shear by {_number(shear)} degrees")
    if np.max(np.abs(shift)) > 1e-6:
        parts.append(f"move the middle by {_list(shift)} pixels (x, y)")
    if abs(angle) > _SAME or not parts:
        parts.insert(0, f"rotate by {_number(angle)} degrees")
    text = ", ".join(parts)
    return text if new == old else f"{text}, onto {new[1]} x {new[0]}"


def _window(top: float, left: float, rows: int, columns: int, height: int, width: int) -> str:
    inside = top >= 0 and left >= 0 and top + rows <= height and left + columns <= width
    around = top <= 0 and left <= 0 and top + rows >= height and left + columns >= width
    how = "crop" if inside else "pad" if around else "crop and pad"
    return f"{how} {_rectangle(left, top, left + columns, top + rows)} of {height} x {width}"


def _matrix(scale_x: float, scale_y: float, x: float, y: float) -> Floats:
    return np.array([(scale_x, 0.0, x), (0.0, scale_y, y), (0.0, 0.0, 1.0)])


def _is(one: Any, other: Any) -> bool:
    return bool(np.allclose(one, other, rtol=_SAME, atol=_SAME))


# -- everything else ---------------------------------------------------------------------------------------------------


def _op(plan: Plan, op: ops.Op, params: Floats, white: float) -> list[str]:
    """Describe one op of the program: its name and parameters, unless it has a description function."""
    if op is ops.SKIP:
        return []
    if op in _DESCRIBE:
        return [_DESCRIBE[op](plan, params, white)]
    values = ((name, _number(params[op.at(name)])) for name in op.parameters)
    words = ", ".join(value if name in ("factor", op.name) else f"{name} {value}" for name, value in values)
    return [f"{op.name} {words}" if words else op.name]


def _painted(plan: Plan, params: Floats, white: float) -> str:
    color = _color(params[ops.COLOR] * white)
    if params[ops.PAINT.at("inside")] == 0.0:
        return f"fill around the image with {color}"
    return f"erase {_rectangle(*params[ops.RECTANGLE])}, color {color}"


def _pointwise(plan: Plan, params: Floats, white: float) -> str:
    function = plan.functions[int(params[ops.POINTWISE.at("function")])]
    code = function.py_func.__code__
    names = code.co_varnames[5 : code.co_argcount]
    values = zip(names, params[ops.POINTWISE.width :], strict=False)
    return ", ".join([f"pointwise {code.co_name}", *(f"{name} {_number(value)}" for name, value in values)])


def _noisy(plan: Plan, params: Floats, white: float) -> str:
    given = {name: params[ops.NOISE.at(name)] for name in ops.NOISE.parameters}
    seed = _seed(params, ops.NOISE)
    if given["keep"]:
        return f"gaussian noise with mean {_number(given['mean'])}, sigma {_number(given['scale'])}, seed {seed}"
    rectangle = _rectangle(*(given[name] for name in ("x0", "y0", "x1", "y1")))
    return f"erase {rectangle}, {'uniform' if given['uniform'] else 'normal'} noise, seed {seed}"


def _gridded(plan: Plan, params: Floats, white: float) -> str:
    along, across, share = (params[ops.GRID.at(name)] for name in ("along", "across", "share"))
    cells = math.hypot(along, across)
    angle = math.degrees(math.atan2(-across, along))
    color = _color(params[ops.GRID.at("red") : ops.GRID.at("blue") + 1] * white)
    size = f"cells of {_number(1.0 / cells)} pixels, squares of {_number(share / cells)} pixels"
    return f"grid mask with {size}, turned by {_number(angle)} degrees, color {color}"


def _moved(plan: Plan, params: Floats, white: float) -> str:
    taps, x, y = params[:3]
    return f"motion blur {_number(taps)} pixels, {_number(math.degrees(math.atan2(-y, x)))} degrees"


def _displaced(plan: Plan, params: Floats, white: float) -> str:
    along, down, density = (params[ops.ELASTIC.at(name)] for name in ("along", "down", "density"))
    sigma = 1.0 / (density * ops.NODE_SPACING)
    alpha = np.array([along, down]) * ops.elastic_scale(sigma)
    return f"elastic alpha {_list(alpha)} (x, y), sigma {_number(sigma)}, seed {_seed(params, ops.ELASTIC)}"


def _windowed(plan: Plan, params: Floats, white: float) -> str:
    return f"{params[1]:.0f} x {params[0]:.0f} pixels"


def _morphed(plan: Plan, params: Floats, white: float) -> str:
    option = int(params[ops.MORPHOLOGY.at("option")])
    kind = "dilate" if option & prepass.GREATEST else "erode"
    shape = "rectangle" if option & prepass.RECTANGLE else "cross or ellipse"
    return f"{kind} with a {shape} of {_windowed(plan, params, white)}"


def _sampled(plan: Plan, params: Floats, white: float) -> str:
    nearest = int(params[ops.REMAP.at("option")]) & prepass.NEAREST_PIXEL
    return f"remap from given positions, {'nearest' if nearest else 'bilinear'}"


def _speckled(plan: Plan, params: Floats, white: float) -> str:
    salt, amount, colored = params[ops.SALT_AND_PEPPER.at("salt") :][:3]
    share = f"{_number(salt / amount)} of them white" if amount else "none"
    each = "values" if colored else "pixels"
    return f"salt and pepper {_number(amount)} of the {each}, {share}, seed {_seed(params, ops.SALT_AND_PEPPER)}"


def _counted(plan: Plan, params: Floats, white: float) -> str:
    photons = params[ops.SHOT_NOISE.at("photons")]
    return f"shot noise {_number(photons)} photons, seed {_seed(params, ops.SHOT_NOISE)}"


def _fogged(plan: Plan, params: Floats, white: float) -> str:
    density, per_pixel, *color = params[ops.FOG.at("density") :][:5]
    shape = f"density {_number(density)}, scale {_number(1.0 / per_pixel)} pixels"
    return f"fog {shape}, color {_color(np.array(color) * white)}, seed {_seed(params, ops.FOG)}"


def _rained(plan: Plan, params: Floats, white: float) -> str:
    amount, across, slope, right, down, opacity, *color = params[ops.RAIN.at("amount") :][:9]
    sides = ops.STREAK_LENGTH / math.hypot(right, down), ops.STREAK_WIDTH / math.hypot(across, slope)
    angle = _number(math.degrees(math.atan2(right, down)))
    shape = f"amount {_number(amount)}, streaks of {_number(sides[0])} x {_number(sides[1])} pixels, {angle} degrees"
    light = f"color {_color(np.array(color) * white)}, opacity {_number(opacity)}"
    return f"rain {shape}, {light}, seed {_seed(params, ops.RAIN)}"


def _shaded(plan: Plan, params: Floats, white: float) -> str:
    factor, *corners = params[ops.SHADOW.at("factor") :][: len(ops.SHADOW.parameters)]
    points = dict.fromkeys(f"({_list(point)})" for point in np.reshape(corners, (-1, 2)))
    return f"shadow {_number(factor)} in {', '.join(points)} (x, y)"


def _matrix_of_colors(plan: Plan, params: Floats, white: float) -> str:
    rows = params[: len(ops.COLOR_MATRIX.parameters)].reshape(3, 4) * (1.0, 1.0, 1.0, white)
    return f"color matrix {', '.join(f'({_list(row)})' for row in rows)}"


def _seed(params: Floats, op: ops.Op) -> int:
    return int(params[op.at("seed_0")]) * ops.SEED_WORD + int(params[op.at("seed_1")])


# Descriptions of ops whose recorded parameters differ from those the user gave.
_DESCRIBE: dict[ops.Op, Callable[[Plan, Floats, float], str]] = {
    ops.HSV: lambda plan, params, white: (
        f"hsv {_number(params[0])} turns, saturation {_number(params[1])}, value {_number(params[2])}"
    ),
    ops.PERMUTE: lambda plan, params, white: f"permute channels {_list(params[:3])}",
    ops.HUE: lambda plan, params, white: f"hue {_number(params[0])} turns",
    ops.SOLARIZE: lambda plan, params, white: f"solarize from {_number(max(params[0], 0.0) * white)}",
    ops.SOLARIZE_ADD: lambda plan, params, white: (
        f"solarize add {_number(params[0] * white)} below {_number(params[1] * white)}"
    ),
    ops.POSTERIZE: lambda plan, params, white: f"posterize to {counted(round(math.log2(params[1] + 1.0)), 'bit')}",
    ops.PAINT: _painted,
    ops.POINTWISE: _pointwise,
    ops.NOISE: _noisy,
    ops.GRID: _gridded,
    ops.MOTION: _moved,
    ops.ELASTIC: _displaced,
    ops.JPEG: lambda plan, params, white: f"jpeg quality {_number(params[0])}",
    ops.MEDIAN: lambda plan, params, white: f"median blur {_windowed(plan, params, white)}",
    ops.MORPHOLOGY: _morphed,
    ops.WEIGHTED: lambda plan, params, white: f"filter {_windowed(plan, params, white)}",
    ops.CLAHE: lambda plan, params, white: (
        f"clahe {params[1]:.0f} x {params[0]:.0f} tiles, at most {counted(round(params[4]), 'pixel')} of a level"
    ),
    ops.REMAP: _sampled,
    ops.COLOR_MATRIX: _matrix_of_colors,
    ops.SALT_AND_PEPPER: _speckled,
    ops.SHOT_NOISE: _counted,
    ops.FOG: _fogged,
    ops.RAIN: _rained,
    ops.SHADOW: _shaded,
    ops.LOOK_UP: lambda plan, params, white: f"lookup table of {params[1]:.0f} entries",
}


def _rectangle(x0: float, y0: float, x1: float, y1: float) -> str:
    return f"rows {_number(y0)} to {_number(y1)}, columns {_number(x0)} to {_number(x1)}"


def _number(value: float) -> str:
    return f"{round(value, 9) + 0.0:.6g}"


def _list(values: Any) -> str:
    return ", ".join(_number(float(v)) for v in values)


def _color(values: Floats) -> str:
    """Return a color as three numbers, or as one that is equal in all channels."""
    return _number(values[0]) if np.all(values == values[0]) else _list(values)
