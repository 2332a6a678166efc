"""An environment of your own: anything that draws contexts and says what an action leads to."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.actions import Actions
from tightrope.environments.tabular import Tabular, declared_names, declared_ranges, require_name, seen_words
from tightrope.errors import InvalidInput
from tightrope.offer import plain_group
from tightrope.policies.rule_costs import RuleCosts
from tightrope.problem import Problem, Seen, Vectors, WhenSeen, when_seen, which_before
from tightrope.rules import Rules
from tightrope.validation import (
    COST_ROUNDING,
    Array,
    finite_array,
    finite_number,
    real_array,
    require_range,
    whole_number,
)

DRAW, OUTCOME = 0, 1  # the slots of a round, each a stream of its own


class Context(NamedTuple):
    """What a round offers: the ids of the actions on offer (n,), their features, and costs W (n, K), 0 where they are seen after.

    Features have one row for each action on offer, or are one x for all of them. `drawn` is what `draw` returned, `usage` the usage
    by name; `keys` and `time` are for limits per window.
    """

    drawn: Any
    ids: NDArray[np.int64]
    features: Array | None
    cost_features: Array | None
    W: Array
    group: Any
    usage: Mapping[str, Any]
    keys: Mapping[str, Any] | None = None
    time: Any = None


class Outcome(NamedTuple):
    """A reward, and the K_after costs that are seen after acting; what was used by name, if that was told."""

    reward: float
    costs: Array
    usage: Mapping[str, Any] | None = None


class Means(NamedTuple):
    """Mean rewards (n,) of the actions on offer, and their mean costs (n, K): those seen before acting as they were drawn."""

    rewards: Array
    costs: Array


class Custom:
    """A world made of two functions, in which the policy object itself runs round by round.

    `draw` and `outcome` may ask for an `rng`, a NumPy generator that depends only on the seed, the replication and the round: the
    same seed gives the same numbers for any number of workers, and `outcome` gets the same stream whatever the action is, so that
    policies are compared on the same draws. For a world with a memory, pass the methods of an object: every replication runs in a
    copy of it, as it was when `simulate` was called.

    Parameters
    ----------
    draw : callable (round) or (round, rng) → context
        What comes in a round, 1, 2, …: a mapping with any of the arguments of `decide` (`features`, `cost_features`, `costs`,
        `usage`, `group`, `actions`, `keys`, `time`) and whatever else `outcome` needs, which no policy sees; or only features; or
        None.
    outcome : callable (context, action) or (context, action, rng) → reward, or (reward, costs)
        The outcome of an action (its name, if actions have names) in the context as it was drawn. Costs are those that are seen
        after acting, in their order, or a mapping of what was used by name.
    actions : int or sequence of str, optional
        Their number or names; leave it out with rules, which name them.
    rules : Rules, optional
        They turn usage into costs; what is seen before acting must be in the context, for every action on offer.
    constraints : int or sequence of str
        Without rules: the number of costs, or their names.
    costs_seen : "before", "after", or a sequence of K of them
        Without rules: when costs are seen.
    cost_range : (low, high) or (K, 2), optional
        Without rules: the range of the costs; anything outside is refused.
    usage : mapping, optional
        With rules: what actions always use, by the name of the usage, if contexts do not say it.
    means : callable (context) → rewards, or (rewards, costs)
        The true mean reward of each action on offer, and the mean costs that are seen after acting, (n, K_after) or usage by name.
        With them regret is known: the optimum is solved for on a sample of contexts, with an interval.
    optimum : float, optional
        The best mean reward per round, if you know it. With neither this nor `means`, a simulation reports rewards and costs but no
        regret.
    name : str

    Examples
    --------
    A shop, in which a discount sells more and leaves less:

    >>> import tightrope as tr
    >>> rules = tr.Rules([tr.Budget("discount", at_most=0.3, seen="after")], actions=["full price", "discount"])
    >>> def draw(round, rng):
    ...     return {"features": [1.0, rng.random()]}
    >>> def outcome(context, action, rng):
    ...     bought = rng.random() < (0.2 if action == "full price" else 0.2 + 0.6 * context["features"][1])
    ...     return float(bought), {"discount": float(bought and action == "discount")}
    >>> shop = Custom(draw, outcome, rules=rules, name="shop")
    >>> policy = tr.ShadowPrice(rules, reward=tr.DisjointRidge(2, 2), cost=tr.DisjointRidge(2, 2))
    >>> run = tr.simulate(policy, shop, rounds=300, seed=0)
    >>> run.optimum is None, bool(run.cost[0, -1, 0] < 20)
    (True, True)
    """

    def __init__(
        self,
        draw: Callable[..., Any],
        outcome: Callable[..., Any],
        *,
        actions: int | Sequence[str] | None = None,
        rules: Rules | None = None,
        constraints: int | Sequence[str] = 0,
        costs_seen: Seen | Sequence[Seen] = "before",
        cost_range: ArrayLike | None = None,
        usage: Mapping[str, Any] | None = None,
        means: Callable[[Any], Any] | None = None,
        optimum: float | None = None,
        name: str = "custom",
    ) -> None:
        self._stated = {field: given for field, given in locals().items() if field != "self"}
        for what, given in (("draw", draw), ("outcome", outcome), ("means", means)):
            if not callable(given) and (what != "means" or given is not None):
                raise InvalidInput(field=what, must="be a function", got=given)
        require_name(name)
        self.name, self.rules, self.usage = name, rules, dict(usage or {})
        self.draw, self.outcome, self.means = draw, outcome, means
        self.optimum = None if optimum is None else finite_number("optimum", optimum)
        self.registry = _registry(actions, rules)
        self.actions: tuple[str, ...] = _labels(self.registry)
        self.costs_seen: WhenSeen
        if rules is not None:
            if constraints or cost_range is not None or costs_seen != "before":
                raise InvalidInput(
                    "constraints, costs_seen and cost_range come from the rules: leave them out."
                )
            self.constraints, self.costs_seen = rules.names, rules.costs_seen
            self.cost_range: Array | None = np.asarray(rules.cost_range) if rules.declared.all() else None
        else:
            if self.usage:
                raise InvalidInput("usage needs rules, which say what counts.")
            names = None if isinstance(constraints, int) else constraints
            count = whole_number("constraints", constraints) if names is None else len(names)
            self.constraints = declared_names("constraints", names, "constraint", count)
            self.costs_seen = when_seen("costs_seen", costs_seen, count)
            self.cost_range = None if cost_range is None else declared_ranges(cost_range, count)
        self.n_actions, self.n_constraints = len(self.actions), len(self.constraints)
        self.seen_before = which_before(self.costs_seen, self.n_constraints)

    @classmethod
    def of(cls, world: Any) -> Custom:
        """An object with `draw` and `outcome`, and optionally attributes named like the other parameters: `actions`, `means`, …

        >>> class Coins:
        ...     actions = ["fair", "bent"]
        ...     def draw(self, round):
        ...         return None
        ...     def outcome(self, context, action, rng):
        ...         return float(rng.random() < (0.5 if action == "fair" else 0.7))
        >>> Custom.of(Coins())
        Custom('Coins', actions=2, features=0, constraints=0)
        """
        if isinstance(world, Custom):
            return world
        for method in ("draw", "outcome"):
            if not callable(getattr(world, method, None)):
                wanted = "be a tabular or drifting environment, or have `draw` and `outcome`"
                swapped = "The policy comes first: simulate(policy, env)." if hasattr(world, "decide") else ""
                must = f"{wanted}, but {world!r} has no {method}"
                raise InvalidInput(field="env", must=must, remedy=swapped)
        parameters = [name for name in inspect.signature(cls).parameters if hasattr(world, name)]
        given: dict[str, Any] = {name: getattr(world, name) for name in parameters}
        return cls(**{"name": type(world).__name__, **given})

    def changed(self, **changes: Any) -> Custom:
        """The same environment with some parameters changed."""
        return type(self)(**{**self._stated, **changes})

    @property
    def truth(self) -> Tabular | None:
        """All contexts with their weights and means, if they are few enough to be listed."""
        return None

    def problem(self, tells: Mapping[str, Callable[[], Any]] | None = None) -> Problem:
        """The problem that it poses, judging by the first round; for `tells` see `Problem`."""
        first = self._first
        return Problem(
            n_actions=self.n_actions,
            features=_vectors(first.features),
            cost_features=_vectors(first.cost_features),
            n_constraints=self.n_constraints,
            seen=self.costs_seen,
            cost_range=self.cost_range,
            actions=self.actions,
            tells=tells or {},
        )

    def play(self, seed: int, replication: int) -> Play:
        """One replication of it, from the state that it is in now."""
        return Play(self, seed, replication)

    def sampled(self, n: int, rounds: int, seed: int, replication: int = 0) -> Tabular:
        """n contexts as they come in a run of `rounds` rounds, with their true means, each with weight 1/n.

        The rounds are spread evenly over the run. No action is taken, so a world with a memory stays as it was.
        """
        play = self.play(seed, replication)
        return self.table_of(play, n, (play.context(1 + (i * rounds) // n, i) for i in range(n)))

    def table_of(self, play: Play, n: int, contexts: Iterable[Context]) -> Tabular:
        """These n contexts with their true means, each with weight 1/n."""
        J, K = self.n_actions, self.n_constraints
        rewards, costs, available = np.zeros((n, J)), np.zeros((n, J, K)), np.zeros((n, J), dtype=bool)
        groups: list[Any] = []
        for i, context in enumerate(contexts):
            means = play.means(context)
            assert means is not None
            rewards[i, context.ids], costs[i, context.ids] = means
            available[i, context.ids] = True
            groups.append(context.group)
        low, high = costs.min(axis=(0, 1), initial=0.0), costs.max(axis=(0, 1), initial=0.0)
        return Tabular(
            np.full(n, 1.0 / n),
            rewards=rewards,
            costs=costs,
            reward_noise="none",
            cost_range=np.column_stack([low, high]),
            costs_seen=self.costs_seen,
            available=available,
            actions=self.actions,
            constraints=self.constraints,
            rules=self.rules,
            groups=None if any(one is None for one in groups) else groups,
            name=self.name,
        )

    @cached_property
    def _first(self) -> Context:
        return self.play(0, 0).context(1)

    def __repr__(self) -> str:
        features = self._first.features
        length = 0 if features is None else features.shape[-1]
        seen = "" if not self.n_constraints else f", seen {seen_words(self.costs_seen)}"
        head = f"{type(self).__name__}({self.name!r}, actions={self.n_actions}, features={length}"
        return f"{head}, constraints={self.n_constraints}{seen})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_first"}


class Play:
    """One replication of a custom environment: a copy of its world, and the randomness that is its own."""

    def __init__(self, env: Custom, seed: int, replication: int) -> None:
        self.env, self._key = env, np.array([seed, replication], dtype=np.uint64)
        # Copied together, so that objects they share stay shared.
        self._draw, self._outcome, self._means = copy.deepcopy((env.draw, env.outcome, env.means))
        self._draw_takes_rng, self._outcome_takes_rng = _takes_rng(env.draw), _takes_rng(env.outcome)
        self._names = [env.registry.name(i) for i in range(env.n_actions)]
        self._everyone = np.arange(env.n_actions)
        self._after = np.flatnonzero(~env.seen_before)
        self._rule_costs = None if env.rules is None else RuleCosts(env.rules)

    def context(self, t: int, sample: int = 0) -> Context:
        """What round t brings; `sample` tells apart several draws of one round."""
        if self._draw_takes_rng:
            return self.read(t, self._draw(t, rng=self._rng(t, DRAW + 2 * sample)))
        return self.read(t, self._draw(t))

    def read(self, t: int, drawn: Any) -> Context:
        """What was drawn for round t, in one form; raises if something is wrong with it."""
        where = f"draw({t})"
        given: Mapping[str, Any] = drawn if isinstance(drawn, Mapping) else {"features": drawn}
        offered = given.get("actions")
        ids = self._everyone
        if offered is not None:
            ids = np.array(self.env.registry.ids(offered, f"actions of {where}", once=True), dtype=np.int64)
        features = _rows(f"features of {where}", given.get("features"), len(ids))
        cost_features = _rows(f"cost_features of {where}", given.get("cost_features"), len(ids))
        usage = {**self.env.usage, **(given.get("usage") or {})}
        W = self._costs_before(where, given, usage, ids)
        clock = given.get("keys"), given.get("time")
        return Context(drawn, ids, features, cost_features, W, given.get("group"), usage, *clock)

    def outcome(self, t: int, context: Context, action: int) -> Outcome:
        """What comes of an action, by its id."""
        where, name = f"outcome in round {t}", self._names[action]
        if self._outcome_takes_rng:
            told = self._outcome(context.drawn, name, rng=self._rng(t, OUTCOME))
        else:
            told = self._outcome(context.drawn, name)
        reward, costs = _parted(where, told)
        y = finite_number(f"the reward of {where}", reward)
        used = {**self.env.usage, **costs} if isinstance(costs, Mapping) else None
        return Outcome(y, self._costs_after(where, costs, action, context.group), used)

    def means(self, context: Context) -> Means | None:
        """The true means of the actions on offer, if they are known."""
        if self._means is None:
            return None
        told, n = self._means(context.drawn), len(context.ids)
        rewards, costs = _parted("means", told) if isinstance(told, tuple | Mapping) else (told, None)
        r = finite_array("rewards of means", rewards, (n,))
        W = context.W.copy()
        if isinstance(costs, Mapping) and self._rule_costs is not None:
            group = plain_group(context.group)
            made = self._rule_costs.costs({**context.usage, **costs}, group, self._some(context.ids))
            W[:, self._after] = made[:, self._after]
        elif len(self._after):
            W[:, self._after] = finite_array("costs of means", costs, (n, len(self._after)))
        return Means(r, W)

    def _some(self, ids: NDArray[np.int64]) -> NDArray[np.int64] | None:
        return None if ids is self._everyone else ids

    def _rng(self, t: int, slot: int) -> np.random.Generator:
        counter = np.array([0, 0, slot, t], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=self._key, counter=counter))

    def _costs_before(
        self, where: str, given: Mapping[str, Any], usage: Mapping[str, Any], ids: NDArray[np.int64]
    ) -> Array:
        """W of the actions on offer, 0 where it is seen after acting."""
        env, before = self.env, self.env.seen_before
        W, n = np.zeros((len(ids), env.n_constraints)), int(before.sum())
        if self._rule_costs is not None and "costs" not in given:
            try:
                made = self._rule_costs.costs(usage, plain_group(given.get("group")), self._some(ids))
            except InvalidInput as error:
                raise error.inside(where) from error
            W[:, before] = made[:, before]
        elif n:
            if given.get("costs") is None:
                wanted = f"have costs, {n} for each action on offer, but has none: a context is a mapping with `costs`"
                raise InvalidInput(field=where, must=wanted)
            shapes = (len(ids), n), (len(ids), env.n_constraints)
            costs = finite_array(f"costs of {where}", given["costs"], *shapes)
            W[:, before] = costs if costs.shape[1] == n else costs[:, before]
        if n:
            self._require_range(where, W[:, before], before)
        return W

    def _costs_after(self, where: str, costs: Any, action: int, group: Any) -> Array:
        """The costs that are seen after acting, (K_after,)."""
        env, n = self.env, len(self._after)
        if self._rule_costs is not None and (costs is None or isinstance(costs, Mapping)):
            if not n:
                return np.zeros(0)
            try:
                return self._rule_costs.observed({**env.usage, **(costs or {})}, action, plain_group(group))
            except InvalidInput as error:
                raise error.inside(where) from error
        if costs is None:
            if n:
                wanted = f"be (reward, costs) with {n} costs that are seen after acting"
                raise InvalidInput(field=where, must=wanted)
            return np.zeros(0)
        if isinstance(costs, Mapping):
            raise InvalidInput(
                "usage by name needs rules, which say what counts; return costs instead.", within=where
            )
        shapes: list[tuple[int | None, ...]] = [(n,), *([()] if n == 1 else [])]
        w = finite_array(f"costs of {where}", costs, *shapes).reshape(n)
        self._require_range(where, w, self._after)
        return w

    def _require_range(self, where: str, costs: Array, columns: NDArray[Any]) -> None:
        if self.env.cost_range is not None:
            low, high = self.env.cost_range[columns].T
            require_range(f"costs of {where}", costs, low - COST_ROUNDING, high + COST_ROUNDING)


def _takes_rng(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(one.name == "rng" or one.kind is one.VAR_KEYWORD for one in parameters)


def _parted(where: str, told: Any) -> tuple[Any, Any]:
    """Reward and costs, from a reward alone, a pair, or a mapping."""
    if isinstance(told, Mapping):
        if set(told) not in ({"reward"}, {"reward", "costs"}, {"reward", "usage"}):
            wanted = f"have reward, and costs or usage, but has {list(told)}"
            raise InvalidInput(field=where, must=wanted)
        return told["reward"], told.get("costs", told.get("usage"))
    if isinstance(told, tuple):
        if len(told) != 2:
            raise InvalidInput(field=where, must="be a reward, or (reward, costs)", got=told)
        return told
    return told, None


def _rows(name: str, given: Any, n: int) -> Array | None:
    if given is None:
        return None
    rows = real_array(name, given, (None,), (n, None))
    if rows.shape[-1] == 0:
        raise InvalidInput(field=name, must="have at least one number; leave them out if there are only arms")
    if not np.isfinite(rows).all():
        raise InvalidInput(field=name, must="be finite", got=rows.tolist())
    return rows


def _vectors(features: Array | None) -> Vectors | None:
    return None if features is None else Vectors(features.shape[-1], features.ndim == 2)


def _registry(actions: int | Sequence[str] | None, rules: Rules | None) -> Actions:
    if rules is not None:
        if actions is not None and _labels(Actions(actions)) != _labels(rules.registry):
            wanted = f"be those of the rules, {list(rules.actions)}, or be left out"
            raise InvalidInput(field="actions", must=wanted, got=actions)
        return rules.registry
    if actions is None:
        raise InvalidInput(field="actions", must="be given (their number or names) if there are no rules")
    return Actions(actions)


def _labels(actions: Actions) -> tuple[str, ...]:
    names = (actions.name(i) for i in range(len(actions)))
    return tuple(name if isinstance(name, str) else f"action {name}" for name in names)
