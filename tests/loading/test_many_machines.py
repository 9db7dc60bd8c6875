"""Other engines and launchers, by running their examples: the same pixels as without, and every sample once."""

import hashlib
import re
import secrets
from collections import Counter
from pathlib import Path

import pytest

import gpuimg as gi

from ..libraries import needs
from ..processes import python
from ..samples import PHOTOS, ROOT
from ..sources.writers import write_tar

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"


def run(*arguments: str | Path) -> str:
    # Ray reports that it is used, and writes a token into the home folder unless it is given one.
    ours = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    return python(*arguments, RANK=None, WORLD_SIZE=None, **ours)


def test_any_number_of_actors_gives_the_pixels_of_one_batch() -> None:
    needs("ray")
    said = run(EXAMPLES / "ray_data.py", "--actors", "4")
    x = gi.open_batch(PHOTOS, device="cpu")
    x = gi.presets.imagenet_train(64)(x, gi.Rng(0, epoch=0, indices=range(len(PHOTOS))))
    digest = hashlib.sha256(x.array("float16", "NCHW").tobytes()).hexdigest()
    assert re.findall(r"(\d) actors, SHA-256 of the pixels (\w+)", said) == [("4", digest)]


def test_shards_are_prepared_in_tasks(tmp_path: Path) -> None:
    needs("ray", "fsspec")
    for k in range(2):
        members = {f"{k}-{i}.jpg": PHOTOS[i].read_bytes() for i in range(3)} | {f"{k}-0.txt": b"a caption"}
        write_tar(tmp_path / f"{k}.tar", *members.items(), (f"{k}-bad.jpg", b"no image"))
    said = run(EXAMPLES / "ray_prepare.py", tmp_path / "0.tar", tmp_path / "1.tar", "--to", tmp_path / "out")
    assert re.search(r"2 shards, 6 samples, [\d,]+ bytes\n", said)
    assert len(re.findall(r"^[01]\.tar: [01]-bad: ", said, re.MULTILINE)) == 2
    source = gi.tar(f"{tmp_path}/out/*.tar", label=None)
    assert [source.key(i) for i in range(6)] == [f"{k}-{i}" for k in range(2) for i in range(3)]
    assert {min(gi.image_info(source[i][0])[:2]) for i in range(6)} <= set(range(513))
    assert gi.tar(tmp_path / "out" / "0.tar", label="txt")[0][1] == "a caption"


def test_torchrun_stops_with_two_and_resumes_with_three(tmp_path: Path) -> None:
    """Every sample once in each of two epochs, and at most one more on one rank than on another."""
    needs("torch")
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
    options = (EXAMPLES / "torchrun.py", "--checkpoint", tmp_path / "checkpoint.pt")
    said = [run(*launch, "2", *options, "--stop-after", "2"), run(*launch, "3", *options)]
    found = [sorted(re.findall(r"rank (\d) of \d had samples((?: \d+)*)", one)) for one in said]
    shares = [[share for _, share in ranks] for ranks in found]
    assert [len(ranks) for ranks in shares] == [2, 3]
    assert [[len(share.split()) for share in ranks] for ranks in shares] == [[4, 4], [6, 5, 5]]
    counts = Counter(int(i) for ranks in shares for share in ranks for i in share.split())
    assert counts == dict.fromkeys(range(len(PHOTOS)), 2)
