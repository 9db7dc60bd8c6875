"""Image processors of transformers as references; tests that use them are skipped where it is not installed."""

from __future__ import annotations

import hashlib
import importlib.util
from typing import Any

import numpy as np
import pytest

from bench import processors
from bench.processors import Outputs

RULES = processors.RULES
#: As those of ``bench``: models that gpuimg has as a backend of transformers only.
SPECS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "beit": ("beit", "BeitImageProcessor", {}),
    "blip": ("blip", "BlipImageProcessor", {}),
    "cohere_compass": ("cohere_compass", "CohereCompassImageProcessor", {}),
    "conditional_detr": ("conditional_detr", "ConditionalDetrImageProcessor", {}),
    "convnext": ("convnext", "ConvNextImageProcessor", {"size": {"shortest_edge": 224}}),
    "convnext384": ("convnext", "ConvNextImageProcessor", {}),
    "cosmos3_edge": ("cosmos3_edge", "Cosmos3EdgeImageProcessor", {}),
    "deformable_detr": ("deformable_detr", "DeformableDetrImageProcessor", {}),
    "deit": ("deit", "DeiTImageProcessor", {}),
    "detr": ("detr", "DetrImageProcessor", {}),
    "dpt": ("dpt", "DPTImageProcessor", {}),
    "ernie": ("ernie4_5_vl_moe", "Ernie4_5_VLMoeImageProcessor", {}),
    "glm4v": ("glm4v", "Glm4vImageProcessor", {}),
    "grounding_dino": ("grounding_dino", "GroundingDinoImageProcessor", {}),
    "levit": ("levit", "LevitImageProcessor", {}),
    "llava": ("llava", "LlavaImageProcessor", {}),
    "minimax": ("minimax_m3_vl", "MiniMaxM3VLImageProcessor", {}),
    "mobilenet_v2": ("mobilenet_v2", "MobileNetV2ImageProcessor", {}),
    "owlvit": ("owlvit", "OwlViTImageProcessor", {}),
    "paddleocr_vl": ("paddleocr_vl", "PaddleOCRVLImageProcessor", {}),
    "sam": ("sam", "SamImageProcessor", {}),
    "sam2": ("sam2", "Sam2ImageProcessor", {}),
    "sam3": ("sam3", "Sam3ImageProcessor", {}),
    "segformer": ("segformer", "SegformerImageProcessor", {}),
    "video_llama_3": ("video_llama_3", "VideoLlama3ImageProcessor", {}),
}
processors.SPECS.update(SPECS)


def timm(name: str) -> Any:
    """Import a module of timm, which imports torchvision (``pip install --no-deps timm torchvision``), or skip."""
    for one in ("torch", "torchvision", "timm"):
        if importlib.util.find_spec(one) is None:
            pytest.skip(f"needs {one}")
    return importlib.import_module(name)


def needs_transformers() -> None:
    """Skip the test where the processors cannot run."""
    if processors.missing():
        pytest.skip(f"{processors.missing()} is not installed")


def processor(name: str, backend: str) -> Any:
    """Return a model's processor with ``backend`` "torchvision" or "pil"; skip where there is none."""
    needs_transformers()
    found = processors.processor(name, backend)
    if found is None:
        pytest.skip(f"{name} has no processor of backend {backend}")
    return found


def digest(outputs: Outputs) -> str:
    """A hash of names, types, shapes and values."""
    found = hashlib.sha256()
    for name in sorted(outputs):
        value = np.ascontiguousarray(outputs[name])
        found.update(f"{name} {value.dtype} {value.shape}".encode())
        found.update(value.view(np.uint8))
    return found.hexdigest()
