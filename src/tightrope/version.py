"""The version of the package, in a module that any other may import."""

__version__ = "0.1.0"
