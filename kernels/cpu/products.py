"""Sums of products of bytes and 16-bit weights, by instructions for pairs of them where the processor has these.

Sums of whole numbers do not depend on their order: the results are the same without.
"""

from typing import Any, Final

from ..lang import ir
from .intrinsics import I8, I16, I32, shuffle, splat, vector

# Bits of vectors, and names of the instructions that add products of pairs, and that make smaller numbers of larger
# ones, with saturation, alternating between the lanes of two vectors.
_X86: Final = (
    ("+avx512bw", (512, "avx512.pmaddw.d.512", "avx512.packssdw.512", "avx512.packuswb.512")),
    ("+avx2", (256, "avx2.pmadd.wd", "avx2.packssdw", "avx2.packuswb")),
    ("+sse2", (128, "sse2.pmadd.wd", "sse2.packssdw.128", "sse2.packuswb.128")),
)


def _instructions(context: Any) -> list[tuple[int, str, str, str]]:
    """The instructions of this processor, those of the longest vectors first."""
    features = context.codegen()._tm_features.split(",")
    return [found for feature, found in _X86 if feature in features]


def part(builder: Any, value: Any, first: int, n: int) -> Any:
    """Return ``n`` elements of a vector."""
    return shuffle(builder, value, value, range(first, first + n))


def joined(builder: Any, parts: list[Any]) -> Any:
    """Return vectors one after the other as one; their number is a power of 2."""
    while len(parts) > 1:
        n = 2 * parts[0].type.count
        parts = [shuffle(builder, *pair, range(n)) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def interleaved(builder: Any, one: Any, other: Any, lane: int) -> list[Any]:
    """Return the elements of two vectors in turn: of the first halves of each ``lane`` elements, and of the second."""
    n, half = one.type.count, lane // 2
    picks = [[first + k for first in range(start, n, lane) for k in range(half)] for start in (0, half)]
    return [shuffle(builder, one, other, [place for k in each for place in (k, n + k)]) for each in picks]


def transposed(builder: Any, rows: list[Any], lane: int, rounds: int = 0) -> list[Any]:
    """Exchange rows and columns of ``lane`` x ``lane`` elements, in each ``lane`` of vectors; or do a part of that.

    An element's number has bits of its row and of its place in it: interleaving the halves of the rows rotates them by
    one. The exchange takes as many ``rounds`` as a place has bits.
    """
    half = len(rows) // 2
    for _ in range(rounds or lane.bit_length() - 1):
        rows = [one for k in range(half) for one in interleaved(builder, rows[k], rows[half + k], lane)]
    return rows


def _in_pieces(builder: Any, name: str, bits: int, one: Any, other: Any, result: Any, n: int) -> Any:
    """Call an instruction for pieces of two vectors, each of ``bits``; ``n`` elements of ``result`` come from each."""
    kind = one.type.element
    size = bits // kind.width
    types = ir.FunctionType(vector(result, n), [vector(kind, size)] * 2)
    function = builder.module.declare_intrinsic(f"llvm.x86.{name}", (), types)
    calls = [
        builder.call(function, [part(builder, value, first, size) for value in (one, other)])
        for first in range(0, one.type.count, size)
    ]
    return joined(builder, calls)


def sums_of_pairs(context: Any, builder: Any, values: Any, weights: Any) -> Any:
    """Return int32 sums of the products of the elements 2k and 2k + 1 of two vectors of int16."""
    n = values.type.count
    for bits, name, _, _ in _instructions(context):
        if bits <= 16 * n:
            return _in_pieces(builder, name, bits, values, weights, I32, bits // 32)
    wide = vector(I32, n // 2)
    products = []
    for k in (0, 1):
        pair = (builder.sext(shuffle(builder, one, one, range(k, n, 2)), wide) for one in (values, weights))
        products.append(builder.mul(*pair))
    return builder.add(*products)


def upper_halves(builder: Any, widened: Any, one: Any, other: Any) -> Any:
    """Return the upper 16 bits of the products of 16-bit numbers; ``widened`` extends signed or unsigned ones."""
    n = one.type.count
    product = builder.mul(*(widened(value, vector(I32, n)) for value in (one, other)))
    return builder.trunc(builder.lshr(product, splat(I32, 16, n)), one.type)


def bytes_of(context: Any, builder: Any, quarters: list[Any]) -> Any:
    """Return whole numbers, four vectors of int32, as bytes with saturation.

    Of each 16 bytes the first four come from the first vector, the next four from the second, and so on.
    """
    n = 4 * quarters[0].type.count
    for bits, _, to_16, to_8 in _instructions(context):
        if bits <= 8 * n:
            halves = [_in_pieces(builder, to_16, bits, quarters[k], quarters[k + 1], I16, bits // 16) for k in (0, 2)]
            return _in_pieces(builder, to_8, bits, halves[0], halves[1], I8, bits // 8)
    order = [n // 4 * k + lane + i for lane in range(0, n // 4, 4) for k in range(4) for i in range(4)]
    whole = joined(builder, [saturated(builder, one) for one in quarters])
    return shuffle(builder, whole, whole, order)


def saturated(builder: Any, value: Any) -> Any:
    """Return int32 numbers as bytes, 0 or 255 where they are less or more."""
    n = value.type.count
    zero, top = splat(I32, 0, n), splat(I32, 255, n)
    value = builder.select(builder.icmp_signed(">", value, zero), value, zero)
    value = builder.select(builder.icmp_signed("<", value, top), value, top)
    return builder.trunc(value, vector(I8, n))
