"""How many threads work."""

from __future__ import annotations

import os


def threads() -> int:
    """Worker threads: ``GPUIMG_NUM_THREADS``, or the cores this process may use."""
    text = os.environ.get("GPUIMG_NUM_THREADS")
    if text:
        if not text.isdigit() or int(text) < 1:
            raise ValueError(f"GPUIMG_NUM_THREADS must be a whole number of at least 1, not {text!r}")
        return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
