"""The decision problem: which actions there are, what a round brings, which costs are seen when.

A `Problem` is made once, from rules, a spec or an environment. Code that needs to know whether a model, a policy or an environment
fits asks it. A policy states its `Setting` in its hooks; `Problem.misfits` says in words what does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast, get_args

import numpy as np
from numpy.typing import NDArray

from tightrope import displays
from tightrope.errors import InvalidInput
from tightrope.rules import Rules
from tightrope.validation import NORM_LIMIT, Array, require_choice
from tightrope.words import Either, Text, joined

Seen = Literal["before", "after"]
# When costs are seen: all of them alike, or one word for each of K.
WhenSeen = Seen | tuple[Seen, ...]
Part = Literal["reward", "cost"]

_ROUNDING = 1e-9


class Learner(Protocol):
    """The part of a model that a problem looks at."""

    n_features: int
    n_actions: int | None


@dataclass(frozen=True)
class Vectors:
    """Features that a round brings: `length` numbers for each action, or once for all of them; `longest` is their greatest norm."""

    length: int
    per_action: bool
    longest: float | None = None


@dataclass(frozen=True, eq=False)
class Truth:
    """The means behind an environment, for C contexts and J actions, to check what a policy was told."""

    weights: Array
    rewards: Array
    costs: Array
    available: NDArray[np.bool_]
    rewards_in_unit: bool
    costs_fixed: bool
    random_costs: bool
    cost_features: Array | None = None

    @property
    def met(self) -> NDArray[np.bool_]:
        return np.asarray(self.weights > 0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Setting:
    """What a policy requires of its problem. None means no requirement."""

    n_actions: int | None = None
    n_contexts: int | None = None
    n_constraints: int | None = None  # of a policy that looks at costs
    seen_before: NDArray[np.bool_] | None = None  # which of K it must see before acting
    reward: Learner | None = None
    cost: Learner | None = None
    takes_features: bool = True
    takes_contexts: bool = True  # several of them
    takes_sleep: bool = True  # actions that are not always on offer
    unit_rewards: bool = False  # observed rewards must lie in [0, 1]
    shared_costs: bool = False  # what is seen of one action must tell about others
    counts_on: tuple[tuple[str, int], ...] = ()  # names and actions that must always be on offer
    any_of: tuple[int, ...] = ()  # one of them must be on offer in every round
    spanned_by: tuple[
        int, ...
    ] = ()  # their features must span those of all actions, so that all costs can be learnt
    # What it was told about the means; each check returns its objections for a `Truth`.
    told: tuple[Callable[[Problem, Truth], Iterator[str]], ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """J actions, K constraints, and what is seen of them. `rules` say themselves how many there are, and when costs are seen.

    >>> import tightrope as tr
    >>> problem = Problem(n_actions=3, features=Vectors(2, per_action=False), n_constraints=1)
    >>> problem.model_misfits("reward", tr.Ridge(5))
    ['its features need DisjointRidge(3, 2) or Ridge(6) as the reward model, not Ridge(5, bonus=1, m=1, ridge=1)']
    """

    n_actions: int
    n_contexts: int | None = None  # where contexts are numbered
    features: Vectors | None = None  # None if there are only arms
    cost_features: Vectors | None = None  # the same as `features` unless given
    n_constraints: int = 0
    rules: Rules | None = None
    seen: WhenSeen = "before"
    cost_range: Any = None  # (K, 2): what costs are known to lie in
    actions: tuple[str, ...] | None = None
    truth: Truth | None = None
    # What else a policy's constructor may ask for by name; a function is called only if it does.
    tells: Mapping[str, Callable[[], Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rules is not None:
            object.__setattr__(self, "n_constraints", self.rules.n_constraints)
        if self.cost_features is None:
            object.__setattr__(self, "cost_features", self.features)

    @property
    def seen_before(self) -> NDArray[np.bool_]:
        if self.rules is not None:
            return np.asarray(self.rules.seen, dtype=bool)
        return which_before(self.seen, self.n_constraints)

    @property
    def constraints(self) -> int | Rules | tuple[Seen, ...]:
        """The value for a policy's `constraints`: K, the rules, or, if costs are seen at different times, when each is seen."""
        if self.rules is not None:
            return self.rules
        return self.seen if isinstance(self.seen, tuple) else self.n_constraints

    def __repr__(self) -> str:
        return f"Problem({', '.join(f'{name}: {displays.text(value)}' for name, value in self._facts())})"

    def _repr_html_(self) -> str:
        rules = displays.lines_of([] if self.rules is None else [str(rule) for rule in self.rules])
        return displays.page("Problem", displays.facts(self._facts()), rules)

    def _facts(self) -> list[tuple[str, Any]]:
        known: list[tuple[str, Any]] = [("actions", self.n_actions if self.actions is None else self.actions)]
        known += [] if self.n_contexts is None else [("contexts", self.n_contexts)]
        if self.features is not None:
            shared = "for each action" if self.features.per_action else "for all actions at once"
            known.append(("features", f"{self.features.length} {shared}"))
        if self.n_constraints:
            before = int(self.seen_before.sum())
            after = self.n_constraints - before
            seen = [f"{n} seen {when} acting" for n, when in ((before, "before"), (after, "after")) if n]
            known.append(("constraints", " and ".join(seen)))
        return known

    # What fits

    def misfits(self, policy: object) -> list[str]:
        """Why a policy can't run here at all; empty if it can. A policy without `hooks`, which state its setting, always can."""
        setting = _setting_of(policy)
        return [] if setting is None else list(self._shapes(setting))

    def outside(self, policy: object) -> list[str]:
        """Why this is not what a policy was made for, even if it can run: assumptions that fail, wrong things that it was told."""
        setting = _setting_of(policy)
        return [] if setting is None else [*self._shapes(setting), *self._assumptions(setting)]

    def require_fit(self, policy: object) -> None:
        reasons = self.misfits(policy)
        if reasons:
            said = "{policy!r} does not fit the environment: {reasons}."
            raise InvalidInput(Text(said, policy=policy, reasons=joined("; ", reasons)))

    def model_misfits(self, part: Part, model: Learner) -> list[str]:
        """Why a model of rewards or costs can't read the features of a round; empty if it can."""
        vectors = self.features if part == "reward" else self.cost_features
        J, d = self.n_actions, model.n_features
        if model.n_actions not in (None, J):
            said = "it has {J} actions, but the {part} model is {model!r}"
            return [Text(said, J=J, part=part, model=model)]
        if not model.n_features:
            return []
        if vectors is None:
            if model.n_actions is None and d == J:
                return []
            said = "it has no features for the {part} model {model!r}; without features, use {wanted}"
            arms = Either(f"Ridge({J}) or ArmMeans({J})", "ridge or arm-means")
            return [Text(said, part=part, model=model, wanted=arms)]
        p = vectors.length
        if model.n_actions is not None:
            fits, wanted = d == p, Either(f"DisjointRidge({J}, {p})", "disjoint-ridge")
        elif vectors.per_action:
            fits, wanted = d == p, Either(f"Ridge({p})", "ridge")
        else:
            either = Either(f"DisjointRidge({J}, {p}) or Ridge({J * p})", "disjoint-ridge or ridge")
            fits, wanted = d == J * p, either
        said = "its features need {wanted} as the {part} model, not {model!r}"
        reasons: list[str] = [] if fits else [Text(said, wanted=wanted, part=part, model=model)]
        longest = vectors.longest if getattr(model, "unit_features", False) else None
        if longest is not None and not longest**2 <= NORM_LIMIT:
            reasons.append(f"a feature vector has norm {longest:.4g}, but at most 1 is allowed")
        return reasons

    def model_rows(self, part: Part, model: Learner | None, features: Array | None) -> Array | None:
        """An environment's features as the rows that a model reads: (C, J, d), or (C, 1, p) for one row that serves all actions.

        None for a model that reads none. Arms alone are e_j to a model that all actions share, and one x for all is e_j ⊗ x.
        """
        if model is None or not model.n_features:
            return None
        reasons = self.model_misfits(part, model)
        if reasons:
            said = "the {part} model does not fit the environment: {reasons}."
            raise InvalidInput(Text(said, part=part, reasons=joined("; ", reasons)))
        J = self.n_actions
        if features is None:
            return np.eye(J)[None]
        if features.ndim == 3:
            return np.array(features)
        if model.n_actions is not None:
            return np.array(features[:, None, :])
        rows = np.einsum("jk,cp->cjkp", np.eye(J), features)
        return np.ascontiguousarray(rows.reshape(len(features), J, -1))

    def _shapes(self, setting: Setting) -> Iterator[str]:
        """What makes even a single round impossible."""
        if setting.n_actions not in (None, self.n_actions):
            yield f"it has {self.n_actions} actions, but the policy has {setting.n_actions}"
        if setting.n_contexts is not None and self.n_contexts is None:
            yield "the policy needs the number of the context, but contexts are only numbered if all fields are categories"
        elif setting.n_contexts not in (None, self.n_contexts):
            yield f"it has {self.n_contexts} contexts, but the policy has {setting.n_contexts}"
        if setting.n_constraints is not None:
            before, wanted = self.seen_before, setting.seen_before
            if self.n_constraints != setting.n_constraints:
                yield f"it has {self.n_constraints} constraints, but the policy has {setting.n_constraints}"
            elif wanted is not None and (wanted & ~before).any():
                yield f"{_those(wanted & ~before)} are seen after acting, but the policy has no model of them"
            elif wanted is not None and (before & ~wanted).any():
                yield f"{_those(before & ~wanted)} are seen before acting, but the policy expects to learn them after acting"
        if setting.reward is not None:
            yield from self.model_misfits("reward", setting.reward)
        if setting.cost is not None:
            yield from self.model_misfits("cost", setting.cost)
        if not setting.takes_features and self.features is not None:
            yield "it has features, which the policy does not take"
        truth = None if setting.takes_sleep else self.truth
        if truth is not None and not truth.available[truth.met].all():
            yield "some actions are not always on offer"

    def _assumptions(self, setting: Setting) -> Iterator[str]:
        """Which assumptions of the policy's promises fail."""
        if setting.shared_costs and (self.cost_features is None or not self.cost_features.per_action):
            yield (
                "nothing seen of one action tells about another, so no action would ever be shown to be safe: "
                "give each action features for its costs"
            )
        for name, action in setting.counts_on:
            if action >= self.n_actions:
                yield f"{name} is action {action}, but there are {self.n_actions} actions"
            elif self.truth is not None and not self.truth.available[self.truth.met, action].all():
                yield f"{name} (action {action}) is not on offer in every context"
        truth = self.truth
        if truth is None:
            return
        if not setting.takes_contexts and self.n_contexts not in (None, 1):
            yield f"it has {self.n_contexts} contexts, which the policy does not look at"
        if setting.unit_rewards and not truth.rewards_in_unit:
            yield "its rewards do not stay in [0, 1]"
        there = [action for action in setting.any_of if action < self.n_actions]
        if setting.any_of and not truth.available[truth.met][:, there].any(axis=1).all():
            yield "in some context no known safe action is on offer"
        if setting.spanned_by and truth.cost_features is not None and truth.cost_features.ndim == 3:
            shown = truth.available & truth.met[:, None]
            both = shown & np.isin(np.arange(self.n_actions), setting.spanned_by), shown
            spanned, needed = (int(np.linalg.matrix_rank(truth.cost_features[on])) for on in both)
            if spanned < needed:
                yield (
                    f"the known safe actions span {spanned} of the {needed} directions of the costs' features, "
                    "so what is seen of them does not show which other actions are safe"
                )
        for told in setting.told:
            yield from told(self, truth)


def _setting_of(policy: object) -> Setting | None:
    hooks: Any = getattr(policy, "hooks", None)
    return None if hooks is None else cast("Setting", hooks.setting())


def _those(marked: NDArray[np.bool_]) -> str:
    return "its costs" if marked.all() else f"its costs {', '.join(map(str, np.flatnonzero(marked)))}"


def when_seen(name: str, given: Any, K: int) -> WhenSeen:
    """When K costs are seen, as given: one word if it is the same for all, else one for each."""
    if isinstance(given, str):
        require_choice(name, given, get_args(Seen))
        return "before" if given == "before" else "after"
    try:
        words = tuple(given)
    except TypeError:
        words = (given,)
    if len(words) != K or any(one not in get_args(Seen) for one in words):
        must = f'be "before", "after", or one of them for each of {K} constraints'
        raise InvalidInput(field=name, must=must, got=given)
    return words if len(set(words)) > 1 else words[0] if words else "before"


def which_before(seen: WhenSeen, K: int) -> NDArray[np.bool_]:
    return np.array([one == "before" for one in ((seen,) * K if isinstance(seen, str) else seen)], dtype=bool)


# Checks of what policies are told against the means


def mean_costs_at_most(action: int, bound: float) -> Callable[[Problem, Truth], Iterator[str]]:
    """That no mean cost of an action is above a bound."""

    def reasons(problem: Problem, truth: Truth) -> Iterator[str]:
        if action < problem.n_actions:
            worst = truth.costs[truth.met, action].max(initial=-np.inf)
            if not worst <= bound + _ROUNDING:
                yield f"action {action} has a mean cost of {worst:.4g} in some context, above {bound:g}"

    return reasons


def usage_within(limits: Array, noop: int) -> Callable[[Problem, Truth], Iterator[str]]:
    """That costs are usage in [0, 1] minus the limits, and that the no-op uses nothing."""

    def reasons(problem: Problem, truth: Truth) -> Iterator[str]:
        if problem.n_constraints != len(limits):
            return
        low, high = np.asarray(problem.cost_range).reshape(-1, 2).T
        if truth.costs_fixed:
            low, high = truth.costs[truth.met].min(axis=(0, 1)), truth.costs[truth.met].max(axis=(0, 1))
        for k in np.flatnonzero((low < -limits - _ROUNDING) | (high > 1.0 - limits + _ROUNDING)):
            yield (
                f"costs of constraint {k} lie in [{low[k]:g}, {high[k]:g}], but usage in [0, 1] less the limit "
                f"{limits[k]:g} lies in [{-limits[k]:g}, {1 - limits[k]:g}]"
            )
        if noop < problem.n_actions:
            most = (truth.costs[truth.met, noop] + limits).max()
            if most > _ROUNDING:
                yield f"the no-op (action {noop}) uses {most:.4g} of a resource, but must use nothing"

    return reasons
