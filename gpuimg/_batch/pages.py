"""All pictures of files, as clips: animations and TIFF files of several pages."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._data.images import Pixels
from .._decoding import one_file
from .._decoding.options import DecodeOptions
from .._io.file_bytes import Source, SourceNames, check_sources, read
from .._runtimes.protocol import Runtime
from .._threads.helpers import each_side_by_side
from .._threads.threads import threads
from ..errors import DecodeError, Failure


def decoded_pages(runtime: Runtime, sources: Sequence[Source], options: DecodeOptions, on_error: str) -> Pixels:
    """Return clips of all pictures of files, decoded on the CPU; raise an error that names every bad file."""
    check_sources(sources)
    if on_error != "raise":
        raise ValueError('pages="all" needs on_error="raise": a file that cannot be read has no number of pictures')
    clips: dict[int, list[Any]] = {}
    failures: dict[int, Failure] = {}
    names = SourceNames(sources)

    def work(i: int) -> None:
        try:
            clips[i] = list(one_file.decode_pages(read(sources[i], options.max_bytes), options))
            sizes = {one.shape[:2] for one in clips[i]}
            if len(sizes) > 1:
                raise ValueError(
                    f"its pages have {len(sizes)} sizes: decode them one by one, with pages=0, 1 and so on"
                )
        except ValueError as error:
            failures[i] = Failure(i, names[i], str(error))

    each_side_by_side(work, range(len(sources)), min(threads(), len(sources)))
    if failures:
        raise DecodeError(tuple(failures[i] for i in sorted(failures)), len(sources))
    frames = len(clips[0])
    other = next((i for i in range(len(sources)) if len(clips[i]) != frames), None)
    if other is not None:
        raise ValueError(
            f"files have different numbers of pictures, {names[0]} {frames} and {names[other]} {len(clips[other])}: "
            "decode those of each number in a call, or each file by gpuimg.decode_image"
        )
    found = runtime.from_arrays([np.ascontiguousarray(one) for i in range(len(sources)) for one in clips[i]])
    return replace(found, frames=frames)
