"""An excerpt of timm's train.py: its data and a short loop, with the flags that concern the data."""

import argparse

import timm
import torch
from timm.data import create_dataset, create_loader, resolve_data_config
from timm.utils import AverageMeter

parser = argparse.ArgumentParser()
parser.add_argument("--data-dir")
parser.add_argument("--train-split", default="train")
parser.add_argument("--val-split", default="validation")
parser.add_argument("--class-map", default="")
parser.add_argument("--batch-size", default=4, type=int)
parser.add_argument("--validation-batch-size", default=None, type=int)
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("--seed", default=42, type=int)
parser.add_argument("--no-aug", action="store_true")
parser.add_argument("--train-crop-mode", default=None)
parser.add_argument("--scale", type=float, nargs="+", default=[0.08, 1.0])
parser.add_argument("--ratio", type=float, nargs="+", default=[3 / 4, 4 / 3])
parser.add_argument("--hflip", default=0.5, type=float)
parser.add_argument("--vflip", default=0.0, type=float)
parser.add_argument("--color-jitter", default=0.4, type=float)
parser.add_argument("--color-jitter-prob", default=None, type=float)
parser.add_argument("--grayscale-prob", default=0.0, type=float)
parser.add_argument("--gaussian-blur-prob", default=0.0, type=float)
parser.add_argument("--aug-repeats", default=0, type=int)
parser.add_argument("--aug-splits", default=0, type=int)
parser.add_argument("--aa", default=None)
parser.add_argument("--reprob", default=0.0, type=float)
parser.add_argument("--remode", default="pixel")
parser.add_argument("--recount", default=1, type=int)
parser.add_argument("--train-interpolation", default="random")
parser.add_argument("--no-prefetcher", action="store_true")
args = parser.parse_args()
args.prefetcher = not args.no_prefetcher
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

model = timm.create_model("resnet10t", num_classes=10, in_chans=3).to(device)
data_config = resolve_data_config({"input_size": (3, 64, 64)}, model=model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)

dataset_train = create_dataset("", root=args.data_dir, split=args.train_split, class_map=args.class_map)
dataset_eval = create_dataset("", root=args.data_dir, split=args.val_split, class_map=args.class_map)

loader_train = create_loader(
    dataset_train,
    input_size=data_config["input_size"],
    batch_size=args.batch_size,
    is_training=True,
    no_aug=args.no_aug,
    re_prob=args.reprob,
    re_mode=args.remode,
    re_count=args.recount,
    train_crop_mode=args.train_crop_mode,
    scale=args.scale,
    ratio=args.ratio,
    hflip=args.hflip,
    vflip=args.vflip,
    color_jitter=args.color_jitter,
    color_jitter_prob=args.color_jitter_prob,
    grayscale_prob=args.grayscale_prob,
    gaussian_blur_prob=args.gaussian_blur_prob,
    auto_augment=args.aa,
    interpolation=args.train_interpolation,
    mean=data_config["mean"],
    std=data_config["std"],
    num_aug_repeats=args.aug_repeats,
    num_aug_splits=args.aug_splits,
    use_prefetcher=args.prefetcher,
    device=device,
)

loader_eval = create_loader(
    dataset_eval,
    input_size=data_config["input_size"],
    batch_size=args.validation_batch_size or args.batch_size,
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
