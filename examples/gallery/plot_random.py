"""
Random functions
================

Each draws for every image, from a ``gpuimg.Rng`` or a seed. Most change an image with
probability ``p``, which is 1 in most of these examples. The text below a picture is
what was drawn.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_random_8.jpg"
import gpuimg

photos = gpuimg.example_photos()[:3]
x = gpuimg.resize(gpuimg.open_batch(photos), (160, 160)).compute()
x

# %%
# Geometry
# --------

gpuimg.random_rotation(x, 45, "bilinear", rng=0)

# %%
gpuimg.random_vertical_flip(x, rng=1)

# %%
# Sizes: the pictures are displayed at one size.

gpuimg.random_resize(x, 24, 96, rng=0)

# %%
gpuimg.random_short_side_resize(x, [24, 48, 96], rng=0)

# %%
gpuimg.random_elastic(x, 150, rng=0)

# %%
gpuimg.random_grid_distortion(x, p=1, rng=0)

# %%
gpuimg.random_optical_distortion(x, (-0.5, 0.5), p=1, rng=0)

# %%
gpuimg.random_thin_plate_spline(x, p=1, rng=0)

# %%
# Color
# -----

gpuimg.random_hsv(x, 0.05, rng=0)

# %%
gpuimg.random_rgb_shift(x, 0.2, p=1, rng=0)

# %%
gpuimg.random_tone_curve(x, 0.3, p=1, rng=0)

# %%
gpuimg.random_grayscale(x, 0.5, rng=0)

# %%
gpuimg.random_invert(x, rng=0)

# %%
gpuimg.random_solarize(x, 128, p=1, rng=0)

# %%
gpuimg.random_posterize(x, 2, p=1, rng=0)

# %%
gpuimg.random_autocontrast(x, p=1, rng=0)

# %%
gpuimg.random_equalize(x, p=1, rng=0)

# %%
gpuimg.random_clahe(x, p=1, rng=0)

# %%
gpuimg.random_channel_permutation(x, rng=0)

# %%
gpuimg.random_channel_dropout(x, p=1, rng=0)

# %%
# Filters
# -------

gpuimg.random_sharpness(x, 4, p=1, rng=0)

# %%
gpuimg.random_box_blur(x, (3, 15), p=1, rng=0)

# %%
gpuimg.random_median_blur(x, p=1, rng=0)

# %%
gpuimg.random_motion_blur(x, (5, 25), p=1, rng=0)

# %%
gpuimg.random_morphology(x, "erode", (2, 7), p=1, rng=0)

# %%
gpuimg.random_emboss(x, p=1, rng=0)

# %%
# Noise, artifacts, weather
# -------------------------

gpuimg.random_gaussian_noise(x, sigma=(0.05, 0.2), rng=0)

# %%
gpuimg.random_shot_noise(x, (5, 50), p=1, rng=0)

# %%
gpuimg.random_salt_and_pepper(x, p=1, rng=0)

# %%
gpuimg.random_jpeg(x, (1, 30), rng=0)

# %%
gpuimg.random_fog(x, p=1, rng=0)

# %%
gpuimg.random_rain(x, p=1, rng=0)

# %%
gpuimg.random_grid_mask(x, (24, 60), p=1, rng=0)
