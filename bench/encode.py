"""JPEGs written by gpuimg and by other libraries, and their time.

    python -m bench.encode [--rounds 7] [--out bench/results/encode.json]

Microseconds of CPU time per photo of about 500x375 on one thread, from pixels in memory to bytes, contenders in turn,
medians of the rounds; then gpuimg at quality 75 on two threads, by the wall clock. Pixels are in each library's order
of colors before the time starts, and Pillow's images are made. Before timing, gpuimg's files are compared with Pillow's
and OpenCV's. nvImageCodec is its encoder for the CPU, which is OpenCV's.
"""

import io
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import cv2
import numpy as np
import simplejpeg
from PIL import Image

import gpuimg as gi
from bench import common, photos

_SETTINGS = (
    ("4:2:0", 75, False), ("4:2:0", 90, False), ("4:2:2", 90, False), ("4:4:4", 90, False), ("4:2:0", 75, True),
    ("4:2:0", 90, True),
)  # fmt: skip
_SAMPLING = {"4:4:4": 0x111111, "4:2:2": 0x211111, "4:2:0": 0x221111}  # OpenCV's


def by_pillow(picture: Image.Image, sampling: str, quality: int, optimize: bool) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality, subsampling=sampling, optimize=optimize)
    return file.getvalue()


def nvimagecodec(images: Any, sampling: str, quality: int, optimize: bool) -> Callable[[], Any]:
    from nvidia import nvimgcodec as library

    encoder = library.Encoder(
        device_id=library.NVIMGCODEC_DEVICE_CPU_ONLY,
        max_num_cpu_threads=1,
        backends=[library.Backend(library.CPU_ONLY)],
    )
    params = library.EncodeParams(
        quality_type=library.QualityType.QUALITY,
        quality_value=quality,
        chroma_subsampling=getattr(library.ChromaSubsampling, f"CSS_{sampling.replace(':', '')}"),
        jpeg_encode_params=library.JpegEncodeParams(progressive=False, optimized_huffman=optimize),
    )
    return lambda: [bytes(one) for one in encoder.encode(library.as_images(list(images)), "jpeg", params=params)]


def contenders(images: gi.Batch, sampling: Any, quality: int, optimize: bool) -> dict[str, Callable[[], list[bytes]]]:
    pictures, blue_first = [Image.fromarray(one) for one in images], [one[..., ::-1].copy() for one in images]
    options = [
        cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, _SAMPLING[sampling],
        cv2.IMWRITE_JPEG_OPTIMIZE, int(optimize),
    ]  # fmt: skip
    found: dict[str, Callable[[], list[bytes]]] = {
        "gpuimg": partial(gi.encode_batch, images, quality=quality, subsampling=sampling, optimize=optimize),
        "pillow": lambda: [by_pillow(one, sampling, quality, optimize) for one in pictures],
        "opencv": lambda: [cv2.imencode(".jpg", one, options)[1].tobytes() for one in blue_first],
        "nvimagecodec": nvimagecodec(images, sampling, quality, optimize),
    }
    if not optimize:
        short = sampling.replace(":", "")
        found["simplejpeg"] = lambda: [simplejpeg.encode_jpeg(one, quality, "RGB", short) for one in images]
    return found


def main() -> None:
    options = common.arguments(__doc__, "encode.json", rounds=7).parse_args()
    files, rows = photos.load_set("S", common.BATCH), []
    images = gi.decode_batch(files, device="cpu")
    cv2.setNumThreads(1)
    for sampling, quality, optimize in _SETTINGS:
        os.environ["GPUIMG_NUM_THREADS"] = "1"
        runs = contenders(images, sampling, quality, optimize)
        written = runs["gpuimg"]()
        assert written == runs["pillow"]() == runs["opencv"]()
        _, worked = common.interleaved(runs, options.rounds)
        rows.append({
            "subsampling": sampling, "quality": quality, "optimize": optimize,
            "bytes": round(np.mean([len(one) for one in written])),
            "microseconds": {key: round(float(np.median(s)) / len(images) * 1e6) for key, s in worked.items()},
            "over_gpuimg": {key: common.ratio(s, worked["gpuimg"]) for key, s in worked.items() if key != "gpuimg"},
        })  # fmt: skip
        print(rows[-1], flush=True)
    walls, _ = common.interleaved({k: partial(_on_threads, k, images) for k in (1, 2)}, 5 * options.rounds)
    found = common.environment({"set": "S", "count": len(files)}, options.rounds)
    common.write(found | {"rows": rows, "two_threads": common.ratio(walls[1], walls[2])}, options.out)


def _on_threads(count: int, images: gi.Batch) -> None:
    os.environ["GPUIMG_NUM_THREADS"] = str(count)
    gi.encode_batch(images, quality=75)


if __name__ == "__main__":
    main()
