"""Which decoder gets a file of a batch on a GPU: a table, without files and without a device."""

from typing import Any

import numpy as np
import pytest

from gpuimg._decoding import route
from gpuimg._decoding.decoder import PillowHeader
from gpuimg._decoding.options import DecodeOptions
from gpuimg.kernels.jpeg import layout as words

#: Files by what their headers say, besides a baseline JPEG's.
FILES: dict[str, dict[str, Any]] = {
    "baseline": {}, "gray": {"components": 1, "color": words.GRAY},
    "progressive": {"kind": words.PROGRESSIVE, "process": 2}, "arithmetic": {"kind": words.JPEG, "process": 9},
    "CMYK": {"kind": words.JPEG, "components": 4}, "RGB": {"color": words.RGB}, "gaps": {"strict": 0},
    "cut off": {"whole": 0}, "narrow": {"width": 4}, "recoded": {"kind": words.RECODED},
    "PNG": {"kind": words.OTHER, "components": 0}, "Pillow's": {}, "failed": {}, "reported": {"strict": 0},
    "JPEG 2000": {"kind": words.OTHER, "components": 0}, "16 bits": {"kind": words.OTHER, "components": 0},
    "narrow TIFF": {"kind": words.OTHER, "components": 0, "width": 4},
}  # fmt: skip
OTHERS = {"Pillow's": (8, False), "JPEG 2000": (8, True), "16 bits": (16, True), "narrow TIFF": (8, True)}
#: Options of decoding, whether nvImageCodec and our kernels are there; and the decoder of each file: nvImageCodec
#: ("n"), our kernels ("k"), the CPU ("c"), or none ("-").
ROUTES: dict[str, tuple[dict[str, Any], bool, bool, str]] = {
    "all": ({}, True, True, "nnncckkkkkcc-cncc"),
    "draft": ({"draft": 1.5}, True, True, "kkncckkkkkcc-cncc"),
    "nvimagecodec": ({"decoder": "nvimagecodec", "draft": 1.5}, True, True, "nnncckkkkkcc-cncc"),
    "gpuimg": ({"decoder": "gpuimg"}, True, True, "kkccckkkkkcc-cccc"),
    "no nvImageCodec": ({}, False, True, "kkccckkkkkcc-cccc"),
    "no kernels": ({}, True, False, "nnnccccccccc-cncc"),
    "others as asked for": ({"depth": "native", "color": "rgb"}, True, True, "nnncckkkkkcc-ccnc"),
    "a profile": ({"icc": "srgb"}, True, True, "nnncckkkkkcc-cccc"),
    "nothing": ({}, False, False, "cccccccccccc-cccc"),
}


@pytest.mark.parametrize("name", ROUTES)
def test_assign(name: str) -> None:
    options, nvimgcodec, kernels, expected = ROUTES[name]
    names = list(FILES)
    records = np.zeros(len(names), words.HEADER)
    usual = {"kind": words.BASELINE, "strict": 1, "whole": 1, "width": 40, "height": 30, "components": 3,
             "color": words.YCBCR}  # fmt: skip
    for k, fields in enumerate(FILES.values()):
        for field, value in (usual | fields).items():
            records[k][field] = value
    others = {names.index(one): PillowHeader(30, 40, 3, (), depth=depth, is_common=common)
              for one, (depth, common) in OTHERS.items()}  # fmt: skip
    found = route.assign(
        records, DecodeOptions(**options), others, [names.index("failed")], np.array(names) == "reported",
        nvimgcodec=nvimgcodec, of_others=nvimgcodec, kernels=kernels, least_row=16,
    )  # fmt: skip
    said = {route.NVIMGCODEC: "n", route.KERNELS: "k", route.HOST: "c", route.FAILED: "-"}
    assert dict(zip(names, map(said.__getitem__, found.tolist()), strict=True)) == dict(
        zip(names, expected, strict=True)
    )
