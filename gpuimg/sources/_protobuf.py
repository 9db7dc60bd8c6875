"""Classes of the protocol buffers that image data sets use, built from descriptors without generated files."""

from __future__ import annotations

from functools import cache
from typing import Any

from ._table import import_optional

# Name, number and type of each field; those of a list are repeated.
_OPTIONAL = {
    "Example": [("features", 1, "Features")],
    "Entry": [("key", 1, "BYTES"), ("value", 2, "Feature")],  # of Features.feature, a map; keys need not be UTF-8
    "Feature": [("bytes_list", 1, "BytesList"), ("float_list", 2, "FloatList"), ("int64_list", 3, "Int64List")],
    "Datum": [
        ("channels", 1, "INT32"), ("height", 2, "INT32"), ("width", 3, "INT32"), ("data", 4, "BYTES"),
        ("label", 5, "INT32"), ("encoded", 7, "BOOL"),
    ],
}  # fmt: skip
_REPEATED = {
    "Features": [("feature", 1, "Entry")],
    "BytesList": [("value", 1, "BYTES")],
    "FloatList": [("value", 1, "FLOAT")],
    "Int64List": [("value", 1, "INT64")],
}


@cache
def message_class(name: str) -> Any:
    """Return the class of ``tf.train.Example`` or of Caffe's ``Datum``.

    Raises
    ------
    ImportError
        Without protobuf, which the extra ``tfrecord`` installs.

    References
    ----------
    TensorFlow ``core/example/example.proto`` and ``feature.proto``. Caffe ``src/caffe/proto/caffe.proto``.
    """
    descriptors, pools, factory = (
        import_optional(f"google.protobuf.{module}", f"{name} messages", "protobuf", "tfrecord")
        for module in ("descriptor_pb2", "descriptor_pool", "message_factory")
    )
    file = descriptors.FileDescriptorProto(name="gpuimg.proto", package="gpuimg", syntax="proto2")
    for label, messages in (("LABEL_OPTIONAL", _OPTIONAL), ("LABEL_REPEATED", _REPEATED)):
        for message, fields in messages.items():
            oneof = {"oneof_index": 0} if message == "Feature" else {}
            added = file.message_type.add(name=message, oneof_decl=[{"name": "kind"}] if oneof else [])
            for field, number, of in fields:
                kind = {"type": f"TYPE_{of}"} if of.isupper() else {"type": "TYPE_MESSAGE", "type_name": of}
                added.field.add(name=field, number=number, label=label, **kind, **oneof)
    pool = pools.DescriptorPool()  # not the default one, in which TensorFlow registers its own
    pool.Add(file)
    return factory.GetMessageClass(pool.FindMessageTypeByName(f"gpuimg.{name}"))


def parsed(name: str, content: bytes) -> Any:
    """Parse a message.

    Raises
    ------
    ValueError
        If it is none.
    """
    kind = message_class(name)
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(memoryview(content))  # files that are read together are arrays
    except DecodeError as error:
        raise ValueError(f"no {name} message, or damaged: {error}") from error
