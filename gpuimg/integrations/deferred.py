"""Images of which only the shape is computed at first: tensors that record how they are resized, cut and normalized.

A processor of transformers runs on them as on others. The pixels of all images come in one call at its end, or as
soon as a function needs them that is not recorded: that function gets the pixels, so that every result is torch's.
"""

import math
from collections import UserDict
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
import torch
from torch.nn.functional import interpolate
from torch.nn.functional import pad as pad_sides

from .._batch.batch import Batch, as_batch
from .._batch.frameworks import as_tensor
from .._ops.pixels import normalize
from .._ops.resize_crop import crop, pad, resize

EXACT: Final = "torch"  # the rule of the backend "torchvision", whose classes are extended

#: A step: its name and what it shares with others, and numbers of its own.
_Step: TypeAlias = tuple[tuple[Any, ...], tuple[int, ...]]
_FILTERS = ("bilinear", "bicubic", "lanczos")


class Chain(NamedTuple):
    """One result: an image, and the steps from it."""

    image: int
    steps: tuple[_Step, ...] = ()

    def kind(self) -> tuple[tuple[Any, ...], ...]:
        """Return what chains that are computed together have in common."""
        return tuple(shared for shared, _ in self.steps)


class Images:
    """The images of one call, and what is still to be done with them."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.is_decoded = False
        self.needed: list[Deferred] = []
        self.calls: list[tuple[Any, Any, Any, Any]] = []  # functions that take results: arguments, and what they return

    def tensors(self) -> "list[Deferred]":
        """Return the images as tensors (3, H, W)."""
        return [Deferred(self, (3, *size), [Chain(i)]) for i, size in enumerate(self.batch.sizes.tolist())]

    def compute(self, is_last: bool = False) -> None:
        """Compute all results that are needed so far, those of one kind in one call; then run the functions."""
        if not (self.needed or self.calls):
            return
        kinds: dict[Any, list[tuple[int, int]]] = {}
        for d, one in enumerate(self.needed):
            for c, chain in enumerate(one.chains or ()):
                kinds.setdefault(chain.kind(), []).append((d, c))
        used = [i for rows in kinds.values() for i in {self.needed[d].chains[c].image for d, c in rows}]
        if used and not self.is_decoded and (not is_last or len(set(used)) < len(used)):
            self.batch, self.is_decoded = as_batch(self.batch.compute("uint8")), True  # once, in parallel
        parts: list[list[Any]] = [[None] * len(one.chains) for one in self.needed]
        for rows in kinds.values():
            pixels = self._replayed([self.needed[d].chains[c] for d, c in rows])
            if len({d for d, _ in rows}) == 1 and len(rows) == len(parts[rows[0][0]]):
                self.needed[rows[0][0]].pixels = pixels.reshape(self.needed[rows[0][0]].shape)
            for (d, c), one in zip(rows, pixels, strict=True):
                parts[d][c] = one
        for one, part in zip(self.needed, parts, strict=True):
            if one.pixels is None:
                one.pixels = (torch.stack(part) if len(part) > 1 else part[0]).reshape(one.shape)
        for func, args, kwargs, wanted in self.calls:
            _assign(wanted, func(*_mapped(args, attrgetter("pixels")), **_mapped(kwargs, attrgetter("pixels"))))
        self.needed, self.calls = [], []

    def _replayed(self, chains: list[Chain]) -> Any:
        """Return the results (3, H, W) of chains of one kind, in one tensor where they have one size."""
        kind = chains[0].kind()
        x = self.batch.take([chain.image for chain in chains])
        if all(name != "resize" for name, *_ in kind):  # known as bytes, which normalize() divides as torch does
            x = resize(x, x.sizes, exact=EXACT)
        for k, (name, *shared) in enumerate(kind):
            x = _REPLAYED[name](x, np.array([chain.steps[k][1] for chain in chains]), *shared)
        dtype: Any = "float32" if kind and kind[-1][0] in ("normalize", "scale") else "uint8"
        if x.is_uniform:
            return as_tensor(x.array(dtype, "NCHW"))
        return [as_tensor(one) for one in x.compute(dtype, "NCHW")]


_REPLAYED: dict[str, Callable[..., Batch]] = {
    "resize": lambda x, to, kind: resize(x, to, kind, exact=EXACT),
    "crop": lambda x, window: crop(x, *window.T),
    "pad": lambda x, sides, value: pad(x, sides, value),
    "normalize": lambda x, _, mean, std: normalize(x, mean, std),
    "scale": lambda x, _: x,  # float32 results are bytes times float32(1 / 255)
}


class Deferred(torch.Tensor):  # type: ignore[misc]
    """Results (..., 3, H, W) that are not computed yet, bytes or normalized; or what a function returns for them."""

    images: Images
    chains: list[Chain]
    pixels: torch.Tensor | None
    meta: torch.Tensor | None
    known_shape: torch.Size
    known_dtype: torch.dtype

    # Without a call of __torch_function__ for each.
    shape: Any = property(lambda self: self.known_shape)
    ndim: Any = property(lambda self: len(self.known_shape))
    dtype: Any = property(lambda self: self.known_dtype)

    @staticmethod
    def __new__(
        cls, images: Images, shape: Sequence[int], chains: list[Chain], dtype: Any = torch.uint8, meta: Any = None
    ) -> Self:
        """Return the results of chains, (..., 3, H, W) with as many as there are chains; or of a function."""
        strides = None if meta is None else meta.stride()
        made: Self = torch.Tensor._make_wrapper_subclass(cls, tuple(shape), strides=strides, dtype=dtype)
        made.images, made.chains, made.pixels, made.meta = images, chains, None, meta
        made.known_shape, made.known_dtype = torch.Size(shape), dtype
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function: on the shape, as another step, or later."""
        kwargs = kwargs or {}
        if func in _OF_SHAPE:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        recorded = _RECORDED.get(func)
        found = NotImplemented if recorded is None else recorded(*args, **kwargs)
        return _called(func, args, kwargs) if found is NotImplemented else found

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function that torch calls by itself, on the pixels."""
        return func(*_mapped(args, Deferred.computed), **_mapped(kwargs or {}, Deferred.computed))

    def like(self, chains: list[Chain], shape: Sequence[int], dtype: Any = None) -> "Deferred":
        """Return other results of the same images."""
        return Deferred(self.images, shape, chains, dtype or self.dtype)

    def then(self, shared: tuple[Any, ...], numbers: tuple[int, ...], size: Sequence[int], dtype: Any = None) -> Any:
        """Return results with another step, of a height and width."""
        step = shared, numbers
        chains = [chain._replace(steps=(*chain.steps, step)) for chain in self.chains]
        return self.like(chains, (*self.shape[:-2], *size), dtype)

    def require(self) -> None:
        """Have the results computed with the others that are needed."""
        if self.chains and self.pixels is None and not any(one is self for one in self.images.needed):
            self.images.needed.append(self)

    def computed(self) -> torch.Tensor:
        """Return the pixels."""
        self.require()
        self.images.compute()
        assert self.pixels is not None
        return self.pixels

    def shaped(self) -> torch.Tensor:
        """Return a tensor of the shape alone."""
        if self.meta is None:
            self.meta = torch.empty(tuple(self.shape), dtype=self.dtype, device="meta")
        return self.meta

    @property
    def can_record(self) -> bool:
        """True for results that no function has taken, which may change them."""
        return bool(self.chains) and self.meta is None and self.pixels is None

    @property
    def is_bytes(self) -> bool:
        """True for results that can be resized and padded."""
        return self.can_record and self.dtype == torch.uint8


def _mapped(value: Any, of: Callable[[Deferred], Any], of_tensors: Callable[[Any], Any] = lambda one: one) -> Any:
    """Return a tree of arguments with something else for each tensor."""
    if isinstance(value, torch.Tensor):
        return of(value) if isinstance(value, Deferred) else of_tensors(value)
    if isinstance(value, (list, tuple)):
        return type(value)([_mapped(one, of, of_tensors) for one in value])
    if isinstance(value, UserDict):  # transformers' outputs
        found = copy(value)
        found.data = _mapped(value.data, of, of_tensors)
        return found
    return {key: _mapped(one, of, of_tensors) for key, one in value.items()} if isinstance(value, dict) else value


def _called(func: Any, args: Any, kwargs: Any) -> Any:
    """Return what a function will return, by the shapes; run it now where these do not say that."""
    given: list[Deferred] = []
    _mapped((args, kwargs), given.append)
    images = given[0].images
    name = getattr(func, "__name__", "")
    if name == "__setitem__" or (name.endswith("_") and not name.endswith("__")):
        _adopt(images, args[0])
    # On the device "meta" torch takes 0.2 s for the shape of a bicubic resize.
    if "out" not in kwargs and func is not interpolate:
        shapes = _mapped((args, kwargs), Deferred.shaped, lambda one: torch.empty_like(one, device="meta"))
        try:
            shaped = func(*shapes[0], **shapes[1])
        except Exception:  # of values, or an error that running it raises again
            pass
        else:
            for one in given:
                one.require()
            found = _mapped(shaped, lambda one: one, partial(_result, images, {id(one.meta): one for one in given}))
            images.calls.append((func, args, kwargs, found))
            return found
    for one in given:
        one.require()
    images.compute()
    return func(*_mapped(args, Deferred.computed), **_mapped(kwargs, Deferred.computed))


def _adopt(images: Images, tensor: Any) -> None:
    """Defer later operations on a tensor, because a result is to be written to it."""
    if not isinstance(tensor, Deferred):
        meta, pixels = torch.empty_like(tensor, device="meta"), tensor.view_as(tensor)
        tensor.__class__ = Deferred
        tensor.images, tensor.chains, tensor.meta, tensor.pixels = images, [], meta, pixels
        tensor.known_shape, tensor.known_dtype = pixels.shape, pixels.dtype


def _result(images: Images, given: dict[int, Deferred], shape: torch.Tensor) -> Deferred:
    """Return a result of a function, which may be one of its arguments."""
    return given[id(shape)] if id(shape) in given else Deferred(images, shape.shape, [], shape.dtype, shape)


def _assign(wanted: Any, found: Any) -> None:
    """Give results of functions their values."""
    if isinstance(wanted, Deferred):
        wanted.pixels = found
    elif isinstance(wanted, (list, tuple)):
        for one, value in zip(wanted, found, strict=True):
            _assign(one, value)


def resolved(images: Images, outputs: Any) -> Any:
    """Return a tree of outputs with pixels."""
    found: list[Deferred] = []
    _mapped(outputs, found.append)
    for one in found:
        one.require()
    images.compute(is_last=True)
    return _mapped(outputs, Deferred.computed)


# -- what is recorded --------------------------------------------------------------------------------------------------

# Each returns NotImplemented for what it does not record.


def _relaid(x: Any, shape: Sequence[int]) -> Any:
    """Return the same results in another shape, where images stay whole."""
    return x.like(x.chains, shape) if x.can_record and tuple(shape[-3:]) == x.shape[-3:] else NotImplemented


def _reshaped(x: Any, *shape: Any) -> Any:
    shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if not all(isinstance(size, int) for size in shape):
        return NotImplemented
    known = -int(np.prod(shape, dtype=np.int64))
    return _relaid(x, [x.numel() // known if size == -1 and known else size for size in shape])


def _unsqueezed(x: Any, dim: int) -> Any:
    at = dim + x.ndim + 1 if dim < 0 else dim
    return _relaid(x, (*x.shape[:at], 1, *x.shape[at:])) if at <= x.ndim - 3 else NotImplemented


def _squeezed(x: Any, dim: Any = None) -> Any:
    if dim != 0 or x.ndim < 4:
        return NotImplemented
    return _relaid(x, x.shape[1:] if x.shape[0] == 1 else x.shape)


def _joined(tensors: Any, dim: int, lead: Callable[[Any], Sequence[int]]) -> Any:
    first = tensors[0]
    same = all(
        isinstance(one, Deferred) and one.can_record and one.shape[1:] == first.shape[1:] and one.dtype == first.dtype
        for one in tensors
    )
    if dim != 0 or not same:
        return NotImplemented
    chains = [chain for one in tensors for chain in one.chains]
    return first.like(chains, (*lead(first), *first.shape[-3:]))


def _stacked(tensors: Any, dim: int = 0) -> Any:
    if len({tuple(one.shape) for one in tensors}) > 1:
        return NotImplemented
    return _joined(tensors, dim, lambda first: (len(tensors), *first.shape[:-3]))


def _concatenated(tensors: Any, dim: int = 0) -> Any:
    if any(one.ndim < 4 for one in tensors):
        return NotImplemented
    return _joined(tensors, dim, lambda first: (sum(one.shape[0] for one in tensors), *first.shape[1:-3]))


def _indexed(x: Any, index: Any) -> Any:
    """Take some of the results, or a window of each."""
    if type(index) is int and x.ndim == 4 and x.can_record:
        return x.like([x.chains[index]], x.shape[1:])
    index = index if isinstance(index, tuple) else (index,)
    if any(not isinstance(one, (int, slice)) and one is not Ellipsis for one in index) or not x.can_record:
        return NotImplemented
    if Ellipsis in index:
        at, more = index.index(Ellipsis), x.ndim - len(index) + 1
        index = (*index[:at], *[slice(None)] * more, *index[at + 1 :])
    index = (*index, *[slice(None)] * (x.ndim - len(index)))
    lead, (channels, *sides) = index[:-3], index[-3:]
    windows = [
        range(*side.indices(size)) if isinstance(side, slice) else range(0)
        for side, size in zip(sides, x.shape[-2:], strict=True)
    ]
    if channels != slice(None) or any(not window or window.step != 1 for window in windows):
        return NotImplemented
    rows = np.arange(len(x.chains)).reshape(x.shape[:-3])[lead]
    taken = x.like([x.chains[i] for i in rows.ravel().tolist()], (*rows.shape, *x.shape[-3:]))
    size = tuple(map(len, windows))
    if size == x.shape[-2:]:
        return taken
    if not x.is_bytes:
        return NotImplemented
    return taken.then(("crop",), (windows[0].start, windows[1].start, *size), size)


def _resized(
    x: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None,
    recompute_scale_factor: Any = None, antialias: bool = False,
) -> Any:  # fmt: skip
    known = isinstance(size, (list, tuple)) and mode in _FILTERS and antialias and not align_corners
    if not (known and x.is_bytes and scale_factor is None):
        return NotImplemented
    return x.then(("resize", mode), tuple(size), size)


def _padded(x: Any, sides: Any, mode: str = "constant", value: Any = None) -> Any:
    value = value or 0
    if len(sides) != 4 or min(sides) < 0 or mode != "constant" or not x.is_bytes or int(value) != value:
        return NotImplemented
    left, right, top, bottom = sides
    height, width = x.shape[-2:]
    return x.then(("pad", int(value)), (left, top, right, bottom), (height + top + bottom, width + left + right))


def _converted(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Return results that have the type and the place already."""
    wanted = [*args, *(value for key, value in kwargs.items() if key in ("dtype", "device"))]
    same = all(one in (x.dtype, "cpu", torch.device("cpu"), None) for one in wanted)
    return x if same and x.can_record and len(wanted) == len(args) + len(kwargs) else NotImplemented


def scaled(x: Any, factor: Any) -> Any:
    """Return values between 0 and 1."""
    is_usual = isinstance(factor, float) and x.is_bytes and math.isclose(factor, 1 / 255)
    return x.then(("scale",), (), x.shape[-2:], torch.float32) if is_usual else NotImplemented


def squared(x: Any, color: Any) -> Any:
    """Return results with a border that makes them squares."""
    height, width = x.shape[-2:]
    side = max(height, width)
    top, left = (side - height) // 2, (side - width) // 2
    shared = "pad", (color, 0, 0) if isinstance(color, int) else tuple(color)
    return x.then(shared, (left, top, side - width - left, side - height - top), (side, side))


def normalized(x: Any, mean: Any, std: Any) -> Any:
    """Return normalized results."""
    return x.then(("normalize", tuple(mean), tuple(std)), (), x.shape[-2:], torch.float32)


_T = torch.Tensor
_OF_SHAPE = {
    _T.shape.__get__, _T.ndim.__get__, _T.dtype.__get__, _T.device.__get__, _T.layout.__get__, _T.is_cuda.__get__,
    _T.requires_grad.__get__, _T.size, _T.dim, _T.numel, _T.stride, _T.is_contiguous, _T.is_floating_point, _T.__len__,
    torch.is_floating_point, torch.numel,
}  # fmt: skip
_RECORDED: dict[Any, Callable[..., Any]] = {
    _T.reshape: _reshaped,
    _T.view: _reshaped,
    _T.unsqueeze: _unsqueezed,
    torch.unsqueeze: _unsqueezed,
    _T.squeeze: _squeezed,
    torch.squeeze: _squeezed,
    _T.__getitem__: _indexed,
    _T.__iter__: lambda x: iter([x[i] for i in range(len(x))]),
    _T.contiguous: lambda x: _relaid(x, x.shape),
    _T.to: _converted,
    _T.mul: scaled,
    torch.stack: _stacked,
    torch.cat: _concatenated,
    interpolate: _resized,
    pad_sides: _padded,
}
