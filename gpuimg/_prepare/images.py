"""Processing of samples: each thread reads, decodes, resizes and encodes one chunk at a time."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from .._batch.batch import Batch
from .._batch.encoded import open_images
from .._batch.recording import Recording
from .._checks.types import Ints
from .._data.images import EncodedImages
from .._decoding import jpeg, recoded
from .._encoding.options import LONGEST_SIDE
from .._io.native_read import ChunkReader
from .._loading.in_order import Chunk, IsStopped
from .._loading.samples import Columns, Sample, SampleNames, read_samples
from .._ops.resize_crop import resize
from .encode import ENDINGS, SAME, chroma, encoded, jpegs, may_stay
from .names import Keys, Naming, problem_with, result_ending, scaled_label
from .options import Options
from .writing import Result, Writer, failure

# Results are resampled again in training. Compared with "bilinear", photos of 1280x960 shrunk to 512 and then to 224
# are 1 dB closer to photos shrunk to 224 at once, with 7 % more bytes.
FILTER: Final = "bicubic"

_JPEG = b"\xff\xd8"  # first bytes

# Pixels of results that a thread holds in memory at a time, unless one image has more.
_MOST_PIXELS = 1 << 23


class Plan(NamedTuple):
    """Arguments and state shared by the threads of one call."""

    source: Any
    samples: range  # that are prepared
    columns: Columns
    options: Options
    naming: Naming
    keys: Keys
    writer: Writer


class ResultMaker:
    """Turns chunks of samples into results; one per thread."""

    def __init__(self, plan: Plan, is_stopped: IsStopped) -> None:
        from .._runtimes.cpu import CpuRuntime  # imports Numba: only when it is used

        self._plan, self._is_stopped = plan, is_stopped
        self._reader = ChunkReader()
        self._runtime = CpuRuntime(1)

    def __call__(self, chunk: range) -> Chunk[list[Result]]:
        """Return the results of a chunk of samples, incomplete if the call is stopped."""
        plan = self._plan
        samples = read_samples(plan.source, chunk, [True] * len(chunk), plan.columns, self._reader)
        data = [b"" if one.error is not None else one.data for one in samples]
        opened = open_images(data, plan.options.decode, "fill", SampleNames(samples))
        sizes = plan.options.sizes(opened.sizes)
        results: list[Result] = []
        for part in _parts(sizes):
            if self._is_stopped():
                break
            results += self._results(samples, opened, sizes, part)
        return Chunk(results, sum(map(len, data)))

    def _results(self, samples: list[Sample], opened: EncodedImages, sizes: Ints, part: range) -> Iterator[Result]:
        """Yield the results of part of a chunk; files are written as soon as they are encoded."""
        rows = np.arange(part.start, part.stop)
        changed = np.any(sizes[rows] != opened.sizes[rows], 1)
        shrunk = resize(Batch(Recording.start(self._runtime, opened)).take(rows), sizes[rows], FILTER, where=changed)
        images = [_Image(self._plan, samples[i], opened, i, sizes[i]) for i in part]
        alike = defaultdict[str | None, list[int]](list)
        for k, image in enumerate(images):
            alike[image.sampling].append(k)
        for sampling, chosen in alike.items():
            batch = shrunk if len(chosen) == len(images) else shrunk.take(chosen)
            made: Any = batch.compute("uint8") if sampling is None else jpegs(batch, sampling, self._plan.options)
            failures = batch.errors
            for at, k in enumerate(chosen):
                one = samples[part.start + k]
                failed = one.reason if one.error is not None else failures[at].reason if at in failures else ""
                images[k].made, images[k].failed = made[at], failed or images[k].failed
        for image in images:
            yield self._plan.writer.write(image.result())


def _parts(sizes: Ints) -> Iterator[range]:
    """Split images into consecutive ranges of bounded total pixels."""
    first, pixels = 0, 0
    for i, more in enumerate((sizes[:, 0] * sizes[:, 1]).tolist()):
        if i > first and pixels + more > _MOST_PIXELS:
            yield range(first, i)
            first, pixels = i, 0
        pixels += more
    if first < len(sizes):
        yield range(first, len(sizes))


def _reason(error: Exception) -> str:
    """Return why an image failed, whatever was raised: one image must not end the call."""
    return str(error) if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: {error}"


class _Image:
    """One image of a chunk.

    Attributes
    ----------
    sampling : str or None
        Chroma subsampling of the JPEG that its pixels become as they are computed; None for all other results.
    made : bytes or array
        That JPEG, or else the pixels.
    failed : str
        Why it has none; empty if it has.
    """

    def __init__(self, plan: Plan, sample: Sample, opened: EncodedImages, i: int, size: Ints) -> None:
        self._plan, self._sample = plan, sample
        self._data, self._header, self._other = sample.data, opened.headers.records[i], opened.others.get(i)
        self._old, self._new = tuple(opened.sizes[i].tolist()), tuple(size.tolist())
        self._codec = "jpeg" if self._other is None else self._other.codec
        self._form = SAME.get(self._codec, "JPEG") if plan.options.to == "same" else "JPEG"
        self.sampling: str | None = None
        self.made: Any = None
        self.failed = ""
        try:
            self._stays, self._chroma = self._may_stay(), self._sampling()
        except Exception as error:
            self.failed = _reason(error)
            return
        if not (self._stays or self._form != "JPEG" or self._chroma == "gray" or max(self._new) > LONGEST_SIDE):
            self.sampling = chroma(self._chroma, plan.options)

    def result(self) -> Result:
        """Return the result for what was made of it, or for a failure."""
        plan, number, failed = self._plan, self._sample.index, self.failed
        line: dict[str, Any] = {"sample": number, "source": plan.naming.source(number)}
        if not failed:
            try:
                status, ending, content = self._content()
                if plan.options.recode and content[:2] == _JPEG:
                    try:
                        content = recoded.recode_jpeg(content, progressive=plan.options.progressive)
                        status = "converted" if recoded.is_converted(content) else "recoded"
                        ending = result_ending(ending, (recoded.ENDING,))
                    except recoded.UnfitError as error:
                        line["kept"] = str(error)
                label = scaled_label(plan.source, self._sample.label, self._old, self._new)
                others = plan.naming.others(number, label, ending) if plan.options.tar_size else []
                for one in (ending, *(other for other, _ in others)):
                    if problem := problem_with(f"{plan.keys[number]}.{one}"):
                        raise ValueError(problem)
            except Exception as error:
                failed = _reason(error)
        line["source_bytes"] = len(self._data) if self._sample.error is None else 0
        if failed:
            return failure(line, failed)
        line |= {"source_size": self._old, "status": status, "size": self._new}
        return Result(line, plan.keys[number], ((ending, content), *others))

    def _content(self) -> tuple[str, str, bytes]:
        """Return status, file name ending and bytes of the result."""
        original = self._plan.naming.ending(self._sample.index)
        if self._stays:
            endings = (recoded.ENDING,) if recoded.is_recoded(self._data) else ENDINGS[self._codec.upper()]
            return "copied", result_ending(original, endings), bytes(self._data)
        ending = result_ending(original, ENDINGS[self._form])
        if self.sampling is not None:
            return "encoded", ending, self.made
        return "encoded", ending, encoded(self.made, self._form, self._chroma, self._plan.options)

    def _may_stay(self) -> bool:
        options = self._plan.options
        if options.recode:
            return True
        if self._codec == "jpeg":
            return self._old == self._new and may_stay(self._header, self._data, options)
        return self._codec.upper() == self._form and self._old == self._new and self._header["orientation"] == 1

    def _sampling(self) -> str:
        """Return the chroma subsampling of the file, "gray" for one without color."""
        if self._other is None:
            return jpeg.chroma_subsampling(self._header)
        return "gray" if self._other.channels < 3 else self._other.chroma_subsampling
