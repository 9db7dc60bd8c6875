"""The places of a result's pixels where images are stored in patches, one block of elements for each."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .._checks.types import Ints


@dataclass(frozen=True, slots=True)
class PatchLayout:
    """Patches row by row, or in blocks of ``merge`` x ``merge`` of them; counts are elements.

    An image begins at the offset of its first pixel in its first patch.
    """

    height: int  # pixels of a patch
    width: int
    merge: int
    size: int  # from one patch to the next
    plane: int  # from one channel of a pixel to the next
    row: int  # from one row of a patch to the next
    column: int  # from one pixel of a row to the next
    repeats: int = 1  # how often each value is stored
    repeat: int = 0  # from one of these to the next

    @staticmethod
    def of(
        height: int, width: int, channels: int, *, last: bool, merge: int = 1, frames: int = 1, repeats: int = 1
    ) -> "PatchLayout":
        """Return the layout of patches (C, T, height, width) or, if ``last``, (height, width, C)."""
        area = height * width
        size = channels * frames * area
        if last:
            return PatchLayout(height, width, merge, size, 1, width * channels, channels)
        return PatchLayout(height, width, merge, size, frames * area, width, 1, repeats, area)

    def count(self, sizes: Ints) -> Ints:
        """Return the number of patches of images of sizes (N, 2)."""
        down, across = -(-sizes[:, 0] // self.height), -(-sizes[:, 1] // self.width)
        found: Ints = down * across
        return found

    def put(self, image: Any, out: Any, offset: int) -> None:
        """Copy an image (C, H, W) to its patches in the flat ``out``."""
        channels, height, width = image.shape
        tall, wide = min(self.height, height), min(self.width, width)
        m, down, across = self.merge, -(-height // self.height), -(-width // self.width)
        start, inner = divmod(offset, self.size)
        area = self.height * self.width
        blocks = out[start * self.size : (start + down * across) * self.size]
        if self.column == 1:
            blocks = blocks.reshape(down // m, across // m, m, m, channels, -1, self.height, self.width)
            frame, pixel = divmod(inner, area)
            blocks = blocks[..., frame : frame + self.repeats, :, :]
        else:
            blocks = blocks.reshape(down // m, across // m, m, m, 1, self.height, self.width, channels)
            blocks = blocks.transpose(0, 1, 2, 3, 7, 4, 5, 6)
            pixel = inner // channels
        y, x = divmod(pixel, self.width)
        parts = image.reshape(channels, down // m, m, tall, across // m, m, wide).transpose(1, 4, 2, 5, 0, 3, 6)
        blocks[..., y : y + tall, x : x + wide] = parts[:, :, :, :, :, None]


#: How the pixels of results lie: channels interleaved, a plane for each channel, or in patches.
Form: TypeAlias = Literal["pixels", "planes"] | PatchLayout
