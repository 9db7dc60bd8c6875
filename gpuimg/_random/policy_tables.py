"""The ops of augmentation policies, and AutoAugment's published policies as data."""

import numpy as np

from .._checks.types import Floats

# Ops of a policy step. Those up to ROTATE move pixels, the others change color.
IDENTITY, SHEAR_X, SHEAR_Y, TRANSLATE_X, TRANSLATE_Y, ROTATE = range(6)
BRIGHTNESS, COLOR, CONTRAST, SHARPNESS, POSTERIZE, SOLARIZE, AUTOCONTRAST, EQUALIZE, INVERT = range(6, 15)
SOLARIZE_ADD = 15  # of timm's policies only
OP_NAMES = (
    "Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
    "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize", "Invert", "SolarizeAdd",
)  # fmt: skip

# The published policies as (P, 2, 3): op, probability, and magnitude bin, 0 to 9; 0 for ops without a strength.
AUTO_AUGMENT_POLICIES: dict[str, Floats] = {
    "imagenet": np.array([
        ((POSTERIZE, 0.4, 8), (ROTATE, 0.6, 9)), ((SOLARIZE, 0.6, 5), (AUTOCONTRAST, 0.6, 0)),
        ((EQUALIZE, 0.8, 0), (EQUALIZE, 0.6, 0)), ((POSTERIZE, 0.6, 7), (POSTERIZE, 0.6, 6)),
        ((EQUALIZE, 0.4, 0), (SOLARIZE, 0.2, 4)), ((EQUALIZE, 0.4, 0), (ROTATE, 0.8, 8)),
        ((SOLARIZE, 0.6, 3), (EQUALIZE, 0.6, 0)), ((POSTERIZE, 0.8, 5), (EQUALIZE, 1.0, 0)),
        ((ROTATE, 0.2, 3), (SOLARIZE, 0.6, 8)), ((EQUALIZE, 0.6, 0), (POSTERIZE, 0.4, 6)),
        ((ROTATE, 0.8, 8), (COLOR, 0.4, 0)), ((ROTATE, 0.4, 9), (EQUALIZE, 0.6, 0)),
        ((EQUALIZE, 0.0, 0), (EQUALIZE, 0.8, 0)), ((INVERT, 0.6, 0), (EQUALIZE, 1.0, 0)),
        ((COLOR, 0.6, 4), (CONTRAST, 1.0, 8)), ((ROTATE, 0.8, 8), (COLOR, 1.0, 2)),
        ((COLOR, 0.8, 8), (SOLARIZE, 0.8, 7)), ((SHARPNESS, 0.4, 7), (INVERT, 0.6, 0)),
        ((SHEAR_X, 0.6, 5), (EQUALIZE, 1.0, 0)), ((COLOR, 0.4, 0), (EQUALIZE, 0.6, 0)),
        ((EQUALIZE, 0.4, 0), (SOLARIZE, 0.2, 4)), ((SOLARIZE, 0.6, 5), (AUTOCONTRAST, 0.6, 0)),
        ((INVERT, 0.6, 0), (EQUALIZE, 1.0, 0)), ((COLOR, 0.6, 4), (CONTRAST, 1.0, 8)),
        ((EQUALIZE, 0.8, 0), (EQUALIZE, 0.6, 0)),
    ]),
    "cifar10": np.array([
        ((INVERT, 0.1, 0), (CONTRAST, 0.2, 6)), ((ROTATE, 0.7, 2), (TRANSLATE_X, 0.3, 9)),
        ((SHARPNESS, 0.8, 1), (SHARPNESS, 0.9, 3)), ((SHEAR_Y, 0.5, 8), (TRANSLATE_Y, 0.7, 9)),
        ((AUTOCONTRAST, 0.5, 0), (EQUALIZE, 0.9, 0)), ((SHEAR_Y, 0.2, 7), (POSTERIZE, 0.3, 7)),
        ((COLOR, 0.4, 3), (BRIGHTNESS, 0.6, 7)), ((SHARPNESS, 0.3, 9), (BRIGHTNESS, 0.7, 9)),
        ((EQUALIZE, 0.6, 0), (EQUALIZE, 0.5, 0)), ((CONTRAST, 0.6, 7), (SHARPNESS, 0.6, 5)),
        ((COLOR, 0.7, 7), (TRANSLATE_X, 0.5, 8)), ((EQUALIZE, 0.3, 0), (AUTOCONTRAST, 0.4, 0)),
        ((TRANSLATE_Y, 0.4, 3), (SHARPNESS, 0.2, 6)), ((BRIGHTNESS, 0.9, 6), (COLOR, 0.2, 8)),
        ((SOLARIZE, 0.5, 2), (INVERT, 0.0, 0)), ((EQUALIZE, 0.2, 0), (AUTOCONTRAST, 0.6, 0)),
        ((EQUALIZE, 0.2, 0), (EQUALIZE, 0.6, 0)), ((COLOR, 0.9, 9), (EQUALIZE, 0.6, 0)),
        ((AUTOCONTRAST, 0.8, 0), (SOLARIZE, 0.2, 8)), ((BRIGHTNESS, 0.1, 3), (COLOR, 0.7, 0)),
        ((SOLARIZE, 0.4, 5), (AUTOCONTRAST, 0.9, 0)), ((TRANSLATE_Y, 0.9, 9), (TRANSLATE_Y, 0.7, 9)),
        ((AUTOCONTRAST, 0.9, 0), (SOLARIZE, 0.8, 3)), ((EQUALIZE, 0.8, 0), (INVERT, 0.1, 0)),
        ((TRANSLATE_Y, 0.7, 9), (AUTOCONTRAST, 0.9, 0)),
    ]),
    "svhn": np.array([
        ((SHEAR_X, 0.9, 4), (INVERT, 0.2, 0)), ((SHEAR_Y, 0.9, 8), (INVERT, 0.7, 0)),
        ((EQUALIZE, 0.6, 0), (SOLARIZE, 0.6, 6)), ((INVERT, 0.9, 0), (EQUALIZE, 0.6, 0)),
        ((EQUALIZE, 0.6, 0), (ROTATE, 0.9, 3)), ((SHEAR_X, 0.9, 4), (AUTOCONTRAST, 0.8, 0)),
        ((SHEAR_Y, 0.9, 8), (INVERT, 0.4, 0)), ((SHEAR_Y, 0.9, 5), (SOLARIZE, 0.2, 6)),
        ((INVERT, 0.9, 0), (AUTOCONTRAST, 0.8, 0)), ((EQUALIZE, 0.6, 0), (ROTATE, 0.9, 3)),
        ((SHEAR_X, 0.9, 4), (SOLARIZE, 0.3, 3)), ((SHEAR_Y, 0.8, 8), (INVERT, 0.7, 0)),
        ((EQUALIZE, 0.9, 0), (TRANSLATE_Y, 0.6, 6)), ((INVERT, 0.9, 0), (EQUALIZE, 0.6, 0)),
        ((CONTRAST, 0.3, 3), (ROTATE, 0.8, 4)), ((INVERT, 0.8, 0), (TRANSLATE_Y, 0.0, 2)),
        ((SHEAR_Y, 0.7, 6), (SOLARIZE, 0.4, 8)), ((INVERT, 0.6, 0), (ROTATE, 0.8, 4)),
        ((SHEAR_Y, 0.3, 7), (TRANSLATE_X, 0.9, 3)), ((SHEAR_X, 0.1, 6), (INVERT, 0.6, 0)),
        ((SOLARIZE, 0.7, 2), (TRANSLATE_Y, 0.6, 7)), ((SHEAR_Y, 0.8, 4), (INVERT, 0.8, 0)),
        ((SHEAR_X, 0.7, 9), (TRANSLATE_Y, 0.8, 3)), ((SHEAR_Y, 0.8, 5), (AUTOCONTRAST, 0.7, 0)),
        ((SHEAR_X, 0.7, 2), (INVERT, 0.1, 0)),
    ]),
}  # fmt: skip

# timm's "v0", from TensorFlow's ``models/official/efficientnet/autoaugment.py``. Magnitudes of 10.
TIMM_V0 = np.array([
    ((EQUALIZE, 0.8, 1), (SHEAR_Y, 0.8, 4)), ((COLOR, 0.4, 9), (EQUALIZE, 0.6, 3)),
    ((COLOR, 0.4, 1), (ROTATE, 0.6, 8)), ((SOLARIZE, 0.8, 3), (EQUALIZE, 0.4, 7)),
    ((SOLARIZE, 0.4, 2), (SOLARIZE, 0.6, 2)), ((COLOR, 0.2, 0), (EQUALIZE, 0.8, 8)),
    ((EQUALIZE, 0.4, 8), (SOLARIZE_ADD, 0.8, 3)), ((SHEAR_X, 0.2, 9), (ROTATE, 0.6, 8)),
    ((COLOR, 0.6, 1), (EQUALIZE, 1.0, 2)), ((INVERT, 0.4, 9), (ROTATE, 0.6, 0)),
    ((EQUALIZE, 1.0, 9), (SHEAR_Y, 0.6, 3)), ((COLOR, 0.4, 7), (EQUALIZE, 0.6, 0)),
    ((POSTERIZE, 0.4, 6), (AUTOCONTRAST, 0.4, 7)), ((SOLARIZE, 0.6, 8), (COLOR, 0.6, 9)),
    ((SOLARIZE, 0.2, 4), (ROTATE, 0.8, 9)), ((ROTATE, 1.0, 7), (TRANSLATE_Y, 0.8, 9)),
    ((SHEAR_X, 0.0, 0), (SOLARIZE, 0.8, 4)), ((SHEAR_Y, 0.8, 0), (COLOR, 0.6, 4)),
    ((COLOR, 1.0, 0), (ROTATE, 0.6, 2)), ((EQUALIZE, 0.8, 4), (EQUALIZE, 0.0, 8)),
    ((EQUALIZE, 1.0, 4), (AUTOCONTRAST, 0.6, 2)), ((SHEAR_Y, 0.4, 7), (SOLARIZE_ADD, 0.6, 7)),
    ((POSTERIZE, 0.8, 2), (SOLARIZE, 0.6, 10)), ((SOLARIZE, 0.6, 8), (EQUALIZE, 0.6, 1)),
    ((COLOR, 0.8, 6), (ROTATE, 0.4, 5)),
])  # fmt: skip
