"""``gpuimg.prepare``: copies of a data set with smaller images, which decode faster in training."""
