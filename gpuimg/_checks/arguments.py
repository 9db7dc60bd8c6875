"""Validation of arguments: errors are raised at the call, with the value given and the values allowed."""

import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..kernels import layout
from .types import Floats, Ints, Mask

_LARGEST = float(np.finfo(np.float64).max)
_LARGEST_WHOLE = 2**63 - 1  # int64's

_Kind = TypeVar("_Kind", bound=np.generic)


class Count(int):
    """Number of images in a batch of clips or images; a value given per clip applies to all its frames."""

    clips: int

    def __new__(cls, images: int, frames: int | None = None) -> Self:
        self = super().__new__(cls, images)
        self.clips = images // (frames or 1)
        return self


def _clips(n: int) -> int:
    """Return the number of clips among ``n`` images; for images, ``n``."""
    return n.clips if isinstance(n, Count) else n


def fits(array: Any, n: int) -> bool:
    """Return True if there is a row for each image, or for each clip."""
    return array.ndim > 0 and len(array) in (n, _clips(n))


def rows(array: NDArray[_Kind], n: int) -> NDArray[_Kind]:
    """Return rows for each image, from rows for each image or clip."""
    return array if len(array) == n else np.repeat(array, n // _clips(n), 0)


def for_each(array: NDArray[_Kind], n: int, dimensions: int) -> NDArray[_Kind] | None:
    """Return an array of ``dimensions`` for every image, or rows for each as they are; None if it is neither."""
    if array.ndim == dimensions:
        return np.broadcast_to(array, (n, *array.shape))
    return rows(array, n) if array.ndim == dimensions + 1 and fits(array, n) else None


def filled(n: int, value: int) -> Ints:
    """Return (N,) int64 of one value, as ``np.full`` does, by two calls of C in place of its Python code."""
    array = np.empty(n, np.int64)
    array.fill(value)
    return array


def shapes(n: int, *rest: int) -> str:
    """Return the shapes allowed for arrays with a row for each image, as text."""
    clips = _clips(n)
    return f"{(int(n), *rest)}" if clips == n else f"{(int(n), *rest)} or {(clips, *rest)}"


def each_shape(n: int, rest: str) -> str:
    """Return the shapes allowed for arrays of any size with a row for each image, as text."""
    clips = _clips(n)
    return f"({int(n)}, {rest})" if clips == n else f"({int(n)}, {rest}) or ({clips}, {rest})"


def _one_for(n: int, each: str, between: str) -> str:
    """Return the allowed shapes of one-dimensional arrays, and the meaning of their elements, as text."""
    clips = _clips(n)
    if clips == n:
        return f"({n},){between}one for each {each}"
    return f"({n},){between}one for each frame, or ({clips},){between}one for each clip"


def per_image(
    value: Any,
    n: int,
    name: str,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    whole: bool = False,
    each: str = "image",
) -> Floats:
    """Return a scalar or (N,) parameter as (N,) float64, finite and within ``[low, high]``."""
    is_plain = type(value) in (int, float) and max(low, -_LARGEST) <= value <= min(high, _LARGEST)
    if is_plain and (not whole or value == int(value)):  # most calls: no array is made of it to be checked
        array = np.empty(n)
        array.fill(value)
        return array
    array = numbers(value, name)
    if array.ndim > 1 or (array.ndim == 1 and not fits(array, n)):
        raise ValueError(
            f"{name} must be one number, or an array of shape {_one_for(n, each, ' with ')}, not of shape {array.shape}"
        )
    bad = ~_allowed(array, low, high, whole)
    if bad.any():
        where = f"{name}[{int(np.argmax(bad))}]" if array.ndim else name
        limits = _limits(low, high)
        kind = "a whole number" if whole else "a number" if limits else "a finite number"
        given = float(array[bad][0] if array.ndim else array)
        raise ValueError(f"{where} must be {kind}{limits}, not {shown(given)}")
    return rows(array, n) if array.ndim else np.full(n, array)


def _allowed(array: Floats, low: float, high: float, whole: bool) -> Any:
    """Return a mask of numbers that are finite, within ``[low, high]``, and integers if ``whole``."""
    good = (array >= max(low, -_LARGEST)) & (array <= min(high, _LARGEST))  # NaN is in no range
    return good & (array == np.rint(array)) if whole else good


def _limits(low: float, high: float) -> str:
    if high < np.inf:
        return f" from {shown(low)} to {shown(high)}"
    return f" of at least {shown(low)}" if low > -np.inf else ""


def shown(number: float) -> str:
    """Return a number as users write it: integers in full, without a point."""
    return str(int(number)) if abs(number) < 1e16 and number == round(number) else str(number)


def whole_number(value: Any, name: str, low: int = 1, high: int | None = None) -> int:
    """Return an integer within ``[low, high]``, from an int or a NumPy integer."""
    try:
        number = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = None
    if high is None and number is not None and number > _LARGEST_WHOLE:
        high = _LARGEST_WHOLE
    if number is None or number < low or (high is not None and number > high):
        limits = _limits(low, np.inf if high is None else high)
        raise ValueError(f"{name} must be a whole number{limits}, not {value!r}")
    return number


def sides(**values: Any) -> list[int]:
    """Return numbers along a side, in pixels or patches, by name: at most those of the largest image."""
    return [whole_number(value, name, high=layout.EXACT) for name, value in values.items()]


def crop_sides(size: Any, resize_size: Any) -> list[int]:
    """Return the sides of a crop and of the image that it is cropped from, which may not be smaller."""
    found = sides(size=size, resize_size=resize_size)
    if found[0] > found[1]:
        raise ValueError(f"size={size} is cropped from resize_size={resize_size}, so it must not be larger")
    return found


def areas(**values: Any) -> list[int]:
    """Return numbers of pixels or patches of an image by name: at most those of the largest one."""
    return [whole_number(value, name, high=layout.EXACT**2) for name, value in values.items()]


def number(value: Any, name: str, **limits: Any) -> float:
    """Return one number, finite and within limits."""
    if not is_single(value):
        raise ValueError(f"{name} must be one number, not {value!r}")
    return float(per_image(value, 1, name, **limits)[0])


def one_of(value: Any, name: str, allowed: Collection[str]) -> None:
    """Refuse a value that is not one of the strings that an option allows."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def _listed(words: Sequence[str]) -> str:
    """Return words in quotes, the last two joined by "or"."""
    quoted = [f'"{word}"' for word in words]
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def flag(value: Any, name: str) -> bool:
    """Return True or False, from a bool or a NumPy bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def numbers(value: Any, name: str) -> Floats:
    """Return a user's numbers as float64."""
    if hasattr(value, "__cuda_array_interface__"):
        raise TypeError(f"{name} must be on the host (a number or a NumPy array), not an array on a GPU")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be a number or an array of numbers, not {value!r}") from error
    if array.dtype.kind not in "iufb":
        raise TypeError(f"{name} must be a number or an array of numbers, not {value!r}")
    return array.astype(np.float64, "C")  # compiled loops take no other order


def finite(value: Any, name: str) -> Floats:
    """Return a user's numbers as float64; refuse infinities and NaN."""
    array = numbers(value, name)
    bad = array[~np.isfinite(array)]
    if bad.size:
        raise ValueError(f"{name} must be finite, not {float(bad.flat[0])!r}")
    return array


def is_single(value: Any) -> bool:
    """Return True for one number; False for a sequence, whose items may differ in length."""
    if type(value) in (int, float, str):
        return True
    return isinstance(value, bytes) or (not isinstance(value, Sequence) and np.ndim(value) == 0)


def unwrapped(value: Any) -> Any:
    """Return the item of a list or tuple of length 1, which torchvision accepts for a number; others unchanged."""
    alone = isinstance(value, (list, tuple)) and len(value) == 1 and is_single(value[0])
    return value[0] if alone else value


def one_for_each(value: Any, n: int, *widths: int) -> bool:
    """Return True for one number, or an array (N,) of one for each image.

    The meaning of an argument must not depend on the number of images, which may differ in the last batch. A list or
    tuple is therefore one value of several parts, of all images; the first axis of an array is that of the images. An
    array of as many numbers as there are parts, one of ``widths``, must be as long as the batch, see :func:`table`.
    """
    if is_single(value) or isinstance(value, Sequence):
        return is_single(value)
    return np.ndim(value) == 1 and (len(value) not in widths or fits(value, n))


def table(value: Any, n: int, widths: tuple[int, ...], name: str, parts: str) -> Floats:
    """Return an array of one row for each image, or for all, as (N, C), where C is one of ``widths``."""
    array = numbers(value, name)
    if array.ndim != 2 or array.shape[1] not in widths or not (fits(array, n) or len(array) == 1):
        allowed = " or ".join(shapes(n, width) for width in widths)
        hint = f"; write {parts} as a list or tuple, or as (1, {array.shape[-1]})" if array.shape[0] in widths else ""
        raise ValueError(f"{name} as an array must have shape {allowed}, not {array.shape}{hint}")
    return rows(array, n) if fits(array, n) else np.repeat(array, n, 0)


def pair(value: Any, n: int, name: str, parts: tuple[str, str], **limits: Any) -> Floats:
    """Return two parameters as (N, 2) float64: a tuple of two, each one number or (N,), or an array (N, 2)."""
    first, second = parts
    if not is_single(value) and not isinstance(value, Sequence):
        array = table(value, n, (2,), name, f"({first}, {second})")
        if _allowed(array, limits.get("low", -np.inf), limits.get("high", np.inf), limits.get("whole", False)).all():
            return array
        value = (array[:, 0], array[:, 1])  # let per_image raise the error for the wrong one
    if is_single(value) or len(value) != 2:
        each = not is_single(value) and len(value) == n
        hint = f"; to set it per image, pass a NumPy array of shape {shapes(n, 2)}" if each else ""
        raise ValueError(f"{name} must be ({first}, {second}), not {value!r}{hint}")
    if isinstance(value, list) and not (is_single(value[0]) or is_single(value[1])):
        # For two images, rows and columns could be confused.
        raise ValueError(
            f"{name} as a list must hold two numbers, not {value!r}; to set it per image, use a tuple "
            f"({first}, {second}) of ({n},) arrays, or a NumPy array of shape {shapes(n, 2)}"
        )
    return np.stack([per_image(v, n, f"{name} {part}", **limits) for v, part in zip(value, parts, strict=True)], 1)


def both(value: Any, n: int, name: str, parts: tuple[str, str], **limits: Any) -> Floats:
    """Extend :func:`pair`: one number, a list or tuple of one, or an array (N,) of one for each image, is both."""
    value = unwrapped(value)
    if not one_for_each(value, n, 2):
        return pair(value, n, name, parts, **limits)
    one = per_image(value, n, name, **limits)
    return np.stack([one, one], 1)


def low_high(value: Any, name: str, *, low: float = -np.inf, high: float = np.inf) -> tuple[float, float]:
    """Return a checked (low, high) range."""
    if type(value) is tuple and len(value) == 2 and type(value[0]) is type(value[1]) is float:
        first, last = value
        if max(low, -_LARGEST) <= first <= last <= min(high, _LARGEST):  # as in the defaults: no array
            return first, last
    if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, str) or len(value) != 2:
        raise ValueError(f"{name} must be (low, high), not {value!r}{_draw_hint(value)}")
    array = numbers(value, name) if all(map(is_single, value)) else np.empty((2, 0))
    first, last = array.tolist()
    if array.ndim != 1 or not (low <= first <= last <= high and -np.inf < first and last < np.inf):
        above = f"{shown(low)} <= " if low > -np.inf else ""
        below = f" <= {shown(high)}" if high < np.inf else ""
        raise ValueError(f"{name} must be (low, high) with {above}low <= high{below}, not {value!r}{_draw_hint(value)}")
    return first, last


def one_or_range(value: Any, name: str, **limits: float) -> tuple[float, float]:
    """Return the ends of a range, equal for one number."""
    return low_high((value, value) if is_single(value) else value, name, **limits)


def _draw_hint(value: Any) -> str:
    """Return what to write for a range of each image; an empty string for other values."""
    of_each = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str) and len(value) > 0
    if not of_each or (len(value) == 2 and all(map(is_single, value))):
        return ""
    return (
        "; one range is for all images: for a range of each, draw the values and pass them to the function that takes "
        "them, as in gpuimg.adjust_brightness(x, rng.uniform(low, high))"
    )


def low_high_of_each(value: Any, n: int, name: str, *, low: float, high: float) -> Floats:
    """Return a checked (low, high) range as (1, 2), or as (N, 2) where one of the limits is (N,) or the range is."""
    each_limit = isinstance(value, tuple) and len(value) == 2 and not all(map(is_single, value))
    if not each_limit and (isinstance(value, Sequence) or np.ndim(value) != 2):
        return np.array([low_high(value, name, low=low, high=high)])
    each = pair(value, n, name, ("low", "high"), low=low, high=high)
    reversed_ = each[:, 0] > each[:, 1]
    if np.any(reversed_):
        k = int(np.argmax(reversed_))
        raise ValueError(f"{name} must be (low, high) with low <= high, not {tuple(each[k].tolist())} for image {k}")
    return each


def whole_low_high(value: Any, name: str, low: int, high: int) -> tuple[int, int]:
    """Return a checked range of whole numbers, both limits included; one number stands for both."""
    few, most = (value, value) if is_single(value) else low_high(value, name)
    first = whole_number(_whole(few), name, low, high)
    return first, whole_number(_whole(most), name, first, high)


def _whole(value: Any) -> Any:
    """Convert a float without fraction to an int."""
    return int(value) if isinstance(value, float) and value == round(value) else value


def symmetric(value: Any, name: str) -> tuple[float, float]:
    """Return a checked (low, high) range; one number ``f`` stands for (-f, f)."""
    if not is_single(value):
        return low_high(value, name)
    most = number(value, name, low=0.0)
    return -most, most


def mask(where: Any, n: int) -> Mask | None:
    """Return ``where=`` as (N,) bool; None if it selects every image."""
    if where is None:
        return None
    array = np.asarray(where)
    if array.dtype != np.bool_:
        raise TypeError(f"where must be boolean, not {array.dtype}")
    if array.ndim > 1 or (array.ndim == 1 and not fits(array, n)):
        raise ValueError(f"where must have shape {_one_for(n, 'image', ', ')}, not {array.shape}")
    if array.all():
        return None
    return rows(array, n) if array.ndim else np.broadcast_to(array, (n,))


def sizes(size: Any, n: int, name: str = "size") -> Ints:
    """Return ``(height, width)``, each scalar or (N,), or one number for both, as (N, 2) int64 of at least 1."""
    both_sides = size if type(size) is tuple and len(size) == 2 else (size,)
    if all(type(one) is int and 1 <= one <= layout.EXACT for one in both_sides):
        new = np.empty((n, 2), np.int64)
        new[:] = size
        return new
    return both(size, n, name, ("height", "width"), low=1, high=layout.EXACT, whole=True).astype(np.int64)


def integers(value: Any, n: int, name: str, *, low: int = -layout.EXACT, high: int = layout.EXACT) -> Ints:
    """Return an integer parameter, scalar or (N,), as (N,) int64."""
    if type(value) is int and low <= value <= high:
        return filled(n, value)
    return per_image(value, n, name, low=low, high=high, whole=True).astype(np.int64)


def positions(value: Any, n: int, name: str, each: str = "image") -> Ints:
    """Return positions among ``n`` items, or a mask (n,) of items to keep, as (M,) int64."""
    array = np.asarray(value)
    if array.dtype == np.bool_ and array.shape == (n,):
        return np.flatnonzero(array)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(
            f"{name} must be one-dimensional integers, or ({n},) booleans, not {array.dtype} of shape {array.shape}"
        )
    wrong = (array < 0) | (array >= n)
    if np.any(wrong):
        raise IndexError(f"{name} has {array[np.argmax(wrong)]}, but the batch has {each}s 0 to {n - 1}")
    return array.astype(np.int64)


def color(value: Any, n: int, channels: int, unit: float, name: str = "fill") -> Floats:
    """Return a color as (N, 3), scale 0 to 1, of one number, C as a list or tuple, or an array with rows."""
    array = given = finite(unwrapped(value), name)
    listed, known = isinstance(value, Sequence), channels in (1, 3)
    if array.ndim == 1:  # only for images of one channel is a list not a color
        array = array[None] if listed and (channels == 3 or isinstance(value, tuple)) else array[:, None]
    if array.ndim == 0:
        return np.full((n, 3), float(array) * unit)
    columns = given.ndim == 2 and isinstance(value, tuple) and not isinstance(value[0], Sequence)
    widths = (1, channels) if known else (1,)
    if array.ndim == 2 and array.shape[1] in widths and (fits(array, n) or len(array) == 1) and not columns:
        return np.broadcast_to((rows(array, n) if fits(array, n) else array) * unit, (n, 3))
    of = "" if known else f" for images of {channels} channels"
    several = f", {channels} as a list or tuple" if channels == 3 else ""
    each = f"{shapes(n)} or {shapes(n, channels if known else 1)}, with a row for each image"
    hint = f"; for one color of all images, write {(1, channels)} or a tuple" if not listed and channels == 3 else ""
    raise ValueError(
        f"{name} must be one number{of}{several}, or an array of shape {each}, not of shape {given.shape}{hint}"
    )


_FILTERS = {
    "nearest": layout.NEAREST,
    "nearest-exact": layout.NEAREST,
    "bilinear": layout.LINEAR,
    "bicubic": layout.CUBIC_CLAMPED,
}
#: Filters that resize only, and only with ``antialias``.
RESIZING: Final = {"lanczos": layout.LANCZOS, "box": layout.BOX, "hamming": layout.HAMMING}
_ANTIALIASED = _FILTERS | {"bicubic": layout.CUBIC_RENORMALIZED} | RESIZING


def filters(value: Any, n: int, found: Callable[[Any], int]) -> Ints:
    """Return the kernels' filters (N,) of an interpolation, or of an array of them; ``found`` returns that of one."""
    if not isinstance(value, np.ndarray):
        return filled(n, found(value))
    if value.ndim != 1 or not fits(value, n):
        raise ValueError(
            f"interpolation must be one name, or an array of shape {_one_for(n, 'image', ' with ')}, not of shape "
            f"{value.shape}"
        )
    names, which = np.unique(value, return_inverse=True)
    return rows(np.array([found(name) for name in names.tolist()], np.int64)[which], n)


def interpolation(value: Any, *, antialias: bool | None = None) -> int:
    """Return the kernels' filter for an interpolation name, or for a member of torchvision's enum.

    ``antialias`` is that of a resize, None for other functions.
    """
    known = _ANTIALIASED if antialias is not None and flag(antialias, "antialias") else _FILTERS
    name = getattr(value, "value", value)
    if isinstance(name, str) and name in known:
        return known[name]
    hint = "; resizes with antialias=True have it" if isinstance(name, str) and name in RESIZING else ""
    allowed = _listed([one for one in known if one != "nearest-exact"])
    raise ValueError(f"interpolation must be {allowed}, not {value!r}{hint}")
