"""Hints for unknown keyword arguments: names used by other libraries."""

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: What to use in place of a seek index, which gpuimg 0.3 had.
NO_INDEX = (
    'there are no seek indexes; crops of a data set from gpuimg.prepare(source, folder, recode=True) or restart="rows" '
    "are decoded in part, and draft= needs no other files"
)

#: Keywords of PyTorch's ``DataLoader`` and data sets, with the corresponding argument of ``load``.
LOAD_HINTS = {
    "num_workers": "the loader has threads instead of worker processes; set their numbers with readers= and decoders=",
    "workers": "the loader has threads instead of worker processes; set their numbers with readers= and decoders=",
    "transform": "pass a function (batch, rng) -> Batch as preprocess=",
    "transforms": "pass a function (batch, rng) -> Batch as preprocess=",
    "target_transform": "pass a function (batch, rng, labels) -> (images, labels) as preprocess=",
    "sampler": "shuffle=, indices=, weights= and repeats= choose and order the samples, and shard= splits them",
    "batch_sampler": "batches= takes lists of indices, or a function of the epoch: lambda epoch: list(batch_sampler)",
    "collate_fn": "batches are collated without it; a preprocess= function (batch, rng, labels) can change both",
    "pin_memory": "images are decoded on the device named by device=, and not copied there; gpuimg.torch.load has it",
    "prefetch_factor": "prefetch= is the number of batches prepared ahead",
    "persistent_workers": "the threads of a loop end with it, and the next loop starts new ones quickly",
    "worker_init_fn": "there are no worker processes; preprocess= gets its random numbers as second parameter",
    "generator": "seed= determines the order and all random numbers",
    "multiprocessing_context": "the loader has threads instead of worker processes",
    "timeout": "sources that read over a network have separate timeouts; see gpuimg.Remote",
    "rank": "pass shard=(rank, world)",
    "world_size": "pass shard=(rank, world)",
}

#: The same for functions that open or decode one batch, whose caller looks for a loader.
OPENING_HINTS = {name: f"in gpuimg.load, which prepares batches ahead, {hint}" for name, hint in LOAD_HINTS.items()}

#: Parameters that functions of gpuimg 0.2 and 0.3 had.
REMOVED = {"index": NO_INDEX, "resident": "its name is cache="}
#: And those that functions had that open files.
REMOVED_FROM_OPENING = {"index": NO_INDEX, "indices": NO_INDEX}


def explained(hints: Mapping[str, str]) -> Callable[[_Function], _Function]:
    """Add a hint to the TypeError for an unknown keyword: ``hints`` maps names to explanations; else, similar names."""

    def decorated(function: _Function) -> _Function:
        parameters = inspect.signature(function).parameters.values()
        takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
        known = {one.name for one in parameters}

        def similar(name: str) -> str:
            found = [] if takes_all else get_close_matches(name, known, 1, 0.8)
            return f"did you mean {found[0]}=?" if found else ""

        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            for name in () if kwargs.keys() <= known else kwargs:
                if name not in known and (hint := hints.get(name) or similar(name)):
                    raise TypeError(f"{function.__name__}() has no parameter {name!r}: {hint}")
            return function(*args, **kwargs)

        return cast(_Function, called)

    return decorated
