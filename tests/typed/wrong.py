"""Mistakes, each of which type checkers must report, and in no other line."""

from pathlib import Path

import numpy as np

import gpuimg

x = gpuimg.open_batch(["cat.jpg", b"..."], on_error="ignore")  # wrong: "raise" or "fill"
x = gpuimg.resize(x, "224")  # wrong: a number
x = gpuimg.resize(x, {"height": 3})  # wrong: (height, width)
x = gpuimg.resize(x, 224, interpolation="bilinaer")  # wrong: "bilinear"
x = gpuimg.rotate(x, "thirty")  # wrong: a number
x = gpuimg.rotate(x, 30, centre=(1, 2))  # wrong: center
x = gpuimg.pad(x, 3, padding_mode="mirror")  # wrong: "reflect"
x = gpuimg.adjust_hue(x, None)  # wrong: a number
x = gpuimg.random_crop(x, 32)  # wrong: without rng
x = gpuimg.random_crop(x, 32, rng=np.random.default_rng(0))  # wrong: another library's
gpuimg.hflip(x)  # wrong: horizontal_flip
x.array("flaot32")  # wrong: "float32"
x.array("float32", "NHCW")  # wrong: "NCHW"
x.compute(layout="NTCHW")  # wrong: that of array alone
x.array().resize_to(3)  # wrong: no method of an array
x.sizes.heights  # noqa: B018  # wrong: no attribute of an array
x["cat.jpg"]  # wrong: an index
gpuimg.to_torch(x, layout="CHWN")  # wrong: "NCHW" or "NHWC"
gpuimg.transform_boxes(x, [[(1, 2, 3, 4)]], format="xxyy")  # wrong: "xyxy"

pairs = [("cat.jpg", 0)]
gpuimg.load(pairs, batches=3)  # wrong: lists of indices
gpuimg.load(pairs, batch_size="8")  # wrong: a number
gpuimg.load(pairs, batch_size=8, shuffle="yes")  # wrong: a bool
gpuimg.load(pairs, batch_size=8, on_error="ignore")  # wrong: "raise", "skip" or "fill"
gpuimg.load(pairs, batch_size=8, layout="CHWN")  # wrong: "NCHW"
gpuimg.load(pairs, batch_size=8, num_workers=4)  # wrong: readers
gpuimg.load(pairs, batch_size=8, shard="rank")  # wrong: (rank, world)
gpuimg.load(Path("train"), batch_size=8)  # wrong: a source
gpuimg.load(pairs, "imagenet", batch_size=8)  # wrong: a function
gpuimg.tar("shard.tar", index="shard.index")  # wrong: index_cache
