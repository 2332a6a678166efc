"""What the tests of the shadow-price policy share: rounds, policies of every setting, and comparisons of states."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tightrope as tr
from tightrope.models import MODELS, Model

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


class Bagged(Model):
    """Ridge regressions for each action, `members` of them on Poisson-weighted outcomes; fitted anew at each `growth`, if given."""

    exploration = "members"

    def __init__(self, n_actions, n_features, *, members=5, growth=0.0, n_outputs=1):
        self.n_actions, self.n_features, self.n_outputs = n_actions, n_features, n_outputs
        self.n_members, self.growth = members, growth
        shape = (members, n_actions, n_features)
        self.A = np.zeros((*shape, n_features)) + np.eye(n_features)
        self.b = np.zeros((*shape, n_outputs))
        # Before anything is learnt members differ, so that there is something to explore by.
        rng = np.random.default_rng(0)
        self.theta = rng.normal(size=(*shape, n_outputs))
        self.counts = np.array([0.0, 0.0, 10.0])  # learnt, fits, the next fit

    def settings(self):
        names = ("n_actions", "n_features", "growth", "n_outputs")
        return {
            "model": self.kind,
            "members": self.n_members,
            **{name: getattr(self, name) for name in names},
        }

    def members(self, features=None, actions=None):
        found = np.einsum("nd,mndo->mno", features, self.theta[:, actions])
        return found[:, :, 0] if self.n_outputs == 1 else found

    def means(self, features=None, actions=None):
        return self.members(features, actions).mean(axis=0)

    def deviations(self, features=None, actions=None):
        return self.members(features, actions).std(axis=0)

    def learn(self, features, outcome, action=None):
        n = self.counts[0]
        weights = np.random.default_rng(int(n)).poisson(1.0, self.n_members).astype(float)
        y = np.reshape(outcome, (1, 1, -1))
        self.A[:, action] += weights[:, None, None] * np.outer(features, features)
        self.b[:, action] += weights[:, None, None] * features[:, None] * y
        self.counts[0] = n + 1
        if self.growth == 0.0:
            self.theta[:, action] = np.linalg.solve(self.A[:, action], self.b[:, action])
        elif self.counts[0] >= self.counts[2]:
            self.theta[:] = np.linalg.solve(self.A, self.b)
            self.counts[1:] = self.counts[1] + 1, np.ceil(self.growth * self.counts[0])

    @property
    def fits(self):
        return int(self.counts[1])

    @property
    def n_learnt(self):
        return int(self.counts[0])

    def arrays(self):
        return {"A": self.A, "b": self.b, "theta": self.theta, "counts": self.counts}


class Regressor(Bagged):
    """Nothing but means."""

    exploration = "gaps"

    def members(self, features=None, actions=None):
        raise AssertionError("a regressor has no members")

    def means(self, features=None, actions=None):
        found = np.einsum("nd,ndo->no", features, self.theta[0, actions])
        return found[:, 0] if self.n_outputs == 1 else found

    def deviations(self, features=None, actions=None):
        raise AssertionError("a regressor has no deviations")


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
            Neighbours = MODELS.find(f"{OWN_MODEL}:Neighbours", trust=True)
            return tr.ShadowPrice(
                reward=Neighbours(J, D, memory=60), cost=Neighbours(J, D, memory=60), **rest
            )
        if kind in PLAIN:
            made = Bagged if kind.startswith("members") else Regressor
            cost = None if not self.late else made(J, D)
            return tr.ShadowPrice(reward=made(J, D), cost=cost, **rest)
        if kind == "members, linear costs":
            return tr.ShadowPrice(reward=Bagged(J, D, growth=1.3), cost=tr.DisjointRidge(J, D), **rest)
        rules = {"rules": RULES, "mixed": MIXED}[kind]
        cost = tr.Ridge(D) if kind == "mixed" else None
        return tr.ShadowPrice(reward=tr.Ridge(D), cost=cost, **{**rest, "constraints": rules})

    @property
    def late(self):
        return "after" in self.name or self.name in ("own model", "mixed", "members, linear costs")

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
        tr.Budget("hours", at_most=0.5, among="B", range=(0, 1)),
    ],
    actions=["a", "b", "c", "d"],
)
MIXED = tr.Rules(
    [
        tr.Capacity("a", at_most=0.4),
        tr.Budget("hours", at_most=0.5, range=(0, 1)),
        tr.Budget("minutes", at_most=0.5, seen="after", among="A", range=(0, 1)),
        tr.Mean("minutes", at_most=0.7, seen="after", range=(0, 1)),
    ],
    actions=["a", "b", "c", "d"],
)

OWN_MODEL = Path(__file__).parents[1] / "examples" / "own_model.py"

COMPILED = ["before", "disjoint", "after", "disjoint, after", "arms", "arms, after", "rules", "mixed"]
PLAIN = ["members", "members, after", "gaps", "gaps, after"]
SETTINGS = [*COMPILED, "own model", *PLAIN, "members, linear costs"]


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
