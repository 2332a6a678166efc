"""Packages that only some parts of Tightrope need: how to install each, and the error if one is missing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

# By import name: the package's name, and what to install. Tests keep it in step with pyproject.toml.
PACKAGES: Final = {
    "apsw": ("apsw", "'tightrope[service]'"),
    "httptools": ("httptools", "'tightrope[service]'"),
    "starlette": ("Starlette", "'tightrope[service]'"),
    "tightrope_client": ("tightrope-client", "'tightrope[service]'"),
    "uvicorn": ("uvicorn", "'tightrope[service]'"),
    "psycopg": ("psycopg", "'tightrope[postgres]'"),
    "ray": ("Ray", "'tightrope[ray]'"),
    "cupy": ("CuPy", "'tightrope[gpu]'"),
    "pyarrow": ("pyarrow", "'tightrope[data]'"),
    "sklearn": ("scikit-learn", "'tightrope[models]'"),
    "pandas": ("pandas", "pandas"),
    "polars": ("polars", "polars"),
}


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """If an import in the block fails, the error says what needs the package and how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        known = PACKAGES.get(package_of(error))
        if known is None:
            raise
        name, install = known
        message = f"{what} needs {name}, which is not installed: pip install {install}"
        raise ModuleNotFoundError(message, name=error.name) from error


def package_of(error: ModuleNotFoundError) -> str:
    return str(error.name).partition(".")[0]


def remedy(error: ModuleNotFoundError) -> str:
    """The error's message; if it is Python's own, what is missing and how to install it."""
    known = PACKAGES.get(package_of(error))
    if known is None or "pip install" in str(error):
        return str(error)
    name, install = known
    return f"{name} is not installed: pip install {install}"
