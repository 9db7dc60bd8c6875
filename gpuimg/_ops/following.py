"""Movement of points of the source images through the geometry that a batch has recorded."""

from collections.abc import Iterator

import numpy as np

from .._batch.batch import Batch, recording_of
from .._batch.recording import Recording
from .._checks.types import Floats, Ints, Mask
from .._plan.plan import Entry
from ..kernels import ops
from .elastic import displaced_points
from .remap import remapped_points

THIN = 1e-6  # pixels: a box no thicker than this has no area, and a cut no larger than this is rounding


def followed(images: Batch) -> Recording:
    """Return the recording of the batch whose geometry targets follow; refuse arrays, which have none."""
    if not isinstance(images, Batch):
        raise TypeError(
            "images must be the Batch that gpuimg's functions returned, which has recorded the geometry, not "
            f"{type(images).__name__}"
        )
    return recording_of(images)


def project(matrix: Floats, points: Floats) -> Floats:
    """Apply matrices (M, 3, 3) to points (M, P, 2)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = points @ matrix[:, :2, :2].swapaxes(1, 2) + matrix[:, None, :2, 2]
        result: Floats = moved / depth_of(matrix, points)[..., None]
    return result


def inverse(matrix: Floats) -> Floats:
    """Invert matrices (M, 3, 3)."""
    return np.asarray(np.linalg.inv(matrix), np.float64)


def depth_of(matrix: Floats, points: Floats) -> Floats:
    """Return the homogeneous coordinate (M, P) that projected points are divided by."""
    depth: Floats = (points @ matrix[:, 2, :2, None])[..., 0] + matrix[:, 2, 2, None]
    return depth


#: An instruction that displaces pixels individually, and the sizes (N, 2) of its results.
Displacement = tuple[Entry, Ints]


def displaced(displacement: Displacement, owner: Ints, points: Floats) -> Floats:
    """Return the positions of source points (M, P, 2) after a displacement; ``owner`` (M,) names their images."""
    entry, sizes = displacement
    if np.any(entry.codes == ops.REMAP.code):
        return remapped_points(entry, sizes, owner, points)
    return displaced_points(entry, owner, points)


# Matrices (N, 3, 3) to the coordinates of a visible rectangle, and the rectangle (N, 4), x0 y0 x1 y1.
Limit = tuple[Floats, Floats]


def limits_by_displacement(recording: Recording) -> Iterator[tuple[Displacement | None, list[Limit]]]:
    """Yield each displacement of a batch with the limits that follow it; first None with those before any.

    The matrices of a limit lead from the result of the displacement, or from the source image. The last limit of each
    item is the grid on which the next displacement works, or the result of the batch.
    """
    displacement: Displacement | None = None
    limits: list[Limit] = []
    to_segment: Floats = np.tile(np.eye(3), (len(recording), 1, 1))
    for plan in recording.segments:
        moved = plan.displacements()
        if moved:
            before = plan.source_sizes[:, ::-1]
            limits.append((to_segment, np.concatenate([np.zeros((len(recording), 2)), before], 1)))
            yield displacement, limits
            displacement, limits = (moved[0], plan.sizes), []
            to_segment = np.tile(np.eye(3), (len(recording), 1, 1))
        limits.append((to_segment, plan.grid.window.astype(np.float64)))
        forward = inverse(plan.grid.origins[0].matrix) @ to_segment
        for entry, rectangle in plan.fills():
            limits.append((plan.grid.origins[entry.origin].matrix @ forward, rectangle))
        to_segment = forward
    limits.append((to_segment, np.concatenate([np.zeros((len(recording), 2)), recording.sizes[:, ::-1]], 1)))
    yield displacement, limits


def move_points(recording: Recording, points: Floats, owner: Ints, *, border: float = 0.0) -> tuple[Floats, Mask]:
    """Move points (M, 2) through all segments; return them, and (M,): True where no crop removed the point.

    Points count as inside up to ``border`` pixels beyond the border of a crop, but not on it if that is 0.
    """
    at = points[:, None]
    inside = np.ones(len(points), np.bool_)
    for displacement, limits in limits_by_displacement(recording):
        if displacement is not None:
            at = displaced(displacement, owner, at)
        for matrix, rectangle in limits:
            moved, limit = project(matrix[owner], at), rectangle[owner]
            inside &= np.all((limit[:, :2] - border < moved[:, 0]) & (moved[:, 0] < limit[:, 2:] + border), 1)
        at = moved
    return at[:, 0], inside


def mirrored(recording: Recording) -> Mask:
    """Return (N,): True for images whose geometry as a whole reverses orientation, as one flip does."""
    result = np.zeros(len(recording), np.bool_)
    for plan in recording.segments:
        matrix = plan.grid.origins[0].matrix
        depth = depth_of(matrix, plan.sizes[:, None, ::-1] / 2.0)[:, 0]
        result ^= np.linalg.det(matrix) * depth < 0.0
    return result


def unread_images(recording: Recording) -> Mask:
    """Return (N,): True for images whose header could not be read, which one black pixel replaces."""
    result: Mask = recording.failed & np.all(recording.source.sizes == 1, 1)
    return result
