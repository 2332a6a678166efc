"""What is believed of rewards and costs, of the actions on offer and of remembered rounds: by kernels, or in one call for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.kernels import shadow, shadow_solve
from tightrope.models import Model, hooks
from tightrope.offer import rows_for_each
from tightrope.policies.shadow_price.memory import Remembered
from tightrope.policies.shadow_price.solve import PriceSolve
from tightrope.validation import Array

Ids = NDArray[np.int64]
_LINE, _NO_IDS = np.empty(0), np.empty(0, dtype=np.int64)


class Rewards(NamedTuple):
    """Of n rows: means and standard deviations (n,); how far each of M members is from the mean (M, n), where one is followed."""

    means: Array
    deviations: Array
    members: Array | None = None


class Beliefs:
    """The models of rewards and of the costs that are seen after acting, in `columns`, as far as `sampling` asks them.

    `looks_ahead`: deviations of rewards are the parts of them that draws need, less what later rounds bring anyway.
    """

    def __init__(
        self,
        reward: Any,
        cost: Model | None,
        sampling: str = "normal",
        columns: Ids = _NO_IDS,
        looks_ahead: bool = False,
    ) -> None:
        self.looks_ahead = looks_ahead
        self.reward, self.cost, self.sampling, self.columns = reward, cost, sampling, columns
        # Whether compiled code can ask both.
        self.compiled = (
            sampling == "normal"
            and reward is not None  # which may have no sizes yet
            and hooks.compiled(reward) == "standardised"
            and (cost is None or hooks.compiled(cost) == "standardised")
        )

    def fits(self) -> list[int]:
        """How often each was fitted anew."""
        return [hooks.fits(self.reward), 0 if self.cost is None else hooks.fits(self.cost)]

    def rewards(self, phi: Array | None, ids: Ids) -> Rewards:
        """Of the actions on offer."""
        return self._rewards([phi], [ids])

    def look_ahead(self, phi: Array | None, ids: Ids, best: int) -> None:
        """A round is decided in which row `best` is the best by the estimates."""
        if self.looks_ahead and self.sampling != "gaps":
            hooks.look_ahead(self.reward, phi, ids, best)

    def costs(self, psi: Array | None, ids: Ids) -> tuple[Array, Array]:
        """Means and standard deviations of the actions on offer, (J, n_outputs) each."""
        assert self.cost is not None
        return _normal(self.cost, [psi], [ids])

    def rewards_of(self, entries: Sequence[Remembered]) -> Rewards:
        """Of the actions of remembered rounds, one round after the other."""
        return self._rewards([entry.phi for entry in entries], [entry.ids for entry in entries])

    def costs_of(self, entries: Sequence[Remembered]) -> tuple[Array, Array]:
        """`costs` of remembered rounds, one after the other."""
        assert self.cost is not None
        return _normal(self.cost, [entry.psi for entry in entries], [entry.ids for entry in entries])

    def expected_costs(self, entries: Sequence[Remembered]) -> tuple[Array, Array]:
        """Costs of remembered rounds (R, K), as known or as estimated now, and their standard deviations."""
        means, columns = np.concatenate([entry.W for entry in entries]), self.columns
        spreads = np.zeros(means.shape)
        if self.cost is not None:
            means[:, columns], spreads[:, columns] = self.costs_of(entries)
            end = 0
            for entry in entries:
                end += len(entry.ids)
                if entry.force is not None:
                    own = slice(end - len(entry.ids), end)
                    means[own, columns] *= entry.force[columns]
                    spreads[own, columns] *= entry.force[columns]
        return means, spreads

    def room_needed(self, J: int, K: int) -> int:
        """How much room compiled code needs for J actions on offer and K constraints."""
        cost = 0 if self.cost is None else self.cost.n_features
        width = max(self.reward.n_features, cost + len(self.columns)) + 1
        return 2 * J + int(shadow.room_size(J, K, width))

    def refresh(self, action: int, due: int) -> None:
        """Refresh the blocks of an action, as `shadow.learn_outcome` has said: 1 for rewards, 2 for costs."""
        for model, part in ((self.reward, 1), (self.cost, 2)):
            if due & part:
                one: Any = model
                one.refresh(action if one.n_actions is not None else 0)

    def draw_sample(
        self, core: Array, solve: PriceSolve, entries: Sequence[Remembered], i: int, seed: np.uint64
    ) -> None:
        """Rounds of a solve's sample, from number i on, in one compiled call."""
        reward: Any = self.reward
        cost: Any = self.cost
        columns, K = self.columns, int(core[shadow.CONSTRAINTS])
        phi, phi_at = _one_after_the_other([entry.phi for entry in entries])
        psi, psi_at = _one_after_the_other([entry.psi for entry in entries])
        shadow_solve.draw_sample(
            phi,
            phi_at,
            psi,
            psi_at,
            np.concatenate([entry.ids for entry in entries]),
            np.concatenate([entry.W for entry in entries]).reshape(-1),
            reward.flat,
            reward.spread,
            *((_LINE, _LINE) if cost is None else (cost.flat, cost.spread)),
            columns,
            core,
            solve.rewards,
            solve.costs,
            solve.offsets,
            solve.weights,
            i,
            len(entries),
            seed,
            solve.begun,
            solve.sums,
            np.empty(self.room_needed(max(len(entry.ids) for entry in entries), K)),
        )
        if not len(columns):
            return
        costs = solve.costs.reshape(-1, K)
        for r, entry in enumerate(entries, start=i):
            if entry.force is not None:
                # Of a rule that was not in force the cost is 0, which no draw changes.
                costs[solve.offsets[r] : solve.offsets[r + 1], columns[~entry.force[columns]]] = 0.0

    def _rewards(self, phi: Sequence[Array | None], ids: Sequence[Ids]) -> Rewards:
        if self.sampling == "gaps":
            means = _means(self.reward, phi, ids)[:, 0]
            return Rewards(means, np.zeros(len(means)))
        parts = hooks.drawn_parts(self.reward, np.concatenate(ids)) if self.looks_ahead else 1.0
        if self.sampling == "members":
            members = _members(self.reward, phi, ids)[:, :, 0]
            means = members.mean(axis=0)
            return Rewards(means, parts * _deviations(members), parts * (members - means))
        means, sds = _normal(self.reward, phi, ids)
        return Rewards(means[:, 0], parts * sds[:, 0])


def _normal(model: Any, rows: Sequence[Array | None], ids: Sequence[Ids]) -> tuple[Array, Array]:
    """Means and standard deviations, (n, n_outputs) each; the latter 0 where a model has nothing but means."""
    if hooks.compiled(model) == "standardised":
        seen = [model.seen(one, own) for one, own in zip(rows, ids)]
        return (
            seen[0]
            if len(seen) == 1
            else (np.concatenate([one for one, _ in seen]), np.concatenate([one for _, one in seen]))
        )
    if hooks.exploration(model) == "members":
        members = _members(model, rows, ids)
        return members.mean(axis=0), _deviations(members)
    if hooks.exploration(model) == "gaps":
        means = _means(model, rows, ids)
        return means, np.zeros(means.shape)
    said, n = _asked(hooks.predictions, model, rows, ids)
    means, sds = said.reshape(2, n, -1)
    means = np.where(np.isnan(means), 0.0, means)
    if not np.isfinite(sds).all():
        for own in _rounds(ids):
            known = np.isfinite(sds[own])
            sds[own] = np.where(known, sds[own], _wide(means[own], np.where(known, sds[own], 0.0)))
    return means, sds


def _means(model: Any, rows: Sequence[Array | None], ids: Sequence[Ids]) -> Array:
    """Means, (n, n_outputs); 0 of what was never seen."""
    if hooks.compiled(model) == "standardised":
        return _normal(model, rows, ids)[0]
    said, n = _asked(type(model).means, model, rows, ids)
    means = said.reshape(n, -1)
    return np.where(np.isnan(means), 0.0, means)


def _members(model: Any, rows: Sequence[Array | None], ids: Sequence[Ids]) -> Array:
    """What each member expects, (M, n, n_outputs). What it can't tell, every other member takes to be far above all else."""
    said, n = _asked(hooks.members, model, rows, ids)
    if said.ndim < 2 or len(said) == 0 or said.shape[1] != n:
        raise InvalidInput(
            f"members of {model!r} must be (M, {n}) or (M, {n}, n_outputs), but are {said.shape}."
        )
    members = said.reshape(len(said), n, -1)
    if not np.isfinite(members).all():
        sides = np.where(np.arange(len(members)) % 2, -1.0, 1.0)[:, None, None]
        for own in _rounds(ids):
            known = np.isfinite(members[:, own])
            seen = np.where(known, members[:, own], 0.0)
            members[:, own] = np.where(known, seen, sides * _wide(seen, np.zeros(1)))
    return members


def _deviations(members: Array) -> Array:
    """The standard deviation between members; 0 of a single one."""
    return np.asarray(members.std(axis=0, ddof=1)) if len(members) > 1 else np.zeros(members.shape[1:])


def _wide(means: Array, sds: Array) -> float:
    """What was never seen is as uncertain as can be: ten times wider than all that is known."""
    return float(10.0 * (1.0 + np.abs(means).max() + sds.max()))


def _asked(
    ask: Callable[[Any, Any, Any], Any], model: Any, rows: Sequence[Array | None], ids: Sequence[Ids]
) -> tuple[Array, int]:
    """What a model says of all these rounds in one call, a copy, and how many rows that were."""
    actions = ids[0] if len(ids) == 1 else np.concatenate(ids)
    each = [rows_for_each(one, len(own)) for one, own in zip(rows, ids)]
    given = [one for one in each if one is not None]
    features = None if not given else given[0] if len(given) == 1 else np.concatenate(given)
    return np.array(ask(model, features, actions), dtype=float), len(actions)


def _rounds(ids: Sequence[Ids]) -> list[slice]:
    """Where the rows of each round stand."""
    ends = np.cumsum([len(own) for own in ids]).tolist()
    return [slice(end - len(own), end) for own, end in zip(ids, ends)]


def _one_after_the_other(rows: list[Array | None]) -> tuple[Array, Ids]:
    """Features in one line, and where each starts."""
    given = [one for one in rows if one is not None]
    if not given:
        return _LINE, np.zeros(len(rows) + 1, dtype=np.int64)
    ends = np.cumsum([one.size for one in given])
    return np.concatenate(given).reshape(-1), np.concatenate([[0], ends]).astype(np.int64)
