"""Train under torchrun with two processes, stop, and resume with three; each sample is used once.

torchrun --standalone --nproc-per-node 2 examples/torchrun.py --stop-after 2 --checkpoint checkpoint.pt
torchrun --standalone --nproc-per-node 3 examples/torchrun.py --checkpoint checkpoint.pt

The label of a photo is the first word of its name. Each process uses its share of the machine's cores.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import gpuimg

try:
    import torch
    import torch.distributed.nn.functional  # imported later, its defaults would keep the process group and its threads
    from torch import distributed
except ImportError:
    sys.exit("this example needs torch: pip install torch")

SIZE = 64
EPOCHS = 2


def step(batch: gpuimg.LoadedBatch, network: Any, optimizer: Any) -> None:
    """Train on the valid samples; a rank whose batch is all padding still takes part in the sum of gradients."""
    images, labels = torch.from_dlpack(batch.images), torch.from_numpy(batch.labels)
    each = torch.nn.functional.cross_entropy(network(images), labels, reduction="none")
    optimizer.zero_grad()
    (each * torch.from_numpy(batch.valid)).mean().backward()
    optimizer.step()


def train(checkpoint: Path, stop_after: int | None) -> None:
    photos = sorted(Path(__file__).parent.glob("photos/*.jpg"))
    source = gpuimg.file_list(photos, [photo.stem.split("_")[0] for photo in photos], classes=True)
    rank, world = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.AvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(3 * (SIZE // 8) ** 2, len(source.classes))
    )
    loader = gpuimg.load(  # shard="auto", the default: this process's share, from torchrun's variables
        source, gpuimg.presets.imagenet_train(SIZE), batch_size=2, layout="NCHW", shuffle=True, epochs=EPOCHS
    )
    if checkpoint.exists():
        states = torch.load(checkpoint)
        network.load_state_dict(states["network"])
        loader.load_state_dict(states["loader"])
    network = torch.nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)

    seen: list[int] = []
    for count, batch in enumerate(loader, 1):
        step(batch, network, optimizer)
        seen += batch.indices[batch.valid].tolist()
        if count == stop_after:
            break  # every rank has the same number of batches
    if rank == 0:  # the position is that of all ranks
        torch.save({"network": network.module.state_dict(), "loader": loader.state_dict()}, checkpoint)
    samples = " ".join(map(str, seen))
    print(f"rank {rank} of {world} had samples {samples}\n", end="", flush=True)  # in one write: ranks share the output


def main() -> None:
    parser = argparse.ArgumentParser(description="Train in several processes, stop, and resume.")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--stop-after", type=int, help="batches of each process")
    options = parser.parse_args()
    distributed.init_process_group("gloo")  # "nccl" on GPUs, with device=f"cuda:{LOCAL_RANK}" in train
    train(options.checkpoint, options.stop_after)
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
