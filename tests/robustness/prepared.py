"""Damaged folders of an interrupted ``gpuimg.prepare``: it resumes, or says why not.

Nothing outside of the folder changes, whatever its manifest says and whatever links are in it. A folder that was
damaged, but not forged, is completed.
"""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import gpuimg as gi
from gpuimg._prepare.manifest import NAME, _line

from ..samples import write_files
from ..sources.writers import write_tar
from .mutate import ANYWHERE, Draw, changed
from .originals import jpeg, picture

_SHARD = 6_000  # bytes: some samples each
#: What a value of the manifest is replaced by.
_VALUES: Sequence[Any] = (
    None, True, -1, 0, 1, 511, 512, 1 << 31, 1 << 63, 10**30, 0.5, float("nan"), float("inf"), "", "x", "../kept",
    "../outside/kept", "/", "\0", "a/0.jpg", "failed", "copied", [], [0, 0], [10**30, 1], {}, [[]], "\ud800",
)  # fmt: skip

#: Changes a prepared folder, next to the folder "outside".
Kind: TypeAlias = "Callable[[Draw, Path], None]"


def _lines(out: Path) -> list[bytes]:
    return (out / NAME).read_bytes().splitlines(keepends=True)


def _some(draw: Draw, out: Path) -> Path:
    found = sorted(path for path in out.rglob("*") if path.name != NAME)
    path = draw.pick(found) if found else out / "shard-000000.tar"
    return path.with_name(draw.pick((path.name, path.name, f"{path.name}.part")))


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def flips(draw: Draw, out: Path) -> None:
    (out / NAME).write_bytes(changed(draw, (out / NAME).read_bytes(), b"", ANYWHERE)[0])


def cut(draw: Draw, out: Path) -> None:
    os.truncate(out / NAME, draw.below((out / NAME).stat().st_size + 1))


def other_values(draw: Draw, out: Path) -> None:
    lines = _lines(out)
    for _ in range(draw.pick((1, 1, 3))):
        number = draw.below(len(lines))
        try:
            line = json.loads(lines[number])
            line.pop("crc32", None)
        except (ValueError, RecursionError, AttributeError):  # another kind was here before
            continue
        line[draw.pick((*line, "output", "shard", "new"))] = draw.pick((*_VALUES, *line.values()))
        lines[number] = _line(line) if number else json.dumps(line).encode() + b"\n"
    (out / NAME).write_bytes(b"".join(lines))


def strange_lines(draw: Draw, out: Path) -> None:
    lines = _lines(out)
    strange = (b"[" * 100_000, b"{}", b"null", b"1", b'"\\ud800"', b"9" * 5000, b"\xff\xfe", b"", draw.text(50))
    lines[draw.below(len(lines))] = draw.pick(strange) + b"\n"
    (out / NAME).write_bytes(b"".join(lines))


def a_file_gone(draw: Draw, out: Path) -> None:
    _clear(_some(draw, out))


def a_part(draw: Draw, out: Path) -> None:
    path = _some(draw, out)
    if path.is_file() and not path.is_symlink() and path.suffix != ".part":
        path.rename(f"{path}.part")


def a_file_cut(draw: Draw, out: Path) -> None:
    path = _some(draw, out)
    if path.is_file() and not path.is_symlink():
        os.truncate(path, draw.below(path.stat().st_size + 1))


def another_thing(draw: Draw, out: Path) -> None:
    path = draw.pick((_some(draw, out), out / NAME, out / "list.csv.part"))
    _clear(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    target = draw.pick(("outside", "outside/kept", "outside/gone", "outside/a", "in", "nowhere/deep"))
    make = draw.pick((path.mkdir, lambda: os.mkfifo(path), *(lambda: path.symlink_to(out.parent / target),) * 4))
    make()


#: What an interruption or a fault of a disk leaves: all is made whole again.
DAMAGE: Sequence[Kind] = (cut, a_file_gone, a_part)
#: What somebody did.
FORGED: Sequence[Kind] = (
    flips, other_values, other_values, strange_lines, a_file_cut, *(another_thing,) * 3,
)  # fmt: skip


def _cases(root: Path) -> list[tuple[Any, dict[str, Any], Path]]:
    """Sources, options, results: class folders to files and shards, a list with labels, a tar to files and shards."""
    files = {f"{'ab'[k // 4]}/{k}.jpg": jpeg(picture(20 + k, 24, k)) for k in range(8)} | {"b/bad.jpg": b"bad"}
    write_files(root / "in", files)
    write_tar(root / "in.tar", *files.items())
    write_files(root / "outside", {"kept": b"kept", "a/0.jpg": b"kept"})
    folder, listed = gi.folder(root / "in"), gi.file_list([root / "in" / name for name in files], range(len(files)))
    shards = gi.tar(root / "in.tar", label=None)
    sources, cases = [(folder, None), (folder, _SHARD), (listed, None), (shards, 0), (shards, _SHARD)], []
    for k, (source, size) in enumerate(sources):
        options: dict[str, Any] = {"tar_size": size, "short_side": 16, "threads": 1, "measure": False}
        gi.prepare(source, root / f"whole{k}", **options)
        cases.append((source, options, root / f"whole{k}"))
    return cases


def _tree(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        kind: Any = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else path.is_dir()
        found[str(path.relative_to(folder))] = kind
    return found


def _results(folder: Path) -> dict[str, Any]:
    return {name: content for name, content in _tree(folder).items() if not name.endswith(".part")}


def check(folder: Path) -> Callable[[int], str]:
    cases = _cases(folder)
    before, out = _tree(folder), folder / "out"

    def checked(number: int) -> str:
        draw = Draw(number)
        source, options, whole = draw.pick(cases)
        kinds = [draw.pick(draw.pick((DAMAGE, FORGED, FORGED))) for _ in range(draw.pick((1, 1, 2, 3)))]
        if out.exists():  # after a finding
            shutil.rmtree(out)
        shutil.copytree(whole, out)
        for kind in kinds:
            if (out / NAME).is_file() and _lines(out) and not (out / NAME).is_symlink():
                kind(draw, out)
        words = " and ".join(kind.__name__ for kind in kinds)
        try:
            gi.prepare(source, out, **options)
            outcome = "resumed"
        except (ValueError, OSError) as error:
            outcome = f"refused: {type(error).__name__}"
        if all(kind in DAMAGE for kind in kinds):
            assert (outcome, _results(out)) == ("resumed", _results(whole)), words
        _clear(out)
        assert _tree(folder) == before, words
        return outcome

    return checked
