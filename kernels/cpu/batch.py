"""The CPU runtime's batch: one call a thread takes images, decodes and runs them, until none is left; no GIL."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..compiled import kept
from ..jpeg.decode import call_decode
from ..jpeg.layout import DONE
from ..layout import HEIGHT, RECORD_WORDS, STRIDE, WIDTH
from ..scalar import f32, loop
from .calls import CALLS
from .clock import now, pause
from .intrinsics import add_to, address_of, bytes_at, copy, floats_at, ints_at, longs_at
from .run import run_image
from .sample import SOURCE_SLACK

# Words of an image.
KIND: Final = 0  # one of the kinds below
DATA: Final = 1  # address and size of the file
SIZE: Final = 2
TURN: Final = 3  # how the stored image is turned: the bits below
SHOWN_HEIGHT: Final = 4  # size after that
SHOWN_WIDTH: Final = 5
REGION: Final = 6  # x0, y0, x1, y1 of what is read
SOURCE: Final = 10  # address of the region's first element
ELEMENTS: Final = 11  # from there on that may be read
ROW: Final = 12  # elements from row to row
FIRST: Final = 13  # the pass to begin with
OUT: Final = 14  # address of the result, and its size
OUT_BYTES: Final = 15
ACCESS: Final = 16  # words of its entry in a seek index, see jpeg/seek.py
SCALE: Final = 20  # eighths of its size that it is decoded at: 8, 4, 2 or 1; all the above is in pixels of that scale
NEXT_VIEW: Final = 21  # the next image that reads the same pixels, or -1
CORNER: Final = 22  # x and y, counted from the region's corner, of what this image reads
IMAGE_WORDS: Final = 24

# Kinds of image.
PIXELS: Final = 0  # at SOURCE
UNPADDED: Final = 1  # at SOURCE, but nothing may be read behind them
ENCODED: Final = 2  # a JPEG that is decoded here
BLACK: Final = 3
VIEW: Final = 4  # one that another image leads to

# Bits of TURN: sides are exchanged, then rows and columns are taken from the other end.
SWAP: Final = 1
FLIP_ROWS: Final = 2
FLIP_COLUMNS: Final = 4

# Words of a pass.
RECORDS: Final = 0  # address
PROGRAMS: Final = 1  # address
PROGRAM_WORDS: Final = 2
FIRST_SLOT: Final = 3
BYTE_TABLE: Final = 4  # addresses of the calls for sources of bytes, and of float32
FLOAT_TABLE: Final = 5
CHANNELS: Final = 6  # of the result
ITEMSIZE: Final = 7  # of the result; 0 in a pass for statistics only
REGIONS: Final = 8  # address of the (N, 4) regions of its source that the segment reads
PASS_WORDS: Final = 9
_REGION_BYTES = 32

# Words that threads share.
NEXT: Final = 0  # the next image in order
STOP: Final = 1  # 1 where no more are to be taken
SHARED_WORDS: Final = 2

# Words of a thread: nanoseconds that it decoded and worked, and scratch for a region and the clock.
DECODING: Final = 0
TOTAL: Final = 1
_REGION = 2
_TIME = 6
THREAD_WORDS: Final = 8


@loop
def _stored_region(image, region):
    """Where the region of a turned image lies in the file."""
    x0, y0, x1, y1 = image[REGION], image[REGION + 1], image[REGION + 2], image[REGION + 3]
    if image[TURN] & FLIP_COLUMNS:
        x0, x1 = image[SHOWN_WIDTH] - x1, image[SHOWN_WIDTH] - x0
    if image[TURN] & FLIP_ROWS:
        y0, y1 = image[SHOWN_HEIGHT] - y1, image[SHOWN_HEIGHT] - y0
    if image[TURN] & SWAP:
        x0, y0, x1, y1 = y0, x0, y1, x1
    region[0], region[1], region[2], region[3] = x0, y0, x1, y1


@loop
def _turned(stored, height, width, channels, turn, out):
    """Copy pixels as they are shown, of the size after turning."""
    down, across = (1, height) if turn & SWAP else (width, 1)
    start = 0
    if turn & FLIP_ROWS:
        start += (height - 1) * down
        down = -down
    if turn & FLIP_COLUMNS:
        start += (width - 1) * across
        across = -across
    for y in range(height):
        for x in range(width):
            at = (start + y * down + x * across) * channels
            to = (y * width + x) * channels
            for c in range(channels):
                out[to + c] = stored[at + c]


@loop
def _decode(decoder, image, header, channels, stored, tables, work, region, told, out):
    """Decode the region of an image, as it is shown."""
    _stored_region(image, region)
    data = bytes_at(image[DATA], image[SIZE])
    turn = image[TURN]
    to, access, scale = stored if turn else out, image[ACCESS:], image[SCALE]
    call_decode(decoder, (header, data, data.size, region, scale, channels, to, tables, work, work.size, access, told))
    if turn and told[0] == DONE:
        height, width = image[REGION + 3] - image[REGION + 1], image[REGION + 2] - image[REGION]
        _turned(stored, height, width, channels, turn, out)


@loop
def _run_passes(
    i, image, passes, pixels, elements, channels, scale, statistics_, planes, floats, ints, packed, between, streamed
):  # fmt: skip
    """One image through its passes, from the one that it begins with."""
    last = passes.shape[0] - 1
    row = image[ROW]
    side = 0
    for p in range(image[FIRST], passes.shape[0]):
        one = passes[p]
        record = ints_at(one[RECORDS] + i * 4 * RECORD_WORDS, RECORD_WORDS)
        words = floats_at(one[RECORDS] + i * 4 * RECORD_WORDS, RECORD_WORDS)
        program = floats_at(one[PROGRAMS] + i * 4 * one[PROGRAM_WORDS], one[PROGRAM_WORDS])
        calls = longs_at(one[FLOAT_TABLE] if scale == f32(1.0) else one[BYTE_TABLE], CALLS)
        record[STRIDE] = row
        size = np.int64(record[HEIGHT]) * record[WIDTH] * one[CHANNELS] * one[ITEMSIZE]
        out = bytes_at(image[OUT], size) if p == last else between[side][:size]
        run_image(
            calls, bytes_at(pixels, elements), elements, channels, scale, record, words, program, one[FIRST_SLOT],
            statistics_, planes, floats, ints, packed, out, one[CHANNELS], streamed and p == last,
        )  # fmt: skip
        if size and p != last:  # what a segment gives is the source of the next one; it reads one while it writes
            side = 1 - side
            region = longs_at(passes[p + 1, REGIONS] + i * _REGION_BYTES, 4)
            channels = one[CHANNELS]
            row = record[WIDTH] * channels
            corner = region[1] * row + region[0] * channels
            pixels, elements = address_of(out) + 4 * corner, size // 4 - corner
            scale = f32(1.0)


@loop
def _source(image, header, channels, decoder, source, stored, tables, work, thread, told, out):
    """Address of an image's region, and its elements; in ``out``, where there is no more to be done, else in scratch.

    What may be read behind the region counts as well, so that an image gives the same wherever its pixels were.
    """
    kind = image[KIND]
    if kind == PIXELS:
        return image[SOURCE], image[ELEMENTS]
    height, width = image[REGION + 3] - image[REGION + 1], image[REGION + 2] - image[REGION]
    size = height * width * channels
    if kind == UNPADDED:
        size = image[ELEMENTS]
    to = (source if out.size == 0 else out)[:size]
    if kind == ENCODED:
        begin = now(thread[_TIME:])
        _decode(decoder, image, header, channels, stored, tables, work, thread[_REGION:_TIME], told, to)
        thread[DECODING] += now(thread[_TIME:]) - begin
    elif kind == UNPADDED:
        copy(bytes_at(image[SOURCE], size), to)
    else:
        for k in range(size):
            to[k] = 0
    return address_of(to), size + SOURCE_SLACK


@kept
def run_images(
    order, shared, images, headers, passes, channels, scale, decoder, statistics_, planes, floats, ints, packed,
    between, source, stored, tables, work, thread, told, streamed, places, most, limit
):  # fmt: skip
    """Take images in an order that threads share, decode and run each; give whether none is left.

    Parameters
    ----------
    order, shared : (n,), (SHARED_WORDS,) int64
    images, headers, told : (N, IMAGE_WORDS), (N, jpeg.HEADER_WORDS), (N, jpeg.TOLD_WORDS) int64
        ``told``: how decoding of each image ended. What did not decode is not run.
    passes : (P, PASS_WORDS) int64
        None of them: what is decoded is the result.
    channels, scale
        Of the source, which is float32 where the scale is 1.
    decoder : int
        Address of the JPEG decoder.
    statistics, planes, floats, ints, packed, between, source, stored, tables, work, thread
        Memory of the thread, for the largest image.
    places, most : (1,) int64, int
        Threads at work in calls of all batches, and how many may be. A thread waits here, rather than in Python, where
        it would have to wait for the lock of Python as well.
    limit : int
        Nanoseconds that this call may take, but for the last image; 0 for no limit.
    """
    begin = now(thread[_TIME:])
    while add_to(places, 0, 1) >= most:
        add_to(places, 0, -1)
        pause()
        if shared[STOP] != 0 or shared[NEXT] >= order.size or (limit and now(thread[_TIME:]) - begin > limit):
            return shared[STOP] == 0 and shared[NEXT] >= order.size
    start = now(thread[_TIME:])
    whole = False
    while shared[STOP] == 0:
        at = add_to(shared, NEXT, 1)
        if at >= order.size:
            whole = True
            break
        i = order[at]
        image = images[i]
        out = bytes_at(image[OUT], image[OUT_BYTES] if passes.shape[0] == 0 else 0)
        pixels, elements = _source(
            image, headers[i], channels, decoder, source, stored, tables, work, thread, told[i], out
        )
        if told[i, 0] == DONE and passes.shape[0]:
            while i >= 0:
                # Only bytes have several views.
                corner = images[i, CORNER + 1] * image[ROW] + images[i, CORNER] * channels
                _run_passes(
                    i, images[i], passes, pixels + corner, elements - corner, channels, scale, statistics_, planes,
                    floats, ints, packed, between, streamed,
                )  # fmt: skip
                i = images[i, NEXT_VIEW]
        if limit and now(thread[_TIME:]) - begin > limit:
            break
    add_to(places, 0, -1)
    thread[TOTAL] += now(thread[_TIME:]) - start
    return whole
