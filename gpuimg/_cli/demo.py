"""``gpuimg demo``: ``gpuimg preview`` of the photos that come with gpuimg."""

from argparse import ArgumentParser

from .._io.example_photos import example_photos
from . import preview
from .preview import run as run

EXAMPLE = "gpuimg demo --preset deit3_train -n 5"


def add_options(command: ArgumentParser) -> None:
    """Add the options."""
    preview.add_sheet_options(command, "demo.png")
    command.set_defaults(images=example_photos())
