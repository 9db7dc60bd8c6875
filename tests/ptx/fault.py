"""The fault of an interpreted program."""

from __future__ import annotations


class Fault(Exception):  # noqa: N818 - of a program that is tested, not of this one
    """A program does what it must not, or what the interpreter does not know; the message names the instruction."""
