"""Version and installation hints; importable without the package's dependencies."""

__version__ = "0.2.0"


def install_hint(*extras: str) -> str:
    """Return instructions to install an extra, or exactly one of several, from a checkout: gpuimg is on no index."""
    names = ", ".join(f"gpuimg[{extra}]" for extra in extras)
    which = "exactly one of " if len(extras) > 1 else ""
    return f'install {which}{names} (from a checkout: pip install ".[{extras[0]}]")'
