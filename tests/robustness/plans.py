"""Damaged files of saved plans: each is refused, or is a plan that runs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

import gpuimg as gi

from .mutate import Draw, changed


def check(folder: Path) -> Callable[[int], str]:
    pictures = np.random.default_rng(5).integers(0, 256, (3, 20, 20, 3), np.uint8)
    path, plans = folder / "plan.npy", list[bytes]()
    for recorded in (
        gi.adjust_contrast(gi.rotate(gi.crop(pictures, 1, 2, 9, 8), 30), 0.5),
        gi.gaussian_blur(gi.normalize(gi.random_elastic(pictures, rng=1), 0.5, 0.25), 3),
        gi.equalize(gi.resize(gi.rand_augment(pictures, rng=3), (12, 15))),
    ):
        gi.save_plan(recorded, path)
        plans.append(path.read_bytes())

    def checked(number: int) -> str:
        draw = Draw(number)
        path.write_bytes(changed(draw, draw.pick(plans), draw.pick(plans))[0])
        try:
            plan = gi.load_plan(path)
        except ValueError:
            return "refused"
        if not np.array_equal(plan.sizes, [[20, 20]] * 3) or max(one.sizes.max() for one in plan.segments) >= 300:
            return "for other images"
        assert len(list(gi.apply_plan(plan, pictures).compute("float32"))) == 3
        return "applied"

    return checked
