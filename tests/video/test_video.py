"""Clips of videos: exactly the frames that sequential decoding gives, as batches that every function works on."""

import io
import itertools
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import gpuimg as gi
from gpuimg._video import decode
from gpuimg._video.convert import readable, write_pixels
from gpuimg._video.index import read_index

from ..encoding.test_encode import pillows
from ..libraries import library
from ..robustness.jpegs import turned
from ..watchdog import becomes_true
from . import videos
from .videos import BUILDS, FRAMES, HEIGHT, WIDTH, Build, made, make, number_in, rgb_of, sequentially

av = library("av")

CLIPS = 24  # of each build


def opened(sources: Any, *args: Any, **options: Any) -> gi.Batch:
    return gi.open_clips(sources, *args, device="cpu", **options)


def numbers(clips: Any) -> list[list[int]]:
    return [[number_in(frame[..., 1]) for frame in clip] for clip in clips]


# -- which frames ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILDS)
def test_frames_are_those_of_sequential_decoding(name: str) -> None:
    data = made(name)
    oracle = sequentially(data)
    shown = [one.number for one in oracle]
    assert shown == list(range(shown[0], shown[0] + len(shown)))
    info = gi.video_info(data)
    assert info.frames == len(oracle)
    counted = name in ("h264 avi", "h264 raw", "vp8", "mpeg4 avi")
    if not counted:
        assert info.times == pytest.approx([one.seconds for one in oracle], abs=1e-9)
    rng = np.random.default_rng()
    frames = int(rng.integers(1, 9))
    stride = rng.integers(1, 6, CLIPS)
    start = rng.integers(0, info.frames, CLIPS)
    taken = np.minimum(start[:, None] + stride[:, None] * np.arange(frames), info.frames - 1)
    clips = opened([data] * CLIPS, frames, stride, start=start).array(layout="NTHWC")
    assert numbers(clips) == np.array(shown)[taken].tolist()
    for clip, own in zip(clips, taken, strict=True):
        for image, k in zip(clip, own, strict=True):
            assert np.abs(image - rgb_of(oracle[k].frame)).max() <= 0.501


@pytest.mark.parametrize("name", ["h264 open gop ts", "h264 open gop", "h264 refreshed", "hevc", "hevc cut ts"])
def test_clips_are_decoded_from_nearby(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Key frames that are no clean beginning cost one more, not the whole file before."""
    index = read_index(made(name), 1 << 27)
    starts = index.key_pts[index.key]
    assert (starts <= index.pts).all()
    assert (index.position >= index.key_position[index.key]).all()
    nearer = (index.key_pts <= index.pts[:, None]) & (index.key_position <= index.position[:, None])
    assert np.array_equal(starts, np.where(nearer, index.key_pts, index.key_pts.min()).max(1))
    monkeypatch.setattr(decode, "_from_beginning", lambda *_: pytest.fail("all is decoded"))
    shown = np.array([one.number for one in sequentially(made(name))])
    start = np.arange(0, len(index), 3)
    clips = opened([made(name)] * len(start), 2, start=start, short="wrap").array(layout="NTHWC")
    assert numbers(clips) == shown[np.stack([start, start + 1], 1) % len(index)].tolist()


def test_clips_by_times() -> None:
    data = made("h264 vfr")
    info = gi.video_info(data)
    own = opened([data], FRAMES, times=info.times[None]).array(layout="NTHWC")
    assert numbers(own) == [list(range(FRAMES))]
    wanted = np.random.default_rng().uniform(info.times[0], info.times[-1], (5, 9))
    expected = (wanted[..., None] >= info.times).sum(-1) - 1
    assert numbers(opened([data] * 5, 9, times=wanted).array(layout="NTHWC")) == expected.tolist()


def test_the_last_frame_lasts_until_the_end() -> None:
    info = gi.video_info(made("h264"))
    end = info.times[0] + info.duration
    assert info.duration == pytest.approx(FRAMES / 25)
    x = opened([made("h264")], 1, times=[[end - 0.001]])
    assert numbers(x.array(layout="NTHWC")) == [[FRAMES - 1]]
    with pytest.raises(gi.DecodeError, match=r"times must be from 0 to below 2.8 seconds, not 2.8"):
        opened([made("h264")], 1, times=[[end]])


def test_key_frames_and_edit_lists() -> None:
    assert gi.video_info(made("h264 intra")).keyframes.tolist() == list(range(FRAMES))
    assert gi.video_info(made("h264 one key frame")).keyframes.tolist() == [0]
    assert {0, 12} <= {*gi.video_info(made("hevc")).keyframes.tolist()}
    info = gi.video_info(made("h264 edit list"))
    assert (info.frames, info.times[0]) == (FRAMES - 17, 0.0)


def test_a_clip_beyond_the_end() -> None:
    for short, expected in (("repeat", [66, 68, 69, 69, 69, 69]), ("wrap", [66, 68, 0, 2, 4, 6])):
        assert numbers(opened([made("h264")], 6, 2, start=66, short=short).array(layout="NTHWC")) == [expected]
    with pytest.raises(gi.DecodeError, match=r"clip 1 .*it has 70 frames, but frames 66 to 76 were requested"):
        opened([made("h264")] * 2, 6, 2, start=[0, 66], short="error")
    opened([made("h264")], 3, start=67, short="error")
    with pytest.raises(gi.DecodeError, match="start must be from 0 to 69, the last frame, not 70"):
        opened([made("h264")], 1, start=70)


def test_random_clips_are_whole_and_anywhere() -> None:
    n = 60
    x = gi.random_clips([made("h264 intra")] * n, 4, 3, rng=gi.Rng(1, indices=range(n)), device="cpu")
    found = np.array(numbers(x.array(layout="NTHWC")))
    assert (np.diff(found) == 3).all()
    assert 0 <= found.min() <= found.max() < FRAMES
    assert len(np.unique(found[:, 0])) > 25  # of 61
    again = gi.random_clips([made("h264 intra")], 4, 3, rng=gi.Rng(1, indices=[7]), device="cpu")
    assert numbers(again.array(layout="NTHWC")) == found[7:8].tolist()
    short = gi.random_clips([make(Build("libx264"), frames=3)], 5, rng=0, device="cpu")
    assert numbers(short.array(layout="NTHWC")) == [[0, 1, 2, 2, 2]]


def test_sources(tmp_path: Path) -> None:
    path, data = tmp_path / "a:b ü.mp4", made("h264")
    path.write_bytes(data)
    with path.open("rb") as file:
        for source in (path, str(path), data, np.frombuffer(data, np.uint8), file):
            assert numbers(opened([source], 2, start=9).array(layout="NTHWC")) == [[9, 10]]
    undecodable = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n.mp4")
    Path(undecodable).write_bytes(data)
    assert gi.video_info(undecodable).frames == FRAMES


# -- how they look -----------------------------------------------------------------------------------------------------

#: Matrix coefficients of H.273 that are no shares of colors in luma, or whose shares are not known.
_REFUSED = {0: "RGB", 3: "reserved", 8: "YCgCo", 10: "BT.2020 with c", 11: "SMPTE 2085", 12: "chroma.* non-constant",
            13: "chroma.*with constant", 14: "ICtCp", 15: "IPT-C2", 16: "YCgCo-Re", 17: "YCgCo-Ro"}  # fmt: skip
_FORMATS = {"yuv420p": 8, "yuv422p": 8, "yuv444p": 8, "yuv440p": 8, "yuvj420p": 8, "yuv420p10le": 10, "yuv444p12le": 12}


def _noise(name: str, height: int, width: int) -> Any:
    rng = np.random.default_rng()
    frame = av.VideoFrame(width, height, name)
    for one in frame.planes:
        bits = _FORMATS.get(name, 8)
        samples = rng.integers(0, 2**bits, one.buffer_size // (1 + (bits > 8)))
        one.update(samples.astype(np.uint8 if bits == 8 else np.uint16).tobytes())
    return frame


def _pixels(frame: Any, region: list[int], channels: int = 3, orientation: int = 1) -> Any:
    x0, y0, x1, y1 = region
    out = np.full((y1 - y0) * (x1 - x0) * channels + 5, 77, np.uint8)
    write_pixels(readable(frame), orientation, channels, region, out)
    assert (out[-5:] == 77).all()
    return out[:-5].reshape(y1 - y0, x1 - x0, channels)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("coefficients", range(18))
@pytest.mark.parametrize("name", [*_FORMATS, "yuyv422"])
def test_colors_are_those_of_the_standards(name: str, coefficients: int, full: bool) -> None:
    """Or refused by name."""
    refused = rf"coefficients are {_REFUSED.get(coefficients)}.* \({coefficients} of ITU-T H.273\); "
    for size in ((33, 50), *((rows, 7) for rows in (1, 2, 3, 4, 6, 31, 33, 34))):
        frame = _noise(name, *size)
        frame.colorspace, frame.color_range = coefficients, 2 if full else 1
        for frame in (frame, videos.interlaced(frame)):  # noqa: B020
            if coefficients in _REFUSED:
                with pytest.raises(gi.VideoError, match=refused):
                    _pixels(frame, [0, 0, *size[::-1]], 1 + 2 * full)
            elif name in _FORMATS:
                assert np.abs(_pixels(frame, [0, 0, *size[::-1]]) - rgb_of(frame)).max() <= 0.501


@pytest.mark.parametrize("make_frame", [lambda frame: frame, videos.interlaced])
@pytest.mark.parametrize("size", [(64, 96), (65, 96), (64, 97), (65, 97)])
@pytest.mark.parametrize("name", ["yuv420p", "yuvj420p", "yuv420p10le"])
def test_chroma_is_interpolated_where_swscale_does_so(name: str, size: tuple[int, int], make_frame: Any) -> None:
    """Its default is darker, by at most 4 levels. Samples are of RGB: of others its sums may overflow."""
    noise = np.random.default_rng().integers(0, 256, (*size, 3), np.uint8)
    frame = make_frame(av.VideoFrame.from_ndarray(noise, "rgb24").reformat(format=name))
    apart = _pixels(frame, [0, 0, *size[::-1]]).astype(int) - frame.to_ndarray(format="rgb24")
    assert apart.min() >= -2
    assert apart.max() <= 4
    assert np.abs(apart).mean() <= 2


@pytest.mark.parametrize(("name", "planar"), [("nv12", "yuv420p"), ("p010le", "yuv420p10le")])
def test_interleaved_chroma_gives_the_same(name: str, planar: str) -> None:
    frame = _noise(planar, 34, 50)
    frame.colorspace = 1
    other = frame.reformat(format=name, dst_colorspace=1)
    other.colorspace = 1
    assert np.array_equal(_pixels(other, [3, 5, 50, 34]), _pixels(frame, [3, 5, 50, 34]))


def test_luma_is_gray() -> None:
    frame = _noise("yuv420p", 20, 30)
    gray = np.clip((videos.plane(frame, 0) - 16.0) * 255 / 219, 0, 255)
    assert np.abs(_pixels(frame, [0, 0, 30, 20], 1)[..., 0] - gray).max() <= 0.501
    only = av.VideoFrame.from_ndarray(videos.plane(frame, 0).copy(), "gray")
    only.color_range = 1
    assert np.array_equal(_pixels(only, [1, 2, 30, 20], 3), _pixels(frame, [1, 2, 30, 20], 1).repeat(3, 2))


@pytest.mark.parametrize("name", ["gray", "ya8", "gray10le", "gray10be", "gray16le", "gray16be", "ya16be"])
def test_gray_is_of_full_range_unless_tagged(name: str) -> None:
    frame, bits = av.VideoFrame(200, 2, name), int(name.strip("grayble") or 8)
    dtype, step = "u1" if bits == 8 else f"{'>' if name.endswith('be') else '<'}u2", len(frame.format.components)
    rows = np.zeros((2, frame.planes[0].line_size // np.dtype(dtype).itemsize), dtype)
    rows[:, : 200 * step : step] = levels = np.linspace(0, 2**bits - 1, 200).astype(int)
    frame.planes[0].update(rows.tobytes())
    for tag, coefficients, channels in itertools.product((0, 1, 2), (0, 2, 14), (1, 3)):
        frame.color_range, frame.colorspace = tag, coefficients
        black, white = (np.array([16, 235]) << (bits - 8)) if tag == 1 else (0, 2**bits - 1)
        expected = np.clip((levels - black) * 255 / (white - black), 0, 255)[None, :, None]
        assert np.abs(_pixels(frame, [0, 0, 200, 2], channels) - expected).max() <= 0.501


@pytest.mark.parametrize("name", ["rgb24", "gbrp", "yuyv422"])
def test_other_formats_are_converted_by_ffmpeg(name: str) -> None:
    image = np.random.default_rng().integers(0, 256, (20, 30, 3), np.uint8)
    frame = av.VideoFrame.from_ndarray(image, "rgb24").reformat(format=name)
    whole = frame.to_ndarray(format="rgb24")
    assert np.array_equal(_pixels(frame, [3, 4, 30, 11]), whole[4:11, 3:30])
    if name != "yuyv422":
        assert np.array_equal(whole, image)
        luma = image @ [0.2989, 0.587, 0.114]
        assert np.abs(_pixels(frame, [0, 0, 30, 20], 1)[..., 0] - luma).max() <= 0.6


@given(st.data())
def test_regions_are_parts_of_the_whole(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(_FORMATS)))
    height, width = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 70))
    orientation = data.draw(st.integers(1, 8))
    channels = data.draw(st.sampled_from([1, 3]))
    frame = data.draw(st.sampled_from([lambda frame: frame, videos.interlaced]))(_noise(name, height, width))
    shown = (width, height) if orientation >= 5 else (height, width)
    x0, y0 = data.draw(st.integers(0, shown[1] - 1)), data.draw(st.integers(0, shown[0] - 1))
    x1, y1 = data.draw(st.integers(x0 + 1, shown[1])), data.draw(st.integers(y0 + 1, shown[0]))
    whole = _pixels(frame, [0, 0, shown[1], shown[0]], channels, orientation)
    stored = _pixels(frame, [0, 0, width, height], channels)
    assert np.array_equal(_pixels(frame, [x0, y0, x1, y1], channels, orientation), whole[y0:y1, x0:x1])
    assert np.array_equal(whole, turned(stored, orientation))


@pytest.mark.parametrize(("degrees", "quarters"), [(0, 0), (90, 1), (180, 2), (-90, 3)])
@pytest.mark.parametrize("mirrored", [False, True])
def test_rotation(degrees: int, quarters: int, mirrored: bool) -> None:
    plain = opened([make(Build("libx264"), frames=2)], 2).array(layout="NTHWC")
    data = make(Build("libx264", turn=(degrees, mirrored, False)), frames=2)
    info = gi.video_info(data)
    x = opened([data], 2)
    assert (info.height, info.width) == tuple(x.sizes[0].tolist())
    expected = np.rot90(plain, quarters, (2, 3))
    assert np.array_equal(x.array(layout="NTHWC"), expected[:, :, :, ::-1] if mirrored else expected)


@pytest.mark.parametrize("tags", [(1, 1), (1, 2), (6, 1), (9, 1)])
def test_tags_of_a_file_are_followed(tags: tuple[int, int]) -> None:
    """And which of its frames are interlaced."""
    noise = np.random.default_rng().integers(0, 256, (HEIGHT * 3 // 2, WIDTH), np.uint8)
    build = Build("libx264", "h264", options={"qp": "0"}, tags=tags)
    fields = build._replace(options={"qp": "0", "flags": "+ildct+ilme", "x264-params": "tff=1"})
    frame = av.VideoFrame.from_ndarray(noise, "yuv420p")
    data = b"".join(make(one, lambda _: frame, 2) for one in (build, fields, build))
    frames = [one.frame for one in sequentially(data)]
    assert {(frame.colorspace, frame.color_range) for frame in frames} == {tags}
    assert [frame.interlaced_frame for frame in frames] == [False] * 2 + [True] * 2 + [False] * 2
    for image, frame in zip(opened([data], 6), frames, strict=True):
        assert np.abs(image - rgb_of(frame)).max() <= 0.501


# -- as batches --------------------------------------------------------------------------------------------------------


def test_a_batch_of_clips() -> None:
    x = opened([made("h264"), made("hevc")], 3)
    assert (len(x), x.frames, x.sizes.tolist()) == (6, 3, [[HEIGHT, WIDTH]] * 6)
    assert repr(x) == "<gpuimg.Batch of 2 clips of 3 frames, 64x96, 3 channels, encoded, on cpu>"
    assert x.status == ["ok", "ok"]
    assert gi.resize(x, 32).frames == gi.resize(x, 32).compute().frames == 3
    assert gi.open_batch([], device="cpu").frames is None
    gray = opened([made("h264")], 3, start=40, color="gray")
    assert (gray.channels, [number_in(image[..., 0]) for image in gray]) == (1, [40, 41, 42])
    empty = opened([], 4)
    assert (len(empty), empty.frames, empty.status) == (0, 4, [])
    assert gi.resize(empty, (8, 8)).array(layout="NTHWC").shape == (0, 4, 8, 8, 3)
    assert gi.crop(x.take([]), 1, 2, 3, 5).array(layout="NCTHW").shape == (0, 3, 3, 3, 5)


def test_layouts() -> None:
    x = gi.resize(opened([made("h264"), made("hevc")], 3), (32, 40))
    flat = x.array("float32")
    clips = flat.reshape(2, 3, 32, 40, 3)
    for layout, axes in (("NTHWC", (0, 1, 2, 3, 4)), ("NTCHW", (0, 1, 4, 2, 3)), ("NCTHW", (0, 4, 1, 2, 3))):
        expected = clips.transpose(axes)
        assert np.array_equal(x.array("float32", layout), expected)
        out = np.empty(expected.shape, np.float32)
        assert x.array(layout=layout, out=out) is out
        assert np.array_equal(out, expected)
        with pytest.raises(ValueError, match=r"out must have shape \(2, 3"):
            x.array(layout=layout, out=np.empty(flat.shape, np.float32))
    with pytest.raises(ValueError, match=r"layout 'NTHWC' is for batches of clips, and these are images"):
        gi.resize(np.zeros((2, 8, 8, 3), np.uint8), 4).array(layout="NTHWC")


def test_one_draw_is_for_a_whole_clip() -> None:
    noise = np.random.default_rng().integers(0, 256, (48, 64, 3), np.uint8)
    frame = av.VideoFrame.from_ndarray(noise).reformat(format="yuv420p")
    same = make(Build("libx264"), lambda _: frame, 4)

    def augmented(rng: Any, clips: int = 4) -> Any:
        x = gi.random_resized_crop(opened([same] * clips, 3), 24, rng=rng)
        x = gi.rand_augment(gi.random_horizontal_flip(x, rng=rng), rng=rng)
        return gi.color_jitter(x, 0.4, 0.4, 0.4, 0.1, rng=rng).array(layout="NTHWC")

    def steady(clips: Any) -> list[bool]:
        return [all(np.abs(image.astype(int) - clip[0]).mean() < 12 for image in clip) for clip in clips]

    one = augmented(gi.Rng(3, indices=range(4)))
    assert steady(one) == steady(augmented(3)) == [True] * 4
    assert steady(one.swapaxes(0, 1)) != [True] * 3
    assert np.array_equal(one[2:], augmented(gi.Rng(3, indices=[2, 3]), 2))
    assert not all(steady(augmented(gi.Rng(3, indices=range(12)))))  # a draw for each frame
    with pytest.raises(ValueError, match="rng is for 5 samples, but the batch has 4 clips of 3 frames"):
        augmented(gi.Rng(0, indices=range(5)))
    clips = gi.presets.deit3_train(24)(opened([same] * 2, 3), 7).array(layout="NTHWC")
    assert np.abs(clips - clips[:, :1]).mean() < 0.2
    assert not np.array_equal(clips[0], clips[1])


def test_one_value_is_for_a_whole_clip() -> None:
    x = opened([made("h264")] * 2, 3)
    assert np.array_equal(pickle.loads(pickle.dumps(x)).array(), x.array())
    with pytest.raises(ValueError, match=r"where must have shape \(6,\), one for each frame, or \(2,\), one for"):
        gi.invert(x, where=[True] * 3)
    flipped = gi.random_horizontal_flip(x, [0.0, 1.0], rng=3)
    assert np.array_equal(flipped.array(), gi.horizontal_flip(x, where=[False, True]).array())
    _, kept = gi.transform_boxes(x, [[(0, 0, 10, 20)]] * 6, min_area=[0, 201])
    assert np.array_equal(np.concatenate(list(kept)), np.repeat([True, False], 3))


@pytest.mark.parametrize("function", [gi.mixup, gi.cutmix])
def test_mixing_is_of_clips(function: Any) -> None:
    x = gi.resize(opened([made("h264")] * 3, 4, start=[0, 20, 40]), (16, 24))
    mix = function(x, rng=gi.Rng(1, indices=range(3)))
    assert (mix.images.frames, mix.partner.tolist(), mix.weight.shape) == (4, [2, 0, 1], (3,))
    assert mix.labels([0, 1, 2], 3).shape == (3, 3)
    plain, mixed = x.array("float32", "NTHWC"), mix.images.array(layout="NTHWC")
    if function is gi.mixup:
        weight = mix.weight[:, None, None, None, None]
        assert mixed == pytest.approx(weight * plain + (1 - weight) * plain[[2, 0, 1]], abs=1e-5)
    else:
        assert ((mixed == plain).all(-1) | (mixed == plain[[2, 0, 1]]).all(-1)).all()
    with pytest.raises(ValueError, match="partner must be a batch of 3 clips of 4 frames, not of 12 images"):
        function(x, rng=0, partner=gi.horizontal_flip(x.array()))


def test_targets_follow_each_frame() -> None:
    x = gi.horizontal_flip(opened([made("h264"), b"no video"], 2, on_error="fill"))
    moved, _ = gi.transform_boxes(x, [[(0, 0, 10, 20)]] * 4)
    assert [boxes.tolist() for boxes in moved[:2]] == [[[86.0, 0.0, 96.0, 20.0]]] * 2
    masks = [np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH)] * 4
    found = gi.transform_masks(x, masks)
    assert [mask.shape for mask in found] == [(HEIGHT, WIDTH)] * 2 + [(1, 1)] * 2
    assert np.array_equal(found[1], masks[1][:, ::-1])


# -- what is bad -------------------------------------------------------------------------------------------------------


def _sound_only() -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", "mp4") as container:
        stream = container.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.sample_rate = 8000
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    return file.getvalue()


def _without_frames() -> bytes:
    data = make(Build("libx264", "matroska"), frames=1)
    return data[: data.rindex(b"\x1f\x43\xb6\x75")]  # the first cluster


def damaged() -> tuple[bytes, int]:
    """An intra-coded video, and a frame of it that no decoder takes: the length in front of its data is the largest."""
    data = make(Build("libx264", gop=1), lambda number: _noise("yuv420p", 64, 96), 20)
    with av.open(io.BytesIO(data)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    bad = packets[7]
    return data[: bad.pos] + b"\xff" * bad.size + data[bad.pos + bad.size :], 7


@pytest.mark.parametrize(("data", "reason"), [
    (b"", "Invalid data found"),
    (b"no video at all", "Invalid data found"),
    (_sound_only, "no video stream, but audio"),
    (_without_frames, "it contains no frame|End of file"),
    (lambda: made("h264")[: len(made("h264")) // 2], "Invalid data found"),
    (b"#EXTM3U\n#EXTINF:10,\n/etc/passwd\n", "Invalid data found"),
    (b"ffconcat version 1.0\nfile /etc/passwd\n", "Invalid argument"),
])  # fmt: skip
def test_what_is_no_video_is_refused(data: Any, reason: str) -> None:
    source = data() if callable(data) else data
    with pytest.raises(gi.VideoError, match=rf"^{len(source)} bytes: .*({reason})"):
        gi.video_info(source)
    with pytest.raises(gi.DecodeError, match=rf"^1 of 2 clips could not .*:\n  clip 1 \({len(source)} bytes\): "):
        opened([made("h264"), source], 2)
    x = opened([made("h264"), source], 2, on_error="fill")
    assert (x.status[0], x.errors[1].index) == ("ok", 1)
    clips = gi.resize(x, (HEIGHT, WIDTH)).array(layout="NTHWC")
    assert numbers(clips[:1]) == [[0, 1]]
    assert not clips[1].any()


def test_metadata_may_be_of_any_encoding() -> None:
    plain = made("h264")
    data = plain.replace(b"Lavf", b"\xff\xfe\xc3\x28")  # the name of its writer
    assert data != plain
    np.testing.assert_array_equal(opened([data], 2).array(), opened([plain], 2).array())


def test_unknown_colors_fail_their_clip_alone() -> None:
    x = opened([made("h264"), make(Build("libx264", tags=(8, 1)), frames=3)], 2, on_error="fill")
    clips = x.array(layout="NTHWC")
    assert (x.status[0], numbers(clips[:1]), clips[1].any()) == ("ok", [[0, 1]], False)
    assert x.status[1].startswith("its matrix coefficients are YCgCo")


@pytest.mark.parametrize("marked", [(), (1,), (2,), (2, 1)])
def test_the_stream_marked_as_default_is_read(marked: tuple[int, ...]) -> None:
    """Else the first, but not a cover."""
    file = io.BytesIO()
    with av.open(file, "w", "mp4") as container:
        streams = [container.add_stream(codec, rate=25) for codec in ("mjpeg", "mpeg4", "mpeg4")]
        for k, one in enumerate(streams):
            one.width, one.height, one.pix_fmt = 16 * k + 16, 16, ("yuvj420p", "yuv420p")[k > 0]
            one.disposition = 1024 * (k == 0) + (k in marked)
        for one in streams:
            container.mux([*one.encode(av.VideoFrame(one.width, 16, one.pix_fmt)), *one.encode()])
    width = 16 * min(marked, default=1) + 16
    assert gi.video_info(file.getvalue()).width == opened([file.getvalue()], 1).sizes[0, 1] == width


def test_errors_name_the_file_and_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "one.gif"
    Image.new("RGB", (40, 30)).save(path)
    with pytest.raises(gi.VideoError, match=rf"^{path}: Invalid argument: not a video container; open_batch reads"):
        gi.video_info(path)
    with pytest.raises(gi.DecodeError, match=r"clip 0 \(/nowhere/a.mp4\): cannot be read: No such file or directory"):
        opened(["/nowhere/a.mp4"], 1)
    with pytest.raises(gi.VideoError, match="64 x 96 is 6144 pixels, over the limit of max_pixels=6000"):
        gi.video_info(made("h264"), max_pixels=6000)


def test_damage_fails_the_clips_it_touches() -> None:
    data, bad = damaged()
    good = opened([data] * 2, 4, start=[bad - 4, bad + 1]).array(layout="NTHWC")
    with pytest.raises(gi.DecodeError, match=r"^1 of 2 clips could not .*:\n  clip 1 .*: (frame 7 is|Invalid data)"):
        opened([data] * 2, 4, start=[bad - 4, bad - 2]).array()
    x = opened([data] * 2, 4, start=[bad - 4, bad - 2], on_error="fill")
    clips = x.array(layout="NTHWC")
    assert np.array_equal(clips[0], good[0])
    assert not clips[1].any()
    assert (x.status, len(x.errors)) == (["ok", x.errors[1].reason], 1)
    assert gi.resize(x, 8).array(layout="NTHWC")[1].max() == 0


def _without(data: bytes, number: int) -> bytes:
    file = io.BytesIO()
    with av.open(io.BytesIO(data)) as container, av.open(file, "w", "mp4") as other:
        stream = other.add_stream_from_template(container.streams.video[0])
        for k, packet in enumerate(container.demux(video=0)):
            if k != number and packet.dts is not None:
                packet.stream = stream
                other.mux(packet)
    return file.getvalue()


def test_damage_that_decoders_hide_is_an_error() -> None:
    """Frames that refer to a missing one are shown all the same, unless decoding must stop."""
    for number in range(1, 30):
        bad = _without(made("h264"), number)
        shown = [one.frame.is_corrupt for one in sequentially(bad)]
        x = opened([bad], FRAMES - 1, on_error="fill")
        x.array()
        if shown == [False] * (FRAMES - 1) and x.status != ["ok"]:
            return
    pytest.fail("no damage was found but what decoders tell of anyway")


def test_a_file_that_changed_since(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(made("h264"))
    x = opened([path], 2, start=60)
    path.write_bytes(make(Build("libx264"), frames=20))
    with pytest.raises(gi.DecodeError, match="the decoder does not return frame"):
        x.array()
    x = opened([path], 2)
    path.unlink()
    with pytest.raises(gi.DecodeError, match="cannot be read: No such file"):
        x.array()


@pytest.mark.parametrize(("options", "message"), [
    ({"stride": [1, 2]}, r"stride must be one number, or an array of shape \(1,\) with one for each clip"),
    ({"times": [[0.0]]}, r"times must have shape \(1, 2\), clips and frames, not \(1, 1\)"),
    ({"times": [[0.0, np.nan]]}, "times must be finite"),
    ({"times": [[0.0, 1.0]], "start": 3}, "pass either times, or start and stride"),
    ({"on_error": "skip"}, "on_error must be one of 'raise', 'fill'"),
])  # fmt: skip
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        opened([made("h264")], **{"frames": 2, **options})
    with pytest.raises(TypeError, match="sources must be a list of sources, not str"):
        opened("a.mp4", 2)


def test_frames_written_as_files() -> None:
    """Noise, whose files need more memory than photos: their clips are decoded and encoded again."""
    noise = np.random.default_rng().integers(0, 2, (6, HEIGHT, WIDTH), np.uint8) * np.uint8(200) + np.uint8(20)
    data = make(BUILDS["h264"]._replace(options={"qp": "0"}), lambda k: noise[k], len(noise))
    starts = [0, 2, 0]
    files = gi.encode_batch(opened([data] * 3, 3, start=starts), quality=80)
    assert files == [pillows(frame, 80) for frame in opened([data] * 3, 3, start=starts).compute("uint8")]
    assert min(map(len, files)) > HEIGHT * WIDTH * 3 // 8 + 2048


def test_codecs_leave_nothing_open() -> None:
    opened([made("h264")], 4).array()
    threads, descriptors = (len(os.listdir(f"/proc/self/{what}")) for what in ("task", "fd"))
    for name in ("h264", "hevc", "av1", "vp9"):
        opened([made(name), damaged()[0]], 4, start=5, on_error="fill").array()
    assert becomes_true(lambda: len(os.listdir("/proc/self/task")) <= threads)
    assert len(os.listdir("/proc/self/fd")) <= descriptors
