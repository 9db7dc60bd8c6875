"""
First steps
===========

From files to training batches. A link at the end downloads the page as a notebook.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_0_first_steps_3.jpg"
import numpy as np

import gpuimg

photos = gpuimg.example_photos() * 3  # paths of four photos, each three times

# %%
# A batch
# -------
# ``open_batch`` reads headers; nothing is decoded yet. Sizes are heights and widths.

x = gpuimg.open_batch(photos)
print(x)
print(x.sizes[:3])

# %%
# A notebook shows the first images of a batch, and decodes only these.

x

# %%
# Record, then compute
# --------------------
# Functions only record. Each parameter is one number, or one for each image.

y = gpuimg.resize(x, (160, 160))
y = gpuimg.rotate(y, np.linspace(-40, 40, 12), "bilinear")
y = gpuimg.adjust_saturation(y, np.linspace(0, 2, 12))
y

# %%
# ``array`` decodes and runs all operations in one pass. Results are uint8, float16,
# bfloat16 or float32, NHWC or NCHW.

pixels = y.array(dtype="float16", layout="NCHW")
print(type(pixels).__name__, pixels.shape, pixels.dtype)

# %%
# Random functions
# ----------------
# They draw for each image from a ``gpuimg.Rng``. The draws depend only on the seed, the
# epoch and the sample's index in the data set.


def augment(x, rng):
    """Apply a random crop, a flip and a change of colors."""
    x = gpuimg.random_resized_crop(x, 160, rng=rng)
    x = gpuimg.random_horizontal_flip(x, rng=rng)
    return gpuimg.color_jitter(x, 0.4, 0.4, 0.4, 0.1, rng=rng)


augment(x, gpuimg.Rng(seed=0, epoch=0, indices=range(12)))

# %%
# The next epoch draws other values.

y = augment(x, gpuimg.Rng(seed=0, epoch=1, indices=range(12)))
y

# %%
# The operations on the first of these images, as text:

gpuimg.describe(y, 0)

# %%
# A training loop
# ---------------
# ``load`` reads, decodes and augments ahead of the loop, on threads. A source is a
# folder of classes, a list of files with labels, shards of tar files, and more.

source = gpuimg.file_list(photos, labels=range(12))
loader = gpuimg.load(
    source,
    augment,
    batch_size=4,
    layout="NCHW",
    dtype="float32",
    shuffle=True,
)
for batch in loader:
    print(batch.images.shape, batch.labels)

# %%
# ``torch.from_dlpack(batch.images)`` shares the memory, as JAX and TensorFlow do.
#
# Files that cannot be decoded
# ----------------------------
# They raise an error that names each of them, or are replaced by black images:

damaged = photos[0].read_bytes()[:5000]
z = gpuimg.open_batch([photos[0], damaged, b"no image"], on_error="fill")
z

# %%
for failure in z.compute().errors.values():
    print(failure)
