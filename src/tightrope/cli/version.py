"""`tightrope version`."""

from __future__ import annotations

from tightrope.cli.app import DEFAULT, Output, command
from tightrope.version import __version__


@command("tightrope version --json")
def version(*, output: Output = DEFAULT) -> None:
    """The versions of Tightrope, Python and the libraries that numbers depend on."""
    import platform
    from importlib.metadata import version as installed

    versions = {"tightrope": __version__, "python": platform.python_version()}
    versions |= {name: installed(name) for name in ("numpy", "scipy", "numba", "highspy")}
    lines = "\n".join(f"{name} {number}" for name, number in versions.items())
    output.keep("version.json", versions)
    output.show(versions, lines)
