"""Which share of the samples this process has, as its launcher says."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

# (rank, world size) by launcher: torchrun and Accelerate; a Slurm job step; Open MPI; MPICH and Intel MPI. Outside a
# step, in an sbatch script, SLURM_NTASKS speaks of tasks that are not this process's peers.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def as_shard(shard: Any) -> tuple[int, int]:
    """Rank and world size of what the user passed: a pair, or "auto".

    Raises
    ------
    ValueError
        For a rank that is not below the world size, and for anything else.
    """
    if shard == "auto":
        for rank_name, world_name in _LAUNCHERS:
            if rank_name in os.environ and world_name in os.environ:
                return _checked(os.environ[rank_name], os.environ[world_name], f"{rank_name} and {world_name}")
        return 0, 1
    if isinstance(shard, str) or not isinstance(shard, Sequence) or len(shard) != 2:
        raise ValueError(f'shard must be (rank, world) or "auto", not {shard!r}')
    return _checked(shard[0], shard[1], "shard")


def _checked(rank: Any, world: Any, where: str) -> tuple[int, int]:
    try:
        pair = int(rank), int(world)
    except (TypeError, ValueError):
        pair = -1, 0
    if not 0 <= pair[0] < pair[1]:
        raise ValueError(f"{where} must be a rank from 0 to world - 1 and a world size, not {rank!r} and {world!r}")
    return pair
