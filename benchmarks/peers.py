"""Other libraries beside Tightrope on one problem: J = 10 actions, d = 20 features, no constraints (Tightrope: with and without).

    python benchmarks/peers.py                     # install requirements/peers.txt into .venv-peers, run all; a few minutes
    python benchmarks/peers.py --installed         # run what is there already

Each program runs in a process of its own on one core and one thread: choose, learn, next round, from an empty state; the median of
seven runs with quartiles, in processor time. Not all compute the same, so "computes" says what each one does, and beside the time
stands the error: the mean reward that was given up against always choosing the best action (a uniform choice gives up the number in
the last row). The scale of the bonus is 0.3 where a library has one; Tightrope's is that times a tenth of √β, which is about 10. A
library that can't be installed or run is listed with the reason.

Two problems of the same size. "shared": each action comes with its own 20 features, one model for all. "by arm": 20 features of the
round, a model for each of 10 actions.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

J, D, K = 10, 20, 3
BONUS = 0.3
ROOT = Path(__file__).parents[1]
VENV = ROOT / ".venv-peers"
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


class Problem(NamedTuple):
    """Features (n, J, d) or (n, d), mean rewards (n, J), costs (n, J, K) for who wants them, uniforms behind the rewards (n,)."""

    features: Any
    means: Any
    costs: Any
    uniforms: Any


# choose(t) gives an action, learn(t, action, reward) takes its outcome.
Play = tuple[Callable[[int], int], Callable[[int, int, float], None]]


class Peer(NamedTuple):
    name: str
    package: str | None  # None: in this environment, not in that of the peers
    shared: bool
    computes: str
    start: Callable[[Problem], Play]


def problem(shared: bool, rounds: int) -> Problem:
    draw = np.random.default_rng(0)

    def unit(*shape: int) -> Any:
        rows = draw.normal(size=(*shape, D))
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

    if shared:
        features = unit(rounds, J)
        means = 0.5 + 0.5 * features @ unit()
    else:
        features = unit(rounds)
        means = 0.5 + 0.5 * features @ unit(J).T
    costs = draw.uniform(-1.0, 0.8, size=(rounds, J, K))
    return Problem(features, means, costs, draw.uniform(size=rounds))


# --- Tightrope and NumPy ---


def tightrope(constrained: bool, by_arm: bool) -> Callable[[Problem], Play]:
    def start(given: Problem) -> Play:
        import tightrope as tr

        model = tr.DisjointRidge(J, D, bonus=BONUS / 10) if by_arm else tr.Ridge(D, bonus=BONUS / 10)
        policy = tr.PessimisticOptimistic(
            reward=model, constraints=K if constrained else 0, slater=0.1, horizon=len(given.means)
        )
        last: list[Any] = [None]

        def choose(t: int) -> int:
            last[0] = policy.decide(given.features[t], given.costs[t] if constrained else None)
            return int(last[0].action)

        def learn(t: int, action: int, reward: float) -> None:
            policy.learn(last[0], reward)

        return choose, learn

    return start


def numpy_shared(given: Problem) -> Play:
    Sigma_inv, theta = np.eye(D), np.zeros(D)

    def choose(t: int) -> int:
        phi = given.features[t]
        return int(np.argmax(phi @ theta + BONUS * np.sqrt(np.vecdot(phi @ Sigma_inv, phi))))

    def learn(t: int, action: int, reward: float) -> None:
        x = given.features[t, action]
        u = Sigma_inv @ x
        gain = u / (1.0 + u @ x)
        theta[:] += (reward - theta @ x) * gain
        Sigma_inv[:] -= gain[:, None] * u

    return choose, learn


def numpy_by_arm(given: Problem) -> Play:
    Sigma_inv, theta = np.tile(np.eye(D), (J, 1, 1)), np.zeros((J, D))

    def choose(t: int) -> int:
        x = given.features[t]
        return int(np.argmax(theta @ x + BONUS * np.sqrt((Sigma_inv @ x) @ x)))

    def learn(t: int, action: int, reward: float) -> None:
        x = given.features[t]
        u = Sigma_inv[action] @ x
        gain = u / (1.0 + u @ x)
        theta[action] += (reward - theta[action] @ x) * gain
        Sigma_inv[action] -= gain[:, None] * u

    return choose, learn


def uniform(given: Problem) -> Play:
    draw = np.random.default_rng(1)
    return lambda t: int(draw.integers(J)), lambda t, action, reward: None


# --- the peers ---


def mabwiser(given: Problem) -> Play:
    from mabwiser.mab import MAB, LearningPolicy

    mab = MAB(list(range(J)), LearningPolicy.LinUCB(alpha=BONUS))
    mab.fit([0], [0.0], np.zeros((1, D)))

    def choose(t: int) -> int:
        return int(mab.predict(given.features[t : t + 1]))

    def learn(t: int, action: int, reward: float) -> None:
        mab.partial_fit([action], [reward], given.features[t : t + 1])

    return choose, learn


def contextualbandits(given: Problem) -> Play:
    from contextualbandits.online import LinUCB

    model = LinUCB(J, alpha=BONUS, fit_intercept=False, use_float=False, random_state=1)

    def choose(t: int) -> int:
        return int(model.predict(given.features[t : t + 1])[0])

    def learn(t: int, action: int, reward: float) -> None:
        model.partial_fit(given.features[t : t + 1], np.array([action]), np.array([reward]))

    return choose, learn


def vowpalwabbit(given: Problem) -> Play:
    from vowpalwabbit import Workspace

    workspace = Workspace("--cb_explore_adf --regcbopt --mellowness 0.01 --quiet --random_seed 1")
    texts = [
        ["| " + " ".join(f"{i}:{v:.9g}" for i, v in enumerate(row)) for row in phi] for phi in given.features
    ]
    draw = np.random.default_rng(1)
    chance: list[float] = [1.0]

    def choose(t: int) -> int:
        pmf = np.array(workspace.predict(texts[t]))
        action = int(np.searchsorted(np.cumsum(pmf), draw.uniform() * pmf.sum(), side="right"))
        chance[0] = float(pmf[action])
        return action

    def learn(t: int, action: int, reward: float) -> None:
        lines = list(texts[t])
        lines[action] = f"0:{-reward}:{chance[0]} {lines[action]}"
        workspace.learn(lines)

    return choose, learn


def river(given: Problem) -> Play:
    from river.bandit import LinUCBDisjoint

    policy = LinUCBDisjoint(seed=0)
    contexts = [dict(enumerate(x)) for x in given.features.tolist()]
    arms = list(range(J))

    def choose(t: int) -> int:
        return int(policy.pull(arms, contexts[t]))

    def learn(t: int, action: int, reward: float) -> None:
        policy.update(action, contexts[t], reward)

    return choose, learn


def coba(given: Problem) -> Play:
    from coba import LinUCBLearner

    learner = LinUCBLearner(alpha=BONUS, features=["a"])
    offers = [[tuple(row) for row in phi] for phi in given.features.tolist()]

    def choose(t: int) -> int:
        return offers[t].index(learner.predict(None, offers[t])[0])

    def learn(t: int, action: int, reward: float) -> None:
        learner.learn(None, offers[t][action], reward, 1.0)

    return choose, learn


def bayesianbandits(given: Problem) -> Play:
    from bayesianbandits import Arm, ContextualAgent, NormalRegressor, UpperConfidenceBound

    arms = [Arm(j, learner=NormalRegressor(alpha=1.0, beta=1.0)) for j in range(J)]
    agent = ContextualAgent(arms, UpperConfidenceBound(), random_seed=0)

    def choose(t: int) -> int:
        return int(agent.pull(given.features[t : t + 1])[0])

    def learn(t: int, action: int, reward: float) -> None:
        agent.update(given.features[t : t + 1], np.array([reward]))

    return choose, learn


def paretobandit(given: Problem) -> Play:
    from pareto_bandit.policy import DisjointLinUCBPolicy

    names = [str(j) for j in range(J)]
    policy = DisjointLinUCBPolicy(names, dim=D, alpha=BONUS, seed=0)

    def choose(t: int) -> int:
        return int(policy.select_arm(given.features[t])[0])

    def learn(t: int, action: int, reward: float) -> None:
        policy.update(names[action], given.features[t], reward)

    return choose, learn


PEERS = [
    Peer("tightrope, constrained", None, True, f"LinUCB with K = {K} queues, checked input", tightrope(True, False)),
    Peer("tightrope", None, True, "LinUCB, checked input", tightrope(False, False)),
    Peer("NumPy", None, True, "LinUCB, rank-one updates", numpy_shared),
    Peer("coba", "coba", True, "LinUCB, rank-one updates, features in tuples", coba),
    Peer("vowpalwabbit", "vowpalwabbit", True, "online regression, optimistic by a range of regressors (regcbopt)", vowpalwabbit),
    Peer("tightrope, constrained", None, False, f"as above, a model for each action, K = {K}", tightrope(True, True)),
    Peer("tightrope", None, False, "as above, a model for each action", tightrope(False, True)),
    Peer("NumPy", None, False, "LinUCB, rank-one updates, block by block", numpy_by_arm),
    Peer("paretobandit", "paretobandit", False, "LinUCB, rank-one updates, locks", paretobandit),
    Peer("river", "river", False, "Bayesian regression, mean + one deviation, features in dicts", river),
    Peer("contextualbandits", "contextualbandits", False, "LinUCB, compiled rank-one updates", contextualbandits),
    Peer("bayesianbandits", "bayesianbandits", False, "Bayesian regression, quantile of 1,000 samples", bayesianbandits),
    Peer("mabwiser", "mabwiser", False, "LinUCB, inverse computed afresh", mabwiser),
    Peer("uniform choice", None, False, "nothing", uniform),
]  # fmt: skip


def run(peer: Peer, rounds: int, repeats: int) -> dict[str, float]:
    given = problem(peer.shared, rounds)
    uniforms, all_means = given.uniforms.tolist(), given.means.tolist()
    seconds = []
    for _ in range(repeats + 1):
        choose, learn = peer.start(given)
        actions = []
        started = time.process_time()
        for t, (uniform_number, means) in enumerate(zip(uniforms, all_means)):
            action = choose(t)
            learn(t, action, 1.0 if uniform_number < means[action] else 0.0)
            actions.append(action)
        seconds.append((time.process_time() - started) / rounds * 1e6)
    low, median, high = np.quantile(seconds[1:], (0.25, 0.5, 0.75))
    lost = float(np.mean(given.means.max(axis=1) - given.means[np.arange(rounds), actions]))
    return {"median": float(median), "low": float(low), "high": float(high), "lost": lost}


def install() -> dict[str, str]:
    """Each package on its own; the reason for each that failed."""
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        (VENV / ".gitignore").write_text("*\n")
    failed = {}
    lines = (ROOT / "requirements" / "peers.txt").read_text().splitlines()
    for requirement in (line for line in lines if line and not line.startswith("#")):
        print(f"installing {requirement}", file=sys.stderr)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        except subprocess.TimeoutExpired:
            failed[requirement.split("==")[0]] = "its installation took more than ten minutes"
            continue
        if done.returncode:
            failed[requirement.split("==")[0]] = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return failed


def compare(rounds: int, repeats: int, failed: dict[str, str]) -> list[dict[str, Any]]:
    rows = []
    for i, peer in enumerate(PEERS):
        print(f"running {peer.name}", file=sys.stderr)
        row: dict[str, Any] = {
            "name": peer.name,
            "problem": "shared" if peer.shared else "by arm",
            "computes": peer.computes,
        }
        python = sys.executable if peer.package is None else str(VENV / "bin" / "python")
        if peer.package in failed:
            rows.append({**row, "skipped": failed[peer.package]})
            continue
        command = [python, __file__, "--run", str(i), "--rounds", str(rounds), "--repeats", str(repeats)]
        done = subprocess.run(
            command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            rows.append({**row, "skipped": (done.stderr.strip().splitlines() or ["no reason given"])[-1]})
        else:
            rows.append({**row, **json.loads(done.stdout)})
    return rows


def _place(row: dict[str, Any]) -> tuple[bool, bool, float]:
    return row["name"] == "uniform choice", row["problem"] != "shared", row.get("median", float("inf"))


def show(rows: list[dict[str, Any]]) -> None:
    ours = {
        which: next(
            row["median"]
            for row in rows
            if row["problem"] == which and row["name"] == "tightrope, constrained"
        )
        for which in ("shared", "by arm")
    }
    print(
        "| program | problem | computes | µs a round | quartiles | times ours, constrained | reward given up |"
    )
    print("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    for row in sorted(rows, key=_place):
        start = f"| {row['name']} | {row['problem']} | {row['computes']} |"
        if "skipped" in row:
            print(f"{start} skipped: {row['skipped']} | | | |")
        else:
            print(
                f"{start} {row['median']:,.1f} | {row['low']:,.1f} to {row['high']:,.1f} "
                f"| {row['median'] / ours[row['problem']]:,.1f} | {row['lost']:.4f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--installed", action="store_true", help="install nothing")
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--run", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run is not None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        print(json.dumps(run(PEERS[given.run], given.rounds, given.repeats)))
        return
    show(compare(given.rounds, given.repeats, {} if given.installed else install()))


if __name__ == "__main__":
    main()
