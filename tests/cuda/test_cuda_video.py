"""Clips on a fake GPU: which of NVDEC's frames come where, in which order, and what the CPU decodes."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._batch.batch import recording_of

from ..fakecuda import FakeGpu
from ..fakecuda.work import load
from ..libraries import needs
from ..video.test_video import damaged
from ..video.videos import BUILDS, made, make
from ..watchdog import no_hang

needs("numba_cuda")

WRITTEN = 77  # what the fake's kernel makes of every pixel
BAD = b"no video"  # whose black pixel keeps batches from being of one size: these are decoded to where they belong

CODECS = ("h264", "h264 open gop", "h264 vfr", "h264 edit list", "hevc", "hevc 10 bits", "vp9", "vp8", "mpeg4 avi")


def opened(sources: list[Any], frames: int = 3, stride: Any = 2, **options: Any) -> gi.Batch:
    return gi.open_clips(sources, frames, stride, device="cuda:0", **options)


def launched(gpu: FakeGpu, begin: int = 0) -> list[str]:
    """Kernels for frames."""
    names = [op.told["name"] for op in gpu.order.log[begin:] if op.kind == "launch"]
    return [name for name in names if name.startswith("frame")]


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    with no_hang():
        yield


@pytest.mark.parametrize("name", CODECS)
def test_frames_come_to_their_places(gpu: FakeGpu, name: str) -> None:
    """No upload, and each decoded frame is read before its memory is written again."""
    for whole in (True, False):
        begin = len(gpu.order.log)
        x = opened([made(name), BAD, made(name)], start=[3, 0, 20], on_error="fill")
        for k, image in enumerate(gpu.use_all(x.compute() if whole else gi.resize(x, (8, 8)).compute())):
            assert not whole or (image == (0 if k // 3 == 1 else WRITTEN)).all()
        assert launched(gpu, begin) == ["frame16" if name == "hevc 10 bits" else "frame8"] * 6
        uploads = [op for op in gpu.order.log[begin:] if op.kind == "upload"]
        assert len(uploads) == (not whole)  # the plan
    assert gpu.nvdec.frames >= 2 * 6


def test_a_frame_that_stands_several_times_is_decoded_once(gpu: FakeGpu) -> None:
    short = make(BUILDS["h264 intra"], frames=4)
    x = opened([short], 6, 1)
    gpu.use(x.array())
    assert (gpu.nvdec.frames, len(launched(gpu))) == (4, 6)


@pytest.mark.parametrize("turn", [None, (90, False, False), (180, False, False), (90, True, False)])
@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_only_the_region_that_is_read_is_written(gpu: FakeGpu, turn: Any, color: str) -> None:
    """Of all views of a clip together."""
    video = make(BUILDS["h264"]._replace(turn=turn), frames=8)
    x = opened([video], 2, color=color)
    channels = 3 if color == "rgb" else 1
    begin = len(gpu.order.log)
    gpu.use(gi.crop(x, 5, 7, 20, 11).array())
    views = gi.crop(x.take([0, 0]), [5, 30], [7, 1], 20, 11)
    gpu.use(views.array())
    written = [
        sum(high - low for low, high in op.told["writes"])
        for op in gpu.order.log[begin:]
        if op.kind == "launch" and op.told["name"] == "frame8"
    ]
    assert written == [20 * 11 * channels] * 2 + [45 * 17 * channels] * 2


def test_clips_of_another_device(gpu: FakeGpu) -> None:
    x = gi.open_clips([made("h264")] * 2, 3, device="cuda:1")
    with gpu.cupy.cuda.Device(1):
        gpu.use(gi.resize(x, (8, 8)).array())
    assert {op.stream[0] for op in gpu.order.of("nvdec", "launch") if op.stream} == {1}


# -- what the CPU decodes ----------------------------------------------------------------------------------------------


#: What NVDEC is like, the video, and the reason for which the CPU decodes it.
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no device": ({"missing": True}, "h264", "Operation not permitted"),
    "not of this GPU": ({"refused": {"h264"}}, "h264", "Invalid data found"),
    "an error on the way": ({"breaks_after": 3}, "h264", "Generic error in an external library"),
    "a decoder for the CPU alone": ({}, "av1", "no stream is compatible"),
    "a format that the kernel does not read": ({}, "yuv444p", "yuv444p are not converted on a GPU"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_cpu_decodes_what_nvdec_does_not(gpu: FakeGpu, case: str) -> None:
    """With one upload, of these clips alone, and one warning."""
    like, name, reason = REFUSED[case]
    vars(gpu.nvdec).update(like)
    video, other = make(BUILDS["h264"]._replace(pix_fmt=name)) if name == "yuv444p" else made(name), made("hevc")
    sources = [other, video, video, other, video, BAD]
    start = [20, 5, 21, 30, 44, 0]
    expected = gi.open_clips(sources, 3, 2, start=start, device="cpu", on_error="fill").compute()
    begin = len(gpu.order.log)
    with pytest.warns(UserWarning, match=reason) as caught:
        found = opened(sources, start=start, on_error="fill").compute()
    assert len(caught) == 1
    assert re.search(r"the CPU decodes clips that cuda:0 cannot decode, the first in \d+ bytes", str(caught[0].message))
    everything = case in ("no device", "an error on the way")
    for k, (image, cpu) in enumerate(zip(gpu.use_all(found), expected, strict=True)):
        if everything or k // 3 in (1, 2, 4, 5):
            np.testing.assert_array_equal(image, cpu)
        else:
            assert (image == WRITTEN).all()
    assert len([op for op in gpu.order.log[begin:] if op.kind == "upload"]) == 1
    x = gi.resize(opened(sources[:5], start=start[:5]), (8, 8))
    gpu.use(x.array())  # without another warning
    assert recording_of(x).timings.clips_on_cpu == (5 if everything else 3)


def test_stats_count_clips_that_the_cpu_decodes(gpu: FakeGpu) -> None:
    def small(x: gi.Batch) -> gi.Batch:
        return gi.resize(x, (8, 8))

    for refused, expected in ((set(), None), ({"h264"}, 6)):
        gpu.nvdec.refused = refused
        loader = load([(made(name), 0) for name in ("h264", "hevc") * 6], small, clips=gi.Clips(3, 2))
        if refused:
            with pytest.warns(UserWarning, match="Invalid data"):
                list(loader)
        else:
            list(loader)
        assert loader.stats().get("clips_on_cpu") == expected


def test_bad_clips_are_the_cpus(gpu: FakeGpu) -> None:
    """Its words, and black frames, among good ones."""
    bad, clip = damaged()
    sources = [made("hevc"), bad, b"no video", made("hevc")]
    start = [3, clip, 0, 9]
    words = []
    for device in ("cpu", "cuda:0"):
        x = gi.open_clips(sources, 3, start=start, device=device, on_error="fill")
        with pytest.warns(UserWarning, match="the CPU decodes clips") if device != "cpu" else nullcontext():
            result = x.compute()
        words.append(result.status)
    assert words[0] == words[1]
    assert [status == "ok" for status in words[1]] == [True, False, False, True]
    for k, image in enumerate(gpu.use_all(result)):
        assert (image == (WRITTEN if k // 3 in (0, 3) else 0)).all()
    with pytest.raises(gi.DecodeError, match="1 of 2 clips could not be decoded"):
        opened(sources[:2], 3, 1, start=start[:2]).array()


# -- order -------------------------------------------------------------------------------------------------------------


def test_much_work_is_in_order(gpu: FakeGpu) -> None:
    for _ in range(2):
        gpu.use_all(opened([*[made("h264")] * 3, BAD], 8, 1, start=[0, 15, 30, 0], on_error="fill").compute())
        gpu.use(gi.resize(opened([made("hevc")] * 2, 12, 1), (8, 8)).array())


def test_running_out_of_memory_leaves_no_thread(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is no reason for the CPU to decode."""

    def launch(*_: Any) -> None:
        raise MemoryError("kernels")

    with monkeypatch.context() as patch:
        patch.setattr("gpuimg._runtimes.cuda_video.launch", launch)
        with pytest.raises(MemoryError, match="kernels"):
            opened([made("h264")] * 6).array()
    gpu.use(gi.resize(opened([made("h264")] * 2), (8, 8)).array())
