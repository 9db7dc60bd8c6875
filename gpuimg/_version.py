"""Version and installation hints; importable without the package's dependencies."""

__version__ = "0.3.0"


def install_hint(*extras: str) -> str:
    """Return the command that installs an extra, or exactly one of several, from a checkout: gpuimg is on no index."""
    commands = " or ".join(f'pip install ".[{extra}]"' for extra in extras)
    return f"in a checkout of gpuimg, {commands}{', never both' if len(extras) > 1 else ''}"
