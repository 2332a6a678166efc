"""`tightrope sweep` and `tightrope tune`."""

from __future__ import annotations

import json
import os

from sweep_tools import BANDIT, GRID, stored
from tightrope.cli import main
from tightrope.toml import dumps


def test_a_failed_cell_is_named_and_the_others_finish(tmp_path, capsys):
    data = {
        **BANDIT,
        "policy": {"kind": "pessimistic-optimistic"},
        "sweep": {"policy.slater": [0.1, 7.0, 0.5]},
    }
    (tmp_path / "s.toml").write_text(dumps(data))
    argv = ["sweep", str(tmp_path / "s.toml"), "--out", str(tmp_path / "out"), "--workers", "1", "--json"]
    assert main(argv) == 1
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert (told["cells"], told["ran"], told["failed"]) == (3, 3, 1)
    assert "1 of 3 cells failed" in shown.err
    assert "cell 1 (policy.slater = 7.0)" in shown.err
    assert "slater must lie in (0, 1], but got 7.0" in shown.err
    assert [row["policy.slater"] for row in stored(tmp_path / "out") if row["error"]] == [7.0]
    # The same again: nothing runs, and it still says what failed.
    assert main(argv) == 1
    assert json.loads(capsys.readouterr().out)["ran"] == 0
    assert main([*argv, "--retry-failed"]) == 1
    assert json.loads(capsys.readouterr().out)["ran"] == 1
    assert "7.0" in (tmp_path / "out" / "index.html").read_text()


def test_commands_for_people(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(dumps({**BANDIT, "sweep": GRID}))
    assert main(["sweep", "s.toml", "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    assert "best settings" in shown
    assert "6 of 6 cells ran now" in shown
    assert main(["sweep", "s.toml", "--workers", "1"]) == 0
    assert "nothing was left to run" in capsys.readouterr().out
    assert (tmp_path / "out" / "sweep-s" / "index.html").exists()
    assert main(["tune", "s.toml", "--target", "violation<=600", "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    assert "the spec as it stands, fresh draws" in shown
    assert "worth it" in shown
    assert os.path.join("out", "tune-s", "tuned.toml") in shown


def test_tune_where_the_spec_as_it_stands_cannot_run(tmp_path, capsys):
    """The settings are served all the same, and the words say that there was nothing to compare with."""
    spec = tmp_path / "odd.toml"
    spec.write_text(
        '[policy]\nexplore = "much"\n[environment]\nkind = "bandit"\n[simulation]\nrounds = 20\nreplications = 2\n'
        '[sweep]\n"policy.explore" = [1.0]\n'
    )
    assert (
        main(["tune", str(spec), "--target", "violation<=50", "--workers", "1", "--out", str(tmp_path)]) == 0
    )
    assert "explore must be a number, but got 'much'" in capsys.readouterr().out
