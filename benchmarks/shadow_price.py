"""What the default policy takes beside the paper's: `decide` and `learn` online, and a simulated hospital, price solves included.

    python benchmarks/shadow_price.py                 # 100,000 rounds
    python benchmarks/shadow_price.py --rounds 20000 --json shadow-price.json

Online: J = 10 actions of 20 fresh features under 3 rules, probabilities not read; the two take turns in blocks of 200 rounds. The
hospital: `simulate`, one replication on one core. Processor time in µs a round, and how many times the paper's it is.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tightrope as tr

BLOCK, DRAWN = 200, 20_000
J, D, K = 10, 20, 3


def online(rounds: int) -> tuple[float, float]:
    """µs a round of `decide` and `learn` by the paper's policy and by the default."""
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(DRAWN, J, D))
    phi /= np.linalg.norm(phi, axis=2, keepdims=True)
    rewards = (phi @ (rng.normal(size=D) / 5.0)).tolist()
    noise = (0.1 * rng.normal(size=DRAWN)).tolist()
    offers = list(zip(phi, np.clip(rng.uniform(-1.2, 0.8, size=(DRAWN, J, K)), -1.0, 1.0)))

    def play(policy: Any, block: int) -> float:
        start = time.process_time()
        for t in range(block * BLOCK, (block + 1) * BLOCK):
            i = 7 * t % DRAWN
            decision = policy.decide(*offers[i])
            policy.learn(decision, rewards[i][decision.row] + noise[t % DRAWN])
        return time.process_time() - start

    paper = tr.PessimisticOptimistic(reward=tr.Ridge(D), constraints=K, slater=0.1, horizon=100_000)
    return _in_turn([paper, tr.ShadowPrice(reward=tr.Ridge(D), constraints=K)], play, rounds // BLOCK, rounds)


def hospital(rounds: int, times: int = 3) -> tuple[float, float]:
    """µs a simulated round, the fastest of a few runs each."""
    env = tr.environments.hospital()
    paper = tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(6, 10), constraints=18, slater=0.00625, horizon=rounds
    )
    default = tr.ShadowPrice(reward=tr.DisjointRidge(6, 10), constraints=18)
    found: list[list[float]] = [[], []]
    for seed in range(times):
        for policy, seconds in zip((paper, default), found):
            start = time.process_time()
            tr.simulate(policy, env, rounds, seed=seed, workers=1, record=1, optimum=0.0)
            seconds.append(time.process_time() - start)
    return 1e6 * min(found[0]) / rounds, 1e6 * min(found[1]) / rounds


def _in_turn(
    policies: list[Any], play: Callable[[Any, int], float], blocks: int, rounds: int
) -> tuple[float, float]:
    for policy in policies:
        play(policy.copy(), 0)  # compiles what is not compiled yet
    seconds = np.array([[play(policy, block) for policy in policies] for block in range(blocks)])
    one, other = 1e6 * seconds.sum(axis=0) / rounds
    return float(one), float(other)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--json", help="write the numbers here")
    given = parser.parse_args()
    rows = []
    print("| what | paper's | default | times | asked |\n| --- | ---: | ---: | ---: | ---: |")
    for name, measure, asked in (
        (f"decide + learn, J = {J}, d = {D}, K = {K}", online, 1.6),
        ("simulate, hospital", hospital, 6.0),
    ):
        paper, default = measure(given.rounds)
        rows.append(
            {"what": name, "paper": paper, "default": default, "times": default / paper, "asked": asked}
        )
        print(f"| {name} | {paper:.2f} | {default:.2f} | {default / paper:.2f} | {asked:g} |")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"rounds": given.rounds, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
