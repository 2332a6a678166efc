"""The accounts of limits per window, against lists of everything that ever happened."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import tightrope as tr
from tightrope.errors import Exhausted, InvalidInput, TooManyKeys
from tightrope.ledger.window_accounts import BUCKETS, BUCKETS_BY_KEY
from tightrope.ledger.window_changes import carry_windows
from tightrope.ledger.windows import Limit, Windows
from tightrope.offer import Offer
from tightrope.rules import Rule

DAY, HOUR = 86_400.0, 3_600.0
# Midnight in Berlin, the day before the night in which clocks go forward.
MIDNIGHT = dt.datetime(2026, 3, 28, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()


def made(*rules: Rule, actions: int = 3) -> Windows:
    return Windows(tr.Rules(rules, actions))


def offer_of(windows: Windows, time: float, usage: Any = None, keys: Any = None, group: Any = None) -> Offer:
    uses = windows.rules.window_uses(usage, group)
    return Offer(
        np.arange(len(uses)), W=np.empty((len(uses), 0)), group=group, uses=uses, keys=keys, time=time
    )


class Slow:
    """What a limit has counted, decision by decision: the time, the key, what was used or held."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def taken(self, key: str, since: float, until: float) -> Decimal:
        here = (one for one in self.lines if one["key"] == key and since <= one["time"] < until)
        return sum((one["used"] + one["held"] for one in here), Decimal(0))


def local_day(time: float, zone: str) -> tuple[float, float]:
    day = dt.datetime.fromtimestamp(time, ZoneInfo(zone)).date()
    start, end = (
        dt.datetime(one.year, one.month, one.day, tzinfo=ZoneInfo(zone)).timestamp()
        for one in (day, day + dt.timedelta(1))
    )
    return start, end


@pytest.mark.parametrize("per", ["day", "24h", "30m"])
@pytest.mark.parametrize("seed", range(3))
def test_a_hard_limit_holds_and_grants_what_is_left(per: str, seed: int) -> None:
    """Random decisions, outcomes, expiries and cancellations, over keys and across a change of clocks."""
    draw, zone = random.Random(seed), "Europe/Berlin" if per == "day" else "UTC"
    rule = tr.Budget("cost", 1, per=per, by="user", zone=zone, hard=True, seen="after", range=(0, 1))
    windows, slow = made(rule, actions=2), Slow()
    span = {"day": 0.0, "24h": DAY, "30m": HOUR / 2}[per]
    slack = span / BUCKETS_BY_KEY
    time, waiting, refused = MIDNIGHT, [], 0
    for number in range(1500):
        time += draw.expovariate(1.0 / (span / 20 if span else HOUR))
        key, most = f"u{draw.randrange(3)}", draw.choice((0.05, 0.1, 0.3))
        offer = offer_of(windows, time, {"cost": [most, 0.0]}, {"user": key})
        fits = 0 in windows.admitted(offer).ids
        since, until = (time - span, np.inf) if span else local_day(time, zone)
        taken = slow.taken(key, since, until)
        assert not fits or taken + Decimal(str(most)) <= 1  # never too much
        assert (
            fits or slow.taken(key, since - slack, until) + Decimal(str(most)) > 1
        )  # and no less than is left
        refused += not fits
        windows.take(number, offer, 0 if fits else 1)
        slow.lines.append({"time": time, "key": key, "used": Decimal(0), "held": Decimal(str(most)) * fits})
        waiting.append(number)
        while len(waiting) > 4:
            line, one = slow.lines[ready := draw.choice(waiting)], draw.random()
            waiting.remove(ready)
            if one < 0.2:
                windows.expire(ready)
                line["used"] = line["held"]
            elif one < 0.4:
                windows.cancel(ready)
            else:
                line["used"] = (line["held"] * draw.randrange(11) / 10).quantize(Decimal("0.0001"))
                windows.settle(ready, [float(line["used"])])
                windows.done(ready)
            line["held"] = Decimal(0)
        assert windows.faults() == []
    assert refused > 50


def test_an_account_says_what_is_used_reserved_allowed_and_left() -> None:
    windows = made(tr.Budget("cost", 5, per="day", seen="after"), tr.Capacity(0, 0.5, per="day"))
    for number in range(4):
        windows.take(number, offer_of(windows, 7 * DAY + number, {"cost": 1.5}), number % 2)
    windows.settle(0, [1.25, np.nan])
    account = windows.account(0, None, 7 * DAY + 5)
    assert (account.used, account.reserved, account.allowed, account.left) == tuple(
        map(Decimal, ("1.25", "4.5", "5", "-0.75"))
    )
    assert (account.start, account.end, account.decisions) == (7 * DAY, 8 * DAY, 4)
    share = windows.account(1, None, 7 * DAY + 5)
    assert (share.used, share.allowed, share.left) == (2, 2, 0)
    assert windows.account(0, None, 8 * DAY).left == 5
    assert windows.account(0, None, 7 * DAY).left == Decimal("-0.75"), "looking ahead must not close a window"


def test_a_hard_share_holds_at_every_moment() -> None:
    windows = made(tr.Capacity(0, 0.2, per="day", hard=True))
    taken = 0
    for number in range(200):
        offer = offer_of(windows, float(number))
        fits = 0 in windows.admitted(offer).ids
        assert fits == (5 * (taken + 1) <= number + 1)
        taken += fits
        windows.take(number, offer, 0 if fits else 1)
    assert taken == 40


def test_an_outcome_counts_where_its_decision_was_made() -> None:
    windows = made(tr.Budget("cost", 5, per="day", hard=True, seen="after", range=(0, 2)))
    windows.take(0, offer_of(windows, DAY - 1), 0)
    windows.take(1, offer_of(windows, DAY + 1), 0)
    assert windows.account(0, None, DAY).reserved == 2
    windows.settle(0, [1.0])
    assert windows.account(0, None, DAY).taken == 2, "yesterday's outcome is none of today's"
    assert windows.limits[0].accounts.last.table[0].tolist() == [10**9, 0, 1]
    windows.take(2, offer_of(windows, 2 * DAY + 1), 0)
    windows.take(3, offer_of(windows, 3 * DAY + 1), 0)
    windows.settle(1, [2.0])
    assert windows.strays.tolist() == [1], "a window before the last is gone; that is counted"
    assert windows.faults() == []


def test_an_outcome_above_its_reservation_is_booked_whole_and_told() -> None:
    windows = made(tr.Budget("cost", 5, per="day", hard=True, seen="after"))
    windows.take(0, offer_of(windows, 0.0, {"cost": 1}), 0)
    assert windows.concerns() == []
    windows.settle(0, [7.5])
    assert windows.account(0, None, 0.0).left == Decimal("-2.5")
    [concern] = windows.concerns()
    assert concern.kind == "usage above its bound"
    assert "1 outcomes used more" in concern.message
    with pytest.raises(Exhausted, match=r"cost per day \(7.5 of 5 used or reserved\)"):
        windows.admitted(offer_of(windows, 1.0, {"cost": 1}))


def test_a_hard_limit_needs_an_upper_bound() -> None:
    windows = made(tr.Budget("cost", 5, per="day", hard=True, seen="after"))
    with pytest.raises(
        InvalidInput, match=r"usage\['cost'\] is missing.*must reserve the most that each action may use"
    ):
        windows.admitted(offer_of(windows, 0.0))


@pytest.mark.parametrize(("expiry", "left"), [(None, 3), ("keep", 3), ("release", 5)])
def test_expiry_keeps_or_releases(expiry: str | None, left: int) -> None:
    windows = made(tr.Budget("cost", 5, per="day", hard=True, seen="after", range=(0, 2), expiry=expiry))
    windows.take(0, offer_of(windows, 0.0), 0)
    windows.expire(0)
    assert (windows.account(0, None, 0.0).left, windows.account(0, None, 0.0).reserved) == (left, 0)
    soft = made(tr.Budget("cost", 5, per="day", seen="after"))
    soft.take(0, offer_of(soft, 0.0, {"cost": 2}), 0)
    soft.expire(0)
    assert soft.account(0, None, 0.0).left == 5


def test_a_cancelled_decision_gives_back_all_that_it_booked() -> None:
    rules = (
        tr.Budget("cost", 5, per="day"),
        tr.Capacity(0, 0.5, per="day"),
        tr.Budget("time", 9, per="2h", seen="after"),
    )
    windows = made(*rules)
    windows.take(0, offer_of(windows, 0.0, {"cost": 2, "time": 3}), 0)
    windows.cancel(0)
    assert [windows.account(m, None, 0.0).taken for m in range(3)] == [0, 0, 0]
    assert windows.account(1, None, 0.0).decisions == 1, (
        "a share never grows because a decision was cancelled"
    )


def test_time_never_goes_back() -> None:
    windows = made(tr.Budget("cost", 5, per="day", hard=True))
    windows.take(0, offer_of(windows, DAY - 1, {"cost": 5}), 0)
    windows.take(1, offer_of(windows, DAY, {"cost": 5}), 0)
    with pytest.raises(Exhausted):
        windows.admitted(offer_of(windows, DAY - 1, {"cost": 1}))
    assert windows.account(0, None, 0.0).start == DAY
    windows.take(2, offer_of(windows, 100 * DAY, {"cost": 1}), 0)
    assert windows.account(0, None, 0.0).left == 4, "a jump closes one window, once"


def test_a_rolling_window_counts_what_a_clock_that_went_back_booked() -> None:
    windows = made(tr.Budget("cost", 1, per="30m", hard=True))
    windows.take(0, offer_of(windows, 36_000.0, {"cost": 0.6}), 0)
    windows.take(1, offer_of(windows, 28_000.0, {"cost": 0.4}), 0)
    for later in range(0, 1800, 10):
        assert windows.account(0, None, 36_000.0 + later).left == 0
    assert windows.account(0, None, 36_000.0 + 1900).left == 1


def test_units_are_rounded_against_the_caller() -> None:
    limits = {side: Limit(tr.Rules([rule], 2).windows.columns[0], late=False) for side, rule in (
        ("most", tr.Mean("x", at_most=1.05, per="day", resolution=0.1)),
        ("least", tr.Mean("x", at_least=1.05, per="day", resolution=0.1)),
    )}  # fmt: skip
    assert (limits["most"].allowed(9), limits["most"].units(0.3), limits["most"].units(0.31)) == (10, 3, 4)
    assert (limits["least"].allowed(9), limits["least"].units(0.3), limits["least"].units(0.39)) == (11, 3, 3)
    fine = Limit(tr.Rules([tr.Budget("x", 50, per="day")], 2).windows.columns[0], late=False)
    assert (fine.unit, fine.allowed(0)) == (Decimal("1E-8"), 5 * 10**9)
    draw = random.Random(1)
    for _ in range(2000):
        use = draw.choice(
            (
                draw.uniform(-9, 60),
                round(draw.uniform(0, 60), draw.randrange(9)),
                10.0 ** draw.randrange(-12, 9),
            )
        )
        exact = Decimal(repr(use)) / fine.unit
        assert exact <= fine.units(use) < exact + 1, use


def test_ten_times_a_tenth_is_one() -> None:
    windows = made(tr.Budget("cost", 1, per="day", hard=True))
    for number in range(10):
        offer = offer_of(windows, 0.0, {"cost": [0.1, 0.0, 0.0]})
        assert len(windows.admitted(offer).ids) == 3
        windows.take(number, offer, 0)
    assert windows.account(0, None, 0.0).left == 0
    assert windows.admitted(offer).ids.tolist() == [1, 2]


def test_past_keys_cost_nothing_and_too_many_are_refused() -> None:
    windows = made(
        tr.Budget("cost", 1, per="day", by="user", max_keys=100),
        tr.Budget("cost", 1, per="6h", by="user", max_keys=100),
    )
    number = 0
    for day in range(5):
        for user in range(100):
            offer = offer_of(windows, day * DAY, {"cost": 0.1}, {"user": f"{day}-{user}"})
            windows.take(number := number + 1, windows.admitted(offer), 0)
        for one in windows.limits:
            assert len(one.accounts.now.rows) == 100
            assert len(one.accounts.last.rows) <= 100
        with pytest.raises(
            TooManyKeys, match="accounts for 100 keys under 'cost: at most 1 per day for each user'"
        ):
            windows.admitted(offer_of(windows, day * DAY, {"cost": 0.1}, {"user": "one more"}))
        assert windows.admitted(offer).ids.size == 3, "a known key has its account"


def test_a_rolling_window_counts_its_oldest_bucket_until_all_of_it_is_past() -> None:
    windows = made(tr.Budget("cost", 1, per="24h", hard=True))
    assert windows.limits[0].accounts.moment(DAY) == BUCKETS
    windows.take(0, offer_of(windows, 10.0, {"cost": 1}), 0)
    width = DAY / BUCKETS
    assert windows.account(0, None, DAY + width - 0.1).left == 0
    assert windows.account(0, None, DAY + width).left == 1
    ring = windows.limits[0].accounts.ring("", DAY)
    assert ring.tolist() == [10**9] + [0] * BUCKETS


def test_groups_count_only_their_decisions() -> None:
    windows = made(
        tr.Capacity(0, 0.5, per="day", among="A"),
        tr.Capacity(0, 2, per="day", count=True, hard=True, among="B"),
    )
    for number, group in enumerate(["A", "A", "B", "B"]):
        windows.take(number, offer_of(windows, 0.0, group=group), 0)
    assert [windows.account(m, None, 0.0).used for m in range(2)] == [2, 2]
    assert windows.account(0, None, 0.0).decisions == 2
    assert windows.admitted(offer_of(windows, 0.0, group="A")).ids.tolist() == [0, 1, 2]
    assert windows.admitted(offer_of(windows, 0.0, group="B")).ids.tolist() == [1, 2]


def test_a_state_is_restored_to_the_bit() -> None:
    rules = (
        tr.Budget("cost", 5, per="day", by="user", hard=True, seen="after", range=(0, 1)),
        tr.Budget("cost", 9, per="7d", seen="after", range=(0, 1)),
        tr.Budget("cost", 3, per="24h", by="user", seen="after", range=(0, 1)),
        tr.Share(1, 0.25, per="week"),
    )
    draw, one, two = random.Random(2), made(*rules), made(*rules)
    for number in range(300):
        offer = offer_of(
            one, number * HOUR / 2, {"cost": [1.0, 0.5, 0.0]}, {"user": draw.choice(("ä", "b", "c" * 200))}
        )
        rows = [one.admitted(offer).ids.tolist(), two.admitted(offer).ids.tolist()]
        assert rows[0] == rows[1]
        one.take(number, offer, draw.choice(rows[0]))
        if number > 3:
            use = draw.random()
            one.settle(number - 3, [use] * 4)
            one.done(number - 3)
        arrays = one.arrays()
        two.load({name: array.copy() for name, array in arrays.items()})
        again = two.arrays()
        assert arrays.keys() == again.keys()
        assert all(
            np.array_equal(array, again[name]) and array.dtype == again[name].dtype
            for name, array in arrays.items()
        )
    assert one.faults() == two.faults() == []


def test_changed_windows_take_over_what_still_counts() -> None:
    hourly = tr.Budget("cost", 5, per="1h", by="user", seen="after")
    daily = tr.Budget("cost", 500, per="day", by="user", seen="after")
    old, new = made(hourly), made(daily)
    for number, time in enumerate((0.0, 2 * HOUR, 2 * HOUR)):
        old.take(number, offer_of(old, time, {"cost": 1.5}, {"user": "a"}), 0)
    old.settle(2, [0.7])
    carry_windows(old, new)
    account = new.account(0, "a", 2 * HOUR)
    assert (account.used, account.reserved, account.decisions) == (Decimal("0.7"), Decimal("1.5"), 2)
    assert set(new.bookings) == {0, 1, 2}
    assert new.bookings[0] == (), "its hour is over"
    assert new.faults() == []
    new.settle(1, [0.2])
    new.cancel(2)
    assert new.account(0, "a", 2 * HOUR).taken == Decimal("0.2")
    other = made(tr.Budget("tokens", 5, per="1h", by="user", seen="after"))
    carry_windows(old, other)
    assert other.account(0, "a", 2 * HOUR).taken == 0
