"""Training and evaluation with transformers' Trainer on a data set of Hugging Face with transforms."""

import argparse
import tempfile
from pathlib import Path

import datasets
import numpy as np
import torch
import transformers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
args = parser.parse_args()
classes = sorted({photo.parent.name for photo in (args.data / "train").rglob("*.jpg")})


def split(name):
    photos = sorted((args.data / name).rglob("*.jpg"))
    columns = {"image": list(map(str, photos)), "label": [classes.index(photo.parent.name) for photo in photos]}
    return datasets.Dataset.from_dict(columns)


dataset = datasets.DatasetDict({name: split(name) for name in ("train", "val")})
dataset = dataset.cast_column("image", datasets.Image())

from torchvision import transforms  # noqa: E402

train_transforms = transforms.Compose([
    transforms.RandomResizedCrop(32),
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
])
val_transforms = transforms.Compose([
    transforms.Resize(36),
    transforms.CenterCrop(32),
    transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
])


def preprocess_train(batch):
    batch["pixel_values"] = [train_transforms(image.convert("RGB")) for image in batch["image"]]
    return batch


def preprocess_val(batch):
    batch["pixel_values"] = [val_transforms(image.convert("RGB")) for image in batch["image"]]
    return batch


def collate_fn(examples):
    pixel_values = torch.stack([example["pixel_values"] for example in examples])
    labels = torch.tensor([example["label"] for example in examples])
    return {"pixel_values": pixel_values, "labels": labels}


config = transformers.ViTConfig(
    hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=8,
    num_labels=len(classes),
)
model = transformers.ViTForImageClassification(config)
training_args = transformers.TrainingArguments(
    tempfile.mkdtemp(), num_train_epochs=2, per_device_train_batch_size=4, report_to="none", save_strategy="no",
    remove_unused_columns=False, disable_tqdm=True, use_cpu=True, eval_strategy="epoch",
)


def compute_metrics(prediction):
    seen.append(len(prediction.label_ids))
    return {"accuracy": float(np.mean(prediction.predictions.argmax(1) == prediction.label_ids))}


seen = []
trainer = transformers.Trainer(
    model=model,
    args=training_args,
    train_dataset=dataset["train"].with_transform(preprocess_train),
    eval_dataset=dataset["val"].with_transform(preprocess_val),
    compute_metrics=compute_metrics,
    data_collator=collate_fn,
)
result = trainer.train()
print(f"{result.global_step} steps of {len(dataset['train'])} samples, evaluated {seen}")
