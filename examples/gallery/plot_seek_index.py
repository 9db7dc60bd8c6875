"""
Random access into JPEGs
========================

A seek index contains the positions in a JPEG at which its rows of blocks begin. With it, only the cropped region is
decoded, and the pixels are the same. See :doc:`/prepare`.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_seek_index_1.jpg"
import tempfile
from pathlib import Path

import numpy as np

import gpuimg

photos = sorted(Path("../photos").glob("*.jpg"))[:6]
folder = Path(tempfile.mkdtemp())
report = gpuimg.build_index(gpuimg.file_list(photos), folder / "photos.gpuimg-index")
print(f"{report.indexed} of {report.samples} files have an entry, {report.progressive} are progressive")
print(f"{report.bytes} bytes for {report.indexed_bytes} bytes of JPEG")

# %%
# A small crop, decoded with and without the index:

index = gpuimg.SeekIndex(folder / "photos.gpuimg-index")


def crops(x):
    """Return the lower right quarter of each image."""
    height, width = x.sizes.T
    return gpuimg.resized_crop(x, height // 2, width // 2, height // 2, width // 2, (160, 160))


crops(gpuimg.open_batch(photos, index=index, indices=range(6)))

# %%
with_index = crops(gpuimg.open_batch(photos, index=index, indices=range(6))).array()
without = crops(gpuimg.open_batch(photos)).array()
print("the same pixels:", np.array_equal(with_index, without))

# %%
# A loader takes the index by name, ``gpuimg.load(source, f, batch_size=64, index="photos.gpuimg-index")``. The
# command ``gpuimg index FOLDER`` builds one.
