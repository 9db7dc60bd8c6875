"""Routing of files to decoders, by their headers and the options of decoding: one function per decoder.

A file goes to the first decoder that takes it, and after a failure to the next:

1. files of batches with alpha or 16-bit values (:func:`is_special`) individually, if :func:`is_individual`;
2. on a GPU, nvImageCodec where it is installed, if :func:`nvimgcodec_takes`, or of JPEG 2000 and TIFF files
   :func:`nvimgcodec_takes_other`, also those with 16-bit values; else
3. our kernels for baseline and recoded JPEGs (:mod:`gpuimg.kernels.jpeg.segments`): :func:`assign` decides for a batch,
   and what either refuses goes to
4. our decoders on the CPU, of baseline, progressive and recoded JPEGs, if their kind is one of ``OURS``;
5. our decoder of PNG files, which itself says what it takes, see :mod:`.png`;
6. Pillow.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks.types import Mask, Records
from ..kernels.jpeg.layout import BASELINE, OTHER, PROGRESSIVE, RECODED, RGB
from .options import AUTO, GPUIMG, DecodeOptions
from .pillow import PillowHeader
from .recoded import is_recoded

#: Kinds of JPEG that our decoders on the CPU take.
OURS = (BASELINE, PROGRESSIVE, RECODED)
_PROFILE = b"ICC_PROFILE\0"  # start of JPEG marker segments that hold an ICC profile
_PROGRESSIVE = 2  # the last coding process that nvJPEG supports


#: Decoders of a batch on a GPU, in the order of the list above. What one refuses is ``HOST``'s, whose own is a failure.
NVIMGCODEC, KERNELS, HOST, FAILED = range(4)


def assign(
    records: Records, options: DecodeOptions, others: Mapping[int, PillowHeader], failed: Iterable[int], given_up: Mask,
    *, nvimgcodec: bool, of_others: bool, kernels: bool, least_row: int,
) -> NDArray[np.int8]:  # fmt: skip
    """Return (N,): the decoder of each file of a batch on a GPU.

    ``others`` are the files that only Pillow reads on the CPU, ``given_up`` those that kernels have reported.
    ``nvimgcodec`` (of JPEGs, and ``of_others``) and ``kernels`` say which decoders there are; rows of nvImageCodec's
    images have at least ``least_row`` bytes.
    """
    decoders = np.full(len(records), HOST, np.int8)
    if kernels:
        decoders[np.isin(records["kind"], (BASELINE, RECODED)) & ~given_up] = KERNELS
    wide = records["width"] * options.channels >= least_row
    if nvimgcodec:
        decoders[nvimgcodec_takes(records, options) & wide] = NVIMGCODEC
    for i, header in others.items():
        taken = of_others and wide[i] and nvimgcodec_takes_other(header, options)
        decoders[i] = NVIMGCODEC if taken else HOST
    decoders[[*failed]] = FAILED
    return decoders


def is_jpeg(data: Any) -> bool:
    """Return True for file bytes that begin as a JPEG does, or one that was recoded."""
    return bytes(data[:2]) == b"\xff\xd8" or is_recoded(data)


def is_special(options: DecodeOptions) -> bool:
    """Return True if a batch has alpha or 16-bit values, which the decoders of batches do not produce."""
    return options.has_alpha or options.bits != 8


def is_individual(header: PillowHeader | None, options: DecodeOptions) -> bool:
    """Return True if a file of a special batch has alpha or 16-bit values itself; other files gain them afterwards."""
    if header is None or header.codec == "jpeg":
        return False
    return options.has_alpha or header.depth > 8


def nvimgcodec_takes(records: Records, options: DecodeOptions) -> Mask:
    """Return a mask of files for nvImageCodec: gray or YCbCr JPEGs that every decoder reads in the same way.

    If a header has gaps, nvImageCodec's parser and its decoder may read two different sizes, and write past an image.
    Its result for a truncated file depends on which of its decoders is used. What the call asks for and nvImageCodec
    cannot do, ``draft``, leaves baseline files to our kernels.
    """
    if options.decoder == GPUIMG:
        return np.zeros(len(records), np.bool_)
    alike = (records["strict"] == 1) & (records["whole"] == 1) & (records["process"] <= _PROGRESSIVE)
    alike &= records["kind"] != RECODED
    components = records["components"]
    taken: Mask = alike & (records["color"] != RGB) & ((components == 1) | (components == 3))
    if options.decoder == AUTO and options.draft is not None:
        taken &= records["kind"] != BASELINE
    return taken


def nvimgcodec_takes_other(header: PillowHeader, options: DecodeOptions) -> bool:
    """Return True for a file for nvImageCodec's other decoders: it has the channels and bits that are asked for."""
    is_as_asked = (header.channels, header.depth) == (options.channels, options.bits)
    return header.is_common and is_as_asked and options.icc == "ignore" and options.decoder != GPUIMG


def pillow_only(data: Sequence[Any], records: Records, options: DecodeOptions) -> Mask | None:
    """Return a mask (N,) of JPEGs that only Pillow can decode with these options; None if there are none.

    Gray is the luma plane of a JPEG, which a JPEG with RGB components does not have; and Pillow applies color profiles.
    """
    if options.channels != 1 and options.icc == "ignore":
        return None
    only: Mask = (records["color"] == RGB) & (options.channels == 1)
    if options.icc == "srgb":
        for i in np.flatnonzero(records["kind"] != OTHER).tolist():
            only[i] |= _PROFILE in bytes(memoryview(data[i])[: int(records["scan"][i])])
    return only
