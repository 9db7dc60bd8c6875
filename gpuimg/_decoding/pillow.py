"""Pillow: the decoder of every file except baseline and progressive JPEGs, and most PNGs.

What it would not decode right, by the readers of headers, is made of bytes that it unpacks, or left to nvImageCodec.
Each format has its plugin, chosen by the first bytes of the file; ``PIL.Image.open`` would try all available ones,
and warn of sizes that ``max_pixels`` allows. Plugins receive only the parts of a file that affect its pixels, so that
nothing else in it costs time or memory, or makes Pillow warn. libtiff may print a line to stderr for a damaged TIFF
file, in addition to the ValueError; Pillow cannot prevent it.
"""

import importlib
import io
import math
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._version import install_hint
from . import nvimgcodec
from .box_parts import avif_picture
from .chunked_parts import gif_contents, png_contents, webp_contents
from .decoder import Parts, RefusedError, check_size
from .decoder import PillowHeader as PillowHeader
from .jpeg2k_parts import jpeg2k_contents
from .jpeg_parts import jpeg_contents
from .jxl_parts import CODESTREAM, CONTAINER, jxl_contents
from .options import DecodeOptions
from .pixels import BACKGROUNDS, GRAY_MODES, WHITE, Pixels, in_mode, laid_out, pixels_of, with_key
from .plain_parts import (
    RLE,
    bmp_contents,
    bmp_pixels,
    bmp_with_runs,
    pnm_contents,
    pnm_pixels,
    pnm_values,
    with_palette,
)
from .recoded import is_recoded, jpeg_header, stored_jpeg
from .tiff_parts import (
    Stored,
    pixels_of_rows,
    tiff_contents,
    tiff_page_count,
    tiff_pages,
    tiff_profile,
    tiff_resolution,
)

NAMES = {
    "jpeg": "JPEG", "png": "PNG", "gif": "GIF", "webp": "WebP", "tiff": "TIFF", "bmp": "BMP", "pnm": "PNM",
    "jpeg2k": "JPEG 2000", "avif": "AVIF", "heic": "HEIC", "jxl": "JPEG XL",
}  # fmt: skip
_MAGIC = (
    (b"\xff\xd8", "jpeg"), (b"\x89PNG\r\n\x1a\n", "png"), (b"GIF87a", "gif"), (b"GIF89a", "gif"),
    (b"II*\0", "tiff"), (b"MM\0*", "tiff"), (b"II+\0", "tiff"), (b"MM\0+", "tiff"), (b"BM", "bmp"),
    (b"\xff\x4f\xff\x51", "jpeg2k"), (b"\0\0\0\x0cjP  \r\n\x87\n", "jpeg2k"),
    (CODESTREAM, "jxl"), (CONTAINER, "jxl"),
)  # fmt: skip
_PNM = re.compile(rb"P[1-6][\s#]")
_AVIF_BRANDS = {b"avif", b"avis"}
_HEIC_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"}
_REFUSED = {b"GIF8": "GIF", b"\0\0\1\0": "ICO", b"8BPS": "PSD", b"%PDF": "PDF"}
_CONTENTS: dict[str, Callable[[bytes], PillowHeader]] = {
    "jpeg": jpeg_contents, "png": png_contents, "gif": gif_contents, "webp": webp_contents, "tiff": tiff_contents,
    "pnm": pnm_contents, "jpeg2k": jpeg2k_contents, "bmp": bmp_contents, "jxl": jxl_contents,
}  # fmt: skip
_PLUGINS = {  # PIL.JpegImagePlugin.JpegImageFile, and so on
    "jpeg": "JpegImage", "png": "PngImage", "gif": "GifImage", "webp": "WebPImage", "tiff": "TiffImage",
    "pnm": "PpmImage", "jpeg2k": "Jpeg2KImage", "bmp": "BmpImage",
}  # fmt: skip
#: Formats of animations: Pillow decodes a picture on top of those before it.
ANIMATED = ("gif", "webp", "png")
_MOST_SOUGHT = 1 << 31  # pixels of an animation up to the picture that is decoded
_MOST = 0xFFFF  # of 16 bits
_BYTE = 8  # bits
_DEEP_GRAY = {(1, depth) for depth in range(10, 17)}  # channels and bits of the JPEG 2000 files that Pillow keeps
_FULL = 8  # full scale, in eighths


def read_header(data: Any, max_pixels: int, page: int = 0) -> PillowHeader:
    """Read the header of file bytes; no memory is allocated for pixels. Raise ValueError if it cannot be decoded.

    ``page`` is a picture of an animation, or of a TIFF file.
    """
    data = data if isinstance(data, bytes) else bytes(data)
    recoded = is_recoded(data)
    data = jpeg_header(data) if recoded else data  # its JPEG is restored when it is decoded
    codec = _codec(data)
    with _reasons(codec):
        found = _contents(data, codec, page)
        check_size(found.height, found.width, max_pixels)
    return found._replace(codec=codec, parts=() if recoded else found.parts, page=page)


def decode(data: Any, header: PillowHeader, options: DecodeOptions, scale: int = _FULL) -> Pixels:
    """Decode file bytes to (H, W, C) uint8, as stored; raise ValueError with the reason if that fails.

    Gray of a color JPEG is its luma plane; of other files, and after a conversion to sRGB, it is that of
    ``rgb_to_grayscale``. ``scale`` of a JPEG is 8, 4, 2 or 1 eighths of its size, sides rounded up; both must be at
    least ``8 / scale``. The result is C-contiguous and may be read-only. 16-bit values are reduced to their upper byte.
    """
    data = _file_bytes(data)
    with _reasons(header.codec):
        profile = _profile(data, header) if options.icc == "srgb" else None
        keep_alpha = options.has_alpha or options.alpha != "drop"
        opened = _opened(data, header, 3 if profile else options.channels, scale, keep_alpha=keep_alpha)
        return _as_asked(*opened, profile, header, options, scale)


def decode_pages(data: Any, options: DecodeOptions) -> Iterator[tuple[PillowHeader, Pixels | None]]:
    """Yield the headers of all pictures of file bytes, with the pixels of an animation's but the first one.

    They are as :func:`decode` returns them; but each is decoded once, on top of those before it.
    """
    data = _file_bytes(data)
    first, count = read_header(data, options.max_pixels), page_count(data)
    check_size(first.height * count, first.width, options.max_pixels)
    if first.codec == "tiff":
        with _reasons("tiff"):
            for page, found in enumerate(tiff_pages(data)):
                check_size(found.height, found.width, options.max_pixels)
                yield found._replace(codec="tiff", page=page), None
        return
    yield first, None
    if count == 1:
        return
    _check_animated(first.codec)
    with _reasons(first.codec):
        header = _picture(data, first, count - 1, count)
        profile = _profile(data, first) if options.icc == "srgb" else None
        image = _with_plugin(first.codec, io.BytesIO(data))
        for page in range(1, count):
            image.seek(page)
            image.load()
            yield header._replace(page=page), _as_asked(image, 16, profile, header, options, _FULL)


def _as_asked(
    image: Any, bits: int, profile: bytes | None, header: PillowHeader, options: DecodeOptions, scale: int
) -> Pixels:
    """Return the pixels of an image, or of pixels with these bits used of 16, in the form that options ask for."""
    if isinstance(image, np.ndarray) and image.dtype != np.uint8:
        image = (image >> (bits - 8)).astype(np.uint8)
    if profile:
        image = _in_srgb(image, bits, profile)
    size = image.shape[:2] if isinstance(image, np.ndarray) else image.size[::-1]
    expected = tuple(-(-side * scale // _FULL) for side in (header.height, header.width))
    if size != expected:
        raise ValueError(
            f"its header gives {expected[0]} x {expected[1]} pixels, but {size[0]} x {size[1]} are decoded"
        )
    return laid_out(image, size, options.channels, bits, BACKGROUNDS.get(options.alpha))


def decode16(data: Any, header: PillowHeader) -> NDArray[np.uint16]:
    """Decode a 16-bit file, except PNG, to (H, W, C) uint16, as stored; raise as :func:`decode` does."""
    data = _file_bytes(data)
    with _reasons(header.codec):
        if header.codec == "pnm":
            values, white = pnm_values(_with_parts(data, header)) or (None, 1)
            if values is None or white != _MOST:
                raise RefusedError(
                    f'a largest value of {white} is not supported with depth="native", only 255 and {_MOST}'
                )
            return values.astype(np.uint16)
        if header.codec == "tiff" and header.layout is None:
            raise RefusedError('16-bit CMYK is not supported with depth="native"')
        if header.codec == "png" and header.channels > 1:
            return _by_nvimgcodec(data, header)
        image, _ = _opened(data, header, 1 if header.channels == 1 else 3, _FULL, keep_alpha=True)
        pixels: NDArray[np.uint16] = np.asarray(image).astype(np.uint16, copy=False)
        return pixels if pixels.ndim == 3 else pixels[..., None]


def decode_labels(data: Any, max_pixels: int) -> NDArray[Any]:
    """Decode a file of one channel to (H, W), as stored: indices, if it has a palette; raise as :func:`decode` does."""
    header = read_header(data, max_pixels)
    with _reasons(header.codec):
        data = _file_bytes(data)
        contents = _with_parts(data, header)
        if header.codec == "pnm" and (stored := pnm_values(contents)):
            labels = stored[0].astype(stored[0].dtype.newbyteorder("="))
        elif header.codec == "bmp" and contents.layout.bits <= _BYTE:
            labels = _bmp_indices(data, contents)
        elif header.codec == "tiff" and contents.layout is not None:
            labels = _tiff_pixels(data, contents, is_scaled=False)
        else:
            labels = np.asarray(_opened(data, contents, 3, _FULL, keep_alpha=False)[0])
        if header.depth == 1 and header.channels == 1:
            labels = labels.astype(np.bool_)
        elif header.codec == "jpeg2k" and labels.dtype == np.uint16:
            labels = labels >> (16 - header.depth)  # Pillow scales them to 16 bits
        elif header.codec == "png" and header.depth in (2, 4) and header.channels == 1:
            labels = labels // (WHITE // ((1 << header.depth) - 1))
        if labels.size != header.height * header.width:
            raise RefusedError("a file of labels must have one channel")
        return labels.reshape(header.height, header.width)


# -- formats -----------------------------------------------------------------------------------------------------------


def _file_bytes(data: Any) -> bytes:
    """Return the bytes of a file; those of the JPEG that a recoded one stores."""
    data = data if isinstance(data, bytes) else bytes(data)
    return stored_jpeg(data) if is_recoded(data) else data


def _codec(data: bytes) -> str:
    for magic, codec in _MAGIC:
        if data.startswith(magic):
            return codec
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    if _PNM.match(data):
        return "pnm"
    if data[4:8] == b"ftyp":
        return _media_codec(data)
    if not data:
        raise ValueError("empty: 0 bytes")
    for magic, name in _REFUSED.items():
        if data.startswith(magic):
            raise ValueError(f"{name} is not supported")
    raise ValueError(f"not an image file (starts with {data[:12]!r})")


def _media_codec(data: bytes) -> str:
    """Return AVIF or HEIC, by the brands in the file type box."""
    size = min(int.from_bytes(data[:4], "big"), len(data), 1 << 10)
    brands = {data[at : at + 4] for at in (8, *range(16, size - 3, 4))}
    if brands & _AVIF_BRANDS:
        return "avif"
    if brands & _HEIC_BRANDS:
        return "heic"
    raise ValueError(
        f"{data[8:12]!r} files are not supported, only AVIF and HEIC; gpuimg.open_clips and clips= of gpuimg.load read "
        "videos"
    )


def _contents(data: bytes, codec: str, page: int = 0) -> PillowHeader:
    if page and codec == "tiff":
        return tiff_contents(data, page)._replace(is_common=False)
    if page:
        return _animated(data, codec, page)
    if codec in _CONTENTS:
        try:
            return _CONTENTS[codec](data)
        except (struct.error, IndexError):
            raise ValueError("the header is truncated") from None
    if codec == "avif":
        (width, height), _, mode, _, _, orientation, _ = _avif_decoder(data).get_info()
        crop, depth = avif_picture(data, height, width)
        y0, x0, y1, x1 = crop or (0, 0, height, width)
        return PillowHeader(y1 - y0, x1 - x0, len(mode), [data], orientation, depth=depth, layout=crop)
    image = _heic(data)
    width, height = image.size
    return PillowHeader(height, width, len(image.getbands()), [data], depth=image.info.get("bit_depth") or _BYTE)


def _with_parts(data: bytes, header: PillowHeader) -> PillowHeader:
    """Return a header with the parts of its file, which one that is kept does not have."""
    return header if header.parts else _contents(data, header.codec, header.page)._replace(codec=header.codec)


def page_count(data: Any) -> int:
    """Return the number of pictures of file bytes: of an animation, or pages of a TIFF file; 1 for other formats."""
    data = _file_bytes(data)
    codec = _codec(data)
    with _reasons(codec):
        if codec == "tiff":
            return tiff_page_count(data)
        if codec == "avif":
            return int(_avif_decoder(data).get_info()[1])
        return int(getattr(_with_plugin(codec, io.BytesIO(data)), "n_frames", 1)) if codec in ANIMATED else 1


def details(data: Any, header: PillowHeader | None) -> tuple[int, bool, tuple[float, float] | None]:
    """Return the number of pictures of file bytes, whether they have an ICC profile, and their pixels per inch.

    ``header`` is that of a file other than an ordinary JPEG.
    """
    data = data if isinstance(data, bytes) else bytes(data)
    data = jpeg_header(data) if is_recoded(data) else data
    codec = header.codec if header else "jpeg"
    pages, has_icc, dpi = 1, False, None
    with suppress(Exception):  # what is damaged there does not affect the pixels
        if codec == "tiff":
            pages = tiff_page_count(data)
            has_icc = tiff_profile(data) is not None
            dpi = tiff_resolution(data)
        elif codec in _PLUGINS:
            image = _with_plugin(codec, io.BytesIO(data))
            pages, has_icc = int(getattr(image, "n_frames", 1)), bool(image.info.get("icc_profile"))
            dpi = image.info.get("dpi")
        elif header:
            pages = page_count(data)
            has_icc = _profile(data, header) is not None
    if dpi is None or min(dpi) <= 0:
        return pages, has_icc, None
    return pages, has_icc, (float(dpi[0]), float(dpi[1]))


def _animated(data: bytes, codec: str, page: int) -> PillowHeader:
    """Return the header of a picture of an animation."""
    _check_animated(codec)
    return _picture(data, _contents(data, codec), page, page_count(data))


def _check_animated(codec: str) -> None:
    if codec not in ANIMATED:
        raise RefusedError(f"pages of {NAMES[codec]} files are not supported, only of GIF, WebP, APNG and TIFF files")


def _picture(data: bytes, first: PillowHeader, page: int, count: int) -> PillowHeader:
    """Return the header of a picture of an animation of ``count``, which has the size of the first one."""
    if page >= count:
        raise ValueError(f"it has no page {page}, but {count}, of which the first is 0")
    if (page + 1) * first.height * first.width > _MOST_SOUGHT:
        raise RefusedError(f"page {page} is decoded after those before it, which is too much")
    if first.depth > _BYTE or first.orientation != 1:
        raise RefusedError("animations of 16 bits, or with an orientation, are not supported")
    return first._replace(parts=[data], channels=4)


def _opened(data: bytes, header: PillowHeader, channels: int, scale: int, *, keep_alpha: bool) -> tuple[Any, int]:
    """Return the plugin's image, loaded, or pixels if it needs no plugin; and the bits used of 16."""
    if header.page and header.codec in ANIMATED:
        image = _with_plugin(header.codec, io.BytesIO(data))
        image.seek(header.page)
        image.load()
        return image, 16
    if header.codec == "avif":
        return _avif(data, header), 16
    if header.codec == "jpeg2k" and header.depth > _BYTE and (header.channels, header.depth) not in _DEEP_GRAY:
        return _by_nvimgcodec(data, header), header.depth
    if header.codec == "heic":
        image = _heic(data)
        image.load()
        return image, 16
    if header.codec == "jxl":
        return _jxl(data)[0], 16
    contents = _with_parts(data, header)
    if header.codec == "bmp" and contents.layout.bits <= _BYTE:
        return with_palette(contents.layout.palette, _bmp_indices(data, contents)), 16
    if header.codec == "bmp":
        return bmp_pixels(data, contents), 16
    if header.codec == "pnm" and (stored := pnm_values(contents)):
        return pnm_pixels(*stored), 16
    if header.codec == "tiff" and contents.layout is not None:
        return _tiff_pixels(data, contents), contents.bits
    if header.codec == "tiff":
        return _loaded_tiff(_joined(contents.parts), data), contents.bits
    image = _with_plugin(header.codec, _joined(contents.parts))
    if header.codec == "jpeg" and (channels == 1 or scale != _FULL):
        image.draft("L" if channels == 1 else None, [side * scale // _FULL for side in image.size])
    if not keep_alpha:
        image.info.pop("transparency", None)  # Pillow would warn of it
    image.load()
    if header.codec == "gif" and contents.layout is not None:
        return _on_screen(image, contents), 16
    if header.codec == "png" and image.mode != "P" and "transparency" in image.info and contents.layout:
        return _with_png_key(image, contents), 16
    return image, contents.bits


def _loaded_tiff(file: io.BytesIO, data: bytes) -> Any:
    """Return the image of a reduced file; uncompressed strips are not in it, and are read from the original."""
    image, source = _with_plugin("tiff", file), io.BytesIO(data)
    image.load_seek, image.load_read = source.seek, source.read
    image.load()
    return image


def _tiff_pixels(data: bytes, contents: PillowHeader, *, is_scaled: bool = True) -> NDArray[Any]:
    """Return the pixels (H, W, C) of a file that libtiff unpacks at most; see :func:`pixels_of_rows`."""
    layout = contents.layout
    if isinstance(layout, Stored):
        return np.frombuffer(data, np.uint8, math.prod(layout.shape), layout.offset).reshape(layout.shape)
    planes = [np.asarray(_loaded_tiff(io.BytesIO(plane), data)) for plane in contents.parts]
    return pixels_of_rows(layout, planes, is_scaled=is_scaled)


def _bmp_indices(data: bytes, contents: PillowHeader) -> Pixels:
    """Return the indices (H, W) into the palette of a BMP file."""
    if contents.layout.packing in RLE:
        return np.asarray(_with_plugin("bmp", io.BytesIO(bmp_with_runs(data, contents))))
    return bmp_pixels(data, contents)


def _joined(parts: Parts) -> io.BytesIO:
    first, *others = parts
    file = io.BytesIO(first)  # a whole file is not copied
    file.seek(0, io.SEEK_END)
    for part in others:
        file.write(part)
    file.seek(0)
    return file


def _with_plugin(codec: str, file: io.BytesIO) -> Any:
    module = importlib.import_module(f"PIL.{_PLUGINS[codec]}Plugin")
    plugin = _tiff_plugin() if codec == "tiff" else getattr(module, f"{_PLUGINS[codec]}File")
    return plugin(file)


@cache
def _tiff_plugin() -> Any:
    from PIL import ImageFile, TiffImagePlugin

    class Tiff(TiffImagePlugin.TiffImageFile):  # type: ignore[misc]  # PIL is not typed here
        # The plugin's methods warn of large images, and apply orientations that the reduced file does not have.
        load_prepare = ImageFile.ImageFile.load_prepare
        load_end = ImageFile.ImageFile.load_end

    return Tiff


def _heic(data: bytes) -> Any:
    try:
        from pillow_heif import HeifImageFile
    except ImportError:
        raise RefusedError(f"HEIC needs pillow-heif, which is not installed; {install_hint('heic')}") from None
    return HeifImageFile(io.BytesIO(data))


def _jxl(data: bytes) -> tuple[Any, bytes | None]:
    """Return a Pillow image and its profile; of a JPEG that was recoded losslessly, the JPEG's."""
    try:
        from pillow_jxl import Decoder
    except ImportError:
        raise RefusedError(f"JPEG XL needs pillow-jxl-plugin, which is not installed; {install_hint('jxl')}") from None
    from PIL import Image

    is_jpeg, header, decoded, profile, _ = Decoder(num_threads=1)(data)
    if is_jpeg:
        image = _with_plugin("jpeg", io.BytesIO(decoded))
        image.load()
        return image, image.info.get("icc_profile")
    return Image.frombytes(header.mode, (header.width, header.height), decoded), profile


def _avif_decoder(data: bytes) -> Any:
    from PIL import AvifImagePlugin

    if not AvifImagePlugin.SUPPORTED:
        raise RefusedError("AVIF is not supported by this build of Pillow")
    # The plugin would start one thread per core, in each of our threads.
    return AvifImagePlugin._avif.AvifDecoder(data, "auto", 1)


def _avif(data: bytes, header: PillowHeader) -> Pixels:
    decoder = _avif_decoder(data)
    (width, height), _, mode, *_ = decoder.get_info()
    pixels = np.frombuffer(decoder.get_frame(0)[0], np.uint8).reshape(height, width, len(mode))
    y0, x0, y1, x1 = header.layout or (0, 0, height, width)
    return pixels[y0:y1, x0:x1]


def _by_nvimgcodec(data: bytes, header: PillowHeader) -> NDArray[np.uint16]:
    """Return colors of more than 8 bits, which Pillow reduces to 8, and wrongly those of JPEG 2000."""
    if header.codec == "jpeg2k":  # whose header may be mended
        data = b"".join(_with_parts(data, header).parts)
    try:
        found = nvimgcodec.decode_deep(data, (header.height, header.width, header.channels))
    except ImportError as error:
        kind = " of damaged and interlaced PNG files" if header.codec == "png" else " of JPEG 2000"
        raise RefusedError(f"{header.depth}-bit color{kind} needs nvImageCodec: {error}") from None
    if found is None:
        raise ValueError("nvImageCodec does not decode it")
    return found


def _on_screen(image: Any, header: PillowHeader) -> Pixels:
    """Return a GIF image with the part of its screen that it does not cover, which is transparent."""
    left, top, width, height, background = header.layout
    pixels = np.empty((header.height, header.width, 4), np.uint8)
    pixels[:] = (*background, 0)
    pixels[top : top + height, left : left + width] = pixels_of(in_mode("RGBA", image))
    return pixels


def _with_png_key(image: Any, header: PillowHeader) -> NDArray[Any]:
    """Return the pixels of an image with a transparent color, which Pillow compares with values that it has scaled."""
    if image.mode == "RGB" and header.depth > _BYTE:
        raise RefusedError("a transparent color of a 16-bit RGB file that is interlaced or irregular is not supported")
    values = np.asarray(image.convert("L") if image.mode == "1" else image)
    values = values if values.ndim == 3 else values[..., None]
    return with_key(values, header.layout, header.depth)


# -- color profiles ----------------------------------------------------------------------------------------------------


def _profile(data: bytes, header: PillowHeader) -> bytes | None:
    """Return a file's ICC profile; None if the file or its format has none."""
    codec = header.codec
    if codec == "avif":
        profile = _avif_decoder(data).get_info()[3]
    elif codec == "heic":
        profile = _heic(data).info.get("icc_profile")
    elif codec == "jxl":
        profile = _jxl(data)[1]
    elif codec == "tiff":
        profile = tiff_profile(data, header.page)
    elif codec in _PLUGINS and codec != "bmp":
        profile = _with_plugin(codec, io.BytesIO(data)).info.get("icc_profile")
    else:
        profile = None
    return profile or None


def _in_srgb(image: Any, bits: int, profile: bytes) -> Any:
    """Convert the colors of an image, or of pixels, to sRGB; ignore a profile for another color space."""
    from PIL import Image, ImageCms

    if isinstance(image, np.ndarray):
        image = Image.fromarray(image.squeeze(2) if image.shape[2] == 1 else image)
    if image.mode.startswith("I"):  # 16-bit gray
        image = Image.fromarray((np.asarray(image) >> (bits - 8)).astype(np.uint8))
    alpha = image.has_transparency_data
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        space = source.profile.xcolor_space.strip()
        if space == "GRAY" and image.mode in GRAY_MODES:
            colors = image.convert("L")
        elif space == "RGB" and image.mode not in (*GRAY_MODES, "CMYK"):
            colors = image.convert("RGB")
        elif space == "CMYK" and image.mode == "CMYK":
            colors = image
        else:
            return image
        converted = ImageCms.profileToProfile(colors, source, _srgb(), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError) as error:
        raise ValueError(f"its ICC profile cannot be used: {error}") from None
    if alpha:
        converted.putalpha(image.convert("RGBA").getchannel("A"))
    return converted


@cache
def _srgb() -> Any:
    from PIL import ImageCms

    return ImageCms.createProfile("sRGB")


# -- reasons -----------------------------------------------------------------------------------------------------------


@contextmanager
def _reasons(codec: str) -> Iterator[None]:
    """Raise every exception of a plugin as a ValueError with a readable message."""
    try:
        yield
    except MemoryError:
        raise ValueError("there is not enough memory to decode it") from None
    except (RefusedError, ImportError):
        raise
    except Exception as error:  # Pillow raises many types for damaged files
        raise ValueError(f"damaged {NAMES[codec]} file: {_text(error)}") from None


def _text(error: Exception) -> str:
    """Return an exception's message, without addresses of objects and lists of bytes."""
    text = re.sub(r"\s*<[^<>]* at 0x[0-9a-fA-F]+>", "", str(error)).strip().partition("\n")[0]
    return text[:200] or type(error).__name__
