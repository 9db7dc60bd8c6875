"""The parts, those first without which the others mean nothing; weights are about their seconds of eight minutes."""

from __future__ import annotations

from bench.gpu.harness import Part

PARTS = [
    Part("machine", "bench.gpu.machine", 10, "what this was measured on", least=0.5),
    Part("tests", "bench.gpu.suite", 75, "the tests that need a GPU"),
    Part("agreement", "bench.gpu.agreement", 45, "the CPU's results on the GPU"),
    Part("order", "bench.gpu.order", 35, "decoding into memory that is still read"),
    Part("decoding", "bench.gpu.decoding", 110, "decoders: hardware share, threads, batches, options"),
    Part("jpeg", "bench.gpu.jpeg", 35, "JPEGs with a seek index, decoded by gpuimg's own kernels"),
    Part("kernel", "bench.gpu.kernel", 50, "the fused kernel against the memory's bandwidth"),
    Part("throughput", "bench.gpu.throughput", 90, "from files to batches"),
    Part("handoff", "bench.gpu.handoff", 30, "results in other libraries, in order and unharmed"),
    Part("costs", "bench.gpu.costs", 50, "first batch, Python's time, memory over a thousand batches"),
]
