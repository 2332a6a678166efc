"""A log of decisions as a world to simulate in: its rows come again, and an action has the outcome that it had in similar rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.encoder import Encoder
from tightrope.environments.custom import Custom
from tightrope.environments.table import Contexts, PerAction, WeakEvidence, few_rows, require_columns
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.log import Log, LogColumns, by_action
from tightrope.rules import Rules
from tightrope.validation import Array, require_finite, whole_number
from tightrope.words import Key, Place


def from_log(
    frame: Any,
    *,
    context: Sequence[str] | Mapping[str, Any] | Encoder,
    action: str,
    reward: str,
    usage: Mapping[str, str | PerAction] | None = None,
    rules: Rules | None = None,
    group: str | None = None,
    neighbours: int = 20,
    in_order: bool = False,
    name: str = "log",
) -> Logged:
    """Make an environment that plays a log again, for policies that choose differently.

    In every round a row of the log comes. The chosen action then has the outcome (reward and usage together) of one of the nearest
    rows in which that action was taken, drawn at random. Nothing is fitted: noise, units and the dependence between rewards and
    usage are those of the log. `from_table` uses regression instead: it is faster, and fills in actions that were rare.

    Parameters
    ----------
    frame, context, rules, group, name
        As in `from_table`; nearness is measured on the encoded context.
    action, reward : str
        Columns: the action taken, and its reward, in any unit.
    usage : mapping, optional
        For each usage that `rules` count: the column of what was used, for rules that are seen after acting; or a mapping from
        actions to columns or numbers, if it is known for every action, as rules that are seen before acting require.
    neighbours : int
        How many of the nearest rows an outcome is drawn from; all of them if an action has fewer.
    in_order : bool
        Rows come in the order of the log, over and over; by default at random.

    The environment knows its true means, so regret in this world is exact. A `WeakEvidence` warning names an action with fewer than
    30 rows.

    Examples
    --------
    >>> import tightrope as tr
    >>> rng = np.random.default_rng(0)
    >>> age, sent = rng.uniform(20, 80, 2000), rng.choice(["email", "letter"], 2000)
    >>> spent = np.where(sent == "letter", age, 40.0) + rng.normal(0.0, 5.0, 2000)
    >>> rules = tr.Rules([tr.Capacity("letter", at_most=0.2)], actions=["email", "letter"])
    >>> env = from_log({"age": age, "sent": sent, "spent": spent}, context=["age"], action="sent", reward="spent", rules=rules)
    >>> run = tr.simulate(tr.ShadowPrice(rules, reward=tr.DisjointRidge(2, 2)), env, rounds=1000, seed=0)
    >>> bool(45 < run.optimum < 49), bool(run.average_reward.mean[-1] > 43)
    (True, True)
    """
    require_columns(context)
    log = Log.from_frame(
        frame,
        LogColumns(action=action, reward=reward, group=group),
        actions=None if rules is None else tuple(map(str, rules.actions)),
    )
    codes, actions = log.actions, log.action_names
    require_finite(f"column {reward!r}", log.rewards)
    if rules is None and usage:
        raise InvalidInput(field="usage", must="come with the rules that limit it")
    known: dict[str, Array] = {}
    used: dict[str, Array] = {}
    for one, source in (usage or {}).items():
        if isinstance(source, str):
            used[one] = log.frame.numbers(source)
        else:
            known[one] = by_action(log.frame, source, actions, f"usage[{one!r}]")
    _require_usage(rules, known, used)
    for doubt in few_rows(log, "outcomes are drawn from only these"):
        warnings.warn(doubt, WeakEvidence, stacklevel=2)
    if never := [one for j, one in enumerate(actions) if j not in codes]:
        wanted = f"hold every action at least once, but {never[0]!r} never comes"
        raise InvalidInput(field=f"column {action!r}", must=wanted)
    near = whole_number("neighbours", neighbours, low=1)
    world = _World(Contexts(log, context), log, known, used, near, in_order)
    return Logged(world, rules, name)


class Logged(Custom):
    """A `Custom` made by `from_log`; its `encoder` turns rows, of this log or new ones, into features."""

    def __init__(self, world: _World, rules: Rules | None, name: str) -> None:
        actions = None if rules is not None else world.actions
        Custom.__init__(
            self, world.draw, world.outcome, means=world.means, actions=actions, rules=rules, name=name
        )
        self._world, self.encoder = world, world.table.encoder

    def changed(self, **changes: Any) -> Logged:
        """The same environment under another name, or with other rules."""
        fields: dict[str, Any] = {"rules": self.rules, "name": self.name}
        if other := set(changes) - {*fields, "actions", "usage"}:
            what = "only rules and name of a log's environment can be changed"
            raise InvalidInput(f"{what}, not {sorted(other)}.")
        fields |= {name: value for name, value in changes.items() if name in fields}
        _require_usage(fields["rules"], self._world.known, self._world.used)
        return Logged(self._world, fields["rules"], fields["name"])

    @cached_property
    def truth(self) -> Tabular | None:
        """Its rows with their weights and means; None if they come in order rather than at random."""
        world = self._world
        if world.in_order:
            return None
        play, n = self.play(0, 0), len(world.codes)
        return self.table_of(play, n, (play.read(1, world.context(i)) for i in range(n)))


class _World:
    """The rows of a log, and for each row and action the similar rows in which that action was taken. It never changes."""

    def __init__(
        self,
        table: Contexts,
        log: Log,
        known: dict[str, Array],
        used: dict[str, Array],
        neighbours: int,
        in_order: bool,
    ) -> None:
        self.table, self.codes, self.actions, self.rewards = table, log.actions, log.action_names, log.rewards
        self.known, self.used, self.in_order = known, used, bool(in_order)
        self._ids = {one: j for j, one in enumerate(self.actions)}
        done = [np.flatnonzero(self.codes == j) for j in range(len(self.actions))]
        self._near = [_nearest(table, rows, neighbours) for rows in done]

    def __deepcopy__(self, memo: Any) -> _World:
        return self

    def context(self, i: int) -> dict[str, Any]:
        c = self.table.context[i]
        context: dict[str, Any] = {"row": i, "features": self.table.features[c]}
        if self.known:
            context["usage"] = {usage: one[i] for usage, one in self.known.items()}
        if self.table.groups is not None:
            context["group"] = self.table.groups[c]
        return context

    def draw(self, round: int, rng: np.random.Generator) -> dict[str, Any]:
        n = len(self.codes)
        return self.context((round - 1) % n if self.in_order else int(rng.integers(n)))

    def outcome(self, context: dict[str, Any], action: str, rng: np.random.Generator) -> Any:
        near = self._rows_like(context, self._ids[action])
        row = near[int(rng.random() * len(near))]
        return float(self.rewards[row]), {usage: float(one[row]) for usage, one in self.used.items()}

    def means(self, context: dict[str, Any]) -> Any:
        near = [self._rows_like(context, j) for j in range(len(self.actions))]
        rewards = np.array([self.rewards[rows].mean() for rows in near])
        return rewards, {
            usage: np.array([one[rows].mean() for rows in near]) for usage, one in self.used.items()
        }

    def _rows_like(self, context: dict[str, Any], j: int) -> NDArray[np.int64]:
        rows: NDArray[np.int64] = self._near[j][self.table.context[context["row"]]]
        return rows


def _nearest(table: Contexts, rows: NDArray[np.int64], neighbours: int) -> NDArray[np.int64]:
    """For each context the nearest of these rows, (C, k); ties go to the earlier row."""
    from scipy.spatial import cKDTree

    k = min(neighbours, len(rows))
    _, found = cKDTree(table.x[rows]).query(table.x[table.rows], k=[*range(1, k + 1)])
    return np.sort(rows[found], axis=1)


def _require_usage(rules: Rules | None, known: Mapping[str, Any], used: Mapping[str, Any]) -> None:
    """Refuse rules on a usage that the log does not have, or not for the actions that the rules count."""
    for rule in rules or ():
        usage = rule.quantity.usage
        if usage is None or usage in known:
            continue
        if usage not in used:
            raise InvalidInput(field=Place("usage", Key(usage)), problem=f"is missing: a rule reads '{rule}'")
        if rule.seen == "before":
            reason = f"since a rule reads '{rule}' and is seen before acting"
            wanted = f"give the usage of every action, {reason}, but a log has only that of the action taken"
            remedy = (
                "Give a mapping from actions to columns or numbers, or let the rule be seen after acting."
            )
            raise InvalidInput(field=Place("usage", Key(usage)), must=wanted, remedy=remedy)
