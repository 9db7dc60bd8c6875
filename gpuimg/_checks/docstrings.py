"""Docstrings of functions that share parameters, results and refusals: each describes what is its own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

_SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"\n(?=\S)")

_Function = TypeVar("_Function", bound=Callable[..., Any])


def documented(
    *shared: str, returns: str, raises: str = "", example: str = "", setup: str = ">>> import gpuimg, numpy as np\n"
) -> Callable[[_Function], _Function]:
    """Return a decorator that adds entries of a docstring that a function shares with others.

    ``shared`` are entries of the section Parameters; each is added where the function has these parameters and does not
    describe them. ``returns``, ``raises`` and ``example`` are sections that it may replace by its own. In the last, the
    function's name replaces ``{}``, and its required options, 5 each, replace ``{options}``. Examples begin with
    ``setup``, unless they import something themselves.
    """

    def completed(function: _Function) -> _Function:
        if function.__doc__ is not None:  # which -OO leaves out
            sections = {"Parameters": "", "Returns": returns, "Raises": raises}
            function.__doc__ = _completed(function, shared, sections, example, setup)
        return function

    return completed


def _completed(function: Any, shared: Sequence[str], sections: dict[str, str], example: str, setup: str) -> str:
    head, *parts = _SECTION.split(inspect.cleandoc(function.__doc__))
    sections |= {title: text.strip("\n") for title, text in zip(parts[::2], parts[1::2], strict=True)}
    entries = [*shared, *(entry for entry in _ENTRY.split(sections["Parameters"]) if entry)]
    names = ((entry.partition("\n")[0].partition(" :")[0].replace("*", "").split(", "), entry) for entry in entries)
    described = {name: entry for several, entry in names for name in several}
    parameters = inspect.signature(function).parameters
    sections["Parameters"] = "\n".join(dict.fromkeys(described[name] for name in parameters if name in described))
    required = sum(one.default is one.empty for one in parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD)
    filled = example.format(function.__name__, options="5, " * (required - 1))
    examples = sections.setdefault("Examples", filled)
    if examples and "import" not in examples:
        sections["Examples"] = setup + examples
    parts = [f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections.items() if text]
    return "\n\n".join([head.strip(), *parts])


_OF_IMAGES = (
    "images : Batch, (N, H, W, C) array or list of (H, W, C) arrays, uint8, uint16 or float32\n"
    "    Values are 0 to 255 for uint8, 0 to 65535 for uint16 and 0 to 1 for float32. C is 1 or 3; functions that\n"
    "    move pixels take 1 to 16.",
    "where : bool or (N,) bool, optional\n    The images to change; None changes all.",
    "size : int or (height, width)\n"
    "    Size of the results in pixels, 1 to 2**24. One number, or a list or tuple of one, sets both.\n"
    "    Each may be (N,); an (N, 2) array has both for each image.",
    'interpolation : {"bilinear", "nearest", "bicubic", "lanczos", "box", "hamming"}\n'
    '    How source pixels are weighted. ``"bilinear"`` is the default, as in torchvision; ``"nearest"`` is fastest,\n'
    '    but aliases; ``"bicubic"`` and ``"lanczos"`` are sharper and slower. :func:`resize` describes them.',
    "antialias : bool\n"
    '    Widen the filter where images shrink, so that every source pixel counts; no effect on ``"nearest"``. False\n'
    "    is faster, but aliases.",
    'exact : {"pillow", "pillow12", "torch"}, optional\n'
    "    Return the bytes of that library's resize of uint8 images, as in :func:`resize`. None resamples in float32.",
    'padding_mode : {"constant", "edge", "reflect", "symmetric"}\n'
    '    What lies outside the image: ``"constant"`` is ``fill``, ``"edge"`` repeats the outermost pixels, and\n'
    '    ``"reflect"`` and ``"symmetric"`` mirror the image repeatedly, without and with these.',
    "fill : number, tuple of C, or (N,) or (N, C) array\n"
    "    Color of what lies outside the image, in the unit of the images.",
    "seed : int or (N,) int\n"
    "    Seed of the random numbers, 0 to 2**48 - 1. They depend on it and on the position only: images of one seed\n"
    "    get the same pattern, in any batch.",
    "p : float or (N,) float\n    Probability that an image changes, 0 to 1; an array of 0 and 1 selects images.",
    "rng : Rng or int\n"
    "    Generator with a sample for each image, or each clip, such as :func:`load` passes. An int is a seed, 0 to\n"
    "    2**64 - 1: every call of the function with it draws the same numbers.",
)
_EXAMPLE = ">>> gpuimg.{}(np.zeros((2, 16, 16, 3), np.uint8), {options}rng=0).array().shape\n(2, 16, 16, 3)"

#: For functions of images that return a batch.
of_images = documented(
    *_OF_IMAGES,
    returns="Batch\n    N images with the sizes, channels and dtype of the input.",
    example=_EXAMPLE,
)
#: For those that change the sizes of images.
of_resized = documented(
    *_OF_IMAGES,
    "where : bool or (N,) bool, optional\n    The images to change; the others keep their size. None changes all.",
    returns="Batch\n    N images of the new sizes, with the channels and dtype of the input.",
    example=_EXAMPLE,
)
#: For those that map images by a matrix, applied before a decorator above: entries in place of its own.
of_warps = documented(
    'interpolation : {"nearest", "bilinear", "bicubic"}\n'
    "    How values between pixels are computed; the default is torchvision's. Bicubic is sharpest and slowest. A\n"
    "    NumPy array (N,) has one for each image. A chain is resampled once, with the smoothest interpolation among\n"
    "    its calls: bilinear after a bilinear resize.",
    "expand : bool\n    Enlarge each result to contain the whole rotated image; ``center`` then has no effect.",
    "fill : number, tuple of C, (N,) or (N, C) array or None\n"
    "    Color around the image, in the unit of the images. None repeats the edge of the image, whereas torchvision\n"
    "    fills with black.",
    "center : (x, y), optional\n"
    "    Center of the transform in pixels from the top left corner; each may be (N,). None is the image's center.",
    returns="",
)
#: The same for augmentation policies.
of_policies = documented(
    'interpolation : {"nearest", "bilinear", "bicubic"}\n'
    "    Interpolation of the ops that move pixels; the default is torchvision's. Bicubic is sharpest and slowest.",
    "fill : number, tuple of C, or (N,) or (N, C) array\n    Color around moved images, in the unit of the images.",
    returns="",
)
#: For functions of boxes, points and masks.
of_targets = documented(
    "images : Batch\n    The batch whose recorded geometry is applied.",
    "boxes : (N, K, D) array or list of (K, D) arrays\n"
    "    K boxes of each image, in pixels; D is 4, and for rotated formats 8 or 5.",
    "points : (N, K, 2) array or list of (K, 2) arrays\n    K points ``(x, y)`` of each image, in pixels.",
    "canvas_size : Batch, (height, width) or (N, 2) array\n"
    "    Sizes of the images in pixels; a batch stands for the sizes of its results.",
    'format : {"xyxy", "xywh", "cxcywh", "xyxyxyxy", "xywhr", "cxcywhr"}\n'
    "    What the numbers of a box are: :func:`convert_bounding_box_format` lists them.",
    returns="array or list of arrays\n    In the form passed; float32 if it was, else float64.",
)
