"""Records that the CPU runtime and its native loops share.

Addresses point to memory that the caller keeps alive during the call. Fields without a unit are counts; values are not
negative unless the comment says so.
"""

from typing import Any, Final

import numpy as np

from ..jpeg.layout import REQUEST
from ..ops import OPS

# -- a batch -----------------------------------------------------------------------------------------------------------

# Kinds of image.
PIXELS: Final = 0  # uint8 or float32 at ``source``
UNPADDED: Final = 1  # at ``source``, but nothing may be read after the last element
ENCODED: Final = 2  # a JPEG that is decoded by the native loop
BLACK: Final = 3  # all zeros: the file could not be read or decoded
VIEW: Final = 4  # processed with another image that has the same pixels, whose ``next_view`` leads here
IN_PYTHON: Final = 5  # a file that Python decodes, which then makes it one of the first kinds

# Bits of ``turn``: first the sides are exchanged, then rows are reversed, then columns.
SWAP: Final = 1
FLIP_ROWS: Final = 2
FLIP_COLUMNS: Final = 4

#: An image of a batch. Pixels are those of the image at ``scale``.
IMAGE: Final = np.dtype(
    [
        ("kind", "<i8"),  # one of the kinds above
        ("data", "<i8"),  # address of the file
        ("size", "<i8"),  # bytes of the file
        ("turn", "<i8"),  # from the stored to the shown orientation: the bits above
        ("shown_size", "<i8", 2),  # height and width after that, pixels
        ("region", "<i8", 4),  # x0, y0, x1, y1 of the pixels that are read, in the shown orientation
        ("source", "<i8"),  # address of the region's first element
        ("elements", "<i8"),  # elements from there on that may be read
        ("row", "<i8"),  # elements from one row to the next
        ("first_pass", "<i8"),  # index of its first pass: those before it would not change the image
        ("out", "<i8"),  # address of the result
        ("out_bytes", "<i8"),
        ("scale", "<i8"),  # eighths of its stored size that it is decoded at: 8, 4, 2 or 1
        ("next_view", "<i8"),  # index of the next image of the batch that reads the same pixels, or -1
        ("corner", "<i8", 2),  # x and y of this view's first pixel, from the region's corner
    ],
    align=True,
)

#: A pass over the grid of every image.
PASS: Final = np.dtype(
    [
        ("records", "<i8"),  # address of the images' grids, layout.RECORD
        ("programs", "<i8"),  # address of the images' programs, float32, of equal lengths, one after the other
        ("program_words", "<i8"),  # float32 values of one program
        ("first_slot", "<i8"),  # statistics from this slot on are computed in this pass
        ("byte_calls", "<i8"),  # address of the CALLS for sources of uint8, 0 where no source is
        ("float_calls", "<i8"),  # and for sources of float32
        ("channels", "<i8"),  # of the result: 1 or 3
        ("itemsize", "<i8"),  # bytes of an element of the result; 0 in a pass for statistics only
        ("regions", "<i8"),  # address of the (N, 4) int64 regions of its source that the segment reads
        ("patches", "<i8"),  # address of a PATCHES; 0 where results are not stored in patches
        ("exact", "<i8"),  # address of the images' EXACT records; 0 where the pass is no exact resize
        ("stored", "<i8"),  # address of the images' STORED records, of an exact resize as the next ones
        ("resize", "<i8"),  # address of its loop
        ("store", "<i8"),  # address of the loop that stores bytes
        ("areas", "<i8"),  # address of the images' AREA records; 0 where the pass is no op on whole images
        ("apply", "<i8"),  # address of its loop
    ],
    align=True,
)

#: Settings of a call, which all its threads read.
BATCH: Final = np.dtype(
    [
        ("channels", "<i8"),  # of the source: 1 or 3
        ("scale", "<f4"),  # of the source: 1 for float32, 1/255 for uint8
        ("streamed", "<i4"),  # 1 where results are written past the caches, else 0
        ("decoder", "<i8"),  # address of the JPEG decoder; 0 where no image is ``ENCODED``
        ("progressive_decoder", "<i8"),  # and of that of progressive files; 0 where there are none
        ("recoded_decoder", "<i8"),  # and of that of recoded files
        ("row_maker", "<i8"),  # and of the loop that makes rows of pixels for all of them
        ("books", "<i8"),  # and of the tables of recoded files
    ],
    align=True,
)

#: Images of a call, for its threads: addresses of what they read and fill, and counters that they change atomically.
JOB: Final = np.dtype(
    [
        ("order", "<i8"),  # int64: the images in the order in which they are claimed
        ("size", "<i8"),  # number of these
        ("count", "<i8"),  # number of all images, and of the records of each kind
        ("images", "<i8"),
        ("headers", "<i8"),
        ("statuses", "<i8"),
        ("passes", "<i8"),
        ("pass_count", "<i8"),
        ("batch", "<i8"),
        ("scratch", "<i8"),  # a record for each thread of the call, the calling one first
        ("threads", "<i8"),
        ("encodings", "<i8"),  # address of the images' jpeg.encode.ENCODING; 0 where results are pixels
        ("helpers", "<i8"),  # workers that may help
        ("offer", "<i8"),  # number of the OFFER with the job, from 1 on; 0 while no worker may help
        ("next", "<i8"),  # position in the order of the next image that no thread has claimed; may pass the end
        ("stop", "<i8"),  # 1 where no more images may be claimed
    ],
    align=True,
)

#: All threads of the process that compute images, see :mod:`.team`.
TEAM: Final = np.dtype(
    [
        ("most", "<i8"),  # threads that may compute at a time, at least 1
        ("running", "<i8"),  # threads that do
        ("turn", "<i8"),  # changes whenever a thread that waits should look again
        ("waiting", "<i8"),  # threads of calls that wait for others to end
        ("idle", "<i8"),  # workers that wait for jobs
        ("jobs", "<i8"),  # number of jobs so far
        ("ending", "<i8"),  # 1 where workers end
    ],
    align=True,
)

#: A job that workers may help with.
OFFER: Final = np.dtype(
    [
        ("taken", "<i8"),  # 1 from before there is a job until after all workers have left it
        ("number", "<i8"),  # of the job: the oldest has the lowest
        ("job", "<i8"),  # address of the JOB, or 0
        ("wanted", "<i8"),  # workers that may still join it: none once no image is left
        ("inside", "<i8"),  # workers that have joined it, or look whether they can
        ("unused", "<i8", 3),  # so that offers are in separate lines of the cache
    ],
    align=True,
)


#: How a pass stores its result in patches, each a block of elements; elements are counted from the result's first one.
PATCHES: Final = np.dtype(
    [
        ("height", "<i8"),  # pixels of a patch
        ("width", "<i8"),
        ("merge", "<i8"),  # patches follow one another in blocks of merge x merge
        ("size", "<i8"),  # elements from one patch to the next
        ("plane", "<i8"),  # from one channel of a pixel to the next
        ("row", "<i8"),  # from one row of a patch to the next
        ("column", "<i8"),  # from one pixel of a row to the next
        ("repeats", "<i8"),  # how often each value is stored
        ("repeat", "<i8"),  # from one of these to the next
    ],
    align=True,
)

#: How an exact resize stores its part: in patches, planes and pixels being patches as large as that; and normalized.
STORED: Final = np.dtype(
    [
        *((name, "<i8") for name in PATCHES.names or ()),
        ("elements", "<i8"),  # of the result
        ("work", "<i8"),  # bytes of work space, see :func:`.bytes_store.store_space`
        ("mean", "<f4", 3),  # as in the program's instruction "normalize_bytes"
        ("std", "<f4", 3),
        ("divisor", "<f4"),  # 0 where bytes are not normalized
        ("mirrored", "<i4"),  # 1 where the last column is stored first
    ],
    align=True,
)

#: Bytes of an exact resize's work space, from its first multiple of 64 on, that are 0 before the first image of a call:
#: they say what taps the image before has left there.
KEPT_BYTES: Final = 192


def address_of(array: Any) -> int:
    """Return the address of an array's first element, 0 for None."""
    address: int = 0 if array is None else array.ctypes.data  # the array interface of records lists their fields
    return address


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
        ("limit", "<i8"),  # nanoseconds after which no further image is claimed; 0 for no limit
        ("decoding", "<i8"),  # nanoseconds spent decoding; added to
        ("total", "<i8"),  # nanoseconds spent in all; added to
        ("time", "<i8", 2),  # scratch of the clock: seconds and nanoseconds
        ("request", REQUEST),  # scratch: the argument of the decoder
        ("source", SOURCE),  # scratch
        ("placed", "<i8"),  # 1 while Python decodes images on this thread, which counts as computing
        ("unused", "<i8", 4),  # so that threads are in separate lines of the cache
    ],
    align=True,
)

_BUFFER: Final = np.dtype([("address", "<i8"), ("size", "<i8")], align=True)  # size in elements

#: Buffers of a thread, large enough for the largest image of a call.
SCRATCH: Final = np.dtype(
    [
        ("statistics", _BUFFER),  # float32: the slots of an image
        ("positions", _BUFFER),  # float32: x and y of a row's pixels in the coordinates of an earlier grid
        ("planes", _BUFFER),  # float32: three planes of equal size, of some rows of the grid or all
        ("floats", _BUFFER),  # float32: positions, weights and sums while sampling; copies of planes
        ("ints", _BUFFER),  # int32: offsets of taps; histograms
        ("packed", _BUFFER),  # uint32: a row of pixels, or a row of each channel as stored
        ("between", _BUFFER),  # uint8: two halves, results of a segment that the next one reads
        ("exact", _BUFFER),  # uint8: of an exact resize
        ("area", _BUFFER),  # uint8: of an op on whole images
        ("source", _BUFFER),  # uint8: an image's decoded region, with ``SOURCE_SLACK``
        ("stored", _BUFFER),  # uint8: the same in the stored orientation
        ("work", _BUFFER),  # uint8: scratch of the JPEG decoder
        ("result", _BUFFER),  # uint8: an image that is encoded
        ("encode", _BUFFER),  # uint8: scratch of the JPEG encoder
        ("tables", _BUFFER),  # jpeg.layout.TABLE: Huffman tables, used again by files with equal definitions
    ],
    align=True,
)

#: Elements of the fields of :data:`SCRATCH` for the largest image of a call; tables have a fixed number.
NEEDS: Final = np.dtype([(name, "<i8") for name in (SCRATCH.names or ())[:-1]], align=True)


# -- loops by their addresses ------------------------------------------------------------------------------------------

#: Addresses of the loops that a plan needs, 0 for others; :func:`.run.call_table` fills it.
CALLS: Final = np.dtype(
    [
        ("lay_taps", "<i8"),  # steps of sampling
        ("mix_rows", "<i8"),
        ("add_taps", "<i8"),
        ("sum_patches", "<i8"),
        ("take_pixels", "<i8"),
        ("separable", "<i8"),  # ways to sample
        ("whole", "<i8"),
        ("patched", "<i8"),
        ("gathered", "<i8"),
        ("store", "<i8"),
        ("rows", "<i8", len(OPS)),  # by op code: the op over one row of pixels
        ("grids", "<i8", len(OPS)),  # by op code: the statistic of a whole grid, or an op that reads neighbors
        ("reads_neighbors", "<i8", len(OPS)),  # no address, but 1 where an op changes the whole grid
    ],
    align=True,
)
