"""The Python client by itself: it needs nothing but the standard library, and it is the service's own."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

import tightrope.service
import tightrope_client
from tightrope_client import Conflict

CLIENT = Path(__file__).resolve().parents[2] / "clients" / "python"

PROBE = """
import json, sys
before = set(sys.modules)
import tightrope_client
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""


def test_it_needs_nothing_but_the_standard_library() -> None:
    found = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    loaded = set(json.loads(found.stdout))
    assert "tightrope_client" in loaded
    assert loaded - {"tightrope_client"} <= set(sys.stdlib_module_names)
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == []


def test_no_module_of_it_needs_more() -> None:
    names = [path.stem for path in (CLIENT / "src" / "tightrope_client").glob("*.py")]
    ask = PROBE.replace("import tightrope_client", f"from tightrope_client import {', '.join(names)}")
    found = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert set(json.loads(found.stdout)) - {"tightrope_client"} <= set(sys.stdlib_module_names)


def test_it_is_the_clients_of_the_service() -> None:
    assert tightrope.service.Client is tightrope_client.Client
    assert tightrope.service.AsyncClient is tightrope_client.AsyncClient
    assert tightrope.service.ServiceError is tightrope_client.ServiceError


def test_every_public_name_is_documented() -> None:
    for name in set(tightrope_client.__all__) - {"__version__"}:
        assert getattr(tightrope_client, name).__doc__, name


def test_an_error_goes_to_another_process() -> None:
    error = Conflict(409, "differs", "another action was recorded", "visit-1")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.event_id) == ("409 differs: another action was recorded", "visit-1")
