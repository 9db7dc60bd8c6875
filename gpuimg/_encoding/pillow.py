"""Files of formats other than JPEG, written by Pillow."""

import os
import tempfile
from typing import IO, Any, cast


def encode(pixels: Any, form: str, **parameters: Any) -> bytes:
    """Return the file of an image (H, W, C); raise ValueError if it cannot be written."""
    from PIL import Image

    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    with _memory_file() as file:
        try:
            image.save(file, form, **parameters)
        except KeyError:
            raise ImportError(f"this Pillow was built without {form}: install one from a wheel") from None
        except (OSError, ValueError) as error:
            raise ValueError(f"{image.height} x {image.width} cannot be written as {form}: {error}") from None
        file.seek(0)
        return file.read()


def _memory_file() -> IO[bytes]:
    """Return an anonymous file: Pillow releases the GIL when it writes to a file descriptor, but not to ``BytesIO``."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("gpuimg"), "w+b")
    return cast("IO[bytes]", tempfile.TemporaryFile())
