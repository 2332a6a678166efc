"""The rivals' side of a run: a program of its own, run by the Python of the rivals' environment, which has no Tightrope.

    python rival_program.py RUN.npz ACTIONS.npy

`RUN.npz` has the features `x` (n, d), the labels `y` (n,), `n_actions`, `costs` (J, K) with K = 0 for no rules, `seed`, and the
player as JSON. What comes back are the actions, (n,). The player's library sees the reward of its own action only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Guard:
    """What keeps the rules for a library that knows none: it may only take actions that leave every total at zero or below.

    Where there is none, it takes the one that leaves the highest total lowest.
    """

    def __init__(self, costs: Array) -> None:
        self.costs, self.totals = costs, np.zeros(costs.shape[1])

    def allowed(self) -> Array:
        after = (self.totals + self.costs).max(axis=1, initial=-np.inf)
        return np.asarray(after <= max(0.0, float(after.min())))

    def take(self, action: int) -> None:
        self.totals += self.costs[action]


def play_vowpalwabbit(x: Array, y: Array, n_actions: int, costs: Array, seed: int, arguments: str) -> Array:
    """Vowpal Wabbit with action-dependent features: all features of the row crossed with the action."""
    Workspace = import_module("vowpalwabbit").Workspace
    common = f"--quiet --random_seed {seed + 1} --cb_type mtr --cb_explore_adf -q sa --ignore_linear s --noconstant"
    workspace = Workspace(f"{common} {arguments}")
    draw, guard = np.random.default_rng(seed), Guard(costs)
    names = [f"|a a{j}" for j in range(n_actions)]
    actions = np.zeros(len(y), dtype=np.int64)
    for t, row in enumerate(x):
        shared = "shared |s c:1 " + " ".join(f"f{i}:{value:.6g}" for i, value in enumerate(row) if value)
        chances = np.array(workspace.predict([shared, *names]), dtype=float) * guard.allowed()
        # Where the library gives no chance to any action that is allowed, all of them are equal.
        chances = chances if chances.sum() > 0 else guard.allowed().astype(float)
        chances /= chances.sum()
        action = int(draw.choice(n_actions, p=chances))
        loss = f"0:{-float(action == y[t])}:{chances[action]} "
        workspace.learn([shared, *((loss if j == action else "") + names[j] for j in range(n_actions))])
        guard.take(action)
        actions[t] = action
    workspace.finish()
    return actions


def play_contextualbandits(
    x: Array, y: Array, n_actions: int, costs: Array, seed: int, policy: str, **settings: Any
) -> Array:
    """A policy of `contextualbandits.online` that learns row by row."""
    model = getattr(import_module("contextualbandits.online"), policy)(
        n_actions, random_state=seed + 1, **settings
    )
    draw, guard = np.random.default_rng(seed), Guard(costs)
    actions = np.zeros(len(y), dtype=np.int64)
    for t in range(len(y)):
        row = x[t : t + 1]
        # Before the first reward it has no scores.
        scores = model.decision_function(row)[0] if t else draw.random(n_actions)
        scores = scores + 1e-9 * draw.random(n_actions)
        action = int(np.argmax(np.where(guard.allowed(), scores, -np.inf)))
        model.partial_fit(row, np.array([action]), np.array([float(action == y[t])]))
        guard.take(action)
        actions[t] = action
    return actions


PLAYS: dict[str, Callable[..., Array]] = {
    "vowpalwabbit": play_vowpalwabbit,
    "contextualbandits": play_contextualbandits,
}


def main(run: str, out: str) -> None:
    with np.load(run) as given:
        player = json.loads(str(given["player"]))
        play = PLAYS[player["library"]]
        table = given["x"], given["y"], int(given["n_actions"]), given["costs"], int(given["seed"])
    np.save(out, play(*table, **player["settings"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
