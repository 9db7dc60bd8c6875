"""PTX text to instructions, a statement a line, as compilers write it; each register has one name in its kernel."""

import re
from dataclasses import dataclass, field

SIZES = {
    "u8": 1, "b8": 1, "u16": 2, "s16": 2, "b16": 2, "u32": 4, "s32": 4, "b32": 4, "f32": 4, "u64": 8, "s64": 8,
    "b64": 8, "pred": 1,
}  # fmt: skip


class Fault(Exception):  # noqa: N818 - of a program that is tested, not of this one
    """A program does what it must not, or what the interpreter does not know; the message names the instruction."""


@dataclass(frozen=True)
class Register:
    """A register by its number in the kernel; ``kind`` is the type it was declared with."""

    number: int
    name: str
    kind: str


@dataclass(frozen=True)
class Address:
    """``[base+offset]``."""

    base: Register | str
    offset: int


Operand = Register | Address | str  # text: a constant, a label, a variable or a special register


@dataclass(frozen=True)
class Instruction:
    """One instruction: ``ld.global.u32`` is in ``parts``, cut at its dots."""

    line: int
    text: str
    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    guard_is: bool  # the value of the guard with which it runs

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
    """The kernel of a module, with all that the module declares."""

    variables: list[Variable] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # name -> number of the instruction after it
    registers: list[Register] = field(default_factory=list)

    @property
    def parameters(self) -> list[Variable]:
        return [one for one in self.variables if one.space == "param"]


_DIRECTIVE = re.compile(r"\.(version|target|address_size|visible \.entry|maxntid|minnctapersm|pragma)\b|[()]$|$")
_VARIABLE = re.compile(
    r"(?:\.\w+ )?\.(?P<space>global|shared|param) (?:\.align (?P<align>\d+) )?\.(?P<kind>\w+) (?P<name>[\w$]+)"
    r"(?:\[(?P<count>\d+)\])?[,;]?$"
)
_REGISTERS = re.compile(r"\.reg \.(\w+) (%\w+)(<\d+>)?;$")
_LABEL = re.compile(r"([\w$]+):$")
_ADDRESS = re.compile(r"\[([\w$%]+)(?:\+(-?\d+))?\]$")
_STATEMENT = re.compile(r"(?:@(!?)(%\w+) )?([\w.:]+) ?(.*);$")


class _Reader:
    def __init__(self) -> None:
        self.kernel = Kernel()
        self._scopes: list[dict[str, Register]] = []
        self._kinds: dict[str, str] = {}  # of registers %r1, %r2 and so on, by %r

    def read(self, line: str, number: int) -> None:
        if found := _VARIABLE.match(line):
            size = SIZES[found["kind"]]
            align, count = int(found["align"] or size), int(found["count"] or 1)
            self.kernel.variables.append(Variable(found["name"], found["space"], align, size * count))
        elif found := _REGISTERS.match(line):
            if found[3]:
                self._kinds[found[2]] = found[1]
            else:
                self._declare(self._scopes[-1], found[2], found[1])
        elif line == "{":
            self._scopes.append({})
        elif line == "}":
            self._scopes.pop()
        elif found := _LABEL.match(line):
            self.kernel.labels[found[1]] = len(self.kernel.instructions)
        elif not _DIRECTIVE.match(line):
            found = _STATEMENT.match(line)
            if found is None or line.startswith("."):
                raise Fault(f"line {number}: a statement that is not known: {line!r}")
            self._statement(found, number)

    def _declare(self, scope: dict[str, Register], name: str, kind: str) -> Register:
        scope[name] = Register(len(self.kernel.registers), name, kind)
        self.kernel.registers.append(scope[name])
        return scope[name]

    def _named(self, name: str) -> Register | str:
        """A register; other names as they are."""
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        kind = self._kinds.get(name.rstrip("0123456789"))
        return name if kind is None else self._declare(self._scopes[0], name, kind)

    def _statement(self, found: re.Match[str], number: int) -> None:
        negated, name, opcode, rest = found.groups()
        guard = None if name is None else self._named(name)
        if isinstance(guard, str) or (guard is not None and guard.kind != "pred"):
            raise Fault(f"line {number}: {found[0]}: {name} is no predicate")
        operands = tuple(self._operand(text.strip()) for text in re.split(r"[,|]", rest) if text)
        made = Instruction(number, found[0], tuple(opcode.split(".")), operands, guard, not negated)
        self.kernel.instructions.append(made)

    def _operand(self, text: str) -> Operand:
        found = _ADDRESS.match(text)
        return self._named(text) if found is None else Address(self._named(found[1]), int(found[2] or 0))


def parse(text: str) -> Kernel:
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), 1):
        reader.read(" ".join(line.partition("//")[0].split()), number)
    return reader.kernel
