"""Train a classifier on a folder of images, on GPUs or a CPU, with a checkpoint after each epoch.

python train.py FOLDER
python train.py FOLDER --resume checkpoint.pt
torchrun --standalone --nproc-per-node 2 train.py FOLDER

FOLDER has the folders train and val, each with a subfolder for each class. --model is a network of torchvision.models;
without torchvision a small one is trained. Under torchrun, --batch-size is that of each process, which has its own GPU.
"""

import argparse
import math
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

import gpuimg.torch

try:
    from torchvision import models
except (ImportError, RuntimeError):  # not installed, or built for another version of torch
    models = None

RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))  # set by torchrun


def small_network(classes: int) -> Any:
    """Return a network of four convolutions, for images of any size."""
    layers: list[Any] = []
    for before, after in ((3, 32), (32, 64), (64, 128), (128, 256)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, classes))


def summed(values: Any) -> list[float]:
    """Return the sums of a tensor over all processes."""
    if WORLD > 1:
        distributed.all_reduce(values)
    return [float(value) for value in values.tolist()]


def train_epoch(network: Any, loader: gpuimg.torch.Loader, optimizer: Any, schedule: Any, scaler: Any) -> list[float]:
    """Train for one epoch; return the sum of the losses and the number of images."""
    network.train()
    sums: Any = 0.0  # a tensor on the device: no step waits for the GPU
    for images, labels in loader:
        with torch.autocast(images.device.type, torch.float16, enabled=images.is_cuda):
            loss = nn.functional.cross_entropy(network(images), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        sums = sums + torch.stack([loss.detach(), torch.ones_like(loss)]) * len(images)
    return summed(sums)


def accuracy(network: Any, loader: gpuimg.torch.Loader) -> float:
    """Return the share of images that are classified correctly."""
    network.eval()
    sums: Any = 0
    for batch in loader:
        images = batch.images
        with torch.no_grad(), torch.autocast(images.device.type, torch.float16, enabled=images.is_cuda):
            predicted = network(images).argmax(1)
        correct = (predicted == batch.labels) & batch.valid  # padding of the last batch is not valid
        sums = sums + torch.stack([correct.sum(), batch.valid.sum()])
    right, count = summed(sums)
    return right / count


def train(options: argparse.Namespace, device: Any) -> None:
    training, validation = gpuimg.folder(options.folder / "train"), gpuimg.folder(options.folder / "val")
    if training.classes != validation.classes:
        sys.exit("train and val have different classes")
    preset, size = gpuimg.presets.imagenet_train(options.size), options.batch_size
    loader = gpuimg.torch.load(training, preset, batch_size=size, shuffle=True, drop_last=True, device=device)
    preset = gpuimg.presets.imagenet_eval(options.size, options.size * 256 // 224)
    evaluation = gpuimg.torch.load(validation, preset, batch_size=size, device=device)
    if not len(loader):
        sys.exit(f"{len(training)} images are too few for a batch: choose a smaller --batch-size")
    name, classes, steps = options.model, len(training.classes), options.epochs * len(loader)
    network = small_network(classes) if name == "small" else models.get_model(name, num_classes=classes)
    optimizer = torch.optim.SGD(network.to(device).parameters(), options.lr, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 + math.cos(math.pi * step / steps)) / 2)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")  # of losses, for float16
    parts = {"network": network, "optimizer": optimizer, "schedule": schedule, "loader": loader}
    if options.resume:
        states = torch.load(options.resume, map_location=device, weights_only=True)
        for key, part in parts.items():
            part.load_state_dict(states[key])
    parallel = nn.parallel.DistributedDataParallel(network) if WORLD > 1 else network
    for epoch in range(loader.epoch, options.epochs):
        loss, images = train_epoch(parallel, loader, optimizer, schedule, scaler)
        stats, share = loader.stats(), accuracy(network, evaluation)
        if RANK == 0:
            rate, limit = WORLD * stats["images_per_second"], stats["limit"]
            print(f"epoch {epoch}: loss {loss / images:.3f}, accuracy {share:.1%}, {rate:.0f} images/s, limit {limit}")
            torch.save({key: part.state_dict() for key, part in parts.items()}, "checkpoint.pt")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a classifier on a folder of images.")
    parser.add_argument("folder", type=Path, help="has train and val, each with a subfolder for each class")
    parser.add_argument("--model", default="resnet18" if models else "small", help="of torchvision.models, or small")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--size", type=int, default=224, help="side of the images in pixels")
    parser.add_argument("--lr", type=float, default=0.05, help="initial learning rate; it falls to 0 along a cosine")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--resume", type=Path, metavar="CHECKPOINT")
    options = parser.parse_args()
    if options.model != "small" and not models:
        parser.error(f"--model {options.model} needs torchvision for this version of torch")
    if WORLD > 1:
        if options.device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        distributed.init_process_group("nccl" if options.device == "cuda" else "gloo")
    train(options, torch.device(options.device))
    if WORLD > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
