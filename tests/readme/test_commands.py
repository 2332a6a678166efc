"""What the README says of its first picture, how to begin and the command line: one test for each, named after it."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import tightrope as tr
from readme_claims import COMMANDS as ALL_COMMANDS
from readme_claims import README, claim
from tightrope.cli import main
from tightrope.extras import remedy
from tightrope.service.http.server import make_service
from tightrope.spec import read_spec

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = sorted(
    set(
        re.findall(
            r"^tightrope (\w+)", ALL_COMMANDS.split("## All of them")[1].split("\n## ")[0], re.MULTILINE
        )
    )
)


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([command, "--help"]) == 0
    return capsys.readouterr().out


@claim("Every command takes --help; those that print results take --json and --out DIR")
def test_every_command_takes_help_and_those_that_print_results_take_json_and_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(COMMANDS) >= 9
    for command in COMMANDS:
        said = help_of(command, capsys)
        assert command in said
        if command not in ("serve", "calibrate"):  # the one answers callers, the other writes a file
            assert "--json" in said, command
            assert "--out" in said, command


@claim("A spec is one TOML file, the same for every command that takes one; examples/ has several")
def test_a_spec_is_one_toml_file_the_same_for_every_command_that_takes_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert len(list((ROOT / "examples").glob("*.toml"))) > 3
    spec = str(ROOT / "examples" / "hospital.toml")
    small = ["--rounds", "20", "--replications", "2"]
    for command in (
        ["oracle", spec],
        ["simulate", spec, *small],
        ["compare", spec, "--policy", "uniform", *small, "--out", str(tmp_path / "league")],
    ):
        assert main(command) == 0
        assert "ward-routing" in capsys.readouterr().out
    assert make_service([read_spec(Path(spec))], data=tmp_path / "data") is not None


@claim(
    "With nothing set and nothing known at the start, ShadowPrice has earned 98 % of what the best policy with both rules would "
    "earn after 5,000 customers, at 248 cents each; a plain bandit earns 5 % more than ShadowPrice and spends 489"
)
def test_what_the_first_picture_says_of_coupons() -> None:
    spec = importlib.util.spec_from_file_location("readme_figure", ROOT / "examples" / "readme_figure.py")
    assert spec is not None
    assert spec.loader is not None
    figure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figure)
    env = figure.world()
    ours, plain = figure.runs(env).values()
    earned = [run.average_reward.mean[-1] for run in (ours, plain)]
    assert earned[0] / tr.solve(env).value == pytest.approx(0.98, abs=0.005)
    assert earned[1] / earned[0] == pytest.approx(1.05, abs=0.005)
    assert [round(figure.spent(run)[-1]) for run in (ours, plain)] == [248, 489]
    assert ours.violation.mean[-1] == 0


@claim(
    "The base package brings policies, simulator and command line; extras bring the service, models, Parquet files and the GPU, "
    "and whatever misses one says which"
)
def test_extras_bring_the_rest_and_a_missing_one_is_named() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    base = {re.split(r"[<>=\[ ]", one)[0].lower() for one in project["dependencies"]}
    assert not base & {"uvicorn", "starlette", "scikit-learn", "pandas", "polars", "cupy", "psycopg"}
    for extra in ("service", "models", "data", "gpu"):
        assert project["optional-dependencies"][extra], extra
    for module in ("uvicorn", "apsw", "sklearn"):
        assert "pip install" in remedy(ModuleNotFoundError(f"No module named {module!r}", name=module))


@claim(
    "Start here goes from nothing to a served experiment that learns, in ten minutes, on a table that comes along"
)
def test_the_page_to_start_with_brings_its_table_and_serves_it() -> None:
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    commands = "\n".join(re.findall(r"^```bash\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    named = set(re.findall(r"examples/[\w.]+", commands))
    assert named
    for file in named:
        assert (ROOT / file).is_file(), file
    for step in (
        "pip install",
        "tightrope init --from",
        "tightrope serve",
        "/v1/outcomes",
        "tightrope replay",
    ):
        assert step in commands, step


@claim("make docs makes a site of these pages, to read and search without a network")
def test_make_docs_makes_a_site_of_these_pages() -> None:
    """What is built is looked at by `make docs` itself; here it is what it is built of."""
    assert "\ndocs: " in (ROOT / "Makefile").read_text(encoding="utf-8")
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = re.findall(r"\]\(docs/([\w/-]+\.md)[#)]", README.split("## Documentation")[1])
    assert len(pages) > 40
    for page in pages:
        assert page in menu, page
    assert "search" in menu
    assert "font: false" in menu
    assert not re.search(r"(?:script|css)\s*:.*https?://", menu)
