"""`tightrope examples`: what help names is there after it."""

import re

import pytest

from cli_tools import EXAMPLES, machine
from tightrope.cli import app, main


def test_the_files_come_as_they_are_and_what_was_changed_stays(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shown = machine(capsys, "examples")
    files = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*") if path.is_file()}
    assert set(shown["files"]) == {name for name in files if "__pycache__" not in name}
    for name in shown["files"]:
        assert (tmp_path / "examples" / name).read_bytes() == (EXAMPLES / name).read_bytes()
    spec = tmp_path / "examples" / "hospital.toml"
    spec.write_text("mine")
    assert main(["examples"]) == 2
    assert "differ (hospital.toml). Use --force to overwrite them" in capsys.readouterr().err
    assert spec.read_text() == "mine"
    assert main(["examples", "--force"]) == 0
    assert "no ward overfilled" in capsys.readouterr().out
    assert spec.read_bytes() == (EXAMPLES / "hospital.toml").read_bytes()


def test_whoever_lacks_a_file_that_help_names_is_told_where_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["oracle", "examples/hospital.toml"]) == 2
    assert "`tightrope examples` copies the examples here." in capsys.readouterr().err
    assert main(["oracle", "mine.toml"]) == 2
    assert "tightrope examples" not in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in app if not name.startswith("-")])
def test_every_example_that_help_names_is_shipped(name, capsys):
    main([name, "--help"])
    for named in re.findall(r"examples/[\w./-]+", capsys.readouterr().out):
        assert (EXAMPLES.parent / named).is_file(), named
