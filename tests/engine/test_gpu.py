"""The GPU engine without a GPU: its CUDA source, compiled for the host, against the CPU engine."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from gpu_host import COMPILER, Host
from policy_tools import unwatched
from tightrope import kernels
from tightrope.engine import gpu, gpu_arrays, gpu_program
from tightrope.engine.gpu import simulate_many
from tightrope.environments import Tabular, bandit, hospital
from tightrope.environments.hospital import OPTIMA
from tightrope.errors import InvalidInput

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler (g++ or clang++)")
POWERS = {"V": tr.Power(2.0, 0.5), "epsilon": tr.Power(0.5, -0.5)}


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


def world(
    *,
    C: int = 7,
    J: int = 3,
    K: int = 2,
    p: int = 3,
    shared: bool = False,
    seed: int = 0,
    sleeping: bool = False,
    **rest: Any,
) -> Tabular:
    """A random environment; `shared`: one feature vector for all actions."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(C, p) if shared else (C, J, p))
    x /= 1.05 * np.linalg.norm(x, axis=-1, keepdims=True)
    available = draw.random((C, J)) < 0.7
    available[:, 0] |= ~available.any(axis=1)
    return Tabular(
        draw.dirichlet(np.ones(C)),
        x,
        draw.uniform(0.1, 0.9, (C, J)),
        draw.uniform(-0.8, 0.5, (C, J, K)),
        available=available if sleeping else None,
        **rest,
    )


def po(reward: Any, **rest: Any) -> tr.PessimisticOptimistic:
    return tr.PessimisticOptimistic(reward=reward, **{**POWERS, "constraints": 2, **rest})


AFTER = {"costs_seen": "after", "cost_noise": "bernoulli"}
CASES: dict[str, tuple[Any, Tabular]] = {
    "A, ridge": (po(tr.Ridge(3, bonus=0.3), horizon=500), world()),
    "A, disjoint ridge, one row, no horizon": (po(tr.DisjointRidge(3, 3, bonus=0.3)), world(shared=True)),
    "A, disjoint ridge, a row for each action": (po(tr.DisjointRidge(3, 3, bonus=0.3), horizon=500), world()),
    "A, many features": (po(tr.Ridge(12, bonus=0.1), horizon=500), world(p=12)),
    "A, the paper's schedules": (
        tr.PessimisticOptimistic(reward=tr.Ridge(3), constraints=2, slater=0.3, horizon=500),
        world(),
    ),
    "A, capped": (
        tr.PessimisticOptimistic(
            reward=tr.Ridge(3, bonus=0.02), constraints=2, slater=0.3, horizon=500, tightening="capped"
        ),
        world(reward_noise="gaussian", reward_scale=3.0),
    ),
    "A, arms, random costs": (po(tr.ArmMeans(3)), world(cost_noise="bernoulli")),
    "A, Gaussian": (
        po(tr.Ridge(3, bonus=0.3), horizon=500),
        world(cost_noise="gaussian", cost_scale=0.3, reward_noise="gaussian"),
    ),
    "A, sleeping": (po(tr.Ridge(3, bonus=0.3), horizon=500), world(sleeping=True, reward_noise="none")),
    "B, ridge": (po(tr.Ridge(3, bonus=0.3), cost=tr.Ridge(3, bonus=0.3), horizon=500), world(**AFTER)),
    "B, disjoint ridge, paper's schedules": (
        tr.PessimisticOptimistic(
            reward=tr.DisjointRidge(3, 3), cost=tr.DisjointRidge(3, 3), constraints=2, slater=0.3, horizon=500
        ),
        world(shared=True, **AFTER),
    ),
    "B, arms for the reward, ridge for costs": (
        po(tr.ArmMeans(3), cost=tr.Ridge(3, bonus=0.2), horizon=500),
        world(**AFTER),
    ),
    "B, ridge for the reward, arms for costs": (
        po(tr.Ridge(3, bonus=0.2), cost=tr.ArmMeans(3), horizon=500),
        world(costs_seen="after", cost_noise="gaussian", sleeping=True),
    ),
    "B, arms": (
        po(tr.ArmMeans(4), cost=tr.ArmMeans(4), constraints=1, cost_range=(-0.1, 0.9)),
        bandit(threshold=0.1),
    ),
    "LinUCB": (tr.policies.LinUCB(tr.Ridge(3, bonus=0.3), horizon=500), world()),
    "LinUCB, no constraints": (tr.policies.LinUCB(tr.ArmMeans(3)), world(K=0)),
    "OPB": (tr.policies.OPB(4, safe_cost=-0.1, horizon=500, cost_range=(-0.1, 0.9)), bandit(threshold=0.1)),
    "round-robin": (tr.policies.RoundRobin(3, shares=[0.5, 0.3, 0.2]), world(sleeping=True)),
    "uniform": (tr.policies.Uniform(3), world(sleeping=True, **AFTER)),
    "oracle": (
        tr.policies.Oracle(np.random.default_rng(1).dirichlet(np.ones(3), 7)),
        world(cost_noise="gaussian"),
    ),
}
LARGE: dict[str, tuple[Any, Tabular]] = {
    "A, ridge": (po(tr.Ridge(37, bonus=0.05), horizon=500), world(p=37, J=9)),
    "A, disjoint ridge, sleeping": (
        po(tr.DisjointRidge(17, 5, bonus=0.1), horizon=500),
        world(p=5, J=17, shared=True, sleeping=True, cost_noise="bernoulli"),
    ),
    "B, ridge": (
        po(tr.Ridge(70, bonus=0.05), cost=tr.Ridge(70, bonus=0.05), horizon=500),
        world(p=70, costs_seen="after"),
    ),
    "B, arms": (po(tr.ArmMeans(17), cost=tr.ArmMeans(17)), world(J=17, **AFTER)),
    "A, capped": (
        tr.PessimisticOptimistic(
            reward=tr.Ridge(37, bonus=0.0), constraints=2, slater=0.3, horizon=500, tightening="capped"
        ),
        world(p=37, J=9, reward_noise="gaussian", reward_scale=3.0),
    ),
    "A, many constraints": (po(tr.Ridge(3, bonus=0.3), constraints=40), world(K=40)),
}


def assert_same(one: tr.Result, other: tr.Result) -> None:
    np.testing.assert_array_equal(one.choices, other.choices)
    np.testing.assert_array_equal(one.counts, other.counts)
    np.testing.assert_array_equal(one.last_violation, other.last_violation)
    for name in ("reward", "observed_reward", "cost", "mean_cost"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=1e-9, err_msg=name)


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_double_precision_makes_the_choices_of_the_cpu(name: str, host: Host) -> None:
    policy, env = CASES[name]
    expected = tr.simulate(policy, env, rounds=400, replications=35, seed=3, optimum=0.0, keep_choices=True)
    (run,) = simulate_many(
        [policy], env, 400, 35, 3, optimum=0.0, keep_choices=True, precision="double", device=host
    )
    assert len(np.unique(expected.choices)) > 1
    assert_same(run, expected)


@needs_compiler
@pytest.mark.parametrize("name", LARGE)
def test_so_it_does_where_a_block_runs_a_replication(name: str, host: Host) -> None:
    policy, env = LARGE[name]
    assert gpu_program.program_for(policy, env, "double", False).kernel == gpu_program.ONE_BLOCK
    expected = tr.simulate(policy, env, rounds=10, replications=2, seed=3, optimum=0.0, keep_choices=True)
    (run,) = simulate_many(
        [policy], env, 10, 2, 3, optimum=0.0, keep_choices=True, precision="double", device=host
    )
    assert len(np.unique(expected.choices)) > 1
    assert_same(run, expected)


@needs_compiler
def test_single_precision_makes_almost_the_same_choices(host: Host) -> None:
    policy, env = CASES["A, ridge"]
    double, single = (
        simulate_many([policy], env, 400, 35, 3, optimum=0.0, keep_choices=True, precision=p, device=host)[0]
        for p in ("double", "single")
    )
    assert (single.choices == double.choices).mean() > 0.98
    assert single.settings["engine"] == "gpu, single precision"


@needs_compiler
def test_many_settings_share_a_launch_and_stay_apart(host: Host) -> None:
    env = CASES["A, ridge"][1]
    policies = [po(tr.Ridge(3, bonus=b), horizon=T) for b, T in product((0.1, 0.5), (300, 3000))]
    policies.append(tr.policies.RoundRobin(3))
    policies.append(CASES["A, ridge"][0])
    before = host.launches
    runs = simulate_many(
        policies, env, 300, 35, 3, optimum=0.0, keep_choices=True, precision="double", device=host
    )
    assert host.launches == before + 2, "one for each shape"
    assert [run.policy for run in runs] == ["pessimistic-optimistic"] * 4 + [
        "round-robin",
        "pessimistic-optimistic",
    ]
    for policy, run in zip(policies, runs):
        assert_same(
            run, tr.simulate(policy, env, rounds=300, replications=35, seed=3, optimum=0.0, keep_choices=True)
        )


@needs_compiler
def test_replications_do_not_depend_on_the_batches_that_memory_allows(host: Host) -> None:
    policy, env = CASES["A, ridge"]
    small = Host(memory_bytes=2**19)
    whole, pieces = (
        simulate_many(
            [policy], env, 200, 90, 3, optimum=0.0, keep_choices=True, precision="double", device=device
        )[0]
        for device in (host, small)
    )
    assert small.launches > 1
    assert_same(whole, pieces)


@needs_compiler
def test_a_device_with_little_shared_memory_keeps_the_state_elsewhere(host: Host) -> None:
    policy, env = CASES["B, ridge"]
    poor = Host(shared_bytes=1024)
    rich, other = (
        simulate_many(
            [policy], env, 200, 35, 3, optimum=0.0, keep_choices=True, precision="double", device=device
        )[0]
        for device in (host, poor)
    )
    assert gpu_program.program_for(policy, env, "double", True).shared > 1024
    assert gpu_program.program_for(policy, env, "double", True, 1024).shared == 0
    assert_same(rich, other)


@needs_compiler
@pytest.mark.parametrize("name", ["A, ridge", "B, arms", "OPB"])
def test_a_policy_that_has_learnt_goes_on_from_there(name: str, host: Host) -> None:
    policy, env = CASES[name]
    warm = policy.copy()
    for i in range(30):
        shown = {} if env.features is None else {"features": env.features[i % 7], "costs": env.costs[i % 7]}
        decision = warm.decide(**shown)
        warm.learn(decision, i % 2, *([[-0.1]] if env.costs_seen == "after" else []))
    expected = tr.simulate(warm, env, rounds=200, replications=33, seed=5, optimum=0.0, keep_choices=True)
    (run,) = simulate_many(
        [warm], env, 200, 33, 5, optimum=0.0, keep_choices=True, precision="double", device=host
    )
    assert_same(run, expected)


@unwatched  # m = 1 is below what the hospital shows
@needs_compiler
def test_the_hospital_and_simulate_itself(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "cuda_device", lambda: host)
    policy = tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(6, 10, bonus=0.1),
        constraints=18,
        V=tr.Power(4.0, 0.5),
        epsilon=tr.Power(1.0, -0.5),
        horizon=2000,
    )
    env = hospital("any")
    settings: dict[str, Any] = {
        "rounds": 2000,
        "replications": 3,
        "seed": 1,
        "keep_choices": True,
        "record": [10, 500],
    }
    expected = tr.simulate(policy, env, **settings)
    run = tr.simulate(policy, env, engine="gpu-double", name="mine", **settings)
    assert_same(run, expected)
    assert (run.policy, run.optimum, run.baseline) == ("mine", expected.optimum, expected.baseline)
    np.testing.assert_allclose(run.regret.mean, expected.regret.mean, atol=1e-9)
    single = tr.simulate(policy, env, engine="gpu", **settings)
    assert (single.choices == expected.choices).mean() > 0.9


# The numbers that the kernels are given


def test_thresholds_are_the_comparisons_of_the_kernels() -> None:
    draw = np.random.default_rng(0)
    p = np.concatenate([draw.random(300), [0.0, 1.0, 0.1, 0.5, 2.0**-53, 1.0 - 2.0**-53]])
    cut = gpu_arrays.thresholds(p).astype(object)
    for offset in (-2, -1, 0, 1, 2):
        m = np.clip(cut + offset, 0, 2**53 - 1)
        u = np.array([float(one) * kernels.TO_UNIT for one in m])
        np.testing.assert_array_equal(u < p, m < cut)


def test_cost_thresholds_are_the_comparisons_of_the_kernels() -> None:
    draw = np.random.default_rng(1)
    low = -draw.random(300)
    high = low + draw.random(300) + 1e-3
    share = np.concatenate([draw.random(296), [0.0, 1.0, 0.5, 1e-9]])
    location = np.clip(low + share * (high - low), low, high)
    cut = gpu_arrays.cost_thresholds(location, low, high).astype(object)
    for offset in (-2, -1, 0, 1, 2):
        m = np.clip(cut + offset, 0, 2**53 - 1)
        u = np.array([float(one) * kernels.TO_UNIT for one in m])
        np.testing.assert_array_equal(u * (high - low) < location - low, m < cut)


@pytest.mark.parametrize("horizon", [None, 700])
def test_steps_are_the_schedules_and_radii_of_the_kernels(horizon: int | None) -> None:
    policy = tr.PessimisticOptimistic(
        reward=tr.Ridge(3, bonus=0.7, m=2.0, ridge=0.5),
        cost=tr.Ridge(2),
        constraints=2,
        slater=0.2,
        horizon=horizon,
    )
    steps = gpu_arrays.schedule_steps(policy, 50)
    core = policy._core
    for i in (0, 1, 30, 49):
        t = i + 1.0
        T = t if horizon is None else float(horizon)
        V = kernels.power_law(t, *kernels.core_views(core).V, T)
        eps = kernels.power_law(t, *kernels.core_views(core).epsilon, T)
        reward = 0.7 * kernels.confidence_radius(float(i), 3.0, T, 2.0, 0.5)
        cost = kernels.confidence_radius(float(i), 2.0, T, 1.0, 1.0)
        np.testing.assert_allclose(steps[i], [1.0 / V, eps, reward, cost], rtol=1e-14)


def test_seed_keys_are_philox_s() -> None:
    seed, mask = 0x123456789ABCDEF0, 0xFFFFFFFF
    keys = gpu_arrays.seed_keys(seed).reshape(10, 2)
    k0, k1 = seed & mask, seed >> 32
    for i in range(10):
        assert keys[i].tolist() == [(k0 + i * 0x9E3779B9) & mask, (k1 + i * 0xBB67AE85) & mask]


# Refusals


@pytest.mark.parametrize(
    ("policy", "env", "precision", "message"),
    [
        (
            tr.policies.LinUCB(tr.ArmMeans(1025)),
            world(J=1025, K=0, p=1),
            "single",
            "up to 1,024 actions.*engine='cpu'",
        ),
        (tr.policies.LinUCB(tr.Ridge(257)), world(p=257), "single", "up to 256 features.*engine='cpu'"),
        (po(tr.ArmMeans(3), constraints=257), world(K=257), "single", "up to 256 constraints.*engine='cpu'"),
        (po(tr.Ridge(3, ridge=1e-5)), world(), "single", "ridge must be at least 0.0001.*precision='double'"),
        (po(tr.Ridge(3, ridge=1e-8)), world(), "double", "ridge must be at least 1e-06.*engine='cpu'"),
        (
            tr.PessimisticOptimistic(reward=tr.Ridge(3), constraints=2),
            world(),
            "single",
            "can't measure Slater",
        ),
        (tr.policies.POLICIES["greedy"](tr.Ridge(3)), world(), "single", "Greedy can't run on a GPU"),
        (tr.policies.RoundRobin(4), world(), "single", "does not fit"),
        (po(tr.ArmMeans(3), constraints=1), world(), "single", "but the policy has 1"),
        (po(tr.ArmMeans(3)), world(), "half", "precision must be"),
    ],
)
def test_refuses_what_no_kernel_does(policy: Any, env: Tabular, precision: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        simulate_many([policy], env, 10, precision=precision, optimum=0.0)


@pytest.mark.parametrize(("name", "most"), [("B, arms", 2**24), ("A, ridge", 2_000_000)])
def test_refuses_more_rounds_than_single_precision_is_good_for(name: str, most: int) -> None:
    policy, env = CASES[name]
    with pytest.raises(InvalidInput, match=f"{most:,} rounds.*precision='double'"):
        simulate_many([policy], env, most + 1, record=[1], optimum=0.0)


def test_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    gpu.cuda_device.cache_clear()
    with pytest.raises(InvalidInput, match=r"needs CuPy.*tightrope\[gpu\]"):
        tr.simulate(*CASES["B, arms"], rounds=10, engine="gpu")


def test_refuses_an_unknown_engine() -> None:
    with pytest.raises(InvalidInput, match="'cpu', 'gpu', 'gpu-double'"):
        tr.simulate(*CASES["B, arms"], rounds=10, engine="tpu")  # type: ignore[arg-type]


# NumPy alone


@unwatched  # m = 1 is below what the hospital shows
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
        policy = tr.PessimisticOptimistic(reward=tr.DisjointRidge(6, 10, bonus=0.1), constraints=18, horizon=2000,
                                          V=tr.Power(4.0, 0.5), epsilon=tr.Power(1.0, -0.5))
        (run,) = simulate_many([policy], env, 2000, 3, 1, precision="double", device=Host())
        assert run.baseline == "given"
        assert not BLOCKED & {name.split(".")[0] for name in sys.modules}
        print(repr(run.regret.at()), run.summary()["last_violation_max"])
    """
    path = {
        "PYTHONPATH": f"{Path(gpu.__file__).parents[2]}:{Path(__file__).parents[1]}",
        "PATH": "/usr/bin:/bin",
    }
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, env=path, check=False
    )
    assert told.returncode == 0, told.stderr
    policy = tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(6, 10, bonus=0.1),
        constraints=18,
        V=tr.Power(4.0, 0.5),
        epsilon=tr.Power(1.0, -0.5),
        horizon=2000,
    )
    run = tr.simulate(policy, hospital("any"), rounds=2000, replications=3, seed=1)
    from tightrope.result import Estimate

    there = eval(told.stdout.split(") ")[0] + ")", {"Estimate": Estimate})
    np.testing.assert_allclose(there, run.regret.at(), atol=1e-6)
    assert int(told.stdout.split()[-1]) == run.last_violated().max


@pytest.mark.parametrize("case", OPTIMA)
def test_shipped_optima_are_the_lp_s(case: tuple[Any, Any, Any, bool]) -> None:
    sample, reward, truth, stay = case
    env = hospital(reward, truth=truth, stay=stay, calibration=sample, costs_seen="after")
    assert env.optimum == pytest.approx(tr.solve(env).value, abs=1e-9)


def test_optima_are_not_shipped_for_other_limits() -> None:
    assert hospital(resource=0.19).optimum is None
    assert hospital(capacity=0.2).optimum is None


@pytest.mark.parametrize("costs_seen", ["before", "after"])
@pytest.mark.parametrize("threshold", [0.0, 0.05, 0.1, 0.2, 0.37, 0.5, 1.0])
def test_the_bandit_knows_its_optimum(threshold: float, costs_seen: Any) -> None:
    env = bandit(threshold, costs_seen)
    assert env.optimum == pytest.approx(tr.solve(env).value, abs=1e-9)


def test_student_s_quantile() -> None:
    from scipy.special import stdtrit

    from tightrope.intervals import student_quantile

    for df in (1, 2, 3, 4, 10, 99, 100, 499, 500, 501, 5_000, 10**6):
        assert math.isclose(student_quantile(df), stdtrit(df, 0.975), rel_tol=1e-10), df


def test_a_sweep_runs_many_settings_in_one_launch_with_the_numbers_of_the_cpu():
    from tightrope.spec import make_spec
    from tightrope.sweeps.cells import Plan, run_cells, run_cells_on_gpu

    spec = make_spec(
        {
            "environment": {"kind": "bandit", "threshold": 0.1},
            "policy": {"kind": "pessimistic-optimistic"},
            "simulation": {"rounds": 300, "replications": 3},
            "sweep": {
                "policy.slater": [0.05, 0.1, 7.0],
                "policy.epsilon": [{"scale": 1.0, "exponent": -0.5}],
            },
        }
    )
    plan = Plan.of(spec)
    cells = list(plan.cells())
    host = Host()
    there, here = run_cells_on_gpu(plan, cells, host), run_cells(plan, cells)
    assert host.launches == 1
    for a, b in zip(there, here, strict=True):
        for name in a.keys() - {"seconds"}:
            # The same choices; sums may round differently.
            assert a[name] == (pytest.approx(b[name], abs=1e-9) if isinstance(b[name], float) else b[name])
    assert [row["error"] is None for row in there] == [True, True, False]
