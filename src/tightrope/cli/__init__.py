"""The command `tightrope`: parse, call, print; nothing else. A module for each family of commands.

Other distributions add commands by an entry point in the group `tightrope.commands` that names a module: importing it registers
them with `tightrope.cli.app.command`. The laboratory, tightrope-lab, does so.
"""

from importlib.metadata import entry_points

from tightrope.cli.app import app, list_in_groups, main

# Each registers its commands.
from tightrope.cli import (  # isort: skip  # noqa: F401
    allocate,
    change,
    examples,
    fit,
    init,
    journals,
    service,
    simulate,
    sweep,
    version,
)

for one in entry_points(group="tightrope.commands"):
    one.load()
list_in_groups(app)

__all__ = ["app", "main"]
