"""The ``gpuimg`` command. Each subcommand is a module of its name, imported when it is used."""

import argparse
import importlib
import os
import sys
from collections.abc import Iterable, Sequence

from .._threads.threads import threads
from .._version import __version__
from ..errors import DecodeError
from .options import UserError

_COMMANDS = {
    "preview": "write a sheet with the results of a preset or of your function",
    "demo": "preview four photos that come with gpuimg",
    "bench": "measure loading speed and bottleneck of a data set, compared with Pillow and torchvision",
    "check": "count the files of a data set by kind, find bad files, measure how long an epoch takes",
    "prepare": "write a copy of a data set with smaller images, which decode faster",
    "restore": "write the JPEG files that recoded files were made of",
    "info": "show versions, devices, decoders, and missing packages",
    "warm": "compile kernels now, for example when a container image is built",
}
_REMOVED = {
    "index": "gpuimg check counts the files of a data set; gpuimg prepare --recode writes files that decode faster, "
    "with the same pixels, or with --restart rows JPEG files whose crops do",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default that of the process, and return the exit status.

    That is 0; 1 if ``check`` or ``prepare`` found files that cannot be decoded, or if ``info`` found that nothing can
    run or that an environment variable has a wrong value; 2 for errors that the user can correct.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in _REMOVED:
        print(f"gpuimg: the command {given[0]} was removed: {_REMOVED[given[0]]}", file=sys.stderr)
        return 2
    options = parser([name for name in _COMMANDS if name in given]).parse_args(given)
    try:
        if options.command != "info":  # which reports that
            _check_threads()
        status: int = options.run(options)
    except BrokenPipeError:  # the reader, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes the rest at its exit
        return 1
    except (UserError, DecodeError, ImportError, OSError) as error:
        print(f"gpuimg: {error}", file=sys.stderr)
        return 2
    return status


def _check_threads() -> None:
    try:
        threads()
    except ValueError as error:
        raise UserError(str(error)) from error


def parser(used: Iterable[str]) -> argparse.ArgumentParser:
    """Return the parser, with the options of the commands that are used."""
    top = argparse.ArgumentParser(prog="gpuimg", description="Image preprocessing for training.")
    top.add_argument("--version", action="version", version=f"gpuimg {__version__}")
    top.epilog = "gpuimg COMMAND --help lists a command's options."
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    for name, purpose in _COMMANDS.items():
        command = commands.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")
        if name in used:
            module = importlib.import_module(f".{name}", __package__)
            module.add_options(command)
            command.epilog = f"example: {module.EXAMPLE}"
            command.set_defaults(run=module.run)
    return top
