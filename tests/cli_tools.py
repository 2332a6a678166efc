"""Calling commands in tests."""

import json
from pathlib import Path

from tightrope.cli import main

EXAMPLES = Path(__file__).parents[1] / "examples"


SMALL = """
actions = ["a", "b"]
[[rule]]
kind = "budget"
name = "h"
at_most = 0.5
usage = { a = 0.0, b = 1.0 }
[[policy]]
name = "one"
kind = "pessimistic-optimistic"
slater = 0.5
[[policy]]
name = "two"
kind = "pessimistic-optimistic"
slater = 0.1
[environment]
kind = "tabular"
weights = [1.0]
rewards = [[0.2, 0.8]]
[simulation]
rounds = 40
replications = 3
seed = 7
"""


def machine(capsys, *argv):
    assert main([*map(str, argv), "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    return json.loads(out)
