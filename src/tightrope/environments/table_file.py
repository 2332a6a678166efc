"""`[environment]` with `kind = "table"`: a file of past decisions as a world to try policies in."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tightrope.environments.table import WeakEvidence, from_table
from tightrope.environments.tabular import Tabular, changed
from tightrope.errors import InvalidInput
from tightrope.history import History, Past
from tightrope.spec import Spec, SpecError, convert_table

MOST_CONTEXTS = 4000
# Of the columns that hold rewards brought to [0, 1].
_INSIDE = " of 0 to 1"


class TableSettings(History, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `[environment]` says beside `kind`.

    Parameters
    ----------
    contexts : int
        So many rows at most are contexts, drawn with a fixed seed where the table has more; means are fitted to all.
    unit : column name, optional
        Whom a row is about: see `from_table`.
    """

    contexts: int = MOST_CONTEXTS
    unit: str | None = None

    def __post_init__(self) -> None:
        History.__post_init__(self)
        if self.contexts < 1:
            raise InvalidInput(f"contexts must be at least 1, but got {self.contexts}")


def table_environment(spec: Spec, tell: Callable[[str], None] | None = None) -> Tabular:
    """The environment of a spec whose ``[environment]`` is a table: rows as its encoder reads them, costs as its rules count them.

    Rewards outside [0, 1] are kept in their own unit, with Gaussian noise as wide as what the fit leaves over. What `from_table`
    doubts goes to `tell`, if there is one: it is for whoever makes the spec, and not for every process that reads it.
    """
    stated = spec.environment
    assert stated is not None
    settings: TableSettings = convert_table(stated.settings, TableSettings, "environment")
    if spec.encoder is None:
        raise SpecError(
            'context: is missing: an environment of kind "table" reads its rows by what callers send'
        )
    try:
        past = settings.read(stated.folder)
        return _made(spec, settings, past, tell)
    except InvalidInput as error:
        raise SpecError(error, within="environment") from error


def _made(spec: Spec, settings: TableSettings, past: Past, tell: Callable[[str], None] | None) -> Tabular:
    assert spec.encoder is not None
    columns = dict(past.columns)
    low, scale = 0.0, 1.0
    reward: Any = settings.reward
    if reward is not None:
        given = [past.numbers(one) for one in (reward.values() if isinstance(reward, dict) else [reward])]
        least, most = min(one.min() for one in given), max(one.max() for one in given)
        if least < 0.0 or most > 1.0:
            low, scale = float(least), float(most - least) or 1.0
            names = list(reward) if isinstance(reward, dict) else [reward]
            inside = {f"{name}{_INSIDE}": (one - low) / scale for name, one in zip(names, given)}
            columns |= {name: one.tolist() for name, one in inside.items()}
            reward = dict(zip(names, inside)) if isinstance(reward, dict) else next(iter(inside))
    cost: dict[str, Any] = {**spec.usage, **settings.usage}
    for usage in settings.usage:
        if usage in spec.usage:
            raise InvalidInput(
                f"usage.{usage}: a rule says already what each action uses: leave one of them out"
            )
    for rule in spec.rules or ():
        if (needed := rule.quantity.usage) is not None and needed not in cost:
            raise InvalidInput(
                f"usage.{needed} is missing: a rule counts it: name the column of what was used"
            )
    counted = {rule.quantity.usage for rule in spec.rules or ()}
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", WeakEvidence)
        env: Tabular = from_table(
            columns,
            context=spec.encoder,
            action=settings.action,
            reward=reward,
            label=settings.label,
            cost={name: one for name, one in cost.items() if name in counted},
            rules=spec.rules,
            group=settings.group,
            unit=settings.unit,
            name=spec.name,
            judge=tell is not None,
        )
    for doubt in doubts if tell is not None else ():
        assert tell is not None
        words = str(doubt.message)
        if _INSIDE in words:
            words = words.replace(_INSIDE, "").replace("[0, 1]", f"[{low:g}, {low + scale:g}]")
        tell(words)
    if spec.actions and env.actions != spec.actions:
        if {*env.actions} != {*spec.actions}:
            raise InvalidInput(
                f"the table has the actions {list(env.actions)}, but the spec {list(spec.actions)}"
            )
        order = [env.actions.index(one) for one in spec.actions]
        env = changed(env, actions=spec.actions, rewards=env.rewards[:, order], theta=None)
    if (low, scale) != (0.0, 1.0):
        spread = _left_over(spec, settings, past, env, low, scale)
        env = changed(
            env, rewards=low + scale * env.rewards, theta=None, reward_noise="gaussian", reward_scale=spread
        )
    return _fewer(env, settings.contexts)


def _left_over(
    spec: Spec, settings: TableSettings, past: Past, env: Tabular, low: float, scale: float
) -> float:
    """The standard deviation of rewards around their means; next to nothing where they are known."""
    if settings.action is None or spec.encoder is None or env.features is None:
        return 1e-9 * scale
    # + 0.0: the two zeros are one context.
    x = spec.encoder.transform(past.columns) + 0.0
    contexts = {one.tobytes(): c for c, one in enumerate(env.features + 0.0)}
    at = [contexts[one.tobytes()] for one in x]
    done = [env.actions.index(one) for one in past.columns[settings.action]]
    assert isinstance(settings.reward, str)
    left = past.numbers(settings.reward) - (low + scale * env.rewards[at, done])
    return max(1e-9 * scale, float(left.std()))


def _fewer(env: Tabular, most: int) -> Tabular:
    """The environment with at most so many of its contexts, drawn by their weights."""
    if env.n_contexts <= most:
        return env
    rng = np.random.default_rng(0)
    at = np.sort(rng.choice(env.n_contexts, most, replace=False, p=env.weights))
    return changed(
        env,
        weights=np.full(most, 1.0 / most),
        features=None if env.features is None else env.features[at],
        cost_features=None if env.cost_features is None else env.cost_features[at],
        rewards=env.rewards[at],
        costs=env.cost_locations[at],
        available=env.available[at],
        rules=env.rules,
        groups=None if env.groups is None else [env.groups[c] for c in at],
    )
