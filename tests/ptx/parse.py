"""PTX text to instructions: what a module holds, with registers renamed so that each has one name in its kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from .fault import Fault

SIZES = {
    "u8": 1, "s8": 1, "b8": 1, "u16": 2, "s16": 2, "b16": 2, "f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4, "u32": 4,
    "s32": 4, "b32": 4, "f32": 4, "u64": 8, "s64": 8, "b64": 8, "f64": 8, "pred": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Register:
    """A register by its number in the kernel; ``kind`` is the type it was declared with."""

    number: int
    name: str
    kind: str


@dataclass(frozen=True)
class Literal:
    """A constant, as written."""

    text: str


@dataclass(frozen=True)
class Name:
    """A label, a variable or a special register."""

    text: str


@dataclass(frozen=True)
class Negated:
    """A predicate that counts as its opposite."""

    register: Register


@dataclass(frozen=True)
class Address:
    """``[base+offset]``; without a base for absolute ones."""

    base: Register | Name | None
    offset: int


@dataclass(frozen=True)
class Group:
    """``{a, b}``, ``a|b`` or the parentheses of a call."""

    items: tuple[Operand, ...]


Operand = Register | Literal | Name | Negated | Address | Group


@dataclass(frozen=True)
class Instruction:
    """One instruction: ``ld.global.u32`` is in ``parts``, cut at its dots."""

    line: int
    text: str
    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None = None
    guard_is: bool = True  # the value of the guard with which it runs

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


@dataclass(frozen=True)
class Variable:
    """A declared piece of memory; ``size`` is in bytes, and 0 if the launch determines it."""

    name: str
    space: str
    kind: str
    align: int
    size: int
    values: tuple[str, ...] = ()


@dataclass
class Kernel:
    """One entry, or a function that is called."""

    name: str
    parameters: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # name -> number of the instruction after it
    tables: dict[str, list[str]] = field(default_factory=dict)  # of branches by an index
    registers: list[Register] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)  # of the kernel alone
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)  # .maxntid and the like


@dataclass
class Module:
    """A whole text."""

    target: str
    kernels: dict[str, Kernel]
    functions: dict[str, Kernel]
    variables: list[Variable]


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_LINE_DIRECTIVE = re.compile(r"^\s*\.(loc|file|version|address_size|section)\b[^\n]*$", re.M)
_VARIABLE = re.compile(
    r"\.(?P<space>global|shared|local|const|param|reg)\s+(?:\.align\s+(?P<align>\d+)\s+)?(?:\.ptr\S*\s+)?"
    r"\.(?P<kind>\w+)\s+(?:\.ptr\s+(?:\.\w+\s+)*(?:\.align\s+\d+\s+)?)?(?P<name>[\w$%.]+)(?P<dims>(?:\s*\[\s*\d*\s*\])*)"
    r"(?:\s*=\s*(?P<values>.*))?$",
    re.S,
)
_HEADER = re.compile(r"(?:\.(?:visible|extern|weak)\s+)*\.(entry|func)\b")
_LABEL = re.compile(r"([\w$%.]+)\s*:(?!:)\s*")
_RANGE = re.compile(r"(%?[\w$]+?)<(\d+)>$")
_LONG = re.compile(r"[\w$]{60,}?(\w{12})\b")  # names that Numba mangled
_STATEMENT = re.compile(r"(?:@(!?)(\S+)\s+)?([\w.:]+)\s*(.*)$", re.S)


def _blanked(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def split(text: str) -> list[str]:
    """Operands, at commas that are in no brackets."""
    items, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "[{(") - (sign in "]})")
        if sign == "," and depth == 0:
            items.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*items, last] if last or items else []


def variable(text: str) -> Variable:
    """A declaration without its linkage and semicolon."""
    found = _VARIABLE.search(text)
    if found is None:
        raise Fault(f"a declaration that is not known: {text.strip()!r}")
    kind = found["kind"]
    counts = [int(d) if d.strip() else 0 for d in re.findall(r"\[([^\]]*)\]", found["dims"])]
    values = tuple(v for v in re.split(r"[\s,{}]+", found["values"] or "") if v)
    size = SIZES[kind] * prod(counts)
    return Variable(found["name"], found["space"], kind, int(found["align"] or SIZES[kind]), size, values)


class _Body:
    """Reads the statements between the braces of a kernel."""

    def __init__(self, kernel: Kernel, text: str, first_line: int) -> None:
        self._kernel = kernel
        self._text = text
        self._first = first_line
        self._scopes: list[dict[str, Register]] = [{}]
        self._ranges: list[dict[str, tuple[str, int]]] = [{}]

    def read(self) -> None:
        for at, statement in self._statements():
            line = self._first + self._text.count("\n", 0, at)
            if statement.startswith("."):
                self._directive(statement)
            else:
                self._kernel.instructions.append(self._instruction(statement, line))

    def _statements(self) -> Iterator[tuple[int, str]]:
        text, at = self._text, 0
        while at < len(text):
            if text[at].isspace() or text[at] == ";":
                at += 1
            elif text[at] == "{":
                self._scopes.append({})
                self._ranges.append({})
                at += 1
            elif text[at] == "}":
                self._scopes.pop()
                self._ranges.pop()
                at += 1
            elif found := _LABEL.match(text, at):
                at = found.end()
                if text.startswith(".branchtargets", at):
                    end = text.index(";", at)
                    self._kernel.tables[found[1]] = split(text[at + len(".branchtargets") : end])
                    at = end
                else:
                    self._kernel.labels[found[1]] = len(self._kernel.instructions)
            else:
                end = text.find(";", at)
                if end < 0:
                    raise Fault(f"a statement without its end: {text[at:].strip()[:80]!r}")
                yield at, text[at:end].strip()
                at = end + 1

    def _directive(self, text: str) -> None:
        if text.startswith(".reg"):
            kind, names = re.match(r"\.reg\s+\.(\w+)\s+(.*)", text, re.S).groups()  # type: ignore[union-attr]
            for name in split(names):
                if found := _RANGE.match(name):
                    self._ranges[-1][found[1]] = kind, int(found[2])
                else:
                    self._declare(name, kind)
        elif text.startswith((".shared", ".local", ".global", ".const", ".param")):
            self._kernel.variables.append(variable(text))
        elif not text.startswith(".pragma"):
            raise Fault(f"a directive that is not known: {text!r}")

    def _declare(self, name: str, kind: str, depth: int = -1) -> Register:
        register = Register(len(self._kernel.registers), name, kind)
        self._kernel.registers.append(register)
        self._scopes[depth][name] = register
        return register

    def _register(self, name: str) -> Register | None:
        for depth in reversed(range(len(self._scopes))):
            if name in self._scopes[depth]:
                return self._scopes[depth][name]
            stem = name.rstrip("0123456789")
            kind, count = self._ranges[depth].get(stem, ("", 0))
            if stem != name and int(name[len(stem) :]) < count:
                return self._declare(name, kind, depth)
        return None

    def _instruction(self, text: str, line: int) -> Instruction:
        found = _STATEMENT.match(text)
        assert found is not None
        negated, guard, opcode, rest = found.groups()
        told = _LONG.sub(r"...\1", " ".join(text.split()))
        try:
            operands = tuple(self._operand(item) for item in split(rest))
        except Fault as fault:
            raise Fault(f"line {line}: {told}: {fault}") from fault
        made = Instruction(line, told, tuple(opcode.replace("::", "_").split(".")), operands)
        if guard is None:
            return made
        register = self._register(guard)
        if register is None or register.kind != "pred":
            raise Fault(f"{made}: {guard} is no predicate")
        return replace(made, guard=register, guard_is=not negated)

    def _operand(self, text: str) -> Operand:
        if text.startswith("["):
            return self._address(text[1:-1].strip())
        if text[0] in "{(":
            return Group(tuple(self._operand(item) for item in split(text[1:-1])))
        if "|" in text:
            return Group(tuple(self._operand(item.strip()) for item in text.split("|")))
        if text.startswith("!"):
            inner = self._register(text[1:].strip())
            if inner is None:
                raise Fault(f"{text!r} is no predicate")
            return Negated(inner)
        if re.match(r"[-+\d]|0[fFdDxX]", text) or text == "WARP_SZ":
            return Literal("32" if text == "WARP_SZ" else text)
        return self._register(text) or Name(text)

    def _address(self, text: str) -> Address:
        found = re.match(r"([\w$%.]+)\s*(?:([+-])\s*(-?\w+))?$", text)
        if found is None:
            raise Fault(f"an address that is not known: [{text}]")
        offset = int(found[3], 0) if found[3] else 0
        offset = -offset if found[2] == "-" else offset
        if found[1][0].isdigit():
            return Address(None, int(found[1], 0) + offset)
        return Address(self._register(found[1]) or Name(found[1]), offset)


def _closing(text: str, at: int) -> int:
    """Return the position of the brace that closes the one at ``at``."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return place
    raise Fault("a kernel without its end")


def _kernel(text: str, at: int) -> tuple[Kernel | None, int]:
    """The function whose header begins at ``at``, None where it is only declared; and where it ends."""
    brace, stop = text.find("{", at), text.find(";", at)
    end = brace if brace >= 0 and (stop < 0 or brace < stop) else stop
    header = text[at:end]
    found = re.search(r"\.(?:entry|func)\s*(?:\((?P<results>[^)]*)\)\s*)?(?P<name>[\w$]+)\s*", header)
    if found is None:
        raise Fault(f"a header that is not known: {header[:80]!r}")
    rest = header[found.end() :]
    inside, _, limits = rest[1:].partition(")") if rest.startswith("(") else ("", "", rest)
    kernel = Kernel(found["name"])
    kernel.parameters = [variable(item) for item in split(inside)]
    kernel.results = [variable(item) for item in split(found["results"] or "")]
    for name, numbers in re.findall(r"\.(\w+)\s+([\d\s,]+)", limits):
        kernel.limits[name] = tuple(int(number) for number in numbers.split(","))
    if end != brace:
        return None, end + 1
    close = _closing(text, brace)
    _Body(kernel, text[brace + 1 : close], 1 + text.count("\n", 0, brace)).read()
    return kernel, close + 1


def parse(text: str) -> Module:
    """Read a module."""
    clean = _LINE_DIRECTIVE.sub(_blanked, _COMMENT.sub(_blanked, text))
    found = re.search(r"\.target\s+(\w+)[^\n]*", clean)
    if found is None:
        raise Fault("a text without .target")
    module = Module(found[1], {}, {}, [])
    at = found.end()
    while rest := re.compile(r"\S").search(clean, at):
        at = rest.start()
        if header := _HEADER.match(clean, at):
            kernel, at = _kernel(clean, at)
            if kernel is not None:
                (module.kernels if header[1] == "entry" else module.functions)[kernel.name] = kernel
        else:
            end = clean.find(";", at)
            if end < 0:
                raise Fault(f"a statement without its end: {clean[at:].strip()[:80]!r}")
            module.variables.append(variable(clean[at:end]))
            at = end + 1
    return module
