"""`[environment]` with `kind = "table"`: a file of past decisions as a world to try policies in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tightrope.environments.table import table_of
from tightrope.environments.tabular import Tabular, changed
from tightrope.errors import InvalidInput
from tightrope.log import History, Log
from tightrope.spec import Spec, SpecError, convert_table

MOST_CONTEXTS = 4000


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


def table_environment(
    spec: Spec, tell: Callable[[str], None] | None = None, log: Log | None = None
) -> Tabular:
    """The environment of a spec whose ``[environment]`` is a table: rows as its encoder reads them, costs as its rules count them.

    What there is to doubt goes to `tell`, if there is one: it is for whoever makes the spec, not for every process that reads it.
    `log` is the table, if it was read before.
    """
    stated = spec.environment
    assert stated is not None
    settings: TableSettings = convert_table(stated.settings, TableSettings, "environment")
    if spec.encoder is None:
        raise SpecError(
            'context: is missing: an environment of kind "table" reads its rows by what callers send'
        )
    try:
        log = settings.read(stated.folder) if log is None else log
        usage = _usage(spec, settings)
        env, doubts = table_of(
            log.for_actions(spec.actions) if spec.actions else log,
            context=spec.encoder,
            usage=usage,
            rules=spec.rules,
            unit=settings.unit,
            name=spec.name,
            judge=tell is not None,
        )
    except InvalidInput as error:
        raise SpecError(error, within="environment") from error
    for doubt in doubts if tell is not None else ():
        assert tell is not None
        tell(doubt)
    return _fewer(env, settings.contexts)


def _usage(spec: Spec, settings: TableSettings) -> dict[str, Any]:
    """Where each usage that a rule counts stands."""
    usage: dict[str, Any] = {**spec.usage, **settings.usage}
    for name in settings.usage:
        if name in spec.usage:
            raise InvalidInput(
                f"usage.{name}: a rule says already what each action uses: leave one of them out"
            )
    counted = {rule.quantity.usage: None for rule in spec.rules or ()}
    for needed in counted:
        if needed is not None and needed not in usage:
            raise InvalidInput(
                f"usage.{needed} is missing: a rule counts it: name the column of what was used"
            )
    return {name: one for name, one in usage.items() if name in counted}


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
