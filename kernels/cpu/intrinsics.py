"""Intrinsics that Numba lacks: vectors, stores past the caches, atomic counters, and calls of loops by their addresses.

Code is emitted as LLVM IR in place of a call. Vectors have as many lanes as the code needs: LLVM splits those that the
processor does not have. Arrays that are built here from an address own no memory and are not reference-counted; the
caller keeps what they point to alive.
"""

from functools import wraps
from typing import Any, NamedTuple

from ..lang import cgutils, from_dtype, intrinsic, ir, numba, populate_array, types
from ..scalar import loop

LINE = 16  # float32 values of a cache line of 64 bytes
TURNED = 8  # rows whose values are summed together, a vector of one value of each, see sample.py

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
F32 = ir.FloatType()

# Pointers in the types of native functions, which other loops call by their addresses.
BYTES = types.CPointer(types.uint8)
FLOATS = types.CPointer(types.float32)
INTS = types.CPointer(types.int32)
UINTS = types.CPointer(types.uint32)

#: Pointers to source images, by their dtype.
SOURCES = {"uint8": BYTES, "float32": FLOATS}


# -- emitted code ------------------------------------------------------------------------------------------------------


class Memory(NamedTuple):
    """An array in code that is emitted."""

    context: Any
    builder: Any
    kind: Any
    array: Any

    def place(self, index):
        """Return the address of an element, which need not exist."""
        return self.builder.gep(
            self.context.make_array(self.kind)(self.context, self.builder, self.array).data, [index]
        )

    def at(self, index, count=1):
        """Return the address of ``count`` elements; with NUMBA_BOUNDSCHECK=1 the process ends if some are outside."""
        # Numba checks its own indexing in such builds, but does not know the addresses that are computed here.
        if numba.config.BOUNDSCHECK:
            shape = self.context.make_array(self.kind)(self.context, self.builder, self.array).shape
            count = count if isinstance(count, ir.Value) else index.type(count)
            end, size = self.builder.add(index, count), self.builder.extract_value(shape, 0)
            below = self.builder.icmp_signed("<", index, index.type(0))
            with cgutils.if_unlikely(self.builder, self.builder.or_(self.builder.icmp_signed(">", end, size), below)):
                kind = ir.FunctionType(ir.VoidType(), [])
                self.builder.call(self.builder.module.declare_intrinsic("llvm.trap", [], kind), [])
        return self.place(index)

    def element(self, index):
        """Return an element."""
        return self.builder.load(self.at(index))


def emitted(result, *kinds):
    """Return a decorator that makes an intrinsic of a function which emits its code, given a builder and arguments.

    ``result`` and ``kinds`` are the types of its result and arguments. None is the type that a call passes, and for the
    result that of the first argument. Arrays become :class:`Memory`.
    """

    def decorate(emit):
        @wraps(emit)  # also for Numba, which binds arguments by the signature
        def typed(typing_context, *given):
            def generate(context, builder, signature, args):
                pairs = zip(signature.args, args, strict=True)
                passed = [
                    Memory(context, builder, *one) if isinstance(one[0], types.Array) else one[1] for one in pairs
                ]
                found = emit(builder, *passed)
                return context.get_dummy_value() if found is None else found

            taken = [one if kind is None else kind for kind, one in zip(kinds, given, strict=True)]
            return (taken[0] if result is None else result)(*taken), generate

        return intrinsic(typed)

    return decorate


def vector(kind, n):
    """Return the type of a vector."""
    return ir.VectorType(kind, n)


def splat(kind, value, n):
    """Return a constant vector with the same value in all lanes."""
    return ir.Constant(vector(kind, n), [value] * n)


def spread(builder, value, n):
    """Return a vector with a value in every lane; LLVM makes that a broadcast."""
    one = builder.insert_element(ir.Constant(vector(value.type, n), ir.Undefined), value, I32(0))
    return shuffle(builder, one, one, [0] * n)


def shuffle(builder, one, other, lanes):
    """Return a vector of chosen lanes of two, numbered through both."""
    return builder.shuffle_vector(one, other, ir.Constant(vector(I32, len(lanes)), list(lanes)))


def load(builder, address, kind):
    """Emit an unaligned load."""
    # LLVM assumes the natural alignment of the type otherwise, and aligned loads fault at other addresses.
    value = builder.load(builder.bitcast(address, kind.as_pointer()))
    value.align = 1
    return value


def store(builder, value, address):
    """Emit an unaligned store."""
    builder.store(value, builder.bitcast(address, value.type.as_pointer())).align = 1


def plus_product(builder, total, a, b):
    """Emit ``total + a * b``; "contract" allows a fused multiply-add, with one rounding, and no other order."""
    return builder.fadd(builder.fmul(a, b, flags=("contract",)), total, flags=("contract",))


def rounded_bytes(builder, value):
    """Emit bytes of a vector of float32 from 0 to 255, rounded half to even as by :func:`.color.round_half_even`."""
    shift = splat(F32, float(3 << 22), value.type.count)
    return builder.fptoui(builder.fsub(builder.fadd(value, shift), shift), vector(I8, value.type.count))


# -- arrays and records ------------------------------------------------------------------------------------------------


def _array(context, builder, kind, address, size):
    """Emit an array of elements from an address on; Numba's ``carray`` needs its allocator, which loops do without."""
    array = context.make_array(types.Array(kind, 1, "C"))(context, builder)
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind)))
    populate_array(array, builder.bitcast(address, array.data.type), [size], [itemsize], itemsize, None)
    return array._getvalue()


@intrinsic
def array_at(typing_context, address, size):
    """``size`` elements at a pointer, as an array."""

    def generate(context, builder, signature, args):
        return _array(context, builder, address.dtype, *args)

    return types.Array(address.dtype, 1, "C")(address, types.intp), generate


def _make_array_at(kind):
    """Return an intrinsic ``(address, size)``: the elements at an address, which is a number, as an array."""

    @intrinsic
    def at_address(typing_context, address, size):
        def generate(context, builder, signature, args):
            return _array(context, builder, kind, builder.inttoptr(args[0], I8.as_pointer()), args[1])

        return types.Array(kind, 1, "C")(types.int64, types.int64), generate

    return at_address


bytes_at, shorts_at, ints_at, longs_at, floats_at = (
    _make_array_at(kind) for kind in (types.uint8, types.int16, types.int32, types.int64, types.float32)
)


def records_at(dtype):
    """Return an intrinsic ``(address, size)``: the records at an address as an array."""
    return _make_array_at(from_dtype(dtype))


def _make_array_of(kind):
    """Return an intrinsic ``(buffer)``: the elements of a record with an address and a size, as an array."""

    @intrinsic
    def of_buffer(typing_context, buffer):
        def generate(context, builder, signature, args):
            # By the offsets of its fields, so that any record with these two serves.
            address, size = (
                builder.load(cgutils.get_record_member(builder, args[0], buffer.offset(name), I64))
                for name in ("address", "size")
            )
            return _array(context, builder, kind, builder.inttoptr(address, I8.as_pointer()), size)

        return types.Array(kind, 1, "C")(buffer), generate

    return of_buffer


bytes_of, ints_of, uints_of, floats_of = (
    _make_array_of(kind) for kind in (types.uint8, types.int32, types.uint32, types.float32)
)


def records_of(dtype):
    """Return an intrinsic ``(buffer)``: the records at the address in a record, as an array of its size."""
    return _make_array_of(from_dtype(dtype))


def _viewer(kind):
    """Return an intrinsic ``(bytes_array, at, size)``: elements of another type from a byte on, as an array."""

    @intrinsic
    def view(typing_context, memory, at, size):
        def generate(context, builder, signature, args):
            itemsize = I64(context.get_abi_sizeof(context.get_data_type(kind)))
            start = Memory(context, builder, memory, args[0]).at(args[1], builder.mul(args[2], itemsize))
            return _array(context, builder, kind, start, args[2])

        return types.Array(kind, 1, "C")(memory, types.int64, types.int64), generate

    return view


uints_in, ints_in, shorts_in = _viewer(types.uint32), _viewer(types.int32), _viewer(types.int16)
longs_in, doubles_in = _viewer(types.int64), _viewer(types.float64)


def records_in(dtype):
    """Return an intrinsic ``(bytes_array, at, size)``: records from a byte on, as an array."""
    return _viewer(from_dtype(dtype))


@emitted(None, None, types.int64)
def as_elements(builder, like, address):
    """The address, which is a number, as a pointer to elements as another one is."""
    return builder.inttoptr(address, like.type)


@emitted(types.int64, None)
def address_of(builder, array):
    """The address of an array's first element, as a number."""
    return builder.ptrtoint(array.place(I64(0)), I64)


def _on_field(emit):
    """Return an intrinsic ``(record, field, *int64)`` of a function that emits its code, given the field's address."""

    @wraps(emit)
    def typed(typing_context, record, field, *given):
        offset = record.offset(field.literal_value)  # of a string that is known when the caller is compiled

        def generate(context, builder, signature, args):
            return emit(builder, cgutils.get_record_member(builder, args[0], offset, I64), *args[1:])

        return types.int64(record, field, *[types.int64] * len(given)), generate

    return intrinsic(prefer_literal=True)(typed)


@_on_field
def add_to(builder, record, field, value):
    """Add to an int64 field of a record atomically, and return its value before; 0 reads what other threads write."""
    return builder.atomic_rmw("add", record, value, "seq_cst")


@_on_field
def swap_if(builder, record, field, expected, value):
    """Set an int64 field of a record atomically if it has the expected value; return 1 if it had, else 0."""
    swapped = builder.cmpxchg(record, expected, value, "seq_cst", "seq_cst")
    return builder.zext(builder.extract_value(swapped, 1), I64)


@_on_field
def set_to(builder, record, field, value):
    """Set an int64 field of a record atomically, and return its value before."""
    return builder.atomic_rmw("xchg", record, value, "seq_cst")


@_on_field
def field_address(builder, record, field):
    """The address of an int64 field of a record, as a number."""
    return builder.ptrtoint(record, I64)


# -- calls -------------------------------------------------------------------------------------------------------------


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
                    value = Memory(context, builder, given, value).place(I64(0))
                elif not isinstance(given, (types.CPointer, types.Record)):
                    value = context.cast(builder, value, given, wanted)
                passed.append(value)
            # By what is passed, not by the function's types: pointers to bytes stand for those to any elements.
            function = ir.FunctionType(ir.VoidType(), [one.type for one in passed])
            builder.call(builder.inttoptr(values[0], function.as_pointer()), passed)
            return context.get_dummy_value()

        return types.none(types.intp, arguments), generate

    return call


# -- loads and stores --------------------------------------------------------------------------------------------------


@loop
def copy(values, out):
    """Fill an array from the start of another; an assignment of slices would need an allocator."""
    for k in range(out.size):
        out[k] = values[k]


@emitted(types.none, None, types.int64, types.int64, None, types.int64)
def copy_run(builder, values, at, n, out, to):
    """``out[to:to + n] = values[at:at + n]``, of arrays of one type, by the C library."""
    itemsize = I64(values.context.get_abi_sizeof(values.context.get_data_type(values.kind.dtype)))
    cgutils.raw_memcpy(builder, out.at(to, n), values.at(at, n), n, itemsize)


def _make_move(n):
    @emitted(types.none, None, types.int64, None, types.int64)
    def move(builder, values, at, out, to):
        """``out[to:to + n] = values[at:at + n]``: a few vectors."""
        kind = values.context.get_data_type(values.kind.dtype)
        source, target, done = values.at(at, n), out.at(to, n), 0
        for width in (16, 8, 4, 2):
            while n - done >= width:
                value = load(builder, builder.gep(source, [I64(done)]), vector(kind, width))
                store(builder, value, builder.gep(target, [I64(done)]))
                done += width

    return move


move_14, move_16 = _make_move(14), _make_move(16)


@emitted(types.uint32, None, types.int64)
def load_bytes(builder, array, index):
    """Four consecutive bytes of a uint8 array as one little-endian uint32: a pixel, and a byte that is not used."""
    return load(builder, array.at(index, 4), I32)


@emitted(types.none, None, None, types.int64)
def stream_line(builder, values, out, k):
    """``out[k:k + 16] = values[k:k + 16]`` past the caches; that part of ``out`` must be one cache line."""
    value = load(builder, values.at(k, LINE), vector(F32, LINE))
    # Only an aligned store of a whole cache line goes past the caches without reading the line first.
    line = builder.store(value, builder.bitcast(out.at(k, LINE), value.type.as_pointer()))
    line.align = 4 * LINE
    line.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))


@emitted(types.none, None, types.int64)
def prefetch(builder, array, at):
    """Ask for the cache line with element ``at`` of an array, which need not exist, in the second-level cache."""
    place = builder.bitcast(array.place(at), I8.as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [place.type, I32, I32, I32])
    function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
    builder.call(function, [place, I32(0), I32(2), I32(1)])  # to be read, second level, data


@emitted(types.none)
def fence(builder):
    """Order memory accesses for other threads; stores past the caches are not ordered otherwise."""
    builder.fence("seq_cst")


# -- sums over turned rows ---------------------------------------------------------------------------------------------


def _transposed(builder, rows):
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


@emitted(types.none, None, types.int64, types.int64, None, types.int64, types.int64)
def turn(builder, source, at, step, out, to, out_step):
    """Exchange rows and columns of 8 x 8 values: ``out[to + out_step * c + r] = source[at + step * r + c]``."""

    def place(array, first, step, k):
        return array.at(builder.add(first, builder.mul(step, I64(k))), TURNED)

    rows = [load(builder, place(source, at, step, k), vector(F32, TURNED)) for k in range(TURNED)]
    for k, column in enumerate(_transposed(builder, rows)):
        store(builder, column, place(out, to, out_step, k))


def _make_sum_turned(channels):
    whole = types.int64

    @emitted(types.none, None, whole, None, None, whole, whole, whole, None, whole)
    def sum_turned(builder, turned, first, offsets, weights, x, step, taps, out, k):
        """Weighted sums of a pixel of 8 rows, from ``out[k]`` on: 8 values of a channel, then those of the next.

        Offsets and weights of the taps are at ``x``, ``x + step``, ... of their tables; ``first`` is subtracted from
        offsets. Written out, since Numba turns off LLVM's vectorizer of straight-line code, which a pixel is.
        """
        # Variables on the stack, which LLVM turns into registers.
        totals = [cgutils.alloca_once_value(builder, splat(F32, 0.0, TURNED)) for _ in range(channels)]
        at = cgutils.alloca_once_value(builder, x)
        with cgutils.for_range(builder, taps):
            here = builder.load(at)
            weight = spread(builder, weights.element(here), TURNED)
            start = builder.sub(builder.sext(offsets.element(here), I64), first)  # offsets are int32
            for channel, total in enumerate(totals):
                place = turned.at(builder.add(start, I64(TURNED * channel)), TURNED)
                value = load(builder, place, vector(F32, TURNED))
                builder.store(plus_product(builder, builder.load(total), value, weight), total)
            builder.store(builder.add(here, step), at)
        for channel, total in enumerate(totals):
            store(builder, builder.load(total), out.at(builder.add(k, I64(TURNED * channel)), TURNED))

    return sum_turned


sum_turned_gray, sum_turned_color = _make_sum_turned(1), _make_sum_turned(3)
