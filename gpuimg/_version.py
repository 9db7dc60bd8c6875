"""The version, importable without the package's dependencies."""

__version__ = "0.1.0"
