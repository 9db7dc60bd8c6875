"""
Policies and presets
====================

Policies choose among other functions for each image, and draw their strengths. Presets
are published recipes: functions of a batch and a random number generator.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_policies_4.jpg"
import gpuimg

images = gpuimg.open_batch(gpuimg.example_photos())
x = gpuimg.resize(images, (160, 160))
x

# %%
# RandAugment
# -----------
# A number of random operations, at one magnitude.

gpuimg.rand_augment(x, num_ops=2, magnitude=9, rng=0)

# %%
# TrivialAugment, AutoAugment
# ---------------------------

gpuimg.trivial_augment(x, rng=3)

# %%
gpuimg.auto_augment(x, "imagenet", rng=0)

# %%
# 3-Augment
# ---------
# One of gray, solarize and blur, from DeiT III.

gpuimg.three_augment(x, rng=2)

# %%
# timm's policies
# ---------------
# RandAugment, AugMix, AutoAugment and 3-Augment in timm's notation, with its operations
# and strengths.

gpuimg.timm_augment(x, "rand-m9-mstd0.5-inc1", rng=0)

# %%
# AugMix
# ------
# AugMix mixes several chains of operations with the image. It computes at once, so the
# operations are not listed.

gpuimg.augmix(x, severity=10, rng=0)

# %%
# Presets
# -------
# Each returns a function of images and a ``gpuimg.Rng`` or a seed. These pictures are
# shown without normalization.

gpuimg.presets.imagenet_train(160)(images, 0)

# %%
# For evaluation: resized to 184 pixels, then the middle 160.

gpuimg.presets.imagenet_eval(160, 184)(images, 0)

# %%
gpuimg.presets.deit3_train(160)(images, 0)

# %%
# timm's ``create_transform`` for training.

train = gpuimg.presets.timm_train(
    160,
    auto_augment="rand-m9-mstd0.5-inc1",
    re_prob=0.5,
    re_mode="pixel",
)
train(images, 0)

# %%
gpuimg.presets.clip_train(160)(images, 0)

# %%
gpuimg.presets.siglip_train(160)(images, 0)

# %%
gpuimg.presets.simclr(160)(images, 0)

# %%
# For detectors. With boxes, the preset also crops around them.

gpuimg.presets.ssd_train(160)(images, 0)
