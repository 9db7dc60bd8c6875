"""Records that are a ``tf.train.Example``, or just an image."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._names import printable
from ._protobuf import message_class, parsed

Values: TypeAlias = "list[bytes] | NDArray[Any]"


class Keys(NamedTuple):
    """Names of the image and the label feature; an image of None means that the record itself is the image."""

    image: str | None
    label: str | None

    @classmethod
    def of(cls, image: str | None, label: str | None) -> Keys:
        """Check the names; a record that is an image has no label."""
        for name, key in (("image", image), ("label", label)):
            if key is not None and not isinstance(key, str):
                raise TypeError(f"{name} must be the name of a feature, or None, not {key!r}")
        if image is None:
            return cls(None, None)
        message_class("Example")  # raises the error of a missing library
        return cls(image, label)

    def sample(self, record: bytes) -> tuple[bytes, Any]:
        """Return image and label of a record.

        Raises
        ------
        ValueError
            If the record is not an example, or lacks one of the features (listing those it has).
        """
        if self.image is None:
            return record, None
        found = {entry.key: entry.value for entry in parsed("Example", record).features.feature}
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
