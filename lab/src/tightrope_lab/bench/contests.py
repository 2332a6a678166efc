"""The contests of `tightrope bench`: our program and a plain NumPy loop that makes the same choices, on the same problem."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from tightrope.catalogue import Catalogue, SparseCosts
from tightrope.concerns import ignore
from tightrope.engine import simulate
from tightrope.environments import hospital
from tightrope.models import DisjointRidge, Ridge
from tightrope.policies import PessimisticOptimistic
from tightrope.schedules import Power
from tightrope.validation import Array
from tightrope_lab.bench import numpy_loops
from tightrope_lab.bench.numpy_loops import Outcome, Settings
from tightrope_lab.draws import context_draws

REPEATS = 9
DELTA = 0.1
BLOCK = 16_384  # rows: 8 MiB at d = 64, which stays in a cache

Program = Callable[[], Outcome]


@dataclass(frozen=True)
class Contest:
    """Two programs that make the same choices. `ours` and `rival` each make one, ready to run; making it is not timed."""

    what: str  # the problem
    against: str  # what the rival computes
    ours: Callable[[], Program]
    rival: Callable[[], Program]
    rounds: int  # that our program plays
    # Where it is not the same; choices are compared over as many as both made.
    rival_rounds: int | None = None


def online(
    J: int = 10, d: int = 20, K: int = 3, rounds: int = 3_000, against: str = "NumPy, shared model"
) -> Contest:
    """`decide` and `learn` on features and costs that are new in every round."""
    draw = np.random.default_rng(0)
    phis = _unit_rows(draw, rounds * J, d).reshape(rounds, J, d)
    Ws = draw.uniform(-1.0, 1.0, size=(rounds, J, K))
    rewards = draw.uniform(size=rounds).tolist()
    settings = numpy_loops.paper(K, DELTA, rounds)

    def play(policy: PessimisticOptimistic) -> Outcome:
        choices = []
        for phi, W, reward in zip(phis, Ws, rewards):
            decision = policy.decide(phi, W)
            policy.learn(decision, reward)
            choices.append(decision.action)
        return Outcome(choices, _numbers(policy))

    return Contest(
        f"decide + learn, J = {J:,}, d = {d:,}, K = {K:,}, fresh features",
        against,
        lambda: partial(play, _policy(Ridge(d), K, settings)),
        lambda: partial(numpy_loops.shared, phis, Ws, rewards, settings),
        rounds,
    )


def online_after(J: int = 10, d: int = 20, K: int = 3, rounds: int = 3_000, bonus: float = 0.1) -> Contest:
    """`decide` and `learn` where costs are seen after acting, and learnt from features of their own."""
    draw = np.random.default_rng(0)
    phis, psis = (_unit_rows(draw, rounds * J, d).reshape(rounds, J, d) for _ in range(2))
    # With a tenth of √β the estimates of costs leave their lower end within these rounds.
    Ws = np.clip(psis @ draw.normal(size=(d, K)) / 2.0 - 0.1, -1.0, 1.0)
    rewards = draw.uniform(size=rounds).tolist()
    settings = numpy_loops.paper(K, DELTA, rounds, bonus)

    def play(policy: PessimisticOptimistic) -> Outcome:
        choices = []
        for phi, psi, W, reward in zip(phis, psis, Ws, rewards):
            decision = policy.decide(phi, psi)
            policy.learn(decision, reward, W[decision.action])
            choices.append(decision.action)
        cost_model = policy.hooks.cost_model()
        assert isinstance(cost_model, Ridge)
        return Outcome(choices, np.concatenate([_numbers(policy), cost_model.Theta.ravel()]))

    return Contest(
        f"decide + learn, J = {J}, d = {d}, K = {K}, costs seen after acting",
        "NumPy, two shared models",
        lambda: partial(play, _policy(Ridge(d, bonus=bonus), K, settings, Ridge(d, bonus=bonus))),
        lambda: partial(numpy_loops.after, phis, psis, Ws, rewards, settings),
        rounds,
    )


def hospital_wards(rounds: int = 3_000) -> Contest:
    """`decide` and `learn` in the hospital: a model for each of six wards, 10 features, 18 constraints."""
    tables, contexts, uniforms = _hospital(rounds)
    settings = Settings(4.0, 1.0, rounds)
    features, costs, rewards = tables

    def play(policy: PessimisticOptimistic) -> Outcome:
        choices = []
        for c, uniform in zip(contexts.tolist(), uniforms.tolist()):
            decision = policy.decide(features[c], costs[c])
            policy.learn(decision, 1.0 if uniform < rewards[c, decision.action] else 0.0)
            choices.append(decision.action)
        return Outcome(choices, _numbers(policy))

    return Contest(
        "decide + learn, hospital: J = 6 models of 10 features, K = 18",
        "NumPy, block by block",
        lambda: partial(play, _policy(DisjointRidge(6, 10), 18, settings)),
        lambda: partial(numpy_loops.disjoint, *tables, contexts, uniforms, settings),
        rounds,
    )


def engine(rounds: int = 5_000, replications: int = 20) -> Contest:
    """`simulate` on one core in the hospital; the NumPy loop runs the first replication, and gets its random numbers for free."""
    env = hospital()
    tables, contexts, uniforms = _hospital(rounds)
    settings = Settings(4.0, 1.0, rounds)

    def play(policy: PessimisticOptimistic) -> Outcome:
        on_one_core = partial(simulate, workers=1, progress=False)
        run = on_one_core(policy, env, rounds, replications, record=1, optimum=0.0, keep_choices=True)
        assert run.choices is not None
        state = [[run.reward[0, -1]], run.cost[0, -1], run.last_violation[0]]
        return Outcome(run.choices[0].tolist(), np.concatenate(state))

    return Contest(
        "simulate, hospital, one core",
        "NumPy, block by block",
        lambda: partial(play, _policy(DisjointRidge(6, 10), 18, settings)),
        lambda: partial(numpy_loops.simulated, *tables, contexts, uniforms, settings),
        rounds * replications,
        rounds,
    )


def catalogue(
    J: int = 200,
    d: int = 64,
    K: int = 10,
    rounds: int = 1_500,
    bonus: float = 0.1,
    running: bool = False,
    folder: str | os.PathLike[str] | None = None,
) -> Contest:
    """A fixed `Catalogue`, where lazy widths do: against a full sweep, or (`running`) against widths that are carried along.

    With a folder the features are written there and mapped into memory, and the full sweep goes block by block. A tenth of √β
    (`bonus`) makes a policy that learns within these rounds; at the paper's own every r̂ is clipped at 1, and no width matters.
    """
    draw = np.random.default_rng(0)
    phi: Array = _unit_rows(draw, J, d) if folder is None else _mapped_rows(draw, J, d, Path(folder))
    theta = _unit_rows(draw, 1, d)[0]
    rewards = 0.5 + 0.5 * np.asarray(phi @ theta)
    W = draw.uniform(-1.0, 1.0, size=(J, K))
    settings = numpy_loops.paper(K, DELTA, rounds, bonus)
    offer = Catalogue(phi)
    rows = np.asarray(phi)

    def rival() -> Program:
        if running:
            return partial(numpy_loops.running_widths, rows, W, rewards, rounds, settings)
        block = None if folder is None else BLOCK
        return partial(numpy_loops.full_sweep, rows, W, rewards, rounds, settings, block)

    return Contest(
        f"decide + learn, catalogue of {J:,} × {d}, K = {K}{', memory-mapped' if folder else ''}",
        "NumPy, widths carried along" if running else f"NumPy, all widths{' in blocks' if folder else ''}",
        lambda: partial(_play, _policy(Ridge(d, bonus=bonus), K, settings), offer, W, rewards, rounds),
        rival,
        rounds,
    )


def many_constraints(
    J: int = 50, d: int = 20, K: int = 10_000, touched: int = 3, rounds: int = 200
) -> Contest:
    """`SparseCosts` of which each action touches few, against a dense cost matrix."""
    draw = np.random.default_rng(0)
    phi = _unit_rows(draw, J, d)
    rewards = 0.5 + 0.5 * phi[:, 0]
    columns = np.concatenate([draw.choice(K, size=touched, replace=False) for _ in range(J)])
    at = np.arange(J + 1) * touched
    usage = scipy.sparse.csr_array((draw.uniform(0.1, 0.6, size=J * touched), columns, at), shape=(J, K))
    limits = draw.uniform(0.0, 0.1, size=K)
    dense = usage.toarray() - limits
    settings = numpy_loops.paper(K, DELTA, rounds, 0.1)
    offer, costs = Catalogue(phi), SparseCosts(usage, limits)
    return Contest(
        f"decide + learn, J = {J}, d = {d}, K = {K:,}, an action touches {touched}",
        "NumPy, dense costs",
        lambda: partial(_play, _policy(Ridge(d, bonus=0.1), K, settings), offer, costs, rewards, rounds),
        lambda: partial(numpy_loops.full_sweep, phi, dense, rewards, rounds, settings),
        rounds,
    )


def many_rounds(
    J: int = 10, d: int = 20, K: int = 3, rounds: int = 4_000, successive: bool = False
) -> Contest:
    """`decide_many` on one state of the model: against one matrix product in NumPy, or (`successive`) against our own `decide`."""
    draw = np.random.default_rng(0)
    learnt = 500
    settings = numpy_loops.paper(K, DELTA, rounds, 0.1)
    model = Ridge(d, bonus=0.1)
    for x in _unit_rows(draw, learnt, d):
        model.learn(x, float(draw.uniform()))
    phis = _unit_rows(draw, rounds * J, d).reshape(rounds, J, d)
    Ws = draw.uniform(-1.0, 1.0, size=(rounds, J, K))

    def together(policy: PessimisticOptimistic) -> Outcome:
        return Outcome([decision.action for decision in policy.decide_many(phis, Ws)], policy.queue)

    def one_by_one(policy: PessimisticOptimistic) -> Outcome:
        return Outcome([policy.decide(phi, W).action for phi, W in zip(phis, Ws)], policy.queue)

    def rival() -> Program:
        if successive:
            return partial(one_by_one, _policy(model, K, settings))
        return partial(numpy_loops.batch, phis, Ws, model.Sigma_inv[0], model.Theta[0, 0], learnt, settings)

    return Contest(
        f"decide_many, {rounds:,} rounds, J = {J}, d = {d}, K = {K}",
        "our decide, one by one" if successive else "NumPy, one product",
        lambda: partial(together, _policy(model, K, settings)),
        rival,
        rounds,
    )


@dataclass(frozen=True)
class Case:
    """A contest by name, and how many times faster we mean to be; None where it is measured for what it is."""

    make: Callable[[], Contest]
    target: float | None = None
    full: bool = False
    repeats: int = REPEATS


def _million(running: bool) -> Contest:
    folder = tempfile.mkdtemp(prefix="tightrope-bench-")
    atexit.register(shutil.rmtree, folder)
    return catalogue(1_000_000, 64, 2, rounds=30, running=running, folder=folder)


CASES: dict[str, Case] = {
    "online": Case(online, 4.0),
    "hospital": Case(hospital_wards, 4.0),
    "online-after": Case(online_after),
    "online-large": Case(partial(online, 50, 100, 10, 800), 1.5),
    "catalogue": Case(catalogue, 5.0),
    "catalogue-running": Case(partial(catalogue, running=True)),
    "engine": Case(engine, 20.0),
    "features": Case(partial(online, 10, 2_000, 3, 20)),
    "constraints": Case(many_constraints),
    "batch": Case(many_rounds),
    "batch-decide": Case(partial(many_rounds, successive=True)),
    "million": Case(partial(_million, False), 5.0, full=True, repeats=7),
    "million-running": Case(partial(_million, True), full=True, repeats=7),
}


def _policy(
    reward: Ridge | DisjointRidge, K: int, settings: Settings, cost: Ridge | None = None
) -> PessimisticOptimistic:
    V, epsilon, T = Power(settings.v, 0.5), Power(settings.e, -0.5), settings.horizon
    policy = PessimisticOptimistic(reward=reward, cost=cost, constraints=K, horizon=T, V=V, epsilon=epsilon)
    policy.hooks.report_to(ignore)  # made-up rewards and costs are for their speed alone
    return policy


def _play(
    policy: PessimisticOptimistic, offer: Catalogue, costs: Any, rewards: Array, rounds: int
) -> Outcome:
    choices = []
    for _ in range(rounds):
        decision = policy.decide(offer, costs)
        policy.learn(decision, float(rewards[decision.action]))
        choices.append(decision.action)
    return Outcome(choices, _numbers(policy))


def _numbers(policy: PessimisticOptimistic) -> Array:
    """Q and θ̂."""
    model = policy.hooks.reward_model()
    assert isinstance(model, (Ridge, DisjointRidge))
    return np.concatenate([policy.queue, model.Theta.ravel()])


def _hospital(rounds: int) -> tuple[tuple[Array, Array, Array], Any, Array]:
    """The tables, and the contexts and uniforms of replication 0 under seed 0, as the engine draws them."""
    env = hospital()
    assert env.features is not None
    drawn = context_draws(0, 0, rounds)
    cdf = np.cumsum(env.weights)
    contexts = np.minimum(np.searchsorted(cdf, drawn[:, 0], side="right"), len(cdf) - 1)
    tables = tuple(np.array(table) for table in (env.features, env.costs, env.rewards))
    return (tables[0], tables[1], tables[2]), contexts, drawn[:, 1].copy()


def _unit_rows(draw: np.random.Generator, n: int, d: int) -> Array:
    rows = draw.normal(size=(n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _mapped_rows(draw: np.random.Generator, J: int, d: int, folder: Path) -> Array:
    path = folder / "features.npy"
    target = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(J, d))
    for at in range(0, J, 65_536):
        target[at : at + 65_536] = _unit_rows(draw, min(65_536, J - at), d)
    target.flush()
    mapped: Array = np.load(path, mmap_mode="r")
    return mapped
