"""
Boxes, points and masks
=======================

Targets are those of the source images; they follow the geometry that a batch has recorded. Colors do not matter to
them.
"""

# sphinx_gallery_thumbnail_number = 3
from pathlib import Path

import numpy as np

import gpuimg

photo = Path("../photos/cat.jpg")  # one of gpuimg's repository; take one of yours
x = gpuimg.open_batch([photo] * 5)
height, width = x.sizes[0]
boxes = np.array([[(0.06, 0.0, 0.82, 0.97), (0.29, 0.27, 0.47, 0.50)]] * 5) * (width, height, width, height)
points = np.array([[(0.38, 0.37), (0.70, 0.44), (0.58, 0.81)]] * 5) * (width, height)


# %%
# To show them, rectangles are painted with ``erase``: the edges of boxes, and dots.


def painted(x, boxes, kept, points):
    """The batch with its boxes and points on it."""
    for k in range(boxes.shape[1]):
        left, top, right, bottom = boxes[:, k].round().astype(int).T
        color = [(230, 60, 60), (60, 120, 240)][k]
        for row, column, high, wide in (
            (top, left, 4, right - left),
            (bottom - 4, left, 4, right - left),
            (top, left, bottom - top, 4),
            (top, right - 4, bottom - top, 4),
        ):
            x = gpuimg.erase(x, row, column, high, wide, color, where=kept[:, k])
    for column, row in points.round().astype(int).transpose(1, 2, 0):
        x = gpuimg.erase(x, row - 4, column - 4, 8, 8, (250, 220, 0))
    return x.compute()


def shown(x):
    """Whatever the geometry of the batch did to the targets."""
    return painted(x, *gpuimg.transform_boxes(x, boxes), gpuimg.transform_points(x, points))


shown(gpuimg.resize(x.take([0, 1, 2, 3, 4]), 240))

# %%
# Boxes and points
# ----------------
# ``transform_boxes`` gives boxes in pixels of the results, and which of them are visible. A turned box is replaced by
# the upright one around it.

shown(gpuimg.rotate(gpuimg.resize(x, 240), [-40, -20, 0, 20, 40], "bilinear"))

# %%
shown(gpuimg.random_resized_crop(x, 240, scale=(0.1, 0.6), rng=2))

# %%
shown(gpuimg.random_perspective(gpuimg.resize(x, 240), 0.5, 1.0, rng=0))

# %%
# Boxes may be given as ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``; ``min_area`` drops those of which too little is left.

y = gpuimg.center_crop(gpuimg.resize(x, 240), (80, 80))
moved, kept = gpuimg.transform_boxes(y, boxes, min_area=5000)
print(moved[0].round(1), kept[0])

# %%
# Formats are converted, boxes and points cut to their images, and those of which nothing is left found:

print(gpuimg.convert_bounding_box_format(moved, "xyxy", "cxcywh")[0].round(1))
print(gpuimg.clamp_bounding_boxes(boxes + 300, (height, width))[0].round(1))
print(gpuimg.sanitize_bounding_boxes(boxes, (height, width), min_size=200)[0][0].round(1))
print(gpuimg.clamp_keypoints(points + 300, (height, width))[0].round(1))
print(gpuimg.sanitize_keypoints(points + 150, (height, width))[0][0].round(1))

# %%
# Masks
# -----
# Labels of pixels, by nearest neighbor: here an ellipse, shown in gray.

rows, columns = np.mgrid[:height, :width]
ellipse = ((rows / height - 0.5) / 0.45) ** 2 + ((columns / width - 0.47) / 0.3) ** 2 < 1
masks = np.repeat(ellipse[None], 5, 0).astype(np.uint8)

y = gpuimg.rotate(gpuimg.resize(x, (160, 240)), [-40, -20, 0, 20, 40], "bilinear")
y.take([0, 1, 2, 3, 4])

# %%
moved = gpuimg.transform_masks(y, masks)
gpuimg.resize(moved[..., None] * np.uint8(200), (160, 240))
