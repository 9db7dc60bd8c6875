"""Conversion of float32 to values of results, to 16-bit floats by bit operations: the same bytes on every runtime."""

from typing import Final

import numpy as np

from .color import store_byte
from .layout import RESULTS
from .scalar import f32, scalar, u32


@scalar
def to_float32(x):
    """Return ``x``."""
    return x


@scalar
def to_bfloat16(x):
    """Return the bits of ``x`` as bfloat16 in the low half of a uint32."""
    bits = f32(x).view(np.uint32)
    # Half of the lowest bit that stays, less one where that bit is 0: ties go to even.
    rounded = (bits + u32(0x7FFF) + ((bits >> u32(16)) & u32(1))) >> u32(16)
    nan = (bits & u32(0x7FFFFFFF)) > u32(0x7F800000)
    return u32(0x7FC0) if nan else rounded


@scalar
def to_float16(x):
    """Return the bits of ``x`` as IEEE 754 binary16 in the low half of a uint32."""
    bits = f32(x).view(np.uint32)
    sign = (bits >> u32(16)) & u32(0x8000)
    magnitude = bits & u32(0x7FFFFFFF)
    # Rebias the exponent (127 -> 15) and round at bit 13 in one addition; 65520 and above carry into infinity.
    # Numba widens the sum to 64 bits, hence the mask.
    normal = ((magnitude + u32(0xC8000FFF) + ((magnitude >> u32(13)) & u32(1))) >> u32(13)) & u32(0x7FFF)
    # Below 2^-14 the spacing is 2^-24, which is float32's spacing just above 0.5: let the adder round.
    small = (f32(abs(f32(x)) + f32(0.5)).view(np.uint32) - u32(0x3F000000)) & u32(0x7FFF)
    finite = small if magnitude < u32(0x38800000) else normal
    special = u32(0x7E00) if magnitude > u32(0x7F800000) else u32(0x7C00)
    return sign | (special if magnitude >= u32(0x47800000) else finite)


to_uint8 = store_byte

#: From a float32 to the value that is stored, by the kind of result.
CONVERSIONS: Final = {kind: globals()[f"to_{name}"] for kind, name in RESULTS.items()}
