"""Class folders and lists of paths."""

import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuimg.sources import file_list, folder

from ..libraries import library, needs
from ..processes import python
from ..samples import write_files
from .laws import assert_law, assert_vanished, open_files, photos


def tree(root: Path, *names: str) -> None:
    write_files(root, {name: name.encode() for name in names})


NAMES = ("ant/2.png", "ant/a/1.JPEG", "ant/a b/1.webp", "ant/1.jpg", "bee/x/y/z.tiff", "Cow/1.bmp")
SORTED = ("Cow/1.bmp", "ant/1.jpg", "ant/2.png", "ant/a/1.JPEG", "ant/a b/1.webp", "bee/x/y/z.tiff")
LABELS = (0, 1, 1, 1, 1, 2)


def test_folder(tmp_path: Path) -> None:
    tree(tmp_path, *NAMES, "ant/notes.txt", "loose.jpg")
    found = folder(tmp_path)
    assert (found.classes, found.labels) == (["Cow", "ant", "bee"], list(LABELS))
    samples = [(name.encode(), label) for name, label in zip(SORTED, LABELS, strict=True)]
    assert_law(found, samples, [f"{tmp_path}/{name}" for name in SORTED])
    assert repr(found) == f"<gpuimg.folder '{tmp_path}': 6 images, 3 classes>"


def test_folder_is_image_folder(tmp_path: Path) -> None:
    tree(tmp_path, *NAMES, "ant/a.b/1.jpg", "ant/a/b/1.jpg", "ant/\N{GREEK SMALL LETTER PI}.jpg", "ant/\U0001f40d.jpg")
    (tmp_path / "elsewhere").mkdir()
    tree(tmp_path / "elsewhere", "9.jpg", "deep/8.jpg")
    (tmp_path / "bee" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "dog").symlink_to(tmp_path / "ant")
    needs("torchvision")
    expected = importlib.import_module("torchvision.datasets").ImageFolder(tmp_path)
    found = folder(str(tmp_path) + "/")
    assert (found.classes, found.class_to_idx) == (expected.classes, expected.class_to_idx)
    assert [(found.describe(i), found[i][1]) for i in range(len(found))] == expected.samples
    assert len(found) == 22


def test_folder_finds_what_decodes(tmp_path: Path) -> None:
    """Or names it, where a plugin is needed."""
    for k, ending in enumerate((".gif", ".avif", ".JP2", ".jfif", ".heic", ".txt")):
        tree(tmp_path, f"a/{k}{ending}")
    with pytest.warns(RuntimeWarning, match=r"1 image left out, such as a/4\.heic; install pillow-heif or"):
        assert [data for data, _ in folder(tmp_path)] == [b"a/0.gif", b"a/1.avif", b"a/2.JP2", b"a/3.jfif"]
    assert [data for data, _ in folder(tmp_path, extensions=(".jpg", ".heic"))] == [b"a/4.heic"]


def test_folder_of_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/a\xff/\xfe.jpg"
    os.mkdir(os.path.dirname(name))
    with open(name, "wb") as file:
        file.write(b"x")
    found = folder(os.fsencode(tmp_path))
    assert found[0] == (b"x", 0)
    assert found.classes == [os.fsdecode(b"a\xff")]
    assert found.describe(0) == f"{tmp_path}/a\\xff/\\xfe.jpg"
    os.unlink(name)
    with pytest.raises(FileNotFoundError, match=r"a\\xff/\\xfe.jpg: No such file"):
        found[0]


def test_folder_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        folder(tmp_path / "nowhere")
    tree(tmp_path, "loose.jpg")
    with pytest.raises(ValueError, match=f"{tmp_path}: no class folders; gpuimg.file_list takes images without"):
        folder(tmp_path)
    tree(tmp_path, "full/1.jpg")
    for i in range(7):
        (tmp_path / f"empty{i}").mkdir()
    with pytest.raises(ValueError, match=r"no images \(.jpg, .*for the classes empty0, .*empty4 and 2 more$"):
        folder(tmp_path)
    for extensions in (".jpg", ()):
        with pytest.raises(ValueError, match="sequence of endings"):
            folder(tmp_path, extensions=extensions)
    (tmp_path / "full" / "up").symlink_to(tmp_path / "full")
    with pytest.raises(ValueError, match="full/up: a link to a folder"):
        folder(tmp_path)
    tree(tmp_path / "links", "a/1.jpg")
    for name in ("a/2.jpg", "b"):  # to themselves: unreadable files
        (tmp_path / "links" / name).symlink_to(tmp_path / "links" / name)
    found = folder(tmp_path / "links")
    assert (found.classes, len(found), found[0][0]) == (["a"], 2, b"a/1.jpg")
    with pytest.raises(OSError, match="symbolic links"):
        found[1]


def test_vanished_file(tmp_path: Path) -> None:
    tree(tmp_path, "a/1.jpg", "a/2.jpg")
    before = open_files(tmp_path)
    found = folder(tmp_path)
    assert_vanished(found, 1, tmp_path / "a" / "2.jpg")
    assert found[0][0] == b"a/1.jpg"
    (tmp_path / "a" / "2.jpg").mkdir()
    with pytest.raises(IsADirectoryError, match=r"2\.jpg: Is a directory"):
        found[1]
    assert open_files(tmp_path) == before


def test_list_of_paths(tmp_path: Path) -> None:
    data = photos(3)
    paths = [tmp_path / f"{i}.jpg" for i in range(3)]
    for path, content in zip(paths, data, strict=True):
        path.write_bytes(content)
    names = [str(path) for path in paths]
    assert_law(file_list(paths), [(d, None) for d in data], names)
    labels: list[tuple[Any, list[Any]]] = [(np.array([5, 3, 4]), [5, 3, 4])]
    labels += [(one, list(one)) for one in (["a", None, (1, 2)], np.arange(12.0).reshape(3, 4))]
    for given, wanted in labels:
        assert_law(file_list(names, given), list(zip(data, wanted, strict=True)), names)
    assert repr(file_list(paths)) == "<gpuimg.file_list: 3 images>"
    assert repr(file_list(paths * 400)) == "<gpuimg.file_list: 1,200 images>"


def test_text_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "a.jpg", "b c.jpg", "d 5.jpg", "e")
    text = tmp_path / "list.txt"
    text.write_bytes(b"a.jpg 3\r\n\n" + b"b c.jpg   -7\n" + b"d 5.jpg\t9 \n" + bytes(tmp_path / "e") + b"\t+1")
    samples = [(b"a.jpg", 3), (b"b c.jpg", -7), (b"d 5.jpg", 9), (b"e", 1)]
    names = [str(tmp_path / name) for name in ("a.jpg", "b c.jpg", "d 5.jpg", "e")]
    assert_law(file_list(text), samples, names)
    assert repr(file_list(text)) == f"<gpuimg.file_list '{text}': 4 images>"
    monkeypatch.chdir(tmp_path)
    assert file_list("list.txt").describe(0) == "a.jpg"
    assert file_list("list.txt")[1] == samples[1]
    text.write_text("a.jpg\nd 5.jpg\ne\n")
    assert list(file_list(text)) == [(b"a.jpg", None), (b"d 5.jpg", None), (b"e", None)]
    assert [label for _, label in file_list(text, "xyz")] == ["x", "y", "z"]


@pytest.mark.parametrize(("content", "match"), [
    ("a.jpg 1\n\nb.jpg\n", "list.txt, line 3: no label, but line 1 has one"),
    ("a.jpg\nb.jpg 2\n", "line 2: a label, but line 1 has none"),
    ("a.jpg\tcat\n", "line 1: the label must be a whole number, not 'cat'"),
    ("a.jpg\t1\nb.jpg\t\n", "line 2: no label, but line 1 has one"),
    (f"a.jpg {1 << 63}", "line 1: the label 9223372036854775808 takes more than 64 bits"),
    ("\n \n", "list.txt: no paths in it"), ("a 1", "list.txt has labels, but labels were passed, too"),
])  # fmt: skip
def test_text_file_errors(tmp_path: Path, content: str, match: str) -> None:
    (tmp_path / "list.txt").write_text(content)
    with pytest.raises(ValueError, match=match):
        file_list(tmp_path / "list.txt", [1] if content == "a 1" else None)


def test_list_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        file_list([])
    with pytest.raises(ValueError, match="got 1 label for 2 paths; each needs one"):
        file_list(["a", "b"], [1])
    with pytest.raises(FileNotFoundError, match=r"list\.txt"):
        file_list(tmp_path / "list.txt")
    with pytest.raises(ValueError, match=r"columns is for a \.csv or \.tsv file"):
        file_list(["a"], columns=("path",))
    (tmp_path / "a").write_bytes(b"x")
    assert_vanished(file_list([tmp_path / "a"]), 0, tmp_path / "a")


@pytest.mark.parametrize(("name", "content", "options", "labels"), [
    ("a.csv", "path,label\na.jpg,3\nb c.jpg,-7\n", {}, [3, -7]),
    ("a.csv", "\ufefflabel,path\r\n0.5,a.jpg\r\n\r\n2,b c.jpg", {}, [0.5, 2.0]),
    ("a.CSV", 'file;class\na.jpg;"cat; ""big"""\nb c.jpg;dog', {}, ['cat; "big"', "dog"]),
    ("a.csv", "id,class,file\n1, cat, a.jpg\n2, 5, b c.jpg", {"columns": ("file", "class")}, ["cat", "5"]),
    ("a.csv", "f,x,y,z\na.jpg,1,u,\nb c.jpg,2,v,", {"columns": ("f", "y", "x")},
     [{"y": "u", "x": 1}, {"y": "v", "x": 2}]),
    ("a.tsv", "path\ta, b\na.jpg\t1\nb c.jpg\t2", {}, [1, 2]),
    ("a.tsv", "a.jpg\t1\nb c.jpg\t2", {}, [1, 2]),
    ("a.csv", "image\na.jpg\nb c.jpg", {}, [None, None]),
    ("a.csv", "a.jpg,dog\nb c.jpg,cat", {"classes": True}, [1, 0]),
    ("a.csv", "a.jpg,10\nb c.jpg,9", {"classes": True}, [1, 0]),
    ("a.csv", "a.jpg,dog\nb c.jpg,cat", {"classes": ["cow", "dog", "cat"]}, [1, 2]),
    ("a.csv", "f,x\na.jpg,1e3\nb c.jpg,-.5", {}, [1000.0, -0.5]),
    *[("a.csv", f"f,x\na.jpg,{a}\nb c.jpg,{b}", {"classes": True}, [0, 1]) for a, b in (
        ("1_1", "2"), ("007", "7"), ("1.0", "1.00"), ("+1", "1"), ("1", "1.0"), ("-0.0", "0.0"), ("100.0", "1e2"),
        ("18446744073709551614", "18446744073709551615"), ("9007199254740992.0", "9007199254740993"), ("2", "10"))],
    *[("a.tsv", f"f\tx\na.jpg\t{text}\nb c.jpg\t1", {}, [text, "1"]) for text in (
        "1_1", "007", "+1", "-0", "1 ", "\u0663", "nan", "inf", "1e999", "1_0.5", str(1 << 63), "9" * 5000, "0x10")],
    ("a.csv", f"f,x\na.jpg,{-1 << 63}\nb c.jpg,{(1 << 63) - 1}", {}, [-1 << 63, (1 << 63) - 1]),
])  # fmt: skip
def test_table(tmp_path: Path, name: str, content: str, options: dict[str, Any], labels: list[Any]) -> None:
    tree(tmp_path, "in/a.jpg", "in/b c.jpg")
    (tmp_path / name).write_text(content, newline="")
    found = file_list(tmp_path / name, **options, root=tmp_path / "in")
    assert_law(found, list(zip((b"in/a.jpg", b"in/b c.jpg"), labels, strict=True)), [
        str(tmp_path / "in" / "a.jpg"), str(tmp_path / "in" / "b c.jpg")
    ])  # fmt: skip
    assert found.class_to_idx == {label: k for k, label in enumerate(found.classes)}


@pytest.mark.parametrize(("paths", "labels", "match"), [
    ("ab", ["cat", float("nan")], "b has no class: its label is nan"), ("ab", [None, "a"], "a has no class: .* None"),
    ("ab", np.array([1.0, np.nan], np.float32), "b has no class: its label is nan"),
    ("ab", [1, "cat"], "labels of classes must be all texts or all numbers, not 1 of a and 'cat' of b"),
    (["a", float("nan")], ["a", "b"], r"paths\[1\] must be the path of an image, not nan"),
])  # fmt: skip
def test_missing_and_mixed_labels(paths: Any, labels: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        file_list(list(paths), labels, classes=True)


def test_columns_of_a_table_are_taken_by_position() -> None:
    paths, classes = ["a", "b", "c"], ["y", "x", "y"]
    frame = library("pandas").DataFrame({"path": paths, "label": classes}, index=[2, 0, 1])
    found = file_list(frame["path"], frame["label"], classes=True)
    assert (found.labels, found.classes, found.class_to_idx) == ([1, 0, 1], ["x", "y"], {"x": 0, "y": 1})
    assert file_list(["d"], ["y"], classes=found.classes).labels == [1]
    tensor = library("torch").tensor([5, 3, 4])
    assert [type(label) for label in file_list(frame["path"], tensor).labels] == [int] * 3


@pytest.mark.parametrize(("content", "options", "match"), [
    ("f,c,w\n1.jpg,cat,0.5\n", {}, r"'f', 'c', 'w': pass .* such as columns=\('f', 'c'\)"),
    ("f,c\n1.jpg,cat\n", {"columns": ("f", "d")}, "no column 'd'; its columns are 'f', 'c'"),
    ("f,c\n\n1.jpg\n", {}, "line 3: 1 values, but there are 2 columns"),
    ("f,c\n1.jpg,\n", {}, "line 2: no value in the column 'c'"),
    ("f,c\n", {}, "t.csv: no paths in it"), ("", {}, "t.csv: no paths in it"),
    ('f,c\n1.jpg,"cat\n', {}, "line 2: unexpected end of data"),
    ("f,c\n1.jpg,cat\n", {"classes": ["dog"]}, "the label 'cat' of .*1.jpg is not one of the 1 classes"),
    ("f\n1.jpg\n", {"classes": True}, "classes needs labels"),
    ("f,c\n1.jpg,cat\n", {"labels": [1]}, "labels were passed, too"),
    ('{"path": "1.jpg"}\n', {}, "not a list of paths: .csv and .tsv tables"),
])  # fmt: skip
def test_table_errors(tmp_path: Path, content: str, options: dict[str, Any], match: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(ValueError, match=match):
        file_list(tmp_path / "t.csv", **options)


def test_a_file_of_sizes_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    code = f"""
import gpuimg, resource
class Named(list):
    def describe(self, i):
        return str(i)
resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))
try:
    gpuimg.read_sizes(Named([(b"", 0)] * 99), {str(tmp_path / "file")!r})
except OSError as error:
    print(error)
"""
    assert python("-c", code) == f"[Errno 27] File too large: '{tmp_path}/file'\n"
    assert list(tmp_path.iterdir()) == []
