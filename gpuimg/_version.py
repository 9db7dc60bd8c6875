"""Version and installation hints; importable without the package's dependencies."""

__version__ = "0.4.0"


def install_hint(*extras: str) -> str:
    """Return the command that installs the packages of an extra, or those of exactly one of several.

    The packages rather than the extra, for which pip would build gpuimg again.
    """
    commands = " or ".join(f"pip install {' '.join(_packages(extra))}" for extra in extras)
    return f"{commands}{', never both' if len(extras) > 1 else ''}"


def _packages(extra: str) -> list[str]:
    """Return what an extra requires by the metadata of the installed package, quoted for a shell."""
    import re  # here: most processes never need a hint
    from importlib.metadata import PackageNotFoundError, requires

    try:
        declared = requires("gpuimg") or []
    except PackageNotFoundError:  # a checkout that is not installed
        declared = []
    found: list[str] = []
    for requirement in declared:
        name, bounds, marker = re.findall(r"^([\w.-]+(?:\[.*?\])?) *([^;]*);? *(.*)", requirement)[0]
        if marker.replace("'", '"') != f'extra == "{extra}"':
            continue
        if name.startswith("gpuimg["):  # another extra
            found += _packages(name[len("gpuimg[") : -1])
        else:  # the newest will do where there is a lower bound only
            package = name + bounds if re.search("[<!]|==", bounds) else name
            found.append(package if re.fullmatch(r"[\w.-]+", package) else f'"{package}"')
    return found or [f'".[{extra}]" in a checkout of gpuimg']
