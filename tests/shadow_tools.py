"""What the tests of the shadow-price policy share: rounds, policies of every setting, and comparisons of states."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tightrope as tr
from tightrope.models import MODELS

J, D, K = 4, 3, 2


def rounds(seed, T, actions=J, features=D, constraints=K):
    """Fresh features, costs that bind, and rewards, for each of T rounds."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=features)
    for _ in range(T):
        x = rng.normal(size=(actions, features))
        r = x @ theta
        W = 0.6 * r[:, None] + 0.5 * rng.normal(size=(actions, constraints)) - 0.2
        W[0] = -np.abs(W[0])
        yield x, W, r + 0.1 * rng.normal(size=actions)


class Setting:
    """How one kind of policy is made, asked and told."""

    def __init__(self, name, **rest):
        self.name, self.rest = name, rest

    def make(self, **more):
        rest = {"constraints": K, **self.rest, **more}
        kind = self.name
        if kind == "before":
            return tr.ShadowPrice(reward=tr.Ridge(D), **rest)
        if kind == "disjoint":
            return tr.ShadowPrice(reward=tr.DisjointRidge(J, D), **rest)
        if kind == "after":
            return tr.ShadowPrice(reward=tr.Ridge(D), cost=tr.Ridge(D), **rest)
        if kind == "disjoint, after":
            return tr.ShadowPrice(reward=tr.DisjointRidge(J, D), cost=tr.DisjointRidge(J, D), **rest)
        if kind == "arms":
            return tr.ShadowPrice(reward=tr.ArmMeans(J), **rest)
        if kind == "arms, after":
            return tr.ShadowPrice(reward=tr.ArmMeans(J), cost=tr.ArmMeans(J), **rest)
        if kind == "own model":
            Neighbours = MODELS.find(f"{OWN_MODEL}:Neighbours")
            return tr.ShadowPrice(
                reward=Neighbours(J, D, memory=60), cost=Neighbours(J, D, memory=60), **rest
            )
        rules = {"rules": RULES, "mixed": MIXED}[kind]
        cost = tr.Ridge(D) if kind == "mixed" else None
        return tr.ShadowPrice(reward=tr.Ridge(D), cost=cost, **{**rest, "constraints": rules})

    @property
    def late(self):
        return "after" in self.name or self.name in ("own model", "mixed")

    def offer(self, x, W, t=0):
        """The arguments of decide."""
        if self.name == "arms":
            return {"costs": W}
        if self.name == "arms, after":
            return {}
        if self.name == "disjoint, after":
            return {"features": x[0]}
        if self.name in ("rules", "mixed"):
            usage = {"hours": np.clip(np.abs(W[:, 0]), 0.0, 1.0).tolist()}
            return {"features": x, "usage": usage, "group": ("A", "B", ())[t % 3]}
        return {"features": x} if self.late else {"features": x, "costs": W}

    def outcome(self, W, row, t=0):
        """What learn is told beside the reward."""
        if self.name == "mixed":
            return {"usage": {"minutes": float(np.clip(0.5 + 0.3 * W[row, 1], 0.0, 1.0))}}
        return {"costs": W[row]} if self.late else {}


RULES = tr.Rules(
    [
        tr.Capacity("a", at_most=0.4),
        tr.Share("b", at_least=0.1, among="A"),
        tr.Budget("hours", at_most=0.5, among="B"),
    ],
    actions=["a", "b", "c", "d"],
)
MIXED = tr.Rules(
    [
        tr.Capacity("a", at_most=0.4),
        tr.Budget("hours", at_most=0.5),
        tr.Budget("minutes", at_most=0.5, seen="after", among="A"),
        tr.Mean("minutes", at_most=0.7, seen="after"),
    ],
    actions=["a", "b", "c", "d"],
)

OWN_MODEL = Path(__file__).parents[1] / "examples" / "own_model.py"

COMPILED = ["before", "disjoint", "after", "disjoint, after", "arms", "arms, after", "rules", "mixed"]
SETTINGS = [*COMPILED, "own model"]


def play(policy, setting, T, seed=0, start=0, learn=True):
    """T rounds, and their decisions."""
    decisions = []
    for t, (x, W, r) in enumerate(rounds(seed, start + T)):
        if t < start:
            continue
        decision = policy.decide(**setting.offer(x, W, t))
        decisions.append(decision)
        if learn:
            policy.learn(decision, float(r[decision.row]), **setting.outcome(W, decision.row, t))
    return decisions


def actions(decisions):
    return [decision.action for decision in decisions]


def equal_states(one, other):
    """Whether two states are the same to the bit."""
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name], equal_nan=True) for name in one
    )
