"""Packages that only some parts of Tightrope need: what brings each, and words for its absence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

# By the name that is imported: what the package is called, and what to install. Kept in step with pyproject.toml by the tests.
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
    """Whatever is imported within: where it is missing, the error says what needs it and how to install it."""
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
    """The error's own words; where these are Python's, what is missing and how to install it."""
    known = PACKAGES.get(package_of(error))
    if known is None or "pip install" in str(error):
        return str(error)
    name, install = known
    return f"{name} is not installed: pip install {install}"
