"""Logs whose probabilities depend on what came before, because the policy that made them learns: what intervals are worth there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import tightrope as tr
from offpolicy_tools import COSTS, FEATURES, NOISE, REWARDS, WEIGHTS, measures
from tightrope import InvalidInput
from tightrope.offpolicy import Log, evaluate

METHODS: tuple[Any, ...] = ("ips", "snips", "dr")
# Fixed probabilities by context: all alike, and near to what is best under the rules.
TARGETS = {
    "even": np.full((4, 3), 1 / 3),
    "near the best": np.array([[0.2, 0.6, 0.2], [0.1, 0.1, 0.8], [0.1, 0.8, 0.1], [0.1, 0.6, 0.3]]),
}

# The probabilities of a round's actions, from its number, the context, and what came of earlier ones: (c, a, reward) each.
Chances = Callable[[int, int, np.ndarray, np.ndarray], np.ndarray]


def epsilon_greedy(epsilon: Callable[[int], float]) -> Chances:
    """Most often the best by the average reward in the context, else any action."""

    def chances(t: int, c: int, seen: np.ndarray, sums: np.ndarray) -> np.ndarray:
        p = np.full(3, epsilon(t) / 3)
        p[np.argmax((sums[c] + 0.5) / (seen[c] + 1))] += 1 - epsilon(t)
        return p

    return chances


def thompson(least: float) -> Chances:
    """The best of draws around the averages in the context, by 200 of them; no action ever has less than `least`."""
    draws = np.random.default_rng(0).normal(size=(200, 3))

    def chances(t: int, c: int, seen: np.ndarray, sums: np.ndarray) -> np.ndarray:
        values = (sums[c] + 0.5) / (seen[c] + 1) + 0.5 / np.sqrt(seen[c] + 1) * draws
        return least + (1 - 3 * least) * np.bincount(values.argmax(axis=1), minlength=3) / 200

    return chances


LEARNERS: dict[str, Chances | None] = {
    "evenly": lambda t, c, seen, sums: np.full(3, 1 / 3),
    "ε-greedy, ε = 0.3": epsilon_greedy(lambda t: 0.3),
    "ε-greedy, ε = 0.1": epsilon_greedy(lambda t: 0.1),
    "ε-greedy, ε = 1/√t": epsilon_greedy(lambda t: (t + 1) ** -0.5),
    "Thompson sampling, each at least 0.04": thompson(0.04),
    "Thompson sampling, each at least 0.004": thompson(0.004),
    "shadow-price, two rules": None,
    "shadow-price, two rules, `least_chance=0.03`": None,
}


def adaptive_log(name: str, rows: int, seed: int) -> tuple[np.ndarray, Log]:
    """Contexts, and the log that the learner makes of them."""
    rng, chances = np.random.default_rng([seed, list(LEARNERS).index(name)]), LEARNERS[name]
    least = 0.03 if "least_chance" in name else 0.0
    policy = tr.ShadowPrice(reward=tr.DisjointRidge(3, 3), constraints=2, seed=seed, least_chance=least)
    contexts, actions, rewards = rng.choice(4, rows, p=WEIGHTS), np.empty(rows, int), np.empty(rows)
    p, seen, sums = np.empty((rows, 3)), np.zeros((4, 3)), np.zeros((4, 3))
    for t, c in enumerate(contexts.tolist()):
        if chances is None:
            decision = policy.decide(FEATURES[c], COSTS[c])
            p[t], a = decision.probabilities, decision.action
        else:
            p[t] = chances(t, c, seen, sums)
            a = min(2, int((rng.random() > np.cumsum(p[t])).sum()))
        p[t] /= p[t].sum()
        actions[t], rewards[t] = a, rng.random() < REWARDS[c, a]
        seen[c, a] += 1
        sums[c, a] += rewards[t]
        if chances is None:
            policy.learn(decision, rewards[t])
    costs = COSTS[contexts, actions] + NOISE * rng.choice([-1.0, 1.0], (rows, 2))
    return contexts, Log(actions, rewards, costs, propensities=p, contexts=FEATURES[contexts], in_order=True)


def truth(target: np.ndarray) -> np.ndarray:
    joint = WEIGHTS[:, None] * target
    return np.append((joint * REWARDS).sum(), np.einsum("cj,cjk->k", joint, COSTS))


def covered(
    name: str, rows: int, logs: int, methods: tuple[Any, ...] = METHODS, **how: Any
) -> tuple[float, float, dict[str, np.ndarray]]:
    """The share of evaluations that is refused, what the others are worth in rows, and how often intervals hold the truth.

    By method, of the reward and two costs under each target; widened by the bias that is stated.
    """
    hits = {method: np.zeros((len(TARGETS), 3)) for method in methods}
    refused, worth = 0, []
    for seed in range(logs):
        contexts, log = adaptive_log(name, rows, seed)
        for i, target in enumerate(TARGETS.values()):
            try:
                found = {method: evaluate(log, target[contexts], method, **how) for method in methods}
            except InvalidInput:
                refused += 1
                continue
            worth.append(found[methods[0]].weights.effective)
            for method, one in found.items():
                hits[method][i] += [
                    m.low - m.bias <= true <= m.high + m.bias for m, true in zip(measures(one), truth(target))
                ]
    answered = max(1, logs - refused // len(TARGETS))
    shares = {method: count.ravel() / answered for method, count in hits.items()}
    return refused / logs / len(TARGETS), float(np.mean(worth or [0.0])), shares


@pytest.mark.parametrize("name", [*list(LEARNERS)[1:6], list(LEARNERS)[-1]])
def test_intervals_hold_the_truth_on_logs_of_a_policy_that_keeps_exploring(name: str) -> None:
    """What chance explains of 90 % or more passes (one in ten thousand), for every quantity and method."""
    logs = 50
    # The first rounds have no room for what costs.
    refused, _, shares = covered(name, 250, logs, **({"may_miss": 0.05} if LEARNERS[name] is None else {}))
    assert refused == 0
    for method, share in shares.items():
        assert (logs * share >= binom.ppf(1e-4, logs, 0.9)).all(), (method, share)
        assert share.mean() >= 0.9, (method, share)


def test_probabilities_that_vanish_are_refused_in_words() -> None:
    """A policy that has made up its mind leaves nothing to judge others by."""
    contexts, log = adaptive_log("shadow-price, two rules", 400, 0)
    assert log.propensities.min() < 1e-4
    with pytest.raises(InvalidInput, match=r"'action \d' had none in \d+ of 400 rows .* of what it does"):
        evaluate(log, TARGETS["even"][contexts])
    found = evaluate(log, TARGETS["even"][contexts], may_miss=0.5)
    assert found.reward.bias > 0.05, "what is left out is stated"
    assert covered("shadow-price, two rules", 400, 5, ("snips",))[0] == 1.0


def test_what_is_left_out_widens_verdicts_enough() -> None:
    logs = 40
    refused, _, shares = covered("shadow-price, two rules", 250, logs, may_miss=0.5)
    assert refused == 0
    for method, share in shares.items():
        assert (logs * share >= binom.ppf(1e-4, logs, 0.9)).all(), (method, share)


def print_coverage(logs: int = 300, rows: int = 500) -> None:
    """The table of docs/evaluation.md: per cent of logs whose intervals hold the truth, mean and range over six quantities."""
    heads = ["log made by", "refused", "worth, of 500 rows", *METHODS]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for name in LEARNERS:
        missing = {"shadow-price, two rules": ({}, {"may_miss": 0.5})}
        for how in missing.get(name, ({"may_miss": 0.05} if LEARNERS[name] is None else {},)):
            refused, worth, shares = covered(name, rows, logs, **how)
            cells = [
                f"{100 * x.mean():.1f} ({100 * x.min():.1f}–{100 * x.max():.1f})" for x in shares.values()
            ]
            if refused == 1.0:
                cells = ["–"] * len(METHODS)
            words = name + "".join(f", `{key}={value}`" for key, value in how.items())
            print(f"| {words} | {refused:.0%} | {worth:.0f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    print_coverage()
