"""
Geometry
========

Functions that move pixels. Every parameter may differ from image to image: a list of
six angles rotates each of six images by another angle. A chain of these functions is
resampled once, when the result is requested.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_geometry_15.jpg"
import gpuimg

_, _, coffee, _ = gpuimg.example_photos()
x = gpuimg.resize(gpuimg.open_batch([coffee] * 6), (160, 240))
x.take([0])

# %%
# Sizes
# -----
# ``resize`` uses an antialiasing filter. An int is the new length of the shorter side.
# Results are displayed at one size, so the pixels of small ones are visible.

sides = [160, 80, 40, 20, 10, 5]
gpuimg.resize(x, (sides, sides))

# %%
# The interpolation is the same for all images of a call: ``"bilinear"``, ``"nearest"``
# or ``"bicubic"``. Enlarged from 20 x 30:

small = gpuimg.resize(x.take([0]), (20, 30)).compute()
gpuimg.resize(small, 160, "nearest")

# %%
gpuimg.resize(small, 160, "bicubic")

# %%
# Crops
# -----
# ``crop`` takes the upper left corner, height and width; outside of the image there is
# black.

rows, columns = [0, 40, 80, -20, 0, 40], [0, 40, 120, -20, 120, 0]
gpuimg.crop(x, rows, columns, 80, [120, 120, 120, 120, 60, 240])

# %%
# ``center_crop``, here larger and larger:

sides = [40, 80, 120, 160, 200, 240]
gpuimg.center_crop(x, (sides, sides))

# %%
# ``resized_crop`` crops and resizes in one resampling.

rows, columns = [0, 20, 40, 60, 70, 75], [0, 40, 80, 100, 110, 115]
gpuimg.resized_crop(x, rows, columns, [160, 120, 80, 40, 20, 10], 80, (160, 160))

# %%
# ``letterbox`` resizes to fit into a size and pads to it, for detectors.

heights, widths = [160, 160, 120, 80, 240, 240], [160, 240, 240, 240, 160, 80]
gpuimg.letterbox(x, (heights, widths))

# %%
# ``pad`` with a color for each image:

colors = [[0] * 3, [255] * 3, [200, 60, 60], [60, 200, 60], [60, 60, 200], [128] * 3]
gpuimg.pad(x, (40, 20, 10, 0), fill=colors)  # left, top, right, bottom

# %%
# Or with the mirrored image, or with the outermost pixels (``"edge"``):

gpuimg.pad(x.take([0]), 60, padding_mode="reflect")

# %%
# ``five_crop`` returns the corners and the center of each image, ``ten_crop`` also
# their mirror images.

gpuimg.five_crop(x.take([0]), 100)

# %%
gpuimg.ten_crop(x.take([0]), 100)

# %%
# Flips
# -----
# Like all functions, flips take ``where``, which selects the images to change.

gpuimg.horizontal_flip(x, where=[True, False, True, False, True, False])

# %%
gpuimg.vertical_flip(x, where=[True, False, True, False, True, False])

# %%
# Rotation, affine maps, perspective
# ----------------------------------
# ``rotate`` by degrees, counter-clockwise.

gpuimg.rotate(x, [-60, -30, -10, 10, 30, 60], "bilinear")

# %%
# With ``expand=True`` the results are large enough for the whole image, and the corners
# get ``fill``.

gpuimg.rotate(x, [-60, -30, -10, 10, 30, 60], "bilinear", expand=True, fill=255)

# %%
# ``affine``: angle, translation, scale and shear.

moves = [0, 0, -60, 60, 0, 0], [0, 0, 0, -40, 0, 0]  # x, y
shears = [0, 0, 0, 0, -40, 0], [0, 0, 0, 0, 0, 20]
gpuimg.affine(x, 0, moves, [0.5, 1.5, 1.0, 1.0, 1.0, 1.0], shears, "bilinear")

# %%
# ``perspective`` maps four points to four others.

corners = [(0, 0), (239, 0), (239, 159), (0, 159)]
insets = [(20, 0), (40, 0), (60, 0), (0, 20), (0, 40), (40, 40)]
moved = [[(d, 0), (239 - d, e), (239, 159), (0, 159 - e)] for d, e in insets]
gpuimg.perspective(x, [corners] * 6, moved, "bilinear")

# %%
# ``elastic`` moves every pixel by a smooth displacement, drawn from a seed.

strength = [20, 60, 120, 60, 60, 60]
gpuimg.elastic(x, (strength, strength), [5, 5, 5, 3, 8, 16], seed=range(6))

# %%
# ``remap`` samples each pixel at a position of yours. Functions make the positions of a
# lens, of columns and rows of other widths, and of points that are moved:

positions = gpuimg.optical_distortion(x.sizes, [-0.5, -0.25, -0.1, 0.1, 0.25, 0.5])
gpuimg.remap(x, positions)

# %%
positions = gpuimg.grid_distortion(x.sizes, [1, 1.5, 0.5, 1], [1, 0.6, 1.4])
gpuimg.remap(x, positions, where=[True, False] * 3)

# %%
corners = [(0, 0), (1, 0), (0, 1), (1, 1)]
moved = [[*corners, (0.5 + dx, 0.5)] for dx in (-0.2, -0.1, -0.05, 0.05, 0.1, 0.2)]
positions = gpuimg.thin_plate_spline(x.sizes, [*corners, (0.5, 0.5)], moved)
gpuimg.remap(x, positions)

# %%
# Several at once
# ---------------
# A chain is resampled once: this one rotates, shrinks and crops without an intermediate
# image.

y = gpuimg.rotate(x, [-60, -30, -10, 10, 30, 60], "bilinear")
y = gpuimg.resize(y, 100)
gpuimg.center_crop(y, (90, 90))

# %%
# Random geometry
# ---------------
# The random functions draw for each image from a ``gpuimg.Rng``, or from a seed, and
# then call the functions above. The following examples use these photos:

several = gpuimg.resize(gpuimg.open_batch(gpuimg.example_photos()), 160)
several

# %%
# A random share of the area at a random ratio, resized:

gpuimg.random_resized_crop(several, 160, rng=0)

# %%
# ``random_crop`` takes a window of a given size.

gpuimg.random_crop(several, 120, rng=0)

# %%
gpuimg.random_affine(several, 20, (0.2, 0.2), (0.7, 1.3), 20, "bilinear", rng=0)

# %%
# For detectors: ``random_zoom_out`` puts the image on a larger canvas,
# ``random_iou_crop`` crops around boxes.

gpuimg.random_zoom_out(several, 128, (1.0, 3.0), 1.0, rng=0)

# %%
small = several.compute()
boxes = [[(w / 4, h / 4, w * 3 / 4, h * 3 / 4)] for h, w in small.sizes]
gpuimg.random_iou_crop(small, boxes, rng=0)

# %%
# Sizes are drawn by ``random_resize``, ``random_short_side_resize``, and
# ``scale_jitter``, which fits each image into a rectangle first. The results are
# displayed at one size, with the sizes drawn below.

gpuimg.scale_jitter(several, (160, 160), (0.5, 1.5), rng=0)
