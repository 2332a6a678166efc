"""Who gets the baseline and who keeps an action: the ``[holdout]`` and ``[sticky]`` of a spec, and the draw behind them.

>>> Sticky(by="user_id", period="7d").seconds
604800.0
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from tightrope.errors import InvalidInput
from tightrope.words import Place

# The kind of policy that serves an action, or a mix of actions, to the control group.
MIX: Final = "fixed-mix"
_UNITS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


class Holdout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ``[holdout]``: a random `share` of the decisions, or of the users named by the key `by`, gets a baseline.

    The baseline is an action's name or a share for each action; a ``[holdout.policy]`` takes its place.
    """

    share: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    by: str | None = None
    baseline: str | dict[str, float] | None = None
    policy: dict[str, Any] | None = None

    def mix(self, actions: Sequence[str]) -> list[float] | None:
        """The probability of each action under the baseline; None if a policy is the baseline."""
        if (self.baseline is None) == (self.policy is None):
            both = "but got both" if self.policy is not None else "but got neither"
            problem = f"needs a baseline: an action, a share for each action, or a [holdout.policy], {both}"
            raise InvalidInput(field="holdout", problem=problem)
        if self.baseline is None:
            return None
        shares = {self.baseline: 1.0} if isinstance(self.baseline, str) else self.baseline
        for name, share in shares.items():
            if name not in actions:
                where = Place("holdout", "baseline")
                raise InvalidInput(field=where, must="name actions of the spec", got=name)
            if not 0.0 <= share <= 1.0:
                where = Place("holdout", "baseline", name)
                raise InvalidInput(field=where, must="lie in [0, 1]", got=share)
        total = sum(shares.values())
        if abs(total - 1.0) > 1e-6:
            must = f"have shares that sum to 1, but they sum to {total:.9g}"
            raise InvalidInput(field=Place("holdout", "baseline"), must=must)
        return [shares.get(name, 0.0) for name in actions]


class Sticky(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ``[sticky]``: whoever has the same value under the key `by` keeps an action for a time such as "7d"."""

    by: str
    period: str = msgspec.field(name="for")

    @property
    def seconds(self) -> float:
        stated = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)", self.period)
        found = 0.0 if stated is None else float(stated[1]) * _UNITS[stated[2]]
        if not found:
            must = 'be a time such as "90s", "30min", "2h" or "7d"'
            raise InvalidInput(field=Place("sticky", "for"), must=must, got=self.period)
        return found


def require_agreement(holdout: Holdout | None, sticky: Sticky | None) -> None:
    """Refuse a control group that is drawn in another way than actions stick: repeats would belong to both arms."""
    if sticky is None:
        return
    _ = sticky.seconds
    if holdout is not None and holdout.by != sticky.by:
        raise InvalidInput(
            field=Place("holdout", "by"),
            must=f"be {sticky.by!r}, the key of [sticky]",
            got=holdout.by,
            remedy="Otherwise a repeat would carry an action from one arm to the other.",
        )


def key_names(*tables: Holdout | Sticky | None) -> tuple[str, ...]:
    """The keys that requests must have."""
    return tuple(dict.fromkeys(one.by for one in tables if one is not None and one.by is not None))


def drawn(experiment: str, what: str) -> int:
    """64 random bits that are the same whenever the same experiment asks for the same thing.

    Names are part of it, so that two experiments do not hold out the same users.

    >>> drawn("routing", "user u17") == drawn("routing", "user u17") != drawn("prices", "user u17")
    True
    """
    text = f"{len(experiment)} {experiment} {what}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, person=b"tightrope-draw").digest())


def is_held_out(bits: int, share: float) -> bool:
    """Whether these bits belong to the control group; who belongs to a smaller one belongs to a larger one too."""
    return bits < share * 2.0**64


def key_of(keys: Mapping[str, str | int] | None, name: str, why: str) -> str:
    """The value of a key of a request, as text; `why` says who needs it."""
    if not keys or name not in keys:
        raise InvalidInput(field=Place("keys", name), problem=f"is missing: {why} needs it")
    return str(keys[name])
