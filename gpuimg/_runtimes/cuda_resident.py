"""Files in GPU memory from one epoch to the next: coded data of baseline and recoded JPEGs, as kernels read them.

A file is added when it is decoded for the first time, by a copy on the GPU from the batch's upload, until one does not
fit into the budget. In later batches it is copied back: the upload then has neither its bytes nor does the host read
the file. The host keeps its header and its label. Memory is never moved or reused, so a file may be read as long as
these objects live. The copies of all streams are in one order: each waits for the last one to this memory.
"""

import sys
import threading
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from .._checks.types import Ints
from .._data.images import EncodedImages
from .._data.resident import NEW, RECORD, REPORTED
from ..kernels import cuda as kernels
from .cuda_launch import launch
from .cuda_memory import Ring, recorded, upload, wait
from .jpeg_upload import Upload

_WORD = 4  # bytes
_BLOCKS = 16  # of threads for a file at most


class CudaResidentFiles:
    """Memory for files on one GPU, see :class:`gpuimg._data.resident.ResidentFiles`.

    ``budget`` bytes are allocated for the first batch. ``samples`` is the length of the source; ``read`` returns all
    bytes of a sample's file.
    """

    def __init__(self, device: Any, budget: int, samples: int, read: Callable[[int], Any]) -> None:
        self._device = device
        self._words = budget // _WORD
        self._used = 0
        self._is_full = False
        self._records = np.zeros(samples, RECORD)
        self._records["place"] = NEW
        self._heads: dict[int, tuple[bytes, Any]] = {}
        self._memory: Any = None
        self._last: Any = None  # event after the last copy to it
        self._lock = threading.Lock()
        self._read = read

    @property
    def count(self) -> int:
        """Number of files that are there."""
        return len(self._heads)

    def head(self, index: int) -> tuple[Any, bytes, Any] | None:
        """See :meth:`ResidentFiles.head`."""
        found = self._heads.get(index)
        return None if found is None else (self._records[index].copy(), *found)

    def whole(self, index: int) -> Any:
        """See :meth:`ResidentFiles.whole`."""
        return self._read(index)

    def forget(self, indices: Ints) -> None:
        """See :meth:`ResidentFiles.forget`."""
        with self._lock:
            self._records["place"][indices] = REPORTED
            for index in indices.tolist():
                self._heads.pop(index, None)

    def exchange(self, images: EncodedImages, uploaded: Upload, words: Any, pinned: Ring, stream: Any) -> None:
        """Enqueue the copies of files that are there into a batch's ``words`` on the GPU, and of new ones from these.

        The upload was written; ``stream`` is CuPy's current one.
        """
        with self._lock:  # so that what another thread finds here is before the event that it waits for
            rows, kept = self._room_for(images, uploaded)
            fetched = uploaded.fetched
            if not len(fetched) and not len(rows):
                return
            if self._memory is None:
                self._memory = cupy.empty(self._words, cupy.int32)
            runs = upload([fetched, kept], pinned, stream).view(cupy.int64)
            if self._last is not None:
                wait(stream.ptr, self._last)
            if len(fetched):
                _copy(self._memory, words, runs[: fetched.size], fetched, stream)
            if len(rows):
                _copy(words, self._memory, runs[fetched.size :], kept, stream)
                self._last = recorded(stream.ptr)
                self._add(images, uploaded, rows, kept)

    def _room_for(self, images: EncodedImages, uploaded: Upload) -> tuple[Ints, Ints]:
        """Return rows of a batch whose files are new and fit, and their copies as :attr:`Upload.fetched` has them."""
        resident, rows, used = images.resident, list[int](), self._used
        assert resident is not None
        runs = list[tuple[int, int, int]]()
        seen = set[int]()  # a batch may have a sample twice
        new = () if self._is_full else uploaded.new.tolist()
        for row, word, _, _, words in new:
            index = int(resident.indices[row])
            if index in seen or self._records["place"][index] != NEW:
                continue
            if used + words > self._words:
                self._is_full = True
                break
            seen.add(index)
            rows.append(row)
            runs.append((word, used, words))
            used += words
        return np.array(rows, np.int64), np.array(runs, np.int64).reshape(-1, 3)

    def _add(self, images: EncodedImages, uploaded: Upload, rows: Ints, kept: Ints) -> None:
        resident, heads = images.resident, uploaded.head_bytes
        assert resident is not None
        found = {row: (bits, span) for row, _, bits, span, _ in uploaded.new.tolist()}
        for row, place in zip(rows.tolist(), kept[:, 1].tolist(), strict=True):
            index = int(resident.indices[row])
            self._records[index] = (place, *found[row])
            self._heads[index] = bytes(memoryview(images.data[row])[: int(heads[row])]), resident.labels[row]
        self._used = int(kept[-1, 1] + kept[-1, 2])

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # CuPy's pool would give the memory to work of one stream while others still read it.
        if not is_finalizing() and self._memory is not None:
            self._device.synchronize()


def _copy(source: Any, target: Any, runs: Any, copies: Ints, stream: Any) -> None:
    blocks = min(-(-int(copies[:, 2].max()) // kernels.COPY.block), _BLOCKS)
    launch(kernels.COPY, stream.ptr, (blocks, len(copies)), source, target, runs)
