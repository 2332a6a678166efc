"""Predictions of rewards and costs, for the actions on offer and for remembered rounds: by kernels, or in one call for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.kernels import shadow, shadow_solve
from tightrope.models import Model, hooks
from tightrope.offer import Offer, rows_for_each
from tightrope.policies.shadow_price.memory import Remembered
from tightrope.policies.shadow_price.solve import PriceSolve
from tightrope.validation import Array

Ids = NDArray[np.int64]
_LINE, _NO_IDS = np.empty(0), np.empty(0, dtype=np.int64)


class Rewards(NamedTuple):
    """For n rows: means and standard deviations (n,); each member's distance from the mean (M, n), if one is followed."""

    means: Array
    deviations: Array
    members: Array | None = None


class Beliefs:
    """The models of rewards and of the costs seen after acting, in `columns`, as far as `sampling` needs them.

    `looks_ahead`: deviations of rewards are only as large as draws need, after subtracting what later rounds bring anyway.
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
        # Whether compiled code can use both.
        self.compiled = (
            sampling == "normal"
            and reward is not None  # which may have no sizes yet
            and hooks.compiled(reward) == "standardised"
            and (cost is None or hooks.compiled(cost) == "standardised")
        )

    def fits(self) -> list[int]:
        return [hooks.fits(self.reward), 0 if self.cost is None else hooks.fits(self.cost)]

    def changes(self) -> int:
        """How often the models have found that the world has changed."""
        return hooks.changes(self.reward) + (0 if self.cost is None else hooks.changes(self.cost))

    def rewards(self, phi: Array | None, ids: Ids) -> Rewards:
        return self._rewards([phi], [ids])

    def look_ahead(self, phi: Array | None, ids: Ids, best: int) -> None:
        """A round was decided in which the estimates choose row `best`."""
        if self.looks_ahead and self.sampling != "gaps":
            hooks.look_ahead(self.reward, phi, ids, best)

    def costs(self, psi: Array | None, ids: Ids) -> tuple[Array, Array]:
        assert self.cost is not None
        return _normal(self.cost, [psi], [ids])

    def rewards_of(self, entries: Sequence[Remembered]) -> Rewards:
        return self._rewards([entry.phi for entry in entries], [entry.ids for entry in entries])

    def costs_of(self, entries: Sequence[Remembered]) -> tuple[Array, Array]:
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

    def costs_on_offer(self, offer: Offer, force: NDArray[np.bool_] | None) -> tuple[Array, Array]:
        """Means and standard deviations of the costs seen after acting, (J, K_after), 0 for rules not in force."""
        means, sds = self.costs(offer.psi, offer.ids)
        if force is None:
            return means, sds
        late = force[self.columns]
        return means * late, sds * late

    def learn_costs(self, psi: Array | None, costs: Array, action: int, unseen: Sequence[int] | Ids) -> None:
        """A rule that is not in force shows no cost: its model learns its own prediction instead."""
        cost: Any = self.cost
        if len(unseen):
            believed = np.reshape(cost.means(None if psi is None else psi[None, :], np.array([action])), -1)
            costs = costs.copy()
            costs[unseen] = believed[unseen]
        cost.learn(psi, costs, action)

    def shift_costs(self, shifts: Array) -> None:
        """Add this much, (K_after,), to the costs seen after acting."""
        cost: Any = self.cost
        for i, by in enumerate(shifts.tolist()):
            if by:
                hooks.shift(cost, i, by)

    def room_needed(self, J: int, K: int) -> int:
        """How much room compiled code needs for J actions on offer and K constraints."""
        cost = 0 if self.cost is None else self.cost.n_features
        width = max(self.reward.n_features, cost + len(self.columns)) + 1
        return 2 * J + int(shadow.room_size(J, K, width))

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
                # The cost of a rule that was not in force is 0, and no draw changes it.
                costs[solve.offsets[r] : solve.offsets[r + 1], columns[~entry.force[columns]]] = 0.0

    def _rewards(self, phi: Sequence[Array | None], ids: Sequence[Ids]) -> Rewards:
        if self.sampling == "gaps":
            means = _means(self.reward, phi, ids)[:, 0]
            return Rewards(means, np.zeros(len(means)))
        if self.sampling == "normal" and self.looks_ahead and hooks.compiled(self.reward) == "standardised":
            drawn = [self.reward.drawn(one, own) for one, own in zip(phi, ids)]
            return Rewards(
                np.concatenate([one for one, _ in drawn]), np.concatenate([one for _, one in drawn])
            )
        parts = hooks.drawn_parts(self.reward, np.concatenate(ids)) if self.looks_ahead else 1.0
        if self.sampling == "members":
            members = _members(self.reward, phi, ids)[:, :, 0]
            means = members.mean(axis=0)
            return Rewards(means, parts * _deviations(members), parts * (members - means))
        means, sds = _normal(self.reward, phi, ids)
        return Rewards(means[:, 0], parts * sds[:, 0])


def _normal(model: Any, rows: Sequence[Array | None], ids: Sequence[Ids]) -> tuple[Array, Array]:
    """Means and standard deviations, (n, n_outputs) each; the latter are 0 if a model has only means."""
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
    """Means, (n, n_outputs); 0 for anything never seen."""
    if hooks.compiled(model) == "standardised":
        return _normal(model, rows, ids)[0]
    said, n = _asked(type(model).means, model, rows, ids)
    means = said.reshape(n, -1)
    return np.where(np.isnan(means), 0.0, means)


def _members(model: Any, rows: Sequence[Array | None], ids: Sequence[Ids]) -> Array:
    """Each member's prediction, (M, n, n_outputs). An unknown one is far above all else for one member, far below for the next."""
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
    return np.asarray(members.std(axis=0, ddof=1)) if len(members) > 1 else np.zeros(members.shape[1:])


def _wide(means: Array, sds: Array) -> float:
    """Anything never seen is as uncertain as possible: ten times wider than everything known."""
    return float(10.0 * (1.0 + np.abs(means).max() + sds.max()))


def _asked(
    ask: Callable[[Any, Any, Any], Any], model: Any, rows: Sequence[Array | None], ids: Sequence[Ids]
) -> tuple[Array, int]:
    """A copy of a model's predictions for all these rounds, from one call, and the number of rows."""
    actions = ids[0] if len(ids) == 1 else np.concatenate(ids)
    each = [rows_for_each(one, len(own)) for one, own in zip(rows, ids)]
    given = [one for one in each if one is not None]
    features = None if not given else given[0] if len(given) == 1 else np.concatenate(given)
    return np.array(ask(model, features, actions), dtype=float), len(actions)


def _rounds(ids: Sequence[Ids]) -> list[slice]:
    ends = np.cumsum([len(own) for own in ids]).tolist()
    return [slice(end - len(own), end) for own, end in zip(ids, ends)]


def _one_after_the_other(rows: list[Array | None]) -> tuple[Array, Ids]:
    """Features in one row, and where each starts."""
    given = [one for one in rows if one is not None]
    if not given:
        return _LINE, np.zeros(len(rows) + 1, dtype=np.int64)
    ends = np.cumsum([one.size for one in given])
    return np.concatenate(given).reshape(-1), np.concatenate([[0], ends]).astype(np.int64)
