"""
Mixing images
=============

Functions of several images. They compute their inputs when they are called, in float32,
and mix them in a separate pass.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_mixing_3.jpg"
import numpy as np

import gpuimg

x = gpuimg.resize(gpuimg.open_batch(gpuimg.example_photos()), (160, 160))
x

# %%
# MixUp
# -----
# Each image is blended with the one before it, with a weight from Beta(alpha, alpha).

mix = gpuimg.mixup(x, alpha=0.8, rng=2)
print("weights", mix.weight.round(2), "partners", mix.partner)
mix.images

# %%
# Labels are mixed with the same weights.

print(mix.labels(np.arange(4), num_classes=4).round(2))

# %%
# CutMix
# ------
# A rectangle of random size from the other image replaces a part of each image.

mix = gpuimg.cutmix(x, alpha=1.0, rng=2)
print("weights", mix.weight.round(2))
mix.images

# %%
# The partner may be chosen:

gpuimg.cutmix(x, alpha=1.0, rng=2, partner=[2, 2, 0, 2]).images

# %%
# Mosaic
# ------
# Four images around a random point, for detectors. The result also has ``boxes``,
# ``labels`` and ``masks``.

gpuimg.mosaic(x, 160, rng=0).images

# %%
# Copy and paste
# --------------
# Objects of another image, cut out by their masks, are pasted on each image. Here each
# image has one object, an ellipse:

rows, columns = np.mgrid[:160, :160]
ellipse = ((rows - 80) / 60) ** 2 + ((columns - 80) / 35) ** 2 < 1
masks = np.repeat(ellipse[None], 4, 0).astype(np.uint8)
gpuimg.copy_paste(x, masks, share=1.0, rng=0).images

# %%
# Blend
# -----
# With given weights and rectangles.

gpuimg.blend(x, x, [1.0, 0.75, 0.5, 0.25], partner=[1, 2, 3, 0])

# %%
gpuimg.blend(x, x, 1.0, partner=[1, 2, 3, 0], rectangle=[(40, 40, 120, 120)] * 4)
