"""
Describe, save and replay
=========================

The operations that a batch has recorded can be printed, saved to a file, and applied to other images.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_replay_1.jpg"
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
# As text
# -------

gpuimg.describe(x, 0)

# %%
# As a file
# ---------
# ``save_plan`` writes the recorded operations without the images; ``apply_plan`` applies them to others of the same
# sizes.

path = Path(tempfile.mkdtemp()) / "plan.npy"
gpuimg.save_plan(x, path)
plan = gpuimg.load_plan(path)
again = gpuimg.apply_plan(plan, gpuimg.open_batch(photos))
print("the same pixels:", np.array_equal(again.array(), x.array()))

# %%
# Other images of the same sizes, here the photos inverted:

gpuimg.apply_plan(plan, gpuimg.invert(gpuimg.open_batch(photos)).compute())

# %%
# From the seed
# -------------
# The draws of a sample depend on the seed, the epoch and its index. This reproduces sample 2 alone, without its batch.

train = gpuimg.presets.imagenet_train(160)
train(gpuimg.open_batch(photos), gpuimg.Rng(seed=0, epoch=3, indices=range(5)))

# %%
train(gpuimg.open_batch(photos[2:3]), gpuimg.Rng(seed=0, epoch=3, indices=[2]))
