"""Damaged videos: each decodes to clips or has a reason. Encoders of another version make other files of a number."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

import gpuimg as gi

from ..video.videos import BUILDS, make
from .mutate import Draw, changed

KINDS = ("h264", "h264 open gop mkv", "h264 fragments", "hevc", "hevc cut ts", "av1", "vp9", "mpeg4 avi", "mpeg2 ps")
_MAX_PIXELS = 1 << 20


@cache
def original(kind: str) -> bytes:
    return make(BUILDS[kind]._replace(dropped=min(BUILDS[kind].dropped, 3)), frames=24)


def mutation(number: int) -> bytes:
    draw = Draw(number)
    data, _ = changed(draw, original(draw.pick(KINDS)), original(draw.pick(KINDS)))
    return data


def check(folder: Path) -> Callable[[int], str]:
    def checked(number: int) -> str:
        data = mutation(number)
        try:
            info = gi.video_info(data, max_pixels=_MAX_PIXELS)
            start = np.random.default_rng(number).integers(0, info.frames, 3)
            options = {"device": "cpu", "on_error": "fill", "max_pixels": _MAX_PIXELS}
            clips = gi.open_clips([data] * 3, 4, start=start, **options)
            shape = gi.resize(clips, (16, 24)).array(layout="NTHWC").shape
        except ValueError as error:
            return "refused" if str(error) else "refused without a reason"
        assert shape == (3, 4, 16, 24, 3), shape
        return "decoded" if clips.status == ["ok"] * 3 else "some clips refused"

    return checked
