"""`docs/notation.md` names what exists: every dotted name resolves, and every file is there."""

from __future__ import annotations

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

import tightrope as tr
import tightrope_lab
from tightrope.oracle import Solution
from tightrope.policies import Decision
from tightrope.result import Result
from tightrope_lab import theory

DOCUMENT = Path(__file__).parents[2] / "docs" / "notation.md"
STANDS_FOR = {
    "policy": tr.PessimisticOptimistic,
    "decision": Decision,
    "run": Result,
    "oracle": Solution,
    "tr": tr,
    "theory": theory,
}


def rows():
    cells = [line.split("|")[1:-1] for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in cells[2:]]


def named(cell):
    """The names in a cell, without the arguments of a call."""
    return re.findall(r"`(?:\w+=)?([A-Za-z_][\w.]*)(?:\([^`]*\))?`", cell)


DOTTED = sorted({name for row in rows() for name in named(row[1]) if "." in name})
FILES = sorted({name for row in rows() for name in re.findall(r"`([^`]+)`", row[3])})


def test_the_table_is_read():
    assert {
        "kernels.queue_step",
        "kernels.pseudo_action_values",
        "schedules.power_law",
        "policy.queue",
    } <= set(DOTTED)
    assert len(DOTTED) > 30


@pytest.mark.parametrize("name", DOTTED)
def test_every_name_resolves(name):
    head, *rest = name.split(".")
    if head in STANDS_FOR:
        start = STANDS_FOR[head]
    elif head[0].isupper():
        start = getattr(tr, head)
    else:
        start = importlib.import_module(f"tightrope.{head}")
    try:
        reduce(getattr, rest, start)
    except AttributeError:
        # A field of a dataclass that has no default.
        assert rest[0] in getattr(start, "__annotations__", {}), name


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_there(name):
    assert any((Path(package.__file__).parent / name).exists() for package in (tr, tightrope_lab))
