"""timm as a reference, where it is installed.

It imports torchvision: ``pip install --no-deps timm==1.0.31 torchvision==0.28.0``, and ``huggingface_hub``,
``safetensors`` and ``pyyaml``.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest


def module(name: str) -> Any:
    """Import a module of timm, or skip the test."""
    missing = [one for one in ("torch", "torchvision", "timm") if importlib.util.find_spec(one) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")
    return importlib.import_module(name)
