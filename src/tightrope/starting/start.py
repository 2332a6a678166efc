"""The first hour of an experiment: its spec, the best value under its rules, a simulation, and a page about all of it."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tightrope import templates
from tightrope.engine import simulate
from tightrope.environments.build import environment_of, policies_of
from tightrope.environments.table import table_environment
from tightrope.environments.tabular import Tabular
from tightrope.errors import InfeasibleProblem, InvalidInput
from tightrope.files import write
from tightrope.oracle import LimitCurve, Solution, solve
from tightrope.report import Report, format_number, limit_figure
from tightrope.result import Result, write_summary
from tightrope.rules import Rules
from tightrope.spec import Spec, make_spec
from tightrope.starting.learnt_value import (
    LEAST_EACH,
    LEAST_ROWS,
    LearntValue,
    learnt_value,
    least_chance,
    most_rows,
    rows_of,
)
from tightrope.starting.proposal import Proposal
from tightrope.starting.text import SPEC

PAGE, SUMMARY = "index.html", "summary.json"
_RULES_SAID = 3
_ACTIONS_SHOWN = 30
_COSTS = 1e-9
_CLIPPED_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class Start:
    """What `start` wrote and found: the spec, the page about it, the oracle's solution and the runs of the policy."""

    spec: Spec
    folder: Path
    env: Tabular
    best: Solution
    run: Result
    doubts: tuple[str, ...]
    proposal: Proposal | None = None
    learnt: LearntValue | None = None
    curve: LimitCurve | None = (
        None  # of the limit that costs most in the simulated world, if any costs something
    )

    @property
    def path(self) -> Path:
        return self.folder / SPEC

    @property
    def page(self) -> Path:
        return self.folder / PAGE

    def words(self) -> list[str]:
        said = templates.render("tightrope.starting/findings.txt", **self._found())
        return [" ".join(one.split()) for one in said.split("\n\n") if one.strip()]

    def as_data(self) -> dict[str, Any]:
        parts = () if self.proposal is None else self.proposal.parts
        return {
            "spec": str(self.path),
            "page": str(self.page),
            "learnt": None if self.learnt is None else self.learnt.as_data(self.spec.rules),
            "simulated_optimum": self.best.value,
            "curve": None
            if self.curve is None
            else {"rule": self.curve.rule, "rows": self.curve.plain_rows()},
            "earned": float(self.run.average_reward.mean[-1]),
            "runs_above_a_limit": self._runs_above(),
            "words": self.words(),
            "doubts": list(self.doubts),
            "proposed": [asdict(part) for part in parts],
            "rows": [self.run.rows()[-1]],
        }

    def report(self) -> Report:
        file, size = "", f"{len(self.env.actions)} actions"
        subtitle = f"{size}, from guesses of how often each succeeds"
        if self.proposal is not None:
            file = Path(self.proposal.history.file).name
            subtitle = f"{self.proposal.n_rows:,} rows of {file}, {size}"
            if self.proposal.sampled:
                subtitle += (
                    f"; estimates and simulations from {len(self.proposal.log):,} rows drawn at random"
                )
        page = Report(f"First look at {self.spec.name}", subtitle)
        head, *rows = zip(*self._action_columns())
        most_taken = np.argsort(-self.run.shares.mean[-1], kind="stable")[:_ACTIONS_SHOWN]
        page.template(
            "tightrope.starting/page.html",
            **self._found(),
            words=self.words(),
            rules=[] if self.spec.rules is None else self._rule_rows(self.spec.rules),
            action_head=head,
            action_rows=[rows[j] for j in sorted(most_taken.tolist())],
            n_actions=len(rows),
            file=file,
            curve=self.curve,
            draw_curve=limit_figure,
            doubts=[f"{doubt[0].upper()}{doubt[1:]}." for doubt in self.doubts],
        )
        return page

    def _found(self) -> dict[str, Any]:
        columns = () if self.spec.rules is None else self.spec.rules.columns
        k, tenth = dearest_limit(self.best)
        return {
            "run": self.run,
            "proposal": self.proposal,
            "learnt": self.learnt,
            "used": [] if self.learnt is None else self._used(self.learnt),
            "best": self.best.value,
            "earned": self.run.average_reward.mean[-1],
            "broken": self._runs_above(),
            "dearest": None if k is None else columns[k],
            "tenth": tenth,
            "short": _short,
        }

    def _used(self, learnt: LearntValue) -> list[tuple[Any, ...]]:
        """Some rules, each with what a policy learnt from the table uses: the mean and its interval."""
        columns = () if self.spec.rules is None else self.spec.rules.columns
        found: list[tuple[Any, ...]] = []
        for column, used in list(zip(columns, learnt.used))[:_RULES_SAID]:
            share = column.rule.quantity.usage is None
            found.append((column.rule, *(f"{one:.1%}" if share else _short(one) for one in astuple(used))))
        return found

    def _runs_above(self) -> int:
        """In how many runs some total is above its limit at the end."""
        return round(float(self.run.violated_share.mean[-1]) * self.run.n_replications)

    def _rule_rows(self, rules: Rules) -> list[list[Any]]:
        """Each rule: what the best policy and the simulated one use, and what the limit costs."""
        simulated = self.env.units.means(self.run.mean_cost[:, -1].mean(axis=0) / self.run.n_rounds)
        rows: list[list[Any]] = []
        for k, column in enumerate(rules.columns):
            used = [column.limit + column.sign * float(over[k]) for over in (-self.best.left, simulated)]
            rows.append([str(column.rule), *map(_short, used), _short(float(self.best.prices[k]))])
        return rows

    def _action_columns(self) -> list[tuple[str, ...]]:
        """How often each action is taken and what it earns, each column under its heading."""
        weights = self.env.weights if self.best.atoms is None else self.best.atoms.weights
        shares = {"the best policy": weights @ self.best.policy, self.run.policy: self.run.shares.mean[-1]}
        if self.proposal is not None and not self.proposal.log.tells_all:
            log = self.proposal.log.for_actions(self.env.actions)
            shares = {"in the table": np.bincount(log.actions, minlength=log.n_actions) / len(log), **shares}
        earns = self.env.weights @ self.env.rewards
        return [
            ("action", *self.env.actions),
            *((head, *(f"{one:.1%}" for one in column)) for head, column in shares.items()),
            ("earns on average", *map(_short, earns)),
        ]


def start(
    text: str,
    folder: Path,
    *,
    proposal: Proposal | None = None,
    force: bool = False,
    workers: int | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Start:
    """Solve and simulate a spec, and write it with a page about what was found.

    `text` is the spec from `spec_text` or `plain_spec_text`, `proposal` what it was made from, and `tell` is called before each
    step. Nothing is written unless the spec can be solved; a file that exists is replaced only with `force`.
    """
    there = [one for one in (SPEC, PAGE, SUMMARY) if (folder / one).exists()]
    if there and not force:
        remedy = "Use --force to replace it, or --out DIR to write elsewhere"
        raise InvalidInput(f"{folder / there[0]} already exists.", remedy=remedy)
    folder.mkdir(parents=True, exist_ok=True)
    spec = make_spec(tomllib.loads(text), source=str(folder / SPEC), folder=folder)
    doubts: list[str] = []
    if proposal is None:
        tell("the world that was guessed …")
        env = environment_of(spec)
    else:
        tell("what each action would have earned in each row …")
        env = table_environment(spec, doubts.append, proposal.log)
    # A table, or a world made up from answers.
    assert isinstance(env, Tabular)
    tell("the best policy of that world …")
    best = solve(env)
    learnt = None
    if proposal is not None:
        tell("what a policy learnt from the table would earn …")
        learnt = _learnt(spec, proposal, doubts)
    write(folder / SPEC, text)
    [(name, policy)] = policies_of(spec, env).items()
    size = spec.simulation
    tell(f"{size.replications} simulated runs of {size.rounds:,} decisions …")
    how: dict[str, Any] = {"name": name, "workers": workers, "warn": False}
    run = simulate(policy, env, size.rounds, size.replications, size.seed, **how)
    k, tenth = dearest_limit(best)
    curve = best.curve(k) if k is not None and tenth > _COSTS else None
    found = Start(spec, folder, env, best, run, tuple(doubts), proposal, learnt, curve)
    write_summary([run], folder / SUMMARY)
    found.report().write(folder, date=datetime.date.today().isoformat(), seed=size.seed)
    return found


def dearest_limit(best: Solution) -> tuple[int | None, float]:
    """The rule for which a tenth more of its limit would earn most, since units differ; and how much that is."""
    tenths = [0.1 * abs(column.limit) * price for price, column in zip(best.prices, best.columns)]
    k = int(np.argmax(tenths)) if tenths else None
    return k, 0.0 if k is None else float(tenths[k])


def _learnt(spec: Spec, proposal: Proposal, doubts: list[str]) -> LearntValue | None:
    """What a policy learnt from the table would earn; None, and a doubt, if the table can't say."""
    n, J = min(len(proposal.log), most_rows(spec)), len(spec.actions)
    least = max(LEAST_ROWS, LEAST_EACH * J)
    if n < least:
        few = (
            f"{n:,} rows are too few to estimate what a policy learnt from them would earn with {J:,} actions"
        )
        most = "; more rows can't be used with so many actions" if n < len(proposal.log) else ""
        doubts.append(f"{few}; at least {least:,} are required{most}")
        return None
    try:
        decided = None if proposal.log.tells_all else proposal.log.rewards
        found = learnt_value(rows_of(spec, proposal.log), spec.rules, decided=decided)
    except InfeasibleProblem:
        unknown = "what a policy learnt from the table would earn is not known"
        doubts.append(f"{unknown}: in parts of the table no policy keeps the rules")
        return None
    if found.clipped > _CLIPPED_SHARE:
        rare = f"the action taken had a chance below {100 * least_chance(J):.2g}% in {found.clipped:.0%} of the rows"
        doubts.append(f"{rare}: what a policy would earn there is extrapolated")
    return found


def _short(value: float) -> str:
    return format_number(0.0 if abs(value) < 1e-12 else float(value))
