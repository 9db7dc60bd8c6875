"""timm's augmentation policies as text: ``rand-m9-mstd0.5-inc1``, ``augmix-m5-w4-d2``, ``3a``, ``original-mstd0.5``.

The grammar, the defaults and the tables are those of timm 1.0, ``timm/data/auto_augment.py``.
"""

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from .._checks.types import Floats, Ints
from .policy_tables import AUTO_AUGMENT_POLICIES, OP_NAMES, POSTERIZE, TIMM_V0, TRANSLATE_X, TRANSLATE_Y

#: Largest magnitude, unless "mmax" is given; a magnitude of 10 is a level of 1.
LARGEST = 10.0

_INCREASING = (
    "AutoContrast", "Equalize", "Invert", "Rotate", "PosterizeIncreasing", "SolarizeIncreasing", "SolarizeAdd",
    "ColorIncreasing", "ContrastIncreasing", "BrightnessIncreasing", "SharpnessIncreasing", "ShearX", "ShearY",
    "TranslateXRel", "TranslateYRel",
)  # fmt: skip
_PLAIN = tuple(name.removesuffix("Increasing") for name in _INCREASING)
_AUGMIX = tuple(name for name in _INCREASING if name not in ("Invert", "SolarizeAdd"))

# Sets of ops by the name after "t", with relative weights; without weights all are equally likely, and may repeat.
_SETS: dict[str, tuple[tuple[str, ...], tuple[float, ...] | None]] = {
    "3a": (("SolarizeIncreasing", "Desaturate", "GaussianBlur"), None),
    "3aw": (
        (
            "SolarizeIncreasing", "Desaturate", "GaussianBlur", "Rotate", "ShearX", "ShearY", "PosterizeIncreasing",
            "AutoContrast", "ColorIncreasing", "SharpnessIncreasing", "ContrastIncreasing", "BrightnessIncreasing",
            "Equalize", "Invert",
        ),
        (6, 6, 6, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1),
    ),
    "weights": (
        (
            "Rotate", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel", "ColorIncreasing", "SharpnessIncreasing",
            "AutoContrast", "SolarizeIncreasing", "SolarizeAdd", "ContrastIncreasing", "BrightnessIncreasing",
            "Equalize", "PosterizeIncreasing", "Invert",
        ),
        (3, 2, 2, 1, 1, 0.25, 0.25, 0.25, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05),
    ),
}  # fmt: skip


class Config(NamedTuple):
    """A parsed policy."""

    kind: Literal["rand", "augmix", "auto"]
    ops: tuple[str, ...]  # names of those to choose from
    magnitude: float = LARGEST
    std: float = 0.0  # of the magnitude; infinite for a uniform draw from 0 to the magnitude
    largest: float = LARGEST
    p: float = 1.0  # probability of each op that was chosen
    layers: int = 2  # ops of an image, of RandAugment
    weights: Floats | None = None  # of the ops, drawn without replacement
    width: int = 3  # chains of AugMix
    depth: int = -1  # ops of a chain
    alpha: float = 1.0  # of the mixing weights
    # Of AutoAugment: positions in ``ops`` (P, K), and probabilities and magnitudes (P, K, 2).
    rows: tuple[Ints, Floats] | None = None


def _rows(table: Floats, posterize: str) -> tuple[tuple[str, ...], tuple[Ints, Floats]]:
    """Return the names of a table's ops, and the table with positions among them; ``posterize`` names that variant."""
    codes = np.unique(table[:, :, 0].astype(np.int64))
    names = {POSTERIZE: posterize, TRANSLATE_X: "TranslateXRel", TRANSLATE_Y: "TranslateYRel"}
    return tuple(names.get(code, OP_NAMES[code]) for code in codes.tolist()), (
        np.searchsorted(codes, table[:, :, 0].astype(np.int64)),
        table[:, :, 1:],
    )


_IMAGENET = AUTO_AUGMENT_POLICIES["imagenet"]
# DeiT III's three, each always applied: solarized from 128 on, gray, blurred by a random radius.
_THREE = (
    ("Solarize", "Desaturate", "GaussianBlurRand"),
    (np.arange(3)[:, None], np.array([[(1.0, 5.0)], [(1.0, 10.0)], [(1.0, 10.0)]])),
)
_AUTO = {
    "original": _rows(_IMAGENET, "PosterizeOriginal"),
    "originalr": _rows(_IMAGENET, "PosterizeIncreasing"),
    "v0": _rows(TIMM_V0, "Posterize"),
    "v0r": _rows(TIMM_V0, "PosterizeIncreasing"),
    "3a": _THREE,
}


def _on(value: str) -> bool:
    return bool(int(value))


# Sections by policy: the letters before the number, and the type of the number.
_SECTIONS: dict[str, dict[str, Callable[[str], Any]]] = {
    "rand": {"m": int, "n": int, "p": float, "mstd": float, "mmax": int, "inc": _on},
    "augmix": {"m": int, "w": int, "d": int, "a": float, "b": _on, "mstd": float},
    "auto": {"mstd": float},
}


@cache
def parsed(text: str) -> Config:
    """Parse a policy; raise ValueError also for sections that timm ignores."""
    name, *sections = text.split("-")
    kind: Any = "auto" if name in _AUTO else name
    if kind not in _SECTIONS:
        raise ValueError(f"policy must begin with rand, augmix, {', '.join(_AUTO)}, not {text!r}")
    given: dict[str, Any] = {}
    chosen = None
    for section in sections:
        if kind == "rand" and section.startswith("t"):
            if section[1:] not in _SETS:
                sets = ", ".join(f"t{one}" for one in _SETS)
                raise ValueError(f"t must be one of {sets} in {text!r}, not {section!r}")
            chosen = chosen or _SETS[section[1:]]
            continue
        key, value = _section(section, _SECTIONS[kind], text)
        if key not in given or key not in ("mstd", "mmax"):  # of these timm takes the first
            given[key] = value
    magnitude, std = float(given.get("m", LARGEST)), given.get("mstd", 0.0)
    if kind == "auto":
        ops, rows = _AUTO[name]
        return Config(kind, ops, std=std, rows=rows)
    if kind == "augmix":
        depth = given.get("d", -1)
        return Config(
            kind, _AUGMIX, float(given.get("m", 3)), given.get("mstd", math.inf), depth=depth if depth > 0 else -1,
            width=_at_least(given.get("w", 3), 1, "w", text), alpha=_at_least(given.get("a", 1.0), 1e-6, "a", text),
        )  # fmt: skip
    ops, weights = chosen or (_INCREASING if given.get("inc") else _PLAIN, None)
    layers = given.get("n", 2)
    if weights is not None and layers > len(ops):
        raise ValueError(f"n must be at most {len(ops)} in {text!r}: ops with weights are chosen once at most")
    return Config(
        kind, ops, magnitude, math.inf if std > 100 else std, float(given.get("mmax", 0)) or LARGEST,
        min(given.get("p", 0.5), 1.0), layers, None if weights is None else np.array(weights) / sum(weights),
    )  # fmt: skip


def _section(section: str, types: dict[str, Callable[[str], Any]], text: str) -> tuple[str, Any]:
    """Return the letters and the number of a section."""
    key, number = re.fullmatch(r"(\D*)(.*)", section, re.DOTALL).groups()  # type: ignore[union-attr]
    if key in types and number:
        try:
            return key, types[key](number)
        except ValueError:
            kind = "a number" if types[key] is float else "a whole number"
            raise ValueError(f"{key} must have {kind} in {text!r}, not {number!r}") from None
    if key in types:
        raise ValueError(f"{key} needs a number in {text!r}; timm ignores it without")
    others = " or t and a set of ops" if "inc" in types else ""
    raise ValueError(f"sections must be {', '.join(types)} and a number{others} in {text!r}, not {section!r}")


def _at_least(value: Any, low: float, key: str, text: str) -> Any:
    if value < low:
        raise ValueError(f"{key} must be at least {low:g} in {text!r}, not {value:g}")
    return value
