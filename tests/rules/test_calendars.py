"""Windows of time, against a slow transcription of what a local day is: the first instant whose date is the new one."""

from __future__ import annotations

import datetime as dt
import math
from itertools import pairwise
from typing import Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightrope.errors import InvalidInput
from tightrope.rules.calendars import Calendar, Rolling, window_of

# Half-hour and 45-minute offsets, a change by half an hour, midnights that come twice or never, a day that was skipped, changes of
# the offset itself, and rules that differ from year to year.
ZONES = (
    *("UTC", "Europe/Berlin", "Europe/Dublin", "Europe/Moscow", "America/New_York", "America/St_Johns", "America/Sao_Paulo"),
    *("America/Havana", "America/Asuncion", "America/Caracas", "America/Scoresbysund", "Africa/Cairo", "Africa/Casablanca"),
    *("Asia/Kathmandu", "Asia/Tehran", "Asia/Beirut", "Asia/Amman", "Asia/Gaza", "Asia/Pyongyang", "Australia/Lord_Howe"),
    *("Antarctica/Troll", "Pacific/Apia", "Pacific/Chatham", "Pacific/Kwajalein", "Atlantic/Azores"),
)  # fmt: skip
MINUTE, DAY = 60, 86_400
FIRST, LAST = (int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) for year in (2008, 2029))


def date_at(time: float, zone: ZoneInfo) -> dt.date:
    return dt.datetime.fromtimestamp(time, zone).date()


def days_around(middle: int, zone: ZoneInfo, days: int) -> list[tuple[int, dt.date]]:
    """The first minute and the date of each local day around a time: dates never go back."""
    begin = middle - middle % MINUTE - days * DAY
    day, starts = date_at(begin, zone), []
    for minute in range(begin, middle + days * DAY, MINUTE):
        here = date_at(minute, zone)
        if here > day:
            day = here
            starts.append((minute, day))
    return starts


def changes(zone: ZoneInfo) -> list[int]:
    """When clocks change, to the minute."""
    found = []

    def offset(time: int) -> dt.timedelta | None:
        return dt.datetime.fromtimestamp(time, zone).utcoffset()

    for low in range(FIRST, LAST, 6 * DAY):
        high = low + 6 * DAY
        if offset(low) == offset(high):
            continue
        while high - low > MINUTE:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == offset(low) else (low, middle)
        found.append(high - high % MINUTE)
    return found


@pytest.mark.parametrize("name", ZONES)
def test_days_and_hours_are_those_of_local_clocks(name: str) -> None:
    zone = ZoneInfo(name)
    days, hours = Calendar("day", name), Calendar("hour", name)
    for middle in [*changes(zone)[::7], FIRST + 999 * DAY]:
        starts = [at for at, _ in days_around(middle, zone, 2)]
        for start, end in pairwise(starts):
            assert 22 * 3600 <= end - start <= 26 * 3600
            for time in (start, start + 0.25, (start + end) / 2, end - 0.25):
                assert days.bounds(time) == (start, end)
                begun = start + (time - start) // 3600 * 3600
                assert hours.bounds(time) == (begun, min(begun + 3600, end))


@pytest.mark.parametrize("unit", ["week", "month"])
@pytest.mark.parametrize("name", ["Europe/Berlin", "America/Havana", "Pacific/Apia"])
def test_weeks_and_months_begin_with_their_first_day(name: str, unit: Literal["week", "month"]) -> None:
    zone, span = ZoneInfo(name), 9 if unit == "week" else 36
    middle = int(dt.datetime(2011, 12, 30, 12, tzinfo=dt.UTC).timestamp())

    def same(day: dt.date) -> object:
        return day.isocalendar()[:2] if unit == "week" else (day.year, day.month)

    days = days_around(middle, zone, span)
    begins = [at for (at, day), (_, before) in zip(days[1:], days) if same(day) != same(before)]
    start, end = max(at for at in begins if at <= middle), min(at for at in begins if at > middle)
    for time in (start, middle, end - 0.25):
        assert Calendar(unit, name).bounds(time) == (start, end)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ZONES), st.sampled_from(["hour", "day", "week", "month"]), st.floats(FIRST, LAST))
def test_windows_tile_time(name: str, unit: Literal["hour", "day", "week", "month"], time: float) -> None:
    calendar = Calendar(unit, name)
    start, end = calendar.bounds(time)
    assert start <= time < end
    for _ in range(60):
        assert calendar.bounds(start)[1] == calendar.bounds(end)[0] == end
        assert calendar.bounds(end - 1e-3) == (start, end)
        start, end = end, calendar.bounds(end)[1]


def test_the_last_instant_of_a_day_is_in_that_day() -> None:
    midnight = dt.datetime(2029, 1, 1, tzinfo=dt.UTC).timestamp()
    before = math.nextafter(midnight, 0.0)
    for unit in ("hour", "day", "month"):
        start, end = Calendar(unit, "UTC").bounds(before)
        assert start < before < end == midnight


def test_midnight_that_comes_twice_or_never() -> None:
    """Havana puts its clocks back at 1:00 and forward at 0:00; in Apia a day never was."""
    havana = Calendar("day", "America/Havana")
    back = dt.datetime(2025, 11, 2, 4, 30, tzinfo=dt.UTC).timestamp()  # 0:30, for the first time
    assert havana.bounds(back) == havana.bounds(back + 3600)
    assert (havana.bounds(back)[1] - havana.bounds(back)[0]) / 3600 == 25
    forward = dt.datetime(2026, 3, 8, 5, tzinfo=dt.UTC).timestamp()  # 0:00, which is 1:00
    assert havana.bounds(forward) == (forward, forward + 23 * 3600)
    apia = Calendar("day", "Pacific/Apia")
    jump = dt.datetime(2011, 12, 30, 10, tzinfo=dt.UTC).timestamp()
    assert apia.bounds(jump - 1)[1] == jump == apia.bounds(jump)[0]


def test_clocks_that_are_changed_beside_midnight() -> None:
    """St. John's put its clocks back at 0:01, to 23:01 of the day before; Toronto skipped from 23:30 to 0:30."""
    johns = Calendar("day", "America/St_Johns")
    midnight = dt.datetime(2010, 11, 7, 2, 30, tzinfo=dt.UTC).timestamp()
    for minutes in (0, 1, 30, 61, 600):  # 0:00, then 23:01, 23:30, 0:01 again
        assert johns.bounds(midnight + 60 * minutes)[0] == midnight
    assert johns.bounds(midnight - 0.25)[1] == midnight
    toronto = Calendar("day", "America/Toronto")
    change = dt.datetime(1919, 3, 31, 4, 30, tzinfo=dt.UTC).timestamp()
    assert toronto.bounds(change - 1)[1] == change == toronto.bounds(change + 60)[0]


def test_what_per_and_zone_may_be() -> None:
    assert window_of("24h") == Rolling(86_400.0) == window_of("1d")
    assert window_of("90s") == Rolling(90.0)
    for per in ("fortnight", "0h", "24", "367d", "Day", "-1h", "1.5h", ""):
        with pytest.raises(
            InvalidInput, match="per must be one of 'hour', 'day', 'week', 'month', or a span"
        ):
            window_of(per)
    with pytest.raises(InvalidInput, match=r"zone must be .*did you mean 'Europe/Berlin'"):
        window_of("day", "Europe/Berln")
    for zone in ("/etc/passwd", "../zoneinfo", ""):
        with pytest.raises(InvalidInput, match="zone must be"):
            window_of("day", zone)
    with pytest.raises(InvalidInput, match="zone is for hours, days, weeks and months"):
        window_of("24h", "Europe/Berlin")
