"""A model of your own, in one file: from a simulation to the service, without a word of it in the package or compiled code.

    python examples/own_model.py
    tightrope simulate examples/own-model.toml --trust
    tightrope serve examples/own-model.toml --data data --trust

`Neighbours` expects what was seen near by. `bumps` is an environment in which that pays: each action is best in its own part of
[0, 1], which no linear model of x can tell.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import tightrope as tr
from tightrope.environments.build import environment_of, policies_of
from tightrope.service.experiment import Experiment, Op
from tightrope.service.http.handlers import decide, learn
from tightrope.service.offline.replay import verify
from tightrope.service.requests import DecisionRequest, OutcomeRequest
from tightrope.service.storage.memory import MemoryJournal
from tightrope.spec import Spec, read_spec


class Neighbours(tr.models.Model):
    """The average of the last outcomes of an action, each counted by how near it was seen; `reach` says how far near is."""

    def __init__(self, n_actions, n_features, *, reach=0.1, memory=400, n_outputs=1):
        self.n_actions, self.n_features, self.n_outputs = n_actions, n_features, n_outputs
        self.reach, self.memory, self.seen = reach, memory, np.zeros(1, dtype=np.int64)
        self.kept = np.full((memory, n_features + 1 + n_outputs), -1.0)
        self.decisions, self.decision = np.full(memory, -1), -1

    def arrays(self):
        return {"seen": self.seen, "kept": self.kept, "decisions": self.decisions}

    def note_decision(self, number):
        self.decision = number

    def forget_inputs(self, numbers):
        self.kept[np.isin(self.decisions, list(numbers))] = -1.0

    def learn(self, features, outcome, action=None):
        at = self.seen[0] % self.memory
        self.kept[at], self.decisions[at] = [*features, action, *np.atleast_1d(outcome)], self.decision
        self.seen += 1

    def weights(self, features, actions):
        where, which = self.kept[:, : self.n_features], self.kept[:, self.n_features]
        apart = ((np.asarray(features)[:, None] - where) ** 2).sum(axis=2)
        return np.exp(-0.5 * apart / self.reach**2) * (which == np.asarray(actions)[:, None])

    def means(self, features=None, actions=None):
        weights = self.weights(features, actions)
        means = weights @ self.kept[:, -self.n_outputs :] / (1.0 + weights.sum(axis=1, keepdims=True))
        return means[:, 0] if self.n_outputs == 1 else means

    def deviations(self, features=None, actions=None):
        return 0.5 / np.sqrt(1.0 + self.weights(features, actions).sum(axis=1))


def bumps(contexts=15):
    """Three actions, each best in its own part of x in [0, 1]; features (1, x), scaled to norms of at most 1."""
    x = np.linspace(0.0, 1.0, contexts)
    rewards = 0.1 + 0.8 * np.exp(-(((x[:, None] - [0.1, 0.5, 0.9]) / 0.2) ** 2))
    features = np.column_stack([np.ones(contexts), x]) / np.sqrt(2.0)
    return tr.environments.Tabular(np.full(contexts, 1.0 / contexts), features, rewards, name="bumps")


def main() -> None:
    spec = read_spec(Path(__file__).with_name("own-model.toml"), trust=True)
    env, T = environment_of(spec), spec.simulation.rounds
    [policy] = policies_of(spec, env).values()
    linear = tr.ShadowPrice(reward=tr.DisjointRidge(3, 2), constraints=1)
    for name, one in (("Neighbours", policy), ("DisjointRidge", linear)):
        run = tr.simulate(one, env, T, spec.simulation.replications)
        print(
            f"{name:13} regret {run.regret.mean[-1]:.0f} after {T} rounds, violation {run.violation.mean[-1]:.0f}"
        )

    x, costs = env.features[3], env.costs[3]
    for _ in range(50):
        policy.learn(policy.decide(x, costs), 0.8)
    with tempfile.TemporaryDirectory() as folder:
        policy.save(f"{folder}/policy")
        loaded = tr.load(f"{folder}/policy")
    assert loaded.decide(x, costs).trace.tobytes() == policy.decide(x, costs).trace.tobytes()
    print("saved and loaded: the next decision comes out to the same bits")
    print(f"served and replayed: {served(spec)} entries of the journal do too")


def served(spec: Spec) -> int:
    """What `tightrope serve` does with the spec, without HTTP: 200 decisions with their outcomes, and the replay of all that."""
    journal = MemoryJournal()
    experiment = Experiment(spec, journal)
    experiment.open()
    for i in range(200):
        visit = DecisionRequest(event_id=str(i), context={"x": (i % 11) / 10})
        outcome = OutcomeRequest(event_id=str(i), reward=float(i % 3 == 0))
        assert all(
            answer.status == 200 for answer in experiment.process([Op(decide, visit), Op(learn, outcome)])
        )
    return verify(journal).entries


if __name__ == "__main__":
    main()
