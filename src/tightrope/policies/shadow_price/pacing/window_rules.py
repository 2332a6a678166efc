"""Limits per window as columns of costs, behind those of rules without windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tightrope.kernels import shadow
from tightrope.ledger.window_accounts import CalendarAccounts, RollingAccounts
from tightrope.ledger.windows import Windows
from tightrope.offer import Offer
from tightrope.policies.shadow_price.pacing.limits import PacedLimit, Standing
from tightrope.policies.shadow_price.pacing.open_use import OpenUse
from tightrope.policies.shadow_price.pacing.pacer import Pacer
from tightrope.policies.shadow_price.pacing.traffic import Traffic
from tightrope.policies.state_file import Arrays, part_of
from tightrope.rules.calendars import Calendar, Rolling
from tightrope.rules.rule import members
from tightrope.validation import Array


class WindowRules:
    """The limits per window of a policy with K other constraints: columns K … K + M − 1 of its costs.

    The cost of an upper limit is what an action uses, of a lower one minus that; for a share it is counted from the share. Only
    what is open is kept here: `windows` has the accounts.
    """

    def __init__(self, windows: Windows, K: int, seed: int, expect: float | None) -> None:
        self.windows, self.K, self.M = windows, K, len(windows.limits)
        columns = windows.rules.windows.columns
        self.names = tuple(one.name for one in columns)
        self.known: NDArray[np.bool_] = np.asarray(windows.rules.windows.seen)
        self.signs = np.array([one.sign for one in columns])
        shares = [not one.rule.counts_amounts for one in columns]
        self.shares = np.array([one.limit if share else 0.0 for one, share in zip(columns, shares)])
        windows_of = [one.rule.window for one in columns]
        spans = [one.shortest if isinstance(one, Calendar | Rolling) else 0.0 for one in windows_of]
        usages = [
            (one.rule.quantity[:2], one.rule.among, one.side, s) for one, s in zip(columns, self.shares)
        ]
        self.limits = [
            PacedLimit(
                K + m,
                usages.index(usages[m]),
                one.sign,
                one.limit,
                share,
                one.rule.by,
                one.rule.hard,
                spans[m],
                isinstance(windows_of[m], Rolling),
            )
            for m, (one, share) in enumerate(zip(columns, shares))
        ]
        self.open = {
            m: OpenUse()
            for m, one in enumerate(self.limits)
            if not self.known[m] and one.stops and not one.by
        }
        zone = next((one.rule.zone for one in columns if isinstance(one.rule.window, Calendar)), "UTC")
        traffic = Traffic(Calendar("day", zone).bounds, zone, expect)
        self.pacer = Pacer(self.limits, traffic, self.stands, seed)
        self._units = [float(one.unit) for one in windows.limits]
        self._grouped = any(windows.rules.windows.among)

    @property
    def pacing(self) -> Array:
        """How `kernels.shadow` paces each column."""
        return np.array([shadow.STOPPED if one.stops else shadow.PRICED for one in self.limits])

    # Columns

    def force(self, group: Any, others: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        """Which constraints count in a context, (K + M,), given which of the `others` do; None if all do."""
        if others is None and not self._grouped:
            return None
        own = self.windows.rules.windows.in_force(frozenset(members(group)))
        return np.concatenate([np.ones(self.K, dtype=np.bool_) if others is None else others, own])

    def widened(self, offer: Offer, force: NDArray[np.bool_] | None) -> Offer:
        """The offer with costs W of all constraints (J, K + M); 0 where they are seen after acting."""
        assert offer.uses is not None
        own = self._costs(offer.uses, force)
        own[:, ~self.known] = 0.0
        return replace(offer, W=np.concatenate([offer.W, own], axis=1))

    def observed(self, uses: Array, group: Any) -> Array:
        """The costs of a decision that are seen after acting, of what it used of each limit, (M,)."""
        found: Array = self._costs(uses[None, :], self.force(group, None))[0, ~self.known]
        return found

    def _costs(self, uses: Array, force: NDArray[np.bool_] | None) -> Array:
        costs: Array = self.signs * (uses - self.shares)
        return costs if force is None else np.where(force[self.K :], costs, 0.0)

    def reserved(self, offer: Offer, costs: Array) -> Offer:
        """The offer with estimates of what soft limits will see after acting, from `costs` (J, K + M): that much is held."""
        if self.known.all():
            return offer
        assert offer.uses is not None
        uses = offer.uses.copy()
        for m, limit in enumerate(self.limits):
            if not self.known[m] and not limit.hard:
                uses[:, m] = np.maximum(0.0, self.signs[m] * costs[:, self.K + m] + self.shares[m])
        return replace(offer, uses=uses)

    def chosen(self, number: int, offer: Offer, row: int, costs: Array, core: Array) -> Offer:
        """Note a decision before it is booked; the offer with what is to be booked."""
        time = self.windows.now(offer.time)
        keys = {by: self.windows.name(str(key)) for by, key in (offer.keys or {}).items()}
        self.pacer.note(core, time, keys, number)
        offer = self.reserved(offer, costs)
        assert offer.uses is not None
        for m, use in self.open.items():
            use.begin(number, self.windows.limits[m].accounts.sums("", time).start, float(offer.uses[row, m]))
        return offer

    # What is open

    def end(self, number: int, uses: Array | None) -> None:
        """Its outcome has come, or never will."""
        for m, use in self.open.items():
            use.end(number, None if uses is None else float(uses[m]))

    def follow_names(self) -> None:
        """Call erased keys what their accounts are called."""
        for table in self.pacer.tables.values():
            table.rename(self.windows.name)

    # Accounts

    def stands(self, m: int, key: str, t: float) -> Standing:
        """Where limit m stands for a key at a time."""
        accounts, unit, key = self.windows.limits[m].accounts, self._units[m], self.windows.name(key)
        used, held, decided, start, end = accounts.sums(key, t)
        spread = 0.0 if m not in self.open else self.open[m].spread(start)
        taken = (used + held) * unit + spread
        if isinstance(accounts, RollingAccounts):
            width = accounts.span / accounts.buckets
            first = (accounts.moment(t) + 1) * width
            ring = accounts.ring(key, t).astype(float) * unit
            return Standing(taken, decided, start, first, 0, ring, width)
        assert isinstance(accounts, CalendarAccounts)
        before = accounts.decided_before(key, t) if key else 0
        return Standing(taken, decided, start, end, before)

    # Save, restore

    def arrays(self) -> Arrays:
        found = self.pacer.arrays()
        for m, use in self.open.items():
            found |= {f"open/{m}/{name}": array for name, array in use.arrays().items()}
        return found

    def load(self, arrays: Arrays) -> None:
        self.pacer.load(arrays)
        for m, use in self.open.items():
            use.load(part_of(arrays, f"open/{m}/"))
