"""From image files to the input of vision-language models, value for value as Hugging Face's processors give it.

python examples/vlm_tokens.py [files]
"""

from __future__ import annotations

import sys
from pathlib import Path

import gpuimg

HALF = (0.5, 0.5, 0.5)
MODELS = {
    "Qwen2-VL, Qwen2.5-VL": gpuimg.models.qwen_vl(),
    "Qwen3-VL": gpuimg.models.qwen_vl(16, 2, 2, 65536, 16777216, HALF, HALF),
    "SigLIP 2 NaFlex": gpuimg.models.siglip2_naflex(),
    "InternVL": gpuimg.models.internvl(),
    "Gemma 3": gpuimg.models.gemma3(pan_and_scan=(256, 4, 1.2)),
}


def main(files: list[Path]) -> None:
    """Print the shapes of each model's inputs."""
    for name, prepare in MODELS.items():
        outputs = prepare(gpuimg.open_batch(files, device="cpu"))
        print(f"{name}: " + ", ".join(f"{key} {value.shape}" for key, value in outputs.items()))

    # The steps of a model of yours: a rule for sizes, a resize whose bytes are known, patches.
    x = gpuimg.open_batch(files, device="cpu")
    x = gpuimg.resize(x, gpuimg.sizes.smart(x.sizes, factor=32, max_pixels=512 * 512), "bicubic", exact="pillow")
    tokens = gpuimg.normalize(x, HALF, HALF).tokens(16, merge=2, dtype="float16")
    for k, (start, stop) in enumerate(zip(tokens.starts, tokens.starts[1:], strict=False)):
        _, down, across = tokens.grids[k].tolist()
        print(f"{files[k].name}: tokens {start} to {stop}, {down} x {across} patches")


if __name__ == "__main__":
    given = [Path(name) for name in sys.argv[1:]]
    main(given or sorted((Path(__file__).parent / "photos").glob("*.jpg"))[:3])
