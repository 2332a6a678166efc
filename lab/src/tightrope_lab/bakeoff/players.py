"""Who plays: Tightrope as it comes, plain NumPy, and other libraries with the settings that they are tried with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tightrope as tr
from tightrope.errors import InvalidInput
from tightrope.policies import Policy
from tightrope.validation import Array
from tightrope_lab.bakeoff import rivals
from tightrope_lab.policies.lagrangian_thompson import LagrangianThompson


@dataclass(frozen=True)
class Player:
    """A library with settings. `family` are those among which one setting is chosen, on the tuning half, for the picture.

    `raw`: it gets the features as they stand in the file, not standardised ones. `guarded`: it knows no rules, so that where there
    are some a guard takes the actions away that would break one. `needs_rules`: it only plays where there are rules.
    """

    name: str
    family: str
    words: str
    library: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    raw: bool = False
    guarded: bool = False
    needs_rules: bool = False

    @property
    def identity(self) -> str:
        """What a result is a result of: runs made with other settings or another version are not continued."""
        version = (
            f"tightrope {tr.__version__}"
            if self.library is None
            else f"{self.library} {rivals.pins()[self.library]}"
        )
        return f"{version} {json.dumps(dict(self.settings), sort_keys=True)}{' raw' if self.raw else ''}"


Play = Callable[[Array, NDArray[np.int64], int, Array, int], NDArray[np.int64]]


def play(
    player: Player, x: Array, y: NDArray[np.int64], J: int, costs: Array, seed: int, cache: Path
) -> NDArray[np.int64]:
    """The actions of a player, (n,), on rows x (n, d) with labels y (n,): it is told whether it was right, and nothing else.

    `costs` (J, K) are those of the actions, the same in every round, seen before acting; K = 0 for none.
    """
    if player.library is not None:
        return rivals.play(player.library, player.settings, x, y, J, costs, seed, cache)
    return _OURS[player.name](np.column_stack([x, np.ones(len(x))]), y, J, costs, seed)


def _policy(make: Callable[[int, int, int, int], Policy]) -> Play:
    def played(x: Array, y: NDArray[np.int64], J: int, costs: Array, seed: int) -> NDArray[np.int64]:
        policy = make(J, x.shape[1], costs.shape[1], seed)
        shown = costs if costs.shape[1] else None
        actions = np.zeros(len(y), dtype=np.int64)
        for t, (row, label) in enumerate(zip(x, y, strict=True)):
            decision = policy.decide(row, costs=shown)
            actions[t] = decision.action
            policy.learn(decision, float(decision.action == label))
        return actions

    return played


def numpy_thompson(x: Array, y: NDArray[np.int64], J: int, costs: Array, seed: int) -> NDArray[np.int64]:
    """Thompson sampling on ridge regression with λ = 1 in plain NumPy: the least that anybody would write."""
    from tightrope_lab.bakeoff.rival_program import Guard

    draw, guard, d = np.random.default_rng(seed), Guard(costs), x.shape[1]
    inverses, sums = np.tile(np.eye(d), (J, 1, 1)), np.zeros((J, d))
    actions = np.zeros(len(y), dtype=np.int64)
    for t, (row, label) in enumerate(zip(x, y, strict=True)):
        spread = inverses @ row
        means, deviations = np.sum(spread * sums, axis=1), np.sqrt(spread @ row)
        scores = means + deviations * draw.standard_normal(J)
        a = int(np.argmax(np.where(guard.allowed(), scores, -np.inf)))
        inverses[a] -= np.outer(spread[a], spread[a]) / (1.0 + spread[a] @ row)
        sums[a] += row * float(a == label)
        guard.take(a)
        actions[t] = a
    return actions


_linear = _policy(lambda J, d, K, seed: tr.ShadowPrice(K, tr.DisjointRidge(J, d), seed=seed))
_OURS: dict[str, Play] = {
    "tightrope": _linear,
    "tightrope-raw": _linear,
    "tightrope-auto": _policy(lambda J, d, K, seed: tr.ShadowPrice(K, tr.Auto(J, d), seed=seed)),
    "lagrangian": _policy(lambda J, d, K, seed: LagrangianThompson(tr.DisjointRidge(J, d), n_constraints=K, seed=seed)),
    "numpy": numpy_thompson,
}  # fmt: skip


def _vw(name: str, arguments: str, *, raw: bool = False) -> Player:
    settings, words = (
        {"arguments": arguments},
        f"Vowpal Wabbit, `{arguments}`" + (", raw features" if raw else ""),
    )
    family = "vw-raw" if raw else "vw"
    return Player(name, family, words, "vowpalwabbit", settings, raw=raw, guarded=True)


def _contextualbandits(name: str, policy: str, **settings: Any) -> Player:
    words = f"contextualbandits, `{policy}`, " + ", ".join(
        f"{key} = {value}" for key, value in settings.items()
    )
    told = {"policy": policy, **settings}
    return Player(name, "contextualbandits", words, "contextualbandits", told, guarded=True)


PLAYERS = {
    player.name: player
    for player in (
        Player("tightrope", "tightrope", "`ShadowPrice`, linear, nothing set"),
        Player("tightrope-raw", "tightrope-raw", "`ShadowPrice`, linear, nothing set, raw features", raw=True),
        Player("tightrope-auto", "tightrope-auto", "`ShadowPrice` with `Auto`, nothing set"),
        Player("numpy", "numpy", "25 lines of NumPy: Thompson sampling on ridge regression", guarded=True),
        Player("lagrangian", "lagrangian", "`lag-ts` of the league: a Lagrangian on the same posterior", needs_rules=True),
        _vw("vw-squarecb-0.1", "--squarecb -l 0.1"),
        _vw("vw-squarecb-0.5", "--squarecb -l 0.5"),
        _vw("vw-squarecb-2", "--squarecb -l 2"),
        _vw("vw-squarecb-hot", "--squarecb --gamma_scale 100 -l 0.5"),
        _vw("vw-regcb", "--regcbopt -l 0.5"),
        _vw("vw-cover", "--cover 5 --nounif --epsilon 0.05 --psi 0.1 -l 0.5"),
        _vw("vw-epsilon", "--epsilon 0.05 -l 0.5"),
        _vw("vw-squarecb-raw", "--squarecb -l 0.5", raw=True),
        _contextualbandits("cb-lints-1", "LinTS", v_sq=1.0, sample_from="ci"),
        _contextualbandits("cb-lints-0.1", "LinTS", v_sq=0.1, sample_from="ci"),
        _contextualbandits("cb-linucb-1", "LinUCB", alpha=1.0),
        _contextualbandits("cb-linucb-0.1", "LinUCB", alpha=0.1),
    )
}  # fmt: skip

OURS = ("tightrope", "tightrope-raw", "tightrope-auto")


def chosen(names: Sequence[str]) -> list[Player]:
    """Players by name or family; all if none is named."""
    found: dict[str, Player] = {}
    for name in names:
        fitting = {one: player for one, player in PLAYERS.items() if name in (one, player.family)}
        if not fitting:
            raise InvalidInput(field="players", must=f"be among {', '.join(PLAYERS)}", got=name)
        found |= fitting
    return list((found or PLAYERS).values())
