"""What a journal recorded, as another policy would read it: the served decisions and their outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from tightrope.errors import InvalidInput
from tightrope.log import Log
from tightrope.offer import Offer
from tightrope.policies import Policy
from tightrope.rules import Rules
from tightrope.rules.usage import by_action, of_row
from tightrope.service.experiment.configuration import served_policy
from tightrope.service.experiment.policy_input import PolicyInput, fixed_usage
from tightrope.service.journal import JournalError
from tightrope.service.journal.contract import Journal
from tightrope.service.journal.entries import Blank, Decided, Learnt, Started, probabilities_of
from tightrope.service.journal.rows import entry_of
from tightrope.service.requests import DecisionRequest, Used
from tightrope.spec import Spec, make_spec
from tightrope.validation import Array


@dataclass
class Served:
    """A decision that was served live, under the configuration `spec`, and the parts of its outcome that arrived."""

    spec: Spec
    position: int
    entry: Decided
    reward: float | None = None
    # What was seen after acting.
    used: Used | None = None
    # Where in the journal the last part of its outcome is.
    known_at: int = 0

    @property
    def asked(self) -> list[int]:
        """The ids of the requested actions, in their order: hard caps may have left fewer."""
        names, actions = self.spec.registry, self.entry.request.actions
        return list(names.active) if actions is None else names.ids(actions, once=True)

    @property
    def usage(self) -> dict[str, Any]:
        """What was known before acting, by name: one number for all actions, or one by the name of each."""
        sent = {
            name: by_action(given, [self.spec.actions[a] for a in self.asked])
            for name, given in (self.entry.request.usage or {}).items()
        }
        return {**fixed_usage(self.spec), **sent}

    def rows_on_offer(self, given: list[Any]) -> list[Any]:
        """Of rows for the requested actions, those of the actions that were on offer in the end."""
        offered, asked = self.entry.offered, self.asked
        return given if offered is None else [given[asked.index(a)] for a in offered]


@dataclass
class Record:
    """Everything that a journal says about decisions."""

    # Its configuration at the end.
    spec: Spec
    served: list[Served] = field(default_factory=list)
    # How many decisions in shadow mode, whose default someone else chose.
    shadow: int = 0
    # How many decisions whose inputs were erased.
    erased: int = 0
    # How many decisions of a control group whose baseline never takes some action on offer, and how many that repeat one.
    control: int = 0
    repeats: int = 0

    @classmethod
    def of(cls, journal: Journal, *, trust: bool = False) -> Record:
        """What an open journal recorded; with `trust`, your own classes that it names may run."""
        found: Record | None = None
        by_number: dict[int, Served] = {}
        for row in journal.rows():
            entry = entry_of(row)
            if isinstance(entry, Started):
                spec = make_spec(entry.spec, source="the journal", trust=trust)
                if found is None:
                    found = cls(spec)
                found.spec = spec
            elif found is None:
                raise JournalError("a journal begins with the experiment's configuration.")
            elif isinstance(entry, Blank):
                found.erased += entry.kind == "decided"
            elif isinstance(entry, Decided) and entry.proposed is not None:
                found.shadow += 1
            elif (
                isinstance(entry, Decided)
                and entry.assigned is not None
                and entry.assigned.repeats is not None
            ):
                found.repeats += 1
            elif isinstance(entry, Decided) and _spares_an_action(entry, found.spec):
                found.control += 1
            elif isinstance(entry, Decided):
                one = by_number[entry.number] = Served(found.spec, row.position, entry)
                found.served.append(one)
            elif isinstance(entry, Learnt) and entry.number in by_number:
                one = by_number[entry.number]
                one.reward = one.reward if entry.reward is None else entry.reward
                one.used = one.used if entry.usage is None else entry.usage
                one.known_at = row.position
        if found is None:
            raise JournalError("the journal is empty.")
        return found


def _spares_an_action(entry: Decided, spec: Spec) -> bool:
    """Whether the control group got it from a baseline that gave some action on offer no chance.

    Such a row says nothing about that action, and as the policy's own rows are a random part of all, nothing is lost without it.
    """
    if entry.assigned is None or entry.assigned.arm != "control":
        return False
    chances = probabilities_of(entry, len(spec.actions))
    offered = spec.registry.active if entry.offered is None else entry.offered
    return chances is not None and not bool((chances[list(offered)] > 0.0).all())


def spec_to_judge(spec: Spec, recorded: Spec) -> Spec:
    """A spec with the journal's actions, context and rules if it has none of its own: only a [policy] is required."""
    rules = [
        {**table, "seen": rule.seen}
        for table, rule in zip(recorded.data.get("rule", ()), recorded.rules or (), strict=True)
    ]
    stated = {name: recorded.data.get(name, {}) for name in ("context", "features")}
    theirs = {"actions": list(recorded.actions), **stated, "rule": rules}
    if "context" in spec.data or "features" in spec.data:
        theirs |= {"context": {}, "features": {}}
    data = {**{key: value for key, value in theirs.items() if value}, **spec.data}
    policy = spec.policies[0]
    return make_spec(data, source=spec.source, folder=policy.folder, name=spec.name, trust=policy.trust)


class Reader:
    """Recorded decisions as the policy of another spec reads them."""

    def __init__(self, spec: Spec, policy: Policy) -> None:
        self.spec = spec
        self._input = PolicyInput(spec, policy)
        self.late, self.known = self._input.late_columns, self._input.known_columns
        rules = spec.rules or ()
        self._sent, self._observed = {*self._input.early_usage} - {*spec.usage}, {*self._input.late_usage}
        self.grouped = any(rule.among is not None for rule in rules)

    def misfits(self, record: Record) -> Iterator[str]:
        """Why the policy can't be judged on the journal's decisions, in words."""
        theirs = record.spec
        if self.spec.actions != theirs.actions:
            yield (
                f"the actions must be the journal's, {_listed(theirs.actions)}, but the policy has {_listed(self.spec.actions)} "
                "(a file with [policy] alone takes actions and rules from the journal)"
            )
        for name in self.spec.context_names:
            if name not in theirs.context_names:
                recorded = _listed(theirs.context_names) if theirs.context_names else "no context at all"
                yield f"context.{name} was never recorded, and the policy looks at it; recorded: {recorded}"
        if self.spec.vector not in (None, theirs.vector):
            recorded = (
                "none were recorded" if theirs.vector is None else "the journal's [features] are others"
            )
            yield f"the policy uses the `features` that it declares, but {recorded}"
        specs = {id(one.spec): one.spec for one in record.served}.values()
        quantities = [(rule.quantity.usage, rule.seen) for spec in specs for rule in spec.rules or ()]
        before, after = (
            {name for name, seen in quantities if name and seen == when} for when in ("before", "after")
        )
        for name in sorted(self._sent & after - before):
            yield f'{name!r} is known only after acting here, so a rule on it must have seen = "after"'
        for name in sorted((self._sent | self._observed) - before - after):
            yield f"a rule of the policy counts {name!r}, which was never recorded; recorded: {_listed(before | after)}"

    def offered(self, one: Served) -> tuple[Offer, Array | None]:
        """What the policy is offered, and x (p,) if one serves all actions. Raises `InvalidInput` if that is impossible."""
        sent, names = one.entry.request, dict(zip(one.spec.actions, self.spec.actions))
        usage = {name: _by_present_names(given, names) for name, given in one.usage.items()}
        offered = one.entry.offered
        if offered is None and one.spec.registry != self.spec.registry:
            # Actions that joined later were not on offer then.
            offered = list(one.spec.registry.active)
        changes: dict[str, Any] = {
            "usage": {name: usage[name] for name in usage if name in self._sent} or None,
            "actions": offered,
        }
        if sent.context is not None:
            changes["context"] = {
                name: value for name, value in sent.context.items() if name in self.spec.context_names
            } or None
        if self.spec.vector is None:
            changes["features"] = None
        elif sent.features is not None and isinstance(sent.features[0], list):
            changes["features"] = one.rows_on_offer(sent.features)
        if self.spec.rules is None:
            changes |= {"usage": None, "group": None}
        request: DecisionRequest = msgspec.structs.replace(sent, **changes)
        offer = self._input.read(request)
        x = self._input.x(request, len(offer.ids))
        return offer, x if x is None or x.ndim == 1 else None

    def observed(self, one: Served) -> Array | None:
        """The costs that the policy sees after acting, (K'',); None if usage is not known."""
        rules = self.spec.rules
        if rules is None or not len(self.late):
            return np.empty(0)
        chosen = one.spec.actions[one.entry.action]
        used = {name: of_row(given, 0, chosen, uncounted=0.0) for name, given in one.usage.items()}
        used |= one.used or {}
        group = one.entry.request.group
        if _needed(rules, group) - set(used):
            return None
        usage = {name: value for name, value in used.items() if name in self._observed}
        return rules.observed(usage, action=one.entry.action, group=group)


def _by_present_names(given: Any, names: Mapping[str, str]) -> Any:
    """Usage by action, under the names that the actions have now."""
    return {names.get(name, name): used for name, used in given.items()} if isinstance(given, dict) else given


def log_of(journal: Journal, *, trust: bool = False) -> tuple[Log, Spec]:
    """A journal as a log: decisions that were served live and have their whole outcome, in order; and its spec.

    The log has propensities if those of all decisions are known. Its costs are those that are seen after acting; rules seen before
    acting need no log. With `trust`, your own classes that the journal names may run.
    """
    record = Record.of(journal, trust=trust)
    spec = record.spec
    reader = Reader(spec, served_policy(spec))
    if reasons := list(reader.misfits(record)):
        raise InvalidInput("the journal can't be read as a log: " + "; ".join(reasons) + ".")
    actions, rewards, late, contexts, chances = [], [], [], [], []
    J = len(spec.actions)
    for one in record.served:
        costs = None if one.reward is None else reader.observed(one)
        if one.reward is None or costs is None:
            continue
        actions.append(one.entry.action)
        rewards.append(one.reward)
        late.append(costs)
        contexts.append(reader.offered(one)[1])
        p = probabilities_of(one.entry, J)
        chances.append(np.nan if p is None else p[one.entry.action])
    if len(rewards) < 2:
        raise InvalidInput(f"the journal has {len(rewards)} decisions with their whole outcome; it needs 2.")
    names = () if spec.rules is None else spec.rules.names
    log = Log(
        actions,
        rewards,
        np.array(late),
        propensities=None if np.isnan(chances).any() else chances,
        contexts=np.array(contexts) if all(x is not None for x in contexts) else None,
        in_order=True,
        action_names=spec.actions,
        constraints=[names[k] for k in reader.late],
    )
    return log, spec


def _needed(rules: Rules, group: Any) -> set[str]:
    force = rules.in_force(group)
    return {
        name
        for k, column in enumerate(rules.columns)
        if force[k] and column.rule.seen == "after" and (name := column.rule.quantity.usage)
    }


def _listed(names: Any) -> str:
    return ", ".join(map(repr, sorted(names) if isinstance(names, set) else names)) or "nothing"
