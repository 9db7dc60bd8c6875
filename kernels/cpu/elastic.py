"""Elastic deformation on a CPU: pixels moved by a smooth random displacement.

Formulas are in :mod:`kernels.displacement`, which the CUDA kernel calls as well. Here a row of pixels first mixes the
four rows of nodes around it, so that a pixel then mixes four nodes instead of sixteen.
"""

from ..compiled import cached_jit
from ..displacement import NODES, density, displacement, first_node, node, place, share, weights
from ..ops import ELASTIC, NODE_SPACING
from ..scalar import f32, i32, i64, loop
from .intrinsics import array_at, copy

_PARAMETERS = ELASTIC.width
_EXTRA_NODES = NODES + 2  # along an axis, in addition to its length in nodes: the four of a position, phase, rounding
_HALF = f32(0.5)
_RED, _REPEAT, _NEAREST = ELASTIC.at("red"), ELASTIC.at("repeat"), ELASTIC.at("nearest")


@loop
def _nodes(size):
    return i64(size / NODE_SPACING) + _EXTRA_NODES


@loop
def work_for(height, width):
    """Return the elements of the scratch of :func:`elastic`: three planes, positions of a row, and all nodes."""
    # Two numbers a node; one more row of nodes is room for the rows of mixed nodes, one for x and one for y.
    return 3 * height * width + 2 * width + 2 * (_nodes(height) + 1) * _nodes(width)


@loop
def _lay_nodes(params, columns, rows, out):
    """Compute the normal numbers of all nodes: those for x, row by row, then those for y."""
    n = rows * columns
    for j in range(rows):
        for i in range(columns):
            one, other = node(i32(i), i32(j), params[0], params[1])
            out[j * columns + i] = one
            out[n + j * columns + i] = other


@loop
def _mix_rows(nodes, columns, row, below, out):
    """Mix the four rows of nodes around a row of pixels, by its position ``below`` the second one, 0 to 1."""
    b0, b1, b2, b3 = weights(below)
    one, two = nodes[row * columns :], nodes[(row + 1) * columns :]
    three, four = nodes[(row + 2) * columns :], nodes[(row + 3) * columns :]
    for i in range(columns):
        out[i] = b0 * one[i] + b1 * two[i] + b2 * three[i] + b3 * four[i]


@loop
def _row_positions(params, y, nodes, rows, columns, mixed_x, mixed_y, xs, ys):
    """Compute the source positions of a row of pixels."""
    step = density(params[2])
    row, below = first_node(f32(y) + _HALF, step, params[4])
    _mix_rows(nodes, columns, row, below, mixed_x)
    _mix_rows(nodes[rows * columns :], columns, row, below, mixed_y)
    for x in range(xs.size):
        c = f32(x) + _HALF
        column, across = first_node(c, step, params[3])
        a0, a1, a2, a3 = weights(across)
        dx = a0 * mixed_x[column] + a1 * mixed_x[column + 1] + a2 * mixed_x[column + 2] + a3 * mixed_x[column + 3]
        dy = a0 * mixed_y[column] + a1 * mixed_y[column + 1] + a2 * mixed_y[column + 2] + a3 * mixed_y[column + 3]
        xs[x] = c + params[5] * dx
        ys[x] = f32(y) + _HALF + params[6] * dy


@loop
def _sample_row(params, height, width, xs, ys, before, r, g, b):
    """Sample a row of pixels at source positions, bilinear or nearest; ``before`` holds three planes in sequence."""
    n = height * width
    # Outside, pixels have a fill color or repeat the edge: place() moves positions, share() drops weights.
    repeat, nearest = params[_REPEAT], params[_NEAREST]
    red, green, blue = params[_RED], params[_RED + 1], params[_RED + 2]
    second, third = before[n:], before[2 * n :]
    for x in range(width):
        left, across = place(xs[x], width, repeat, nearest)
        top, below = place(ys[x], height, repeat, nearest)
        x0, x1 = share(left, f32(1.0) - across, width), share(left + 1, across, width)
        y0, y1 = share(top, f32(1.0) - below, height), share(top + 1, below, height)
        # Weights are final, so indices only have to be legal. left and top are -1 or more, see place().
        column, other = min(max(left, 0), width - 1), min(left + 1, width - 1)
        above, under = min(max(top, 0), height - 1) * width, min(top + 1, height - 1) * width
        one, two, three, four = above + column, above + other, under + column, under + other
        w1, w2, w3, w4 = y0 * x0, y0 * x1, y1 * x0, y1 * x1
        rest = f32(1.0) - (x0 + x1) * (y0 + y1)  # weight of the fill color
        r[x] = w1 * before[one] + w2 * before[two] + w3 * before[three] + w4 * before[four] + rest * red
        g[x] = w1 * second[one] + w2 * second[two] + w3 * second[three] + w4 * second[four] + rest * green
        b[x] = w1 * third[one] + w2 * third[two] + w3 * third[three] + w4 * third[four] + rest * blue


def elastic(params_, statistics_, r_, g_, b_, height, width, work_, ints):
    """Move the pixels of the grid, in place."""
    n = height * width
    params = array_at(params_, _PARAMETERS)
    r, g, b = array_at(r_, n), array_at(g_, n), array_at(b_, n)
    columns = first_node(f32(width), density(params[2]), params[3])[0] + NODES
    rows = first_node(f32(height), density(params[2]), params[4])[0] + NODES
    work = array_at(work_, 3 * n + 2 * width + 2 * (rows + 1) * columns)
    copy(r, work[:n])
    copy(g, work[n : 2 * n])
    copy(b, work[2 * n : 3 * n])
    before, work = work[: 3 * n], work[3 * n :]  # a copy of the grid; then positions, mixed nodes and all nodes
    xs, ys, work = work[:width], work[width : 2 * width], work[2 * width :]
    mixed_x, mixed_y, nodes = work[:columns], work[columns : 2 * columns], work[2 * columns :]
    _lay_nodes(params, columns, rows, nodes)
    for y in range(height):
        row = slice(y * width, (y + 1) * width)
        _row_positions(params, y, nodes, rows, columns, mixed_x, mixed_y, xs, ys)
        _sample_row(params, height, width, xs, ys, before, r[row], g[row], b[row])


@cached_jit("none(float32[:, ::1], int64[::1], float64[:, ::1], float64[:, ::1])")
def source_positions(params, owner, points, out):
    """Map ``points`` (M, 2) of results to their sources' positions, by the parameters of the images ``owner`` (M,)."""
    for k in range(len(points)):
        given = params[owner[k]]
        x, y = displacement(
            f32(points[k, 0]), f32(points[k, 1]), given[0], given[1], density(given[2]), given[3], given[4], given[5],
            given[6]
        )  # fmt: skip
        out[k, 0], out[k, 1] = points[k, 0] + x, points[k, 1] + y
