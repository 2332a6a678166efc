"""Exit status and messages, help, a light start."""

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from cyclopts import App

from cli_tools import EXAMPLES, SMALL
from tightrope.cli import app, main
from tightrope.cli.app import FAILED, GROUPS, LABORATORY, list_in_groups
from tightrope.errors import SolverError


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["orcle"], 'Did you mean "oracle"'),
        (["oracle"], "requires an argument"),
        (["oracle", "none.toml"], "none.toml: can't be read: No such file or directory"),
        (["simulate", "{small}", "--rounds", "x"], "--rounds"),
        (["simulate", "{small}", "--rounds", "0"], "rounds must be a whole number >= 1"),
        (["simulate", "{small}", "--round", "3"], "Unknown option"),
        (["oracle", "{small}", "--baseline", "best"], "--baseline"),
        (
            ["reproduce", "mbb"],
            "study must be one of mab, hospital, bounds, tail, shadow-price, all, but got 'mbb'",
        ),
        (
            ["calibrate", "hospital", "--source", "none.csv"],
            "--source must be an existing file, but got 'none.csv'",
        ),
    ],
)
def test_bad_usage_is_2_without_a_traceback(capsys, small, argv, says):
    assert main([one.format(small=small) for one in argv]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.startswith("tightrope: ")
    assert "Traceback" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("slater = 0.5", "slatr = 0.5"), "policy[0].slatr: unknown field (did you mean 'slater'?)"),
        (("at_most = 0.5", "at_most = "), "small.toml:6:11: not valid TOML"),
        (("[simulation]", "[simulations]"), "simulations: unknown field (did you mean 'simulation'?)"),
        (('"tabular"', '"tabula"'), "environment.kind: must be one of"),
        (("at_most = 0.5", "at_most = -0.5\nrange = [0, 1]"), "no policy can meet these rules"),
    ],
)
def test_a_bad_spec_is_2_and_names_the_file(capsys, small, change, says):
    Path(small).write_text(SMALL.replace(*change))
    assert main(["simulate", small, "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"tightrope: {small}")
    assert says in captured.err
    assert captured.out == ""


def test_an_environment_that_no_policy_can_satisfy(capsys, small):
    table = "costs = [[[0.5], [0.25]]]\n[simulation]"
    tail = SMALL.split("[[policy]]", 1)[1]
    Path(small).write_text("[[policy]]" + tail.replace("[simulation]", table))
    assert main(["oracle", small]) == 2
    assert "by 0.25" in capsys.readouterr().err


def test_what_fails_is_1(capsys, small, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    assert main(["oracle", small, "--out", str(tmp_path / "file")]) == 1
    assert "file: File exists" in capsys.readouterr().err

    def stuck(*args, **kwargs):
        raise SolverError("no answer could be verified")

    monkeypatch.setattr("tightrope.oracle.solve", stuck)
    assert main(["oracle", small]) == 1
    assert "no answer could be verified" in capsys.readouterr().err


def test_an_error_of_ours_is_not_swallowed(small, monkeypatch):
    def broken(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr("tightrope.oracle.solve", broken)
    with pytest.raises(ZeroDivisionError):
        main(["oracle", small])


@pytest.mark.parametrize("columns", [80, 120])
def test_commands_are_listed_by_purpose_those_to_begin_with_first(columns):
    done = subprocess.run(
        [sys.executable, "-m", "tightrope", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": str(columns)},
    )
    groups: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        assert len(line) <= columns
        assert "…" not in line
        if title := re.match(r"╭─ (.*?) ─", line):
            groups[title[1]] = []
        elif entry := re.match(r"│ (-{0,2}[a-z]+)[ (]", line):
            groups[[*groups][-1]].append(entry[1])
    assert [*groups] == [*GROUPS]
    assert groups["Start here"] == ["init", "simulate", "serve", "evaluate", "allocate"]
    assert {name: tuple(names) for name, names in groups.items()} == {
        name: tuple(names) for name, names in GROUPS.items()
    }


def test_a_command_that_no_group_names_comes_last(capsys):
    own = App(name="tightrope", result_action="return_value")
    own.command(lambda: None, name="own", help="Mine.")
    own.command(lambda: None, name="init", help="First.")
    list_in_groups(own)
    own(["--help"])
    shown = capsys.readouterr().out
    assert shown.index("Start here") < shown.index("About Tightrope") < shown.index("Other commands")
    assert shown.index("Other commands") < shown.index("own")


@pytest.mark.parametrize(
    "command", [[], ["oracle"], ["simulate"], ["reproduce"], ["calibrate", "hospital"], ["version"]]
)
def test_help_has_an_example_for_every_command(capsys, command):
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert " ".join(["Usage: tightrope", *command]) in shown
    assert ("Example: tightrope " + " ".join(command) in " ".join(shown.split())) == bool(command)


def test_every_command_takes_json_and_out(capsys):
    for command in (["oracle"], ["simulate"], ["reproduce"], ["calibrate", "hospital"], ["version"]):
        main([*command, "--help"])
        shown = capsys.readouterr().out
        assert "--json" in shown
        assert "--out" in shown


def test_the_module_runs_and_its_start_is_light():
    code = "import sys, tightrope.cli; print([m for m in ('numpy', 'numba', 'scipy', 'highspy', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    done = subprocess.run(
        [sys.executable, "-m", "tightrope", "oracle", "none.toml"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "tightrope: none.toml: can't be read: No such file or directory\n"


def test_a_reader_that_leaves_early_is_no_crash(small):
    code = "import sys; from tightrope.cli import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", code, "oracle", small],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.close()
        complaint = process.stderr.read()
    assert process.returncode == FAILED
    assert complaint == ""


def test_every_command_is_documented():
    text = (EXAMPLES.parent / "docs" / "commands.md").read_text()
    for command in ("init", "oracle", "simulate", "reproduce", "calibrate hospital", "version"):
        assert f"## `tightrope {command}" in text
        assert f"$ tightrope {command}" in text


def test_a_command_of_the_laboratory_is_named_where_it_is_not_installed(capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["tightrope.cli.app"], "app", App(name="tightrope"))
    assert main(["compare", "--quick"]) == 2
    assert (
        capsys.readouterr().err
        == "tightrope: `tightrope compare` is part of the laboratory: pip install tightrope-lab\n"
    )


def test_the_laboratory_adds_its_commands_by_an_entry_point():
    [lab] = entry_points(group="tightrope.commands", name="lab")
    assert lab.value == "tightrope_lab.commands"
    for name in LABORATORY:
        assert name in app
