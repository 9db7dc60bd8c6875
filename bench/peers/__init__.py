"""The same preprocessing by gpuimg and by other libraries, each as in its documentation.

``python -m bench.peers`` runs it; see :mod:`bench.peers.__main__`. One module holds one library, or a few variants of
it; :mod:`bench.peers.base` defines their interface and the works.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.peers.base import Peer

#: Modules and classes, in the order of the tables.
PEERS = {
    "gpuimg": "ours:Loader",
    "gpuimg-calls": "ours:Calls",
    "simplejpeg": "simplejpeg_threads:SimpleJpeg",
    "dali": "dali_pipeline:DaliPipeline",
    "dali-dynamic": "dali_pipeline:DaliDynamic",
    "torchvision": "torchvision_loader:Torchvision",
    "albumentations": "albumentations_loader:Albumentations",
    "kornia": "kornia_threads:Kornia",
    "spdl": "spdl_loader:Spdl",
    "grain": "grain_loader:Grain",
    "pillow": "pillow_threads:Pillow",
    "dali-mixed": "dali_pipeline:DaliMixed",
    "torchvision-cuda": "torchvision_cuda:TorchvisionCuda",
}
ON_GPU = ("dali-mixed", "torchvision-cuda")  # for bench.gpu.rates


def module_of(name: str) -> str:
    return f"bench.peers.{PEERS[name].partition(':')[0]}"


def peer_class(name: str) -> "type[Peer]":
    found: type[Peer] = getattr(import_module(module_of(name)), PEERS[name].partition(":")[2])
    return found
