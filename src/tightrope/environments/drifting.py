"""A world that changes during the run: one table after another, each for its share of the rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tightrope.environments.tabular import Tabular, changed, require_name
from tightrope.errors import InvalidInput
from tightrope.problem import Problem, WhenSeen
from tightrope.rules import Rules, Units
from tightrope.validation import Array, finite_number
from tightrope.words import Place

# What all phases must share: everything but weights and means, so that a policy that fits one phase fits all.
_SHARED = (
    *("n_contexts", "actions", "constraints", "costs_seen", "features", "cost_features", "available"),
    *("cost_range", "reward_noise", "reward_scale", "cost_noise", "cost_scale"),
)


class Phase(NamedTuple):
    """Rounds `first` to `last`, in which `env` is the world."""

    first: int
    last: int
    env: Tabular


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Drifting:
    """A world whose weights, mean rewards and mean costs change with the round, in phases.

    A switch of the best action takes two phases, a slow drift many that differ little; seasons repeat the same ones, and a changed
    limit shifts the costs. The policy doesn't know: it sees contexts, costs and rewards as in any other world.

    The optimum changes with the phases: each phase has its own program, in which the rules hold on average within that phase. Its
    earnings up to a round are the sum over the rounds so far, and `tightrope.simulate` measures regret against that sum. Costs
    still add up over the whole run: a policy that saves in one phase may spend in the next, and so earn more than the optimum if
    the rules' shadow prices differ between phases.

    Parameters
    ----------
    phases : sequence of Tabular
        In the order in which they come. All but `weights`, `rewards` and `costs` must be the same in each.
    shares : sequence of float, optional
        Each phase's share of the run; they sum to 1, and are equal by default. Phases begin at the nearest whole round.
    name : str

    Examples
    --------
    A limit on the use of a machine falls from 0.6 to 0.3 when two thirds of the run are over:

    >>> def limited(limit):
    ...     return Tabular([1.0], rewards=[[0.2, 0.8]], costs=[[[0.0 - limit], [1.0 - limit]]])
    >>> env = Drifting([limited(0.6), limited(0.3)], shares=[2 / 3, 1 / 3], name="less of the machine")
    >>> env
    Drifting('less of the machine', phases=2, contexts=1, actions=2, features=0, constraints=1, costs fixed, seen before)
    >>> [phase.first for phase in env.split(9000)]
    [1, 6001]
    """

    name: str
    phases: tuple[Tabular, ...]
    shares: tuple[float, ...]
    # As in every phase.
    n_contexts: int
    n_actions: int
    n_features: int
    n_constraints: int
    actions: tuple[str, ...]
    constraints: tuple[str, ...]
    costs_seen: WhenSeen
    features: Array | None
    cost_features: Array | None
    cost_range: Array

    def __init__(
        self, phases: Sequence[Tabular], shares: Sequence[float] | None = None, *, name: str = "drifting"
    ) -> None:
        require_name(name)
        worlds = tuple(phases)
        if not worlds:
            raise InvalidInput(field="phases", must="have at least one environment, but it is empty")
        for i, world in enumerate(worlds):
            if not isinstance(world, Tabular):
                raise InvalidInput(field=Place("phases", i), must="be a tabular environment", got=world)
            for field in _SHARED:
                first, here = getattr(worlds[0], field), getattr(world, field)
                if not np.array_equal(first, here):
                    what = "only weights, rewards and costs may change from phase to phase"
                    raise InvalidInput(f"{what}, but {field} of phases[{i}] is not that of phases[0].")
        vars(self).update(name=name, phases=worlds, shares=_shares(shares, len(worlds)))
        vars(self).update({one.name: getattr(worlds[0], one.name) for one in fields(self)[3:]})

    def split(self, rounds: int) -> tuple[Phase, ...]:
        """The phases of a run of that many rounds; a phase without rounds is left out."""
        ends = [math.floor(rounds * share + 0.5) for share in np.cumsum(self.shares)]
        ends[-1] = rounds
        firsts = [1, *(end + 1 for end in ends[:-1])]
        parts = zip(firsts, ends, self.phases, strict=True)
        return tuple(Phase(first, last, env) for first, last, env in parts if first <= last)

    @cached_property
    def pooled(self) -> Tabular:
        """All phases as one table, their contexts one after the other, weighted by the phases' shares.

        It says which means occur, and how often over the whole run, but not when.
        """
        stacked = {
            field: np.concatenate([getattr(one, field) for one in self.phases])
            for field in ("features", "cost_features", "rewards", "available")
            if getattr(self.phases[0], field) is not None
        }
        costs = np.concatenate([one.cost_locations for one in self.phases])
        weights = np.concatenate([share * one.weights for share, one in zip(self.shares, self.phases)])
        known: dict[str, Any] = {"optimum": None}
        # Rules that change from phase to phase have no units in common.
        one, *others = self.phases
        if all(one.rules == two.rules and (one.groups is None) == (two.groups is None) for two in others):
            groups = [group for phase in self.phases for group in phase.groups or ()]
            known |= {"rules": one.rules, "groups": groups or None}
        return changed(one, weights=weights, costs=costs, name=self.name, **known, **stacked)

    def problem(self, tells: Mapping[str, Callable[[], Any]] | None = None) -> Problem:
        """The problem that it poses, the same in every phase; what a policy was told must hold in all of them."""
        return replace(self.phases[0].problem(tells), truth=self.pooled.problem().truth)

    @property
    def rules(self) -> Rules | None:
        """The rules that the costs come from, if they are the same in every phase."""
        return self.pooled.rules

    @property
    def units(self) -> Units:
        """What turns costs into the units of the rules, over the whole run."""
        return self.pooled.units

    @property
    def weights(self) -> Array:
        """(C,): how often each context comes, over the whole run."""
        return np.asarray(np.average([one.weights for one in self.phases], axis=0, weights=self.shares))

    def __repr__(self) -> str:
        table = repr(self.phases[0]).partition(", ")[2]
        return f"Drifting({self.name!r}, phases={len(self.phases)}, {table}"


Environment: TypeAlias = Tabular | Drifting


def phases_of(env: Environment, rounds: int) -> tuple[Phase, ...]:
    """The phases of a run in any environment: a single one if nothing changes."""
    return env.split(rounds) if isinstance(env, Drifting) else (Phase(1, rounds, env),)


def _shares(given: Sequence[float] | None, n: int) -> tuple[float, ...]:
    if given is None:
        return (1.0 / n,) * n
    places = (Place("shares", i) for i in range(len(given)))
    shares = tuple(finite_number(at, one, low=0.0, open_low=True) for at, one in zip(places, given))
    if len(shares) != n:
        wanted = f"have one entry for each of {n} phases, but has {len(shares)}"
        raise InvalidInput(field="shares", must=wanted)
    if abs(sum(shares) - 1.0) > 1e-6:
        raise InvalidInput(field="shares", must=f"sum to 1, but they sum to {sum(shares):.9g}")
    return tuple(one / sum(shares) for one in shares)
