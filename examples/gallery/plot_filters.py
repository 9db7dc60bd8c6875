"""
Filters
=======

Functions of a pixel and its neighbors. Geometry after a filter needs the filtered pixels, so such a chain takes more
than one pass.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_filters_3.jpg"
from pathlib import Path

import numpy as np

import gpuimg

photo = Path("../photos/cat.jpg")  # one of gpuimg's repository; take one of yours
x = gpuimg.resize(gpuimg.open_batch([photo] * 6), (160, 240))
x.take([0])

# %%
# Blur
# ----
# ``gaussian_blur`` takes the size of the kernel and sigma, each one number, ``(x, y)``, or an array of one for each
# image.

gpuimg.gaussian_blur(x, 19, np.array([0.5, 1.0, 1.5, 2.0, 3.0, 5.0]))

# %%
# ``motion_blur`` averages along a line with a length and an angle:

gpuimg.motion_blur(x, 15, [0, 30, 60, 90, 120, 150])

# %%
# Sharpness
# ---------
# A factor of 0 smooths, 1 returns the image itself, and more than 1 sharpens.

gpuimg.adjust_sharpness(x, [0.0, 0.5, 1.0, 2.0, 4.0, 8.0])

# %%
# JPEG artifacts
# --------------
# The pixels of the image after saving it as a JPEG, with a quality from 1 to 100:

gpuimg.jpeg(x, [1, 5, 10, 25, 50, 90])

# %%
# Random filters
# --------------
# Each has a random form. ``random_gaussian_blur`` draws sigma for each image:

gpuimg.random_gaussian_blur(x, 13, (0.1, 4.0), rng=0)
