"""Records of ``tf.train.Example``, a protocol buffer whose class is built from a descriptor."""

from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._formats import Format, import_optional
from ._reading import printable

Values: TypeAlias = list[bytes] | NDArray[Any]

# Messages of tf.train.Example: number and type of each field by its name; those of a list are repeated.
_MESSAGES = {
    "Example": {"features": (1, "Features")},
    "Features": {"feature": (1, "list of Entry")},  # a map
    "Entry": {"key": (1, "BYTES"), "value": (2, "Feature")},  # keys need not be UTF-8
    "Feature": {"bytes_list": (1, "BytesList"), "float_list": (2, "FloatList"), "int64_list": (3, "Int64List")},
    "BytesList": {"value": (1, "list of BYTES")},
    "FloatList": {"value": (1, "list of FLOAT")},
    "Int64List": {"value": (1, "list of INT64")},
}

_EXAMPLES = Format("Example messages", package="protobuf", extra="tfrecord")


@cache
def example_class() -> Any:
    """Return the class of ``tf.train.Example``.

    References
    ----------
    TensorFlow ``core/example/example.proto`` and ``feature.proto``.
    """
    descriptors, pools, factory = (
        import_optional(f"google.protobuf.{module}", _EXAMPLES)
        for module in ("descriptor_pb2", "descriptor_pool", "message_factory")
    )
    file = descriptors.FileDescriptorProto(name="gpuimg.proto", package="gpuimg", syntax="proto2")
    for message, fields in _MESSAGES.items():
        oneof = {"oneof_index": 0} if message == "Feature" else {}
        added = file.message_type.add(name=message, oneof_decl=[{"name": "kind"}] if oneof else [])
        for field, (number, of) in fields.items():
            *is_list, of = of.split("list of ")
            kind = {"type": f"TYPE_{of}"} if of.isupper() else {"type": "TYPE_MESSAGE", "type_name": of}
            label = "LABEL_REPEATED" if is_list else "LABEL_OPTIONAL"
            added.field.add(name=field, number=number, label=label, **kind, **oneof)
    pool = pools.DescriptorPool()  # not the default one, in which TensorFlow registers its own
    pool.Add(file)
    return factory.GetMessageClass(pool.FindMessageTypeByName("gpuimg.Example"))


class Keys(NamedTuple):
    """Names of the image and the label feature; an image of None means that the record itself is the image."""

    image: str | None
    label: str | None

    @classmethod
    def of(cls, image: str | None, label: str | None) -> "Keys":
        """Check the names; a record that is an image has no label."""
        for name, key in (("image", image), ("label", label)):
            if key is not None and not isinstance(key, str):
                raise TypeError(f"{name} must be the name of a feature, or None, not {key!r}")
        if image is None:
            return cls(None, None)
        example_class()  # raises the error of a missing library
        return cls(image, label)

    def sample(self, record: bytes) -> tuple[bytes, Any]:
        """Return image and label of a record; raise ValueError if it lacks one, listing what it has."""
        if self.image is None:
            return record, None
        from google.protobuf.message import DecodeError

        try:
            example = example_class().FromString(memoryview(record))  # records that are read together are arrays
        except DecodeError as error:
            raise ValueError(f"no Example message, or damaged: {error}") from error
        found = {entry.key: entry.value for entry in example.features.feature}
        images = _values(found, self.image)
        if not isinstance(images, list):
            raise ValueError(f"feature {self.image!r} must hold bytes, not {images.dtype}")
        if len(images) != 1:
            raise ValueError(f"feature {self.image!r} must hold one image, not {len(images)}")
        return images[0], None if self.label is None else _single(_values(found, self.label))


def _values(found: dict[bytes, Any], key: str) -> Values:
    try:
        feature = found[key.encode()]
    except KeyError:
        has = ", ".join(sorted(repr(printable(name)) for name in found)) or "none"
        raise ValueError(f"no feature {key!r}; it has {has}") from None
    kind = feature.WhichOneof("kind")
    if kind is None:
        raise ValueError(f"feature {key!r} holds no value")
    values = getattr(feature, kind).value
    return list(values) if kind == "bytes_list" else np.array(values, np.float32 if kind == "float_list" else np.int64)


def _single(several: Values) -> Any:
    """Return the only value of a feature; none or several values as they are."""
    if len(several) != 1:
        return several
    return several[0] if isinstance(several, list) else several[0].item()
