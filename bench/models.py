"""From the bytes of JPEGs to a model's input tensors: gpuimg and the image processors of transformers.

    GPUIMG_NUM_THREADS=1 python -m bench.models [--rounds 5] [--count 32] [--out bench/results/vlm.json]

Images/s by the CPU time of one thread, medians of the rounds, contenders in turn. Photos of the set S (about
500x375), in one batch. Contenders: ``gpuimg.models`` with ``exact="torch"``; transformers' backends "torchvision", its
default, and "pil", after ``Image.open(...).convert("RGB")``. Before the rounds the outputs are compared, and those of
"torchvision" must not differ in a value.
"""

import io
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from PIL import Image

import gpuimg as gi
from bench import common, photos, processors

#: Models, and by which number ``--count`` is divided: those with large outputs have fewer photos.
MODELS = {
    "clip": 1, "siglip384": 1, "qwen2_vl": 1, "qwen3_vl": 1, "siglip2_naflex": 1, "gemma3": 4, "internvl": 4
}  # fmt: skip


def _ours(name: str, files: list[bytes]) -> processors.Outputs:
    return processors.ours(name, "torchvision", gi.open_batch(files, device="cpu"))


def _theirs(processor: Any, files: list[bytes]) -> dict[str, Any]:
    images = [Image.open(io.BytesIO(data)).convert("RGB") for data in files]
    return dict(processor(images, return_tensors="pt"))


def rates(name: str, files: list[bytes], rounds: int) -> dict[str, Any]:
    backends = {backend: processors.processor(name, backend) for backend in ("torchvision", "pil")}
    want, got = _theirs(backends["torchvision"], files), _ours(name, files)
    if different := sum(int(np.count_nonzero(got[key] != np.asarray(want[key]))) for key in got):
        raise RuntimeError(f"{different} values of {name} differ")
    runs: dict[str, Callable[[], object]] = {"gpuimg": partial(_ours, name, files)}
    runs |= {backend: partial(_theirs, processor, files) for backend, processor in backends.items() if processor}
    _, worked = common.interleaved(runs, rounds)
    return {
        "images_per_second": {run: common.per_second(len(files), seconds) for run, seconds in worked.items()},
        **{f"of_{run}": common.ratio(worked[run], worked["gpuimg"])[0] for run in worked if run != "gpuimg"},
        "values_that_differ": different,
    }


def main() -> None:
    parser = common.arguments(__doc__, "vlm.json")
    parser.add_argument("--count", type=int, default=32, help="photos of a batch")
    options = parser.parse_args()
    if processors.missing():
        raise SystemExit(f"{processors.missing()} is not installed")
    import torch

    torch.set_num_threads(1)
    files = photos.load_set("S", options.count)
    about = common.environment({"S": photos.summary_of_set("S", files)}, options.rounds, options.count)
    about["versions"] |= {name: version(name) for name in ("transformers", "torch", "torchvision")}
    models = {name: rates(name, files[: -(-len(files) // share)], options.rounds) for name, share in MODELS.items()}
    common.write({**about, "models": models}, options.out)


if __name__ == "__main__":
    main()
