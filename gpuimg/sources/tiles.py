"""Source of the tiles of slides and satellite images, and regions of them."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._batch.encoded import open_images
from .._batch.recording import Recording
from .._checks.arguments import number as one_number
from .._checks.arguments import one_of, whole_number
from .._decoding.options import DecodeOptions
from .._decoding.tiff_tiles import Grid, Pyramid, Stored, read_pyramid, stored_tiles
from .._io.file_bytes import MAX_BYTES
from .._runtimes.devices import runtime_for
from ._reading import OpenFiles, Path, printable, shards
from ._remote import Remote
from ._table import FileTable, Place, contents_of

__all__ = ["read_region", "tiles"]

_GAP = 1 << 10  # bytes between tiles that are fetched with one request
_AT_ONCE = 64  # tiles decoded at once for a region
_REFUSED = {".mrxs": "MIRAX (.mrxs)", ".dcm": "DICOM", ".vsi": "Olympus VSI"}  # names of files that are no TIFF files


class Level(NamedTuple):
    """A level of a slide.

    Attributes
    ----------
    height, width : int
        Size in pixels.
    tile_height, tile_width : int
        Size of its tiles in pixels; those at the lower and right edge may reach over it.
    downsample : float
        Pixels of level 0 along a side of one of its pixels.
    """

    height: int
    width: int
    tile_height: int
    tile_width: int
    downsample: float


class Slide:
    """A file of tiles at one or more levels.

    Attributes
    ----------
    path : str
    levels : tuple of Level
        The largest first.
    description : str
        What the file says of itself, such as the magnification and the size of a pixel in micrometers; may be "".
    """

    def __init__(self, files: OpenFiles, number: int, pyramid: Pyramid) -> None:
        self._files, self._number, self._pyramid = files, number, pyramid
        self._stored: dict[int, Stored] = {}
        self.path, self.description = files.paths[number], pyramid.description
        full = pyramid.grids[0]
        self.levels = tuple(
            Level(*grid[:4], (full.height / grid.height + full.width / grid.width) / 2) for grid in pyramid.grids
        )

    def __repr__(self) -> str:
        sizes = ", ".join(f"{level.height} x {level.width}" for level in self.levels)
        return f"<slide {self._files.name(self._number)!r}: {sizes}>"

    def _level(self, level: int, downsample: float | None) -> int:
        """Return the number of a level: as given, or of the coarsest that is at least as fine as ``downsample``."""
        if downsample is not None:
            fine = [one.downsample <= downsample * 1.01 for one in self.levels]
            if not fine[0]:
                raise ValueError(f"downsample must be at least 1, not {downsample}")
            return int(np.flatnonzero(fine)[-1])
        if level >= len(self.levels):
            raise ValueError(f"level must be less than {len(self.levels)}, the number of its levels, not {level}")
        return level

    def _tiles(self, level: int) -> Stored:
        """Return how the tiles of a level are stored."""
        if level not in self._stored:
            end, read = self._files.pages(self._number)
            self._stored[level] = stored_tiles(read, end, self._pyramid.form, self._pyramid.grids[level])
        return self._stored[level]


class Tiles(FileTable):
    """Source of the tiles of slides."""

    _function, _unit = "tiles", "tile"

    def __init__(
        self, files: OpenFiles, slides: Sequence[Slide], levels: Sequence[int], chosen: Sequence[Any], *, edges: bool
    ) -> None:
        self._files, self._paths, self._storage = files, files.paths, files.storage
        self.slides = tuple(slides)
        self._levels, self._chosen, self._has_edges = tuple(levels), tuple(chosen), edges
        self._ends = list(accumulate(map(len, chosen)))

    def __len__(self) -> int:
        return self._ends[-1]

    def _where(self, i: int) -> tuple[int, int, Grid, Stored]:
        """Return the slide of tile ``i``, its number there, and how its level is stored."""
        number = bisect_right(self._ends, i)
        slide, level = self.slides[number], self._levels[number]
        tile = int(self._chosen[number][i - self._ends[number]])  # counted from the end of the slide's
        return number, tile, slide._pyramid.grids[level], slide._tiles(level)

    def label(self, i: int) -> NDArray[np.int64]:
        """Return the label of tile ``i``, which is known without its file."""
        slide, tile, grid, _ = self._where(i)
        row, column = divmod(tile, grid.columns)
        y, x = row * grid.tile_height, column * grid.tile_width
        if not self._has_edges:
            return np.array((slide, y, x))
        return np.array((slide, y, x, min(grid.tile_height, grid.height - y), min(grid.tile_width, grid.width - x)))

    def _file_and_key(self, i: int) -> tuple[str, str]:
        slide, y, x = self.label(i)[:3].tolist()
        return self._files.paths[slide], f"tile at {y}, {x} of level {self._levels[slide]}"

    def _places(self, i: int) -> Sequence[Place]:
        slide, tile, _, stored = self._where(i)
        return [self._files.span(slide, stored.offsets[tile], stored.sizes[tile])]

    def _sample(self, i: int, contents: Sequence[Any]) -> tuple[Any, Any]:
        return self._where(i)[3].file_of(memoryview(contents[0])), self.label(i)


def tiles(
    paths: Path | Sequence[Path],
    *,
    level: int = 0,
    downsample: float | None = None,
    keep: Sequence[ArrayLike] | ArrayLike | None = None,
    edges: Literal["drop", "keep"] = "drop",
    remote: Remote | None = None,
) -> Tiles:
    """Read the tiles of slides and satellite images: SVS, tiled TIFF, BigTIFF and Cloud Optimized GeoTIFF files.

    Nothing is decoded and encoded again: a tile with JPEG compression becomes a JPEG with the tables and the color
    space of its file, tiles of JPEG 2000 and WebP are files already, and others become TIFF files of one tile.

    Parameters
    ----------
    paths : path, sequence of paths, or pattern
        Or URLs, of which only directories and tiles are fetched. ``"slides/*.svs"`` stands for all that exist.
    level : int
        0 for full size, 1 for the next smaller one, and so on.
    downsample : float, optional
        Instead of ``level``: the coarsest level of each slide that is at least as fine, 4 for a quarter of the sides.
    keep : list of (rows, columns) bool, or (N, 3) int, optional
        The tiles to keep: a mask of tiles for each slide, or their labels, (slide, y, x). By default all.
    edges : {"drop", "keep"}
        Tiles that reach over the lower or right edge, and are filled up there.
    remote : Remote, optional
        Settings for URLs, see :class:`gpuimg.Remote`.

    Returns
    -------
    Tiles
        Tiles by slide and row. A label is an array (3,) of int64: slide, y and x of the upper left pixel in its level;
        with ``edges="keep"`` (5,), with the height and width in pixels that lie within the image. ``source.slides`` has
        ``path``, ``levels`` (height, width, tile_height, tile_width, downsample) and ``description`` of each.

    Raises
    ------
    ValueError
        If a file is damaged, of another kind (saying what reads it), or without tiles; if no tile is left.
    OSError
        If a file cannot be read.

    Notes
    -----
    The levels of a file are its tiled images, pages or parts of pages, with the aspect ratio of the largest one; labels
    and macro images are left out, and of several of one size, which are channels or focal planes, all but the first. A
    tile that is not stored is left out. A tile whose own header contradicts the directory is bad, and costs itself
    alone. Orientations and ICC profiles of slides are not used. Tiles of 16 bits need ``depth="native"``.

    The index takes 20 bytes per tile.

    References
    ----------
    TIFF 6.0 and its technical note 2; BigTIFF; Aperio, "Digital Slides and Third-Party Data Interchange".

    Examples
    --------
    >>> source = tiles("slides/*.svs", downsample=4)  # doctest: +SKIP
    >>> data, (slide, y, x) = source[0]  # doctest: +SKIP
    """
    level = whole_number(level, "level", 0)
    if downsample is not None:
        downsample = one_number(downsample, "downsample", low=1)
        if level:
            raise ValueError(f"level={level} and downsample={downsample} exclude each other")
    one_of(edges, "edges", ("drop", "keep"))
    names = shards(paths, remote)
    for name in names:
        if kind := _REFUSED.get(os.path.splitext(name)[1].lower()):
            raise ValueError(
                f"{name}: {kind} is not supported, only files of TIFF tiles; OpenSlide or wsidicom reads it"
            )
    files = OpenFiles(names, remote, _GAP)

    def opened(number: int, end: int, read: Any) -> tuple[Slide, int]:
        slide = Slide(files, number, read_pyramid(read, end))
        chosen = slide._level(level, downsample)
        slide._tiles(chosen)
        return slide, chosen

    slides, levels = zip(*files.looked_into(opened), strict=True)
    grids = [slide._pyramid.grids[chosen] for slide, chosen in zip(slides, levels, strict=True)]
    masks = [np.ones(grid.shape, np.bool_) for grid in grids] if keep is None else _kept(keep, grids)
    for k, (slide, grid) in enumerate(zip(slides, grids, strict=True)):
        masks[k] = masks[k] & (slide._tiles(levels[k]).sizes.reshape(grid.shape) > 0)
        if edges == "drop":
            masks[k][grid.height // grid.tile_height :] = False
            masks[k][:, grid.width // grid.tile_width :] = False
    if not any(mask.any() for mask in masks):
        raise ValueError(
            f"no tile is left of {printable(names[0])}{f' and {len(names) - 1} more' * (len(names) > 1)}, with "
            f"edges={edges!r}{' and keep=' * (keep is not None)}"
        )
    return Tiles(
        files, slides, levels, [np.flatnonzero(mask).astype(np.int32) for mask in masks], edges=edges == "keep"
    )


def _kept(keep: Any, grids: Sequence[Grid]) -> list[NDArray[np.bool_]]:
    """Return a mask of tiles for each slide, of such masks or of labels."""
    if hasattr(keep, "__len__") and len(keep) == len(grids) and all(np.asarray(one).dtype == np.bool_ for one in keep):
        for k, (one, grid) in enumerate(zip(keep, grids, strict=True)):
            if np.shape(one) != grid.shape:
                raise ValueError(f"keep[{k}] must be {grid.shape}, rows and columns of tiles, not {np.shape(one)}")
        return [np.asarray(one) for one in keep]
    labels = np.asarray(keep)
    if labels.ndim != 2 or labels.shape[1] != 3 or labels.dtype.kind not in "iu":
        raise ValueError(
            f"keep must be a list of {len(grids)} masks of tiles, (rows, columns) bool, one for each slide, or labels "
            f"(N, 3) int: slide, y and x; not {labels.dtype} of shape {labels.shape}"
        )
    masks = [np.zeros(grid.shape, np.bool_) for grid in grids]
    for slide, y, x in labels.tolist():
        row, column = rest = -1, -1
        if 0 <= slide < len(grids):
            (row, down), (column, right) = divmod(y, grids[slide].tile_height), divmod(x, grids[slide].tile_width)
            rest = down, right
        if rest != (0, 0) or not (0 <= row < len(masks[slide]) and 0 <= column < masks[slide].shape[1]):
            raise ValueError(f"keep has ({slide}, {y}, {x}), which is not the label of a tile")
        masks[slide][row, column] = True
    return masks


def read_region(
    slide: Slide | Path,
    y: int,
    x: int,
    height: int,
    width: int,
    *,
    level: int = 0,
    fill: int | None = None,
    remote: Remote | None = None,
) -> NDArray[Any]:
    """Decode a region of a slide or satellite image, on the CPU; each tile that it touches is decoded once.

    Parameters
    ----------
    slide : Slide or path
        One of ``tiles(...).slides``, which is faster for several regions, or a file of the kinds of :func:`tiles`.
    y, x : int
        Upper left pixel in the level, which may be outside the image.
    height, width : int
        Size in pixels of the level.
    level : int
        0 for full size.
    fill : int, optional
        Value of pixels outside the image and in tiles that are not stored; by default white.
    remote : Remote, optional
        Settings for URLs, see :class:`gpuimg.Remote`.

    Returns
    -------
    (height, width, 3) array
        RGB: uint8, or uint16 of a file with 16 bits.

    Raises
    ------
    DecodeError
        A ``ValueError`` that names each tile that cannot be decoded.
    ValueError
        As for :func:`tiles`.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> source = tiles("slides/*.svs")  # doctest: +SKIP
    >>> read_region(source.slides[0], 1000, 2000, 300, 400, level=1).shape  # doctest: +SKIP
    (300, 400, 3)
    """
    if not isinstance(slide, Slide):
        (slide,) = tiles([slide], edges="keep", remote=remote).slides
    level = slide._level(whole_number(level, "level", 0), None)
    y, x = whole_number(y, "y", -(1 << 40)), whole_number(x, "x", -(1 << 40))
    height, width = whole_number(height, "height"), whole_number(width, "width")
    offsets, sizes, bits, file_of = slide._tiles(level)
    grid, is_deep = slide._pyramid.grids[level], bits > 8
    white = 65535 if is_deep else 255
    fill = white if fill is None else whole_number(fill, "fill", 0, white)
    out = np.full((height, width, 3), fill, np.uint16 if is_deep else np.uint8)
    bottom, right = min(y + height, grid.height), min(x + width, grid.width)
    touched = [
        (row, column)
        for row in range(max(y, 0) // grid.tile_height, -(-bottom // grid.tile_height))
        for column in range(max(x, 0) // grid.tile_width, -(-right // grid.tile_width))
        if sizes[row * grid.columns + column]
    ]
    options, runtime = DecodeOptions(depth="native" if is_deep else "uint8"), runtime_for("cpu")
    for start in range(0, len(touched), _AT_ONCE):
        some = touched[start : start + _AT_ONCE]
        numbers = [row * grid.columns + column for row, column in some]
        spans = [slide._files.span(slide._number, offsets[k], sizes[k]) for k in numbers]
        stored = contents_of(spans, MAX_BYTES, is_remote=slide._files.storage is not None)
        names = [f"{slide.path}: tile at {row * grid.tile_height}, {column * grid.tile_width}" for row, column in some]
        data = [_file(file_of, one, name) for one, name in zip(stored, names, strict=True)]
        pixels = Recording.start(runtime, open_images(data, options, "raise", names)).decoded()
        for k, (row, column) in enumerate(some):
            top, left = row * grid.tile_height, column * grid.tile_width
            y0, x0 = max(y, top), max(x, left)
            y1, x1 = min(bottom, top + grid.tile_height), min(right, left + grid.tile_width)
            out[y0 - y : y1 - y, x0 - x : x1 - x] = pixels.view(k)[y0 - top : y1 - top, x0 - left : x1 - left]
    return out


def _file(file_of: Any, tile: bytes, name: str) -> bytes:
    """Return the file of a tile; errors name it."""
    try:
        return bytes(file_of(memoryview(tile)))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
