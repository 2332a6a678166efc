"""Windows of time: a local hour, day, week or month, any stretch of so many seconds, or a whole table.

>>> import datetime as dt
>>> day = window_of("day", "Europe/Berlin")
>>> start, end = day.bounds(dt.datetime(2026, 3, 29, 12, tzinfo=dt.timezone.utc).timestamp())
>>> (end - start) / 3600  # the night in which clocks go forward
23.0
>>> window_of("24h").span
86400.0
"""

from __future__ import annotations

import datetime as dt
import functools
import math
import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from tightrope.errors import InvalidInput
from tightrope.messages import did_you_mean

Unit: TypeAlias = Literal["hour", "day", "week", "month"]
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
# The window of a rule for one table that is decided as a whole.
TABLE: Final = "table"

HOUR: Final = 3600.0
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": HOUR, "d": 86_400.0}
_LONGEST: Final = 366 * 86_400.0
# Times are seconds since 1970, from the year 1900 to the year 9000.
EARLIEST, LATEST = -2_208_988_800.0, 221_845_392_000.0


@dataclass(frozen=True)
class Calendar:
    """Hours, days, weeks (from Monday) or months on the clocks of a zone.

    A window is the half-open interval from one local midnight to the next, in seconds since 1970: days have 22 to 26 hours where
    clocks change. Midnight is the first instant whose local date is the new one, even where clocks are then put back before it.
    Hours have 3600 seconds each from there; the last of a day may be shorter.
    """

    unit: Unit
    zone: str

    def bounds(self, time: float) -> tuple[float, float]:
        """The window that holds a time: its start, and its end, which is the start of the next."""
        unit: Unit = "day" if self.unit == "hour" else self.unit
        # Whole seconds: a datetime would round the last instant of a day up to the next one.
        day = _first_of(unit, dt.datetime.fromtimestamp(math.floor(time), ZoneInfo(self.zone)).date())
        start, end = self._start_of(day), self._start_of(_next(unit, day))
        while time >= end:  # clocks were put back across midnight: the date is yesterday's again
            day = _next(unit, day)
            start, end = end, self._start_of(_next(unit, day))
        if self.unit == "hour":
            start += HOUR * math.floor((time - start) / HOUR)
            end = min(start + HOUR, end)
        return start, end

    @property
    def shortest(self) -> float:
        """Roughly how long a window lasts at least, in seconds."""
        return {"hour": HOUR, "day": 22 * HOUR, "week": 166 * HOUR, "month": 670 * HOUR}[self.unit]

    def _start_of(self, day: dt.date) -> float:
        """The first instant whose local date is `day` or later."""
        zone = ZoneInfo(self.zone)
        before, after = (
            dt.datetime(day.year, day.month, day.day, tzinfo=zone, fold=fold).timestamp() for fold in (0, 1)
        )
        if before <= after:  # midnight comes once, or twice
            return before
        # Clocks jump over midnight at some instant in (after, before].
        low, high = int(after), int(before)
        while high - low > 1:
            middle = (low + high) // 2
            if dt.datetime.fromtimestamp(middle, zone).date() >= day:
                high = middle
            else:
                low = middle
        return float(low if dt.datetime.fromtimestamp(low, zone).date() >= day else high)


@dataclass(frozen=True)
class Rolling:
    """Any `span` seconds, never calendar time."""

    span: float

    @property
    def shortest(self) -> float:
        return self.span


@dataclass(frozen=True)
class Table:
    """One table that is decided as a whole (`tr.allocate`): it has no clock."""


Window: TypeAlias = Calendar | Rolling | Table


@functools.cache
def window_of(per: str, zone: str = "UTC") -> Window:
    """The windows that `per` and `zone` name, or `InvalidInput`."""
    if per in UNITS:
        require_zone("zone", zone)
        return Calendar(per, zone)
    if zone != "UTC":
        raise InvalidInput(field="zone", problem=f"is for hours, days, weeks and months, but per is {per!r}")
    if per == TABLE:
        return Table()
    found = re.fullmatch(r"(\d{1,9})([smhd])", per)
    span = int(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not 0.0 < span <= _LONGEST:
        kinds = ", ".join(map(repr, UNITS))
        must = f"be one of {kinds}, or a span of up to 366 days such as '30m', '24h' or '7d'"
        raise InvalidInput(field="per", must=must, got=per)
    return Rolling(span)


def require_zone(name: str, zone: object) -> None:
    try:
        ZoneInfo(str(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        near = did_you_mean(str(zone), available_timezones())
        must = f"be the name of a time zone, such as 'Europe/Berlin'{near}"
        raise InvalidInput(field=name, must=must, got=zone) from None


def _first_of(unit: Unit, day: dt.date) -> dt.date:
    if unit == "week":
        return day - dt.timedelta(day.weekday())
    return day.replace(day=1) if unit == "month" else day


def _next(unit: Unit, first: dt.date) -> dt.date:
    if unit == "month":
        return (first + dt.timedelta(31)).replace(day=1)
    return first + dt.timedelta(7 if unit == "week" else 1)
