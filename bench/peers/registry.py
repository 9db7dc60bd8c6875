"""The list of peers, and the import of a single one."""

from __future__ import annotations

import importlib

from bench.peers.base import Peer

# In the order of the tables. The floors decode only.
CPU = {
    "gpuimg": "bench.peers.ours:Functions",
    "gpuimg-planes": "bench.peers.ours:Planes",
    "gpuimg-index": "bench.peers.ours:Indexed",
    "gpuimg-draft": "bench.peers.ours:Drafted",
    "gpuimg.load": "bench.peers.ours:Loader",
    "nvimagecodec": "bench.peers.floors:NvImageCodec",
    "simplejpeg": "bench.peers.simplejpeg_threads:SimpleJpeg",
    "dali": "bench.peers.dali_pipeline:DaliPipeline",
    "dali-dynamic": "bench.peers.dali_dynamic:DaliDynamic",
    "torchvision": "bench.peers.torchvision_loader:Torchvision",
    "albumentations": "bench.peers.albumentations_loader:Albumentations",
    "spdl": "bench.peers.spdl_pipeline:Spdl",
    "grain": "bench.peers.grain_loader:Grain",
    "kornia": "bench.peers.kornia_threads:Kornia",
    "pillow": "bench.peers.pillow_threads:Pillow",
}
GPU = {
    "gpuimg-gpu": "bench.peers.ours:FunctionsOnGpu",
    "gpuimg.load-gpu": "bench.peers.ours:LoaderOnGpu",
    "gpuimg.load-gpu-index": "bench.peers.ours:IndexedLoaderOnGpu",
    "gpuimg.load-gpu-nvimagecodec": "bench.peers.ours:NvImageCodecLoaderOnGpu",
    "dali-mixed": "bench.peers.dali_pipeline:DaliMixed",
    "torchvision-gpu": "bench.peers.gpu:TorchvisionGpu",
}
PEERS = {**CPU, **GPU}
OURS, OURS_ON_GPU = "gpuimg", "gpuimg-gpu"
FLOOR = "nvimagecodec"


def compared_with(name: str) -> str:
    """Return the gpuimg peer for comparison, on the same device."""
    return OURS_ON_GPU if name in GPU else OURS


def peer_class(name: str) -> type[Peer]:
    """Return the class of a peer, and import its library."""
    module, _, attribute = PEERS[name].partition(":")
    found = getattr(importlib.import_module(module), attribute)
    if not (isinstance(found, type) and issubclass(found, Peer)):
        raise TypeError(f"{PEERS[name]} is not a peer")
    return found
