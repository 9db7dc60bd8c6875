"""Options that several commands have, and the errors of their users."""

from argparse import ArgumentParser

from .._runtimes.devices import runtime_for


class UserError(Exception):
    """An error that the user can correct; printed without a traceback."""


def add_device(command: ArgumentParser) -> None:
    """Add ``--device``."""
    command.add_argument("--device", help='"cpu", "cuda", "cuda:1" (default: a GPU if one works)')


def add_json(command: ArgumentParser) -> None:
    """Add ``--json``."""
    command.add_argument("--json", action="store_true", help="print the report as JSON")


def working(device: str | None) -> str:
    """Return the full name of the requested or default device; raise UserError if it does not work."""
    try:
        return runtime_for(device).name
    except (ValueError, RuntimeError) as error:
        raise UserError(str(error)) from error
