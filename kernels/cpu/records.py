"""Records that the CPU runtime and its native loops share.

Addresses point to memory that the caller keeps alive during the call. All fields without another unit are counts or
numbers; none is negative where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..jpeg.layout import ACCESS, REQUEST
from ..ops import OPS

# -- a batch -----------------------------------------------------------------------------------------------------------

# Kinds of image.
PIXELS: Final = 0  # uint8 or float32 at ``source``
UNPADDED: Final = 1  # at ``source``, but nothing may be read after the last element
ENCODED: Final = 2  # a JPEG that is decoded here
BLACK: Final = 3
VIEW: Final = 4  # another image's ``next_view`` leads to it

# Bits of ``turn``: sides are exchanged, then rows and columns are taken from the other end.
SWAP: Final = 1
FLIP_ROWS: Final = 2
FLIP_COLUMNS: Final = 4

#: An image of a batch. Pixels are those of the image at ``scale``.
IMAGE: Final = np.dtype(
    [
        ("kind", "<i8"),  # one of the kinds above
        ("data", "<i8"),  # address of the file
        ("size", "<i8"),  # bytes of the file
        ("turn", "<i8"),  # how the stored image is turned: the bits above
        ("shown_size", "<i8", 2),  # height and width after that, pixels
        ("region", "<i8", 4),  # x0, y0, x1, y1 of the pixels that are read, as shown
        ("source", "<i8"),  # address of the region's first element
        ("elements", "<i8"),  # elements from there on that may be read
        ("row", "<i8"),  # elements from one row to the next
        ("first_pass", "<i8"),  # passes before it leave the image as it is
        ("out", "<i8"),  # address of the result
        ("out_bytes", "<i8"),
        ("access", ACCESS),  # its entry in a seek index
        ("scale", "<i8"),  # eighths of its stored size that it is decoded at: 8, 4, 2 or 1
        ("next_view", "<i8"),  # the next image of the batch that reads the same pixels, or -1
        ("corner", "<i8", 2),  # x and y of this view's first pixel, from the region's corner
    ],
    align=True,
)

#: A pass over the grid of every image, as :func:`set_pass` fills it.
PASS: Final = np.dtype(
    [
        ("records", "<i8"),  # address of the images' records, see kernels/layout.py
        ("programs", "<i8"),  # address of their programs, float32, one after the other
        ("program_words", "<i8"),  # float32 of one of them
        ("first_slot", "<i8"),  # statistics from this slot on are computed in this pass
        ("byte_calls", "<i8"),  # address of the calls for sources of uint8, 0 where there is none
        ("float_calls", "<i8"),  # and of float32
        ("channels", "<i8"),  # of the result: 1 or 3
        ("itemsize", "<i8"),  # bytes of an element of the result; 0 in a pass for statistics only
        ("regions", "<i8"),  # address of the (N, 4) int64 regions of its source that the segment reads
        ("exact", "<i8"),  # address of the images' EXACT records; 0 where the pass is no exact resize
    ],
    align=True,
)

#: What all threads of a call read.
BATCH: Final = np.dtype(
    [
        ("channels", "<i8"),  # of the source: 1 or 3
        ("scale", "<f4"),  # of the source: 1 for float32, 1/255 for uint8
        ("streamed", "<i4"),  # 1 where results are written past the caches, else 0
        ("decoder", "<i8"),  # address of the JPEG decoder; 0 where no image is ``ENCODED``
    ],
    align=True,
)

#: What all threads of a call write; :func:`.intrinsics.add_to` is how they take numbers.
QUEUE: Final = np.dtype(
    [
        ("next", "<i8"),  # position in the order of the next image that nobody has taken
        ("stop", "<i8"),  # 1 where no more are to be taken
    ],
    align=True,
)

#: Threads of all batches of a process that are in the native loop.
RUNNING: Final = np.dtype([("threads", "<i8")], align=True)


def set_pass(
    one: Any, *, records: Any, programs: Any, first_slot: int, channels: int, itemsize: int, regions: Any, calls: Any
) -> None:
    """Fill a PASS; the caller keeps the arrays alive.

    Parameters
    ----------
    one : PASS
    records, programs : (N,) layout.RECORD, (N, L) float32
    first_slot, channels, itemsize : int
        As the fields.
    regions : (N, 4) int64
    calls : dict of str to (1,) CALLS
        By the dtype of sources.
    """
    one["records"], one["programs"] = records.ctypes.data, programs.ctypes.data
    one["program_words"] = programs.shape[1]
    one["first_slot"], one["channels"], one["itemsize"] = first_slot, channels, itemsize
    one["regions"] = regions.ctypes.data
    for source, field in (("uint8", "byte_calls"), ("float32", "float_calls")):
        one[field] = calls[source].ctypes.data if source in calls else 0


def set_exact_pass(one: Any, *, images: Any, channels: int, regions: Any) -> None:
    """Fill a PASS that is an exact resize, of (N,) EXACT; the caller keeps the arrays alive."""
    one["exact"], one["channels"], one["itemsize"] = images.ctypes.data, channels, 1
    one["regions"] = regions.ctypes.data


# -- a thread ----------------------------------------------------------------------------------------------------------

#: Source pixels of the pass that runs.
SOURCE: Final = np.dtype(
    [
        ("address", "<i8"),
        ("elements", "<i8"),  # from there on that may be read
        ("channels", "<i8"),  # 1 or 3
        ("scale", "<f4"),  # 1 for float32, 1/255 for uint8
    ],
    align=True,
)

#: A thread of a call.
THREAD: Final = np.dtype(
    [
        ("most", "<i8"),  # threads that may be in the native loop, at least 1
        ("limit", "<i8"),  # nanoseconds that the call may take, but for its last image; 0 for no limit
        ("decoding", "<i8"),  # nanoseconds spent decoding; added to
        ("total", "<i8"),  # nanoseconds spent in all; added to
        ("time", "<i8", 2),  # scratch of the clock: seconds and nanoseconds
        ("request", REQUEST),  # scratch: what the decoder is to do
        ("source", SOURCE),  # scratch
    ],
    align=True,
)

_BUFFER: Final = np.dtype([("address", "<i8"), ("size", "<i8")], align=True)  # size in elements

#: Memory of a thread, for the largest image of a call; as :func:`scratch_of` makes it.
SCRATCH: Final = np.dtype(
    [
        ("statistics", _BUFFER),  # float32: the slots of an image
        ("positions", _BUFFER),  # float32: x and y of a row's pixels in an earlier frame
        ("planes", _BUFFER),  # float32: three planes of equal size, of some rows of the grid or all
        ("floats", _BUFFER),  # float32: positions, weights and sums while sampling; copies of planes
        ("ints", _BUFFER),  # int32: offsets of taps; histograms
        ("packed", _BUFFER),  # uint32: a row of pixels
        ("between", _BUFFER),  # uint8: two halves, results of a segment that the next one reads
        ("exact", _BUFFER),  # uint8: of an exact resize
        ("source", _BUFFER),  # uint8: an image's decoded region, with ``SOURCE_SLACK``
        ("stored", _BUFFER),  # uint8: the same before it is turned
        ("tables", _BUFFER),  # jpeg.layout.TABLE: Huffman tables, kept from file to file
        ("work", _BUFFER),  # uint8: of the JPEG decoder
    ],
    align=True,
)


def scratch_of(buffers: Mapping[str, tuple[Any, int]]) -> Any:
    """Return a (1,) SCRATCH of arrays, which the caller keeps alive, and how many elements of each are used."""
    numbers = [number for name in SCRATCH.names or () for number in (buffers[name][0].ctypes.data, buffers[name][1])]
    return np.array(numbers, np.int64).view(SCRATCH)  # all at once: setting the fields one by one takes 20 us


# -- loops by their addresses ------------------------------------------------------------------------------------------

#: Addresses of the loops that a plan needs, 0 for others; :func:`.run.call_table` fills it.
CALLS: Final = np.dtype(
    [
        ("lay_taps", "<i8"),
        ("mix_rows", "<i8"),
        ("add_taps", "<i8"),
        ("sum_patches", "<i8"),
        ("take_pixels", "<i8"),
        ("separable", "<i8"),  # four ways to sample
        ("whole", "<i8"),
        ("patched", "<i8"),
        ("gathered", "<i8"),
        ("store", "<i8"),
        ("rows", "<i8", len(OPS)),  # of ops, by their codes: one row of pixels
        ("grids", "<i8", len(OPS)),  # of ops that take a statistic or read neighbors: the whole grid
        ("reads_neighbors", "<i8", len(OPS)),  # no address, but 1 where an op changes the whole grid
    ],
    align=True,
)
