"""torchvision's Python code where its compiled part does not match the installed PyTorch: transforms do not need it."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_kept: list[Any] = []  # a library's definitions end with the object


def import_torchvision() -> tuple[ModuleType, bool]:
    """Import torchvision, and return it and whether its compiled part was left out.

    Without that part, the import lacks two operators, whose shapes it registers: they are defined here.

    Raises
    ------
    ImportError
        If torch or torchvision is not installed.
    """
    try:
        return import_module("torchvision"), bool(_kept)
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    _kept.append(library)
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return import_module("torchvision"), True
