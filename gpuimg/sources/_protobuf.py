"""Reader of the parts of the protobuf wire format that image data sets use."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIZES = {FIXED64: 8, FIXED32: 4}
_KINDS = {VARINT: "a varint", FIXED64: "8 bytes", BYTES: "bytes", FIXED32: "4 bytes"}

Values: TypeAlias = "list[bytes] | NDArray[Any]"


def fields(message: bytes | memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield field number, wire type and value of each field of a message, in the order of the bytes.

    Values are ``int`` for varints and a ``memoryview`` for all other types; nothing is copied.

    Raises
    ------
    ValueError
        If the message ends within a field, or is not a protobuf message.

    References
    ----------
    Protocol Buffers, *Encoding*: https://protobuf.dev/programming-guides/encoding/.
    """
    view = memoryview(message)
    position, end = 0, len(view)
    while position < end:
        start = position
        tag, position = _varint(view, position)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 29 or kind not in _KINDS:
            raise ValueError(f"not a protobuf message: field {number} of wire type {kind} at byte {start}")
        if kind == VARINT:
            value, position = _varint(view, position)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, position = _varint(view, position)
        else:
            size = _SIZES[kind]
        if size > end - position:
            raise ValueError(f"field {number} at byte {start} takes {size} bytes, but {end - position} are left")
        yield number, kind, view[position : position + size]
        position += size


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    """Return an unsigned 64-bit number and the position after it."""
    value = 0
    for shift in range(0, 70, 7):  # 7 bits per byte, lowest first; bit 7 is set in all but the last byte
        if position >= len(view):
            raise ValueError(f"the message ends in a number, at byte {position}")
        byte = view[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, position
    raise ValueError(f"a number of more than 10 bytes ends at byte {position}")


def signed(value: int) -> int:
    """Convert the varint of an ``int32`` or ``int64`` field to a signed number."""
    return value - (1 << 64) if value >> 63 else value


def _expect(number: int, kind: int, wanted: int) -> None:
    if kind != wanted:
        raise ValueError(f"field {number} must be {_KINDS[wanted]}, not {_KINDS[kind]}")


# -- tf.train.Example --------------------------------------------------------------------------------------------------


def features(example: bytes) -> dict[bytes, memoryview]:
    """Return the encoded features of a ``tf.train.Example`` by key; :func:`values` decodes one.

    Raises
    ------
    ValueError
        If it is none.

    References
    ----------
    TensorFlow ``core/example/example.proto`` and ``feature.proto``.
    """
    found: dict[bytes, memoryview] = {}
    for inner in _messages(example, 1):  # Example.features
        for entry in _messages(inner, 1):  # Features.feature, a map
            key, feature = b"", memoryview(b"")
            for number, kind, value in fields(entry):
                if number == 1:
                    _expect(number, kind, BYTES)
                    key = bytes(value)
                elif number == 2:
                    _expect(number, kind, BYTES)
                    feature = value
            found[key] = feature
    return found


def values(feature: bytes | memoryview) -> Values:
    """Decode a ``tf.train.Feature``: a list of bytes, or an array (K,) of float32 or int64.

    Raises
    ------
    ValueError
        For a feature that holds no list, or is damaged.
    """
    found: Values | None = None
    for number, kind, value in fields(feature):
        if number in (1, 2, 3):
            _expect(number, kind, BYTES)
            found = (_bytes, _floats, _integers)[number - 1](value)
    if found is None:
        raise ValueError("holds no value")
    return found


def _messages(message: bytes | memoryview, wanted: int) -> Iterator[memoryview]:
    for number, kind, value in fields(message):
        if number == wanted:
            _expect(number, kind, BYTES)
            yield value


def _bytes(message: memoryview) -> list[bytes]:
    return [bytes(value) for value in _messages(message, 1)]


def _floats(message: memoryview) -> NDArray[Any]:
    """Decode a list of float32, packed or one field per value: writers may mix both."""
    parts = []
    for number, kind, value in fields(message):
        if number == 1:
            if kind == BYTES and len(value) % 4:
                raise ValueError(f"{len(value)} bytes are not a list of float32")
            if kind != BYTES:
                _expect(number, kind, FIXED32)
            parts.append(bytes(value))
    return np.frombuffer(b"".join(parts), "<f4").astype(np.float32)


def _integers(message: memoryview) -> NDArray[Any]:
    found: list[int] = []
    for number, kind, value in fields(message):
        if number == 1 and kind == BYTES:
            position = 0
            while position < len(value):
                item, position = _varint(value, position)
                found.append(signed(item))
        elif number == 1:
            _expect(number, kind, VARINT)
            found.append(signed(value))
    return np.array(found, np.int64)


# -- Caffe's Datum -----------------------------------------------------------------------------------------------------


def datum(message: bytes) -> tuple[bytes, int]:
    """Return encoded image and label of Caffe's ``Datum``.

    Raises
    ------
    ValueError
        If it holds raw pixels or no data, or is damaged.

    References
    ----------
    Caffe ``src/caffe/proto/caffe.proto``, message ``Datum``.
    """
    shape, data, label, encoded = [0, 0, 0], None, 0, False
    for number, kind, value in fields(message):
        if number in (1, 2, 3):
            _expect(number, kind, VARINT)
            shape[number - 1] = signed(value)
        elif number == 4:
            _expect(number, kind, BYTES)
            data = bytes(value)
        elif number == 5:
            _expect(number, kind, VARINT)
            (label,) = struct.unpack("<i", struct.pack("<I", value & 0xFFFFFFFF))
        elif number == 7:
            _expect(number, kind, VARINT)
            encoded = bool(value)
    if not encoded:
        raise ValueError(
            f"a Datum with raw pixels ({' x '.join(map(str, shape))}), not with an encoded image: "
            "write it with convert_imageset --encoded"
        )
    if data is None:
        raise ValueError("a Datum without data")
    return data, label
