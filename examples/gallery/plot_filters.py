"""
Filters
=======

Functions of a pixel and its neighbors. Geometry after a filter needs the filtered
pixels, so such a chain takes more than one pass.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_filters_3.jpg"
import numpy as np

import gpuimg

_, cat, _, _ = gpuimg.example_photos()
x = gpuimg.resize(gpuimg.open_batch([cat] * 6), (160, 240))
x.take([0])

# %%
# Blur
# ----
# ``gaussian_blur`` takes the size of the kernel and sigma, each one number, ``(x, y)``,
# or an array of one for each image.

gpuimg.gaussian_blur(x, 19, np.array([0.5, 1.0, 1.5, 2.0, 3.0, 5.0]))

# %%
# ``motion_blur`` averages along a line with a length and an angle:

gpuimg.motion_blur(x, 15, [0, 30, 60, 90, 120, 150])

# %%
# ``box_blur`` is the mean of a square:

gpuimg.box_blur(x, np.array([1, 3, 5, 9, 15, 25]))

# %%
# ``median_blur`` removes specks and keeps edges. It takes squares of 3, 5 or 7 pixels:

gpuimg.median_blur(x, [3, 3, 5, 5, 7, 7])

# %%
# ``morphology`` erodes (the least value of a window), dilates (the greatest), opens or
# closes:

gpuimg.morphology(x, "erode", np.array([1, 3, 5, 7, 9, 11]))

# %%
gpuimg.morphology(x, "close", np.array([1, 3, 5, 9, 15, 25]), "ellipse")

# %%
# Your own kernels
# ----------------
# ``filter2d`` takes a kernel, or one for each image: here those of embossing from six
# directions.

turned = np.deg2rad(np.arange(0, 360, 60))
directions = np.stack([np.sin(turned), np.cos(turned)])
away = np.mgrid[-1:2, -1:2].transpose(1, 2, 0) @ directions
kernels = away.transpose(2, 0, 1)
kernels[:, 1, 1] = 1
gpuimg.filter2d(x, kernels)

# %%
# ``laplacian`` finds edges:

gpuimg.laplacian(x.take([0]))

# %%
# ``emboss`` makes one of them, mixed with the image:

gpuimg.emboss(x, [0.2, 0.4, 0.6, 0.8, 1.0, 1.0], [0.5, 0.5, 0.5, 0.5, 0.2, 1.0])

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
