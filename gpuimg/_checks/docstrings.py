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


_WRONG_VALUES = "ValueError\n    For unknown options, NaN, values out of range, and shapes that do not fit the batch."
_OF_IMAGES = (
    "images : Batch, (N, H, W, C) array or list of (H, W, C) arrays, uint8 or float32",
    "where : (N,) bool, optional\n    The images to change.",
    "size : int or (height, width)\n"
    "    Size of the results in pixels. One number, or a list or tuple of one, sets both.\n"
    "    Each may be (N,); an (N, 2) array has both for each image.",
    'interpolation : {"bilinear", "nearest", "bicubic", "lanczos", "box", "hamming"}',
    "antialias : bool\n    Widen the filter when downsizing.",
    'exact : {"pillow", "pillow12", "torch"}, optional\n    As in :func:`resize`.',
    "p : float or (N,) float\n    Probability for each image, 0 to 1.",
    "rng : Rng or int\n    Generator for the samples of the batch, or a seed.",
)
_EXAMPLE = ">>> gpuimg.{}(np.zeros((2, 16, 16, 3), np.uint8), {options}rng=0).array().shape\n(2, 16, 16, 3)"

#: For functions of images that return a batch.
of_images = documented(
    *_OF_IMAGES,
    returns="Batch\n    N images with the sizes, channels and dtype of the input.",
    raises=_WRONG_VALUES,
    example=_EXAMPLE,
)
#: For those that change the sizes of images.
of_resized = documented(
    *_OF_IMAGES,
    "where : (N,) bool, optional\n    The images to change; the others keep their size.",
    returns="Batch\n    N images of the new sizes, with the channels and dtype of the input.",
    raises=_WRONG_VALUES,
    example=_EXAMPLE,
)
#: For functions of boxes, points and masks.
of_targets = documented(
    "images : Batch\n    The batch whose recorded geometry is applied.",
    "boxes : (N, K, D) array or list of (K, D) arrays\n    Boxes of each image in pixels, with D numbers each.",
    "points : (N, K, 2) array or list of (K, 2) arrays\n    ``(x, y)`` of each image, in pixels.",
    "canvas_size : Batch, (height, width) or (N, 2) array\n"
    "    Sizes of the images in pixels; a batch stands for the sizes of its results.",
    'format : {"xyxy", "xywh", "cxcywh", "xyxyxyxy", "xywhr", "cxcywhr"}\n'
    "    As in :func:`convert_bounding_box_format`.",
    returns="array or list of arrays\n    In the form passed; float32 if it was, else float64.",
    raises="ValueError\n    For unknown formats, NaN, values out of range, other shapes, and other numbers of images.",
)
