"""Docstrings of functions that share parameters and results: each describes what is its own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

_SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"\n(?=\S)")

_Function = TypeVar("_Function", bound=Callable[..., Any])


def documented(*shared: str, returns: str, raises: str = "", example: str = "") -> Callable[[_Function], _Function]:
    """Return a decorator that adds entries of a docstring that a function shares with others.

    ``shared`` are entries of the section Parameters; each is added where the function has these parameters and does not
    describe them. ``returns``, ``raises`` and ``example`` are sections that it may replace by its own; the function's
    name replaces ``{}`` in the last.
    """

    def completed(function: _Function) -> _Function:
        if function.__doc__ is not None:  # which -OO leaves out
            sections = {"Parameters": "", "Returns": returns, "Raises": raises}
            function.__doc__ = _completed(function, shared, sections, example)
        return function

    return completed


def _completed(function: Any, shared: Sequence[str], sections: dict[str, str], example: str) -> str:
    head, *parts = _SECTION.split(inspect.cleandoc(function.__doc__))
    sections |= {title: text.strip("\n") for title, text in zip(parts[::2], parts[1::2], strict=True)}
    entries = [*shared, *(entry for entry in _ENTRY.split(sections["Parameters"]) if entry)]
    names = ((entry.partition("\n")[0].partition(" :")[0].replace("*", "").split(", "), entry) for entry in entries)
    described = {name: entry for several, entry in names for name in several}
    parameters = inspect.signature(function).parameters
    sections["Parameters"] = "\n".join(dict.fromkeys(described[name] for name in parameters if name in described))
    examples = sections.setdefault("Examples", example.format(function.__name__))
    if "import" not in examples:
        sections["Examples"] = ">>> import gpuimg, numpy as np\n" + examples
    parts = [f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections.items() if text]
    return "\n\n".join([head.strip(), *parts])


#: For functions of images that return a batch.
of_images = documented(
    "images : Batch, (N, H, W, C) array or list of (H, W, C) arrays, uint8 or float32",
    "where : (N,) bool, optional\n    The images to change.",
    'interpolation : {"bilinear", "nearest", "bicubic", "lanczos", "box", "hamming"}',
    "antialias : bool\n    Widen the filter when downsizing.",
    'exact : {"pillow", "pillow12", "torch"}, optional\n    As in :func:`resize`.',
    "p : float or (N,) float\n    Probability for each image, 0 to 1.",
    "rng : Rng or int\n    Generator for the samples of the batch, or a seed.",
    returns="Batch\n    N images with the sizes, channels and dtype of the input.",
    example=">>> gpuimg.{}(np.zeros((2, 16, 16, 3), np.uint8), rng=0).array().shape\n(2, 16, 16, 3)",
)
