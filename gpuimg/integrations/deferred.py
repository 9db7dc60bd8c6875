"""Images of which only the shape is computed at first: tensors that record how they are resized, cut and normalized.

A processor of transformers runs on them as on others. The pixels of all images come in one call at its end, or as
soon as a function needs them that is not recorded: that function gets the pixels, so that every result is torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.nn.functional import interpolate
from torch.nn.functional import pad as pad_sides

from .._batch.batch import Batch, as_batch
from .._batch.frameworks import as_tensor
from .._checks.types import Ints
from .._ops.pixels import normalize
from .._ops.resize_crop import crop, pad, resize

EXACT = "torch"  # the rule of the backend "torchvision", whose classes are extended

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
    """The images of one call, decoded once: at its end, or before where a function needs pixels."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.is_decoded = False

    def tensors(self) -> list[Deferred]:
        """Return the images as tensors (3, H, W)."""
        return [Deferred(self, [Chain(i)], (3, *size)) for i, size in enumerate(self.batch.sizes.tolist())]

    def decode(self) -> None:
        """Decode all images, in parallel."""
        if not self.is_decoded:
            self.batch, self.is_decoded = as_batch(self.batch.compute("uint8")), True

    def computed(self, chains: Sequence[Chain]) -> torch.Tensor:
        """Return results of one size (N, 3, H, W)."""
        kinds: dict[Any, list[int]] = {}
        for i, chain in enumerate(chains):
            kinds.setdefault(chain.kind(), []).append(i)
        parts = [self._replayed([chains[i] for i in rows]) for rows in kinds.values()]
        if len(parts) == 1:
            return parts[0]
        found = torch.cat(parts)
        order = torch.tensor([i for rows in kinds.values() for i in rows])
        return found[torch.argsort(order)]

    def _replayed(self, chains: list[Chain]) -> torch.Tensor:
        kind = chains[0].kind()
        x = self.batch.take([chain.image for chain in chains])
        if all(name != "resize" for name, *_ in kind):  # known as bytes, which normalize() divides as torch does
            x = resize(x, x.sizes, exact=EXACT)
        for k, (name, *shared) in enumerate(kind):
            x = _REPLAYED[name](x, np.array([chain.steps[k][1] for chain in chains]), *shared)
        return as_tensor(x.array(layout="NCHW"))


_REPLAYED: dict[str, Callable[..., Batch]] = {
    "resize": lambda x, to, filter: resize(x, to, filter, exact=EXACT),
    "crop": lambda x, window: crop(x, *window.T),
    "pad": lambda x, sides, value: pad(x, sides, value),
    "normalize": lambda x, _, mean, std: normalize(x, mean, std),
}


class Deferred(torch.Tensor):
    """Results (..., 3, H, W) that are not computed yet: bytes, or normalized."""

    images: Images
    chains: list[Chain]
    pixels: torch.Tensor | None

    @staticmethod
    def __new__(cls, images: Images, chains: list[Chain], shape: Sequence[int], dtype: Any = torch.uint8) -> Deferred:
        """Return the results of chains, (..., 3, H, W) with as many as there are chains."""
        made: Any = torch.Tensor._make_wrapper_subclass(cls, tuple(shape), dtype=dtype)
        made.images, made.chains, made.pixels = images, chains, None
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function: on the shape, as another step, or on the pixels."""
        kwargs = kwargs or {}
        if func in _OF_SHAPE:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        recorded = _RECORDED.get(func)
        found = NotImplemented if recorded is None else recorded(*args, **kwargs)
        return func(*_with_pixels(args), **_with_pixels(kwargs)) if found is NotImplemented else found

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function that torch calls by itself, on the pixels."""
        return func(*_with_pixels(args), **_with_pixels(kwargs or {}))

    def like(self, chains: list[Chain], shape: Sequence[int], dtype: Any = None) -> Deferred:
        """Return other results of the same images."""
        return Deferred(self.images, chains, shape, dtype or self.dtype)

    def then(self, shared: tuple[Any, ...], numbers: tuple[int, ...], size: Sequence[int], dtype: Any = None) -> Any:
        """Return results with another step, of a height and width."""
        step = shared, numbers
        chains = [chain._replace(steps=(*chain.steps, step)) for chain in self.chains]
        return self.like(chains, (*self.shape[:-2], *size), dtype)

    def computed(self) -> torch.Tensor:
        """Return the pixels."""
        if self.pixels is None:
            self.images.decode()
            self.pixels = self.images.computed(self.chains).reshape(self.shape)
        return self.pixels

    @property
    def can_record(self) -> bool:
        """True before pixels were needed: they may have been changed since."""
        return self.pixels is None

    @property
    def is_bytes(self) -> bool:
        """True for results that can be resized and padded."""
        return self.can_record and self.dtype == torch.uint8


def _with_pixels(value: Any) -> Any:
    if isinstance(value, Deferred):
        return value.computed()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_with_pixels, value))
    return {key: _with_pixels(one) for key, one in value.items()} if isinstance(value, dict) else value


def resolved(outputs: Any) -> Any:
    """Return a tree of outputs with pixels, those of one size in one call."""
    found: list[Deferred] = []

    def walk(value: Any) -> None:
        if isinstance(value, Deferred):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            for one in value:
                walk(one)

    for value in outputs.values():
        walk(value)
    sizes: dict[Any, list[Deferred]] = {}
    for one in found:
        if one.can_record:
            sizes.setdefault((one.shape[-2:], one.dtype), []).append(one)
    if len(sizes) > 1:
        next(iter(sizes.values()))[0].images.decode()
    for some in sizes.values():
        pixels = some[0].images.computed([chain for one in some for chain in one.chains])
        for one, part in zip(some, pixels.split([len(one.chains) for one in some]), strict=True):
            one.pixels = part.reshape(one.shape)
    return {name: _with_pixels(value) for name, value in outputs.items()}


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
    torch.stack: _stacked,
    torch.cat: _concatenated,
    interpolate: _resized,
    pad_sides: _padded,
}
