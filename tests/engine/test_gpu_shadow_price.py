"""The shadow-price policy on a GPU, without one: its CUDA source, compiled for the host, against the CPU engine."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from gpu_host import COMPILER, Host
from tightrope.engine import gpu, gpu_program
from tightrope.engine.gpu import simulate_many
from tightrope.environments import Tabular, bandit, hospital
from tightrope.errors import InvalidInput
from tightrope.kernels import shadow

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler (g++ or clang++)")
AFTER = {"costs_seen": "after", "cost_noise": "bernoulli"}


def world(
    *,
    C: int = 9,
    J: int = 3,
    K: int = 2,
    p: int = 3,
    one_row: bool = False,
    sleeping: bool = False,
    costs: Any = None,
    **rest: Any,
) -> Tabular:
    """A random environment; `one_row`: one feature vector for all actions; `costs` (J, K) or of a shape that fits."""
    draw = np.random.default_rng(1)
    available = draw.random((C, J)) < 0.7
    available[:, 0] |= ~available.any(axis=1)
    return Tabular(
        draw.dirichlet(np.ones(C)),
        5.0 * draw.normal(size=(C, p) if one_row else (C, J, p)),
        draw.uniform(0.1, 0.9, (C, J)),
        draw.uniform(-0.8, 0.5, (C, J, K)) if costs is None else np.broadcast_to(costs, (C, J, K)),
        available=available if sleeping else None,
        **rest,
    )


def rare_and_valuable(**rest: Any) -> Tabular:
    """One context in 33 earns a hundred times as much, and each action something else there."""
    draw = np.random.default_rng(2)
    C, J = 8, 3
    x, rewards = draw.normal(size=(C, 2)), draw.uniform(0.2, 0.8, (C, J))
    rewards[0] = 0.0, 40.0, 90.0
    weights = np.append(0.03, np.full(C - 1, 0.97 / (C - 1)))
    rare = np.column_stack([x, np.arange(C) == 0])
    return Tabular(
        weights,
        rare,
        rewards,
        np.broadcast_to([[-0.3], [0.1], [0.5]], (C, J, 1)),
        reward_noise="none",
        **rest,
    )


def policy(reward: Any, **rest: Any) -> tr.ShadowPrice:
    return tr.ShadowPrice(reward=reward, **{"constraints": 2, **rest})


CASES: dict[str, tuple[tr.ShadowPrice, Tabular]] = {
    "before, a row for each action": (policy(tr.Ridge(3)), world()),
    "before, one row and a model for each action": (policy(tr.DisjointRidge(3, 3)), world(one_row=True)),
    "before, a row and a model for each action": (policy(tr.DisjointRidge(3, 3)), world()),
    "before, the same costs in every context": (
        policy(tr.Ridge(3), constraints=3),
        world(K=3, costs=np.eye(3) - 0.4),
    ),
    "after, a row for each action": (policy(tr.Ridge(3), cost=tr.Ridge(3)), world(**AFTER)),
    "after, a model for each action, ranges known": (
        policy(tr.DisjointRidge(3, 3), cost=tr.DisjointRidge(3, 3), cost_range=(-1.0, 1.0)),
        world(
            one_row=True, costs_seen="after", cost_noise="gaussian", cost_scale=0.3, reward_noise="gaussian"
        ),
    ),
    "after, arms": (
        policy(tr.ArmMeans(4), cost=tr.ArmMeans(4), constraints=1, explore=0.5),
        bandit(threshold=0.1),
    ),
    "actions that sleep": (policy(tr.Ridge(3)), world(sleeping=True, reward_noise="none")),
    "a guard": (policy(tr.Ridge(3), guard=True, caution=0.0), world()),
    "a memory that is soon full": (policy(tr.Ridge(3), memory=20), world(C=40)),
    "contexts that offer the same": (policy(tr.ArmMeans(3), cost=tr.ArmMeans(3)), world(**AFTER)),
    "rows drawn in several rounds": (policy(tr.Ridge(60)), world(C=100, p=60)),
    "rules that can't be met": (policy(tr.Ridge(3)), world(costs=[[0.9, -0.1], [0.3, 0.2], [0.1, 0.4]])),
    "a rare, valuable context": (policy(tr.DisjointRidge(3, 3), constraints=1), rare_and_valuable()),
    "no rules": (policy(tr.Ridge(3), constraints=0), world()),
    "no draws": (policy(tr.DisjointRidge(3, 3), explore=0.0), world(one_row=True)),
}


def assert_same(one: tr.Result, other: tr.Result) -> None:
    np.testing.assert_array_equal(one.choices, other.choices)
    np.testing.assert_array_equal(one.counts, other.counts)
    np.testing.assert_array_equal(one.last_violation, other.last_violation)
    for name in ("reward", "observed_reward", "cost", "mean_cost"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=1e-9, err_msg=name)


def both(
    case: tuple[tr.ShadowPrice, Tabular], rounds: int, replications: int, device: Host
) -> tuple[tr.Result, tr.Result]:
    """On the CPU, and by the GPU's source in double precision."""
    run = {"seed": 3, "optimum": 0.0, "keep_choices": True}
    expected = tr.simulate(*case, rounds=rounds, replications=replications, **run)
    (there,) = simulate_many(
        [case[0]], case[1], rounds, replications, precision="double", device=device, **run
    )
    return expected, there


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_double_precision_makes_the_choices_of_the_cpu(name: str) -> None:
    expected, there = both(CASES[name], 400, 11, Host())
    assert len(np.unique(expected.choices)) > 1
    assert_same(there, expected)


@needs_compiler
@pytest.mark.parametrize(
    "name",
    [
        "before, a row for each action",
        "before, the same costs in every context",
        "after, a row for each action",
    ],
)
def test_so_it_does_where_lanes_share_a_replication(name: str) -> None:
    expected, there = both(CASES[name], 18, 3, Host(lanes=4))
    assert_same(there, expected)


def extreme(*, sizes: tuple[float, ...], rules: tuple[float, float], reward: float, **rest: Any) -> Tabular:
    """Features of these sizes, of the first in the first context, rules with costs of such sizes, and rewards of one."""
    draw = np.random.default_rng(1)
    features = draw.normal(size=(9, 3, 3))
    scale = draw.choice(sizes, features.shape)
    scale[0] = sizes[0]
    ends = np.array(rules)
    return Tabular(
        draw.dirichlet(np.ones(9)),
        np.clip(features * scale, -1e30, 1e30),
        reward * draw.uniform(0.1, 0.9, (9, 3)),
        ends * draw.uniform(-0.8, 0.5, (9, 3, 2)),
        cost_range=np.stack([-ends, ends], axis=1),
        reward_noise="none",
        **rest,
    )


EXTREMES: dict[str, tuple[tr.ShadowPrice, Tabular]] = {
    "costs": (
        policy(tr.Ridge(3)),
        extreme(sizes=(1.0, 1e3), rules=(1e30, 1e-60), reward=1.0),
    ),
    "features too small to tell": (
        policy(tr.Ridge(3), guard=True),
        extreme(sizes=(1e-60, 1e-55, 1.0), rules=(1e30, 1e-45), reward=1e-58),
    ),
    "late costs and rewards": (
        policy(tr.Ridge(3), cost=tr.Ridge(3)),
        extreme(sizes=(1.0, 1e2), rules=(1e-60, 1e-20), reward=1e-60, costs_seen="after"),
    ),
    "hardly a wall": (
        policy(tr.Ridge(3), caution=1e-45),
        extreme(sizes=(1.0,), rules=(1e30, 1.0), reward=1e30),
    ),
}


@needs_compiler
@pytest.mark.parametrize("name", EXTREMES)
def test_so_it_does_with_extreme_numbers(name: str) -> None:
    expected, there = both(EXTREMES[name], 100, 11, Host())
    np.testing.assert_array_equal(there.choices, expected.choices)
    np.testing.assert_allclose(there.reward, expected.reward, rtol=1e-12)
    np.testing.assert_allclose(there.cost, expected.cost, rtol=1e-9)


@needs_compiler
@pytest.mark.parametrize("precision", ["single", "double"])
def test_rows_too_large_for_its_digits_leave_every_action_worth_a_number(precision: Any) -> None:
    one = policy(tr.Ridge(3), constraints=0)
    env = extreme(sizes=(1e-3, 1.0, 1e20, 1e30), rules=(1.0, 1.0), reward=1.0)
    (run,) = simulate_many(
        [one], env, 100, 11, 3, optimum=0.0, precision=precision, keep_choices=True, device=Host()
    )
    # Where no value is a number, the first action is taken.
    assert (np.bincount(run.choices[:, 50:].ravel(), minlength=3) > 50).all()


def test_the_cases_are_what_they_are_called() -> None:
    def macros(name: str) -> Any:
        return gpu_program.program_for(*CASES[name], "double", False)

    assert macros("before, the same costs in every context")["COMMON_COSTS"] == 1
    assert macros("before, a row for each action")["COMMON_COSTS"] == 0
    lasting = macros("rows drawn in several rounds")
    assert 100 * 3 * float(lasting["DRAW_WORK"]) > 2 * shadow.BUDGET
    unmet, env = CASES["rules that can't be met"]
    twin = unmet.copy()
    for i in range(200):
        c = i % env.n_contexts
        twin.learn(twin.decide(env.features[c], costs=env.costs[c]), 0.5 * (i % 2))
    assert twin.infeasible.any()


@needs_compiler
def test_the_hospital_and_simulate_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "cuda_device", Host)
    env, wards = hospital("any"), policy(tr.DisjointRidge(6, 10), constraints=18)
    settings: dict[str, Any] = {"rounds": 2000, "replications": 3, "seed": 1, "keep_choices": True}
    expected = tr.simulate(wards, env, **settings)
    run = tr.simulate(wards, env, engine="gpu-double", **settings)
    assert_same(run, expected)
    assert (run.policy, run.settings["engine"]) == ("shadow-price", "gpu, double precision")


@needs_compiler
@pytest.mark.parametrize(
    "name", ["before, a row for each action", "after, a row for each action", "hospital"]
)
def test_single_precision_has_the_same_regret(name: str) -> None:
    case = CASES.get(name, (policy(tr.DisjointRidge(6, 10), constraints=18), hospital("any")))
    double, single = (
        simulate_many([case[0]], case[1], 1500, 40, 7, precision=precision, keep_choices=True, device=Host())[
            0
        ]
        for precision in ("double", "single")
    )
    one, other = double.reward[:, -1], single.reward[:, -1]
    assert abs(one.mean() - other.mean()) < 2 * np.hypot(one.std(), other.std()) / np.sqrt(40)
    assert (single.choices == double.choices).mean() > 0.9


@needs_compiler
def test_many_settings_share_a_launch_and_stay_apart() -> None:
    env, host = world(), Host()
    policies = [policy(tr.Ridge(3), explore=e, caution=c) for e, c in ((1.0, 3.0), (0.3, 3.0), (1.0, 1.0))]
    runs = simulate_many(
        [*policies, tr.policies.RoundRobin(3)],
        env,
        200,
        9,
        3,
        optimum=0.0,
        keep_choices=True,
        precision="double",
        device=host,
    )
    assert host.launches == 2
    for one, run in zip(policies, runs):
        assert_same(
            run, tr.simulate(one, env, rounds=200, replications=9, seed=3, optimum=0.0, keep_choices=True)
        )


@needs_compiler
def test_neither_batches_nor_where_the_state_lies_changes_anything() -> None:
    case = CASES["after, a row for each action"]
    small, poor = Host(memory_bytes=2**16), Host(shared_bytes=1024)
    for device in (small, poor):
        expected, there = both(case, 100, 21, device)
        assert_same(there, expected)
    assert small.launches > 1
    assert gpu_program.program_for(*case, "double", True, 1024)["HOT_IN_SHARED"] == 0


def played(one: tr.ShadowPrice, env: Tabular) -> tr.ShadowPrice:
    one.learn(one.decide(env.features[0], costs=env.costs[0]), 0.5)
    return one


def taught() -> tr.ShadowPrice:
    one = policy(tr.Ridge(3))
    one.warm_start(np.ones((2, 3)), None, [0.0, 1.0])
    return one


@pytest.mark.parametrize(
    ("one", "env", "message"),
    [
        (
            played(policy(tr.Ridge(3)), world()),
            world(),
            "from its first round on, but this one has 1 rounds.*engine='cpu'",
        ),
        (taught(), world(), "has learnt 2 outcomes.*engine='cpu'"),
        (policy(tr.Ridge(3)), world(cost_noise="bernoulli"), "seen before acting are random.*engine='cpu'"),
        (policy(tr.Ridge(3), constraints=1), world(), "but the policy has 1"),
        (policy(tr.Ridge(257)), world(p=257), "up to 256 features.*engine='cpu'"),
    ],
)
def test_refuses_what_the_kernel_does_not_do(one: tr.ShadowPrice, env: Tabular, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        simulate_many([one], env, 10, optimum=0.0)


def test_refuses_more_rounds_than_single_precision_is_good_for() -> None:
    with pytest.raises(InvalidInput, match=r"2,000,000 rounds.*precision='double'"):
        simulate_many([policy(tr.Ridge(3))], world(), 2_000_001, record=[1], optimum=0.0)


@needs_compiler
def test_needs_nothing_but_numpy() -> None:
    script = """
        import sys

        BLOCKED = {"numba", "scipy", "highspy", "rich", "joblib", "matplotlib", "cyclopts"}

        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in BLOCKED:
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Blocker())
        from gpu_host import Host
        import tightrope as tr
        from tightrope.engine.gpu import simulate_many

        env = tr.environments.hospital("any")
        policy = tr.ShadowPrice(reward=tr.DisjointRidge(6, 10), constraints=18)
        (run,) = simulate_many([policy], env, 300, 3, 1, precision="double", device=Host())
        assert not BLOCKED & {name.split(".")[0] for name in sys.modules}
        print(*run.counts[:, -1].ravel())
    """
    path = {
        "PYTHONPATH": f"{Path(gpu.__file__).parents[2]}:{Path(__file__).parents[1]}",
        "PATH": "/usr/bin:/bin",
    }
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, env=path, check=False
    )
    assert told.returncode == 0, told.stderr
    wards = policy(tr.DisjointRidge(6, 10), constraints=18)
    run = tr.simulate(wards, hospital("any"), rounds=300, replications=3, seed=1)
    assert [int(n) for n in told.stdout.split()] == run.counts[:, -1].ravel().tolist()
