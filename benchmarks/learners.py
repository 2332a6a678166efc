"""Tightrope beside contextualbandits with the same learners, without rules: reward at the same number of rounds, and time.

    python benchmarks/learners.py                     # install requirements/peers.txt into .venv-peers, run all; some minutes
    python benchmarks/learners.py --installed         # run what is there already

The world is handwritten digits (scikit-learn's): ten actions, a reward of 1 for the right one, rows drawn with replacement. The
learner is the same object on both sides, and so are the rounds at which it is fitted anew to all that was seen (first at 30, then
at each growth of 1.3): contextualbandits has no such rule of its own. Its bootstrapped Thompson sampling has ten resamples, as
Tightrope's ensemble has ten members; its softmax explorer has one model, as Tightrope has where it weighs gaps. Both decide round
by round, as whoever answers callers must; "in batches" is contextualbandits asked once for all rounds until the next fit, which no
live caller can do. Everything is on one core and one thread, in processor time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from peers import ONE_THREAD, ROOT, VENV, install

J, FIRST, GROWTH, MEMBERS = 10, 30, 1.3, 10
LEARNERS = ("boosted trees", "forest", "logistic regression")
PROGRAMS = (
    "tightrope, bootstrapped",
    "contextualbandits, bootstrapped",
    "contextualbandits, bootstrapped, in batches",
    "tightrope, one model",
    "contextualbandits, softmax",
    "contextualbandits, softmax, in batches",
)


# The learner's name, features, labels and a seed give what was earned.
Play = Callable[[str, Any, Any, int], float]


def learner(name: str) -> Any:
    """The same for both."""
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    if name == "boosted trees":
        return HistGradientBoostingClassifier(
            max_iter=30, max_leaf_nodes=7, min_samples_leaf=5, early_stopping=False
        )
    if name == "forest":
        return ExtraTreesClassifier(10)
    return LogisticRegression(max_iter=200)


def world(rounds: int, seed: int) -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = digits.data / 16.0
    rows = np.random.default_rng(seed).integers(len(x), size=rounds)
    return x[rows], digits.target[rows]


def fits(rounds: int) -> list[int]:
    """The rounds before which models are fitted anew."""
    found, n = [], FIRST
    while n < rounds:
        found.append(n)
        n += max(10, int(np.ceil((GROWTH - 1.0) * n - 1e-9)))
    return found


def tightrope(members: int) -> Play:
    def play(name: str, x: Any, y: Any, seed: int) -> float:
        import tightrope as tr

        model = tr.Ensemble(learner(name), J, x.shape[1], members=members, refit="now", seed=seed)
        policy = tr.ShadowPrice(reward=model, constraints=0, seed=seed)
        earned = 0.0
        for row, label in zip(x, y):
            decision = policy.decide(row)
            reward = float(decision.action == label)
            policy.learn(decision, reward)
            earned += reward
        return earned

    return play


def contextualbandits(how: str, batches: bool) -> Play:
    def play(name: str, x: Any, y: Any, seed: int) -> float:
        from contextualbandits.online import BootstrappedTS, SoftmaxExplorer

        policy: Any
        if how == "bootstrapped":
            policy = BootstrappedTS(learner(name), J, nsamples=MEMBERS, random_state=seed + 1, njobs_arms=1)
        else:
            policy = SoftmaxExplorer(learner(name), J, random_state=seed + 1, njobs=1)
        at = [0, *fits(len(x)), len(x)]
        actions = np.random.default_rng(seed).integers(J, size=len(x))
        rewards = (actions == y).astype(float)
        for begin, end in itertools.pairwise(at[1:]):
            policy.fit(x[:begin], actions[:begin], rewards[:begin])
            rows = [slice(begin, end)] if batches else [slice(t, t + 1) for t in range(begin, end)]
            for row in rows:
                actions[row] = policy.predict(x[row])
            rewards[begin:end] = actions[begin:end] == y[begin:end]
        return float(rewards.sum())

    return play


def run(program: str, name: str, rounds: int, seed: int) -> dict[str, float]:
    warnings.simplefilter("ignore")
    library, how, *batches = program.split(", ")
    if library == "tightrope":
        play = tightrope(MEMBERS if how == "bootstrapped" else 1)
    else:
        play = contextualbandits(how, bool(batches))
    x, y = world(rounds, seed)
    play(name, x[:60], y[:60], seed)  # Imports and compilation.
    started = time.process_time()
    earned = play(name, x, y, seed)
    return {"reward": earned / rounds, "ms": 1e3 * (time.process_time() - started) / rounds}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--installed", action="store_true", help="install nothing")
    parser.add_argument("--rounds", type=int, default=2_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--learner", choices=LEARNERS, action="append")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run is not None:
        program, name, seed = given.run
        print(json.dumps(run(program, name, given.rounds, int(seed))))
        return
    failed = {} if given.installed else install()
    if "contextualbandits" in failed:
        sys.exit(f"contextualbandits can't be installed: {failed['contextualbandits']}")
    print(f"| learner | program | reward a round, {given.rounds:,} rounds | ms a round |")
    print("| --- | --- | ---: | ---: |")
    for name in given.learner or LEARNERS:
        for program in PROGRAMS:
            python = sys.executable if program.startswith("tightrope") else str(VENV / "bin" / "python")
            rows = []
            for seed in range(given.seeds):
                command = [python, __file__, "--rounds", str(given.rounds), "--run", program, name, str(seed)]
                done = subprocess.run(
                    command,
                    env={**os.environ, **ONE_THREAD},
                    capture_output=True,
                    text=True,
                    check=False,
                    cwd=ROOT,
                )
                if done.returncode:
                    sys.exit(f"{program} with {name}: {done.stderr.strip().splitlines()[-1]}")
                rows.append(json.loads(done.stdout.splitlines()[-1]))
            rewards, ms = [row["reward"] for row in rows], [row["ms"] for row in rows]
            print(
                f"| {name} | {program} | {np.mean(rewards):.3f} ({min(rewards):.3f} to {max(rewards):.3f}) "
                f"| {np.median(ms):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
