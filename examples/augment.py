"""Decode files to a normalized training batch, with random parameters for each image; needs only gpuimg and NumPy.

python examples/augment.py
"""

from pathlib import Path

import numpy as np

import gpuimg

photos = sorted(Path(__file__).parent.glob("photos/*.jpg"))

rng = np.random.default_rng(seed=0)
n = len(photos)

x = gpuimg.open_batch(photos)  # reads the headers; nothing is decoded yet
size = x.sizes.T  # heights and widths
height, width = (size * rng.uniform(0.5, 1.0, (2, n))).astype(int)
top, left = (rng.random((2, n)) * (size - (height, width) + 1)).astype(int)

x = gpuimg.resized_crop(x, top, left, height, width, (224, 224))
x = gpuimg.horizontal_flip(x, where=rng.random(n) < 0.5)
x = gpuimg.rotate(x, rng.uniform(-15, 15, n), interpolation="bilinear")
x = gpuimg.adjust_brightness(x, rng.uniform(0.7, 1.3, n))
x = gpuimg.adjust_contrast(x, rng.uniform(0.7, 1.3, n))
x = gpuimg.adjust_saturation(x, rng.uniform(0.7, 1.3, n))
x = gpuimg.adjust_hue(x, rng.uniform(-0.05, 0.05, n))
x = gpuimg.normalize(x, gpuimg.IMAGENET_MEAN, gpuimg.IMAGENET_STD)

y = x.array(dtype="float16", layout="NCHW")  # decodes the crops and does all of the above in one pass

print(f"{y.shape} {y.dtype} on {x.device}, mean {float(y.mean()):.2f}, {len(x.errors)} errors")
