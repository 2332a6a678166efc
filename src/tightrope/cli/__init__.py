"""The command `tightrope`: parse, call, print; nothing else. A module for each family of commands."""

from tightrope.cli.app import app, main

# Each registers its commands.
from tightrope.cli import calibrate, examples, fit, init, journals, service, simulate, studies, sweep, version  # isort: skip  # noqa: F401

__all__ = ["app", "main"]
