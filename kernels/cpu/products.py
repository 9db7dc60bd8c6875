"""Sums of products of bytes and 16-bit weights, by instructions for pairs of them where the processor has these.

Sums of whole numbers do not depend on their order: the results are the same without.
"""

from typing import Any, Final, NamedTuple

from ..lang import ir
from .intrinsics import I8, I16, I32, shuffle, splat, vector


class _Names(NamedTuple):
    """Bits of vectors, and names of instructions for them.

    They add products of pairs; make smaller numbers of larger ones, with saturation, alternating between the lanes of
    two vectors; and return upper halves of products of numbers with a sign, and without.
    """

    bits: int
    pairs: str
    to_16: str
    to_8: str
    signed: str
    unsigned: str


_X86: Final = (
    ("+avx512bw", _Names(512, *(f"avx512.{name}.512" for name in (
        "pmaddw.d", "packssdw", "packuswb", "pmulh.w", "pmulhu.w")))),
    ("+avx2", _Names(256, *(f"avx2.{name}" for name in ("pmadd.wd", "packssdw", "packuswb", "pmulh.w", "pmulhu.w")))),
    ("+sse2", _Names(128, *(f"sse2.{name}" for name in (
        "pmadd.wd", "packssdw.128", "packuswb.128", "pmulh.w", "pmulhu.w")))),
)  # fmt: skip


def _instructions(context: Any, bits: int) -> _Names | None:
    """The instructions of this processor for the longest vectors up to ``bits``."""
    features = context.codegen()._tm_features.split(",")
    return next((found for feature, found in _X86 if feature in features and found.bits <= bits), None)


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
    if names := _instructions(context, 16 * n):
        return _in_pieces(builder, names.pairs, names.bits, values, weights, I32, names.bits // 32)
    wide = vector(I32, n // 2)
    products = []
    for k in (0, 1):
        pair = (builder.sext(shuffle(builder, one, one, range(k, n, 2)), wide) for one in (values, weights))
        products.append(builder.mul(*pair))
    return builder.add(*products)


def upper_halves(context: Any, builder: Any, one: Any, other: Any, *, signed: bool) -> Any:
    """Return the upper 16 bits of the products of 16-bit numbers."""
    n = one.type.count
    if names := _instructions(context, 16 * n):
        name = names.signed if signed else names.unsigned
        return _in_pieces(builder, name, names.bits, one, other, I16, names.bits // 16)
    widened = builder.sext if signed else builder.zext
    product = builder.mul(*(widened(value, vector(I32, n)) for value in (one, other)))
    return builder.trunc(builder.lshr(product, splat(I32, 16, n)), one.type)


def shorts_of(context: Any, builder: Any, low: Any, high: Any) -> Any:
    """Return int32 numbers as int16 with saturation: of each eight, the first four come from one vector."""
    n = low.type.count
    if names := _instructions(context, 32 * n):
        return _in_pieces(builder, names.to_16, names.bits, low, high, I16, names.bits // 16)
    order = [n * k + lane + i for lane in range(0, n, 4) for k in (0, 1) for i in range(4)]
    one, other = (saturated(builder, value, I16, -(1 << 15), (1 << 15) - 1) for value in (low, high))
    return shuffle(builder, one, other, order)


def bytes_of(context: Any, builder: Any, quarters: list[Any]) -> Any:
    """Return whole numbers, four vectors of int32, as bytes with saturation.

    Of each 16 bytes the first four come from the first vector, the next four from the second, and so on.
    """
    n = 4 * quarters[0].type.count
    if names := _instructions(context, 8 * n):
        halves = [shorts_of(context, builder, quarters[k], quarters[k + 1]) for k in (0, 2)]
        return _in_pieces(builder, names.to_8, names.bits, halves[0], halves[1], I8, names.bits // 8)
    order = [n // 4 * k + lane + i for lane in range(0, n // 4, 4) for k in range(4) for i in range(4)]
    whole = joined(builder, [saturated(builder, one) for one in quarters])
    return shuffle(builder, whole, whole, order)


def saturated(builder: Any, value: Any, kind: Any = I8, least: int = 0, most: int = 255) -> Any:
    """Return numbers limited to a range and narrowed, by default to bytes."""
    n, own = value.type.count, value.type.element
    low, high = splat(own, least, n), splat(own, most, n)
    value = builder.select(builder.icmp_signed(">", value, low), value, low)
    value = builder.select(builder.icmp_signed("<", value, high), value, high)
    return builder.trunc(value, vector(kind, n))
