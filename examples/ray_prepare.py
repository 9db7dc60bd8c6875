"""Prepare tar shards with Ray Data, each in a task: a row is a shard. Paths may be URLs.

python examples/ray_prepare.py s3://bucket/train-{000..146}.tar --to s3://bucket/small
"""

import argparse
import sys
import tempfile
from typing import Any

import gpuimg

try:
    import fsspec
    import ray
except ImportError:
    sys.exit('this example needs Ray and fsspec: pip install "ray[data]" fsspec')


def prepare(row: dict[str, Any], destination: str, short_side: int) -> dict[str, Any]:
    """Write a smaller copy of a shard under its name, and return the counts."""
    name = row["shard"].rpartition("/")[2]
    with tempfile.TemporaryDirectory() as folder:
        source = gpuimg.tar(row["shard"], label=None)  # all members are copied
        report = gpuimg.prepare(source, folder, short_side=short_side, tar_size=1 << 40, measure=False, threads=1)
        fs, path = fsspec.core.url_to_fs(destination)
        fs.makedirs(path, exist_ok=True)
        if report.shards:
            fs.put(f"{folder}/shard-000000.tar", f"{path}/{name}")
    failed = [f"{failure.source}: {failure.reason}" for failure in report.failed]
    return {"shard": name, "samples": report.samples - len(failed), "bytes": report.bytes, "failed": failed}


def main() -> None:
    parser = argparse.ArgumentParser(description="Prepare tar shards with Ray Data.")
    parser.add_argument("shards", nargs="+", help="tar files")
    parser.add_argument("--to", required=True, help="folder of the results, and of their counts")
    parser.add_argument("--short-side", type=int, default=512)
    options = parser.parse_args()
    rows = ray.data.from_items([{"shard": shard} for shard in options.shards], override_num_blocks=len(options.shards))
    made = rows.map(prepare, fn_kwargs={"destination": options.to, "short_side": options.short_side})
    made.write_parquet(f"{options.to}/counts")
    found = ray.data.read_parquet(f"{options.to}/counts").to_pandas()
    print(f"{len(found)} shards, {found.samples.sum()} samples, {found.bytes.sum():,} bytes")
    for failed in found.failed:
        print(*failed, sep="\n", end="\n" if len(failed) else "")


if __name__ == "__main__":
    main()
