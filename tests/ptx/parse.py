"""PTX text to instructions: what a module holds, with registers renamed so that each has one name in its kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from .fault import Fault

SIZES = {
    "u8": 1, "b8": 1, "u16": 2, "s16": 2, "b16": 2, "u32": 4, "s32": 4, "b32": 4, "f32": 4, "u64": 8, "s64": 8,
    "b64": 8, "pred": 1,
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
class Address:
    """``[base+offset]``."""

    base: Register | Name
    offset: int


@dataclass(frozen=True)
class Group:
    """``a|b``."""

    items: tuple[Operand, ...]


Operand = Register | Literal | Name | Address | Group


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
    """A declared piece of memory; ``size`` is in bytes."""

    name: str
    space: str
    align: int
    size: int


@dataclass
class Kernel:
    """One entry."""

    name: str
    parameters: list[Variable] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # name -> number of the instruction after it
    registers: list[Register] = field(default_factory=list)


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_LINE_DIRECTIVE = re.compile(r"^\s*\.(loc|file|version|target|address_size|section)\b[^\n]*$", re.M)
_VARIABLE = re.compile(
    r"\.(?P<space>global|shared|param)\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<kind>\w+)\s+"
    r"(?:\.ptr\s+(?:\.\w+\s+)*(?:\.align\s+\d+\s+)?)?(?P<name>[\w$%.]+)\s*(?:\[\s*(?P<count>\d+)\s*\])?$"
)
_HEADER = re.compile(r"(?:\.(?:visible|extern|weak)\s+)*\.entry\s+(?P<name>[\w$]+)\s*\((?P<parameters>[^)]*)\)[^{]*")
_LABEL = re.compile(r"([\w$%.]+)\s*:(?!:)\s*")
_RANGE = re.compile(r"(%?[\w$]+?)<(\d+)>$")
_LONG = re.compile(r"[\w$]{60,}?(\w{12})\b")  # names that Numba mangled
_STATEMENT = re.compile(r"(?:@(!?)(\S+)\s+)?([\w.:]+)\s*(.*)$", re.S)


def _blanked(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _split(text: str) -> list[str]:
    """Operands, or other items with commas between them."""
    return [item.strip() for item in text.split(",") if item.strip()]


def _variable(text: str) -> Variable:
    """A declaration without its linkage and semicolon."""
    found = _VARIABLE.search(text.strip())
    if found is None:
        raise Fault(f"a declaration that is not known: {text.strip()!r}")
    size = SIZES[found["kind"]]
    return Variable(found["name"], found["space"], int(found["align"] or size), size * int(found["count"] or 1))


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
            for name in _split(names):
                if found := _RANGE.match(name):
                    self._ranges[-1][found[1]] = kind, int(found[2])
                else:
                    self._declare(name, kind)
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
            operands = tuple(self._operand(item) for item in _split(rest))
        except Fault as fault:
            raise Fault(f"line {line}: {told}: {fault}") from fault
        made = Instruction(line, told, tuple(opcode.split(".")), operands)
        if guard is None:
            return made
        register = self._register(guard)
        if register is None or register.kind != "pred":
            raise Fault(f"{made}: {guard} is no predicate")
        return replace(made, guard=register, guard_is=not negated)

    def _operand(self, text: str) -> Operand:
        if text.startswith("["):
            return self._address(text[1:-1].strip())
        if "|" in text:
            return Group(tuple(self._operand(item.strip()) for item in text.split("|")))
        if re.match(r"[-+\d]", text):
            return Literal(text)
        return self._register(text) or Name(text)

    def _address(self, text: str) -> Address:
        found = re.match(r"([\w$%.]+)\s*(?:\+?\s*(-?\d+))?$", text)
        if found is None:
            raise Fault(f"an address that is not known: [{text}]")
        return Address(self._register(found[1]) or Name(found[1]), int(found[2] or 0))


def _closing(text: str, at: int) -> int:
    """Return the position of the brace that closes the one at ``at``."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return place
    raise Fault("a kernel without its end")


def _kernel(text: str, header: re.Match[str]) -> tuple[Kernel, int]:
    """The kernel whose header this is, and where it ends."""
    kernel = Kernel(header["name"], [_variable(item) for item in _split(header["parameters"])])
    brace = header.end()
    close = _closing(text, brace)
    _Body(kernel, text[brace + 1 : close], 1 + text.count("\n", 0, brace)).read()
    return kernel, close + 1


def parse(text: str) -> tuple[list[Kernel], list[Variable]]:
    """Read a module: its kernels, and the variables that it declares."""
    clean = _LINE_DIRECTIVE.sub(_blanked, _COMMENT.sub(_blanked, text))
    kernels: list[Kernel] = []
    variables, at = [], 0
    while rest := re.compile(r"\S").search(clean, at):
        at = rest.start()
        if header := _HEADER.match(clean, at):
            kernel, at = _kernel(clean, header)
            kernels.append(kernel)
        else:
            end = clean.find(";", at)
            if end < 0:
                raise Fault(f"a statement without its end: {clean[at:].strip()[:80]!r}")
            variables.append(_variable(clean[at:end]))
            at = end + 1
    return kernels, variables
