"""Images, batches and parameters for the laws."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from ..samples import BUILDS, image, rebuilt

# 31, 32 and 33 straddle the vector width; sides of 1 leave filters no neighbour.
sides = st.one_of(st.sampled_from([1, 2, 3, 31, 32, 33]), st.integers(1, 40))
sizes = st.tuples(sides, sides)
dtypes = st.sampled_from(["uint8", "float32"])
channels = st.sampled_from([1, 3])
angles = st.floats(-720, 720, allow_nan=False)
filters = st.sampled_from(["bilinear", "bicubic"])
interpolations = st.sampled_from(["nearest", "bilinear", "bicubic"])


@st.composite
def arrays(
    draw: st.DrawFn, dtype: st.SearchStrategy[str] = dtypes, channels: st.SearchStrategy[int] = channels
) -> NDArray[Any]:
    """(N, H, W, C) noise, one to three images."""
    height, width = draw(sides), draw(sides)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind, count, depth = draw(dtype), draw(st.integers(1, 3)), draw(channels)
    return np.stack([image(rng, height, width, depth, kind) for _ in range(count)])


@st.composite
def ragged(draw: st.DrawFn, dtype: st.SearchStrategy[str] = dtypes) -> list[NDArray[Any]]:
    """Images of several sizes, in arrays of any build."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind, depth = draw(dtype), draw(channels)
    several = draw(st.lists(sizes, min_size=1, max_size=6))
    return [rebuilt(image(rng, *size, depth, kind), draw(st.sampled_from(BUILDS))) for size in several]
