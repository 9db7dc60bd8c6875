"""
Policies and presets
====================

Policies choose among other functions for each image, and draw their strengths. Presets are published recipes: functions
of a batch and its random numbers, made of gpuimg's own.
"""

# sphinx_gallery_thumbnail_number = 6
from pathlib import Path

import gpuimg

photos = [Path("../photos") / name for name in ("cat.jpg", "coffee.jpg", "astronaut.jpg", "rocket.jpg", "retina.jpg")]
x = gpuimg.resize(gpuimg.open_batch(photos), (160, 160))
x.take([0, 1, 2, 3, 4])

# %%
# RandAugment
# -----------
# So many operations, at one magnitude.

gpuimg.rand_augment(x, num_ops=2, magnitude=9, rng=0)

# %%
gpuimg.rand_augment(x, num_ops=2, magnitude=25, rng=0)

# %%
# TrivialAugment, AutoAugment
# ---------------------------

gpuimg.trivial_augment(x, rng=0)

# %%
gpuimg.auto_augment(x, "imagenet", rng=0)

# %%
gpuimg.auto_augment(x, "svhn", rng=0)

# %%
# 3-Augment
# ---------
# One of gray, solarize and blur, of DeiT III.

gpuimg.three_augment(x, rng=1)

# %%
# AugMix
# ------
# Mixes several chains of operations with the image, so it computes at once, and what it mixed is not told.

gpuimg.augmix(x, severity=3, rng=0)

# %%
gpuimg.augmix(x, severity=10, rng=0)

# %%
# Presets
# -------
# Each returns a function of images and a ``gpuimg.Rng``. Normalizing is undone in these pictures.

images = gpuimg.open_batch(photos)
gpuimg.presets.imagenet_train(160)(images, gpuimg.Rng(0, epoch=0, indices=range(5)))

# %%
gpuimg.presets.imagenet_eval(160, 180)(images)

# %%
gpuimg.presets.deit3_train(160)(images, gpuimg.Rng(0, epoch=0, indices=range(5)))

# %%
gpuimg.presets.simclr(160)(images, gpuimg.Rng(0, epoch=0, indices=range(5)))

# %%
# For detectors; with boxes it also crops around them.

gpuimg.presets.ssd_train(160)(images, gpuimg.Rng(0, epoch=0, indices=range(5)))
