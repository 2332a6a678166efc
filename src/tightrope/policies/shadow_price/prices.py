"""The prices of rules: totals, scales and corrections in one array, and the solve that is in progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.kernels import shadow, shadow_learning, shadow_solve, shadow_trace, standardised
from tightrope.models import hooks
from tightrope.offer import Offer
from tightrope.policies.decision import Sampling
from tightrope.policies.pending import AWAITS_COSTS, NEVER, Pending, PendingDecisions
from tightrope.policies.shadow_price.beliefs import Beliefs, Rewards
from tightrope.policies.shadow_price.memory import Remembered, RoundMemory
from tightrope.policies.shadow_price.pacing.pacer import Pacer
from tightrope.policies.shadow_price.pacing.window_rules import WindowRules
from tightrope.policies.shadow_price.sampling import follow_member, member_of, weigh_gaps
from tightrope.policies.shadow_price.solve import PriceSolve
from tightrope.policies.state_file import Arrays, part_of
from tightrope.validation import Array

# A refit starts a solve only when the last one is over and as many rounds again have passed, at least this many.
LEAST_WAIT = 8.0
# With limits per window prices are solved for many times a day, so fewer rounds are remembered.
MOST_PACED = 1024
# How many multiplications a row of a model without kernels counts as: some microseconds.
PLAIN_ROW = 1000.0


class Prices:
    """`core` is what one round moves (`kernels.shadow`); `columns` are the constraints that are seen after acting.

    `refits` (3,): how often the models of rewards and costs had been refitted when the last solve began, and the round from which
    another fit is reason enough for a new solve.
    """

    def __init__(self, core: Array, columns: NDArray[np.int64], seed: int, row_work: float) -> None:
        self.core, self.columns, self.seed, self.row_work = core, columns, np.uint64(seed), row_work
        self.K = int(core[shadow.CONSTRAINTS])
        self.refits = np.zeros(3)
        self.solve: PriceSolve | None = None
        # What sets the prices of limits per window, if there are any.
        self.pacer: Pacer | None = None

    def copy(self) -> Prices:
        twin = Prices(self.core.copy(), self.columns, int(self.seed), self.row_work)
        twin.refits = self.refits.copy()
        twin.solve = None if self.solve is None else self.solve.copy()
        twin.pacer = None if self.pacer is None else self.pacer.copy()
        return twin

    @classmethod
    def new(
        cls,
        beliefs: Beliefs,
        known: NDArray[np.bool_],
        settings: Mapping[str, Any],
        windows: WindowRules | None = None,
    ) -> Prices:
        """Prices of a policy that has decided nothing; `known` marks the constraints seen before acting.

        The last columns are those of limits per window, if there are any.
        """
        explore, caution, memory, guard, half_life, least = (
            settings[name] for name in ("explore", "caution", "memory", "guard", "half_life", "least_chance")
        )
        paced = np.zeros(len(known))
        if windows is not None:
            paced[windows.K :] = windows.pacing
            memory = min(memory, MOST_PACED)
        core = shadow.new_core(len(known), explore, caution, memory, guard, known, half_life, least, paced)
        prices = cls(core, beliefs.columns, settings["seed"], work_of_a_row(beliefs))
        prices.pacer = None if windows is None else windows.pacer
        return prices

    # What it knows

    def vector(self, which: int) -> Array:
        found: Array = shadow.vector(self.core, which)
        return found

    def in_force(self) -> Array:
        """λ at the current totals, (K,), as multiplied with costs."""
        trace, core = np.zeros(shadow_trace.TRACE_VECTORS * self.K), self.core.copy()
        if core[shadow.ROUNDS]:
            shadow.set_prices(core, trace, 0)
        return trace[: self.K]

    def cost_sizes(self) -> Array:
        """The typical size of a cost, (K,): of one that can be chosen, or of those seen, if that is larger."""
        size, square, moved = (self.vector(k) for k in (shadow.SIZE, shadow.SQUARE, shadow.MOVED))
        seen = np.sqrt(moved / max(1.0, shadow.rounds_that_count(self.core)))
        return np.asarray(np.maximum(square / np.where(size > 0.0, size, 1.0), seen))

    # One round

    def step(self, offer: Offer, beliefs: Beliefs, force: NDArray[np.bool_] | None, forced: int) -> Step:
        """Weigh what is on offer, choose, and advance by a round; `forced` is the row if somebody else chose it, or −1."""
        J, K, columns, core = len(offer.ids), self.K, self.columns, self.core
        trace, spreads = np.empty(shadow_trace.trace_size(J, K)), np.zeros((J, K))
        _, deviations, values, _, costs_at, rules_at = shadow_trace.trace_parts(J, K)
        believed = beliefs.rewards(offer.phi, offer.ids)
        trace[:J], trace[deviations:values] = believed.means, believed.deviations
        costs = trace[costs_at:rules_at].reshape(J, K)
        costs[:] = offer.W
        if beliefs.cost is not None:
            costs[:, columns], spreads[:, columns] = beliefs.costs_on_offer(offer, force)
        sampling: Sampling = None
        if beliefs.sampling == "normal":
            row = int(shadow.step(J, spreads.reshape(-1), core, trace, self.seed, forced))
        else:
            row, sampling = self._draw(believed, spreads, trace, hooks.n_learnt(beliefs.reward))
            row = forced if forced >= 0 else int(shadow.any_row(J, core, trace, row, self.seed))
            shadow.count(J, spreads.reshape(-1), core, trace, row, self.seed)
        x, z = (None if one is None else one[row if len(one) == J else 0] for one in (offer.phi, offer.psi))
        booked = None
        if beliefs.cost is not None:
            booked = np.concatenate([np.empty(0) if z is None else z, costs[row, columns]])
        return Step(row, trace, costs, sampling, (None if x is None else x.copy(), booked))

    def _draw(self, believed: Rewards, spreads: Array, trace: Array, learnt: int) -> tuple[int, Sampling]:
        """A row that is not drawn from normal laws, and how it was drawn; prices are already set."""
        J = len(believed.means)
        _, deviations, values, *_ = shadow_trace.trace_parts(J, self.K)
        if believed.members is None:
            shadow.weigh(J, spreads.reshape(-1), self.core, trace)
            return weigh_gaps(J, self.core, trace, learnt, self.seed)
        trace[deviations:values] = 0.0
        shadow.weigh(J, spreads.reshape(-1), self.core, trace)
        return follow_member(J, self.core, trace, believed.members, self.seed)

    # Work between decisions

    def work(self, memory: RoundMemory, beliefs: Beliefs) -> None:
        """Start a solve if it is time, and continue the one in progress."""
        core = self.core
        t = float(core[shadow.ROUNDS]) + 1.0
        fits = beliefs.fits()
        refitted = self.solve is None and t >= self.refits[2] and fits != self.refits[:2].tolist()
        if (t >= core[shadow.NEXT_SOLVE] or refitted) and len(memory):
            self.solve = solve = self._start(t, memory)
            core[shadow.NEXT_SOLVE] = shadow_solve.next_solve(t, solve.deadline, core)
            if self.pacer is not None:
                core[shadow.NEXT_SOLVE] = min(core[shadow.NEXT_SOLVE], self.pacer.next_solve(solve.deadline))
            if any(fits):
                self.refits[:] = *fits, solve.deadline + max(LEAST_WAIT, solve.deadline - t)
        if self.solve is None:
            return

        def draw(solve: PriceSolve, i: int, n: int) -> None:
            self.draw_rounds(beliefs, solve, i, n)

        if self.solve.work(t, core, self.row_work, draw, self.pacer):
            self.solve = None

    def _start(self, t: float, memory: RoundMemory) -> PriceSolve:
        most = shadow_solve.rows_allowed(t, self.row_work, self.K)
        if self.pacer is None:
            return PriceSolve.start(*memory.sample(most), t, self.row_work, self.K)
        self.pacer.forget({*memory.decisions})
        numbers = memory.sampled(most)
        each, paid = self.pacer.weigh(memory.decisions)
        weights = np.array([memory.sums(numbers, own) for own in each.T]).T
        charged = np.array([memory.sums(numbers, own) for own in (each * paid).T]).T / weights
        entries, paced = [memory.entry(number) for number in numbers], np.array([weights, charged])
        return PriceSolve.start(entries, weights[:, -1].copy(), t, self.row_work, self.K, self.pacer, paced)

    def draw_rounds(self, beliefs: Beliefs, solve: PriceSolve, i: int, n: int) -> None:
        """Draw rounds i … i + n − 1 of a sample with the current models; each model is called once for all of them."""
        core, K, seed = self.core, self.K, self.seed
        entries = solve.entries[i : i + n]
        if beliefs.compiled:
            beliefs.draw_sample(core, solve, entries, i, seed)
            return
        explore = core[shadow.EXPLORE]
        believed = beliefs.rewards_of(entries)
        costs, spreads = beliefs.expected_costs(entries)
        first = int(solve.offsets[i])
        solve.costs[first * K : first * K + costs.size] = costs.reshape(-1)
        if beliefs.sampling == "gaps":
            # Everything is played by its means.
            spreads[:] = 0.0
        for r, entry in enumerate(entries, start=i):
            J, row = len(entry.ids), int(solve.offsets[r])
            own = slice(row - first, row - first + J)
            means, sds = believed.means[own], believed.deviations[own]
            spread = None
            if believed.members is not None:
                spread = np.max(means + explore * sds) - np.min(means - explore * sds)
                followed = member_of(seed, solve.begun, 1 + r, len(believed.members))
                means, sds = means + explore * believed.members[followed, own], np.zeros(J)
            drawn = shadow_solve.draw_round(
                J, means, sds, spreads[own].reshape(-1), core, self.columns, solve.rewards, solve.costs, row, seed, solve.begun
            )  # fmt: skip
            solve.sums[:] += solve.weights[r] * (drawn if spread is None else spread), solve.weights[r]

    def next_work(self, made: int) -> int:
        """The number of the first decision that has to work on prices, after `made` decisions."""
        if not self.K:
            return NEVER
        if self.solve is not None:
            return 0
        return int(made + self.core[shadow.NEXT_SOLVE] - self.core[shadow.ROUNDS] - 1.0)

    def solve_next(self) -> None:
        """Drop a solve in progress, and start one in the next round."""
        self.solve = None
        self.core[shadow.NEXT_SOLVE] = max(2.0, self.core[shadow.ROUNDS] + 1.0)

    # What outcomes and operators move

    def note_unit(self, model: Any, reward: float) -> None:
        """Called before a reward is learnt on the careful path: the first nonzero reward sets the unit for all."""
        if (
            reward != 0.0
            and hooks.compiled(model) == "standardised"
            and standardised.nothing_seen(model.spread, 0)
        ):
            shadow_learning.correct_reward_unit(self.core, abs(reward))

    def heed_changes(self, beliefs: Beliefs) -> bool:
        """Whether the models have found since that the world has changed: prices are then solved for again."""
        found = beliefs.changes()
        if found == self.core[shadow.CHANGES]:
            return False
        shadow_learning.note_change(self.core)
        self.core[shadow.CHANGES] = found
        return True

    def take_costs(self, z: Array, costs: Array, cost: Any) -> Array | None:
        """Add costs seen after acting to the totals, in place of their bookings, before their model learns them; returns ψ."""
        p = cost.n_features
        spread = cost.spread if hooks.compiled(cost) == "standardised" else np.empty(0)
        shadow_learning.take_costs(costs, z, p, self.columns, self.core, spread)
        return z[:p] if p else None

    def booked(self, pending: Pending) -> Array | float:
        late = len(self.columns)
        return pending[3][-late:] if late and pending[0] & AWAITS_COSTS and pending[3] is not None else 0.0

    def release(self, pending: Pending) -> None:
        self.vector(shadow.BOOKED)[self.columns] -= self.booked(pending)

    def book_again(self, pending: Iterable[Pending]) -> None:
        """The bookings for costs to come, from the decisions that await them."""
        booked = self.vector(shadow.BOOKED)
        booked[:] = 0.0
        for one in pending:
            booked[self.columns] += self.booked(one)

    def restate_booked(
        self,
        pending: PendingDecisions,
        shifts: Array,
        unseen: Callable[[Any], Sequence[int] | NDArray[np.int64]],
    ) -> None:
        """Costs seen after acting have grown by this much, (K_after,): restate bookings. `unseen`: a group's costs not in force."""
        for number, (awaits, _, _, z, group, _) in pending.items():
            if awaits & AWAITS_COSTS and z is not None:
                booked = shifts.copy()
                # Nothing is booked for a rule that is not in force.
                booked[unseen(group)] = 0.0
                behind = z[-len(shifts) :] + booked
                pending.restate(number, np.concatenate([z[: -len(shifts)], behind]))
        self.book_again(pending.values())

    def begin_anew(
        self, which: Sequence[int], memory: RoundMemory, beliefs: Beliefs, forgive: bool = False
    ) -> None:
        """Update scales, corrections and prices of rules whose limits changed; an excess is paid back or forgiven."""
        rounds = 1.0 if forgive else max(1.0, float(shadow.rounds_that_count(self.core)))
        self._measure_again(which, rounds, memory, beliefs)
        for of_old_limit in (shadow.CORRECTION, shadow.RISE, shadow.HIGHEST, shadow.EARLIER):
            self.vector(of_old_limit)[which] = 0.0
        self.solve_next()
        if forgive:
            total, rest = self.vector(shadow.TOTALS), self.vector(shadow.RESTS)
            for k in which:
                if total[k] > 0.0:
                    total[k] = rest[k] = 0.0

    def _measure_again(
        self, which: Sequence[int], rounds: float, memory: RoundMemory, beliefs: Beliefs
    ) -> None:
        """The scales of rules on the remembered costs, as if those had been seen for this many rounds."""
        entries, weights = memory.sample(np.inf)
        if not entries:
            return
        squares, sizes = np.zeros(self.K), np.zeros(self.K)
        means, spreads = beliefs.expected_costs(entries)
        ends = np.cumsum([len(entry.ids) for entry in entries])
        for entry, end, weight in zip(entries, ends.tolist(), weights / weights.sum()):
            own = slice(end - len(entry.ids), end)
            size2 = means[own] ** 2 + spreads[own] ** 2
            squares += weight * size2.mean(axis=0)
            sizes += weight * np.sqrt(size2).mean(axis=0)
        for name, value in ((shadow.SQUARE, squares), (shadow.SIZE, sizes), (shadow.MOVED, squares)):
            self.vector(name)[which] = rounds * value[which]
        self.vector(shadow.CLOCK)[which] = rounds * squares[which]

    # The memory

    def remember(self, memory: RoundMemory, entry: Remembered, decision: int) -> None:
        if self.core[shadow.SLOT] >= 0.0:
            self.core[shadow.MARK] = mark = entry.mark()
            memory.remember(int(self.core[shadow.SLOT]), entry, mark, decision=decision)

    def remember_offers(self, memory: RoundMemory, offers: list[Remembered], beliefs: Beliefs) -> None:
        """Remember the last of these earlier rounds, as many as fit; a solve starts with the next decision."""
        if not offers:
            return
        core = self.core
        if core[shadow.CAPACITY] < 0.0:
            core[shadow.CAPACITY] = shadow.capacity(core, max(len(offer.ids) for offer in offers))
        capacity = int(core[shadow.CAPACITY])
        fresh = core[shadow.ROUNDS] == 0.0
        for offer in offers[-capacity:]:
            slot = len(memory)
            if slot >= capacity:
                break
            memory.remember(slot, offer, offer.mark())
        core[shadow.REMEMBERED] = len(memory)
        if fresh:
            self._measure_again(list(range(self.K)), 1.0, memory, beliefs)
            known = self.vector(shadow.KNOWN) != 0.0
            # One round's worth: its ratio is the typical cost. Nothing has moved the totals yet.
            square, size = self.vector(shadow.SQUARE), self.vector(shadow.SIZE)
            m = np.divide(square, size, out=np.zeros_like(square), where=size > 0.0)
            square[:], size[:] = m * m, m
            self.vector(shadow.MOVED)[:] = np.where(known, square, 0.0)
            self.vector(shadow.CLOCK)[:] = square
        self.solve = None
        core[shadow.NEXT_SOLVE] = core[shadow.ROUNDS] + 1.0

    def forgot(self, memory: RoundMemory) -> None:
        self.core[shadow.REMEMBERED], self.core[shadow.MARK] = len(memory), 0.0
        if self.solve is not None:
            # Its sample consists of rounds that are gone.
            self.solve_next()

    # Save, restore, go on

    def arrays(self, memory: RoundMemory) -> Arrays:
        """Everything but `core`, with the memory, whose rounds a solve in progress shares."""
        solve = self.solve
        rounds, places = memory.arrays(() if solve is None else solve.entries)
        parts = {"memory": rounds, "solve": {} if solve is None else {"places": places, **solve.arrays()}}
        named = {f"{part}/{name}": array for part, own in parts.items() for name, array in own.items()}
        return named | ({"refits": self.refits.copy()} if self.refits.any() else {})

    def load(self, arrays: Arrays) -> RoundMemory:
        """Take on the state in `arrays`; returns the memory that belongs to it."""
        memory, kept = RoundMemory.restore(part_of(arrays, "memory/"))
        own = part_of(arrays, "solve/")
        self.solve = PriceSolve.restore(own, [kept[i] for i in own["places"]], self.K) if own else None
        self.refits[:] = arrays.get("refits", 0.0)
        return memory

    def compiled_state(self, beliefs: Beliefs, memory: RoundMemory) -> CompiledState:
        return CompiledState(beliefs.reward, beliefs.cost, self.columns, self.core, memory, self.solve)

    def carry_over(
        self, old: Array, mine: Sequence[str], theirs: Sequence[str], memory: RoundMemory, same: bool
    ) -> None:
        """Continue from the core `old`: rounds, and everything about constraints with the same name. `same`: costs, too."""
        heads = (shadow.ROUNDS, shadow.SOLVES, shadow.RHO, shadow.CHANGED, shadow.CHANGES)
        self.core[list(heads)] = old[list(heads)]
        for k, name in enumerate(mine):
            if name in theirs:
                for which in range(shadow.VECTORS):
                    if which not in (shadow.KNOWN, shadow.PACING):
                        self.vector(which)[k] = shadow.vector(old, which)[theirs.index(name)]
        if not same:
            self.core[shadow.NEXT_SOLVE] = self.core[shadow.ROUNDS] + shadow.LEAST_CAPACITY
            return
        kept = (shadow.CAPACITY, shadow.REMEMBERED, shadow.NEXT_SOLVE)
        self.core[list(kept)] = old[list(kept)]
        most = shadow.rounds_worth_keeping(self.core)
        if self.core[shadow.CAPACITY] > most:
            memory.shorten(int(most))
            self.core[shadow.CAPACITY], self.core[shadow.REMEMBERED] = most, len(memory)


class Step(NamedTuple):
    """One round: the row, its numbers, the costs as known or expected (J, K), how it was drawn; its φ, and its ψ and bookings."""

    row: int
    trace: Array
    costs: Array
    sampling: Sampling
    kept: tuple[Array | None, Array | None]


class CompiledState(NamedTuple):
    """What an engine that runs whole simulations works on: the models and arrays themselves, not copies."""

    reward: Any
    cost: Any
    columns: NDArray[np.int64]
    core: Array
    memory: RoundMemory
    solve: PriceSolve | None


def work_of_a_row(beliefs: Beliefs) -> float:
    """How many multiplications it takes to draw a row of a sample."""
    if beliefs.reward is None:  # which has no sizes yet
        return PLAIN_ROW
    cost: Any = beliefs.cost
    late = (0.0, 0.0) if cost is None else (hooks.working_features(cost) + 1.0, float(cost.n_outputs))
    work = float(shadow_solve.draw_work(hooks.working_features(beliefs.reward) + 1.0, *late))
    return work if beliefs.compiled else max(work, PLAIN_ROW)
