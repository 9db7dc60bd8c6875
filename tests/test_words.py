"""Words and phrases that the prose and names of package, kernels, docs, examples and benchmarks do without.

They are this code base's habits that a reader has to translate. The glossary in docs/architecture.md has the words that
take their places. To ban another one, add a row to ``BANNED``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: What is banned, whole words in any case, and what to write.
BANNED = {
    "told": "status, reported, passed, or a digest",
    "asked": "requested, queried",
    "anew": "again, from scratch, a new ...",
    "apart": "separate, separately; of an op: prepass",
    "beside": "next to, with, in addition to, compared with",
    "behind": "after, following, past",
    "so many": "N, or a count with its unit",
    "of its own": "separate, private, dedicated",
    "of their own": "separate, private, dedicated",
    "of one's own": "separate, private, dedicated",
    "Python's lock": "the GIL",
    "gone on with": "resumed",
    "goes on with": "resumes, continues",
    "noted": "recorded",
    "fates": "outcomes",
    "settle": "record, resolve, wait",
    "stirred": "mixed",
    "but for": "except for",
    "by way of": "through, with",
    "by turns": "alternately",
    "at last": "finally",
    "for ever": "forever",
    "goes over": "visits, reads",
    "go over": "visit, read",
    "passed over": "skipped",
    "hand over": "return, pass, convert",
    "hands over": "returns, passes, converts",
    "handed over": "returned, passed, shared",
    "hand-over": "conversion, transfer",
    "makes of": "the result of ... for",
    "nothing of": "none of, no part of",
    "does as well": "works too",
    "will do": "works, is accepted",
    "stands here": "goes here",
    "somebody": "another user, another thread",
    "whoever": "anyone who, every user of",
    "in vain": "without success",
    "had better": "should",
}

#: A negation that English does not have: "that is no integer".
_NEGATION = re.compile(r"\b(?:it|that|which)[\s#]+(?:is|are)[\s#]+no\b(?![\s#]+(?:longer|more|less))", re.IGNORECASE)

#: How no docstring begins. A verb ("Return ...", "Decode ...") or the name of the thing does better.
OPENINGS = ("What", "Whether", "How", "Where", "Which", "That", "It")

# Words of a phrase may stand on two lines, of a comment or of a string in parts.
_PHRASES = re.compile(
    r"\b(?:" + "|".join(r"""[\s#"]+""".join(map(re.escape, phrase.split())) for phrase in BANNED) + r")\b",
    re.IGNORECASE,
)
_OPENING = re.compile(rf"(?:{'|'.join(OPENINGS)})\b")
_SEPARATORS = re.compile(r"_|(?<=[a-z])(?=[A-Z])")  # between the words of an identifier


def found_in(name: str, text: str) -> Iterator[str]:
    """Yield a message for each finding in the text of a file: its prose, and in code all identifiers too."""
    # Comments, strings and identifiers are searched alike: the text as a whole, with identifiers split into words.
    split = _SEPARATORS.sub(" ", text)
    for match in _PHRASES.finditer(split):
        phrase = " ".join(re.split(r"""[\s#"]+""", match[0]))
        instead = next(better for banned, better in BANNED.items() if banned.lower() == phrase.lower())
        yield f'{name}:{split.count(chr(10), 0, match.start()) + 1}: "{phrase}" -> {instead}'
    for match in _NEGATION.finditer(split):
        yield f'{name}:{split.count(chr(10), 0, match.start()) + 1}: "{match[0]}" -> is not a, is not'
    if name.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                opening = _OPENING.match(ast.get_docstring(node) or "")
                if opening:
                    yield f'{name}:{node.body[0].lineno}: a docstring begins with "{opening[0]}" -> a verb or a noun'


def _unreleased(text: str) -> str:
    """Return the part of the changelog that may still change, with its line numbers."""
    return text[: [match.start() for match in re.finditer(r"^## ", text, re.MULTILINE)][1]]


def _files(folder: str) -> list[Path]:
    """Python, Markdown and reStructuredText files of a folder, but for builds, results and links."""
    paths = (path for suffix in ("py", "md", "rst") for path in (ROOT / folder).rglob(f"*.{suffix}"))
    left_out = {ROOT / "gpuimg" / "kernels", ROOT / "bench" / "results", ROOT / "docs" / "_build"}
    left_out |= {ROOT / "docs" / "gallery", ROOT / "docs" / "reference" / "generated"}
    left_out |= {ROOT / "docs" / "reference" / "examples"}
    return sorted(path for path in paths if left_out.isdisjoint(path.parents))


def _report(findings: list[str]) -> None:
    if findings:
        pytest.fail("\n".join(findings), pytrace=False)


@pytest.mark.parametrize("folder", ["gpuimg", "kernels", "docs", "examples", "bench"])
def test_words_of_a_folder(folder: str) -> None:
    files = _files(folder)
    assert len(files) > 10
    findings = [line for path in files for line in found_in(str(path.relative_to(ROOT)), path.read_text())]
    _report(findings)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "tests/README.md"])
def test_words_of_a_page(page: str) -> None:
    text = (ROOT / page).read_text()
    findings = list(found_in(page, _unreleased(text) if page == "CHANGELOG.md" else text))
    _report(findings)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.py", '"""Do.\n\nThe user is told.\n"""\n', 'a.py:3: "told" -> status'),
        ("a.py", '"""Do."""\n\nx = 1  # kept apart\n', 'a.py:3: "apart" -> separate'),
        ("a.py", '"""Do."""\nraise ValueError("it was Asked")\n', 'a.py:2: "Asked" -> requested'),
        ("a.py", 'x = ("as so "\n     "many files")\n', 'a.py:1: "so many" -> N'),
        ("a.py", "# in a process of its\n# own\n", 'a.py:1: "of its own" -> separate'),
        ("a.py", "words_told = 1\n", 'a.py:1: "told" -> status'),
        ("a.py", "TOLD_WORDS = 1\n", 'a.py:1: "TOLD" -> status'),
        ("a.py", "class WordsTold:\n    pass\n", 'a.py:1: "Told" -> status'),
        ("a.py", "def f(beside): ...\n", 'a.py:1: "beside" -> next to'),
        ("a.py", 'def f():\n    """What is read."""\n', 'a.py:2: a docstring begins with "What"'),
        ("a.py", 'class A:\n    """\n    It is read.\n    """\n', 'a.py:2: a docstring begins with "It"'),
        ("a.md", "# Title\n\nIt runs without\nPython's\nlock.\n", 'a.md:4: "Python\'s lock" -> the GIL'),
        ("a.py", "# a value that\n# is no number\n", 'a.py:1: "that\n# is no" -> is not a'),
        ("a.md", "All but one, but\nfor PNG.\n", 'a.md:1: "but for" -> except for'),
        ("a.rst", "Behind it.\n", 'a.rst:1: "Behind" -> after'),
    ],
)
def test_every_kind_of_place_is_searched(name: str, text: str, message: str) -> None:
    (finding,) = found_in(name, text)
    assert finding.startswith(message)


def test_other_words_are_left_alone() -> None:
    text = '"""Itemize a part.\n\nBesides, what is no longer stored; basked, denoted.\n"""\nfestooned = part = 1\n'
    assert list(found_in("a.py", text)) == []
