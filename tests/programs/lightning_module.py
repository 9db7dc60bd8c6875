"""Training with Lightning on a folder for each class."""

import argparse
import os

import lightning
import torch
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("data")
args = parser.parse_args()


class Data(lightning.LightningDataModule):
    def train_dataloader(self):
        transform = transforms.Compose([
            transforms.RandomResizedCrop(64),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ])
        dataset = datasets.ImageFolder(os.path.join(args.data, "train"), transform)
        return torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True, num_workers=4)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64 * 64, 10))

    def training_step(self, batch, index):
        images, labels = batch
        loss = torch.nn.functional.cross_entropy(self.network(images), labels)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.001)


trainer = lightning.Trainer(
    max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Model(), datamodule=Data())
print(f"{trainer.global_step} steps")
