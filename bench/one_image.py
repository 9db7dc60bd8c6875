"""One image a call: gpuimg and other decoders, and how much more a batch of one image takes than its share of 64.

    python -m bench.one_image [--rounds 5] [--out bench/results/one-image.json]

- calls: one call for each file in memory, by the CPU time of one thread, JPEGs of two densities, thumbnails, and other
  formats; all pixels are compared first;
- batches: open_batch and presets with one image and with 64, by the CPU time of one thread;
- workers: the method of imread_benchmark, a public board of decoders (github.com/ternaus/imread_benchmark): a
  DataLoader of torch with batches of 32 for 0, 1, 2, ... worker processes, here of 256 files. The board is not on PyPI
  in a version that takes other decoders. "gpuimg, batches" has as many threads instead, which decode these batches;
- busy: CPU seconds by seconds of batches of 64, one after the other, with all threads.
"""

import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

import gpuimg as gi
from bench import common, photos
from bench.common import BATCH
from bench.peers import base
from bench.photos import encoded

_LOADED = 32  # images of a DataLoader's batch
_SMALL = 64, 48  # width and height of thumbnails

Files = list[bytes]
Decode = Callable[[bytes], Any]
_EVAL, _TRAIN = gi.presets.imagenet_eval(), gi.presets.imagenet_train()
_opened = partial(gi.open_batch, device="cpu")


def _decoded(files: Files, _: range) -> object:
    return gi.decode_image(files[0], device="cpu") if len(files) == 1 else gi.decode_batch(files, device="cpu")


def _pixels(files: Files, _: range) -> object:
    return _opened(files).array() if len(files) == 1 else _opened(files).compute()


#: Works on batches of any number of images, whose indices are the second argument.
_WORKS: dict[str, Callable[[Files, range], object]] = {
    "`decode_image`, `decode_batch`": _decoded,
    "`open_batch`, pixels": _pixels,
    "`imagenet_eval`": lambda files, _: _EVAL(_opened(files)).array(),
    "`imagenet_train`": lambda files, at: _TRAIN(_opened(files), gi.Rng(0, indices=at)).array(),
}


def decoders() -> tuple[dict[str, Decode], dict[str, str]]:
    """Return the decoders of JPEGs that can run, and why others cannot."""
    import cv2
    import kornia_rs
    import simplejpeg
    from torchcodec.decoders import decode_image
    from turbojpeg import TJPF_RGB, TurboJPEG

    cv2.setNumThreads(1)
    found: dict[str, Decode] = {
        "gpuimg": partial(gi.decode_image, device="cpu"),
        "simplejpeg": lambda data: simplejpeg.decode_jpeg(data, colorspace="RGB"),
        "opencv": lambda data: cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB),
        "torchcodec": lambda data: decode_image(data).permute(1, 2, 0).numpy(),
        "kornia": lambda data: kornia_rs.io.decode_image_jpegturbo(data, "rgb"),
        "pillow": lambda data: np.asarray(Image.open(io.BytesIO(data)).convert("RGB")),
    }
    try:  # it has no libjpeg-turbo of its own
        found["pyturbojpeg"] = partial(TurboJPEG().decode, pixel_format=TJPF_RGB)
    except RuntimeError as error:
        return found, {"pyturbojpeg": " ".join(str(error).split())}
    return found, {}


#: What decodes other formats than JPEG.
_OTHERS = {
    "PNG": ("opencv", "torchcodec"), "WebP": ("opencv", "torchcodec"), "GIF": ("opencv", "torchcodec"),
    "BMP": ("opencv",), "TIFF": ("opencv",),
}  # fmt: skip


def _rates(runs: dict[str, Callable[[], object]], count: int, rounds: int, by_cpu: bool) -> dict[str, Any]:
    seconds = common.interleaved(runs, rounds)[by_cpu]
    ours = {name: None if name.startswith("gpuimg") else seconds["gpuimg"] for name in seconds}
    return {name: common.rated(count, own, ours[name]) for name, own in seconds.items()}


def others(files: Files) -> dict[str, Files]:
    images = [Image.open(io.BytesIO(data)).convert("RGB") for data in files]
    found = {"JPEG, 64x48": [encoded(image.resize(_SMALL), "JPEG") for image in images]}
    for form in _OTHERS:
        found[f"{form}, 500x375"] = [encoded(image, form) for image in images[:BATCH]]
    return found


def calls(files: Files, found: dict[str, Decode], rounds: int, form: str = "JPEG") -> dict[str, Any]:
    """Measure the decoders of a format with one file a call."""
    if form in _OTHERS:
        found = {name: found[name] for name in ("gpuimg", *_OTHERS[form], "pillow")}
    for data in files[:BATCH]:
        expected = found["pillow"](data)
        for decode in found.values():
            np.testing.assert_array_equal(decode(data), expected)
    runs = {name: partial(lambda decode: common.drain(map(decode, files)), one) for name, one in found.items()}
    return _rates(runs, len(files), rounds, by_cpu=True)


def _in_batches(files: Files, size: int, work: Callable[[Files, range], object]) -> None:
    for k, batch in enumerate(base.batches(files, size)):
        work(batch, range(k * size, k * size + len(batch)))


def batches(files: Files, rounds: int) -> dict[str, Any]:
    """Measure microseconds an image in batches of one and of 64, and their ratio."""
    runs = {(work, size): partial(_in_batches, files, size, run) for work, run in _WORKS.items() for size in (1, BATCH)}
    _, worked = common.interleaved(runs, rounds)
    result: dict[str, Any] = {}
    for work in _WORKS:
        both = [worked[work, size] for size in (1, BATCH)]
        one, share = (round(1e6 * float(np.median(seconds)) / len(files), 1) for seconds in both)
        times, spread = common.ratio(*both)
        result[work] = {"one_us": one, "share_us": share, "times": times, "range": spread}
    return result


def workers(files: Files, found: dict[str, Decode], count: int, rounds: int) -> dict[str, Any]:
    """Measure a DataLoader with a number of worker processes, and gpuimg with as many threads."""
    from torch.utils.data import DataLoader

    from bench.peers.torch_loader import Photos

    def ahead() -> None:  # the next batch while the loop has this one, as a loader does
        os.environ["GPUIMG_NUM_THREADS"] = str(count)
        with ThreadPoolExecutor(1) as pool:
            common.drain(pool.map(partial(gi.decode_batch, device="cpu"), base.batches(files, _LOADED)))

    runs: dict[str, Callable[[], object]] = {}
    for name, decode in found.items():
        loader: Any = DataLoader(
            Photos(files, decode),  # type: ignore[arg-type]
            batch_size=_LOADED, num_workers=count, collate_fn=list, persistent_workers=count > 0,
        )  # fmt: skip
        runs[name] = partial(common.drain, loader)
    result = _rates(runs | ({"gpuimg, batches": ahead} if count else {}), len(files), rounds, by_cpu=False)
    os.environ["GPUIMG_NUM_THREADS"] = "1"
    return result


def busy(files: Files, rounds: int) -> dict[str, Any]:
    """Measure the number of cores that batches keep busy."""
    del os.environ["GPUIMG_NUM_THREADS"]
    runs = {work: partial(_in_batches, files, BATCH, run) for work, run in _WORKS.items()}
    walls, worked = common.interleaved(runs, rounds)
    found = {work: common.ratio(worked[work], walls[work]) for work in runs}
    return {work: {"cores": cores, "range": spread} for work, (cores, spread) in found.items()}


def main() -> None:
    options = common.arguments(__doc__, "one-image.json", count=True).parse_args()
    os.environ["GPUIMG_NUM_THREADS"] = "1"
    cores, rounds = len(os.sched_getaffinity(0)), options.rounds
    dense, thin = (photos.load_set(name, options.count) for name in ("S-4.8", "S"))
    found, missing = decoders()
    about: Any = photos.summary_of_set("S", thin)
    result = common.environment(photos.summary_of_set("S-4.8", dense), rounds, _LOADED)
    result |= {"photos_of_S": about, "not_run": missing, "single": calls(dense, found, rounds)}
    kinds = {f"JPEG, 500x375, {about['bits_per_pixel_p5_p50_p95'][1]:.1f} bits per pixel": thin, **others(thin)}
    result["calls"] = {kind: calls(own, found, rounds, kind.split(",")[0]) for kind, own in kinds.items()}
    result["batches"] = batches(thin, rounds)
    result["workers"] = {str(count): workers(dense[:256], found, count, rounds) for count in range(cores + 1)}
    result["workers"][f"{cores}, smaller files"] = workers(thin, found, cores, rounds)
    common.write(result | {"busy": busy(thin, rounds)}, options.out)


if __name__ == "__main__":
    main()
