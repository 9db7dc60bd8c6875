"""The version, and how to install what is missing; importable without the package's dependencies."""

__version__ = "0.1.0"


def install_hint(*extras: str) -> str:
    """How to get an extra, or exactly one of several. gpuimg is on no package index, so the command is a checkout's."""
    names = ", ".join(f"gpuimg[{extra}]" for extra in extras)
    which = "exactly one of " if len(extras) > 1 else ""
    return f'install {which}{names} (from a checkout: pip install ".[{extras[0]}]")'
