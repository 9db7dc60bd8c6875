"""``gpuimg demo``: ``gpuimg preview`` of the photos that come with gpuimg."""

from argparse import ArgumentParser
from pathlib import Path

from . import preview
from .preview import run as run

EXAMPLE = "gpuimg demo --preset deit3_train -n 5"


def add_options(command: ArgumentParser) -> None:
    """Add the options."""
    preview.add_sheet_options(command, "demo.png")
    command.set_defaults(images=sorted(Path(__file__).with_name("photos").glob("*.jpg")))
