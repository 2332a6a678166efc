"""The fields by which a rule limits every window of time, and every key of its own, instead of a running average."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from tightrope.errors import InvalidInput
from tightrope.rules.calendars import Calendar, Table, Window, require_zone, window_of
from tightrope.validation import finite_number, require_choice, whole_number

Expiry: TypeAlias = Literal["keep", "release"]


def _text(what: str, value: object) -> str:
    if not (isinstance(value, str) and value):
        raise InvalidInput(field=what, must="be a text that is not empty", got=value)
    return value


def _flag(what: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(field=what, must="be true or false", got=value)
    return value


def _per(what: str, value: object) -> str:
    window_of(_text(what, value))
    return str(value)


def _zone(what: str, value: object) -> str:
    require_zone(what, _text(what, value))
    return str(value)


def _expiry(what: str, value: object) -> str:
    require_choice(what, value, get_args(Expiry))
    return str(value)


@dataclass(frozen=True, repr=False)
class Windowed:
    """What every rule may say of windows and keys.

    Parameters
    ----------
    per : str, optional
        "hour", "day", "week" or "month" on the clocks of `zone`; a span such as "30m", "24h" or "7d", which limits every such
        stretch; or "table", for `tr.allocate`. Limits are then amounts per window; shares are shares of a window's decisions.
    by : str, optional
        The name of a key that callers send: each of its values has an account of its own.
    zone : str
        An IANA time zone.
    hard : bool
        Whether the limit is never exceeded, not even once: actions that may not fit are not on offer.
    resolution : float, optional
        The smallest unit of the account. Usage is rounded up to it, limits down; by default ten digits of the limit count.
    max_keys : int
        How many values of `by` may have an account in one window; a decision for another is refused.
    expiry : "keep" or "release", optional
        What happens to a reservation whose outcome never comes: it counts as used (the default for hard limits), or as unused.

    Examples
    --------
    >>> import tightrope as tr
    >>> print(tr.Budget("cost", at_most=50, per="day", by="team", hard=True))
    cost: at most 50 per day for each team, never exceeded
    >>> print(tr.Capacity("call", at_most=3, per="7d", by="user", count=True))
    call: at most 3 decisions in any 7d for each user
    >>> print(tr.Capacity("call", at_most=0.25, per="week", zone="Europe/Berlin"))
    call: at most 25% of the decisions of each week (Europe/Berlin)
    """

    per: Annotated[str | None, _per] = field(default=None, kw_only=True)
    by: Annotated[str | None, _text] = field(default=None, kw_only=True)
    zone: Annotated[str, _zone] = field(default="UTC", kw_only=True)
    hard: Annotated[bool, _flag] = field(default=False, kw_only=True)
    resolution: Annotated[float | None, functools.partial(finite_number, low=0.0, open_low=True)] = field(
        default=None, kw_only=True
    )
    expiry: Annotated[str | None, _expiry] = field(default=None, kw_only=True)

    max_keys: Annotated[int, functools.partial(whole_number, low=1)] = field(default=1_000_000, kw_only=True)

    @property
    def window(self) -> Window | None:
        """The windows of time that it limits; None for a limit on the average of all decisions."""
        return None if self.per is None else window_of(self.per, self.zone)

    @property
    def kept(self) -> bool:
        """Whether a reservation counts as used if its outcome never comes."""
        return (self.hard if self.expiry is None else self.expiry == "keep") and self.per is not None

    def require_windowed(self, sides: Mapping[str, float]) -> None:
        """Refuse combinations that mean nothing; `sides` are the limits."""
        if self.per is None:
            for name in (*WINDOW_FIELDS[1:], "count"):
                if (given := getattr(self, name, False)) != _USUAL[name]:
                    needs = f"is for limits per window, but per is missing; {name} was {given!r}"
                    remedy = "Say per = 'day', for example." if name != "hard" else _HARD
                    raise InvalidInput(field=name, problem=needs, remedy=remedy)
            return
        window = window_of(self.per, self.zone)
        if self.hard and "at_least" in sides:
            least = "can't hold for at_least: no choice can make up for what nobody asked for"
            raise InvalidInput(field="hard", problem=least, remedy="Leave out hard, or at_least.")
        if self.hard and isinstance(window, Table):
            raise InvalidInput(field="hard", problem="is for windows of time; a table is decided as a whole")
        if self.hard and min(sides.values()) < 0:
            raise InvalidInput(field="at_most", must="be at least 0 where hard", got=sides["at_most"])

    def smallest(self, amount: float) -> Decimal:
        """The resolution of the account of an amount: a power of ten that leaves it ten digits, unless one is declared.

        >>> import tightrope as tr
        >>> tr.Budget("cost", at_most=50, per="day").smallest(50)
        Decimal('1E-8')
        """
        if self.resolution is not None:
            return Decimal(repr(self.resolution))
        return Decimal(1).scaleb(Decimal(repr(float(amount or 1.0))).adjusted() - _DIGITS)

    def span_words(self) -> str:
        """Such as "per day (Europe/Berlin) for each team"; "" without `per`."""
        return f"{self._per_words()}{self._whose_words()}"

    def share_words(self) -> str:
        """Such as "of the decisions of each day for each team"."""
        match self.window:
            case Calendar(unit=unit):
                of = f"of the decisions of each {unit}{self._zone_words()}"
            case Table():
                of = "of the rows of the table"
            case _:
                of = f"of the decisions of any {self.per}"
        return of + self._whose_words()

    def _per_words(self) -> str:
        match self.window:
            case None:
                return ""
            case Calendar(unit=unit):
                return f"per {unit}{self._zone_words()}"
            case Table():
                return "for the whole table"
            case _:
                return f"in any {self.per}"

    def _zone_words(self) -> str:
        return "" if self.zone == "UTC" else f" ({self.zone})"

    def _whose_words(self) -> str:
        return ("" if self.by is None else f" for each {self.by}") + (", never exceeded" if self.hard else "")


# The names of these fields; `per` comes first.
WINDOW_FIELDS: Final = tuple(Windowed.__dataclass_fields__)
_USUAL: Final = {name: one.default for name, one in Windowed.__dataclass_fields__.items()} | {"count": False}
_DIGITS: Final = 9
_HARD: Final = "A limit on the average can't be hard; in a spec that is served, `hard = true` with `total` caps the sum for ever."


def without_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a rule, as plain data, but for those of windows that say nothing."""
    return {name: one for name, one in values.items() if name not in _USUAL or one != _USUAL[name]}
