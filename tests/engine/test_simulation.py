"""The simulator: compiled = uncompiled, any number of workers, draws that do not depend on the action."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from tightrope import kernels
from tightrope.engine import simulation
from tightrope.engine.recording import recorded_rounds
from tightrope.environments import Tabular, bandit, synthetic

SCHEDULES = {"V": tr.Power(1.0, 0.5), "epsilon": tr.Power(2.0, -0.5)}


def random_world(seed=0, *, C=7, J=4, K=3, d=5, shared=False, sleeping=False, **options):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(C, d) if shared else (C, J, d))
    features /= 1.01 * np.linalg.norm(features, axis=-1, keepdims=True)
    available = rng.random((C, J)) < 0.6
    available[np.arange(C), rng.integers(0, J, C)] = True
    return Tabular(
        weights=rng.dirichlet(np.ones(C)),
        features=features,
        rewards=rng.uniform(0, 1, (C, J)),
        costs=rng.uniform(-0.6, 0.4, (C, J, K)),
        available=available if sleeping else None,
        **options,
    )


def cases():
    A = {"constraints": 3, **SCHEDULES}
    B = {"constraints": 3, "cost_range": (-1.0, 1.0), **SCHEDULES}
    yield "A, ridge", tr.PessimisticOptimistic(reward=tr.Ridge(5, bonus=0.1), **A), random_world()
    yield (
        "A, ridge, random costs",
        tr.PessimisticOptimistic(reward=tr.Ridge(5, bonus=0.1), **A),
        random_world(cost_noise="bernoulli"),
    )
    yield (
        "A, disjoint, Gaussian",
        tr.PessimisticOptimistic(reward=tr.DisjointRidge(4, 5, bonus=0.1), **A),
        random_world(shared=True, reward_noise="gaussian", cost_noise="gaussian", cost_scale=0.3),
    )
    yield (
        "A, ridge on Kronecker features",
        tr.PessimisticOptimistic(reward=tr.Ridge(20, bonus=0.1), **A),
        random_world(shared=True),
    )
    yield (
        "A, disjoint on rows by action",
        tr.PessimisticOptimistic(reward=tr.DisjointRidge(4, 5, bonus=0.1), **A),
        random_world(),
    )
    yield (
        "A, sleeping actions",
        tr.PessimisticOptimistic(reward=tr.Ridge(5, bonus=0.1), **A),
        random_world(sleeping=True, cost_noise="bernoulli"),
    )
    yield (
        "A, disjoint, sleeping",
        tr.PessimisticOptimistic(reward=tr.DisjointRidge(4, 5), **A),
        random_world(shared=True, sleeping=True),
    )
    yield (
        "B, ridge",
        tr.PessimisticOptimistic(reward=tr.Ridge(5, bonus=0.1), cost=tr.Ridge(5, bonus=0.1), **B),
        random_world(costs_seen="after", cost_noise="bernoulli"),
    )
    yield (
        "B, disjoint and arms, sleeping",
        tr.PessimisticOptimistic(reward=tr.DisjointRidge(4, 5, bonus=0.1), cost=tr.ArmMeans(4), **B),
        random_world(shared=True, sleeping=True, costs_seen="after", cost_noise="gaussian"),
    )
    yield (
        "B, defaults",
        tr.PessimisticOptimistic(
            reward=tr.Ridge(5), cost=tr.Ridge(5), constraints=3, slater=0.2, horizon=400
        ),
        random_world(costs_seen="after"),
    )
    arms = {"constraints": 1, "V": tr.Power(1.0, 0.5), "epsilon": tr.Power(6.0, -0.5)}
    yield (
        "arms, before",
        tr.PessimisticOptimistic(reward=tr.ArmMeans(4), **arms),
        bandit(0.1, costs_seen="before"),
    )
    yield (
        "arms, after",
        tr.PessimisticOptimistic(reward=tr.ArmMeans(4), cost=tr.ArmMeans(4), cost_range=(-0.1, 0.9), **arms),
        bandit(0.1, costs_seen="after"),
    )
    yield (
        "LinUCB under constraints",
        tr.policies.LinUCB(tr.Ridge(5, bonus=0.1), horizon=400),
        random_world(cost_noise="bernoulli"),
    )
    yield "LinUCB, costs after", tr.policies.LinUCB(tr.Ridge(5, bonus=0.1)), random_world(costs_seen="after")
    yield "ridge on arms", tr.policies.LinUCB(tr.Ridge(4)), bandit(0.5)
    yield "OPB", tr.policies.OPB(4, safe_cost=-0.1, horizon=400, cost_range=(-0.1, 0.9)), bandit(0.1)
    yield "uniform", tr.policies.Uniform(4), random_world(sleeping=True)
    yield "round-robin", tr.policies.RoundRobin(4, shares=[0.4, 0.3, 0.2, 0.1]), random_world(sleeping=True)
    yield "oracle", tr.policies.Oracle(np.full((7, 4), 0.25)), random_world()


CASES = {name: (policy, env) for name, policy, env in cases()}


@pytest.mark.parametrize("name", CASES)
def test_compiled_and_uncompiled_make_the_same_choices(name):
    policy, env = CASES[name]
    options = {"rounds": 400, "replications": 2, "seed": 11, "keep_choices": True, "optimum": 1.0}
    fast = tr.simulate(policy, env, **options)
    slow = tr.simulate(policy, env, compile=False, **options)
    np.testing.assert_array_equal(fast.choices, slow.choices)
    for field in ("reward", "observed_reward", "cost", "mean_cost", "counts", "last_violation"):
        np.testing.assert_array_equal(getattr(fast, field), getattr(slow, field))
    assert len(np.unique(fast.choices)) > 1


@pytest.mark.parametrize("name", ["A, ridge, random costs", "B, ridge", "OPB", "uniform"])
def test_the_number_of_workers_changes_nothing(name):
    policy, env = CASES[name]
    one, four = (
        tr.simulate(
            policy, env, rounds=300, replications=9, seed=5, workers=w, optimum=1.0, keep_choices=True
        )
        for w in (1, 4)
    )
    for field in ("choices", "reward", "cost", "mean_cost", "counts", "last_violation"):
        np.testing.assert_array_equal(getattr(one, field), getattr(four, field))


def test_processes_give_the_same_numbers_as_one_after_the_other(monkeypatch):
    policy, env = CASES["A, ridge"]
    monkeypatch.setattr(simulation, "SERIAL_BELOW", 0)
    spread = tr.simulate(
        policy, env, rounds=60, replications=4, seed=5, workers=2, optimum=1.0, compile=False
    )
    alone = tr.simulate(policy, env, rounds=60, replications=4, seed=5, workers=1, optimum=1.0)
    np.testing.assert_array_equal(spread.cost, alone.cost)


@pytest.mark.parametrize("compile", [True, False])
def test_the_last_violation_is_the_last_round_with_a_total_above_zero(compile):
    policy, env = CASES["uniform"]
    rounds = np.arange(1, 121)
    run = tr.simulate(
        policy, env, rounds=120, replications=3, seed=5, record=rounds.tolist(), optimum=1.0, compile=compile
    )
    above = run.cost > 1e-9  # rounding alone is no violation
    expected = (above * rounds[:, None]).max(axis=1)
    np.testing.assert_array_equal(run.last_violation, expected)
    assert ((run.cost > 0.0) & (run.cost < 0.5)).any(), "small violations count too"
    assert len(np.unique(expected)) > 1


@pytest.mark.parametrize("compile", [True, False])
def test_a_policy_draws_afresh_in_every_replication(compile):
    # One context and one set of arms: only the policy's own draws can tell replications apart.
    env = tr.environments.bandit()
    run = tr.simulate(
        tr.policies.Uniform(4), env, rounds=60, replications=5, seed=2, keep_choices=True, compile=compile
    )
    assert len({choices.tobytes() for choices in run.choices}) == 5


def test_the_policy_given_is_not_changed_and_its_state_counts():
    policy, env = CASES["A, ridge"]
    taught = tr.Ridge(5, bonus=0.1)
    best = env.features[0, 0]
    for _ in range(50):
        taught.learn(best, 1.0)
    warm = tr.PessimisticOptimistic(reward=taught, constraints=3, **SCHEDULES)
    before = warm.hooks.state()
    run = tr.simulate(warm, env, rounds=50, replications=2, keep_choices=True, optimum=1.0)
    assert all(np.array_equal(before[k], v) for k, v in warm.hooks.state().items())
    cold = tr.simulate(policy, env, rounds=50, replications=2, keep_choices=True, optimum=1.0)
    assert (run.choices != cold.choices).any()


def test_philox_known_answers():
    """From the test vectors published with Random123."""
    zero, ones = np.uint64(0), np.uint64(0xFFFFFFFF)
    assert kernels.philox(zero, zero, zero, zero, zero, zero) == (0xE169C58D6627E8D5, 0x9B00DBD8BC57AC4C)
    assert kernels.philox(ones, ones, ones, ones, ones, ones) == (0x41C83B0E408F276D, 0x6D5451FDA20BC7C6)
    words = [np.uint64(w) for w in (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)]
    a, b = kernels.philox(*words)
    assert (a & 0xFFFFFFFF, a >> 32, b & 0xFFFFFFFF, b >> 32) == (
        0xD16CFE09,
        0x94FDCCEB,
        0x5001E420,
        0x24126EA1,
    )


def test_draws_have_the_stated_laws_and_do_not_depend_on_the_action():
    n = 20_000
    u = np.array([kernels.uniforms(3, 0, t, 0) for t in range(1, n + 1)])
    assert abs(u.mean() - 0.5) < 5 / np.sqrt(12 * 2 * n)
    assert abs(np.corrcoef(u.T)[0, 1]) < 5 / np.sqrt(n)
    z = np.array([kernels.normal(3, 0, t, 1) for t in range(1, n + 1)])
    assert abs(z.mean()) < 5 / np.sqrt(n)
    assert abs(z.std() - 1) < 5 / np.sqrt(2 * n)
    spans = np.array([[-0.2, 0.8]])
    costs = np.empty((n, 1))
    for t in range(n):
        kernels.draw_costs(3, 0, t + 1, 2, np.array([0.1]), kernels.BERNOULLI, 0.1, spans, costs[t])
    assert set(np.unique(costs)) == {-0.2, 0.8}
    assert abs(costs.mean() - 0.1) < 5 * 0.5 / np.sqrt(n)
    env = random_world(cost_noise="bernoulli")
    uniform = tr.simulate(
        tr.policies.Uniform(4), env, rounds=200, replications=3, optimum=1.0, keep_choices=True
    )
    robin = tr.simulate(
        tr.policies.RoundRobin(4), env, rounds=200, replications=3, optimum=1.0, keep_choices=True
    )
    assert (uniform.choices != robin.choices).any()
    again = tr.simulate(
        tr.policies.Uniform(4), env, rounds=200, replications=3, optimum=1.0, keep_choices=True
    )
    np.testing.assert_array_equal(uniform.choices, again.choices)
    np.testing.assert_array_equal(uniform.cost, again.cost)


def test_gaussian_costs_are_drawn_around_the_given_locations_and_average_to_the_clipped_means():
    env = random_world(cost_noise="gaussian", cost_scale=0.8)
    run = tr.simulate(tr.policies.Uniform(4), env, rounds=20_000, replications=4, optimum=1.0)
    scale = 1.0 / np.sqrt(4 * 20_000)
    drawn, mean = run.cost[:, -1].mean(axis=0) / 20_000, run.mean_cost[:, -1].mean(axis=0) / 20_000
    np.testing.assert_allclose(drawn, mean, atol=6 * scale)


def test_a_policy_of_ones_own_runs_and_may_return_a_plain_number():
    class Careful:
        def __init__(self):
            self.learnt = []

        def decide(self, features, costs):
            assert features.shape == (4, 5)
            return int(np.argmin(costs.sum(axis=1)))

        def learn(self, decision, reward):
            self.learnt.append(reward)

        def copy(self, seed):
            return Careful()

    run = tr.simulate(Careful(), random_world(), rounds=100, replications=2)
    assert run.policy == "Careful"
    assert run.violation.mean[-1] == 0
    assert run.regret.mean[-1] == pytest.approx(100 * run.optimum - run.reward[:, -1].mean())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": 0}, "rounds must be a whole number >= 1"),
        ({"replications": 1.5}, "replications"),
        ({"seed": -1}, "seed"),
        ({"workers": 0}, "workers"),
        ({"record": [0]}, r"record\[0\]"),
        ({"record": [99999]}, "record must hold rounds from 1 to"),
        ({"env": "hospital"}, "env must be a tabular or drifting environment"),
        ({"policy": object()}, "method decide"),
        (
            {"policy": tr.PessimisticOptimistic(reward=tr.Ridge(5), constraints=2, **SCHEDULES)},
            "3 constraints, but the policy has 2",
        ),
        (
            {"policy": tr.PessimisticOptimistic(reward=tr.Ridge(6), constraints=3, **SCHEDULES)},
            r"need Ridge\(5\) as the reward model",
        ),
        (
            {"policy": tr.PessimisticOptimistic(reward=tr.ArmMeans(9), constraints=3, **SCHEDULES)},
            "4 actions",
        ),
        ({"policy": CASES["B, ridge"][0]}, "seen before acting"),
        (
            {"policy": tr.policies.OPB(4, safe_cost=-0.1, horizon=9)},
            "it has 3 constraints, but the policy has 1",
        ),
        ({"policy": tr.policies.Uniform(9)}, "does not fit"),
    ],
)
def test_bad_arguments_are_refused(change, message):
    arguments = {"policy": CASES["A, ridge"][0], "env": CASES["A, ridge"][1], "rounds": 10} | change
    with pytest.raises(tr.InvalidInput, match=message):
        tr.simulate(**arguments)


def test_features_that_are_too_long_are_refused():
    env = Tabular(weights=[1.0], features=[[[3.0], [0.1]]], rewards=[[0.5, 0.5]])
    with pytest.raises(tr.InvalidInput, match="norm"):
        tr.simulate(tr.policies.LinUCB(tr.Ridge(1)), env, rounds=10)


def test_recorded_rounds_are_few_and_memory_does_not_grow_with_the_rounds():
    assert recorded_rounds(7, None).tolist() == [1, 2, 3, 4, 5, 6, 7]
    for rounds in (1000, 10**6, 10**9):
        grid = recorded_rounds(rounds, None)
        assert grid[0] == 1
        assert grid[-1] == rounds
        assert 150 <= len(grid) <= 202
        assert (np.diff(grid) > 0).all()
    run = tr.simulate(tr.policies.Uniform(4), bandit(), rounds=100_000, replications=1, record=5)
    assert run.reward.size <= 6
    assert run.choices is None


def test_ctrl_c_keeps_what_is_finished(monkeypatch):
    policy, env = CASES["A, ridge"]
    genuine = simulation._threads

    def interrupted(*arguments):
        for i, item in enumerate(genuine(*arguments)):
            if i == 3:
                raise KeyboardInterrupt
            yield item

    monkeypatch.setattr(simulation, "_threads", interrupted)
    run = tr.simulate(policy, env, rounds=50, replications=20, workers=1, optimum=1.0)
    assert run.interrupted
    assert run.n_replications == 3
    monkeypatch.undo()
    whole = tr.simulate(policy, env, rounds=50, replications=20, workers=1, optimum=1.0)
    np.testing.assert_array_equal(run.cost, whole.cost[:3])


def test_an_infeasible_environment_runs_without_a_regret():
    env = Tabular(weights=[1.0], features=[[[1.0], [0.5]]], rewards=[[0.5, 0.6]], costs=[[[0.5], [0.1]]])
    run = tr.simulate(tr.policies.LinUCB(tr.Ridge(1)), env, rounds=10)
    assert run.optimum is None
    with pytest.raises(tr.InvalidInput, match="optimum"):
        run.regret  # noqa: B018


def test_measured_slater_runs_uncompiled():
    env = synthetic(contexts=5, actions=3, features=4, constraints=2, slater=0.2, seed=1)
    policy = tr.PessimisticOptimistic(reward=tr.Ridge(4), constraints=2)
    run = tr.simulate(policy, env, rounds=200, replications=2)
    assert run.n_replications == 2
