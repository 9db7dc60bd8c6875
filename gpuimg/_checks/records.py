"""Classes of values that are made for every batch."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def record(cls: type[_Class]) -> type[_Class]:
    """Make an immutable dataclass whose objects equal themselves only.

    A type checker refuses changes of a field. Python would check each field of each object that is made.
    """
    return dataclass(eq=False)(cls)
