"""
Several views of an image
=========================

``Batch.take`` returns a batch that may contain an image several times. Each image is
decoded once, and only the region that its views read. ``Rng.views`` draws separately
for each view.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_views_3.jpg"
import numpy as np

import gpuimg

_, cat, coffee, _ = gpuimg.example_photos()
x = gpuimg.open_batch([cat, coffee])
rng = gpuimg.Rng(seed=0, epoch=0, indices=[0, 1])

# %%
# Three views of each photo: the first of both photos, then the second, then the third.

views = x.take(np.tile([0, 1], 3))
gpuimg.random_resized_crop(views, 160, scale=(0.1, 0.6), rng=rng.views(3))

# %%
# Two views for contrastive learning:

gpuimg.presets.simclr_train(160)(x, rng)

# %%
# DINO's two large views and, here, four small ones:

batch = gpuimg.presets.dino_train(160, 96, 4)(x, rng)
large, small = batch.arrays(layout="NCHW")
print(large.shape, small.shape)
batch

# %%
# DINOv3's have another size for each of the two large views, which the Gram teacher
# gets without distortions:

batch = gpuimg.presets.dinov3_train(160, 96, 2, gram_size=200)(x, rng)
print([part.shape for part in batch.arrays(layout="NCHW")])
batch
