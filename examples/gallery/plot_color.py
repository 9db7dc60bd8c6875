"""
Color
=====

Functions of single pixels. Parameters may differ from image to image; ``where`` selects
the images that change. Colors are from 0 to 255 in uint8 images, and from 0 to 1 in
floating point.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_color_5.jpg"
import numpy as np

import gpuimg

astronaut, *_ = gpuimg.example_photos()
x = gpuimg.resize(gpuimg.open_batch([astronaut] * 6), (160, 160))
x.take([0])

# %%
# Brightness, contrast, saturation, hue, gamma
# --------------------------------------------
# A factor of 1 changes nothing.

gpuimg.adjust_brightness(x, [0.2, 0.6, 1.0, 1.4, 1.8, 2.4])

# %%
gpuimg.adjust_contrast(x, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0])

# %%
gpuimg.adjust_saturation(x, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0])

# %%
# Hue is in turns of the color circle, from -0.5 to 0.5.

gpuimg.adjust_hue(x, [-0.4, -0.2, -0.05, 0.05, 0.2, 0.4])

# %%
# ``adjust_hsv`` also multiplies the saturation and the value of HSV.

saturation, value = [0.5, 1.0, 2.0] * 2, [0.6, 0.8, 1.0, 1.2, 1.4, 1.6]
gpuimg.adjust_hsv(x, [0.0] * 3 + [0.1] * 3, saturation, value)

# %%
gpuimg.adjust_gamma(x, [0.4, 0.7, 1.0, 1.5, 2.0, 3.0])

# %%
# Gray, inverted, fewer levels
# ----------------------------

gpuimg.rgb_to_grayscale(x, 3, where=[True, True, True, False, False, False])

# %%
gpuimg.invert(x, where=[True, True, True, False, False, False])

# %%
# Levels from the threshold on are inverted:

gpuimg.solarize(x, [0, 50, 100, 150, 200, 255])

# %%
gpuimg.solarize_add(x, [0, 20, 40, 60, 80, 100], 128)

# %%
gpuimg.posterize(x, [1, 2, 3, 4, 5, 6])

# %%
# Statistics of the image
# -----------------------
# ``autocontrast`` stretches each channel from black to white, ``equalize`` evens out
# its histogram. The inputs here are darker from image to image:

dark = gpuimg.adjust_brightness(x, [1.0, 0.8, 0.6, 0.4, 0.2, 0.1])
gpuimg.autocontrast(dark)

# %%
gpuimg.equalize(dark)

# %%
# Rectangles
# ----------
# ``erase`` paints one: row, column, height, width and color.

rows, columns = [0, 20, 40, 60, 80, 100], [100, 80, 60, 40, 20, 0]
colors = [[0] * 3, [255] * 3, [200, 60, 60], [60, 200, 60], [60, 60, 200], [128] * 3]
gpuimg.erase(x, rows, columns, [40, 50, 60, 40, 50, 60], 60, np.array(colors))

# %%
# ``grid_mask`` paints squares in the cells of a grid, which may be rotated and shifted.

gpuimg.grid_mask(x, 40, [0.2, 0.4, 0.6, 0.4, 0.4, 0.4], [0, 0, 0, 15, 30, 45])

# %%
# Contrast and curves
# -------------------
# ``clahe`` equalizes each part of the image, up to a limit:

gpuimg.clahe(x, [0.5, 1, 2, 4, 8, 16])

# %%
# ``lookup_table`` takes what each level becomes: here curves from negative to positive.

level = np.arange(256) / 255
slopes = np.linspace(-1, 1, 6)[:, None]
gpuimg.lookup_table(x, 255 * (0.5 + slopes * (level - 0.5))[:, :, None])

# %%
# Noise
# -----
# Normal noise from a seed for each image, the same on every device; ``erase`` takes
# ``"random"`` as a color.

gpuimg.gaussian_noise(x, 0.0, [0.02, 0.05, 0.1, 0.2, 0.3, 0.5], seed=range(6))

# %%
# ``salt_and_pepper`` turns pixels white or black, and ``shot_noise`` counts photons:
# fewer are more noise.

amounts, salt = [0.01, 0.05, 0.1, 0.2, 0.1, 0.1], [0.5, 0.5, 0.5, 0.5, 0.0, 1.0]
gpuimg.salt_and_pepper(x, amounts, salt, seed=range(6))

# %%
gpuimg.shot_noise(x, [2, 5, 20, 50, 200, 1000], seed=range(6))

# %%
# Weather
# -------
# ``fog`` mixes the image with a color, here more and there less. With black it is the
# shadow of clouds.

colors = np.repeat([[255], [0]], 3, 0)
gpuimg.fog(x, [0.2, 0.4, 0.6, 0.2, 0.4, 0.6], 60, colors, seed=range(6))

# %%
# ``rain`` draws streaks with a length, a width and an angle:

dim = gpuimg.adjust_brightness(x, 0.7)
lengths, widths = [12, 12, 12, 25, 25, 40], [1, 1, 1, 1, 2, 2]
angles = [0, 10, 20, -10, -30, 60]
gpuimg.rain(dim, [0.1, 0.3, 0.6, 0.3, 0.3, 0.3], lengths, widths, angles, seed=1)

# %%
# ``shadow`` multiplies what lies in a polygon, given by its corners:

corners = [(20, 160), (60, 40), (150, 80), (120, 160)]
gpuimg.shadow(x, corners, [0.2, 0.4, 0.6, 0.8, 1.2, 1.5])

# %%
# Channels
# --------
# ``color_matrix`` takes a row of weights for each channel, and perhaps a constant;
# ``rgb_shift`` adds a constant.

strength = np.linspace(-0.6, 0.6, 6)[:, None, None]
gpuimg.color_matrix(x, np.eye(3) + strength * [(0, 1, 0), (0, 0, 1), (1, 0, 0)])

# %%
shifts = [(60, 0, 0), (0, 60, 0), (0, 0, 60), (-60, 0, 0), (0, -60, 0), (0, 0, -60)]
gpuimg.rgb_shift(x, shifts)

# %%
# ``channel_dropout`` sets channels to a value.

channels = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1)]
gpuimg.channel_dropout(x, np.array(channels, bool))

# %%
orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
gpuimg.permute_channels(x, orders)

# %%
# Normalizing
# -----------
# ``(x - mean) / std``, with x from 0 to 1. The results cannot be displayed, so the
# images before it are shown.

y = gpuimg.normalize(x, gpuimg.IMAGENET_MEAN, gpuimg.IMAGENET_STD)
print("mean of the channels", y.array().mean((0, 1, 2)).round(2))
y.take([0])

# %%
# Random color
# ------------
# Random functions draw for each image from a ``gpuimg.Rng``, or from a seed. Most
# functions above have a random form, such as ``random_solarize``. ``color_jitter``
# changes brightness, contrast, saturation and hue, in a random order for each image.

gpuimg.color_jitter(x, 0.5, 0.5, 0.5, 0.2, rng=0)

# %%
gpuimg.random_photometric_distort(x, p=1.0, rng=0)

# %%
gpuimg.random_shadow(gpuimg.random_rain(x, p=1, rng=0), p=1, rng=0)

# %%
gpuimg.random_erasing(x, 0.8, value=128, rng=6)

# %%
gpuimg.coarse_dropout(x, (3, 6), value="random", p=1.0, rng=7)
