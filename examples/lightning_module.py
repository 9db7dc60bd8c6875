"""A Lightning data module with `gpuimg.load`, stopped in the middle of an epoch and resumed from its checkpoint.

python examples/lightning_module.py [FOLDER]

The label of a photo is the first word of its name.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

try:
    import lightning
    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint

    import gpuimg.torch
except ImportError:
    sys.exit("this example needs Lightning: pip install lightning")

SIZE = 64
EPOCHS = 4


class Photos(lightning.LightningDataModule):  # type: ignore[misc]  # Lightning is not type-checked here
    """The photos of a folder. Lightning's checkpoints contain the loader's position."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        photos = sorted(folder.glob("*.jpg"))
        self.source = gpuimg.file_list(photos, [photo.stem.split("_")[0] for photo in photos], classes=True)
        self.loader: Any = None

    def setup(self, stage: str) -> None:
        trainer: Any = self.trainer
        self.loader = gpuimg.torch.load(
            self.source,
            gpuimg.presets.imagenet_train(SIZE),
            batch_size=4,
            shuffle=True,
            shard=(trainer.global_rank, trainer.world_size),  # Lightning's own launcher sets no RANK
        )

    def train_dataloader(self) -> Any:
        return self.loader

    def val_dataloader(self) -> Any:
        trainer: Any = self.trainer
        evaluate = gpuimg.presets.imagenet_eval(SIZE)
        shard = trainer.global_rank, trainer.world_size
        return gpuimg.torch.load(self.source, evaluate, batch_size=5, shard=shard)

    def state_dict(self) -> dict[str, Any]:
        return dict(self.loader.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state)


class Classifier(lightning.LightningModule):  # type: ignore[misc]
    """A small network that records its training samples."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.network = torch.nn.Sequential(
            torch.nn.AvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(3 * (SIZE // 8) ** 2, classes)
        )
        self.seen: list[int] = []

    def training_step(self, batch: gpuimg.torch.TensorBatch, _: int) -> Any:
        self.seen += batch.indices[batch.valid].tolist()
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.network(images), labels)

    def validation_step(self, batch: gpuimg.torch.TensorBatch, _: int) -> None:
        right, valid = self.network(batch.images).argmax(1) == batch.labels, batch.valid
        # The padding of a rank is not counted.
        self.log("right", right[valid].float().mean(), batch_size=max(int(valid.sum()), 1), sync_dist=True)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def trainer(**options: Any) -> Any:
    """Return a trainer on the CPU without output."""
    return lightning.Trainer(
        max_epochs=EPOCHS, accelerator="cpu", devices=1, use_distributed_sampler=False, num_sanity_val_steps=0,
        logger=False, enable_progress_bar=False, enable_model_summary=False, **options,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Train with Lightning, stop, and resume.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "photos")
    folder = parser.parse_args().folder
    data = Photos(folder)
    lightning.seed_everything(0)
    first, second = (Classifier(len(data.source.classes)) for _ in range(2))
    with tempfile.TemporaryDirectory() as place:
        checkpoints = ModelCheckpoint(place, every_n_train_steps=4)
        trainer(callbacks=[checkpoints], max_steps=4).fit(first, datamodule=data)  # an epoch has 3
        resumed = trainer(enable_checkpointing=False)
        resumed.fit(second, datamodule=Photos(folder), ckpt_path=checkpoints.best_model_path)  # as after a restart
    print(f"{resumed.global_step} steps, stopped and resumed after 4")
    print("samples:", *first.seen, *second.seen)
    print(f"{float(resumed.callback_metrics['right']):.0%} right")


if __name__ == "__main__":
    main()
