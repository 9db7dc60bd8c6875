"""Rank and world size of this process, from the environment variables of its launcher."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._checks.arguments import whole_number

# (rank, world size) by launcher: torchrun and Accelerate; a Slurm job step; Open MPI; MPICH and Intel MPI. Outside a
# step, in an sbatch script, SLURM_NTASKS counts tasks that are not peers of this process.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def as_shard(shard: Any) -> tuple[int, int]:
    """Return rank and world size for the ``shard`` argument: a pair, or "auto".

    Raises
    ------
    ValueError
        If the rank is not below the world size, the launcher sets a world size but no rank, or the argument is neither
        a pair nor "auto".
    """
    if isinstance(shard, str) and shard == "auto":
        return _launched()
    if isinstance(shard, (str, bytes)) or not isinstance(shard, (Sequence, np.ndarray)) or len(shard) != 2:
        raise ValueError(f'shard must be (rank, world) or "auto", not {shard!r}')
    return _checked(shard[0], shard[1], "the rank of shard", "the world size of shard")


def _launched() -> tuple[int, int]:
    """Return rank and world size of the first launcher that sets both; (0, 1) without one."""
    for rank, world in _LAUNCHERS:
        if rank in os.environ and world in os.environ:
            return _checked(_number(rank), _number(world), rank, world)
    if os.environ.get("WORLD_SIZE", "1") != "1":  # Lightning's launcher: every process would have all samples
        raise ValueError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but RANK, the number of this process, is not set: "
            "pass shard=(rank, world), in Lightning shard=(trainer.global_rank, trainer.world_size)"
        )
    return 0, 1


def _number(variable: str) -> Any:
    text = os.environ[variable]
    return int(text) if text.strip().isdecimal() else text


def _checked(rank: Any, world: Any, rank_name: str, world_name: str) -> tuple[int, int]:
    size = whole_number(world, world_name)
    return whole_number(rank, rank_name, 0, size - 1), size
