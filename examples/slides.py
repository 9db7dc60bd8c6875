"""Train on the tissue of slides, stop in the middle of an epoch, and resume; the slides are made here.

python examples/slides.py

With real slides, pass their pattern: python examples/slides.py "slides/*.svs"
"""

import argparse
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import gpuimg
from gpuimg.typing import Slide

SIDE = 128


def write_pyramid(path: Path, image: np.ndarray) -> None:
    """Write a tiled TIFF of an image, a half and a quarter of it, with JPEG tiles; pyvips and libtiff do that, too."""
    file, tables = b"", []
    for level in (image, image[::2, ::2], image[::4, ::4]):
        height, width = level.shape[:2]
        padded = np.pad(level, [(0, -height % SIDE), (0, -width % SIDE), (0, 0)], mode="edge")
        tiles = [padded[y:, x:][:SIDE, :SIDE] for y in range(0, height, SIDE) for x in range(0, width, SIDE)]
        jpegs = gpuimg.encode_batch([np.ascontiguousarray(tile) for tile in tiles])
        sizes = [len(jpeg) for jpeg in jpegs]
        offsets = (8 + len(file) + np.cumsum([0, *sizes])[:-1]).tolist()
        file += b"".join(jpegs)
        tables.append({256: [width], 257: [height], 258: [8, 8, 8], 259: [7], 262: [6], 277: [3], 322: [SIDE],
                       323: [SIDE], 324: offsets, 325: sizes})  # fmt: skip
    directories, at = b"", 8 + len(file)
    for k, table in enumerate(tables):
        values, start = b"", at + 2 + 12 * len(table) + 4
        entries = struct.pack("<H", len(table))
        for tag, numbers in table.items():
            data = struct.pack(f"<{len(numbers)}I", *numbers)
            place = data if len(numbers) == 1 else struct.pack("<I", start + len(values))
            values += data if len(numbers) > 1 else b""
            entries += struct.pack("<HHI", tag, 4, len(numbers)) + place
        at = start + len(values)
        directories += entries + struct.pack("<I", at if k + 1 < len(tables) else 0) + values
    path.write_bytes(b"II*\0" + struct.pack("<I", 8 + len(file)) + file + directories)


def tissue(slides: Sequence[Slide]) -> list[np.ndarray]:
    """Return a mask of tiles for each slide: those with a mean saturation above 8 %, in the smallest level."""
    masks = []
    for slide in slides:
        full, small = slide.levels[0], slide.levels[-1]
        rows, columns = -(-full.height // full.tile_height), -(-full.width // full.tile_width)
        region = gpuimg.read_region(slide, 0, 0, small.height, small.width, level=len(slide.levels) - 1)
        values = np.asarray(gpuimg.resize(region[None], (rows, columns)).array()[0], np.float32)
        masks.append(np.ptp(values, axis=2) > 0.08 * 255)
    return masks


def augment(x: gpuimg.Batch, rng: gpuimg.Rng) -> gpuimg.Batch:
    """Turn, flip and color tiles at random: a slide has no upright."""
    x = gpuimg.random_crop(x, 112, rng=rng)
    x = gpuimg.random_rotation(gpuimg.random_horizontal_flip(x, rng=rng), 180, rng=rng)
    return gpuimg.normalize(gpuimg.color_jitter(x, 0.1, 0.1, 0.1, 0.05, rng=rng), 0.5, 0.5)


def train(paths: Sequence[str]) -> None:
    every = gpuimg.tiles(paths)
    source = gpuimg.tiles(paths, keep=tissue(every.slides))
    print(f"{len(source)} of {len(every)} tiles have tissue")

    # Neighbors in blocks: a remote slide is read with few requests. Under torchrun each process gets its share.
    loader = gpuimg.load(source, augment, batch_size=16, shuffle=gpuimg.Blocks(64), epochs=1)
    seen = []
    for count, batch in enumerate(loader, 1):
        seen += batch.labels[batch.valid].tolist()  # (slide, y, x)
        if count == 2:
            break
    state = loader.state_dict()  # goes into the checkpoint

    loader = gpuimg.load(source, augment, batch_size=16, shuffle=gpuimg.Blocks(64), epochs=1)
    loader.load_state_dict(state)
    for batch in loader:
        seen += batch.labels[batch.valid].tolist()
    print(f"each of {len(seen)} tiles once: {len(set(map(tuple, seen))) == len(seen) == len(source)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on tiles of slides.")
    parser.add_argument("paths", nargs="*", help="slides or patterns; none: three small ones are made")
    options = parser.parse_args()
    if options.paths:
        train(options.paths)
        return
    photos = sorted(Path(__file__).parent.glob("photos/*.jpg"))[:3]
    with tempfile.TemporaryDirectory() as folder:
        for photo in photos:
            large = gpuimg.resize(gpuimg.open_batch([photo], device="cpu"), (1500, 1900)).array(dtype="uint8")[0]
            write_pyramid(Path(folder) / f"{photo.stem}.tif", large)
        train([f"{folder}/*.tif"])


if __name__ == "__main__":
    main()
