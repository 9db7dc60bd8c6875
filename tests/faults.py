"""Small faults in the product, each with the tests that must fail for it.

    python -m tests.faults [name...] [--seconds 1500]

Plants one fault at a time in a copy of the tree, and runs the tests of its subject there. A fault that no test reports
is a hole in the tests. Whoever shortens or merges tests runs this before and after.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Fault(NamedTuple):
    """A change of one place in the product."""

    name: str
    file: str
    old: str  # occurs once in the file
    new: str
    tests: str  # FOLDER/NAME for tests/FOLDER/test_NAME.py, and perhaps ::TEST


FAULTS = [
    # JPEG and PNG
    Fault("huffman: codes just longer than the table are read as longer ones", "kernels/jpeg/huffman.py",
          "length = BITS + 1\n", "length = BITS + 2\n", "decoding/huffman decoding/jpeg"),
    Fault("huffman: the second symbol of a pair is rewound with its code only", "kernels/jpeg/huffman.py",
          "second = (pair & 255) - ((pair >> 24) & 15)", "second = (pair & 255) - ((pair >> 24) & 7)", "decoding/huffman decoding/jpeg"),
    Fault("huffman: AC coefficients of 11 and 12 bits are decoded", "kernels/jpeg/tables.py",
          "return size <= CATEGORY", "return size <= CATEGORY + 2", "decoding/huffman::test_ac_coefficients_have_ten_bits"),
    Fault("jpeg: restart markers counted modulo 4", "kernels/jpeg/huffman.py",
          "stream.marker = (marker + 1) & 7", "stream.marker = (marker + 1) & 3", "decoding/jpeg"),
    Fault("jpeg: the inverse DCT rounds halves down", "kernels/jpeg/idct.py",
          "_like(self.value, 1 << bits - 1)", "_like(self.value, (1 << bits - 1) - 1)", "decoding/jpeg"),
    Fault("jpeg: chroma weighs its neighbors 1:1 where libjpeg has 3:1", "kernels/jpeg/color.py",
          "builder.add(builder.mul(one, splat(I16, 3, N)), other)",
          "builder.mul(builder.add(one, other), splat(I16, 2, N))", "decoding/jpeg"),
    Fault("jpeg: 16-bit quantization steps lose their upper byte", "kernels/jpeg/rows.py",
          "return i64(data[at + 1 + 2 * k]) << 8 | data[at + 2 + 2 * k]", "return i64(data[at + 2 + 2 * k])", "decoding/jpeg"),
    Fault("progressive: negative coefficients are off by one", "kernels/jpeg/refine.py",
          "extra - (1 << size) + 1", "extra - (1 << size)", "decoding/progressive"),
    Fault("progressive: bands end before their last coefficient", "kernels/jpeg/refine.py",
          "while k <= last:", "while k < last:", "decoding/progressive"),
    Fault("progressive: scans of luma alone lack the last, incomplete column", "kernels/jpeg/progressive.py",
          "-(-header.height // 8), -(-header.width // 8), header", "-(-header.height // 8), header.width // 8, header",
          "decoding/progressive"),
    Fault("recoded: streams may end anywhere", "kernels/jpeg/formulas.py",
          "return 0 <= bits < 8", "return True", "decoding/recoded::test_forged_segments"),
    Fault("recoded: any segments are taken for Huffman tables", "gpuimg/_decoding/recoded.py",
          "or _without_tables(original) != (kept, tables)", "", "decoding/recoded::test_forged_last_parts"),
    Fault("recoded: checksums of segments are not compared", "kernels/jpeg/recoded.py",
          "!= load_bytes(segment, 0)", "!= u32(checksum(segment_, 4))", "decoding/recoded"),
    Fault("recoded: files made of progressive ones are not compared", "gpuimg/_decoding/recoded.py",
          "if Image.open(files[0]).tobytes() ==", "if", "decoding/recoded::test_progressive_files_are_compared"),
    Fault("recoded: the first block of a row has no prediction", "kernels/jpeg/recoded.py",
          "        dc = above\n", "        dc = i64(0)\n", "decoding/recoded"),
    Fault("png: Paeth prefers the wrong one of equally near neighbors", "kernels/png/filters.py",
          'builder.icmp_signed("<=", far, low), high', 'builder.icmp_signed("<", far, low), high', "decoding/png"),
    # plan, resampling, color
    Fault("plan: filters see pixels that a crop has cut off", "kernels/grids.py",
          "if not _is_whole(matrix):", "if _is_whole(matrix):", "operations/plan operations/geometry"),
    Fault("plan: images that where leaves out are blurred by the resize", "gpuimg/_plan/plan.py",
          "np.where(where[:, None], support, one.support)", "support", "operations/plan operations/geometry random/random_functions"),
    Fault("plan: the axes of an antialiasing filter are swapped after a turn", "kernels/grids.py",
          "matrix[k, 0] * max(scale[0, 0], 1.0), matrix[k, 1] * max(scale[0, 1], 1.0)",
          "matrix[0, k] * max(scale[0, k], 1.0), matrix[1, k] * max(scale[0, k], 1.0)", "operations/plan operations/geometry"),
    Fault("resampling: a blur repeats the last pixel at the far border", "kernels/sampling.py",
          "min(abs(tap), last + last - tap)", "min(abs(tap), last + last + f32(1.0) - tap)", "operations/filters"),
    Fault("resampling: reflect and symmetric are exchanged", "kernels/sampling.py",
          "edge = f32(0.5) if filter == REFLECT", "edge = f32(0.5) if filter != REFLECT", "operations/geometry"),
    Fault("resampling: bicubic without antialiasing has the other parameter", "kernels/sampling.py",
          "f32(-0.5) if filter == CUBIC_RENORMALIZED else f32(-0.75)", "f32(-0.5)", "operations/geometry"),
    Fault("color: red weighs 0.299 where torchvision has 0.2989", "kernels/color.py",
          "f32(0.2989) * r", "f32(0.299) * r", "operations/color operations/every_function"),
    Fault("color: solarize spares the threshold itself", "kernels/color.py",
          "ONE - x if x >= threshold", "ONE - x if x > threshold", "operations/color"),
    Fault("boxes: of a sheared box that is taller than wide, the angle is that of its height", "gpuimg/_ops/boxes.py",
          "angle_h + np.pi / 2.0, angle_w", "angle_h, angle_w", "operations/targets::test_sheared_rotated_boxes_are_rectangles_around_what_becomes_of_them"),
    Fault("results: bfloat16 rounds ties up", "kernels/cast.py",
          "u32(0x7FFF) + ((bits >> u32(16)) & u32(1))", "u32(0x8000)", "operations/results"),
    # random draws, exact rounding
    Fault("random: views of a sample share words", "kernels/philox.py",
          "(views[i] << u64(32)) + u64(block)", "views[i] + u64(block)", "random/rng"),
    Fault("random: crops never reach the last row and column", "kernels/rectangles.py",
          "(spare_y + 1.0)), i64(unit[2 * tries + 1] * (spare_x + 1.0))", "spare_y), i64(unit[2 * tries + 1] * spare_x)", "random/random_functions"),
    Fault("random: elastic nodes use one word of the seed twice", "kernels/displacement.py",
          "u32(i32(seed_0)), u32(i32(seed_1))", "u32(i32(seed_0)), u32(i32(seed_0))", "random/elastic"),
    Fault("noise: salt and pepper are exchanged", "kernels/noise.py",
          "_ONE if drawn < salt else _ZERO", "_ZERO if drawn < salt else _ONE", "random/noise operations/every_function"),
    Fault("noise: means just below eight lack their largest numbers", "kernels/noise.py",
          "_TERMS = 28", "_TERMS = 12", "random/noise"),
    Fault("noise: the expansion of Poisson's distribution lacks its last term", "kernels/noise.py",
          "at += (f32(-8.0 / 405.0)", "at -= (f32(-8.0 / 405.0)", "random/noise"),
    Fault("weather: all lattices of fog are of one seed", "kernels/weather.py",
          "y * _TWO + f32(0.61), seed_0 + _ONE", "y * _TWO + f32(0.61), seed_0", "operations/every_function"),
    Fault("weather: columns of rain are not shifted", "kernels/weather.py",
          "along += _value(column, -_ONE, seed_0, seed_1)", "along += _HALF", "random/noise"),
    Fault("weather: a shadow's last edge is open", "kernels/weather.py",
          "_crossed(x, y, x5, y5, x0, y0)", "_crossed(x, y, x5, y5, x5, y5)", "operations/every_function"),
    Fault("color: constants of a matrix are added to gray images as bytes", "gpuimg/_ops/color.py",
          "rows[..., channels] * recording.unit", "rows[..., channels]", "operations/every_function"),
    Fault("color: a plan whose first image stays is taken for one that changes nothing", "gpuimg/_plan/plan.py",
          "if any(entry.codes[0] != ops.SKIP.code for entry in self.entries if len(self)):\n            return False",
          "if all(entry.codes[0] == ops.SKIP.code for entry in self.entries if len(self)):\n            return True",
          "operations/every_function"),
    # ops on whole images
    Fault("areas: borders that mirror repeat the outermost pixel", "kernels/borders.py",
          "else i32(period - i)", "else i32(period - 1 - i)", "operations/areas"),
    Fault("areas: few pixels of a window lack the last of each row", "kernels/cpu/windows.py",
          "else right + 1):\n", "else max(right, left + 1)):\n", "operations/areas"),
    Fault("areas: a window with layers lacks its last columns", "kernels/cpu/windows.py",
          "places[count] = row + (right + 1 - reach) * channels", "places[count] = row + (right - reach) * channels", "operations/areas"),
    Fault("areas: medians of five compare with one value less", "kernels/cpu/windows.py",
          "if (size - y) * (size - x) > middle + 1:", "if (size - y) * (size - x) > middle:", "operations/areas"),
    Fault("areas: CLAHE spreads no rest", "kernels/contrast.py",
          "more = i32(1) if u32(level)", "more = i32(0) if u32(level)", "operations/areas"),
    Fault("areas: positions on the last row have no pixel below", "kernels/cpu/remap.py",
          "top < f32(height - 1)", "top < f32(height)", "operations/areas"),
    Fault("areas: all images have the first one's kernel", "gpuimg/_ops/areas.py",
          "return Operand(flat, starts[numbers], counts[numbers])", "return Operand(flat, 0 * starts[numbers], counts[numbers])", "operations/areas"),
    Fault("areas: kernels of one shape are one", "gpuimg/_ops/areas.py",
          "names = [(one.shape, one.tobytes()) for one in kernels]", "names = [one.shape for one in kernels]", "operations/areas"),
    Fault("exact: negative weights are rounded towards zero", "kernels/cpu/weights.py",
          "np.int32(x - 0.5 if x < 0.0 else x + 0.5)", "np.int32(x + 0.5)", "operations/exact"),
    Fault("exact: the order of passes changes at half the ratio", "kernels/exact.py",
          "np.maximum(0, 2 * (width - out_width))", "np.maximum(0, width - out_width)", "operations/exact"),
    # loader: order, shards of ranks, resuming
    Fault("order: copies of repeated samples share their numbers", "gpuimg/_loading/order.py",
          "copies * np.uint64(self.repeats) + number", "copies + number", "loading/sampling loading/order"),
    Fault("order: all buffers of Blocks are mixed alike", "gpuimg/_loading/order.py",
          "_WITHIN_BUFFER + np.uint64(run)", "_WITHIN_BUFFER", "loading/order"),
    Fault("order: all groups of batches are mixed alike", "gpuimg/_loading/batches.py",
          "_WITHIN_GROUP + np.uint64(k)", "_WITHIN_GROUP", "loading/batches"),
    Fault("ranks: the last places are all given to the first ranks", "gpuimg/_loading/sharding.py",
          "- first) % world < size % world)", "- first) % world < 1) * (size % world)", "loading/order"),
    Fault("ranks: buffers are divided anywhere after ranks have changed", "gpuimg/_loading/sharding.py",
          "total - tail if run > 1 else 0", "0", "loading/order"),
    Fault("resume: samples that replaced skipped ones come again", "gpuimg/_loading/reading.py",
          "batch.after = self._position", "self._position = batch.after", "properties/loader_laws"),
    Fault("resume: the state's seed is ignored", "gpuimg/_loading/loader.py",
          'replace(schedule, seed=states[0]["seed"])', "schedule", "loading/sampling loading/batches"),
    Fault("resume: a rank that has taken none makes others begin again", "gpuimg/_loading/sharding.py",
          "if any(taken) else levels", "if all(taken) else levels", "loading/order::test_ranks_resume_with_what_is_left"),
    # sources, remote, prepare, video
    Fault("tar: samples of one name in two folders are one", "gpuimg/sources/tar.py",
          "found.setdefault(os.path.join(folder, stem), {})", "found.setdefault(stem, {})", "sources/shards"),
    Fault("tfrecord: a file may end within its last checksum", "gpuimg/sources/tfrecord.py",
          "if size + _CHECKSUM.size > end - position:", "if size > end - position:", "sources/damage"),
    Fault("lmdb: the first meta page is taken for the newest", "gpuimg/sources/lmdb.py",
          "newest = max(first, second, key=lambda meta: meta[7])", "newest = first", "sources/databases"),
    Fault("tiles: the markers of a tile name its color space", "gpuimg/_decoding/tiff_tiles.py",
          "_DROPPED = {*range(0xE0, 0xF0), 0xFE}", "_DROPPED = {0xFE}", "sources/tiles"),
    Fault("tiles: a tile's own size is not compared", "gpuimg/_decoding/tiff_tiles.py",
          "if frame != (*self._size, self._samples):", "if frame[2] != self._samples:", "sources/tiles"),
    Fault("tiles: a header that is alike at the start is taken for the last one", "gpuimg/_decoding/tiff_tiles.py",
          "return tile[:end], b", "return tile[:4], b", "sources/tiles"),
    Fault("tiles: a file may have any number of directories", "gpuimg/_decoding/tiff_directories.py",
          "len(seen) == _MOST_DIRECTORIES", "False", "sources/tiles"),
    Fault("pages: a pickled batch of pages has the first ones", "gpuimg/_batch/pickling.py",
          "if one.page}", "if False}", "decoding/pages"),
    Fault("pages: the alpha of TIFF and JPEG 2000 files is nvImageCodec's", "gpuimg/_decoding/route.py",
          "(header.channels, header.depth) == (options.channels, options.bits)", "header.depth == options.bits",
          "cuda/cuda_host decoding/route"),
    Fault("tiles: tiles that reach over the edge are not dropped", "gpuimg/sources/tiles.py",
          "masks[k][:, grid.width // grid.tile_width :] = False", "pass", "sources/tiles"),
    Fault("tiles: neighbors are fetched with what lies between", "gpuimg/sources/tiles.py",
          "_GAP = 1 << 10", "_GAP = 1 << 16", "sources/tiles"),
    Fault("recordio: parts of a record are not padded to four bytes", "gpuimg/sources/recordio.py",
          "parts.append(part)\n        position += size + -size % 4", "parts.append(part)\n        position += size",
          "sources/mxnet"),
    Fault("parquet: the first row of a group is looked for in the one before", "gpuimg/sources/parquet.py",
          'group = int(np.searchsorted(self._end, i, "right"))', 'group = int(np.searchsorted(self._end, i, "left"))',
          "sources/columns"),
    Fault("coco: outlines are rounded to even", "gpuimg/sources/_segments.py",
          "np.trunc(found * _STEPS + 0.5)", "np.rint(found * _STEPS)", "sources/coco"),
    Fault("remote: a short answer is taken for the whole one", "gpuimg/sources/_remote.py",
          "if len(data) != stop - start:", "if len(data) > stop - start:", "sources/remote"),
    Fault("remote: damaged blocks of the cache are used", "gpuimg/sources/_blocks.py",
          "if sums == _checksums(data) and len(data)", "if len(data)", "sources/remote"),
    Fault("remote: known versions are not requested", "gpuimg/sources/_remote.py",
          'headers |= {"If-Match": etag} if etag else {}', "pass", "sources/remote"),
    Fault("index caches: rows that no check saw are used", "gpuimg/sources/_reading.py",
          "if offset < 0 or size < 0:", "if False:", "sources/damage"),
    Fault("index caches: offsets may be negative", "gpuimg/sources/_indexes.py",
          "(offset < 0) | (size < 0)", "(size < 0)", "sources/damage"),
    Fault("files: the limit of bytes is not for parts of files", "gpuimg/_io/native_read.py",
          "min(self.max_bytes, _LARGEST)}", "_LARGEST}", "decoding/reading"),
    Fault("streams: the newest item of the buffer comes next", "gpuimg/_loading/streams.py",
          "int(draws.random_raw()) * len(buffered) >> 64", "len(buffered) - 1", "loading/streams"),
    Fault("lower: equal files are decoded where the first of them is read", "gpuimg/_plan/lower.py",
          "union_regions(regions, rows)", "regions[chosen]", "operations/lower"),
    Fault("planes: results of 16 bits are not limited to their range", "gpuimg/_runtimes/planes.py",
          "np.minimum(np.fmax(values, np.float32(0), out=values), np.float32(1), out=values)", "pass", "operations/channels"),
    Fault("draft: images are decoded at half of the size that is due", "gpuimg/_plan/draft.py",
          "scales[shrink * scale / FULL >= draft]", "scales[shrink * scale / FULL >= draft / 2]", "decoding/draft"),
    Fault("prepare: files are copied although EXIF turns them", "gpuimg/_prepare/encode.py",
          "bool(sampled and upright and", "bool(sampled and", "prepare/prepare"),
    Fault("prepare: drive letters may be in the names of results", "gpuimg/_prepare/names.py",
          r're.match(r"[/\\]|[A-Za-z]:", path)', r're.match(r"[/\\]", path)', "prepare/prepare"),
    Fault("video: frames shown before their key frame are decoded from it", "gpuimg/_video/index.py",
          "while late.any():", "while len(late) < 0:", "video/video"),
    Fault("video: full range is known by the format only", "gpuimg/_video/convert.py",
          "layout.full or frame.color_range == _FULL", "layout.full", "video/video"),
    # targets
    Fault("boxes: a flip leaves corners counter-clockwise", "gpuimg/_ops/boxes.py",
          "mirrored = ax * by - ay * bx < 0.0", "mirrored = ax * by - ay * bx > 0.0", "operations/targets"),
    Fault("masks: boxes end at the last pixel, not after it", "gpuimg/_ops/masks.py",
          "each.shape[1] - each[:, ::-1]", "each.shape[1] - 1 - each[:, ::-1]", "operations/masks operations/targets"),
    Fault("points: two flips count as one where pixels are computed between them", "gpuimg/_ops/following.py",
          "result ^= np.linalg.det(matrix) * depth < 0.0", "result |= np.linalg.det(matrix) * depth < 0.0",
          "operations/targets"),
    # compiled loops, threads, presets, tokens, mixing
    Fault("cache: files that their group can write to are read", "kernels/disk.py",
          "stat.S_IWGRP | stat.S_IWOTH", "stat.S_IWOTH", "compiled/compiled"),
    Fault("cache: links are followed", "kernels/disk.py",
          '"RDONLY", "NOFOLLOW"', '"RDONLY"', "compiled/compiled"),
    Fault("threads: the quota of the outermost group counts", "gpuimg/_threads/threads.py",
          "return min(quotas, default=None)", "return quotas[0] if quotas else None", "compiled/threads"),
    Fault("presets: SimCLR's jitter is for each image", "gpuimg/presets.py",
          "hue=0.2, p=0.8, rng=rng)", "hue=0.2, rng=rng)", "models/presets"),
    Fault("tokens: padded images are centered by one pixel less", "gpuimg/_batch/tokens.py",
          'spare // 2 if align', '(spare - 1) // 2 if align', "models/tokens"),
    Fault("mixing: the weight of CutMix is that of the drawn area", "gpuimg/_random/mixing.py",
          "weight = 1.0 - (x1 - x0) * (y1 - y0) / (width * height)", "weight = drawn + 0.0 * x1", "operations/mixing"),
    Fault("crops: an odd margin of a central crop is rounded up", "kernels/rectangles.py",
          "np.rint(f64(sizes[i, k] - new[i, k]) / 2.0)", "np.ceil(f64(sizes[i, k] - new[i, k]) / 2.0)", "operations/geometry random/views"),
    Fault("jpeg: chroma is reduced without the rounding that alternates", "kernels/jpeg/forward.py",
          "total, [1, 2], 2,", "total, [2, 2], 2,", "operations/filters"),
    # Encoding
    Fault("encode: blocks after the image have no mean", "kernels/jpeg/encode.py",
          "coefficients[k] = coefficients[k - 64]", "coefficients[k] = 0", "encoding/encode"),
    Fault("encode: the first symbol of a frequency is merged first", "kernels/jpeg/coder.py",
          "frequencies[k] <= frequencies[one]", "frequencies[k] < frequencies[one]", "encoding/encode"),
    Fault("encode: restart markers counted modulo 4", "kernels/jpeg/coder.py",
          "writer.marker = (writer.marker + 1) & 7", "writer.marker = (writer.marker + 1) & 3", "encoding/encode"),
    Fault("encode: the pixels after a row are another's", "kernels/jpeg/planes.py",
          "last = row[at + width - 1]", "last = row[at + max(width - 2, 0)]", "encoding/encode"),
    Fault("encode: views of images that need more memory are not encoded again", "gpuimg/_runtimes/cpu_call.py",
          "np.unique(self._first[rows] if len(self._first) else rows)", "np.unique(rows)", "encoding/encode"),
    Fault("encode: all images have the first one's quality", "kernels/cpu/inputs.py",
          "one.quality, one.sampling, one.optimize, one.restart = qualities[i]",
          "one.quality, one.sampling, one.optimize, one.restart = qualities[0]", "encoding/encode"),
    Fault("encode: metadata of all images are the first one's", "gpuimg/_runtimes/cpu_encode.py",
          "self._heads[i], ", "self._heads[0], ", "encoding/encode"),
    Fault("encode: nvImageCodec's images are said to be on another stream", "gpuimg/_runtimes/cuda.py",
          "DeviceImage(start, pixels.shape(i), stream)", "DeviceImage(start, pixels.shape(i), 2)", "cuda/cuda_host"),
    Fault("team: more threads compute than are allowed", "kernels/cpu/team.py",
          'if running >= add_to(team, "most", 0):', 'if running > add_to(team, "most", 0):', "compiled/team"),
    Fault("team: workers go to any job", "kernels/cpu/team.py",
          "number < least", "number > least", "compiled/team"),
    Fault("loading: results are the memory of the cache", "gpuimg/_batch/batch.py",
          "not source.is_shared and ", "", "loading/cache"),
    # CUDA: the order of work, kernels
    Fault("cuda: results are reused before their reader is done", "gpuimg/_runtimes/cuda_memory.py",
          "wait(stream, self._block.used)\n", "pass\n", "cuda/cuda_host_loader::test_kernels_wait_for_what_read_the_memory_they_write_again"),
    Fault("cuda: private streams do not wait for the caller's", "gpuimg/_runtimes/cuda.py",
          "follow(own, caller)\n            try:", "try:", "cuda/cuda_host::test_mixing"),
    Fault("cuda: a collector destroys the events of results", "gpuimg/_runtimes/cuda_memory.py",
          "self._blocks.add(block)\n", "pass\n", "cuda/cuda_host_loader::test_memory_that_the_garbage_collector_gives_back_on_a_loaders_thread"),
    Fault("cuda: a video decoder ends before its frames are converted", "gpuimg/_runtimes/cuda_video.py",
          "finally:\n        event_after(stream).synchronize()", "finally:\n        event_after(stream)",
          "cuda/cuda_video"),
    Fault("cuda: kernels do not wait for a video's decoder", "gpuimg/_runtimes/cuda_video.py",
          "follow(stream, _DEFAULT_STREAM)", "pass", "cuda/cuda_video::test_much_work_is_in_order"),
    Fault("cuda: the caller's stream does not wait for results", "gpuimg/_runtimes/cuda.py",
          "            finally:\n                follow(caller, own)", "            finally:\n                pass", "cuda/cuda_host::test_mixing"),
    Fault("cuda: a batch is not ordered before its consumer", "gpuimg/_runtimes/cuda.py",
          "wait(reader.address, event.event)", "pass", "cuda/cuda_host_loader::test_a_consumer_on_a_separate_stream"),
    Fault("cuda: kernels do not wait for the decoding of their images", "gpuimg/_runtimes/cuda_decode.py",
          "            wait(stream.ptr, own.done)", "            pass", "cuda/cuda_host::test_turned_images"),
    Fault("cuda: a plan's pinned memory is filled before its copy is done", "gpuimg/_runtimes/cuda_memory.py",
          "        block.used.record(stream)\n", "", "cuda/cuda_host::test_mixing"),
    Fault("cuda: an arena is decoded into before its images are read", "gpuimg/_runtimes/cuda.py",
          "arena.used.record(resources.stream)\n", "pass\n", "cuda/cuda_host::test_turned_images"),
    Fault("cuda: an event is used after a collector destroyed it", "gpuimg/_runtimes/cuda_memory.py",
          "super().__del__()\n        self.ptr = 0", "super().__del__()", "cuda/cuda_host_loader::test_a_result_may_return_after_its_event_was_destroyed"),
    Fault("cuda: a consumer's stream may be destroyed before its batches", "gpuimg/_runtimes/cuda_memory.py",
          "Stream(int(stream.ptr), stream)", "Stream(int(stream.ptr))", "cuda/cuda_host_loader::test_a_consumers_current_stream_lives_as_long_as_its_batches"),
    Fault("cuda: the per-thread default stream is recorded on another thread", "gpuimg/_runtimes/cuda_memory.py",
          "if stream != PER_THREAD_STREAM:", "if stream != -1:", "cuda/cuda_host_loader::test_a_consumer_on_the_per_thread_default_stream"),
    Fault("cuda: nvImageCodec is called on the first device", "gpuimg/_runtimes/cuda_nvimgcodec.py",
          "partial(cupy.cuda.runtime.setDevice, self._index)", "partial(cupy.cuda.runtime.setDevice, 0)", "cuda/cuda_host_loader::test_nvimagecodec_on_the_second_device"),
    Fault("cuda: a kernel of one device is launched on all", "gpuimg/_runtimes/cuda_launch.py",
          "device = cupy.cuda.Device().id", "device = 0", "cuda/cuda_host_loader::test_two_devices"),
    Fault("cuda: a loader's threads disturb a capture", "gpuimg/_runtimes/probe.py",
          "ctypes.c_int(2), _driver()", "ctypes.c_int(0), _driver()", "cuda/cuda_host_loader::test_loaders_run_beside_the_capture_of_a_graph"),
    Fault("cuda: arrays are passed without their items' size", "gpuimg/_runtimes/cuda_launch.py",
          "words += (0, 0, size, step, argument.data.ptr, size, step)", "words += (0, 0, size, size, argument.data.ptr, size, size)",
          "cuda/cuda_host::test_mixing"),
    Fault("cuda: statuses of JPEGs begin with what memory holds", "gpuimg/_runtimes/cuda_jpeg.py",
          "cupy.zeros(n, cupy.int32)", "cupy.empty(n, cupy.int32)", "cuda/cuda_jpeg::test_baseline_files_need_nothing_else"),
    Fault("cuda: the host's memory of statuses that still come is given to others", "gpuimg/_runtimes/cuda_jpeg.py",
          "block.size >= images and block.used.done", "block.size >= images", "cuda/cuda_jpeg::test_memory_for_statuses_that_still_come_is_not_reused"),
    Fault("cuda: reported images are numbered by their part of the files", "gpuimg/_runtimes/cuda_jpeg.py",
          "images.numbers[np.flatnonzero(", "np.arange(len(images))[np.flatnonzero(", "cuda/cuda_jpeg::test_reported_images_are_known_in_any_part"),
    Fault("cuda: marks are placed anew before they are copied, after an exception", "gpuimg/_runtimes/cuda_decode.py",
          "own.stream.synchronize()  # copies", "pass  # copies", "cuda/cuda_jpeg::test_an_exception_leaves_no_state"),
    Fault("kernels: chroma of even rows is not mixed with that above", "kernels/cuda/jpeg_pixels.py",
          "above = max(i32(row - 1), i32(0))", "above = row", "ptx/jpeg::test_whole_images"),
    Fault("kernels: rows of chroma after the image's last one count in windows", "kernels/jpeg/fill.py",
          "scaled(header.height, scale) - 1 - top) // high", "scaled(header.height, scale) - 1) // high", "ptx/jpeg::test_last_rows"),
    Fault("kernels: two columns of chroma are interpolated", "kernels/jpeg/frame.py",
          "scaled(header.width, scale) < _NARROWEST", "scaled(header.width, scale) < _NARROWEST - 1", "ptx/jpeg::test_scaled_images_of_every_kind"),
    Fault("kernels: exact passes round down", "kernels/cuda/exact.py",
          "half = i32(i32(1) << i32(bits - 1))", "half = i32(0)", "cuda/gpu::test_exact_resizes_are_the_cpus_to_the_last_bit"),
    Fault("kernels: a warp's sum lacks half of its threads", "kernels/cuda/statistics.py",
          "for offset in (16, 8, 4, 2, 1):", "for offset in (8, 4, 2, 1):", "ptx/kernels::test_many_blocks"),
    Fault("kernels: taps reach one pixel beyond the window", "kernels/cuda/sample.py",
          "min(end_x, x_high)", "min(end_x, x_high + f32(1.0))", "ptx/kernels::test_every_variant_has_the_cpus_pixels"),
    Fault("kernels: a block's levels are summed before all are there", "kernels/cuda/statistics.py",
          "k = i32(k + cuda.blockDim.x)\n    cuda.syncthreads()\n    chunk = thread", "k = i32(k + cuda.blockDim.x)\n    chunk = thread",
          "ptx/kernels::test_every_variant_has_the_cpus_pixels"),
    Fault("kernels: a block takes its ticket before all have added", "kernels/cuda/statistics.py",
          "cuda.threadfence()\n    cuda.syncthreads()\n", "cuda.threadfence()\n", "ptx/kernels::test_many_blocks"),
    Fault("kernels: sums of other blocks are read as a block's own", "kernels/cuda/statistics.py",
          "cuda.atomic.add(sums, image, np.int64(0))", "sums[image]", "ptx/kernels::test_many_blocks"),
    Fault("kernels: only one warp waits for the others", "kernels/cuda/statistics.py",
          "cuda.threadfence()\n    cuda.syncthreads()\n    if", "cuda.threadfence()\n    if thread < 32:\n        cuda.syncthreads()\n    if",
          "ptx/kernels::test_many_blocks"),
    Fault("kernels: sums begin with what shared memory holds", "kernels/cuda/statistics.py",
          "        if thread == 0:\n            shared_sum[0] = 0\n", "", "ptx/kernels::test_every_variant_has_the_cpus_pixels"),
    Fault("kernels: a part of a file starts before the one in front of it ends", "kernels/cuda/jpeg_find.py",
          "bit, state\n            cuda.syncthreads()\n", "bit, state\n", "ptx/jpeg::test_whole_images"),
    Fault("kernels: found segments may end before the next ones begin", "kernels/cuda/jpeg_find.py",
          "slack = i32(0) if follows and high == n else end", "slack = end",
          "ptx/jpeg::test_segments_end_where_the_next_one_was_found"),
    Fault("kernels: codes are read before they are in shared memory", "kernels/cuda/jpeg_codes.py",
          "        cuda.syncthreads()\n        k = i32(cuda", "        k = i32(cuda", "ptx/jpeg::test_whole_images"),
    Fault("kernels: columns of a block are transformed before its rows", "kernels/cuda/jpeg_reduced.py",
          "rows 0 and 4\n    cuda.syncwarp()\n", "rows 0 and 4\n", "ptx/jpeg::test_scaled_images_are_pillows"),
    Fault("kernels: checksums of recoded segments are not compared", "kernels/cuda/jpeg_recoded.py",
          "!= _little(words, begin, i32(start << 3))", "!= _sum_of(words, begin, i32(start + 4), stop, lane)",
          "ptx/recoded::test_damaged_segments_are_the_cpus"),
    Fault("kernels: values of a recoded file are put before their places are there", "kernels/cuda/jpeg_recoded.py",
          "u64(mask & u64(mask - u64(1)))\n                cuda.syncwarp()\n", "u64(mask & u64(mask - u64(1)))\n",
          "ptx/recoded::test_whole_images"),
    Fault("kernels: sums over a warp lack a lane", "kernels/cuda/jpeg_find.py",
          "before if lane >= offset", "before if lane > offset", "ptx/jpeg::test_whole_images"),
]  # fmt: skip


def path_of(name: str) -> str:
    """Return the path of a test file, with the test in it that a row names."""
    file, colons, test = name.partition("::")
    folder, _, stem = file.rpartition("/")
    return f"tests/{folder}/test_{stem}.py{colons}{test}"


def problems() -> list[str]:
    """Return the rows of the table that no longer fit the tree."""
    found = []
    for one in FAULTS:
        count = (ROOT / one.file).read_text().count(one.old)
        if count != 1:
            found.append(f"{one.name}: {one.file} has the old text {count} times")
        for path, _, test in (path_of(name).partition("::") for name in one.tests.split()):
            if not (ROOT / path).exists() or f"def {test}" not in (ROOT / path).read_text():
                found.append(f"{one.name}: no {test} in {path}")
    return found


def run(fault: Fault, seconds: float) -> str:
    """Plant a fault in a copy; return the test that reports it, or why none did, beginning with "NOT CAUGHT"."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted({line.split("/")[0] for line in listed.stdout.decode().splitlines()}):
            if (ROOT / name).is_dir():  # with compiled loops, so that only the changed ones are compiled
                shutil.copytree(ROOT / name, Path(folder, name), symlinks=True)
            elif (ROOT / name).exists():
                shutil.copy2(ROOT / name, folder)
        path = Path(folder, fault.file)
        path.write_text(path.read_text().replace(fault.old, fault.new))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", "--no-header"]
        environment = os.environ | {"PYTHONPATH": folder}
        try:
            done = subprocess.run(
                [*command, *map(path_of, fault.tests.split())], cwd=folder, env=environment, timeout=seconds,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"NOT CAUGHT within {seconds:.0f} s"
    first = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if done.returncode == 1 and first:
        return first[1]
    if done.returncode < 0:
        return f"signal {-done.returncode}"
    return f"NOT CAUGHT, exit status {done.returncode}: {(done.stdout + done.stderr).strip()[-300:]}"


def main() -> int:
    """Run the faults with the given names, or all; return 1 if any is not reported."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of faults")
    parser.add_argument("--seconds", type=float, default=1500.0, help="limit of the tests of one fault")
    options = parser.parse_args()
    if found := problems():
        print(*found, sep="\n")
        return 1
    missed = 0
    for fault in FAULTS:
        if not options.names or any(name in fault.name for name in options.names):
            caught = run(fault, options.seconds)
            missed += caught.startswith("NOT")
            print(f"{fault.name}: {caught}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
