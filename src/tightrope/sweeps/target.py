"""What tuned settings must achieve: `violation <= 0 after 500`."""

from __future__ import annotations

import math
import operator
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.result import Curve, Result

FEW_RUNS = "simulation.replications: must be at least 2: a target is judged by the interval over runs"
_COMPARE = {"<=": operator.le, "<": operator.lt}
_POINTS = 100  # recorded rounds for a clause about all rounds after some round
_CLAUSE = re.compile(r"(\w+)\s*(<=|<)\s*(\S+?)(?:\s+after\s+(\S+))?")


@dataclass(frozen=True)
class Clause:
    """One comparison, at the last round or at all recorded rounds after round `after`."""

    metric: str
    sign: str
    limit: float
    after: int | None = None

    def __str__(self) -> str:
        when = "" if self.after is None else f" after {self.after}"
        return f"{self.metric} {self.sign} {self.limit:g}{when}"


@dataclass(frozen=True)
class Target:
    """Comparisons that must all hold, each with the high end of the quantity's 95 % interval.

    >>> target = Target.parse("violation<=0 after 500 and regret < 300")
    >>> print(target)
    violation <= 0 after 500 and regret < 300
    >>> Target.parse("violaton<=0")
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: target: must compare regret, violation or path_violation, but got 'violaton'.
    """

    clauses: tuple[Clause, ...]

    @classmethod
    def parse(cls, text: str) -> Target:
        clauses = []
        for part in re.split(r"\s+and\s+", text.strip()):
            found = _CLAUSE.fullmatch(part.strip())
            if found is None:
                wanted = "be comparisons such as 'violation<=0 after 500', joined by 'and'"
                raise InvalidInput(must=wanted, got=text, within="target")
            metric, sign, limit, after = found.groups()
            if metric not in ("regret", "violation", "path_violation"):
                wanted = "compare regret, violation or path_violation"
                raise InvalidInput(must=wanted, got=metric, within="target")
            clauses.append(Clause(metric, sign, _number(limit), None if after is None else _round(after)))
        return cls(tuple(clauses))

    def __str__(self) -> str:
        return " and ".join(map(str, self.clauses))

    @property
    def after(self) -> int:
        """The round after which all clauses apply; 0 if none names one."""
        return max((clause.after or 0 for clause in self.clauses), default=0)

    def without_regret(self) -> Target:
        """The clauses about violation, for runs of another length.

        >>> print(Target.parse("violation<=0 after 500 and regret < 300").without_regret())
        violation <= 0 after 500
        """
        return Target(tuple(clause for clause in self.clauses if clause.metric != "regret"))

    def recorded(self, rounds: int) -> list[int]:
        """The rounds that a run of that length must record."""
        needed = {rounds}
        for clause in self.clauses:
            if clause.after is None:
                continue
            if clause.after >= rounds:
                wanted = f"leave rounds to judge, but the simulation has {rounds:,}"
                raise InvalidInput(field=f"'{clause}'", must=wanted, within="target")
            early = clause.after + np.geomspace(1, rounds - clause.after, _POINTS // 2).round()
            evenly = np.linspace(clause.after + 1, rounds, (_POINTS + 1) // 2).round()
            needed |= {int(i) for i in (*early, *evenly)}
        return sorted(needed)

    def judge(self, run: Result) -> tuple[bool, float]:
        """Whether a run that recorded the rounds of `recorded` meets the target, and by how much it falls short."""
        met, shortfall = True, 0.0
        for clause in self.clauses:
            at = run.n_rounds - 1 if clause.after is None else clause.after
            curve: Curve = getattr(since(run, at), clause.metric)
            worst = float(curve.high.max())
            if math.isnan(worst):
                raise InvalidInput(FEW_RUNS)
            if not _COMPARE[clause.sign](worst, clause.limit):
                met, shortfall = False, max(shortfall, worst - clause.limit)
        return met, shortfall


def since(run: Result, after: int) -> Result:
    """The run without what was recorded up to round `after`."""
    first = int(np.searchsorted(run.rounds, after, side="right"))
    by_round = ("reward", "observed_reward", "cost", "mean_cost", "counts")
    kept: dict[str, Any] = {name: getattr(run, name)[:, first:] for name in by_round}
    return replace(run, rounds=run.rounds[first:], **kept)


def _number(text: str) -> float:
    with suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise InvalidInput(field="the limit", must="be a finite number", got=text, within="target")


def _round(text: str) -> int:
    if not re.fullmatch(r"\d{1,3}(_?\d{1,3}){0,5}", text):
        wanted = "be followed by a round, a whole number"
        raise InvalidInput(field="after", must=wanted, got=text, within="target")
    return int(text)
