"""
Video clips
===========

A batch of clips is a batch of all their frames, and every function works on it, with
one draw for each clip. See :doc:`/video`. This needs PyAV, the extra ``video``.
"""

# sphinx_gallery_thumbnail_path = "gallery/images/sheets/plot_video_1.jpg"
import io

import av
import numpy as np

import gpuimg

# %%
# The example writes a video of 48 frames that move over a photo.

_, _, coffee, _ = gpuimg.example_photos()
photo = gpuimg.decode_batch([coffee])
height, width = 144, 192
left = np.linspace(0, photo.sizes[0, 1] - width, 48).astype(int)
frames = gpuimg.crop(photo.take([0] * 48), 30, left, height, width).array()

file = io.BytesIO()
with av.open(file, "w", "mp4") as container:
    stream = container.add_stream("libx264", rate=24, pix_fmt="yuv420p")
    stream.height, stream.width = height, width
    for frame in frames:
        container.mux(stream.encode(av.VideoFrame.from_ndarray(frame)))
    container.mux(stream.encode(None))
video = file.getvalue()

# %%
# Information from its packets:

info = gpuimg.video_info(video)
print(info.codec, info.height, info.width, len(info.times), "frames")

# %%
# Clips
# -----
# Six frames, every eighth one. Notebooks show frames of the first clip.

x = gpuimg.open_clips([video], frames=6, stride=8)
x

# %%
# Clips with random starts, and one crop for all frames of a clip:

rng = gpuimg.Rng(seed=0, epoch=0, indices=[0, 1])
x = gpuimg.random_clips([video, video], frames=6, stride=4, rng=rng)
x = gpuimg.random_resized_crop(x, 112, rng=rng)
print(x.array(layout="NCTHW").shape)
x

# %%
# All frames of a clip also get the same colors:

gpuimg.rand_augment(x, 2, 12, rng=rng)

# %%
# Three frames of each clip, evenly spaced:

gpuimg.uniform_temporal_subsample(x, 3)
