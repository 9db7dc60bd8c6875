"""The functions in plain NumPy and float64, written from the published formulas and not from the kernels.

Images are (H, W, C) with 1 = white. Positions are pixel indices: pixel ``i`` has its centre at ``i``.
Sources: torchvision ``transforms/v2/functional``, PyTorch ``aten/src/ATen/native/cuda/UpSample.cuh``, Pillow
``src/libImaging/Resample.c``. Where torchvision's ``fill`` counts the border twice, the blend here is the right one.
"""

import colorsys
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Resampling, fromarray
from scipy import ndimage

Image: TypeAlias = NDArray[np.float64]
Points: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]


def to_unit(image: NDArray[Any]) -> Image:
    """uint8 or float32 as float64, 1 = white."""
    scale = 255.0 if image.dtype == np.uint8 else 1.0
    unit: Image = image.astype(np.float64) / scale
    return unit


def to_bytes(image: Image) -> NDArray[np.uint8]:
    """Rounded half to even; to 1/1024 of a level before, which makes sums of floats that should be halves such."""
    return np.rint(np.rint(np.clip(image, 0.0, 1.0) * 255.0 * 1024.0) / 1024.0).astype(np.uint8)


# -- resize ------------------------------------------------------------------------------------------------------------


def resize(image: Image, height: int, width: int, interpolation: str = "bilinear", antialias: bool = True) -> Image:
    """As Pillow, and as torch without antialiasing, which Pillow always has; of "nearest" ties are the next pixel's."""
    if interpolation == "nearest":
        rows = np.floor((np.arange(height) + 0.5) * image.shape[0] / height).astype(int)
        columns = np.floor((np.arange(width) + 0.5) * image.shape[1] / width).astype(int)
        return np.asarray(image[rows[:, None], columns])
    if not antialias:
        ys, xs = (np.arange(height) + 0.5) * image.shape[0] / height, (np.arange(width) + 0.5) * image.shape[1] / width
        return sample(image, *np.meshgrid(xs - 0.5, ys - 0.5), interpolation)
    planes, method = np.moveaxis(image, 2, 0).astype(np.float32), Resampling[interpolation.upper()]
    resized = [fromarray(plane).resize((width, height), method) for plane in planes]
    return np.stack([np.asarray(plane, np.float64) for plane in resized], 2)


def short_side(height: int, width: int, size: int, max_size: int | None = None) -> tuple[int, int]:
    short, long = min(height, width), max(height, width)
    new_short, new_long = size, int(size * long / short)
    if max_size is not None and new_long > max_size:
        new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_short, new_long) if height <= width else (new_long, new_short)


# -- noise -------------------------------------------------------------------------------------------------------------


def philox(counter: NDArray[Any], key: NDArray[Any]) -> NDArray[np.uint64]:
    """Philox4x32-10 of Salmon et al. (2011): counters (..., 4) and one key (2,) give words (..., 4)."""
    c0, c1, c2, c3 = np.moveaxis(counter.astype(np.uint64), -1, 0)
    k0, k1 = (int(word) for word in key)
    for _ in range(10):
        one, other = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        low = np.uint64(0xFFFFFFFF)
        c0, c1, c2, c3 = (
            other >> np.uint64(32) ^ c1 ^ np.uint64(k0), other & low,
            one >> np.uint64(32) ^ c3 ^ np.uint64(k1), one & low,
        )  # fmt: skip
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return np.stack([c0, c1, c2, c3], -1)


def noise(height: int, width: int, seed: int) -> tuple[Image, Image]:
    """Uniform and normal numbers (H, W, 3) of the pixels, by Box and Muller (1958)."""
    y, x = np.mgrid[:height, :width]
    zero = np.zeros_like(x)
    words = philox(np.stack([x, y, zero, zero], -1), np.array([seed // 2**24, seed % 2**24]))
    unit = (words >> np.uint64(8)).astype(np.float64) / 2**24
    radius = np.sqrt(-2.0 * np.log(1.0 - unit[..., ::2]))
    angle = 2.0 * np.pi * unit[..., 1::2]
    first, second = radius * np.cos(angle), radius * np.sin(angle)
    return unit[..., :3], np.stack([first[..., 0], second[..., 0], first[..., 1]], -1)


def cell_words(column: Any, row: Any, seed: int) -> NDArray[np.uint64]:
    """The words of cells of a lattice: "lowbias32" of the column and half of the seed, then of that and the rest."""

    def lowbias32(x: Any) -> Any:
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            x = ((x ^ x >> np.uint64(shift)) * np.uint64(factor)) % np.uint64(2**32)
        return x ^ x >> np.uint64(16)

    across, down = (np.asarray(v).astype(np.int64).astype(np.uint64) % np.uint64(2**32) for v in (column, row))
    first = lowbias32(across ^ np.uint64(seed // 2**24))
    down = down * np.uint64(0x9E3779B1) % np.uint64(2**32)
    result: NDArray[np.uint64] = lowbias32(first ^ down ^ np.uint64(seed % 2**24 * 256 % 2**32))
    return result


def clouds(height: int, width: int, scale: float, seed: int) -> Points:
    """Four lattices of numbers with smooth transitions (H, W), each half as wide and half as high as the last."""
    y, x = (np.mgrid[:height, :width] + 0.5) / scale
    total = np.zeros((height, width))
    for k in range(4):
        u, v = (x + 0.37) * 2**k - 0.37, (y + 0.61) * 2**k - 0.61
        for i, j in np.ndindex(2, 2):
            s, t = u - np.floor(u), v - np.floor(v)
            s, t = s * s * (3 - 2 * s), t * t * (3 - 2 * t)
            words = cell_words(np.floor(u) + i, np.floor(v) + j, seed + k * 2**24)
            total += 2.0**-k / 1.875 * (s if i else 1 - s) * (t if j else 1 - t) * (words >> np.uint64(8)) / 2**24
    return total


def rain(
    height: int, width: int, amount: float, length: float, thick: float, angle: float, seed: int
) -> tuple[Points, Mask]:
    """The share of each pixel (H, W) that a streak covers, and where float32 may see another cell or end."""
    y, x = np.mgrid[:height, :width] + 0.5
    turned = (x + 1j * y) * np.exp(1j * np.deg2rad(angle))
    across, along = turned.real / (8 * thick), turned.imag / (2 * length)
    column = np.floor(across)
    along = along + (cell_words(column, -1, seed) >> np.uint64(8)) / 2**24
    row = np.floor(along)
    words = cell_words(column, row, seed).astype(np.int64)
    middle = (words >> 8 & 255) / 256 * 7 / 8 + 1 / 16
    at = along - row - (words & 255) / 256 / 2
    cover = np.clip((1 / 16 - np.abs(across - column - middle)) * 8 * thick + 0.5, 0, 1)
    close = [np.abs(value - np.rint(value)) < 1e-4 for value in (across, along, 2 * at)]
    there = (words >> 16 < amount * 2**16) & (at >= 0) & (at < 0.5)
    return cover * there, np.any(close, 0)


def displaced(points: NDArray[Any], seed: int, alpha: tuple[float, float], sigma: float) -> NDArray[Any]:
    """Source positions of positions (..., 2) of an elastic deformation: cubic B-splines over a lattice of normals."""
    spacing = np.sqrt(3.0) * sigma
    at = points / spacing + np.array([seed * 0.7548776662466927 % 1.0, seed * 0.5698402909980532 % 1.0])
    first = np.floor(at).astype(np.int64)
    t = at - first
    spline = [(1 - t) ** 3 / 6, (3 * t**3 - 6 * t**2 + 4) / 6, (-3 * t**3 + 3 * t**2 + 3 * t + 1) / 6, t**3 / 6]
    moved = np.zeros(points.shape)
    for i, j in np.ndindex(4, 4):
        column, row = first[..., 0] + i, first[..., 1] + j
        counter = np.stack([column, row, np.ones_like(row), np.zeros_like(row)], -1)
        unit = (philox(counter, np.array([seed // 2**24, seed % 2**24])) >> np.uint64(8)).astype(np.float64) / 2**24
        normals = np.sqrt(-2.0 * np.log(1.0 - unit[..., 0])) * np.exp(2j * np.pi * unit[..., 1])
        moved += (spline[i][..., 0] * spline[j][..., 1])[..., None] * np.stack([normals.real, normals.imag], -1)
    # The mean square of a sum of unit normals is the square of 151 / 315.
    result: NDArray[Any] = points + moved * np.array(alpha) / (4.0 * np.sqrt(3.0 * np.pi) * sigma) / (151.0 / 315.0)
    return result


def grid_mask(height: int, width: int, cell: float, share: float, angle: float, offset: tuple[float, float]) -> Mask:
    """Return (H, W): True in the squares of a grid rotated counter-clockwise about the top left corner."""
    y, x = np.mgrid[:height, :width] + 0.5
    point = (x + 1j * y) * np.exp(1j * np.deg2rad(angle)) / cell  # y points down, so this turns the grid the other way
    column, row = point.real - offset[0], point.imag - offset[1]
    hidden: Mask = (column % 1.0 < share) & (row % 1.0 < share)
    return hidden


# -- warps -------------------------------------------------------------------------------------------------------------


def grid(height: int, width: int) -> tuple[Points, Points]:
    """x and y of every pixel, counted from the middle of the canvas."""
    v, u = np.mgrid[:height, :width].astype(np.float64)
    return u - (width - 1) / 2.0, v - (height - 1) / 2.0


def rotation(
    height: int, width: int, angle: float, *, expand: bool = False, center: tuple[float, float] | None = None
) -> tuple[Points, Points]:
    """Return the source position of each pixel of an image rotated counter-clockwise."""
    canvas = expanded(height, width, angle) if expand else (height, width)
    return affinity(height, width, -angle, center=None if expand else center, canvas=canvas)


def expanded(height: int, width: int, angle: float) -> tuple[int, int]:
    """Height and width of the box around the turned image, cut at 1e-4 of a pixel."""
    if angle % 90.0 == 0.0:  # torchvision turns these by copying
        return (height, width) if angle % 180.0 == 0.0 else (width, height)
    theta = np.deg2rad(angle)
    corners = np.array([(x, y) for x in (-width / 2, width / 2) for y in (-height / 2, height / 2)])
    turned = corners @ np.array([[np.cos(theta), np.sin(theta)], [-np.sin(theta), np.cos(theta)]])
    moved = np.trunc((turned + np.array([width / 2, height / 2])) * 1e4) * 1e-4
    new_width, new_height = np.ceil(moved.max(0)) - np.floor(moved.min(0))
    return int(new_height), int(new_width)


def affinity(
    height: int,
    width: int,
    angle: float,
    translate: tuple[float, float] = (0.0, 0.0),
    scale: float = 1.0,
    shear: tuple[float, float] = (0.0, 0.0),
    center: tuple[float, float] | None = None,
    *,
    canvas: tuple[int, int] | None = None,
) -> tuple[Points, Points]:
    """Return the source position of each pixel of an image sheared along x, then y, rotated clockwise and scaled."""
    turn, (x, y) = np.deg2rad(angle), np.tan(np.deg2rad(shear))
    rotated = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    backward = np.linalg.inv(scale * rotated @ [[1, 0], [-y, 1]] @ [[1, -x], [0, 1]])
    middle = np.array((width, height)) / 2.0
    pivot = 0.0 if center is None else np.array(center) - middle
    points = np.stack(grid(*(canvas or (height, width))), -1) - pivot - translate
    xs, ys = np.moveaxis(points @ backward.T + pivot + middle - 0.5, -1, 0)
    return xs, ys


def rectangle_around(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``cxcywhr`` of the rectangle around a parallelogram (4, 2), clockwise from the box's first corner.

    It lies along the longer sides; of width and height, the one of these sides is still the longer.
    """
    wide, high = corners[1] - corners[0], corners[3] - corners[0]
    x, y = wide if np.hypot(*wide) > np.hypot(*high) else (high[1], -high[0])  # a quarter turn back
    along = np.array([[x, y], [-y, x]]) / np.hypot(x, y)
    return np.array([*corners.mean(0), *np.ptp(corners @ along.T, 0), np.rad2deg(np.arctan2(-y, x))])


def homography(source: Any, target: Any) -> NDArray[np.float64]:
    """The 3x3 matrix that takes four points to four others: the null vector of their equations."""
    rows = []
    for (x, y), (p, q) in zip(source, target, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -p * x, -p * y, -p])
        rows.append([0, 0, 0, x, y, 1, -q * x, -q * y, -q])
    matrix: NDArray[np.float64] = np.linalg.svd(np.array(rows, np.float64))[2][-1].reshape(3, 3)
    return matrix


def perspective(height: int, width: int, startpoints: Any, endpoints: Any) -> tuple[Points, Points]:
    """Return the source position of each pixel when ``startpoints`` move to ``endpoints``."""
    matrix = homography(endpoints, startpoints)
    y, x = np.mgrid[:height, :width] + 0.5
    p, q, depth = (row[0] * x + row[1] * y + row[2] for row in matrix)
    return p / depth - 0.5, q / depth - 0.5


def sample(image: Image, xs: Points, ys: Points, interpolation: str, fill: Any = None) -> Image:
    """Pixels of ``image`` at positions; around it is ``fill``, or for None its edge.

    A bilinear pixel at the border is blended by the share of the filter inside the image: ``V + (1 - M) * fill``.
    """
    if interpolation != "bicubic":
        colors = np.broadcast_to(0.0 if fill is None else fill, image.shape[2])
        mode, order = "nearest" if fill is None else "grid-constant", int(interpolation == "bilinear")
        planes = zip(np.moveaxis(image, 2, 0), colors, strict=True)
        return np.stack([ndimage.map_coordinates(one, (ys, xs), None, order, mode, color) for one, color in planes], 2)
    total = np.zeros((*xs.shape, image.shape[2]))
    for j, i in np.ndindex(4, 4):  # the pixels from one before to two after
        rows, columns = np.floor(ys).astype(int) + j - 1, np.floor(xs).astype(int) + i - 1
        weights = cubic(ys - rows) * cubic(xs - columns)
        total += weights[..., None] * image[rows.clip(0, image.shape[0] - 1), columns.clip(0, image.shape[1] - 1)]
    return total


def cubic(distance: Points) -> Points:
    """Keys' cubic convolution with a = -3/4, as in torch and OpenCV."""
    t = np.abs(distance)
    near, far = (1.25 * t - 2.25) * t * t + 1.0, -0.75 * (((t - 5.0) * t + 8.0) * t - 4.0)
    return np.where(t <= 1.0, near, np.where(t < 2.0, far, 0.0))


def near_tie(xs: Points, ys: Points) -> Mask:
    """Mask ambiguous positions of "nearest": those within 1e-3 pixels of the edge between two pixels."""
    return (np.abs(xs - np.floor(xs) - 0.5) < 1e-3) | (np.abs(ys - np.floor(ys) - 0.5) < 1e-3)


def resize_near_tie(image: Image, height: int, width: int) -> Mask:
    y = (np.arange(height) + 0.5) * image.shape[0] / height - 0.5
    x = (np.arange(width) + 0.5) * image.shape[1] / width - 0.5
    return near_tie(*np.meshgrid(x, y))


def box_near_tie(image: Image, height: int, width: int) -> Mask:
    """Mask results of "box" resizing whose box ends within 1e-3 pixels of the center of one."""
    ends = []
    for old, new in zip(image.shape[:2], (height, width), strict=True):
        scale = old / new
        center = (np.arange(new) + 0.5) * scale
        reach = max(scale, 1.0) / 2.0
        ends.append([near_tie(center - reach, np.zeros(1)), near_tie(center + reach, np.zeros(1))])
    y, x = (np.logical_or(*pair) for pair in ends)
    return y[:, None] | x[None, :]


# -- cutting -----------------------------------------------------------------------------------------------------------


def crop(image: Image, top: int, left: int, height: int, width: int, fill: Any = 0.0) -> Image:
    """A rectangle that may reach over the image, ``fill`` around it."""
    out = np.empty((height, width, image.shape[2]))
    out[:] = fill
    y0, y1 = max(top, 0), min(top + height, image.shape[0])
    x0, x1 = max(left, 0), min(left + width, image.shape[1])
    if y0 < y1 and x0 < x1:
        out[y0 - top : y1 - top, x0 - left : x1 - left] = image[y0:y1, x0:x1]
    return out


def center_crop(image: Image, height: int, width: int) -> Image:
    """Pad to the size where the image is too small, then cut; Python's round halves to even."""
    spare = (image.shape[0] - height, image.shape[1] - width)
    top, left = (-(-s // 2) if s < 0 else round(s / 2) for s in spare)
    return crop(image, top, left, height, width)


def pad(image: Image, left: int, top: int, right: int, bottom: int, fill: Any = 0.0, mode: str = "constant") -> Image:
    height, width, _ = image.shape
    if mode == "constant":
        return crop(image, -top, -left, height + top + bottom, width + left + right, fill)
    # What negative numbers cut off is neither repeated nor mirrored.
    inner = image[max(-top, 0) : height + min(bottom, 0), max(-left, 0) : width + min(right, 0)]
    sides = [(max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0)), (0, 0)]
    return np.asarray(np.pad(inner, sides, mode=mode))  # type: ignore[call-overload]


def motion_blur(image: Image, length: int, angle: float) -> Image:
    """The mean of points at a spacing of one pixel on a line through each pixel, interpolated; the edge is repeated."""
    height, width, _ = image.shape
    y, x = np.mgrid[:height, :width].astype(np.float64)
    total = np.zeros_like(image)
    for t in np.arange(length) - (length - 1) / 2.0:
        xs, ys = x + t * np.cos(np.deg2rad(angle)), y - t * np.sin(np.deg2rad(angle))
        total += sample(image, xs, ys, "bilinear")
    return total / length


def erase(image: Image, i: int, j: int, h: int, w: int, v: Any) -> Image:
    out = image.copy()
    out[max(i, 0) : max(i + h, 0), max(j, 0) : max(j + w, 0)] = v
    return out


# -- color ------------------------------------------------------------------------------------------------------------


def gray(image: Image) -> Image:
    """(H, W, 1): torchvision's weights, which sum to 0.9999; one-channel images as they are."""
    return image if image.shape[2] == 1 else (image @ np.array([0.2989, 0.587, 0.114]))[..., None]


def adjust_brightness(image: Image, factor: float) -> Image:
    return np.clip(image * factor, 0.0, 1.0)


def adjust_contrast(image: Image, factor: float) -> Image:
    mean = float(gray(image).mean())
    return np.clip(image * factor + mean * (1.0 - factor), 0.0, 1.0)


def adjust_saturation(image: Image, factor: float) -> Image:
    return image if image.shape[2] == 1 else np.clip(image * factor + gray(image) * (1.0 - factor), 0.0, 1.0)


def adjust_gamma(image: Image, gamma: float, gain: float) -> Image:
    return np.clip(gain * image**gamma, 0.0, 1.0)


def adjust_hsv(image: Image, turns: float, saturation: float = 1.0, value: float = 1.0) -> Image:
    """Pixel by pixel, with the standard library."""
    if image.shape[2] == 1:
        return np.clip(image * value, 0.0, 1.0)

    def changed(pixel: Image) -> tuple[float, float, float]:
        h, s, v = colorsys.rgb_to_hsv(*pixel)
        return colorsys.hsv_to_rgb((h + turns) % 1.0, min(s * saturation, 1.0), min(v * value, 1.0))

    return np.apply_along_axis(changed, 2, image)


def invert(image: Image) -> Image:
    return 1.0 - image


def solarize(image: Image, threshold: float) -> Image:
    return np.where(image >= threshold, 1.0 - image, image)


def solarize_add(image: Image, addition: float, threshold: float) -> Image:
    return np.where(image < threshold, np.minimum(image + addition, 1.0), image)


def posterize(image: Image, bits: int) -> Image:
    return np.clip(np.floor(image * 2.0**bits), 0.0, 2.0**bits - 1.0) / 2.0**bits


def autocontrast(image: Image) -> Image:
    low, high = image.min((0, 1)), image.max((0, 1))
    flat = high == low
    return np.where(flat, image, np.clip((image - low) / np.where(flat, 1.0, high - low), 0.0, 1.0))


def equalize(image: Image) -> Image:
    """Pillow's table, for each channel; values become bytes as torchvision's ``to_dtype`` casts them, in float32."""
    bytes_ = (image.astype(np.float32) * np.float32(255.999)).astype(np.int64)
    out = np.empty(image.shape)
    for c in range(image.shape[2]):
        counts = np.bincount(bytes_[..., c].ravel(), minlength=256)
        step = (counts.sum() - counts[np.flatnonzero(counts)[-1]]) // 255
        before = np.cumsum(counts) - counts
        table = np.arange(256) if step == 0 else np.minimum((before + step // 2) // step, 255)
        out[..., c] = table[bytes_[..., c]] / 255.0
    return out


# -- filters -----------------------------------------------------------------------------------------------------------


def gaussian_blur(image: Image, size: tuple[int, int], sigma: tuple[float, float]) -> Image:
    """Sizes and standard deviations in x and y; the border mirrored about its outermost pixel."""
    for axis, (taps, deviation) in enumerate(zip(size[::-1], sigma[::-1], strict=True)):
        weights = np.exp(-(((np.arange(taps) - taps // 2) / deviation) ** 2) / 2.0)
        image = ndimage.correlate1d(image, weights / weights.sum(), axis, mode="mirror")
    return image


def adjust_sharpness(image: Image, factor: float) -> Image:
    """Mixed with the mean of nine pixels, of which the middle one counts five times; the outermost stay."""
    smooth = ndimage.correlate(image, np.array([(1, 1, 1), (1, 5, 1), (1, 1, 1)])[..., None] / 13.0)
    out = image.copy()
    out[1:-1, 1:-1] = np.clip(image * factor + smooth * (1.0 - factor), 0.0, 1.0)[1:-1, 1:-1]
    return out
