"""A linear model in any unit: it scales its features, centres its outcomes and estimates their noise by itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.kernels import change, forgetting, look_ahead, rare, standardised
from tightrope.kernels import spread as layout
from tightrope.models import hooks
from tightrope.models.blocks import BlockModel
from tightrope.models.model import Ids, Model, checked_outcome, known_action, register, shown_half_life
from tightrope.validation import Array, finite_array, whole_number
from tightrope.words import Text


@register("standardised")
class Standardised(BlockModel):
    """Ridge regression that tunes itself: means and standard deviations in your units, whatever they are.

    Features need not lie in a ball and outcomes need not lie in [0, 1]: each feature is centred on its mean and measured in its own
    standard deviation, a constant is appended, outcomes are centred on their running mean, and their noise is estimated from the
    errors of predictions (`tightrope.kernels.standardised` has the formulas). `ShadowPrice` turns `Ridge`, `DisjointRidge` and
    `ArmMeans` into it.

    Parameters
    ----------
    n_actions : int, optional
        Gives each action its own parameters; None shares them if `n_features` is given, and otherwise leaves it to the policy.
    n_features : int, optional
        0 for arms only. By default, as many as in the first context that its policy sees.
    centred : bool
        Whether outcomes are centred. Costs are not: their 0 has a meaning.
    prior : float or (n_outputs,) of float
        The standard deviation of an outcome, if known beforehand; it counts as one observation. 0 means unknown.
    n_outputs : int
    half_life : float or str, optional
        Number of outcomes, over all actions, after which one counts half; None forgets nothing.

    Examples
    --------
    >>> model = Standardised(n_features=1)
    >>> for x in [*range(10)] * 10:
    ...     model.learn([float(x)], 1000.0 + 5.0 * x)
    >>> model.means([[4.0], [9.0]]).round()
    array([1020., 1044.])
    """

    compiled: str | None = "standardised"

    def __init__(
        self,
        n_actions: int | None = None,
        n_features: int | None = None,
        *,
        centred: bool = True,
        prior: Any = 0.0,
        n_outputs: int = 1,
        half_life: float | str | None = None,
    ) -> None:
        known = self._set_sizes(n_actions, n_features)
        self.n_outputs = M = whole_number("n_outputs", n_outputs)
        self.centred = bool(centred)
        given = finite_array("prior", np.asarray(prior, dtype=float), (), (M,))
        if (given < 0.0).any():
            raise InvalidInput(f"prior must be at least 0, but got {given.min():g}.")
        self._take_half_life(half_life)
        fades = self._fades
        self.prior: Any = float(given) if given.ndim == 0 else given.tolist()
        if not known:
            return
        G, p = self.n_actions or 1, self.n_features
        self.flat = np.zeros(standardised.flat_size(G, p, M))
        ages = 0 if fades is None else forgetting.ages_size(G)
        self.spread = np.zeros(layout.spread_size(G, p, M, ages))
        priors = np.array(np.broadcast_to(given, (M,)))
        standardised.begin_model(self.flat, self.spread, G, p, M, self.centred, fades is not None, priors)
        if fades is not None:
            forgetting.begin_ages(self.spread[-ages:], *fades, G, p + 1)

    @property
    def n_learnt(self) -> int:
        """Outcomes learnt so far, over all actions."""
        return int(self.flat[kernels.STAT + kernels.LEARNT])

    def never_learnt(self) -> NDArray[np.bool_] | None:
        """For each action, whether it has no outcome; None if all share their parameters."""
        if self.n_actions is None:
            return None
        # Besides the outcomes, each block learns that 1 is 1; the sum over rows is their number.
        return np.asarray(kernels.ridge_views(self.flat).B[:, -1, -1] == 0.0)

    def learn(self, features: Any, outcome: Any, action: int | None = None) -> None:
        """Learn one outcome (a number, or n_outputs of them) at `features` (p,)."""
        block = 0 if self.n_actions is None else known_action(action, self.n_actions)
        x = self._rows(features, 1).reshape(-1)
        y = checked_outcome(outcome, self.n_outputs)
        room = np.empty(2 * len(x) + 5 + 2 * self.n_outputs)
        if standardised.learn_costs(block, x, y, self.flat, self.spread, room):
            self.refresh(block)

    @property
    def changes(self) -> int:
        """How often the world was found to have changed (`tightrope.kernels.change`); never by a model that forgets."""
        return (
            0
            if self.half_life is not None
            else int(self.spread[layout.watch_at(self.spread) + change.CHANGES])
        )

    def refresh(self, block: int) -> None:
        """Recompute Σ⁻¹ and θ̂ of a block from their sums, as compiled code asks from time to time."""
        standardised.refresh(self.flat, self.spread, block, np.empty(2 * (self.n_features + 1) ** 2))

    def means(self, features: Any = None, actions: Any = None) -> Array:
        """The expected outcome of each row, (n,) or (n, n_outputs)."""
        return self._shaped(self.predictions(features, actions)[0])

    def deviations(self, features: Any = None, actions: Any = None) -> Array:
        """The standard deviation of each mean, (n,) or (n, n_outputs)."""
        return self._shaped(self.predictions(features, actions)[1])

    def predictions(self, features: Any = None, actions: Any = None) -> tuple[Array, Array]:
        """Means and standard deviations, (n, n_outputs) each."""
        return self.seen(*self._rows_and_ids(features, actions))

    def seen(self, rows: Array | None, ids: Ids) -> tuple[Array, Array]:
        """`predictions` for rows that need no check, one for each action or one for all."""
        spread = self.spread  # a model without sizes says so here
        rows, n = np.empty((1, 0)) if rows is None else rows, len(ids)
        means, deviations = np.empty((n, self.n_outputs)), np.empty((n, self.n_outputs))
        one_row = len(rows) == 1 and n != 1
        room = np.empty(standardised.predictions_room(self.n_features + 1, self.n_outputs))
        columns = np.arange(self.n_outputs)
        standardised.predict_costs(
            self.flat, spread, rows.reshape(-1), 0, one_row, ids, columns, means.reshape(-1), 0, deviations.reshape(-1), 0,
            self.n_outputs, room,
        )  # fmt: skip
        return means, deviations

    def drawn(self, rows: Array | None, ids: Ids) -> tuple[Array, Array]:
        """Means of rewards and the deviations that draws need, (n,) each, as compiled decisions have them."""
        spread, n = self.spread, len(ids)
        rows = np.empty((1, 0)) if rows is None else rows
        out = np.empty(2 * n)
        room = np.empty(standardised.predictions_room(self.n_features + 1, 1))
        one_row = len(rows) == 1 and n != 1
        rare.predict_rewards(self.flat, spread, rows.reshape(-1), 0, one_row, ids, out, 0, n, room)
        return out[:n], out[n:]

    def drawn_parts(self, ids: Ids) -> Array:
        """The part of its deviation that each action's reward is drawn with, (n,): what later rounds won't reveal anyway."""
        blocks = ids.tolist() if self.n_actions is not None else [0] * len(ids)
        return np.array([standardised.drawn_part(self.spread, g) for g in blocks])

    def look_ahead(self, rows: Array | None, ids: Ids, best: int) -> None:
        """Note a round with these rows on offer, of which the estimates choose number `best`."""
        rows = np.empty((1, 0)) if rows is None else rows
        one_row = len(rows) == 1 and len(ids) != 1
        room = np.empty(look_ahead.look_room(self.n_features + 1))
        look_ahead.look_ahead(self.flat, self.spread, rows.reshape(-1), 0, one_row, ids, best, room)

    def correct(self, features: Any, was: Array, now: Array, action: int, decision: int) -> hooks.Corrected:
        """Move b, the mean and the spread of outcomes; their noise keeps the error that the prediction had.

        A model that forgets keeps what it has learnt.
        """
        if self.half_life is not None:
            return "not"
        block, p, M = 0 if self.n_actions is None else action, self.n_features, self.n_outputs
        x, row = self._rows(features, 1).reshape(-1), np.empty(p + 1)
        standardised.extend_row(self.flat, self.spread, block, x, 0, p, row, 0)
        kernels.ridge_views(self.flat).B[block, :M] += np.outer(now - was, row)
        kernels.ridge_refresh(self.flat, block, np.empty(2 * (p + 1) ** 2))
        _, means, squares, _, _ = layout.spread_parts(self.spread)
        n = self.spread[layout.LEARNT_OUTCOMES]
        before = self.spread[means : means + M].copy()
        self.spread[means : means + M] += (now - was) / n
        moved = self.spread[means : means + M] ** 2 - before**2 if self.centred else 0.0
        sums = self.spread[squares : squares + M]
        sums[:] = np.maximum(0.0, sums + now**2 - was**2 - n * moved)
        return "exactly"

    def resemble(self, action: int, like: int) -> None:
        """Expect of an action what is expected of another, as if a part of that one's outcomes had been its own."""
        if self.n_actions is None:
            return
        views, spread, q = kernels.ridge_views(self.flat), self.spread, self.n_features + 1
        own, other = layout.block_at(spread, action), layout.block_at(spread, like)
        n = spread[other + layout.BLOCK_LEARNT]
        part, eye = hooks.part_alike(n, q), standardised.ridge_of(q - 1) * np.eye(q)
        views.Sigma[action] = eye + part * (views.Sigma[like] - eye)
        # Θ stays the same, in the same units; the look ahead begins anew.
        views.B[action] = views.Theta[like] @ views.Sigma[action]
        first, size = layout.BLOCK_HEAD, 2 * self.n_features
        spread[own + first : own + first + size] = spread[other + first : other + first + size]
        spread[own + layout.BLOCK_LEARNT] = learnt = math.ceil(part * n)
        spread[own + layout.BLOCK_NEXT] = math.floor(standardised.UNITS_GROWTH * learnt) + 1.0
        if self.half_life is not None:
            self._ages()[forgetting.BORN + action] = self._ages()[forgetting.BORN + like]
        else:
            at = layout.watch_at(spread)
            now, then = (change.block_of_watch(at, g, self.n_outputs) for g in (action, like))
            spread[now] = part * spread[then]
        kernels.ridge_refresh(self.flat, action, np.empty(2 * q**2))

    def _entries(self, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        own: dict[str, NDArray[Any]] = layout.spread_views(arrays["spread"])
        return super()._entries(arrays) | own

    def _ages(self) -> Array:
        return self.spread[layout.ages_at(self.spread) :]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state, by name: the arrays themselves, not copies."""
        return {"flat": self.flat, "spread": self.spread}

    def shift(self, output: int, by: float) -> None:
        """Add this much to all outcomes of one output, including those already learnt."""
        standardised.shift_output(self.flat, self.spread, output, by)

    def __repr__(self) -> str:
        return f"Standardised({self._shown_sizes()}{shown_half_life(self.half_life)})"


def standardised_like(model: Model, n_outputs: int, centred: bool, prior: Any) -> Model:
    """The standardised model of the same size; refused if the model has learnt: its sums do not say what was seen."""
    if hooks.n_learnt(model):
        raise InvalidInput(
            Text(
                "{model!r} has already learnt, and that can't be converted to a standardised model: pass the past outcomes to "
                "warm_start, or train a standardised model.",
                model=model,
            )
        )
    return Standardised(
        model.n_actions,
        model.n_features,
        centred=centred,
        prior=prior,
        n_outputs=n_outputs,
        half_life=hooks.half_life(model),
    )
