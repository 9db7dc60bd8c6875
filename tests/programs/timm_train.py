"""Training with the structure of timm's train.py."""

import argparse

import timm
import torch
from timm.data import create_dataset, create_loader, resolve_data_config
from timm.utils import AverageMeter

parser = argparse.ArgumentParser()
parser.add_argument("--data-dir")
parser.add_argument("--batch-size", default=4, type=int)
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("--seed", default=42, type=int)
parser.add_argument("--aug-repeats", default=0, type=int)
parser.add_argument("--aa", default=None)
parser.add_argument("--reprob", default=0.0, type=float)
parser.add_argument("--remode", default="pixel")
parser.add_argument("--train-interpolation", default="random")
parser.add_argument("--no-prefetcher", action="store_true")
args = parser.parse_args()
args.prefetcher = not args.no_prefetcher
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

model = timm.create_model("resnet10t", num_classes=10, in_chans=3).to(device)
data_config = resolve_data_config({"input_size": (3, 64, 64)}, model=model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)

dataset_train = create_dataset("", root=args.data_dir, split="train")
dataset_eval = create_dataset("", root=args.data_dir, split="val")

loader_train = create_loader(
    dataset_train,
    input_size=data_config["input_size"],
    batch_size=args.batch_size,
    is_training=True,
    re_prob=args.reprob,
    re_mode=args.remode,
    auto_augment=args.aa,
    interpolation=args.train_interpolation,
    mean=data_config["mean"],
    std=data_config["std"],
    num_aug_repeats=args.aug_repeats,
    use_prefetcher=args.prefetcher,
    device=device,
)

loader_eval = create_loader(
    dataset_eval,
    input_size=data_config["input_size"],
    batch_size=args.batch_size,
    is_training=False,
    interpolation=data_config["interpolation"],
    mean=data_config["mean"],
    std=data_config["std"],
    crop_pct=data_config["crop_pct"],
    use_prefetcher=args.prefetcher,
    device=device,
)

for epoch in range(args.epochs):
    if hasattr(loader_train.sampler, "set_epoch"):
        loader_train.sampler.set_epoch(epoch)
    losses = AverageMeter()
    for batch_idx, (input, target) in enumerate(loader_train):
        if not args.prefetcher:
            input, target = input.to(device), target.to(device)
        loss = torch.nn.functional.cross_entropy(model(input), target)
        losses.update(loss.item(), input.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    count = sum(input.size(0) for input, target in loader_eval)
    print(f"epoch {epoch}: {losses.count} samples in {len(loader_train)} batches, validated {count}")
