"""Agreement of the GPU's results with the CPU's: every function, and random chains of them.

    python -m bench.gpu.agreement [--seconds 60]

Of each function 26 images of awkward sizes, as uint8 and float32 with one and three channels; then chains drawn as by
the tests' properties, each on new images. Float results may differ by 1e-4 of the range, bytes by one level, and a
thousandth of the values by more, because they lie on the edge of a level or of a pixel. It needs pytest and hypothesis.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import gpuimg as gi
from bench.gpu.common import arguments, show, to_host

_FLOAT_LIMIT = 1e-4  # of the range 0 to 1
_SHARE_LIMIT = 0.001  # of the values may be further off
_IMAGES, _CHAIN_IMAGES, _CHAINS = 26, 6, 200


def on_gpu(images: list[Any]) -> list[Any]:
    import cupy

    return [cupy.asarray(np.array(image, order="C")) for image in images]


def differences(results: Any, expected: Any) -> Any:
    """Return the absolute differences of all values; infinity where only one of the two is finite."""
    found = []
    for a, e in zip(results, expected, strict=True):
        one, other = to_host(a).astype(np.float64), to_host(e).astype(np.float64)
        if one.shape != other.shape:
            raise ValueError(f"shape {one.shape} instead of {other.shape}")
        alike = np.where(one == other, 0.0, np.inf)
        with np.errstate(invalid="ignore"):
            found.append(np.where(np.isfinite(one) & np.isfinite(other), np.abs(one - other), alike).ravel())
    return np.concatenate([np.zeros(0), *found])


def compared(result: gi.Batch, expected: gi.Batch) -> dict[str, Any]:
    """Compare two batches as float32 and, if they are in range, as uint8."""
    floats = differences(result.compute("float32"), expected.compute("float32"))
    levels = np.zeros(0)
    if not expected.normalized:
        levels = differences(result.compute("uint8"), expected.compute("uint8"))
    beyond = float((floats > _FLOAT_LIMIT).mean()) if floats.size else 0.0
    bytes_beyond = float((levels > 1).mean()) if levels.size else 0.0
    found = {"values": floats.size, "largest": float(floats.max(initial=0.0))}
    found |= {"share_beyond_1e-4": beyond, "uint8_share_beyond_1": bytes_beyond}
    return found if max(beyond, bytes_beyond) <= _SHARE_LIMIT else {**found, "problem": "differs from the CPU"}


def functions() -> None:
    from tests.operations.calls import CALLS
    from tests.samples import KINDS, images

    for name, call in CALLS.items():
        for dtype, channels in KINDS:
            rng = np.random.default_rng(7)
            pictures = images(rng, dtype, channels, _IMAGES)
            each = call.each(rng, len(pictures), 255.0 if dtype == "uint8" else 1.0)
            try:
                found = compared(call.run(on_gpu(pictures), each), call.run(pictures, each))
            except Exception as error:
                found = {"problem": f"{type(error).__name__}: {error}"[:300]}
            show("function", name=name, dtype=dtype, channels=channels, **found)


def chains(end: float) -> None:
    """Compare random chains; those that the functions refuse by their rules (an image is too small) are left out."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    from tests.properties import chains
    from tests.samples import images

    @settings(
        max_examples=_CHAINS, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data())
    def draw(data: Any) -> None:
        if time.monotonic() > end:
            return
        dtype, seed = data.draw(st.sampled_from(["uint8", "float32"])), data.draw(st.integers(0, 2**32))
        steps = data.draw(chains.chains(_CHAIN_IMAGES, dtype))
        pictures = images(np.random.default_rng(seed), dtype, 3, _CHAIN_IMAGES)

        def run(inputs: list[Any]) -> gi.Batch:
            return chains.run(steps, inputs, gi.Rng(seed, indices=range(_CHAIN_IMAGES)))

        try:
            expected = run(pictures)
            expected.compute("float32")  # kept by the batch
        except (ValueError, TypeError):
            return
        try:
            found = compared(run(on_gpu(pictures)), expected)
        except Exception as error:
            found = {"problem": f"{type(error).__name__}: {error}"[:300]}
        show("chain", steps=[step.name for step in steps], dtype=dtype, seed=seed, **found)

    draw()


def main() -> None:
    options = arguments(__doc__, 60)
    functions()
    chains(options.end)


if __name__ == "__main__":
    main()
