"""Any table of logged decisions, or of labelled examples, as an environment."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope.encoder import Encoder
from tightrope.environments.action_models import chance_model, judged, ridge_by_action
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.files import replacing, write, write_json
from tightrope.frames import Frame
from tightrope.log import Codes, History, Log, LogColumns, by_action, units
from tightrope.messages import leaves
from tightrope.problem import Seen
from tightrope.rules import Rules
from tightrope.spec import Spec, SpecError, convert_table
from tightrope.toml import dumps
from tightrope.validation import Array, finite_number, require_range
from tightrope.words import Key, Place

PerAction: TypeAlias = Mapping[Any, str | float]

FEW_ROWS = 30
_NAMED = 5  # so many actions are named in doubts about each; of more only their number is said
_RARE, _RARE_SHARE = 0.01, 0.05  # chances; of many actions, a tenth of an even share is rare
_OF_EVEN = 0.1
_CLIPPED_SHARE = 0.01
_ROUNDING = 1e-10
_FOLDS = 5


class WeakEvidence(UserWarning):
    """The environment was made, but the table says little about part of it; the message says which."""


def from_table(
    frame: Any,
    *,
    context: Sequence[str] | Mapping[str, Any] | Encoder,
    action: str | None = None,
    reward: str | PerAction | None = None,
    label: str | None = None,
    usage: Mapping[str, str | PerAction] | None = None,
    rules: Rules | None = None,
    group: str | None = None,
    unit: str | Sequence[str] | None = None,
    ridge: float = 1.0,
    costs_seen: Seen | None = None,
    name: str = "table",
    judge: bool = True,
) -> Table:
    """Make an environment whose contexts are the rows of a table.

    There are three kinds of table. *Logged* decisions: `action` and `reward` name columns, and the mean reward of each action is
    fitted by ridge regression on its rows. Rewards *known* for every action: `reward` maps actions to columns or numbers.
    *Labelled* examples: `label` names a column, and the reward is 1[action = label]. The last two are exact; nothing is fitted.
    The `Tabular` that comes back also has the `encoder`, and can write itself as a spec to serve.

    Parameters
    ----------
    frame : DataFrame of pandas or polars, pyarrow Table, mapping of columns, or list of rows
        No value may be missing, except in columns of the context that declare what to use instead.
    context : sequence of column names, mapping of names to declarations, or Encoder
        See `Encoder`, which is fitted to the table unless it is fitted already. By default numbers are standardised, strings
        become an indicator of each level but the first, booleans 0 and 1; x = (1, …) is scaled so that ‖x‖ <= 1. Equal rows are
        one context; contexts come in the order of the rows.
    action, reward, label
        See above. Rewards lie in [0, 1].
    usage : mapping, optional
        For each usage that `rules` count: the column of what the logged action used, fitted like the rewards; or a mapping from
        actions to columns or numbers, if it is known.
    rules : Rules, optional
        Its actions are the environment's. Without rules there are no costs.
    group : str, optional
        Column of each row's group, for rules `among` groups.
    unit : column name or names, optional
        Who a row is about, if rows of one person, or of one profile, resemble each other: a fit is judged on units that it has not
        seen. By default it is judged on contexts that it has not seen.
    ridge : float
        Penalty on the slopes of a fit, not on its intercepts.
    costs_seen : "before" or "after", optional
        When the costs of all rules are seen; by default as each rule says.
    name : str
    judge : bool
        Whether to look for weak evidence, the slowest step for a large table.

    Warns
    -----
    WeakEvidence
        For logged tables: when an action has fewer than 30 rows; when its chance, by a logistic model of the context, is below 1 %
        in more than 5 % of the rows; when a fit predicts units it has not seen no better than the average of each action does;
        when a fit leaves the range of its outcome, and is clipped, in more than 1 % of contexts and actions. If that is so of many
        actions, one warning says of how many.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> age, sent = rng.uniform(20, 80, 2000), rng.choice(["email", "letter"], 2000)
    >>> bought = rng.random(2000) < np.where(sent == "letter", age / 100, 0.4)
    >>> frame = {"age": age, "sent": sent, "bought": bought}
    >>> env = from_table(frame, context=["age"], action="sent", reward="bought")
    >>> youngest, oldest = env.rewards[age.argmin()], env.rewards[age.argmax()]
    >>> env.actions, youngest.round(1).tolist(), oldest.round(1).tolist()
    (('email', 'letter'), [0.4, 0.2], [0.4, 0.8])
    """
    finite_number("ridge", ridge, low=0.0, open_low=True)
    require_columns(context)
    columns = LogColumns(
        action=action,
        reward=named(reward) if isinstance(reward, Mapping) else reward,
        label=label,
        usage={one: at if isinstance(at, str) else named(at) for one, at in (usage or {}).items()},
        group=group,
    )
    log = Log.from_frame(frame, columns, actions=None if rules is None else tuple(map(str, rules.actions)))
    if isinstance(reward, str):
        require_range(f"column {reward!r}", log.rewards, 0.0, 1.0)
    fitting: dict[str, Any] = {"unit": unit, "ridge": ridge, "judge": judge}
    env, doubts = table_of(log, context, usage, rules, costs_seen=costs_seen, name=name, **fitting)
    for doubt in doubts:
        warnings.warn(doubt, WeakEvidence, stacklevel=2)
    return env


def table_of(
    log: Log,
    context: Sequence[str] | Mapping[str, Any] | Encoder,
    usage: Mapping[str, str | PerAction] | None,
    rules: Rules | None,
    *,
    unit: str | Sequence[str] | None = None,
    ridge: float = 1.0,
    costs_seen: Seen | None = None,
    name: str = "table",
    judge: bool = True,
    most: int | None = None,
) -> tuple[Table, list[str]]:
    """The environment of a log, as `from_table` makes it, and the reasons to doubt it.

    Of more than `most` contexts so many are drawn, always the same; means are fitted to all rows. Rewards outside [0, 1] keep their
    own unit, with Gaussian noise as wide as the residuals of the fit.
    """
    table = Contexts(log, context, most)
    worst, best = float(log.rewards.min()), float(log.rewards.max())
    low, scale = (worst, best - worst or 1.0) if worst < 0.0 or best > 1.0 else (0.0, 1.0)
    inside = log.rewards if (low, scale) == (0.0, 1.0) else (log.rewards - low) / scale
    fits: _Fits | None = None
    if log.tells_all:
        rewards = table.averages(inside)
    else:
        fits = _Fits(table, log, ridge, table.context if unit is None else units(log.frame, unit), judge)
        rewards = fits.fit(str(log.columns.reward), inside, low=0.0, high=1.0, shown=(low, low + scale))
    noise: dict[str, Any] = {}
    if (low, scale) != (0.0, 1.0):
        rewards = low + scale * rewards
        left = 0.0 if fits is None else scale * float((inside - fits.expected(inside)).std())
        noise = {"reward_noise": "gaussian", "reward_scale": max(1e-9 * scale, left)}
    used = _usage(table, log, fits, usage or {}, rules)
    costs, cost_range = _costs(table, used, rules)
    told = {one: getattr(log.columns, one) for one in ("action", "reward", "label", "usage", "group")}
    env = Table(
        encoder=table.encoder,
        rules=rules,
        usage=used,
        groups=table.groups,
        told={name: one for name, one in told.items() if one},
        weights=table.weights,
        features=table.features,
        rewards=rewards,
        costs=costs,
        cost_range=cost_range,
        costs_seen=costs_seen or (rules.costs_seen if rules is not None else "before"),
        actions=log.action_names,
        name=name,
        **noise,
    )
    return env, [] if fits is None else fits.doubts


class Table(Tabular):
    """A `Tabular` made by `from_table`, which knows how its rows were read."""

    encoder: Encoder  # turns a row, of this table or a new one, into features
    usage: dict[str, Array]  # (C, J): what each action uses in each context, by the names in the rules
    told: dict[str, Any]  # the columns of `action`, `reward`, `label`, `usage` and `group`

    def __init__(
        self, *, encoder: Encoder, usage: dict[str, Array], told: dict[str, Any] | None = None, **tabular: Any
    ) -> None:
        Tabular.__init__(self, **tabular)
        vars(self).update(encoder=encoder, usage=usage, told=told or {})

    def to_spec(
        self,
        path: str | os.PathLike[str],
        *,
        policy: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        simulation: Mapping[str, Any] | None = None,
        warm_start: Any = None,
    ) -> Path:
        """Write a spec that can be simulated, tuned and served; its callers send rows by column names.

        `save` is an alias; `tightrope.environments.load` reads the environment back.

        Besides ``wards.toml`` it writes ``wards.encoder.json``, the encoder, and ``wards.npz``, the environment. What an action
        always uses goes into the rules; usage that depends on the context and is seen before acting is sent by callers, and so is
        the group.

        `policy` is the ``[policy]``, or several; by default "shadow-price" with the model that fits. `simulation` is the
        ``[simulation]``. `warm_start` is a table of past decisions with the same column names as this table: it goes to
        ``wards.log.json``, and a service learns from it before its first decision. Returns the path of the spec.

        Examples
        --------
        >>> import tempfile
        >>> from tightrope.spec import read_spec
        >>> env = from_table({"age": [20, 30], "label": ["a", "b"]}, context=["age"], label="label", name="ages")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     spec = read_spec(env.to_spec(f"{folder}/ages.toml"))
        >>> spec.name, spec.encoder == env.encoder
        ('ages', True)
        """
        path = Path(path)
        if path.suffix != ".toml":
            raise InvalidInput(field="path", must="end in .toml", got=str(path))
        arrays: dict[str, Any] = {"weights": self.weights, "features": self.features, "rewards": self.rewards}
        if self.groups is not None and self.rules is not None and any(one.among for one in self.rules):
            arrays["groups"] = np.array(self.groups)
        data: dict[str, Any] = {"name": self.name, "actions": list(self.actions)}
        data["context"] = {"encoder": path.with_suffix(".encoder.json").name}
        fixed: dict[str, dict[str, float]] = {}
        for name, table in self.usage.items():
            if (table == table[0]).all():
                fixed[name] = dict(zip(self.actions, table[0].tolist()))
            else:
                arrays[f"usage.{name}"] = table
        if self.rules is not None:
            data["rule"] = self.rules.to_data()
        for one, rule in zip(data.get("rule", ()), self.rules or ()):
            if "action" in one:
                chosen = one["action"]
                one["action"] = [*map(str, chosen)] if isinstance(chosen, list | tuple) else str(chosen)
            if rule.quantity.usage in fixed:
                one["usage"] = fixed[rule.quantity.usage]
        if policy is not None:
            data["policy"] = dict(policy) if isinstance(policy, Mapping) else [dict(one) for one in policy]
        data["environment"] = {"kind": "tabular", "file": path.with_suffix(".npz").name}
        if simulation is not None:
            data["simulation"] = dict(simulation)
        if warm_start is not None:
            log = path.with_suffix(".log.json")
            data["warm_start"] = {"file": log.name, **self.told}
            write_json(log, self._past(Frame(warm_start)), indent=0)
        self.encoder.save(path.with_suffix(".encoder.json"))
        with replacing(path.with_suffix(".npz")) as draft, draft.open("wb") as file:
            np.savez_compressed(file, **arrays)
        write(path, dumps(data))
        return path

    save = to_spec

    def _past(self, frame: Frame) -> dict[str, list[Any]]:
        """The columns that a warm start reads, as plain data, None where a value is missing."""
        named = [*self.encoder.columns, *(leaf for _, leaf in leaves(self.told) if isinstance(leaf, str))]
        return {name: frame.column(name).to_list() for name in dict.fromkeys(named)}


class Contexts:
    """The distinct contexts of a log, in the order of their first rows."""

    def __init__(self, log: Log, context: Any, most: int | None = None) -> None:
        self.encoder = _fitted(context, log.frame)
        x = self.encoder.design(log.frame)
        groups = log.context_groups
        keys = x if groups is None else np.column_stack([x, np.unique(groups, return_inverse=True)[1]])
        _, rows, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(rows)
        self.x: Array = x
        self.context: Codes = np.argsort(order)[inverse.ravel()]
        self.rows: Codes = rows[order]
        self.scale = self.encoder.norm
        self.weights: Array = np.bincount(self.context) / self.context.size
        self.drawn: Codes | None = None
        if most is not None and self.rows.size > most:
            draw = np.random.default_rng(0)
            self.drawn = np.sort(draw.choice(self.rows.size, most, replace=False, p=self.weights))
            self.rows, self.weights = self.rows[self.drawn], np.full(most, 1.0 / most)
        self.groups: list[str] | None = None if groups is None else groups[self.rows].tolist()
        self.features: Array = x[self.rows] / self.scale

    def averages(self, values: Array) -> Array:
        counts = np.bincount(self.context)
        sums = np.zeros((counts.size, values.shape[1]))
        np.add.at(sums, self.context, values)
        averages: Array = sums / counts[:, None]
        return averages if self.drawn is None else averages[self.drawn]


def few_rows(log: Log, therefore: str) -> list[str]:
    """Which actions have few rows: a sentence for each, or one for all if there are many."""
    counts = np.bincount(log.actions, minlength=log.n_actions)
    few = [j for j in np.argsort(counts, kind="stable").tolist() if counts[j] < FEW_ROWS]
    if len(few) <= _NAMED:
        named = sorted((log.action_names[j], int(counts[j])) for j in few)
        return [f"action {one!r} has only {n} of {log.n_rows} rows: its {therefore}" for one, n in named]
    least = ", ".join(f"{log.action_names[j]!r} has {counts[j]}" for j in few[:_NAMED])
    many = f"{len(few):,} of {log.n_actions:,} actions have fewer than {FEW_ROWS} of {log.n_rows:,} rows"
    return [f"{many} ({least}, …): their {therefore}"]


class _Fits:
    def __init__(self, table: Contexts, log: Log, ridge: float, units: Codes, judge: bool) -> None:
        codes, actions = log.actions, log.action_names
        self._table, self._codes, self._actions = table, codes, actions
        self._ridge, self._units, self._judge = ridge, units, judge
        self.doubts: list[str] = []
        if not judge:
            return
        self.doubts += few_rows(log, "means are a guess")
        chances = chance_model(table.x, codes, len(actions))(table.x[judged(len(table.x))])
        least = min(_RARE, _OF_EVEN / len(actions))
        shares = (chances < least).mean(axis=0)
        rare = [(one, share) for one, share in zip(actions, shares.tolist()) if share > _RARE_SHARE]
        if len(rare) > _NAMED:
            said = f"{len(rare):,} of {len(actions):,} actions have a chance below {100 * least:.2g}%"
            where = f"in more than {_RARE_SHARE:.0%} of the rows"
            self.doubts.append(f"{said} {where}: their means are extrapolated there")
            return
        for one, share in rare:
            said = f"action {one!r} has a chance below {100 * least:.2g}% in {share:.0%} of the rows"
            self.doubts.append(f"{said}: its means are extrapolated there")

    def fit(
        self, name: str, y: Array, *, low: float, high: float, shown: tuple[float, float] | None = None
    ) -> Array:
        """Means by context and action, clipped to [low, high]; messages state the range as `shown`."""
        table = self._table
        coefficients = self._coefficients(y, np.ones(y.size, dtype=bool))
        if self._judge:
            self._check_skill(name, y)
        means = table.features @ (coefficients * table.scale).T
        outside = float(np.mean((means < low - _ROUNDING) | (means > high + _ROUNDING)))
        ends = shown or (low, high)
        if self._judge and outside > _CLIPPED_SHARE:
            self.doubts.append(
                f"the fit of {name!r} leaves [{ends[0]:g}, {ends[1]:g}] in {outside:.1%} of contexts and actions; "
                "it was clipped there, so the means are not linear"
            )
        clipped: Array = np.clip(means, low, high)
        return clipped

    def expected(self, y: Array) -> Array:
        """What each row is expected to have, (n,), where y in [0, 1] is what it has."""
        fitted = self._coefficients(y, np.ones(y.size, dtype=bool))[self._codes]
        return np.asarray(np.clip(np.einsum("ij,ij->i", self._table.x, fitted), 0.0, 1.0))

    def _coefficients(self, y: Array, seen: NDArray[np.bool_]) -> Array:
        x, codes = self._table.x[seen], self._codes[seen]
        return ridge_by_action(x, codes, y[seen], len(self._actions), self._ridge)

    def _check_skill(self, name: str, y: Array) -> None:
        """Compare the fit with each action's average on rows whose unit neither has seen."""
        folds = self._units % _FOLDS
        error = average_error = 0.0
        for fold in range(_FOLDS):
            seen, codes = folds != fold, self._codes[folds == fold]
            fitted = self._coefficients(y, seen)[codes]
            predicted = np.einsum("ij,ij->i", self._table.x[~seen], fitted)
            n = len(self._actions)
            counts = np.bincount(self._codes[seen], minlength=n)
            averages = np.bincount(self._codes[seen], y[seen], n) / np.maximum(counts, 1)
            error += float(((y[~seen] - predicted) ** 2).sum())
            average_error += float(((y[~seen] - averages[codes]) ** 2).sum())
        if error >= average_error > 0:
            self.doubts.append(
                f"the fit of {name!r} predicts unseen rows no better than each action's average "
                f"(squared error {error / y.size:.4g} against {average_error / y.size:.4g})"
            )


def _usage(
    table: Contexts, log: Log, fits: _Fits | None, given: Mapping[str, str | PerAction], rules: Rules | None
) -> dict[str, Array]:
    """What each action uses in each context, (C, J), by the names in the rules."""
    if rules is None and given:
        raise InvalidInput(field="usage", must="come with the rules that limit it")
    usage: dict[str, Array] = {}
    for name, source in given.items():
        if not isinstance(source, str):
            known = by_action(log.frame, source, log.action_names, f"usage[{name!r}]")
            usage[name] = table.averages(known)
        elif fits is None:
            wanted = "give the usage of every action, because no action was logged"
            raise InvalidInput(field=Place("usage", Key(name)), must=wanted, got=source)
        else:
            observed = log.frame.numbers(source)
            low, high = float(observed.min()), float(observed.max())
            usage[name] = fits.fit(source, observed, low=low, high=high)
    return usage


def _costs(
    table: Contexts, usage: Mapping[str, Array], rules: Rules | None
) -> tuple[Array | None, Array | tuple[float, float]]:
    if rules is None:
        return None, (-1.0, 1.0)
    n = table.rows.size
    if not usage and table.groups is None:
        same = rules.costs()
        return np.broadcast_to(same, (n, *same.shape)), rules.range_of_costs(same)
    costs = costs_of(rules, usage, [None] * n if table.groups is None else table.groups)
    return costs, rules.range_of_costs(costs)


def costs_of(rules: Rules, usage: Mapping[str, Array], groups: Sequence[Any]) -> Array:
    """The costs (C, J, K) of the usages (C, J) in contexts of these groups."""
    used = [{name: table[c] for name, table in usage.items()} for c in range(len(groups))]
    return np.stack([rules.costs(one, group) for one, group in zip(used, groups)])


def named(values: PerAction) -> dict[str, str | float]:
    return {str(action): source for action, source in values.items()}


def require_columns(context: Any) -> None:
    if isinstance(context, str) or (not isinstance(context, Encoder) and len(context) == 0):
        raise InvalidInput(field="context", must="be one or more column names", got=context)


def _fitted(context: Any, frame: Any) -> Encoder:
    if not isinstance(context, Encoder):
        return Encoder(context).fit(frame)
    return context if context.fitted else context.copy().fit(frame)


class TableSettings(History, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of an `[environment]` with `kind = "table"`."""

    # At most this many rows become contexts, drawn with a fixed seed if the table has more; means are fitted to all rows.
    contexts: int = 4000
    # Of more rows than that, so many are drawn, with a fixed seed and at least one of each action and group; all by default.
    rows: int | None = None
    unit: str | None = None  # see `from_table`

    def __post_init__(self) -> None:
        History.__post_init__(self)
        for name in ("contexts", "rows"):
            if (most := getattr(self, name)) is not None and most < 1:
                raise InvalidInput(field=name, must="be at least 1", got=most)


def table_environment(
    spec: Spec, tell: Callable[[str], None] | None = None, log: Log | None = None
) -> Tabular:
    """The environment of a spec whose ``[environment]`` is a table: rows as its encoder reads them, costs as its rules count them.

    Reasons to doubt it go to `tell`, if given: they are for the author of the spec, not for every process that reads it. `log` is
    the table, if it has been read already.
    """
    stated = spec.environment
    assert stated is not None
    settings: TableSettings = convert_table(stated.settings, TableSettings, "environment")
    if spec.encoder is None:
        what = 'an environment of kind "table" needs it to read the rows'
        raise SpecError(f"context: is missing: {what}")
    try:
        log = settings.read(stated.folder, most=settings.rows) if log is None else log
        usage = _usage_columns(spec, settings)
        log = log.for_actions(spec.actions) if spec.actions else log
        options: dict[str, Any] = {"unit": settings.unit, "name": spec.name, "judge": tell is not None}
        options["most"] = settings.contexts
        env, doubts = table_of(log, spec.encoder, usage, spec.rules, **options)
    except InvalidInput as error:
        raise SpecError(error, within="environment") from error
    if tell is not None:
        for doubt in doubts:
            tell(doubt)
    return env


def _usage_columns(spec: Spec, settings: TableSettings) -> dict[str, Any]:
    usage: dict[str, Any] = {**spec.usage, **settings.usage}
    if twice := [name for name in settings.usage if name in spec.usage]:
        what = "a rule already says what each action uses: leave one of them out"
        raise InvalidInput(f"usage.{twice[0]}: {what}")
    counted = dict.fromkeys(rule.quantity.usage for rule in spec.rules or ())
    if missing := [name for name in counted if name is not None and name not in usage]:
        what = "is missing, but a rule counts it; name the column of what was used"
        raise InvalidInput(f"usage.{missing[0]} {what}")
    return {name: one for name, one in usage.items() if name in counted}
