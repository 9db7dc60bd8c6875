"""Training on a folder for each class, with the structure of examples/imagenet/main.py of PyTorch's repository."""

import argparse
import os

import torch.distributed.nn.functional  # imported later, its defaults would hold the process group
import torch
import torch.distributed as dist
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("--batch-size", default=4, type=int)
parser.add_argument("--workers", default=4, type=int)
args = parser.parse_args()
args.world_size = int(os.environ.get("WORLD_SIZE", 1))
args.distributed = args.world_size > 1
if args.distributed:
    dist.init_process_group("gloo")
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.AvgPool2d(16), torch.nn.Flatten(), torch.nn.Linear(3 * 14 * 14, 10)).to(device)
if args.distributed:
    model = torch.nn.parallel.DistributedDataParallel(model)
criterion = torch.nn.CrossEntropyLoss().to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.01)

traindir, valdir = os.path.join(args.data, "train"), os.path.join(args.data, "val")
normalize = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])

train_dataset = datasets.ImageFolder(
    traindir,
    transforms.Compose([
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        normalize,
    ]))

val_dataset = datasets.ImageFolder(
    valdir,
    transforms.Compose([
        transforms.Resize(256),
        transforms.CenterCrop(224),
        transforms.ToTensor(),
        normalize,
    ]))

if args.distributed:
    train_sampler = torch.utils.data.distributed.DistributedSampler(train_dataset)
    val_sampler = torch.utils.data.distributed.DistributedSampler(val_dataset, shuffle=False, drop_last=True)
else:
    train_sampler = None
    val_sampler = None

train_loader = torch.utils.data.DataLoader(
    train_dataset, batch_size=args.batch_size, shuffle=(train_sampler is None),
    num_workers=args.workers, pin_memory=True, sampler=train_sampler)

val_loader = torch.utils.data.DataLoader(
    val_dataset, batch_size=args.batch_size, shuffle=False,
    num_workers=args.workers, pin_memory=True, sampler=val_sampler)


def run_validate(loader):
    count = correct = 0
    for i, (images, target) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        with torch.no_grad():
            correct += int((model(images).argmax(1) == target).sum())
        count += images.size(0)
    return torch.tensor([correct, count])


def validate():
    total = run_validate(val_loader)
    if args.distributed:
        dist.all_reduce(total)
    if args.distributed and (len(val_loader.sampler) * args.world_size < len(val_loader.dataset)):
        rest = range(len(val_loader.sampler) * args.world_size, len(val_loader.dataset))
        aux_val_dataset = torch.utils.data.Subset(val_loader.dataset, rest)
        aux_val_loader = torch.utils.data.DataLoader(aux_val_dataset, batch_size=args.batch_size)
        total += run_validate(aux_val_loader)
    return total


for epoch in range(args.epochs):
    if args.distributed:
        train_sampler.set_epoch(epoch)
    seen = 0
    for i, (images, target) in enumerate(train_loader):
        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += images.size(0)
    correct, count = validate().tolist()
    if os.environ.get("RANK", "0") == "0":
        print(f"epoch {epoch}: {seen} samples in {len(train_loader)} batches, validated {count} of {len(val_loader.dataset)}")

if args.distributed:
    dist.barrier()  # a rank that ends earlier closes the connections of the others
    del model, optimizer, loss  # they hold the process group, whose threads would run until the interpreter ends
    dist.destroy_process_group()
