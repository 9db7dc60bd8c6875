"""The wire format, against the protobuf library; and any bytes."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuimg.sources._protobuf import datum, features, fields, signed, values

from .laws import assert_same, needs

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def messages() -> dict[str, Any]:
    """Classes of ``Datum``, ``Example`` and ``Feature``, from descriptors that are built here."""
    descriptor_pb2 = needs("google.protobuf.descriptor_pb2")
    pool = needs("google.protobuf.descriptor_pool").DescriptorPool()
    factory = needs("google.protobuf.message_factory")
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="records.proto", package="t", syntax="proto2")

    def message(name: str, *parts: tuple[str, int, str, str], packed: bool | None = None) -> None:
        kind = file.message_type.add(name=name)
        for part, number, label, type_ in parts:
            added = kind.field.add(name=part, number=number, label=getattr(field, f"LABEL_{label}"))
            added.type = getattr(field, f"TYPE_{type_}", field.TYPE_MESSAGE)
            if added.type == field.TYPE_MESSAGE:
                added.type_name = f".t.{type_}"
            if packed is not None:
                added.options.packed = packed

    message(
        "Datum",
        ("channels", 1, "OPTIONAL", "INT32"),
        ("height", 2, "OPTIONAL", "INT32"),
        ("width", 3, "OPTIONAL", "INT32"),
        ("data", 4, "OPTIONAL", "BYTES"),
        ("label", 5, "OPTIONAL", "INT32"),
        ("float_data", 6, "REPEATED", "FLOAT"),
        ("encoded", 7, "OPTIONAL", "BOOL"),
    )
    message("Bytes", ("value", 1, "REPEATED", "BYTES"))
    for suffix, packed in (("", True), ("Apart", False)):
        message(f"Floats{suffix}", ("value", 1, "REPEATED", "FLOAT"), packed=packed)
        message(f"Integers{suffix}", ("value", 1, "REPEATED", "INT64"), packed=packed)
        message(
            f"Feature{suffix}",
            ("bytes_list", 1, "OPTIONAL", "Bytes"),
            ("float_list", 2, "OPTIONAL", f"Floats{suffix}"),
            ("int64_list", 3, "OPTIONAL", f"Integers{suffix}"),
        )
    message("Entry", ("key", 1, "OPTIONAL", "STRING"), ("value", 2, "OPTIONAL", "Feature"))
    message("Features", ("feature", 1, "REPEATED", "Entry"))
    message("Example", ("features", 1, "OPTIONAL", "Features"))
    pool.Add(file)
    return {
        kind.name: factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{kind.name}")) for kind in file.message_type
    }


@pytest.fixture(scope="module")
def kinds() -> dict[str, Any]:
    return messages()


@given(label=st.integers(-(1 << 31), (1 << 31) - 1), data=st.binary(max_size=300), size=st.integers(0, 1 << 20))
def test_datum(kinds: dict[str, Any], label: int, data: bytes, size: int) -> None:
    written = kinds["Datum"](channels=3, height=size, width=7, data=data, label=label, encoded=True, float_data=[1.5])
    assert datum(written.SerializeToString()) == (data, label)


def test_datum_without_some_fields(kinds: dict[str, Any]) -> None:
    assert datum(kinds["Datum"](data=b"x", encoded=True).SerializeToString()) == (b"x", 0)
    raw = kinds["Datum"](channels=3, height=2, width=5, data=bytes(30), label=1)
    with pytest.raises(ValueError, match=r"raw pixels \(3 x 2 x 5\)"):
        datum(raw.SerializeToString())
    with pytest.raises(ValueError, match=r"raw pixels \(0 x 0 x 0\)"):
        datum(b"")
    with pytest.raises(ValueError, match="without data"):
        datum(kinds["Datum"](encoded=True).SerializeToString())
    with pytest.raises(ValueError, match="field 4 must be bytes, not a varint"):
        datum(bytes([4 << 3, 1]))


@pytest.mark.parametrize("suffix", ["", "Apart"])
@given(integers=st.lists(INT64), floats=st.lists(st.floats(width=32, allow_nan=False)))
def test_numbers_packed_or_not(kinds: dict[str, Any], suffix: str, integers: list[int], floats: list[float]) -> None:
    feature = kinds[f"Feature{suffix}"](int64_list={"value": integers})
    assert_same(values(feature.SerializeToString()), np.array(integers, np.int64))
    feature = kinds[f"Feature{suffix}"](float_list={"value": floats})
    assert_same(values(feature.SerializeToString()), np.array(floats, np.float32))


@pytest.mark.slow
@given(entries=st.dictionaries(st.text(max_size=9), st.lists(st.binary(max_size=40), min_size=1), max_size=6))
def test_example(kinds: dict[str, Any], entries: dict[str, list[bytes]]) -> None:
    written = [{"key": key, "value": {"bytes_list": {"value": value}}} for key, value in entries.items()]
    example = kinds["Example"](features={"feature": written}).SerializeToString()
    assert {key.decode(): values(value) for key, value in features(example).items()} == entries


def test_feature_without_a_value(kinds: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="holds no value"):
        values(kinds["Feature"]().SerializeToString())
    assert values(kinds["Feature"](bytes_list={}).SerializeToString()) == []


@given(INT64)
def test_signed(kinds: dict[str, Any], number: int) -> None:
    encoded = kinds["Integers"](value=[number]).SerializeToString()
    ((_, _, packed),) = fields(encoded)
    ((_, _, value),) = fields(b"\x08" + bytes(packed))
    assert signed(value) == number


@pytest.mark.parametrize(
    ("message", "match"),
    [
        (b"\x08", "ends in a number, at byte 1"),
        (b"\x08\x80", "ends in a number, at byte 2"),
        (b"\x08" + b"\x80" * 10 + b"\x01", "more than 10 bytes"),
        (b"\x0a\x05abc", "field 1 at byte 0 takes 5 bytes, but 3 are left"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "takes 18446744073709551615 bytes, but 0 are left"),
        (b"\x09abc", "field 1 at byte 0 takes 8 bytes, but 3 are left"),
        (b"\x0dabc", "field 1 at byte 0 takes 4 bytes, but 3 are left"),
        (b"\x08\x01\x0b", "field 1 of wire type 3 at byte 2"),
        (b"\x07", "wire type 7"),
        (b"\x00\x00", "field 0 of wire type 0"),
    ],
)
def test_damaged(message: bytes, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        list(fields(message))


def test_numbers_have_64_bits() -> None:
    assert list(fields(b"\x08" + b"\xff" * 9 + b"\x7f")) == [(1, 0, (1 << 64) - 1)]


def test_lists_of_the_wrong_kind() -> None:
    with pytest.raises(ValueError, match="field 1 must be bytes, not a varint"):
        values(bytes([0x0A, 2, 0x08, 1]))
    with pytest.raises(ValueError, match="3 bytes are not a list of float32"):
        values(bytes([0x12, 5, 0x0A, 3, 1, 2, 3]))
    with pytest.raises(ValueError, match="field 1 must be 4 bytes, not a varint"):
        values(bytes([0x12, 2, 0x08, 1]))
    with pytest.raises(ValueError, match="field 1 must be a varint, not 4 bytes"):
        values(bytes([0x1A, 5, 0x0D, 1, 2, 3, 4]))
    with pytest.raises(ValueError, match="ends in a number"):
        values(bytes([0x1A, 3, 0x0A, 1, 0x80]))


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    for read in (lambda: list(fields(data)), lambda: list(map(values, features(data).values())), lambda: datum(data)):
        with contextlib.suppress(ValueError):
            read()
    with contextlib.suppress(ValueError):
        values(data)


@given(data=st.data(), label=INT64, content=st.binary(max_size=30))
def test_every_cut_and_flip_of_an_example(
    kinds: dict[str, Any], data: st.DataObject, label: int, content: bytes
) -> None:
    written = [
        {"key": "image", "value": {"bytes_list": {"value": [content]}}},
        {"key": "label", "value": {"int64_list": {"value": [label, 1]}}},
    ]
    example = bytearray(kinds["Example"](features={"feature": written}).SerializeToString())
    position = data.draw(st.integers(0, len(example) - 1))
    cut = bytes(example[:position])
    example[position] ^= data.draw(st.integers(1, 255))
    for damaged in (cut, bytes(example)):
        with contextlib.suppress(ValueError):
            for feature in features(damaged).values():
                values(feature)
