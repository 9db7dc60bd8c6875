"""Train a small JAX network on several devices, with each batch divided among them.

python examples/train_jax.py [FOLDER]

On a machine without accelerators the CPU acts as two devices. The label of a photo is the first word of its name.
With several processes pass each its share: ``shard=(jax.process_index(), jax.process_count())``.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import gpuimg

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")  # of the CPU; read at the import

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    sys.exit('this example needs jax: pip install ".[jax]"')

SIZE = 32
EPOCHS = 20


def scores(weights: dict[str, Any], images: Any) -> Any:
    """Apply two convolutions, the mean over the image, and a linear layer."""
    layout = ("NHWC", "HWIO", "NHWC")
    for name in ("first", "second"):
        convolved = jax.lax.conv_general_dilated(images, weights[name], (2, 2), "SAME", dimension_numbers=layout)
        images = jax.nn.relu(convolved)
    return images.mean((1, 2)) @ weights["last"]


@jax.jit  # type: ignore[untyped-decorator]
def step(weights: dict[str, Any], images: Any, labels: Any) -> tuple[dict[str, Any], Any]:
    """Take one step of gradient descent; JAX sums the gradients of the devices."""

    def loss(weights: dict[str, Any]) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(scores(weights, images)), labels[:, None], 1).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient), value


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small JAX network on several devices.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "photos")
    photos = sorted(parser.parse_args().folder.glob("*.jpg"))
    if not photos:
        sys.exit("no .jpg files in that folder")
    source = gpuimg.file_list(photos, [photo.stem.split("_")[0] for photo in photos], classes=True)

    devices = jax.devices()
    mesh = jax.sharding.Mesh(devices, ("batch",))
    divided = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = {"first": (3, 3, 3, 16), "second": (3, 3, 16, 32), "last": (32, len(source.classes))}
    weights = {
        name: 0.2 * jax.random.normal(key, shape) for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }

    train = gpuimg.presets.imagenet_train(SIZE)
    batch_size = 3 * len(devices)
    losses = []
    for batch in gpuimg.load(source, train, batch_size=batch_size, shuffle=True, epochs=EPOCHS, drop_last=True):
        images = jax.device_put(jax.dlpack.from_dlpack(batch.images), divided)
        weights, loss = step(weights, images, jax.device_put(batch.labels.astype("int32"), divided))
        losses.append(float(loss))
    per_epoch = max(len(losses) // EPOCHS, 1)
    print(f"{len(devices)} devices, batches of {batch_size}: {images.sharding.shard_shape(images.shape)} on each")
    print(f"loss {sum(losses[:per_epoch]) / per_epoch:.3f} -> {sum(losses[-per_epoch:]) / per_epoch:.3f}")


if __name__ == "__main__":
    main()
