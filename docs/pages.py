"""What the site adds to its pages: pictures, defaults and related functions to docstrings, links to code words."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from searches import of_page
from sphinx import addnodes

import gpuimg

HERE = Path(__file__).parent

#: Public names that are not older than a version.
NEW = {
    "0.3": """
        ImageError decode_image models.qwen3_vl_video models.qwen_vl_video recode_jpeg restore_jpeg sizes.smart_video
        split transform_images
    """,
    "0.4": """
        box_blur bucket_batches channel_dropout clahe color_matrix emboss encode_batch encode_image example_photos
        filter2d fog grid_distortion laplacian lookup_table median_blur morphology optical_distortion rain
        random_box_blur random_channel_dropout random_clahe random_emboss random_fog random_grid_distortion
        random_median_blur random_morphology random_optical_distortion random_rain random_rgb_shift
        random_salt_and_pepper random_shadow random_shot_noise random_thin_plate_spline random_tone_curve read_region
        remap rgb_shift salt_and_pepper shadow shot_noise thin_plate_spline tiles token_batches
    """,
}

#: Groups of the parameters of a function, by the first one of each.
GROUPS = {
    "load": {
        "source": "Data", "shuffle": "Order", "device": "Work", "dtype": "Output", "on_error": "Errors",
    },
}  # fmt: skip

#: Functions that are often looked for together, in lines; besides those that differ by ``random_``.
TOGETHER = """
    rotate random_rotation affine
    resize random_resize random_short_side_resize scale_jitter letterbox
    pad random_zoom_out
    crop center_crop resized_crop five_crop ten_crop read_region
    random_iou_crop sanitize_bounding_boxes
    remap grid_distortion optical_distortion thin_plate_spline elastic
    adjust_sharpness random_sharpness
    rgb_to_grayscale random_grayscale
    adjust_hsv random_hsv adjust_hue adjust_saturation
    permute_channels random_channel_permutation color_matrix
    color_jitter random_photometric_distort adjust_brightness adjust_contrast adjust_saturation adjust_hue
    lookup_table random_tone_curve adjust_gamma
    equalize autocontrast clahe
    erase random_erasing coarse_dropout grid_mask
    box_blur gaussian_blur median_blur motion_blur
    filter2d laplacian emboss
    gaussian_noise shot_noise salt_and_pepper
    fog rain shadow
    cutmix mixup mosaic copy_paste
    auto_augment rand_augment trivial_augment augmix
    open_clips random_clips video_info uniform_temporal_subsample
    open_batch decode_batch decode_image image_info
    encode_batch encode_image jpeg
    prepare recode_jpeg restore_jpeg
    folder file_list tar parquet coco
    describe pointwise
    to_torch to_jax to_tensorflow
    transform_boxes transform_keypoints transform_masks transform_points transform_images
    letterbox transform_points
    random_crop crop tiles read_region
"""

_MODULES = ("presets", "models", "sizes")


def public_names() -> set[str]:
    """Return the names that the reference has a page of, without ``gpuimg.``."""
    found = {name for name in vars(gpuimg)["__all__"] if not inspect.ismodule(getattr(gpuimg, name))}
    for module in _MODULES:
        own = vars(getattr(gpuimg, module)).items()
        found |= {
            f"{module}.{name}"
            for name, value in own
            if getattr(value, "__module__", "") == f"gpuimg.{module}" and not name.startswith("_")
        }
    found |= {f"Batch.{name}" for name, value in vars(gpuimg.Batch).items() if not name.startswith("_")}
    return (found | {f"torch.{name}" for name in ("load", "Dataset", "IterableDataset")}) - {"__version__"}


# -- functions ---------------------------------------------------------------------------------------------------------


def complete(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Add to a docstring, as reStructuredText, what the site knows of a function or class."""
    if what not in ("function", "class") or not name.startswith("gpuimg."):
        return
    short = name.removeprefix("gpuimg.")
    if what == "function":
        lines[:] = list(_in_groups(short, _with_defaults(value, lines)))
        summary = next((k for k, line in enumerate(lines) if k and not line.strip() and lines[k - 1].strip()), 0)
        lines[summary:summary] = ["", f".. pictures-of:: {name}", ""]
        lines += ["", *_related(short)]
    since = next((version for version, names in NEW.items() if short in names.split()), None)
    lines += ["", f".. versionadded:: {since}", ""] if since else []


def _with_defaults(function: Any, lines: list[str]) -> Iterator[str]:
    parameters = inspect.signature(function).parameters
    for line in lines:
        head = re.fullmatch(r"( +\*\*(\w+)\*\* : .*)", line)
        default = parameters[head[2]].default if head and head[2] in parameters else None
        if head and default not in (None, inspect.Parameter.empty):
            yield f"{head[1].removesuffix(', optional')}, default ``{shown(repr(default))}``"
        else:
            yield line


def _in_groups(name: str, lines: Iterator[str]) -> Iterator[str]:
    groups = GROUPS.get(name, {})
    for line in lines:
        head = re.match(r"( +)\*\*(\w+)\*\*", line)
        if head and head[2] in groups:
            yield from (f"{head[1]}.. rubric:: {groups[head[2]]}", "")
        yield line


def shown(text: str) -> str:
    """Return numbers of a signature as they are written."""
    return text.replace("1.3333333333333333", "4/3").replace("0.75, 4/3", "3/4, 4/3")


def _related(name: str) -> Iterator[str]:
    """Yield links to the random or fixed form of a function, its group, presets, and torchvision's name."""
    twin = name.removeprefix("random_") if name.startswith("random_") else f"random_{name}"
    near = [twin, *(other for line in TOGETHER.splitlines() if name in line.split() for other in line.split())]
    found = [f":func:`{other}`" for other in dict.fromkeys(near) if other in vars(gpuimg) and other != name]
    found += [f":func:`gpuimg.presets.{preset}`" for preset in _presets_with(name)]
    theirs = [f"``{one}``" for one, ours in _TORCHVISION if ours == name]
    if theirs:
        found.append(f"torchvision's {' and '.join(theirs)} (:doc:`differences </reference/torchvision>`)")
    if found:
        yield from ("", ".. rubric:: See also", "", ", ".join(found) + ".", "")


_TABLE = (HERE / "reference" / "torchvision.md").read_text()
_TORCHVISION = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", _TABLE, re.MULTILINE)


_PRESETS = dict(re.findall(r"^def (\w+)\(((?s:.*?))(?=^\S(?!\)))", inspect.getsource(gpuimg.presets), re.MULTILINE))


def _presets_with(name: str) -> list[str]:
    """Return the presets that record a function, by their sources."""

    def uses(part: str, seen: frozenset[str] = frozenset()) -> bool:
        body = _PRESETS[part]
        others = {other for other in re.findall(r"\b_\w+", body) if other in _PRESETS} - seen - {part}
        return f" {name}.record(" in body or any(uses(other, seen | others) for other in others)

    return sorted(part for part in _PRESETS if not part.startswith("_") and uses(part))


# -- all pages ---------------------------------------------------------------------------------------------------------

_NAMES = public_names()


def link_names(app: Any, page: nodes.document) -> None:
    """Make links of the public names among the code words of guides, and entries of the index for searches."""
    name = app.env.docname
    entries = [("single", word, anchor, "main", None) for word, anchor in of_page(name)]
    function = name.removeprefix("reference/generated/gpuimg.")
    if function in _NAMES:
        entries.append(("single", function.replace("_", " "), "", "main", None))
    if entries:
        page.insert(0, addnodes.index("", entries=entries))
    if name.startswith(("reference/generated", "gallery")) or name in ("changelog", "architecture"):
        return
    for word in list(page.findall(nodes.literal)):
        target = word.astext().removeprefix("gpuimg.").removesuffix("()")
        target = target.partition("(")[0] if word.astext().startswith("gpuimg.") else target
        if target in _NAMES and not _is_elsewhere(word):
            to = {"refdomain": "py", "reftype": "obj", "reftarget": f"gpuimg.{target}", "refdoc": name}
            link = addnodes.pending_xref("", refexplicit=True, **to)
            word.replace_self(link)
            link += word


def _is_elsewhere(word: nodes.Node) -> bool:
    """Return True for words in a link or a heading, and in the first column of a table, which has others' names."""
    inner = word
    while inner.parent is not None:
        if isinstance(inner.parent, (nodes.reference, nodes.title, addnodes.pending_xref)):
            return True
        if isinstance(inner.parent, nodes.row):
            return inner.parent.index(inner) == 0 and len(inner.parent) > 2
        inner = inner.parent
    return False
