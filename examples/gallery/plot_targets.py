"""
Boxes, points and masks
=======================

Targets are given in coordinates of the source images. The geometry that a batch has
recorded is applied to them; color operations are ignored.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_targets_4.jpg"
import numpy as np

import gpuimg

_, cat, _, _ = gpuimg.example_photos()
x = gpuimg.open_batch([cat] * 5)
height, width = x.sizes[0]
head, eye = (0.06, 0.0, 0.82, 0.97), (0.29, 0.27, 0.47, 0.50)
boxes = np.array([[head, eye]] * 5) * (width, height, width, height)
points = np.array([[(0.38, 0.37), (0.70, 0.44), (0.58, 0.81)]] * 5) * (width, height)


# %%
# These pictures show targets as rectangles painted with ``erase``: the edges of boxes,
# and dots for points.


def painted(x, boxes, kept, points):
    """Paint its boxes and points on a batch."""
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
    """Transform the targets by the geometry of a batch, and paint them."""
    moved, kept = gpuimg.transform_boxes(x, boxes)
    return painted(x, moved, kept, gpuimg.transform_points(x, points))


shown(gpuimg.resize(x, 200))

# %%
# Boxes and points
# ----------------
# ``transform_boxes`` returns boxes in pixels of the results, and which of them are
# visible. A rotated box is replaced by its axis-aligned bounding box.

shown(gpuimg.rotate(gpuimg.resize(x, 200), [-40, -20, 0, 20, 40], "bilinear"))

# %%
shown(gpuimg.random_resized_crop(x, 200, scale=(0.1, 0.6), rng=2))

# %%
shown(gpuimg.random_perspective(gpuimg.resize(x, 200), 0.5, 1.0, rng=0))

# %%
# Formats of boxes are ``"xyxy"``, ``"xywh"`` and ``"cxcywh"``; ``min_area`` drops boxes
# whose visible part is too small.

y = gpuimg.center_crop(gpuimg.resize(x, 200), (100, 130))
moved, kept = gpuimg.transform_boxes(y, boxes, min_area=3000)
print(moved[0].round(1), kept[0])

# %%
# Key points have a visibility, 0, 1 or 2 as in COCO. Points outside the image get 0,
# and in mirrored images left and right exchange their places.

eyes = np.concatenate([points[:, None], np.full((5, 1, 3, 1), 2)], 3)
flipped = gpuimg.horizontal_flip(y)
print(gpuimg.transform_keypoints(flipped, eyes, flip_indices=[1, 0, 2])[0].round(1))

# %%
# Masks
# -----
# Masks have labels of pixels and are resampled by nearest neighbor. Here an ellipse,
# shown in gray:

rows, columns = np.mgrid[:height, :width]
down, across = (rows / height - 0.5) / 0.45, (columns / width - 0.47) / 0.2
ellipse = down**2 + across**2 < 1
masks = np.repeat(ellipse[None], 5, 0).astype(np.uint8)

y = gpuimg.rotate(gpuimg.resize(x, (160, 240)), [-40, -20, 0, 20, 40], "bilinear")
y

# %%
moved = gpuimg.transform_masks(y, masks)
gpuimg.resize(moved[..., None] * np.uint8(200), (160, 240))

# %%
# Objects that overlap have a mask each, (K, H, W) for every image. ``masks_to_boxes``
# returns boxes around the visible parts:

both = np.stack([masks, masks[:, ::-1, ::-1]], 1).astype(bool)
boxes, kept = gpuimg.masks_to_boxes(gpuimg.transform_masks(y, both))
print(boxes[0], kept[0])
