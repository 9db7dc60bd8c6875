"""The parts, in order of importance; weights are about their seconds of nine minutes."""

from __future__ import annotations

from bench.gpu.harness import PROBE, Part

_KERNELS = ("allocate", "kernel")
_DECODERS = ("allocate", "nvrtc", "nvimgcodec")

PARTS = [
    Part("machine", "bench.gpu.machine", 5, "what this was measured on", least=0.5),
    Part(PROBE, "bench.gpu.probe", 12, "what works at all", least=2.0),
    Part(
        "warm",
        "bench.gpu.warm",
        35,
        "kernels compiled for this GPU, once for all parts",
        least=2.0,
        needs=("allocate",),
    ),
    Part("tests", "bench.gpu.suite", 70, "the tests that need a GPU", needs=("allocate",)),
    Part("agreement", "bench.gpu.agreement", 35, "the CPU's results on the GPU", needs=_KERNELS),
    Part("order", "bench.gpu.order", 30, "decoding into memory that is still read", needs=_DECODERS),
    Part("sentinel", "bench.gpu.sentinel", 40, "images that are reported but not written", needs=_DECODERS),
    Part("paths", "bench.gpu.paths", 40, "decoders: hardware share, path and lanes", needs=_DECODERS),
    Part("jpeg", "bench.gpu.jpeg", 25, "JPEGs decoded by gpuimg's own kernels", needs=_KERNELS),
    Part("video", "bench.gpu.video", 40, "clips that NVDEC decodes", needs=(*_KERNELS, "nvrtc")),
    Part("throughput", "bench.gpu.throughput", 50, "from files to batches", needs=_KERNELS),
    Part("peers", "bench.gpu.peers", 80, "other libraries at the same work", needs=("allocate",)),
]
