"""
Your own functions
==================

``pointwise`` takes a function compiled by Numba, and runs it on every pixel in the same
pass as everything else. Its arguments are the color (0 to 1), the row and column, and
one number for each image.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_user_functions_2.jpg"
import numba
import numpy as np

import gpuimg

_, _, coffee, _ = gpuimg.example_photos()
x = gpuimg.resize(gpuimg.open_batch([coffee] * 5), (160, 240))

# %%
# A vignette, stronger from image to image. On a GPU, float32 constants are faster.


@numba.njit
def vignette(r, g, b, y, x, strength):
    """Darken the corners."""
    dy = (y - np.float32(79.5)) / np.float32(80)
    dx = (x - np.float32(119.5)) / np.float32(120)
    keep = np.float32(1) - strength * (dx * dx + dy * dy)
    return r * keep, g * keep, b * keep


gpuimg.pointwise(x, vignette, [0.0, 0.2, 0.4, 0.6, 0.8])

# %%
# Rows and columns are those of the image at this point of the chain: a later rotation
# also rotates the lines that the function draws.


@numba.njit
def grid(r, g, b, y, x, step):
    """Draw white lines."""
    line = y % step < np.float32(2) or x % step < np.float32(2)
    white = np.float32(1)
    return (white, white, white) if line else (r, g, b)


y = gpuimg.pointwise(x, grid, [10, 20, 30, 40, 60])
gpuimg.rotate(y, [0, 10, 20, 30, 40], "bilinear")
