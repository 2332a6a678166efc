"""Was tuning worth it? Settings beside the untouched spec on the same fresh draws, at several lengths, and the answer in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightrope.intervals import mean_interval
from tightrope.report import format_estimate, format_number
from tightrope.result import Estimate
from tightrope.result.curves import UNKNOWN
from tightrope.sweeps.cells import Row, shown
from tightrope.validation import Array


@dataclass(frozen=True, eq=False)
class Check:
    """Some settings and the untouched spec on the same draws."""

    rounds: int
    tuned: Row
    untouched: Row
    difference: (
        Estimate | None
    )  # how much more regret the settings have, run by run; None where one of the two can't run

    @classmethod
    def of(cls, rounds: int, tuned: Row, untouched: Row) -> Check:
        """The check that two rows make, `reward_by_run` among their columns.

        >>> Check.of(100, {"reward_by_run": [41.0, 44.0, 43.0]}, {"reward_by_run": [40.0, 42.0, 40.0]}).difference
        Estimate(mean=-2.0, low=-4.48..., high=0.48...)
        """
        tuned, untouched = dict(tuned), dict(untouched)
        rewards = untouched.pop("reward_by_run"), tuned.pop("reward_by_run")
        known = None not in rewards
        return cls(rounds, tuned, untouched, _mean_of(np.subtract(*rewards)) if known else None)

    @property
    def same(self) -> bool:
        """Whether the two are the same in every run."""
        return self.difference == (0.0, 0.0, 0.0)

    def as_data(self) -> dict[str, Any]:
        """For machines."""
        difference = UNKNOWN if self.difference is None else self.difference
        rows = {"tuned": self.tuned, "untouched": self.untouched}
        return {"round": self.rounds, **rows, **difference.columns("difference")}


@dataclass(frozen=True, eq=False)
class Trial:
    """Settings that met the target in a sweep, and how they did on fresh draws, up to the first length at which they failed."""

    settings: dict[str, Any]
    chosen: Row  # in the sweep
    checks: tuple[Check, ...]
    than: str  # what the untouched spec is called
    missed: tuple[int, ...] = ()  # in how many rounds the untouched spec misses the target

    @property
    def failure(self) -> str:
        """Where the settings fail or miss the target; empty if they don't."""
        last = self.checks[-1]
        if last.tuned["error"] is not None:
            return f"failed at {last.rounds:,} rounds: {last.tuned['error']}"
        if not last.tuned["met"]:
            return f"the target is missed at {last.rounds:,} rounds by {last.tuned['shortfall']:.4g}"
        return ""

    @property
    def comparable(self) -> bool:
        """Whether the untouched spec runs and meets the target too, so that regret decides."""
        return not self.missed and all(check.difference is not None for check in self.checks)

    @property
    def passed_over(self) -> bool:
        """Whether the next settings have their turn: these fail, or have more regret than what they should improve."""
        last = self.checks[-1].difference
        return bool(self.failure) or (self.comparable and last is not None and last.mean > 0.0)

    @property
    def worth_it(self) -> bool:
        """Whether to serve the settings rather than the untouched spec, which then has clearly more regret or misses the target."""
        first = self.checks[0].difference
        clear = not self.comparable or (first is not None and first.high < 0.0)
        return clear and not self.passed_over

    @property
    def words(self) -> str:
        """What was found, for people."""
        settings = ", ".join(
            f"{path.removeprefix('policy.')} {shown(value)}" for path, value in self.settings.items()
        )
        if not self.failure and all(check.same for check in self.checks):
            return f"{settings}: the same decisions as {self.than}"
        found = [self._compared(), self.failure, *self._untouched()]
        return f"{settings}: {'; '.join(filter(None, found))}: {self._answer()}"

    def as_data(self) -> dict[str, Any]:
        """For machines."""
        found = {"passed_over": self.passed_over, "worth_it": self.worth_it, "verdict": self.words}
        checks = [check.as_data() for check in self.checks]
        return {"settings": self.settings, "chosen": self.chosen, "checks": checks, **found}

    def _compared(self) -> str:
        parts: list[str] = []
        for check in self.checks:
            if (difference := check.difference) is None:
                continue
            regret, size = check.untouched["regret"], abs(difference.mean)
            amount = f"{100 * size / regret:.0f} %" if regret and regret > 0.0 else format_number(size)
            kind = "more" if difference.mean > 0.0 else "less"
            than, rounds = ("", "") if parts else (f" regret than {self.than}", " rounds")
            interval = format_estimate(*difference)
            parts.append(f"{amount} {kind}{than} at {check.rounds:,}{rounds} ({interval})")
        return ", ".join(parts)

    def _untouched(self) -> list[str]:
        found = []
        if (error := self.checks[0].untouched["error"]) is not None:
            found.append(f"{self.than} can't run, so there is nothing to compare with ({error})")
        if self.missed:
            found.append(f"{self.than} missed the target at {listed(self.missed)} rounds")
        return found

    def _answer(self) -> str:
        if self.worth_it:
            return "worth it"
        return "not worth it" if self.passed_over else "not worth it, since chance alone may explain it"


def listed(rounds: Sequence[int]) -> str:
    """Numbers of rounds in words.

    >>> listed([2000]), listed([2000, 4000, 10000])
    ('2,000', '2,000, 4,000 and 10,000')
    """
    *most, last = (f"{one:,}" for one in rounds)
    return f"{', '.join(most)} and {last}" if most else last


def _mean_of(values: Array) -> Estimate:
    mean, low, high = mean_interval(values)
    return Estimate(float(mean), float(low), float(high))
