"""What the images of a batch read, and the memory that a thread needs for them."""

from typing import Final

from ..compiled import cached_jit
from ..jpeg import decode, progressive, recoded
from ..jpeg.encode import ENCODING, HEAD_BYTES, encode_bytes
from ..jpeg.layout import BASELINE, HEADER, PROGRESSIVE, RECODED, STATUS
from ..layout import GATHERED, LINEAR, RECORD
from ..ops import ELASTIC, JPEG, LEVELS, MOTION, READS_NEIGHBORS, SHARPNESS, STATISTICS_WORDS
from ..scalar import i64, loop
from . import artefacts, elastic
from .intrinsics import longs_at
from .records import BATCH, ENCODED, IMAGE, IN_PYTHON, JOB, NEEDS, PASS, SCRATCH, THREAD, VIEW
from .sample import work_space

# Rows sampled at a time: enough to share the tap tables, few enough for the second-level cache.
_ROWS = 64
_CHANNELS = 3  # the most that the kernels process
_REGION_BYTES = 32
_row_bytes, _coefficient_bytes = loop(decode.work_bytes), loop(progressive.coefficient_bytes)
_list_bytes = loop(recoded.list_bytes)
_MOTION, _SHARPNESS, _JPEG, _ELASTIC = (op.code for op in (MOTION, SHARPNESS, JPEG, ELASTIC))

#: Ways to sample, as bits: 1 << way of kernels/layout.py, and this one for grids that :mod:`.patches` samples.
PATCHED: Final = 1 << 8


@cached_jit("int64(uint8[::1])", nogil=False)
def address_of_bytes(memory):
    """Return an array's address; in Python, ``array.ctypes`` would create an object for it."""
    return memory.ctypes.data


@cached_jit("boolean(int64[::1], int64[:, ::1], int64[:, :, ::1], int64)", nogil=False)
def set_elements(needs, reserved, scratch, count):
    """Set the elements of buffers of the first threads, the last column of ``scratch``.

    Return whether one needs more than is reserved.
    """
    more = False
    for thread in range(count):
        for k in range(len(needs)):
            scratch[thread, k, 1] = needs[k]
            more = more or needs[k] > reserved[thread, k]
    return more


@cached_jit(
    "none(JOB[::1], int64[::1], IMAGE[::1], HEADER[::1], STATUS[::1], PASS[::1], BATCH[::1], SCRATCH[::1], "
    "THREAD[::1], ENCODING[::1], int64)",
    nogil=False,
    JOB=JOB,
    IMAGE=IMAGE,
    HEADER=HEADER,
    STATUS=STATUS,
    PASS=PASS,
    BATCH=BATCH,
    SCRATCH=SCRATCH,
    THREAD=THREAD,
    ENCODING=ENCODING,
)
def set_job(job_, order, images, headers, statuses, passes, batch, scratch, threads, encodings, helpers):
    """Set a job to arrays that the caller keeps alive; no image of it is claimed."""
    job = job_[0]
    job.order, job.size, job.count = order.ctypes.data, order.size, images.size
    job.images, job.headers, job.statuses = images.ctypes.data, headers.ctypes.data, statuses.ctypes.data
    job.passes, job.pass_count, job.batch = passes.ctypes.data, passes.size, batch.ctypes.data
    job.scratch, job.threads = scratch.ctypes.data, threads.ctypes.data
    job.encodings = encodings.ctypes.data if encodings.size else 0
    job.helpers, job.offer, job.next = helpers, 0, 0


@cached_jit(
    "int64(ENCODING[::1], int64, int64[:, ::1], int64, int64[::1], int64, int64, int64)",
    nogil=False,
    ENCODING=ENCODING,
)
def set_encodings(encodings, encoder, sizes, channels, qualities, sampling, optimize, restart):
    """Set how images of sizes (N, 2) are encoded, by the loop at an address; return the bytes of scratch for any.

    ``room`` becomes what is enough for nearly all files, which have no memory yet.
    """
    most = 0
    for i in range(len(encodings)):
        one = encodings[i]
        one.encoder, one.height, one.width, one.channels = encoder, sizes[i, 0], sizes[i, 1], channels
        one.quality, one.sampling, one.optimize, one.restart = qualities[i], sampling, optimize, restart
        share = 3 if one.quality <= 80 else 2 if one.quality <= 95 else 1  # photos need about a third of it
        one.size, one.room = 0, HEAD_BYTES + (one.height * one.width * channels >> share)
        most = max(most, encode_bytes(one.height, one.width, optimize))
    return most


@cached_jit(
    "int64(PASS[::1], int64, RECORD[::1], float32[:, ::1], int64[:, ::1], uint8[::1], int64, int64, NEEDS[::1])",
    nogil=False,
    PASS=PASS,
    RECORD=RECORD,
    NEEDS=NEEDS,
)
def set_pass(passes, k, records, programs, regions, used, first_slot, end_slot, needs_):
    """Set pass ``k`` to arrays that the caller keeps alive, and raise ``needs``; return its ways to sample, as bits.

    ``used`` is not 0 for the codes of ops in the programs. The pass computes the statistics ``first_slot`` to
    ``end_slot``.
    """
    one = passes[k]
    one.records, one.programs, one.regions = records.ctypes.data, programs.ctypes.data, regions.ctypes.data
    one.program_words, one.first_slot = programs.shape[1], first_slot
    needs, ways = needs_[0], i64(0)
    whole = first_slot < end_slot
    for code in range(used.size):
        whole = whole or (used[code] != 0 and READS_NEIGHBORS[code])
    needs.statistics = max(needs.statistics, end_slot * STATISTICS_WORDS)
    needs.ints = max(needs.ints, LEVELS)
    for i in range(len(records)):
        record = records[i]
        height, width = i64(record.height), i64(record.width)
        patched = record.way == GATHERED and record.filter <= LINEAR
        ways |= PATCHED if patched else i64(1) << i64(record.way)
        floats, ints = work_space(height, width, i64(record.taps[0]), i64(record.taps[1]), i64(record.window[2]))
        if used[_MOTION]:
            floats = max(floats, height * width)  # a plane, while it is averaged
        if used[_SHARPNESS]:
            floats = max(floats, 2 * width)  # two rows of a plane
        if used[_JPEG]:
            floats = max(floats, artefacts.work_for(height, width))
        if used[_ELASTIC]:
            floats = max(floats, elastic.work_for(height, width))
        needs.positions = max(needs.positions, 2 * width)
        rows = height if whole or height < _ROWS else i64(_ROWS)
        needs.planes = max(needs.planes, _CHANNELS * width * rows)
        needs.floats, needs.ints = max(needs.floats, floats), max(needs.ints, ints)
        needs.packed = max(needs.packed, _CHANNELS * width)  # also a row of each channel, as stored
    return ways


@cached_jit(
    "int64(IMAGE[::1], HEADER[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1], int64[::1], PASS[::1], "
    "int64[::1], int64, uint8[::1], int64[::1], int64, int64[:, ::1], int64, NEEDS[::1])",
    nogil=False,
    IMAGE=IMAGE,
    HEADER=HEADER,
    PASS=PASS,
    NEEDS=NEEDS,
)
def set_images(
    images, headers, addresses, sizes, turns, shown_sizes, scales, passes, first, channels, out, offsets, itemsize,
    results, elements, needs_,
):  # fmt: skip
    """Fill in images: their files, regions, results, and links of those that occur several times.

    The first occurrence of an image has a region for all of them. Raises ``needs`` to the largest region, as shown and
    as stored, and to the decoder's memory. Returns how many files are left to Python.

    Parameters
    ----------
    images : (N,) IMAGE
        With ``first_pass``.
    headers, addresses, sizes : (N,) jpeg.layout.HEADER, (N,) int64, (N,) int64
        Those of the files; none for images that are no files.
    turns : (9,) int64
        By EXIF orientation, the bits of :mod:`.records`.
    shown_sizes, scales : (N, 2) int64, (N,) int64
        Of the images at their scale, in eighths of their stored sizes.
    passes : (P,) PASS
        If empty, images are read whole.
    first : (N,) int64
        The index of each image's first occurrence; empty where no image occurs twice.
    out, offsets, itemsize : (M,) uint8, (N,) int64, int
        Memory, the element of it with which an image's result begins, and the bytes of an element.
    results, elements : (N, 2) int64, int
        A result has the product of its two numbers in ``results`` times so many elements.
    """
    needs, left = needs_[0], 0
    for i in range(len(images)):
        image = images[i]
        if headers.size:
            header = headers[i]
            image.data, image.size, image.turn = addresses[i], sizes[i], turns[header.orientation]
            if first.size and first[i] != i:
                image.kind = VIEW
            elif header.kind != BASELINE and header.kind != PROGRESSIVE and header.kind != RECODED:
                image.kind = IN_PYTHON
                left += 1
            else:
                image.kind = ENCODED
                work = _row_bytes(header.width)
                if header.kind == PROGRESSIVE:
                    work += _coefficient_bytes(header)
                elif header.kind == RECODED:
                    work += _list_bytes(header.width)
                needs.work = max(needs.work, work)
        image.shown_size[0], image.shown_size[1] = shown_sizes[i, 0], shown_sizes[i, 1]
        image.next_view, image.scale = -1, scales[i]
        image.out = out.ctypes.data + offsets[i] * itemsize
        image.out_bytes = results[i, 0] * results[i, 1] * elements * itemsize
        region = image.region
        region[0], region[1], region[2], region[3] = 0, 0, shown_sizes[i, 1], shown_sizes[i, 0]
        if passes.size:
            read = longs_at(passes[image.first_pass].regions + i * _REGION_BYTES, 4)
            region[0], region[1], region[2], region[3] = read[0], read[1], read[2], read[3]
        image.corner[0], image.corner[1] = region[0], region[1]
    for i in range(first.size - 1, -1, -1):
        region, whole = images[i].region, images[first[i]].region
        if first[i] != i:
            images[i].next_view, images[first[i]].next_view = images[first[i]].next_view, i
        for k in range(2):
            whole[k], whole[k + 2] = min(whole[k], region[k]), max(whole[k + 2], region[k + 2])
    for i in range(len(images)):
        image = images[i]
        for k in range(4 if first.size else 0):
            image.region[k] = images[first[i]].region[k]
        image.corner[0] -= image.region[0]
        image.corner[1] -= image.region[1]
        image.row = (image.region[2] - image.region[0]) * channels
        size = (image.region[3] - image.region[1]) * image.row
        needs.source = max(needs.source, size)
        if image.turn:
            needs.stored = max(needs.stored, size)
    return left
