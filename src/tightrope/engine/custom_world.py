"""A custom environment as the plain loop plays it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.engine.concerns import Offered, worded
from tightrope.engine.replication import Outcome, needs_group
from tightrope.environments.custom import Context, Custom
from tightrope.models import Model
from tightrope.policies.watch import units_counted
from tightrope.problem import Part
from tightrope.validation import Array


class CustomWorld:
    """One replication of an environment of your own."""

    def __init__(self, policy: Any, env: Custom, seed: int, replication: int) -> None:
        K = env.n_constraints
        constrained = getattr(policy, "n_constraints", K) > 0 and K > 0
        before = env.seen_before
        self._env, self._play, self._problem = env, env.play(seed, replication), env.problem()
        self._counts = np.zeros(env.n_actions)
        self._late = np.flatnonzero(~before)
        # Which costs the policy sees before acting, and whether it is told those that are seen after.
        self._before = np.flatnonzero(before) if constrained and before.any() else None
        self._after = constrained and not before.all()
        self._models = {part: getattr(policy, f"{part}_model", None) for part in ("reward", "cost")}
        self._shows_group = needs_group(policy)
        self._context: Context

    def offer(self, t: int) -> tuple[dict[str, Any], NDArray[np.int64]]:
        """What `decide` is given in round t, and the ids of the actions on offer."""
        self._context = context = self._play.context(t)
        ids = context.ids
        self._counts[ids] += 1.0
        offer: dict[str, Any] = {}
        rows = self._shown("reward", context.features, ids)
        if rows is not None:
            offer["features"] = rows
        if self._before is not None:
            offer["costs"] = np.ascontiguousarray(context.W[:, self._before])
        if self._after:
            features = context.features if context.cost_features is None else context.cost_features
            rows = self._shown("cost", features, ids)
            if rows is not None:
                offer["costs" if self._before is None else "cost_features"] = rows
        if len(ids) < self._env.n_actions:
            offer["actions"] = ids.tolist()
        if self._shows_group:
            offer["group"] = context.group
        return offer, ids

    def outcome(self, t: int, action: int) -> Outcome:
        """What comes of an action in the round that was offered last."""
        context = self._context
        row = int(np.flatnonzero(context.ids == action)[0])
        reward, late = self._play.outcome(t, context, action)
        costs = context.W[row].copy()
        costs[self._late] = late
        means = self._play.means(context)
        # What is seen before acting is its own mean.
        mean, mean_costs = (reward, costs) if means is None else (float(means.rewards[row]), means.costs[row])
        told = (reward, late) if self._after else (reward,)
        return Outcome(told, reward, mean, costs, mean_costs)

    def end(self) -> Offered:
        """What concerns are judged by at the end."""
        return Offered(worded(self._env), units_counted(self._env), self._counts)

    def _shown(self, part: Part, features: Array | None, ids: NDArray[np.int64]) -> Array | None:
        """Features in the form of the policy's own model, where it has one."""
        model = self._models[part]
        if not isinstance(model, Model):
            return None if features is None else features.copy()
        if not model.n_features:
            return None
        if features is not None and (features.ndim == 2 or model.n_actions is not None):
            return features.copy()
        # Arms alone, or one x for all actions, to a model that all actions share.
        rows = self._problem.model_rows(part, model, None if features is None else features[None])
        assert rows is not None
        return np.ascontiguousarray(rows[0][ids])
