"""Options of encoders, and their validation."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from .._checks.arguments import flag, one_of, per_image
from .._checks.types import Ints
from .segments import beginning

FORMATS: Final = ("jpeg", "png", "webp", "avif")
SUBSAMPLINGS: Final = ("4:4:4", "4:2:2", "4:2:0")
RESTARTS: Final = ("none", "rows")
ENCODERS: Final = ("gpuimg", "nvimagecodec")
#: The longest side of a JPEG: libjpeg's limit.
LONGEST_SIDE: Final = 65500

_CHANNELS: Final = {"jpeg": (1, 3), "png": (1, 2, 3, 4), "webp": (1, 3, 4), "avif": (1, 3, 4)}
_EXIF = b"Exif\0\0"
_TIFF = b"II*\0", b"MM\0*"
# What each of these formats cannot do, by argument: the only value that it takes.
_WITHOUT: Final[dict[str, dict[str, Any]]] = {
    "png": {"subsampling": "4:2:0", "restart": "none"},
    "webp": {"subsampling": "4:2:0", "restart": "none", "optimize": False},
    "avif": {"restart": "none", "optimize": False},
}


class JpegOptions(NamedTuple):
    """How JPEGs are written."""

    quality: Ints  # (N,), 1 to 100
    subsampling: str
    optimize: bool
    restart: int  # MCU rows from one restart marker to the next; 0 for none
    heads: Sequence[bytes]  # (N,): what each file begins with, up to its quantization tables

    def part(self, rows: Sequence[int]) -> "JpegOptions":
        """Return the options of some images."""
        return self._replace(quality=self.quality[list(rows)], heads=[self.heads[i] for i in rows])


class FileOptions(NamedTuple):
    """How files are written."""

    format: str
    encoder: str
    jpeg: JpegOptions
    exif: Sequence[bytes | None]
    icc: Sequence[bytes | None]


def file_options(
    n: int, quality: Any, subsampling: Any, optimize: Any, restart: Any, exif: Any, icc: Any, format: Any, encoder: Any
) -> FileOptions:
    """Validate the options of a call for N images."""
    one_of(format, "format", FORMATS)
    one_of(subsampling, "subsampling", SUBSAMPLINGS)
    one_of(restart, "restart", RESTARTS)
    one_of(encoder, "encoder", ENCODERS)
    given = {"subsampling": subsampling, "restart": restart, "optimize": flag(optimize, "optimize")}
    qualities = per_image(quality, n, "quality", low=1, high=100, whole=True).astype("int64")
    for name, only in _WITHOUT.get(format, {}).items():
        if given[name] != only:
            raise ValueError(f"{name}={given[name]!r} is for JPEGs, and format is {format!r}")
    if encoder == "nvimagecodec" and (format != "jpeg" or restart != "none"):
        raise ValueError('encoder="nvimagecodec" writes JPEGs without restart markers: use encoder="gpuimg"')
    exifs, iccs = _each(exif, n, "exif"), _each(icc, n, "icc")
    exifs = [_checked_exif(one) for one in exifs] if any(exifs) else exifs
    made: dict[tuple[Any, Any], bytes] = {}
    heads = []
    for pair in zip(exifs, iccs, strict=True) if format == "jpeg" else ():
        if pair not in made:
            made[pair] = beginning(*pair)
        heads.append(made[pair])
    jpeg = JpegOptions(qualities, subsampling, given["optimize"], int(restart == "rows"), heads)
    return FileOptions(format, encoder, jpeg, exifs, iccs)


def _each(value: Any, n: int, name: str) -> list[bytes | None]:
    """Return bytes, or None, for each image."""
    if value is None or isinstance(value, (bytes, bytearray, memoryview)):
        return [None if value is None else bytes(value)] * n
    if not isinstance(value, (list, tuple)) or len(value) != n:
        given = f"{len(value)} items" if isinstance(value, (list, tuple)) else type(value).__name__
        raise ValueError(f"{name} must be bytes, or a list of {n}, bytes or None for each image, not {given}")
    for i, one in enumerate(value):
        if one is not None and not isinstance(one, (bytes, bytearray, memoryview)):
            raise TypeError(f"{name}[{i}] must be bytes or None, not {type(one).__name__}")
    return [one if one is None else bytes(one) for one in value]


def _checked_exif(data: bytes | None) -> bytes | None:
    """Return EXIF data with its prefix."""
    if not data:
        return None
    if data[:4] in _TIFF:
        return _EXIF + data
    if data[:6] != _EXIF or data[6:10] not in _TIFF:
        raise ValueError(
            "exif must be EXIF data, which begins with b'Exif\\0\\0', b'II*\\0' or b'MM\\0*', such as "
            f"Image.getexif().tobytes() of Pillow, not {data[:10]!r}"
        )
    return data


def check_images(form: str, dtype: str, channels: int, sizes: Ints, *, normalized: bool) -> None:
    """Refuse images that files of a format cannot have."""
    if normalized:
        raise ValueError("normalized images do not fit into a file, whose values are 0 to 255: encode them before")
    if dtype != "uint8":
        raise TypeError(f'files have values of uint8, not {dtype}: encode the result of .array(dtype="uint8")')
    allowed = _CHANNELS[form]
    if channels not in allowed:
        numbers = (" or " if len(allowed) == 2 else ", ").join(map(str, allowed))
        hint = ': open files with alpha="white", or take image[..., :3]' if channels == 4 else ""
        raise ValueError(f"images have {channels} channels, and {form.upper()} files have {numbers}{hint}")
    if form == "jpeg" and len(sizes) and sizes.max() > LONGEST_SIDE:
        i = int(sizes.max(1).argmax())
        raise ValueError(
            f"image {i} is {sizes[i, 0]} x {sizes[i, 1]}, and sides of JPEGs have at most {LONGEST_SIDE:,} pixels: "
            'resize it, or use format="png"'
        )
