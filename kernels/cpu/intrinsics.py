"""Intrinsics that Numba lacks: vectors, stores past the caches, atomic counters, and calls of loops by their addresses.

Each function ``generate`` emits LLVM IR in place of a call. Arrays that are built here from an address own no memory
and are not reference-counted; the caller keeps what they point to alive.
"""

from __future__ import annotations

from ..lang import cgutils, from_dtype, intrinsic, ir, numba, populate_array, types
from ..scalar import loop

LINE = 16  # float32 values of a cache line of 64 bytes
TURNED = 8  # rows whose values are summed together, a vector of one value of each, see sample.py

_OCTET = ir.VectorType(ir.FloatType(), TURNED)

# Pointers in the types of native functions, which other loops call by their addresses.
BYTES = types.CPointer(types.uint8)
FLOATS = types.CPointer(types.float32)
INTS = types.CPointer(types.int32)
UINTS = types.CPointer(types.uint32)

#: Pointers to source images, by their dtype.
SOURCES = {"uint8": BYTES, "float32": FLOATS}


def record_pointer(dtype):
    """Return the type of a pointer to a record."""
    return types.CPointer(from_dtype(dtype))


def pointer(context, builder, kind, array, index=None, target=None):
    """Return the address of an array or of an element, as a pointer to another type if given."""
    address = context.make_array(kind)(context, builder, array).data
    if index is not None:
        address = builder.gep(address, [index])
    return address if target is None else builder.bitcast(address, target.as_pointer())


def shuffle(builder, one, other, lanes):
    """Return a vector of chosen lanes of two, numbered through both."""
    picks = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))
    return builder.shuffle_vector(one, other, picks)


def spread(builder, value, n):
    """Return a vector with a value in every lane; LLVM makes that a broadcast."""
    one = builder.insert_element(ir.Constant(ir.VectorType(value.type, n), ir.Undefined), value, ir.IntType(32)(0))
    return shuffle(builder, one, one, [0] * n)


@intrinsic
def array_at(typing_context, address, size):
    """``size`` elements at a pointer, as an array; Numba's ``carray`` needs its allocator, which loops do without."""
    kind = types.Array(address.dtype, 1, "C")

    def generate(context, builder, signature, args):
        array = context.make_array(kind)(context, builder)
        itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        populate_array(array, args[0], [args[1]], [itemsize], itemsize, None)
        return array._getvalue()

    return kind(address, types.intp), generate


@intrinsic
def as_elements(typing_context, like, address):
    """The address, which is a number, as a pointer to elements as another one is."""

    def generate(context, builder, signature, args):
        return builder.inttoptr(args[1], args[0].type)

    return like(like, types.int64), generate


@intrinsic
def record_at(typing_context, address):
    """The record at a pointer; Numba's records are pointers, too."""

    def generate(context, builder, signature, args):
        return args[0]

    return address.dtype(address), generate


@intrinsic
def load_bytes(typing_context, array, index):
    """Four consecutive bytes of a uint8 array as one little-endian uint32: a pixel, and a byte that is not used."""

    def generate(context, builder, signature, args):
        value = builder.load(pointer(context, builder, signature.args[0], args[0], args[1], ir.IntType(32)))
        value.align = 1  # a pixel begins at any byte
        return value

    return types.uint32(array, index), generate


def _interleaved(builder, rows):
    """Return 8 x 8 values with rows as columns: two rounds within the halves of vectors, one that exchanges halves."""
    rounds = (
        (1, [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]),
        (2, [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]),
        (4, [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]),
    )
    for step, low, high in rounds:
        turned = list(rows)
        for k in range(TURNED):
            if not k & step:
                pair = rows[k], rows[k + step]
                turned[k], turned[k + step] = shuffle(builder, *pair, low), shuffle(builder, *pair, high)
        rows = turned
    return [rows[k] for k in (0, 2, 1, 3, 4, 6, 5, 7)]  # the second round leaves columns 1 and 2 exchanged


@intrinsic
def turn(typing_context, source, at, step, out, to, out_step):
    """Exchange rows and columns of 8 x 8 values: ``out[to + out_step * c + r] = source[at + step * r + c]``."""

    def generate(context, builder, signature, args):
        def place(position, first, step, k):
            index = builder.add(args[first], builder.mul(args[step], args[step].type(k)))
            return pointer(context, builder, signature.args[position], args[position], index, _OCTET)

        rows = [builder.load(place(0, 1, 2, k)) for k in range(TURNED)]
        for row in rows:
            row.align = 4  # that of a float32: without it LLVM takes 32 for granted, and may fault
        for k, column in enumerate(_interleaved(builder, rows)):
            builder.store(column, place(3, 4, 5, k)).align = 4
        return context.get_dummy_value()

    return types.none(source, at, step, out, to, out_step), generate


def _make_sum_turned(channels):
    @intrinsic
    def sum_turned(typing_context, turned, first, offsets, weights, x, step, taps, out, k):
        """Weighted sums of a pixel of 8 rows, from ``out[k]`` on: 8 values of a channel, then those of the next.

        Offsets and weights of the taps are at ``x``, ``x + step``, ... of their tables; ``first`` is subtracted from
        offsets. Written out, since Numba turns off LLVM's vectorizer of straight-line code, which a pixel is.
        """

        def generate(context, builder, signature, args):
            kinds = signature.args
            turned, first, offsets, weights, x, step, taps, out, k = args
            # Variables on the stack, which LLVM turns into registers.
            zero = ir.Constant(_OCTET, [0.0] * TURNED)
            totals = [cgutils.alloca_once_value(builder, zero) for _ in range(channels)]
            at = cgutils.alloca_once_value(builder, x)
            with cgutils.for_range(builder, taps):
                here = builder.load(at)
                offset = builder.load(pointer(context, builder, kinds[2], offsets, here))
                weight = spread(builder, builder.load(pointer(context, builder, kinds[3], weights, here)), TURNED)
                start = builder.sub(builder.sext(offset, first.type), first)  # offsets are int32, indices 64 bits
                for channel, total in enumerate(totals):
                    index = builder.add(start, start.type(TURNED * channel))
                    values = builder.load(pointer(context, builder, kinds[0], turned, index, _OCTET))
                    values.align = 4
                    # "contract" allows a fused multiply-add, with one rounding; the order of the sum stays as written.
                    weighted = builder.fmul(values, weight, flags=("contract",))
                    builder.store(builder.fadd(weighted, builder.load(total), flags=("contract",)), total)
                builder.store(builder.add(here, step), at)
            for channel, total in enumerate(totals):
                index = builder.add(k, k.type(TURNED * channel))
                builder.store(builder.load(total), pointer(context, builder, kinds[7], out, index, _OCTET)).align = 4
            return context.get_dummy_value()

        return types.none(turned, first, offsets, weights, x, step, taps, out, k), generate

    return sum_turned


sum_turned_gray, sum_turned_color = _make_sum_turned(1), _make_sum_turned(3)


def caller(kind):
    """An intrinsic ``(address, arguments)`` that calls a native function of these types.

    Arrays and records are passed as pointers; other arguments are cast to the types of the function.
    """

    @intrinsic
    def call(typing_context, address, arguments):
        def generate(context, builder, signature, values):
            passed = []
            for k, (wanted, given) in enumerate(zip(kind.args, arguments.types, strict=True)):
                value = builder.extract_value(values[1], k)
                if isinstance(given, types.Array):
                    value = pointer(context, builder, given, value)
                elif not isinstance(given, (types.CPointer, types.Record)):
                    value = context.cast(builder, value, given, wanted)
                passed.append(value)
            # By what is passed, not by the function's types: pointers to bytes stand for those to any elements.
            function = ir.FunctionType(ir.VoidType(), [one.type for one in passed])
            builder.call(builder.inttoptr(values[0], function.as_pointer()), passed)
            return context.get_dummy_value()

        return types.none(types.intp, arguments), generate

    return call


@loop
def copy(values, out):
    """Fill an array from the start of another; an assignment of slices would need an allocator."""
    for k in range(out.size):
        out[k] = values[k]


@intrinsic
def address_of(typing_context, array):
    """The address of an array's first element, as a number."""

    def generate(context, builder, signature, args):
        return builder.ptrtoint(pointer(context, builder, signature.args[0], args[0]), ir.IntType(64))

    return types.int64(array), generate


@intrinsic
def stream_line(typing_context, values, out, k):
    """``out[k:k + 16] = values[k:k + 16]`` past the caches; that part of ``out`` must be one cache line."""

    def generate(context, builder, signature, args):
        line = ir.VectorType(ir.FloatType(), LINE)
        value = builder.load(pointer(context, builder, signature.args[0], args[0], args[2], line))
        value.align = 4
        # Only an aligned store of a whole cache line goes past the caches without reading the line first.
        store = builder.store(value, pointer(context, builder, signature.args[1], args[1], args[2], line))
        store.align = 4 * LINE
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return types.none(values, out, k), generate


@intrinsic
def prefetch(typing_context, array, at):
    """Ask for the cache line with element ``at`` of an array, which need not exist, in the second-level cache."""

    def generate(context, builder, signature, args):
        place = pointer(context, builder, signature.args[0], args[0], args[1], ir.IntType(8))
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(function, [place, word(0), word(2), word(1)])  # to be read, second level, data
        return context.get_dummy_value()

    return types.none(array, types.int64), generate


@intrinsic
def fence(typing_context):
    """Order memory accesses for other threads; stores past the caches are not ordered otherwise."""

    def generate(context, builder, signature, args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.none(), generate


def _make_array_at(kind):
    """Return an intrinsic ``(address, size)``: the elements at an address, which is a number, as an array."""

    @intrinsic
    def at_address(typing_context, address, size):
        array_kind = types.Array(kind, 1, "C")

        def generate(context, builder, signature, args):
            array = context.make_array(array_kind)(context, builder)
            start = builder.inttoptr(args[0], array.data.type)
            itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind)))
            populate_array(array, start, [args[1]], [itemsize], itemsize, None)
            return array._getvalue()

        return array_kind(types.int64, types.int64), generate

    return at_address


bytes_at, shorts_at, longs_at, floats_at = (
    _make_array_at(kind) for kind in (types.uint8, types.int16, types.int64, types.float32)
)


def _make_array_of(kind):
    """Return an intrinsic ``(buffer)``: the elements of a record with an address and a size, as an array."""

    @intrinsic
    def of_buffer(typing_context, buffer):
        array_kind = types.Array(kind, 1, "C")

        def generate(context, builder, signature, args):
            # By the offsets of its fields, so that any record with these two serves.
            address, size = (
                builder.load(cgutils.get_record_member(builder, args[0], buffer.offset(name), ir.IntType(64)))
                for name in ("address", "size")
            )
            array = context.make_array(array_kind)(context, builder)
            itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind)))
            populate_array(array, builder.inttoptr(address, array.data.type), [size], [itemsize], itemsize, None)
            return array._getvalue()

        return array_kind(buffer), generate

    return of_buffer


bytes_of, ints_of, uints_of, floats_of = (
    _make_array_of(kind) for kind in (types.uint8, types.int32, types.uint32, types.float32)
)


def records_of(dtype):
    """Return an intrinsic ``(buffer)``: the records at the address in a record, as an array of its size."""
    return _make_array_of(from_dtype(dtype))


def records_at(dtype):
    """Return an intrinsic ``(address, size)``: the records at an address as an array."""
    return _make_array_at(from_dtype(dtype))


def check_place(builder, index, count, size):
    """Emit, with NUMBA_BOUNDSCHECK=1, an end of the process unless elements ``index`` to ``index + count`` exist."""
    # Numba checks its own indexing in such builds, but does not know the addresses that intrinsics compute.
    if not numba.config.BOUNDSCHECK:
        return
    end = builder.add(index, count)
    outside = builder.or_(builder.icmp_signed(">", end, size), builder.icmp_signed("<", index, index.type(0)))
    with cgutils.if_unlikely(builder, outside):
        trap = builder.module.declare_intrinsic("llvm.trap", [], ir.FunctionType(ir.VoidType(), []))
        builder.call(trap, [])


class Place:
    """Loads and stores of vectors of bytes in one array argument of an intrinsic."""

    def __init__(self, context, builder, signature, values, position):
        self._context, self._builder = context, builder
        self._kind, self._array = signature.args[position], values[position]

    def _address(self, at, n):
        size = self._context.make_array(self._kind)(self._context, self._builder, self._array).shape
        check_place(self._builder, at, ir.IntType(64)(n), self._builder.extract_value(size, 0))
        vector = ir.VectorType(ir.IntType(8), n)
        return pointer(self._context, self._builder, self._kind, self._array, at, vector)

    def load(self, at, n=16):
        """``n`` bytes from element ``at`` on, at any address."""
        value = self._builder.load(self._address(at, n))
        value.align = 1
        return value

    def store(self, value, at):
        """Write a vector from element ``at`` on."""
        self._builder.store(value, self._address(at, value.type.count)).align = 1


@intrinsic(prefer_literal=True)
def move_run(typing_context, values, at, out, to, n):
    """``out[to:to + n] = values[at:at + n]`` for a number that is known when this is compiled: a few vectors."""
    count = n.literal_value

    def generate(context, builder, signature, args):
        values, at, out, to, _ = args
        for array, kind, first in ((values, signature.args[0], at), (out, signature.args[2], to)):
            size = context.make_array(kind)(context, builder, array).shape
            check_place(builder, first, ir.IntType(64)(count), builder.extract_value(size, 0))
        element = context.get_data_type(signature.args[0].dtype)
        done = 0
        for width in (16, 8, 4, 2, 1):
            while count - done >= width:
                vector = ir.VectorType(element, width)
                places = [builder.add(first, ir.IntType(64)(done)) for first in (at, to)]
                value = builder.load(pointer(context, builder, signature.args[0], values, places[0], vector))
                value.align = 1
                builder.store(value, pointer(context, builder, signature.args[2], out, places[1], vector)).align = 1
                done += width
        return context.get_dummy_value()

    return types.none(values, types.int64, out, types.int64, n), generate


def _viewer(kind):
    """Return an intrinsic ``(bytes_array, at, size)``: elements of another type from a byte on, as an array."""

    @intrinsic
    def view(typing_context, memory, at, size):
        array_kind = types.Array(kind, 1, "C")

        def generate(context, builder, signature, args):
            array = context.make_array(array_kind)(context, builder)
            one = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind)))
            source = context.make_array(signature.args[0])(context, builder, args[0])
            check_place(builder, args[1], builder.mul(args[2], one), builder.extract_value(source.shape, 0))
            start = builder.bitcast(builder.gep(source.data, [args[1]]), array.data.type)
            populate_array(array, start, [args[2]], [one], one, None)
            return array._getvalue()

        return array_kind(memory, types.int64, types.int64), generate

    return view


uints_in, ints_in, shorts_in = _viewer(types.uint32), _viewer(types.int32), _viewer(types.int16)
longs_in, doubles_in = _viewer(types.int64), _viewer(types.float64)


def records_in(dtype):
    """Return an intrinsic ``(bytes_array, at, size)``: records from a byte on, as an array."""
    return _viewer(from_dtype(dtype))


@intrinsic(prefer_literal=True)
def add_to(typing_context, record, field, value):
    """Add to an int64 field of a record atomically, and return its value before."""
    name = field.literal_value  # a string that is known when the caller is compiled

    def generate(context, builder, signature, args):
        address = cgutils.get_record_member(builder, args[0], record.offset(name), ir.IntType(64))
        return builder.atomic_rmw("add", address, args[2], "seq_cst")

    return types.int64(record, field, types.int64), generate
