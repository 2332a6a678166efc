"""The version of the package, where any module may ask for it."""

__version__ = "0.1.0"
