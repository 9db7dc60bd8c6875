"""
Mixing images
=============

Functions of several images. They compute their inputs when they are called, in float32, and mix them in a separate
pass.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_mixing_3.jpg"
from pathlib import Path

import numpy as np

import gpuimg

photos = [Path("../photos") / name for name in ("cat.jpg", "coffee.jpg", "astronaut.jpg", "rocket.jpg", "retina.jpg")]
x = gpuimg.resize(gpuimg.open_batch(photos), (160, 160))
x.take([0, 1, 2, 3, 4])

# %%
# MixUp
# -----
# Each image is blended with the one before it, by a weight drawn from Beta(alpha, alpha).

mix = gpuimg.mixup(x, alpha=0.8, rng=0)
print("weights", mix.weight.round(2), "partners", mix.partner)
mix.images

# %%
# Labels are mixed with the same weights.

print(mix.labels(np.arange(5), num_classes=5).round(2))

# %%
# CutMix
# ------
# A rectangle of the other image replaces a part of each image. Its share of the area is random.

mix = gpuimg.cutmix(x, alpha=1.0, rng=0)
print("weights", mix.weight.round(2))
mix.images

# %%
# The partner may be chosen:

gpuimg.cutmix(x, alpha=1.0, rng=0, partner=[2, 2, 0, 2, 2]).images

# %%
# Mosaic
# ------
# Four images around a random point, for detectors. The result also has ``boxes``, ``labels`` and ``masks``.

gpuimg.mosaic(x, 160, rng=0).images

# %%
# Copy and paste
# --------------
# Objects of another image, cut out by their masks, are pasted on each image. Here each image has one object, an
# ellipse:

rows, columns = np.mgrid[:160, :160]
ellipse = ((rows - 80) / 60) ** 2 + ((columns - 80) / 35) ** 2 < 1
gpuimg.copy_paste(x, np.repeat(ellipse[None], 5, 0).astype(np.uint8), share=1.0, rng=0).images

# %%
# Blend
# -----
# With given weights and rectangles.

gpuimg.blend(x, x, [1.0, 0.75, 0.5, 0.25, 0.0], partner=[1, 2, 3, 4, 0])

# %%
gpuimg.blend(x, x, 1.0, partner=[1, 2, 3, 4, 0], rectangle=[(40, 40, 120, 120)] * 5)
