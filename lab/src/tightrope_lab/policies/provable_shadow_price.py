"""ProvableShadowPrice: shadow prices with weights and buffers that the theorems cover."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.models import Model, hooks
from tightrope.models.model import NO_DECISION
from tightrope.offer import Offer
from tightrope.policies.choices import Choice, best_row, copy_of_model, estimates
from tightrope.policies.policy import Policy
from tightrope.policies.registry import register
from tightrope.policies.state_file import Arrays, checked
from tightrope.problem import Problem
from tightrope.validation import Array, finite_number, whole_number
from tightrope_lab import theory
from tightrope_lab.policies.lp_thompson import RememberedProgram

RULE = theory.Ratchet()
# Prices are asked to leave a margin of so many standard errors, or the largest of these shares of it that can be met.
STANDARD_ERRORS, SHARES = 2.0, (1.0, 0.5, 0.25)
# A solve needs this many remembered rounds for each √t.
ROUNDS_PER_ROOT = 4.0
# Of the waiting time where Slater's constant is not told.
_EXAMPLE_DELTA = 0.1


@register("provable-shadow-price")
class ProvableShadowPrice(Policy):
    """Maximise reward while every cumulative cost stays at or below 0; only finitely many rounds break that, with Slater unknown.

    Setting: mean reward in [0, 1] by the reward model, K ≥ 1 costs in [−1, 1] that are seen before acting, rounds i.i.d., some
    policy keeps every mean cost at −δ or below, δ > 0; the program knows neither δ nor a horizon.
    Steps, in round t: r̃ = the reward model's upper confidence bound, clipped to [0, 1]. λ_k = [p_k + (S_k + b_k)/V_t]⁺ with the
    running totals S, V_t = ½√t and b_k = 2t^¼ + m_k V_t. Play argmax_j r̃_j − λ·W_j. m_k is 0 at first, and is raised where
    rule k is found broken (`theory.Ratchet`). In rounds 32, 64, 128, … p is solved for anew: the dual prices of "as much reward as
    mean costs of −2s/√n allow" on n remembered rounds before t, s being the standard deviation of the costs at those prices.
    With `guard` only actions that leave every total at or below 0 are compared; where there is none, those that exceed it least.
    Guarantee: `guarantees` says it. Almost surely finitely many rounds are in violation; without `guard` regret is of order √T up
    to logarithms.
    Source: docs/bounds.md, "Steering by shadow prices".
    Choices: memory is a uniform sample of past rounds. The margin is halved, at most twice, where it can't be met on what is
    remembered, and else left out. ‖p‖₁ is held at or below `price_cap`: the proofs need a bound on the prices, whichever it is.

    Parameters
    ----------
    reward : Model
        The policy works on a copy, so a model that has learnt already is a warm start.
    n_constraints : int
        K ≥ 1.
    horizon : int, optional
        T in the radius of the confidence set; T := t without one.
    guard : bool
        Never take an action that would leave a total above 0 while there is another.
    memory : int
        How many past rounds are remembered. 2,048 are enough up to round 262,144; later prices are less exact, no less safe.
    price_cap : float
        The largest sum of the prices p.
    seed : int
        Of the draws that say which rounds are remembered.

    Examples
    --------
    >>> from tightrope import ArmMeans
    >>> policy = ProvableShadowPrice(ArmMeans(2), n_constraints=1, guard=True)
    >>> for _ in range(200):
    ...     decision = policy.decide(costs=[[-0.2], [0.3]])
    ...     policy.learn(decision, (0.1, 0.9)[decision.action])
    >>> bool(policy.totals[0] <= 0)
    True
    """

    _sees_costs = True
    _reward: Model

    def __init__(
        self,
        reward: Model,
        *,
        n_constraints: int,
        horizon: int | None = None,
        guard: bool = False,
        memory: int = 2048,
        price_cap: float = 20.0,
        seed: int = 0,
    ) -> None:
        self._reward = copy_of_model("reward", reward)
        self._n_actions = self._reward.n_actions
        self._n_constraints = whole_number("n_constraints", n_constraints, low=1)
        self.horizon = None if horizon is None else whole_number("horizon", horizon, low=1)
        if not isinstance(guard, bool):
            raise InvalidInput(field="guard", must="be true or false", got=guard)
        self.guard = guard
        self.memory = whole_number("memory", memory, low=1)
        self.price_cap = finite_number("price_cap", price_cap, low=0.0)
        self.seed = whole_number("seed", seed)
        self._rounds: list[Remembered] = []
        self._price = np.zeros(self._n_constraints)
        self._raised = np.zeros(self._n_constraints)
        self._ready = np.full(1, RULE.t0, dtype=np.int64)

    @property
    def prices(self) -> Array:
        """p, the prices of the last solve, (K,)."""
        return self._price.copy()

    @property
    def raised(self) -> Array:
        """m by rule, (K,): how far the ratchet has raised the buffers, in V_t; 0 where it never had to."""
        return self._raised.copy()

    def _dual(self) -> Array:
        """λ for the next decision, (K,): the prices, corrected by the totals."""
        return self._prices_in_force(self._price, self._pending.made + 1)

    def _choose(self, offer: Offer) -> Choice:
        t = self._pending.made + 1
        solved = self._solved(t) if self._solves_at(t) else None
        price = self._price if solved is None else solved
        rewards = self._optimistic(offer.phi, offer.ids, t)
        values = rewards - offer.W @ self._prices_in_force(price, t)
        if self.guard:
            values = np.where(self._ledger.kept_rows(offer.W), values, -np.inf)
        return Choice(best_row(values), rewards, values, note=solved)

    def _chosen(self, offer: Offer, choice: Choice) -> None:
        t = self._pending.made + 1
        if choice.note is not None:
            self._price[...] = choice.note
        phi = None if offer.phi is None else offer.phi.copy()
        self._remember(t, Remembered(offer.ids.copy(), phi, offer.W.copy(), self._pending.made))
        raised, ready = RULE.step(t, self._ledger.sums, self._raised, int(self._ready[0]))
        self._raised[...], self._ready[0] = raised, ready

    def _arrays(self) -> Arrays:
        return {"price": self._price, "raised": self._raised, "ready": self._ready}

    def _state(self) -> Arrays:
        return {**super()._state(), **_packed(self._rounds, self._reward.n_features, self._n_constraints)}

    def _load(self, arrays: Arrays) -> None:
        rounds = list(_unpacked(arrays, self._reward, self._n_constraints))
        super()._load(arrays)
        self._rounds = rounds

    def _forget_inputs(self, numbers: Collection[int]) -> None:
        super()._forget_inputs(numbers)
        wanted = {*numbers}
        self._rounds = [one for one in self._rounds if one.decision not in wanted]

    def _resume(self, old: Policy, *, same_costs: bool, shifts: Array | None = None) -> None:
        super()._resume(old, same_costs=same_costs, shifts=shifts)
        if isinstance(old, ProvableShadowPrice):
            self._rounds = old._rounds[: self.memory]

    def guarantees(
        self, *, delta: float | None = None, q: float = 0.01, problem: Problem | None = None
    ) -> dict[str, str]:
        """What is proved of this policy, and on what condition. No round is promised from which no rule is ever broken: measure it.

        Parameters
        ----------
        delta : float, optional
            Slater's constant, where it is known: then in numbers.
        q : float
            With what probability these may fail.
        problem : Problem, optional
            Of a simulated environment, in whose contexts the guard's condition is looked up.

        Examples
        --------
        >>> from tightrope import ArmMeans
        >>> policy = ProvableShadowPrice(ArmMeans(2), n_constraints=1, price_cap=1.0)
        >>> for promise, condition in policy.guarantees(delta=0.5).items():
        ...     print(f"{promise}: {condition}")
        finitely many rounds are in violation: almost surely, if rounds are independent and alike, and some policy keeps every
            mean cost at -0.5 or below
        each buffer is raised at most 9 times, and violations after round 100 lie in the wait after a raise: with probability 0.99,
            on the same condition; a wait may last until round 1.3e+08, and until then the proof excludes no violation
        regret of order √T up to logarithms: in expectation, if rewards are also linear as the reward model says, with its full
            bonus
        """
        slater = "-δ or below for some δ > 0" if delta is None else f"{-delta:g} or below"
        alike = f"if rounds are independent and alike, and some policy keeps every mean cost at {slater}"
        promises = {}
        if self.guard:
            promises["totals at or below zero in every round"] = (
                "with certainty, if every round offers an action with no cost above zero"
                + _guard_holds(problem)
            )
            alike += "; with the guard on its own condition too"
        promises["finitely many rounds are in violation"] = f"almost surely, {alike}"
        known = _EXAMPLE_DELTA if delta is None else delta
        K, most = self._n_constraints, self.price_cap
        found = theory.ratchet_promise(K=K, delta=known, price_bound=most, q=q, ratchet=RULE)
        if delta is not None:
            late = f"violations after round {RULE.t0} lie in the wait after a raise"
            sure = f"with probability {found.probability:.6g}, on the same condition"
            wait = f"a wait may last until round {found.longest_wait:.1e}, and until then the proof excludes no violation"
            promises[f"each buffer is raised at most {found.raises} times, and {late}"] = f"{sure}; {wait}"
        elif not self.guard:
            promises["finitely many rounds are in violation"] += (
                f"; the proof excludes none before round {found.longest_wait:.1e} for δ = {_EXAMPLE_DELTA:g}: "
                "`guarantees(delta=…)` says it of yours"
            )
        # The proof compares with the best action by prices, which the guard may forbid.
        if not self.guard:
            linear = "if rewards are also linear as the reward model says, with its full bonus"
            promises["regret of order √T up to logarithms"] = f"in expectation, {linear}"
        return promises

    def __repr__(self) -> str:
        guard = ", guard=True" if self.guard else ""
        return f"ProvableShadowPrice({self._reward!r}, n_constraints={self._n_constraints}{guard})"

    # Helpers

    def _optimistic(self, phi: Array | None, ids: NDArray[np.int64], t: int) -> Array:
        """r̃, in [0, 1]; 1 for what was never seen."""
        means, widths = estimates(self._reward, phi, ids)
        radius = hooks.radius(self._reward, t if self.horizon is None else max(t, self.horizon))
        with np.errstate(invalid="ignore"):
            upper = means[:, 0] + radius * widths[:, 0]
        return np.clip(np.where(np.isinf(widths[:, 0]), 1.0, upper), 0.0, 1.0)

    def _prices_in_force(self, price: Array, t: int) -> Array:
        return theory.steered_prices(price, self._ledger.sums, RULE.buffer(t, self._raised), RULE.V(t))

    def _remember(self, t: int, one: Remembered) -> None:
        """Each of the rounds up to t is remembered with the same probability."""
        if len(self._rounds) < self.memory:
            self._rounds.append(one)
            return
        place = int(self._uniform() * t)
        if place < self.memory:
            self._rounds[place] = one

    def _solves_at(self, t: int) -> bool:
        n = len(self._rounds)
        return t & (t - 1) == 0 and (n >= ROUNDS_PER_ROOT * math.sqrt(t) or n == self.memory)

    def _solved(self, t: int) -> Array:
        """p from what was remembered before round t."""
        packed = _packed(self._rounds, self._reward.n_features, self._n_constraints)
        phi = packed["memory/features"] if self._reward.n_features else None
        program = RememberedProgram(
            self._optimistic(phi, packed["memory/ids"], t),
            packed["memory/costs"],
            packed["memory/offsets"],
            self.price_cap,
        )
        price, deviation = program.solve(self._price, np.zeros(self._n_constraints))
        margin = STANDARD_ERRORS * deviation / math.sqrt(len(self._rounds))
        for share in SHARES:
            tighter, _ = program.solve(price, share * margin)
            if (tighter < self.price_cap).all():
                price = tighter
                break
        return np.asarray(price * min(1.0, self.price_cap / max(float(price.sum()), 1e-300)))


class Remembered(NamedTuple):
    """The offer of a past round, and the number of the decision that was made in it."""

    ids: NDArray[np.int64]
    phi: Array | None
    W: Array
    decision: int = NO_DECISION


def _guard_holds(problem: Problem | None) -> str:
    """Whether every context offers an action without a positive cost, as far as it can be told."""
    if problem is None or problem.truth is None:
        return ""
    truth = problem.truth
    if truth.random_costs:
        return " (which the means of random costs do not tell)"
    met = np.flatnonzero(truth.met)
    without = theory.rounds_without_safe_action(truth.costs[met], truth.available[met])
    if not len(without):
        return " (which is so here)"
    few = f"{len(without)} of {len(met)} contexts offer none, context {met[without[0]]} for one"
    return f" (not so here: {few})"


def _packed(rounds: list[Remembered], d: int, K: int) -> Arrays:
    none = Remembered(np.empty(0, dtype=np.int64), np.empty((0, d)), np.empty((0, K)))
    lengths = [len(one.ids) for one in rounds]
    everything = [none, *rounds]
    features = [one.phi for one in everything if one.phi is not None]
    return {
        "memory/offsets": np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
        "memory/decisions": np.array([one.decision for one in rounds], dtype=np.int64),
        "memory/ids": np.concatenate([one.ids for one in everything]).astype(np.int64),
        "memory/features": np.concatenate(features),
        "memory/costs": np.concatenate([one.W for one in everything]),
    }


def _unpacked(arrays: Arrays, model: Model, K: int) -> Iterator[Remembered]:
    offsets = checked(arrays, "memory/offsets", np.int64, arrays["memory/offsets"].shape)
    decisions = checked(arrays, "memory/decisions", np.int64, (len(offsets) - 1,))
    rows = int(offsets[-1])
    ids = checked(arrays, "memory/ids", np.int64, (rows,))
    phi = checked(arrays, "memory/features", float, (rows if model.n_features else 0, model.n_features))
    W = checked(arrays, "memory/costs", float, (rows, K))
    for decision, (low, high) in zip(decisions.tolist(), pairwise(offsets.tolist()), strict=True):
        features = phi[low:high].copy() if model.n_features else None
        yield Remembered(ids[low:high].copy(), features, W[low:high].copy(), decision)
