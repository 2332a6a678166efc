"""What docs/clients.md shows works as it stands, against a service that runs; the TypeScript is tried in tests/clients."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tightrope.cli import main
from tightrope.service.http.server import make_service
from tightrope.spec import read_spec
from tightrope_client import AsyncClient, Client, errors
from workbench import running

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
ADDRESS = "127.0.0.1:8080"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running(make_service([read_spec(ROOT / "examples" / "hospital.toml")], database="memory:")) as web:
        yield f"{web.base_url.host}:{web.base_url.port}"


def test_the_python_runs(address: str) -> None:
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        for block in blocks("python"):
            exec(block.replace(ADDRESS, address), names)
    first, count, sixty, *rows = shown.getvalue().splitlines()
    assert first.split()[0] in read_spec(ROOT / "examples" / "hospital.toml").actions
    assert (count, sixty) == ("1", "60")
    assert len(rows) == 3
    assert rows[2].startswith("422 invalid: context.sex")
    assert isinstance(names["ward"], str)


def test_the_commands_run(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    [served, curl, openapi] = blocks("bash")
    assert served == "tightrope serve examples/hospital.toml --data data\n"
    lines = curl.replace(ADDRESS, address).splitlines()
    answers = [subprocess.run(["bash", "-ec", one], capture_output=True, check=True).stdout for one in lines]
    decision, outcome, state = map(json.loads, answers)
    assert decision["event_id"] == outcome["event_id"] == "visit-1"
    assert state["experiment"] == "ward-routing"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    assert main(openapi.split()[1:]) == 0
    api = json.loads((tmp_path / "openapi.json").read_text())
    context = api["components"]["schemas"]["DecisionRequest"]["properties"]["context"]
    assert context["anyOf"][0]["title"] == "context of ward-routing"


def test_the_table_of_calls_is_whole() -> None:
    table = PAGE[PAGE.index("| call |") : PAGE.index("### asyncio")]
    listed = set(re.findall(r"`(\w+)\(", table))
    for client in (Client, AsyncClient):
        public = {name for name in dir(client) if not name.startswith("_")} - {"close", "unanswered"}
        assert public == listed
    stated = re.search(r"`Client\(url, \*, (.*?)\)`", PAGE)
    assert stated is not None
    given = list(inspect.signature(Client).parameters.values())[1:]
    assert stated[1] == ", ".join(f"{one.name}={one.default!r}" for one in given)


def test_the_table_of_errors_is_true() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d, ]+) \|", PAGE, re.MULTILINE)
    listed = {int(status): name for name, statuses in rows for status in statuses.split(", ")}
    assert listed == {status: kind.__name__ for status, kind in errors.ERRORS_BY_STATUS.items()}
