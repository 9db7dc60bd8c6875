"""Calls, by putting the called function's instructions in their place: there is no recursion in what is tested.

A parameter of a call becomes a register; its stores and loads become moves.
"""

from __future__ import annotations

from dataclasses import replace

from .fault import Fault
from .parse import SIZES, Address, Group, Instruction, Kernel, Name, Negated, Operand, Register, Variable

_DEPTH = 30


def inlined(kernel: Kernel, functions: dict[str, Kernel], depth: int = 0) -> Kernel:
    """A kernel without calls."""
    if not any(i.parts[0] == "call" for i in kernel.instructions):
        return kernel
    if depth > _DEPTH:
        raise Fault(f"{kernel.name} calls itself")
    made = replace(
        kernel, instructions=[], labels={}, tables=dict(kernel.tables), registers=list(kernel.registers),
        variables=[one for one in kernel.variables if one.space != "param"],
    )  # fmt: skip
    slots = {one.name: _slot(made, one) for one in kernel.variables if one.space == "param"}
    labels: dict[int, list[str]] = {}
    for label, number in kernel.labels.items():
        labels.setdefault(number, []).append(label)
    for number, i in enumerate([*kernel.instructions, None]):
        made.labels.update((label, len(made.instructions)) for label in labels.get(number, []))
        if i is not None and i.parts[0] == "call":
            _call(made, i, slots, functions, depth)
        elif i is not None:
            made.instructions.append(_moved(i, slots))
    return made


def _slot(kernel: Kernel, parameter: Variable) -> Register:
    if parameter.size not in (1, 2, 4, 8):
        raise Fault(f"{parameter.name}: a call's parameter of {parameter.size} bytes is not known")
    kind = f"b{8 * max(parameter.size, 2)}"
    register = Register(len(kernel.registers), f"%{parameter.name}", kind)
    kernel.registers.append(register)
    return register


def _moved(i: Instruction, slots: dict[str, Register]) -> Instruction:
    """``st.param`` and ``ld.param`` of a call's parameter as a move."""
    if i.parts[0] not in ("ld", "st") or "param" not in i.parts:
        return i
    place = i.operands[i.parts[0] == "ld"]
    if not isinstance(place, Address) or not isinstance(place.base, Name) or place.base.text not in slots:
        return i
    if place.offset != 0:
        raise Fault(f"{i}: a part of a call's parameter is not known")
    slot = slots[place.base.text]
    kind = f"b{8 * SIZES[i.parts[-1]]}"
    if SIZES[i.parts[-1]] < SIZES[slot.kind]:  # extended as loads are
        source = f"u{8 * SIZES[slot.kind]}"
        narrow = f"u{8 * SIZES[i.parts[-1]]}"
        parts: tuple[str, ...] = ("cvt", narrow, source) if i.parts[0] == "ld" else ("cvt", source, narrow)
    else:
        parts = ("mov", kind)
    operands: tuple[Operand, ...] = (slot, i.operands[1]) if i.parts[0] == "st" else (i.operands[0], slot)
    return replace(i, parts=parts, operands=operands)


def _call(made: Kernel, i: Instruction, slots: dict[str, Register], functions: dict[str, Kernel], depth: int) -> None:
    groups = [operand for operand in i.operands if isinstance(operand, Group)]
    names = [operand.text for operand in i.operands if isinstance(operand, Name)]
    if len(names) != 1 or names[0] not in functions or i.guard is not None:
        raise Fault(f"{i}: such a call is not known")
    function = inlined(functions[names[0]], functions, depth + 1)
    results = groups[:-1] if i.operands and isinstance(i.operands[0], Group) else []
    given = groups[-1].items if len(groups) > len(results) else ()
    outs = results[0].items if results else ()
    if len(given) != len(function.parameters) or len(outs) != len(function.results):
        raise Fault(f"{i}: {names[0]} takes {len(function.parameters)} and gives {len(function.results)} values")
    own = {}
    for variable, operand in zip([*function.parameters, *function.results], [*given, *outs], strict=True):
        if isinstance(operand, Name) and operand.text in slots:
            own[variable.name] = slots[operand.text]
        elif isinstance(operand, Register):
            own[variable.name] = operand
        else:
            raise Fault(f"{i}: {operand} is no parameter of a call")
    _paste(made, function, own, f"${len(made.instructions)}")


def _paste(made: Kernel, function: Kernel, slots: dict[str, Register], tag: str) -> None:
    """Return a function's instructions, with new registers and labels."""
    shift = len(made.registers)
    made.registers += [Register(r.number + shift, r.name, r.kind) for r in function.registers]
    slots = slots | {one.name: _slot(made, one) for one in function.variables if one.space == "param"}
    made.variables += [one for one in function.variables if one.space != "param" and one not in made.variables]
    start = len(made.instructions)
    after = f"$after{tag}"
    names = {label: label + tag for label in [*function.labels, *function.tables]}

    def own(operand: Operand) -> Operand:
        if isinstance(operand, Register):
            return made.registers[operand.number + shift]
        if isinstance(operand, Name):
            return Name(names.get(operand.text, operand.text))
        if isinstance(operand, Address):
            base = operand.base
            return Address(made.registers[base.number + shift] if isinstance(base, Register) else base, operand.offset)
        if isinstance(operand, Group):
            return Group(tuple(own(item) for item in operand.items))
        if isinstance(operand, Negated):
            return Negated(made.registers[operand.register.number + shift])
        return operand

    for i in function.instructions:
        guard = None if i.guard is None else made.registers[i.guard.number + shift]
        if i.parts[0] == "ret":
            made.instructions.append(replace(i, parts=("bra",), operands=(Name(after),), guard=guard))
            continue
        copied = replace(i, operands=tuple(own(operand) for operand in i.operands), guard=guard)
        made.instructions.append(_moved(copied, slots))
    made.labels.update((label + tag, start + number) for label, number in function.labels.items())
    made.tables.update((name + tag, [label + tag for label in table]) for name, table in function.tables.items())
    made.labels[after] = len(made.instructions)
