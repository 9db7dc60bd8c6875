"""
What was drawn, and again
=========================

A batch knows what it recorded: in words, as a file, and for other images.
"""

# sphinx_gallery_thumbnail_number = 2
import tempfile
from pathlib import Path

import numpy as np

import gpuimg

photos = [Path("../photos") / name for name in ("cat.jpg", "coffee.jpg", "astronaut.jpg", "rocket.jpg", "retina.jpg")]
x = gpuimg.random_resized_crop(gpuimg.open_batch(photos), 160, rng=0)
x = gpuimg.random_rotation(x, 30, "bilinear", rng=1)
x = gpuimg.color_jitter(x, 0.4, 0.4, 0.4, 0.1, rng=2)
x

# %%
# In words
# --------

gpuimg.describe(x, 0)

# %%
# As a file
# ---------
# ``save_plan`` writes what was recorded, without the images; ``apply_plan`` sends others of the same sizes through it.

path = Path(tempfile.mkdtemp()) / "plan.npy"
gpuimg.save_plan(x, path)
plan = gpuimg.load_plan(path)
again = gpuimg.apply_plan(plan, gpuimg.open_batch(photos))
print("the same pixels:", np.array_equal(again.array(), x.array()))

# %%
# Other images of the same sizes, here the photos inverted:

gpuimg.apply_plan(plan, gpuimg.invert(gpuimg.open_batch(photos)).compute())

# %%
# Again by seed
# -------------
# What a sample gets depends on the seed, the epoch and its index: sample 2 alone, without the batch it was in.

train = gpuimg.presets.imagenet_train(160)
train(gpuimg.open_batch(photos), gpuimg.Rng(seed=0, epoch=3, indices=range(5)))

# %%
train(gpuimg.open_batch(photos[2:3]), gpuimg.Rng(seed=0, epoch=3, indices=[2]))
