"""Mistakes that are taken for what they are: names and words of other libraries, other layouts, old parameters."""

import inspect
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg
from gpuimg._checks.elsewhere import ELSEWHERE
from gpuimg._checks.keywords import LOAD_HINTS, REMOVED
from tests.video.videos import made

from .. import processes
from ..libraries import library, needs
from ..samples import PUBLIC, file_of

NAMES = json.loads((Path(__file__).with_name("torchvision_names.json")).read_text())
IMAGES = np.zeros((2, 8, 9, 3), np.uint8)
HERE = str(Path(__file__).parent)

SOURCE = [(file_of(Image.new("RGB", (40, 30))), 0)] * 4


@pytest.mark.parametrize("name", sorted({*NAMES["classes"], *NAMES["functional"], *NAMES["utilities"], *ELSEWHERE}))
def test_names_of_torchvision(name: str) -> None:
    if name in PUBLIC:
        assert name not in ELSEWHERE
        return
    assert not hasattr(gpuimg, name)
    with pytest.raises(AttributeError, match=rf"^module 'gpuimg' has no attribute '{name}': \w") as caught:
        getattr(gpuimg, name)
    for used in re.findall(r"gpuimg\.(\w+)", str(caught.value)):
        assert used in ("torch", "typing") or hasattr(gpuimg, used)


@pytest.mark.parametrize("function", ["load", "open_batch", "decode_batch", "decode_image", "open_clips"])
@pytest.mark.parametrize("name", LOAD_HINTS)
def test_keywords_of_a_dataloader(name: str, function: str) -> None:
    loads = function == "load"
    assert name not in inspect.signature(getattr(gpuimg, function)).parameters
    with pytest.raises(TypeError, match=rf"^{function}\(\) has no parameter '{name}': \w") as caught:
        getattr(gpuimg, function)(SOURCE, **{name: 1})
    assert LOAD_HINTS[name] in str(caught.value)
    assert loads or ": in gpuimg.load, " in str(caught.value)
    for used in re.findall(r"(\w+)=", str(caught.value)):
        assert used in inspect.signature(gpuimg.load).parameters


@pytest.mark.parametrize(
    ("function", "name"),
    [(gpuimg.load, "index"), (gpuimg.open_batch, "index"), (gpuimg.open_batch, "indices"), (gpuimg.prepare, "index")],
)
def test_parameters_of_earlier_versions(function: Any, name: str) -> None:
    assert name not in inspect.signature(function).parameters
    assert not {*LOAD_HINTS, *REMOVED} & {*inspect.signature(gpuimg.load).parameters}  # torch.load passes all of them
    match = rf"{function.__name__}\(\) has no parameter '{name}': there are no seek indexes"
    with pytest.raises(TypeError, match=match):
        function(SOURCE, "nowhere", **{name: "some"}) if function is gpuimg.prepare else function(SOURCE, **{name: 1})


BOXES = [[(0, 0, 4, 4)]] * 2
#: What the functions with flags are given besides; by default a batch, and an rng or a seed if they have one.
GIVEN: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("iterable", "read_sizes"), (SOURCE,)),
    **dict.fromkeys(("letterbox", "resize", "ten_crop", "random_crop", "random_resized_crop"), (IMAGES, 4)),
    "scale_jitter": (IMAGES, 4),
    "encode_image": (IMAGES[0],), "bucket_batches": ([(4, 4)],), "coco": ("nowhere.json", "nowhere"), "load": (SOURCE,),
    "prepare": (SOURCE, "nowhere"), "random_resize": (IMAGES, 4, 8), "random_rotation": (IMAGES, 30),
    "random_short_side_resize": (IMAGES, 4), "resized_crop": (IMAGES, 0, 0, 4, 4, 4), "rotate": (IMAGES, 30),
    "split": (SOURCE, 0.5), "token_batches": ([4], 4), "transform_boxes": (gpuimg.invert(IMAGES), BOXES),
    "transform_keypoints": (gpuimg.invert(IMAGES), [[[(0, 0, 2)]]] * 2),
    "transform_points": (gpuimg.invert(IMAGES), [[(0, 0)]] * 2),
}  # fmt: skip
OPTIONS = {"rng": 0, "seed": 0, "batch_size": 2, "short_side": 8}


@pytest.mark.parametrize(("name", "flag"), [
    (name, parameter.name)
    for name in PUBLIC
    if inspect.isfunction(function := getattr(gpuimg, name))
    for parameter in inspect.signature(function).parameters.values()
    if isinstance(parameter.default, bool)
])  # fmt: skip
def test_true_and_false_are_no_words(name: str, flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    function = getattr(gpuimg, name)
    options = {option: value for option, value in OPTIONS.items() if option in inspect.signature(function).parameters}
    with pytest.raises(TypeError, match=rf"^{flag} must be True or False, not 'yes'$"):
        function(*GIVEN.get(name, (IMAGES,)), **options | {flag: "yes"})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shape", [(4, 3, 32, 32), (2, 1, 28, 30), (1, 16, 20, 17), (4, 3, 16, 16), (2, 1, 5, 5)])
def test_channels_first_get_the_transpose_to_write(shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, np.uint8)
    options = r", .*images\.permute\(0, 2, 3, 1\)$"
    with pytest.raises(ValueError, match=r"channels come first, pass images\.transpose\(0, 2, 3, 1\)" + options):
        gpuimg.horizontal_flip(array)
    assert gpuimg.horizontal_flip(array.transpose(0, 2, 3, 1)).channels == shape[1]
    with pytest.raises(ValueError, match=r"images\[0\]\.transpose\(1, 2, 0\)"):
        gpuimg.horizontal_flip(list(array))
    if shape[1] <= 4:
        match = r"pass \[image\.transpose\(1, 2, 0\)\], or .*\[image\.permute\(1, 2, 0\)\]$"
        with pytest.raises(ValueError, match=match):
            gpuimg.horizontal_flip(array[0])
        with pytest.raises(ValueError, match=r"images\[0\]\.transpose\(1, 2, 0\)"):
            gpuimg.horizontal_flip([array[0, ..., :5]])


@pytest.mark.parametrize("shape", [(2, 3, 3, 3), (2, 3, 4, 4), (2, 1, 1, 1), (2, 5, 5, 5), (2, 3, 9, 8), (0, 3, 9, 9)])
def test_channels_last_stay_what_they_are(shape: tuple[int, ...]) -> None:
    assert gpuimg.horizontal_flip(np.zeros(shape, np.uint8)).channels == shape[-1]


def to_torch(x: gpuimg.Batch) -> Any:
    needs("torch")
    return gpuimg.to_torch(gpuimg.resize(x, (32, 32)))


@pytest.mark.parametrize("preprocess", [
    lambda x, rng: to_torch(x), lambda x, rng, labels: (to_torch(x), labels),
    lambda x, rng: library("torch").zeros(2, 3, 16, 16, dtype=library("torch").uint8), lambda x, rng: "x",
])  # fmt: skip
def test_a_function_for_load_returns_a_batch(preprocess: Any) -> None:
    match = r"^preprocess must return a Batch, .* It returned (Tensor|str): images"
    with pytest.raises((TypeError, ValueError), match=match):
        first(SOURCE, preprocess)


X = gpuimg.invert(IMAGES)
untyped: Any = gpuimg  # a type checker reports most of these
MISTAKES: dict[str, tuple[str, Callable[[], Any]]] = {
    "one path": ("for one source pass [source]", lambda: untyped.open_batch("a.jpg")),
    "one video": ("for one source pass [source]", lambda: untyped.open_clips(Path("a.mp4"), 2)),
    "an open file": ("for one source pass [source]", lambda: untyped.open_batch(io.BytesIO())),
    "an array of paths": ("pass list(sources)", lambda: untyped.open_batch(np.array(["a.jpg"]))),
    "an iterator": ("pass list(sources)", lambda: untyped.open_batch(iter(["a.jpg"]))),
    "an image of Pillow": ("pass [np.asarray(image)]", lambda: untyped.open_batch([Image.new("RGB", (4, 4))])),
    "decoded images": ("of shape (8, 9, 3); decoded images need no opening", lambda: untyped.open_batch(list(IMAGES))),
    "pixels": ("pass them to gpuimg's functions", lambda: untyped.open_batch(IMAGES)),
    "paths of images": ("pass gpuimg.open_batch(paths) for files", lambda: untyped.invert(["a.jpg"])),
    "Pillow's images": ("pass np.asarray(image.convert('RGB'))", lambda: untyped.invert([Image.new("L", (4, 4))])),
    "a source by its path": ("open it with gpuimg.folder", lambda: untyped.load("train", batch_size=2)),
    "splits": ("pass one of its items: 'a', 'b'", lambda: untyped.load({"a": SOURCE, "b": SOURCE}, batch_size=2)),
    "paths without labels": ("pass gpuimg.file_list(paths)", lambda: first(["a.jpg", "b.jpg"])),
    "files without labels": ("pairs with the label None", lambda: first([b"", b""])),
    "a preset that was not called": ("gpuimg.presets.imagenet_train() returns one",
                                     lambda: untyped.load(SOURCE, gpuimg.presets.imagenet_train, batch_size=2)),
    "a model that was not called": ("gpuimg.models.clip() returns one",
                                    lambda: untyped.load(SOURCE, gpuimg.models.clip, batch_size=2)),
    "a model's name": ("size must be a whole number", lambda: untyped.models.clip("openai/clip")),
    "a configuration": ("config, where it is not a mapping", lambda: untyped.models.timm_eval("resnet50")),
    "masks of colors": ("must have one channel", lambda: untyped.transform_masks(X, [SOURCE[0][0]] * 2)),
    "boxes and an array": ("must be the Batch", lambda: untyped.transform_boxes(IMAGES, BOXES)),
    "a mean of bytes": ("divide by 255, not 123.7", lambda: untyped.normalize(IMAGES, 123.7, 58.4)),
    "sizes in a list": ("pass a NumPy array of shape (3, 2)",
                        lambda: untyped.resize(np.zeros((3, 8, 9, 3), np.uint8), [[4, 4]] * 3)),
    "a slice of clips": ("could mean", lambda: untyped.open_clips([made("h264")] * 3, 2, device="cpu")[:2]),
    "a list as an index": ("a number or a slice, not list; use take()", lambda: untyped.invert(IMAGES)[[0, 1]]),
    "a mask as an index": ("not ndarray; use take()", lambda: untyped.invert(IMAGES)[np.array([True, False])]),
    "a word for a color": ("value must be one of 'random'", lambda: untyped.random_erasing(X, value="x", rng=0)),
    "no such image": ("image 2 of a batch of 2", lambda: untyped.describe(X, 2)),
    "a keyword of CenterCrop": ("it is output_size here", lambda: untyped.center_crop(IMAGES, size=4)),
    "a keyword of MixUp": ("Mix.labels(labels, num_classes)", lambda: untyped.mixup(IMAGES, num_classes=4, rng=0)),
    "a video": ("gpuimg.open_clips and clips= of gpuimg.load read videos", lambda: untyped.open_batch([made("h264")])),
    "a URL alone": ("URLs are read by sources", lambda: untyped.decode_image("http://a/b.jpg")),
    "a URL's header": ("URLs are read by sources", lambda: untyped.image_info("http://a/b.jpg")),
    "a URL": ("No such file or directory; URLs are read by sources", lambda: untyped.open_batch(["http://a/b.jpg"])),
    "a URL in a list": ("directory; URLs are read by sources", lambda: first([("http://a/b.jpg", 0)] * 4)),
    "a folder": ("for the images of a folder pass sorted(pathlib.Path(", lambda: untyped.open_batch(HERE)),
    "a pattern": ("pass sorted(glob.glob('tests/*.jpg'))", lambda: untyped.open_batch("tests/*.jpg")),
    "a folder as a list": ("for the images of a folder pass sorted(pathlib.Path(", lambda: untyped.file_list(HERE)),
    "a pattern as a list": ("sorted(glob.glob('tests/*.jpg'))", lambda: untyped.file_list("tests/*.jpg")),
    "a folder without classes": ("without classes: for the images of a folder pass",
                                 lambda: untyped.folder(tempfile.mkdtemp())),
    "a range for each image": ("gpuimg.adjust_brightness(x, rng.uniform(low, high))",
                               lambda: untyped.color_jitter(X, np.ones(3), rng=0)),
    "ranges for each image": ("a range of each, draw the values",
                              lambda: untyped.random_rotation(X, (np.zeros(2), np.ones(2)), rng=0)),
    "a large crop": ("size=256 is cropped from resize_size=224", lambda: untyped.presets.imagenet_eval(256, 224)),
    "a model's crop": ("cropped from resize_size=9", lambda: untyped.models.dinov2(12, 9)),
    "integers": ("images[0].astype('float32')", lambda: untyped.invert([np.zeros((4, 4, 3), int)])),
    "gray": ("image[..., None]", lambda: untyped.invert(np.zeros((4, 5), np.uint8))),
    "gray and color": ("np.repeat(gray, 3, 2)", lambda: untyped.invert([IMAGES[0], IMAGES[0][..., :1]])),
    "a batch of paths": ("gpuimg.open_batch(paths)", lambda: untyped.Batch(["a.jpg"])),
    "arguments exchanged": ("the first argument is the source",
                            lambda: untyped.load(gpuimg.presets.imagenet_train(8), SOURCE, batch_size=2)),
    "two batches": ("return a dict of them", lambda: first(SOURCE, lambda x: (x, x))),
    "a cache that is on": ("a size such as \"24 GiB\"", lambda: untyped.load(SOURCE, batch_size=2, cache=True)),
    "a cache on disk": ("it is not a folder", lambda: untyped.load(SOURCE, batch_size=2, cache="folder")),
    "a keyword misspelled": ("did you mean batch_size=?", lambda: untyped.load(SOURCE, batchsize=2)),
    "a keyword in the singular": ("did you mean labels=?", lambda: untyped.file_list(["a"], label=[1])),
    "a table": ("cannot be read: KeyError: 0", lambda: first(Keyed())),
}  # fmt: skip


@pytest.mark.parametrize("name", ["shape", "numpy", "to", "astype", "permute", "target_sizes", "launches"])
def test_attributes_of_arrays_say_what_a_batch_has(name: str) -> None:
    assert not hasattr(X, name)
    with pytest.raises(AttributeError, match=rf"^'Batch' object has no attribute '{name}'; a batch \w"):
        getattr(X, name)
    with pytest.raises(AttributeError, match=r"^'Batch' object has no attribute 'sise'(\. Did you mean.*)?$"):
        X.sise  # type: ignore[attr-defined]  # noqa: B018


class Keyed:
    """A source whose samples have keys, as those of a pandas DataFrame."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, key: Any) -> Any:
        raise KeyError(key)


def first(source: Any, preprocess: Any = None) -> Any:
    with gpuimg.load(source, preprocess, batch_size=2, device="cpu") as loader:
        return next(iter(loader))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_message_says_what_to_write(mistake: str) -> None:
    text, call = MISTAKES[mistake]
    with pytest.raises((TypeError, ValueError, IndexError, OSError), match=re.escape(text)):
        call()


def test_float_images_with_values_of_bytes_are_named() -> None:
    for call in (
        lambda x: gpuimg.normalize(x, 0.5, 0.5), lambda x: gpuimg.adjust_brightness(x, 1.1),
        lambda x: gpuimg.random_invert(x, rng=0), lambda x: gpuimg.models.timm_eval(4, exact=None)(x[:, :4, :4]),
    ):  # fmt: skip
        with pytest.warns(RuntimeWarning, match="values from 0 to 1, and one has 200: divide them by 255") as found:
            call(np.full((2, 8, 9, 3), 200.0, np.float32))
        assert [one.filename for one in found] == [__file__]
        call(np.full((2, 8, 9, 3), -3.0, np.float32))


def test_modules_are_imported_when_they_are_named() -> None:
    needs("torch")
    code = "import gpuimg, sys; assert 'torch' not in sys.modules; gpuimg.torch.load"
    processes.python("-c", code)
    torch = library("torch")
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match=r"^device='cuda' does not work in this installation of torch: "):
            untyped.torch.load(SOURCE, batch_size=2, device="cuda")


def test_a_wrong_level_of_loops_is_one_line() -> None:
    for command in (["gpuimg"], ["gpuimg", "info"], ["_gpuimg_cli", "info"]):
        wrong = os.environ | {"GPUIMG_NATIVE": "v9"}
        done = subprocess.run([sys.executable, "-m", *command], env=wrong, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout) == (1, "")
        assert re.fullmatch("gpuimg: GPUIMG_NATIVE must be one of .*, not 'v9'\n", done.stderr)


@pytest.mark.parametrize("part", [slice(2, 5), slice(None, None, -2), slice(-3, None), slice(4, 2), slice(0, 100, 3)])
def test_slices_of_a_batch_are_batches(part: slice) -> None:
    images = [np.full((3 + k, 4, 1), k, np.uint8) for k in range(7)]
    taken = gpuimg.horizontal_flip(images)[part]
    assert isinstance(taken, gpuimg.Batch)
    assert ("operations recorded" in repr(taken)) == (len(taken) > 0)  # nothing has run
    assert [(image.shape, image.max()) for image in taken] == [(image.shape, image.max()) for image in images[part]]
