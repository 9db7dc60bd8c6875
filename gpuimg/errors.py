"""Errors for images and videos that cannot be decoded."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DecodeError", "ImageError", "VideoError"]


class Failure(NamedTuple):
    """An image that could not be decoded.

    Attributes
    ----------
    index : int
        Position in the batch.
    source : str
        The path, or a description of the bytes.
    reason : str
        The message of the header check or the decoder.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which has no use here
    source: str
    reason: str

    @property
    def noun(self) -> str:
        """Kind of item that ``index`` counts."""
        return "image"

    def __str__(self) -> str:
        return f"{self.noun} {self.index} ({self.source}): {self.reason}"


class ClipFailure(Failure):
    """A clip of a video that could not be decoded; ``index`` is its position among the clips."""

    @property
    def noun(self) -> str:
        """Kind of item that ``index`` counts."""
        return "clip"


class DecodeError(ValueError):
    """One or more images of a batch could not be decoded; the message names all of them.

    Attributes
    ----------
    failures : tuple of Failure
        Index, source and reason of each image, in the order of the batch.

    Examples
    --------
    >>> import gpuimg
    >>> try:
    ...     gpuimg.decode_batch([b"no image"])
    ... except gpuimg.DecodeError as error:
    ...     [failure.index for failure in error.failures]
    [0]
    """

    def __init__(self, failures: tuple[Failure, ...], total: int) -> None:
        self.failures = failures
        self.total = total
        noun = (failures[0].noun if failures else "image") + ("" if total == 1 else "s")
        lines = "\n  ".join(str(f) for f in failures)
        super().__init__(f"{len(failures)} of {total} {noun} could not be decoded:\n  {lines}")

    def __reduce__(self) -> tuple[type[DecodeError], tuple[tuple[Failure, ...], int]]:
        return type(self), (self.failures, self.total)


class ImageError(ValueError):
    """An image of a batch that an operation is not possible for, such as a crop that is larger than the image.

    Raised by gpuimg's functions. In a loader the policy ``on_error`` applies to it, as to an image that cannot be
    decoded: ``preprocess`` is called again without the sample. A ``preprocess`` function may raise it, too.

    Attributes
    ----------
    index : int
        Position in the batch; of several such images, the first.
    reason : str

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> try:
    ...     gpuimg.five_crop([np.zeros((8, 8, 3), np.uint8), np.zeros((8, 2, 3), np.uint8)], (4, 4))
    ... except gpuimg.ImageError as error:
    ...     print(error)
    image 1: its size (8, 2) is smaller than (4, 4)
    """

    def __init__(self, index: int, reason: str) -> None:
        self.index, self.reason = index, reason
        super().__init__(f"image {index}: {reason}")

    def __reduce__(self) -> tuple[type[ImageError], tuple[int, str]]:
        return type(self), (self.index, self.reason)


class VideoError(ValueError):
    """A video, or some of its frames, cannot be decoded.

    Raised by :func:`gpuimg.video_info`, with the file's name. For clips of a batch, a :class:`DecodeError` names all
    failures.

    Examples
    --------
    >>> import gpuimg
    >>> try:
    ...     gpuimg.video_info(b"no video")
    ... except gpuimg.VideoError as error:
    ...     print(error)
    8 bytes: Invalid data found when processing input
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
