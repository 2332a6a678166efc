"""A model that a user writes in one file, without compiled code, works wherever those of the package do."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from tightrope.models import MODELS, Model, model_from_settings
from tightrope.policies.build import build_policy
from tightrope.service.http import handlers
from tightrope.service.offline.replay import verify
from tightrope.service.requests import SnapshotRequest
from tightrope.spec import make_spec, read_spec
from tightrope.sweeps import sweep
from tightrope.testing import ModelSuite, check_model
from workbench import Bench, read

EXAMPLES = Path(__file__).parents[2] / "examples"
FILE = EXAMPLES / "own_model.py"
Neighbours = MODELS.find(f"{FILE}:Neighbours", trust=True)


def model() -> Model:
    return Neighbours(4, 3, memory=80)


class TestNeighbours(ModelSuite):
    def make(self) -> Model:
        return Neighbours(3, 2)


def before(constraints: int = 1) -> tr.environments.Tabular:
    """Contexts with one x for all actions; the costs are usage less 0.5, and action 0 uses nothing."""
    return environment("before", constraints)


def after() -> tr.environments.Tabular:
    return environment("after", 1)


def environment(seen: Any, constraints: int) -> tr.environments.Tabular:
    draw = np.random.default_rng(3)
    costs = np.tile(np.linspace(0.0, 0.9, 4)[:, None] - 0.5, (5, 1, constraints))
    x = draw.uniform(0.1, 0.5, (5, 3))
    return tr.environments.Tabular(np.full(5, 0.2), x, draw.random((5, 4)), costs, costs_seen=seen)


SAFE = {"safe_action": 0, "safe_cost": -0.2}
POLICIES: dict[str, Any] = {
    "shadow-price": lambda: (tr.ShadowPrice(reward=model(), constraints=1), before()),
    "shadow-price, late": lambda: (tr.ShadowPrice(reward=model(), cost=model(), constraints=1), after()),
    "provable-shadow-price": lambda: (tr.policies.ProvableShadowPrice(model(), n_constraints=1), before()),
    "lagrangian": lambda: (tr.policies.Lagrangian(model(), n_constraints=1), before()),
    "lagrangian, late": lambda: (tr.policies.Lagrangian(model(), cost=model(), n_constraints=1), after()),
    "lag-ts": lambda: (tr.policies.LagrangianThompson(model(), n_constraints=1), before()),
    "lag-ts, late": lambda: (tr.policies.LagrangianThompson(model(), cost=model(), n_constraints=1), after()),
    "lp-ts": lambda: (tr.policies.LPThompson(model(), n_constraints=1), before()),
    "lp-ts, late": lambda: (tr.policies.LPThompson(model(), cost=model(), n_constraints=1), after()),
    "greedy": lambda: (tr.policies.Greedy(model()), before(0)),
    "linucb": lambda: (tr.policies.LinUCB(model()), before(0)),
    "lints": lambda: (tr.policies.LinTS(model()), before(0)),
    "clucb": lambda: (tr.policies.CLUCB(model(), baseline=0, baseline_reward=0.4, alpha=0.5), before(0)),
    "oplb": lambda: (tr.policies.OPLB(model(), cost=model(), **SAFE), after()),
    "safe-lucb": lambda: (
        tr.policies.SafeLUCB(model(), cost=model(), safe_actions=[0], exploration=5),
        after(),
    ),
    "safe-lts": lambda: (tr.policies.SafeLTS(model(), cost=model(), **SAFE), after()),
    "lincbwk": lambda: (tr.policies.LinCBwK(model(), cost=model(), limits=0.5, horizon=200), after()),
    "reward": lambda: (tr.PessimisticOptimistic(reward=model(), constraints=1, slater=0.2), before()),
    "cost": lambda: (
        tr.PessimisticOptimistic(reward=model(), cost=model(), constraints=1, slater=0.2),
        after(),
    ),
    "beside ridge": lambda: (
        tr.PessimisticOptimistic(reward=tr.DisjointRidge(4, 3), cost=model(), constraints=1, slater=0.2),
        after(),
    ),
    "no slater": lambda: (tr.PessimisticOptimistic(reward=model(), constraints=1), before()),
}


def test_every_policy_that_takes_models_is_here() -> None:
    takes = {
        name for name, made in tr.policies.POLICIES.items() if "reward" in inspect.signature(made).parameters
    }
    assert takes - {"pessimistic-optimistic"} <= set(POLICIES)


@pytest.mark.parametrize("name", POLICIES)
def test_in_a_simulation_and_in_a_file(name: str, tmp_path: Path) -> None:
    """Nothing is compiled, the model learns, and the policy that was saved goes on to the same bits."""
    policy, env = POLICIES[name]()
    runs = [
        tr.simulate(policy, env, 120, 2, seed=1, workers=1, optimum=0.0, keep_choices=True, compile=compile)
        for compile in (True, False)
    ]
    np.testing.assert_array_equal(runs[0].choices, runs[1].choices)
    assert policy.rounds == 0, "a simulation leaves the policy as it was"

    def offer(c: int) -> dict[str, Any]:
        given = {"features": env.features[c]}
        if policy.hooks.n_constraints:
            given["costs"] = env.features[c] if policy.hooks.cost_model() is not None else env.costs[c]
        return given

    def play(one: Any, rounds: range) -> list[bytes]:
        traces = []
        for t in rounds:
            decision = one.decide(**offer(t % 5))
            traces.append(decision.trace.tobytes())
            late = () if policy.hooks.cost_model() is None else (env.costs[t % 5, decision.action],)
            if t % 7:
                one.learn(decision.number, float(t % 3 == 0), *late)
        return traces

    play(policy, range(40))
    learnt = policy.hooks.cost_model() if name == "beside ridge" else policy.hooks.reward_model()
    assert learnt.arrays()["seen"][0] > 0
    policy.save(tmp_path / "policy")
    loaded, travelled = tr.load(tmp_path / "policy"), pickle.loads(pickle.dumps(policy))
    assert play(policy, range(40, 90)) == play(loaded, range(40, 90)) == play(travelled, range(40, 90))


def test_on_several_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes find the class."""
    monkeypatch.setattr("tightrope.engine.simulation.SERIAL_BELOW", 0)
    policy, env = tr.policies.Greedy(model()), before(0)
    one, two = (
        tr.simulate(policy, env, 30, 2, workers=workers, optimum=0.0, keep_choices=True) for workers in (1, 2)
    )
    np.testing.assert_array_equal(one.choices, two.choices)


def test_a_gpu_refuses_it() -> None:
    with pytest.raises(
        tr.InvalidInput, match="nor run a model without kernels; pass slater= or use engine='cpu'"
    ):
        tr.simulate(POLICIES["reward"]()[0], before(), 10, engine="gpu")


def test_it_learns_what_a_linear_model_can_not() -> None:
    env = tr.environments.build.ENVIRONMENTS.find(f"{FILE}:bumps", trust=True)()
    own, linear = Neighbours(3, 2, reach=0.07, memory=3000), tr.DisjointRidge(3, 2)
    draw = np.random.default_rng(0)
    for _ in range(3000):
        c, action = int(draw.integers(15)), int(draw.integers(3))
        for one in (own, linear):
            one.learn(env.features[c], float(draw.random() < env.rewards[c, action]), action)
    errors = [
        np.mean(
            [
                np.abs(one.means(np.tile(x, (3, 1)), np.arange(3)) - r)
                for x, r in zip(env.features, env.rewards)
            ]
        )
        for one in (own, linear)
    ]
    assert errors[0] < errors[1] / 2


RULES = [
    {"kind": "capacity", "action": "b", "at_most": 0.5},
    {"kind": "budget", "name": "hours", "at_most": 0.6, "seen": "after"},
]


def served(folder: Path, **policy: Any) -> Any:
    stated = {"model": "own_model.py:Neighbours", "memory": 60}
    (folder / "own_model.py").write_text(FILE.read_text(encoding="utf-8"), encoding="utf-8")
    return make_spec(
        {
            "actions": ["a", "b", "c"],
            "context": {"x": {"type": "number", "min": 0, "max": 1}},
            "rule": RULES,
            "policy": {
                "kind": "pessimistic-optimistic",
                "slater": 0.2,
                "reward": stated,
                "cost": stated,
                **policy,
            },
        },
        folder=folder,
        trust=True,
    )


def test_it_is_served_from_any_folder_and_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, random = Bench(served(tmp_path), snapshot_every=40), np.random.default_rng(0)
    monkeypatch.chdir(tmp_path.parent)

    def play(first: int, last: int) -> None:
        for i in range(first, last):
            body = {"event_id": str(i), "context": {"x": float(random.uniform())}, "explain": True}
            assert read(bench.decide(body))["explanation"]
            if i % 4:
                read(
                    bench.learn(
                        str(i), reward=float(random.uniform()), usage={"hours": float(random.uniform())}
                    )
                )

    play(0, 60)
    read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="here")))
    alive = bench.digest()
    assert verify(bench.journal).digest == alive
    bench.reopened()
    assert bench.digest() == alive
    play(60, 80)
    assert verify(bench.journal).digest == bench.digest()


def test_what_a_spec_says_of_it_is_checked(tmp_path: Path) -> None:
    for table, words in (
        ({"model": "own_model.py:Neighbors"}, "own_model.py has no class 'Neighbors'"),
        ({"model": "no_model.py:Neighbours"}, "there is no file"),
        ({"model": "own_model.py:Neighbours", "rech": 0.1}, "did you mean 'reach'"),
        ({"model": "own_model.py:Neighbours", "ridge": 0.1}, "ridge: unknown field"),
    ):
        spec = served(tmp_path, reward=table)
        with pytest.raises(tr.InvalidInput) as told:
            build_policy(spec.policies[0], spec.problem())
        assert words in str(told.value)


def test_a_copy_or_a_file_finds_the_class_again() -> None:
    own = model()
    assert own.kind == f"{FILE.resolve()}:Neighbours"
    assert repr(own) == "Neighbours(n_actions=4, n_features=3, reach=0.1, memory=80)"
    assert type(model_from_settings(own.settings())) is Neighbours
    assert tr.Ridge.kind == "ridge"

    class Steadier(tr.Ridge):
        pass

    assert Steadier(3).kind.endswith(":test_a_copy_or_a_file_finds_the_class_again.<locals>.Steadier")


def test_what_a_model_lacks_is_told() -> None:
    class Silent(Model):
        def __init__(self, n_features: int) -> None:
            self.n_features = n_features

        def means(self, features: Any = None, actions: Any = None) -> Any:
            return np.zeros(len(features))

        def learn(self, features: Any, outcome: Any, action: int | None = None) -> None:
            return

        def arrays(self) -> dict[str, Any]:
            return {}

    assert (
        "NotImplementedError: Silent must define deviations, or widths" in check_model(lambda: Silent(3))[0]
    )
    with pytest.raises(tr.InvalidInput, match="quantities, but the policy needs 2"):
        tr.PessimisticOptimistic(reward=tr.Ridge(3), cost=Silent(3), constraints=2, slater=0.1)


def test_the_page_shows_the_example() -> None:
    page = (EXAMPLES.parent / "docs" / "models.md").read_text(encoding="utf-8")
    assert inspect.getsource(Neighbours) in page


def test_it_is_26_lines_of_code() -> None:
    lines = [line for line in inspect.getsource(Neighbours).splitlines() if line.strip()]
    assert len(lines) - len([line for line in lines if line.lstrip().startswith('"""')]) == 26
    assert "in 26 lines" in (EXAMPLES.parent / "docs" / "models.md").read_text(encoding="utf-8")


def test_in_a_sweep_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = read_spec(EXAMPLES / "own-model.toml").data
    sizes = {"rounds": 20, "replications": 2}
    spec = make_spec(
        {**data, "simulation": sizes, "sweep": {"policy.reward.reach": [0.1, 0.2]}},
        folder=EXAMPLES,
        trust=True,
    )
    rows = sweep(spec, tmp_path / "sweep", workers=1).rows()
    assert rows["error"].tolist() == [None, None]


def test_the_example_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(FILE)], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "served and replayed: 401 entries" in done.stdout
    assert read_spec(EXAMPLES / "own-model.toml").policies[0].reward.model == "own_model.py:Neighbours"
