"""The CUDA runtime: the CPU's results, and hand-off without a copy. On a fake GPU images are small."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._runtimes import self_test
from gpuimg._runtimes.devices import runtime_for
from gpuimg._runtimes.probe import gpu_problem
from tests.operations.calls import CALLS
from tests.properties import chains

from .. import samples
from ..compare import assert_same
from ..decoding import jpegs
from ..libraries import library, needs
from ..samples import file_of

if gpu_problem() is not None:  # on a fake GPU
    needs("numba_cuda")

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("any_gpu")]

IS_REAL = gpu_problem() is None


PHOTOS = (
    [path.read_bytes() for path in samples.PHOTOS]
    if IS_REAL
    else [file_of(Image.open(path).reduce(8), quality=97) for path in samples.PHOTOS[::4]]
)
SIZES = (40, 56), (31, 33), (1, 9), (64, 64)
_CHAIN_IMAGES = 6


def _on_gpu(images: list[np.ndarray]) -> list[Any]:
    import cupy

    return [cupy.asarray(image) for image in images]


def differences(results: Any, expected: Any) -> Any:
    """Return the absolute differences of all values; infinity where only one of the two is finite.

    In a run of bench.gpu images that differ are stored, to look for the cause without the GPU.
    """
    found = [np.zeros(0)]
    for k, (one, other) in enumerate(zip(results, expected, strict=True)):
        a, e = one.get().astype(np.float64), other.astype(np.float64)
        assert a.shape == e.shape
        with np.errstate(invalid="ignore"):
            alike = np.where(a == e, 0.0, np.inf)
            found.append(np.where(np.isfinite(a) & np.isfinite(e), np.abs(a - e), alike).ravel())
        if (folder := os.environ.get("GPU_DIFFERENCES")) and found[-1].max(initial=0) > 1e-4:
            name = os.environ["PYTEST_CURRENT_TEST"].partition("::")[2].partition(" ")[0]
            np.savez_compressed(Path(folder) / f"{name}-{k}", found=a, expected=e)
    return np.concatenate(found)


def test_files_are_the_cpus() -> None:
    for color in ("rgb", "gray"):
        some: dict[str, Any] = {"color": color, "decoder": "gpuimg"}
        one, other = (
            gi.horizontal_flip(gi.center_crop(gi.open_batch(PHOTOS[:3], device=device, **some), 24))
            for device in ("cuda:0", "cpu")
        )
        assert gi.encode_batch(one) == gi.encode_batch(other)
        for pixels, file in zip(one, gi.encode_batch(one, quality=95, encoder="nvimagecodec"), strict=True):
            found = jpegs.pillow_pixels(file, pixels.shape[2])
            assert np.abs(found.astype(np.float64) - pixels.get()).mean() < 4
        image = one[0]
        assert gi.encode_image(image, quality=75) == gi.encode_image(image.get(), quality=75)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("name", CALLS)
def test_float_results_are_the_cpus(name: str, dtype: str) -> None:
    rng, call = np.random.default_rng(), CALLS[name]
    pictures = samples.images(rng, dtype, int(rng.choice((1, 3))), 26 if IS_REAL else 5)
    each = call.each(rng, len(pictures), 255.0 if dtype == "uint8" else 1.0)
    actual, expected = (call.run(x, each).compute("float32") for x in (_on_gpu(pictures), pictures))
    assert actual.device == "cuda:0"
    # On a real one a float32 rounding on the edge of a level or a pixel may fall to either side.
    assert np.mean(differences(actual, expected) > 1e-4) <= (0.005 if IS_REAL else 0)


@pytest.mark.slow
@settings(max_examples=200 if IS_REAL else 12, suppress_health_check=list(HealthCheck))
@given(data=st.data(), dtype=st.sampled_from(["uint8", "float32"]), seed=st.integers(0, 2**32))
def test_random_chains_are_the_cpus(data: Any, dtype: str, seed: int) -> None:
    """But for a value here and there on the edge of a level or of a pixel."""
    steps = data.draw(chains.chains(_CHAIN_IMAGES, dtype))
    pictures = samples.images(np.random.default_rng(seed), dtype, 3, _CHAIN_IMAGES)

    def run(inputs: Any) -> Any:
        return chains.run(steps, inputs, gi.Rng(seed, indices=range(_CHAIN_IMAGES))).compute("float32")

    try:
        expected = run(pictures)
    except (ValueError, TypeError):  # an image is too small for a step
        return
    assert np.mean(differences(run(_on_gpu(pictures)), expected) > 1e-4) <= 0.005


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("rule", ["pillow", "pillow12", "torch"])
def test_exact_resizes_are_the_cpus_to_the_last_bit(rule: Any, channels: int) -> None:
    """Both orders of the passes, crops before and after, chains, and what float32 segments precede and follow."""
    rng = np.random.default_rng()
    shapes = [(31, 9), (9, 31), (16, 16), (1, 40), (40, 1), (13, 12)]
    images = [rng.integers(0, 256, (*shape, channels), np.uint8) for shape in shapes]
    sizes = rng.integers(1, 24, (len(images), 2))
    filters = ("bilinear", "bicubic", "lanczos") if rule == "torch" else ("bicubic", "box", "hamming")

    def chains(x: Any) -> Iterator[Any]:
        one = gi.resize(x, sizes, filters[0], exact=rule)
        yield one.compute()
        yield gi.horizontal_flip(
            gi.resize(gi.crop(one, 0, 0, 1, sizes[:, 1]), (7, 9), filters[1], exact=rule)
        ).compute()
        # By a third of a pixel along both axes: ninths of a level, which lie far from where rounding decides.
        shifted = gi.affine(x, 0, (1 / 3, 1 / 3), 1.0, 0, "bilinear")
        cut = gi.center_crop(gi.resize(shifted, (20, 18), filters[2], exact=rule), (11, 7))
        yield gi.pad(cut, 2, fill=99).compute()
        yield cut.array("uint8", "NCHW")
        if channels != 4:
            yield gi.equalize(cut).array("uint8")

    for found, expected in zip(chains(_on_gpu(images)), chains(images), strict=True):
        assert_same([image.get() for image in found], expected)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16"])
@pytest.mark.parametrize("order", ["NHWC", "NCHW"])
def test_other_dtypes_and_layouts(dtype: str, order: str) -> None:
    import cupy

    images = samples.pictures(SIZES)
    for function in (lambda x: gi.rotate(x, [10, -40, 90, 180], "bilinear"), gi.autocontrast, gi.rgb_to_grayscale):
        x, y = (gi.resize(function(one), (20, 22)) for one in (images, _on_gpu(images)))
        expected = x.array(dtype, order)
        actual = cupy.asnumpy(y.array(dtype, order))
        assert actual.dtype == expected.dtype
        tolerance = {"uint8": 1, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
        difference = np.abs(actual.astype(np.float32) - expected.astype(np.float32))
        assert difference.max() <= tolerance
        assert np.mean(difference > 0) <= 0.01


def test_the_self_test() -> None:
    assert self_test.differing(runtime_for("cuda")) == ([], [])


@pytest.mark.parametrize(("decoder", "most"), [("nvimagecodec", 3), ("gpuimg", 0)])
def test_photos_decode_as_on_the_cpu(decoder: Any, most: int) -> None:
    """Again and again in other batches, since nvImageCodec has been seen to leave images out; and crops."""
    assert PHOTOS
    random = np.random.default_rng()
    for _ in range(50 if IS_REAL else 1):
        files = random.permutation([*PHOTOS, *map(gi.recode_jpeg, PHOTOS)]).tolist()
        cpu = gi.open_batch(files, device="cpu")
        gpu = gi.open_batch(files, device="cuda", decoder=decoder)
        assert gpu.sizes.tolist() == cpu.sizes.tolist()
        top, left = random.integers(cpu.sizes // 2).T
        for found, expected in ((gpu, cpu), (gi.crop(gpu, top, left, 9, 13), gi.crop(cpu, top, left, 9, 13))):
            for a, e in zip(found.compute("uint8"), expected.compute("uint8"), strict=True):
                difference = np.abs(a.get().astype(int) - e.astype(int))
                assert np.mean(difference <= most) >= (0.99 if most else 1)


def test_photos_have_the_cpus_pixels() -> None:
    """Decoded by our own kernels, bit for bit: whole, and what a crop needs, in color and gray, turned."""
    height, width = (75, 130) if IS_REAL else (35, 40)
    files = [*PHOTOS, *(jpegs.encoded(jpegs.noise(height, width, k), name) for k, name in enumerate(jpegs.SAMPLINGS))]
    files += [jpegs.encoded(jpegs.noise(height, width, 9), restart_marker_blocks=k) for k in (1, 5)]
    for color in ("rgb", "gray"):
        expected = gi.decode_batch(files, device="cpu", color=color)
        x = gi.open_batch(files, device="cuda", color=color, decoder="gpuimg")
        assert_same([image.get() for image in x.compute()], expected)
        one, other = (
            gi.crop(
                gi.open_batch(files, device=device, color=color, decoder="gpuimg"), 13, 21, height - 25, width - 30
            ).compute("uint8")
            for device in ("cuda", "cpu")
        )
        assert_same([image.get() for image in one], other)


def test_files_that_the_cpu_decodes_have_its_pixels() -> None:
    """Between others, in batches of them alone, and turned."""
    (image,), exif = samples.pictures(SIZES[:1]), samples.with_orientation(6)
    others = [file_of(image, kind, exif=exif) for kind in ("PNG", "WEBP", "TIFF")]
    photo = PHOTOS[0]
    for files in (others, [photo, *others, photo], [others[0], photo, others[1], photo, others[2]]):
        expected = gi.decode_batch(files, device="cpu")
        for data, a, e in zip(files, gi.decode_batch(files, device="cuda"), expected, strict=True):
            assert a.shape == e.shape
            if data is not photo:
                np.testing.assert_array_equal(a.get(), e)


def busy(stream: Any) -> None:
    import cupy

    with stream:
        values = cupy.ones((1500, 1500) if IS_REAL else 15, cupy.float32)
        for _ in range(200):
            values *= np.float32(0.5)


@pytest.mark.parametrize("name", ["h264", "hevc", "hevc 10 bits", "vp9"])
def test_clips_are_decoded_by_nvdec(name: str) -> None:
    """To the CPU's pixels, but for sums on the border of two levels; also where FFmpeg's stream is late."""
    needs("av")
    import cupy

    from tests.video.videos import BUILDS, make

    height, width = (270, 482) if IS_REAL else (64, 96)  # NVDEC takes no small ones
    noise = np.random.default_rng().integers(0, 256, (34, 80), np.uint8).repeat(8, 0).repeat(8, 1)
    data = make(BUILDS[name], lambda k: noise[:height, 2 * k : 2 * k + width], 40)
    for start in (0, 11, 30):
        expected, x = (gi.open_clips([data], 4, 2, start=[start], device=device) for device in ("cpu", "cuda:0"))
        busy(cupy.cuda.Stream.null)
        difference = np.abs(x.array().get().astype(np.int16) - expected.array())
        assert recording_of(x).timings.clips_on_cpu == 0
        assert difference.max() <= 1
        assert np.mean(difference > 0) <= 0.01


@pytest.mark.parametrize("decoder", ["nvimagecodec", "gpuimg"])
def test_a_batch_is_decoded_while_the_one_before_is_not_read_yet(decoder: Any) -> None:
    import cupy

    half = len(PHOTOS) // 2
    batches = PHOTOS[:half], PHOTOS[half:]
    expected = [gi.resize(gi.open_batch(batch, device="cpu"), (16, 16)).array("float32") for batch in batches]
    for _ in range(50 if IS_REAL else 1):
        found = []
        for batch in batches:
            busy(cupy.cuda.get_current_stream())  # which kernels wait for, and the hardware's decoder does not
            x = gi.open_batch(batch, device="cuda", decoder=decoder)
            found.append(gi.resize(x, (16, 16)).array("float32"))
        for a, e in zip(found, expected, strict=True):
            assert np.abs(a.get() - e).mean() <= 0.02


def test_main_job_is_repeatable() -> None:
    def run() -> Any:
        side = 150 if IS_REAL else 20
        x = gi.resized_crop(gi.open_batch(PHOTOS, device="cuda"), 10, 10, side, side, (64, 64))
        x = gi.normalize(gi.rotate(x, 12.0), gi.IMAGENET_MEAN, gi.IMAGENET_STD)
        return x.array("float16", "NCHW").get()

    first = run()
    for _ in range(5 if IS_REAL else 1):
        np.testing.assert_array_equal(run(), first)


def test_bad_images_do_not_hurt_the_others() -> None:
    good = PHOTOS[0]
    batch = gi.open_batch([good, b"", good[:-400], good], device="cuda", on_error="fill")
    images = gi.resize(batch, (32, 32)).array().get()
    np.testing.assert_array_equal(images[0], images[3])
    assert not images[1:3].any()
    with pytest.raises(gi.DecodeError) as caught:
        gi.decode_batch([good, good[:-400], good[: len(good) // 2]], device="cuda")
    assert [f.index for f in caught.value.failures] == [1, 2]


def test_out_and_in_place_arrays() -> None:
    import cupy

    images = cupy.asarray(np.random.default_rng().integers(0, 256, (4, 20, 30, 3), np.uint8))
    out = cupy.zeros((4, 3, 10, 10), cupy.float32)
    result = gi.resize(images, (10, 10)).array(layout="NCHW", dtype="float32", out=out)
    assert result is out
    np.testing.assert_allclose(out.get(), gi.resize(images.get(), (10, 10)).array("float32", "NCHW"), rtol=0, atol=1e-4)
    with pytest.raises(ValueError, match="out must be an array on cuda:0"):
        gi.resize(images, (10, 10)).array(out=np.zeros((4, 10, 10, 3), np.uint8))


def test_devices_are_not_mixed() -> None:
    image = np.zeros((4, 4, 3), np.uint8)
    with pytest.raises(ValueError, match=r"cpu.*cuda:0"):
        gi.invert([image, _on_gpu([image])[0]])


def test_torch_shares_the_memory() -> None:
    torch = library("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    x = gi.resize(gi.open_batch(PHOTOS, device="cuda"), (32, 32))
    for dtype in ("uint8", "float16", "bfloat16", "float32"):
        tensor = gi.to_torch(x, dtype=dtype)
        assert tensor.is_cuda
        assert tensor.dtype == getattr(torch, dtype)
        assert tensor.data_ptr() == x.array(dtype, "NCHW").data.ptr


def test_jax_shares_the_memory() -> None:
    jax = library("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this jax has no GPU backend")
    x = gi.resize(gi.open_batch(PHOTOS, device="cuda"), (32, 32))
    assert gi.to_jax(x).unsafe_buffer_pointer() == x.array().data.ptr


def test_cuda_array_interface() -> None:
    x = gi.resize(gi.open_batch(PHOTOS, device="cuda"), (32, 32))
    interface = x.__cuda_array_interface__
    assert interface["version"] == 3
    assert interface["data"][0] == x.array().data.ptr
    with pytest.raises(TypeError, match="silently"):
        np.asarray(x)


def test_results_are_ordered_with_the_callers_stream() -> None:
    """Work queued on the caller's stream before and after needs no synchronisation by hand."""
    import cupy

    side = 256 if IS_REAL else 8
    for _ in range(20 if IS_REAL else 3):
        with cupy.cuda.Stream(non_blocking=True):
            images = cupy.zeros((8, side, side, 3), cupy.uint8)
            for _ in range(30):
                images += 5
            result = gi.invert(images).array() + 1
            assert (result.get() == 256 - 150).all()
