"""Policies, models and environments in a file of your own, in every command that takes a spec."""

from __future__ import annotations

import json

import pytest

from tightrope.cli import main
from tightrope.spec import read_spec
from tightrope.sweeps import cells

MINE = """
import numpy as np
import tightrope as tr
from tightrope.models.model import Model
from tightrope.policies.choices import Choice
from tightrope.policies.policy import Policy


class Always(Policy):
    _sees_costs = True

    def __init__(self, n_actions, *, n_constraints, action=0):
        self._n_actions, self._n_constraints, self.action = n_actions, n_constraints, action

    def _choose(self, offer):
        return Choice(self.action, np.zeros(len(offer.ids)), np.zeros(len(offer.ids)))


class Last(Model):
    def __init__(self, n_actions, *, n_outputs=1):
        self.n_actions, self.n_outputs = n_actions, n_outputs
        self.last, self.seen = np.zeros((n_actions, n_outputs)), np.zeros(n_actions)

    def means(self, features=None, actions=None):
        last = self.last if actions is None else self.last[actions]
        return last[:, 0] if self.n_outputs == 1 else last

    def deviations(self, features=None, actions=None):
        return 1.0 / np.sqrt(1.0 + (self.seen if actions is None else self.seen[actions]))

    def learn(self, features, outcome, action=None):
        self.last[action] = outcome
        self.seen[action] += 1.0

    def arrays(self):
        return {"last": self.last, "seen": self.seen}


def table(fair=0.5):
    return tr.environments.Tabular([1.0], rewards=[[fair, 0.75]], costs=[[[-0.25], [0.5]]], name="table")


class Shop:
    actions, constraints = ["a", "b"], 1

    def __init__(self, fair=0.5):
        self.fair = fair

    def draw(self, round):
        return {"costs": [[-0.25], [0.5]]}

    def outcome(self, context, action, rng):
        return float(rng.random() < (self.fair if action == "a" else 0.75))

    def means(self, context):
        return [self.fair, 0.75]


class Blind(Shop):
    means = None
"""

POLICY = '[policy]\nkind = "mine.py:Always"\n[sweep]\n"policy.action" = [0, 1]\n'
MODEL = '[policy]\nkind = "shadow-price"\nreward = { model = "mine.py:Last" }\n[sweep]\n"policy.caution" = [1.0, 3.0]\n'


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """A spec with an environment and a policy of mine.py, which is beside it and not where the command runs."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "mine.py").write_text(MINE)

    def write(environment, policy=POLICY):
        path = tmp_path / f"{environment}.toml"
        head = f'[environment]\nkind = "mine.py:{environment}"\nfair = 0.4\n'
        path.write_text(f"{head}[simulation]\nrounds = 60\nreplications = 2\n{policy}")
        return str(path)

    return write


def answer(capsys, *words):
    status = main([*words, "--trust", "--json"])
    told = capsys.readouterr()
    return status, json.loads(told.out) if told.out.startswith("{") else told.err


@pytest.mark.parametrize("environment", ["table", "Shop"])
def test_simulate_oracle_sweep_and_tune(spec, capsys, environment):
    path = spec(environment)
    status, told = answer(capsys, "oracle", path)
    assert status == 0
    # 0.4 + (0.75 − 0.4) / 3: a third of the rounds may go to b.
    assert told["value"] == pytest.approx(0.4 + 0.35 / 3)
    assert (told["assumptions"] is None) == (environment == "Shop")
    status, told = answer(capsys, "simulate", path)
    assert told["rows"][0]["regret"] == pytest.approx(60 * 0.35 / 3, abs=1e-6)
    status, told = answer(capsys, "sweep", path, "--workers", "1", "--out", "swept")
    assert (status, told["failed"], told["cells"]) == (0, 0, 2)
    status, _ = answer(capsys, "tune", path, "--workers", "1", "--out", "tuned")
    assert status == 0
    # The spec that it wrote stands in another folder, and finds the file all the same.
    status, told = answer(capsys, "simulate", "tuned/tuned.toml")
    assert (status, told["rows"][0]["round"]) == (0, 60)


def test_a_model_and_a_policy_in_compare(spec, capsys):
    words = [
        "--rounds",
        "60",
        "--replications",
        "2",
        "--policy",
        "uniform",
        "--workers",
        "1",
        "--out",
        "league",
    ]
    for policy in (POLICY, MODEL):
        status, told = answer(capsys, "compare", spec("table", policy), *words)
        assert status == 0
        assert {row["scenario"] for row in told["rows"]} == {"table"}
        assert len(told["rows"]) == 2
    status, told = answer(capsys, "compare", spec("Shop"), *words)
    assert status == 2
    assert "`tightrope simulate` plays those of a spec" in told


def test_cells_of_a_file_that_has_changed_run_again(spec, tmp_path):
    def ids():
        cells._file_hash.cache_clear()  # as in another process
        return [cell.id for cell in cells.Plan.of(read_spec(path, trust=True)).cells()]

    path = spec("table")
    before = ids()
    assert ids() == before
    (tmp_path / "mine.py").write_text(MINE.replace("[fair, 0.75]", "[fair, 0.95]"))
    assert not set(ids()) & set(before)


def test_where_nobody_knows_the_optimum(spec, capsys):
    path = spec("Blind")
    status, told = answer(capsys, "simulate", path)
    assert (status, told["rows"][0]["regret"]) == (0, None)
    assert main(["simulate", path, "--trust"]) == 0
    shown = capsys.readouterr().out
    assert "reward" in shown
    assert "regret is unknown: the environment does not say what the best policy would earn" in " ".join(
        shown.split()
    )
    for command in ("oracle", "sweep"):
        status, told = answer(capsys, command, path, "--out", command)
        assert status != 0
        assert "is not known" in told
