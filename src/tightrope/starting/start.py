"""The first hour of an experiment: its spec, the best value that rules allow, a simulation, and a page about all of it."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.engine import simulate
from tightrope.environments.build import environment_of, policies_of
from tightrope.environments.table import table_environment
from tightrope.environments.tabular import Tabular
from tightrope.errors import InfeasibleProblem, InvalidInput
from tightrope.files import write
from tightrope.oracle import Solution, solve
from tightrope.report import Report, format_number
from tightrope.result import Result, write_summary
from tightrope.spec import Spec, make_spec
from tightrope.starting.learnt_value import (
    LEAST_CHANCE,
    LEAST_ROWS,
    Estimate,
    LearntValue,
    learnt_value,
    rows_of,
)
from tightrope.starting.proposal import Proposal
from tightrope.starting.text import SPEC

PAGE, SUMMARY = "index.html", "summary.json"
_RULES_SAID = 3
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

    @property
    def path(self) -> Path:
        """Of the spec."""
        return self.folder / SPEC

    @property
    def page(self) -> Path:
        """Of the page."""
        return self.folder / PAGE

    def words(self) -> list[str]:
        """What was found, in sentences."""
        run, rounds = self.run, f"{self.run.n_rounds:,}"
        earned, broken = run.average_reward.mean[-1], self._runs_above()
        best = self.best.value
        part = f", {earned / best:.0%} of that" if best > 0 else ""
        if self.proposal is None:
            world = f"If your guesses were right, the best policy would earn {_short(best)} per decision under these rules."
        else:
            world = (
                f"In a world simulated from the table, the best policy earns {_short(best)} per decision. That is the optimum of "
                "the simulated world, and may be far from that of the real one."
            )
        said = [
            *self._learnt_words(),
            world,
            f"{run.policy} earned {_short(earned)} there on average over its first {rounds} decisions{part}, starting with no "
            f"knowledge ({run.n_replications} simulated runs).",
        ]
        if run.constraints:
            many = (
                f"in {broken} of the {run.n_replications} runs a rule was broken"
                if broken
                else "in all runs every rule held"
            )
            said.append(f"After {rounds} decisions {many}.")
            said += self._priced()
        return said

    def as_data(self) -> dict[str, Any]:
        """For machines."""
        parts = () if self.proposal is None else self.proposal.parts
        return {
            "spec": str(self.path),
            "page": str(self.page),
            "learnt": None if self.learnt is None else self.learnt.as_data(self.spec.rules),
            "simulated_optimum": self.best.value,
            "earned": float(self.run.average_reward.mean[-1]),
            "runs_above_a_limit": self._runs_above(),
            "words": self.words(),
            "doubts": list(self.doubts),
            "proposed": [vars(part) for part in parts],
            "rows": [self.run.rows()[-1]],
        }

    def report(self) -> Report:
        """The page."""
        run, rules = self.run, self.spec.rules
        page = Report(f"First look at {self.spec.name}", self._subtitle())
        facts: list[tuple[Any, str]] = []
        if self.learnt is not None:
            one = self.learnt.policy
            facts.append(
                (
                    _short(one.value),
                    f"what a policy learnt from this table would earn per decision under these rules (95 %: {_short(one.low)} to "
                    f"{_short(one.high)}), estimated on rows that it was not fitted on",
                )
            )
            facts.append((_short(self.learnt.mix.value), "the same of the best fixed mix of actions"))
            if self.learnt.table is not None:
                facts.append((_short(self.learnt.table.value), "earned by the decisions in the table"))
        else:
            where = (
                "if your guesses were right"
                if self.proposal is None
                else "in a world simulated from the table"
            )
            facts.append(
                (
                    _short(self.best.value),
                    f"what the best policy earns per decision under these rules, {where}",
                )
            )
        facts.append(
            (
                _short(run.average_reward.mean[-1]),
                f"earned by {run.policy} over its first {run.n_rounds:,} simulated decisions, starting with no knowledge",
            )
        )
        if rules is not None:
            kept = run.n_replications - self._runs_above()
            facts.append(
                (
                    f"{kept} of {run.n_replications}",
                    f"simulated runs in which every rule held after {run.n_rounds:,} decisions",
                )
            )
        page.headline(facts)
        page.bullets(self.words())
        if rules is not None:
            page.section("The rules")
            page.table(
                ["rule", "the best policy", run.policy, "what the limit costs"],
                self._rule_rows(),
                caption="On average per decision, in the rule's own unit. What a limit costs is the reward per decision that "
                "moving it by one unit (of a share: from 0 to 100 %) would earn, as long as nothing else changes.",
            )
        page.section("What is done")
        page.table(
            ["action", *self._action_head()],
            self._action_rows(),
            caption="Share of the decisions that each action gets.",
        )
        page.section("The simulation")
        page.figure(
            run.plot(),
            name="simulation",
            alt=f"Regret, violation of the rules and shares of the actions over {run.n_rounds:,} simulated decisions",
            caption="Regret is the reward missed so far, against the best policy, which knows everything; violation is by how "
            "much rules are overstepped in all, and 0 while they hold. Bands are 95 % intervals over the runs.",
        )
        if self.proposal is not None:
            page.section("What the columns were taken for")
            rows = [[part.what, part.role, part.why] for part in self.proposal.parts]
            page.table(
                ["column", "taken as", "why"],
                rows,
                caption=f"Columns of `{Path(self.proposal.history.file).name}`.",
            )
        if self.doubts:
            page.section("What the table says little about")
            page.bullets([f"{doubt[0].upper()}{doubt[1:]}." for doubt in self.doubts])
        page.section("How to go on")
        page.text(
            f"`{SPEC}` beside this page states all of it, with comments: change what is wrong, and run it again."
        )
        page.code(
            f"tightrope oracle {SPEC}              # the best policy of the simulated world\n"
            f"tightrope simulate {SPEC}            # what this one does, many times over\n"
            f"tightrope tune {SPEC}                # do other settings of it do better?\n"
            f"tightrope serve {SPEC} --data data   # decisions over HTTP, and a dashboard"
        )
        if self.proposal is not None:
            page.text(
                "The simulated world is the table: its rows come again and again, and what an action would have earned in a row is "
                "an estimate wherever another one was taken. It shows how the rules and the policy work, not what tomorrow brings."
            )
        return page

    def _subtitle(self) -> str:
        if self.proposal is None:
            return f"{len(self.env.actions)} actions, by guesses of how often each succeeds"
        log = self.proposal.log
        return (
            f"{len(log):,} rows of {Path(self.proposal.history.file).name}, {len(self.env.actions)} actions"
        )

    def _learnt_words(self) -> list[str]:
        """What the table lets expect, in sentences; nothing where it says too little."""
        if self.learnt is None:
            return []

        def told(one: Estimate) -> str:
            return f"{_short(one.value)} per decision (95 %: {_short(one.low)} to {_short(one.high)})"

        found = self.learnt
        said = [
            f"A policy learnt from this table would earn about {told(found.policy)} under these rules, estimated on rows that it "
            "was not fitted on.",
            f"Always choosing by the best fixed mix of actions would earn about {told(found.mix)}.",
        ]
        if found.table is not None:
            said.append(
                f"The table's own decisions earned {told(found.table)}; they had no such rules to keep."
            )
        columns = () if self.spec.rules is None else self.spec.rules.columns
        for column, used in list(zip(columns, found.used))[:_RULES_SAID]:
            share = column.rule.quantity.usage is None
            mean, low, high = (f"{one:.1%}" if share else _short(one) for one in used)
            said.append(
                f"On those rows it had a mean of {mean} (95 %: {low} to {high}) where the rule says: {column.rule}."
            )
        return said

    def _runs_above(self) -> int:
        """In how many runs some total is above its limit at the end."""
        return round(float(self.run.violated_share.mean[-1]) * self.run.n_replications)

    def _rule_rows(self) -> list[list[Any]]:
        assert self.spec.rules is not None
        units = self.env.units
        simulated = units.means(self.run.mean_cost[:, -1].mean(axis=0) / self.run.n_rounds)
        rows: list[list[Any]] = []
        for k, column in enumerate(self.spec.rules.columns):
            used = [column.limit + column.sign * float(over[k]) for over in (-self.best.left, simulated)]
            rows.append([str(column.rule), *map(_short, used), _short(float(self.best.prices[k]))])
        return rows

    def _priced(self) -> list[str]:
        """The rule that costs most, in words: by a tenth of each limit, since units differ."""
        assert self.spec.rules is not None
        columns = self.spec.rules.columns
        tenths = [0.1 * abs(column.limit) * price for price, column in zip(self.best.prices, columns)]
        k = int(np.argmax(tenths))
        if tenths[k] <= 1e-9:
            return ["No limit costs anything there: without the rules the best policy would do the same."]
        side = "more" if columns[k].side == "at_most" else "less"
        return [
            f"The limit that costs most is that of {columns[k].name!r}: a tenth {side} would earn {_short(tenths[k])} per decision."
        ]

    def _logged_shares(self) -> list[float] | None:
        if self.proposal is None or self.proposal.log.tells_all:
            return None
        log = self.proposal.log.for_actions(self.env.actions)
        return [float(share) for share in np.bincount(log.actions, minlength=log.n_actions) / len(log)]

    def _action_head(self) -> list[str]:
        return [
            *(["in the table"] if self._logged_shares() is not None else []),
            "the best policy",
            self.run.policy,
            "earns on average",
        ]

    def _action_rows(self) -> list[list[Any]]:
        best = self.best.policy
        weights = self.env.weights if self.best.atoms is None else self.best.atoms.weights
        columns = [weights @ best, self.run.shares.mean[-1]]
        logged = self._logged_shares()
        if logged is not None:
            columns.insert(0, np.array(logged))
        earns = self.env.weights @ self.env.rewards
        return [
            [name, *(f"{column[j]:.1%}" for column in columns), _short(float(earns[j]))]
            for j, name in enumerate(self.env.actions)
        ]


def start(
    text: str,
    folder: Path,
    *,
    proposal: Proposal | None = None,
    force: bool = False,
    workers: int | None = None,
    progress: bool | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Start:
    """Solve and simulate a spec, and write it with a page about what was found.

    Nothing is written unless the spec can be solved; a file that is there already is replaced with `force` alone.

    Parameters
    ----------
    text : str
        The spec, as `spec_text` or `plain_spec_text` gives it.
    folder : Path
        For the spec, the page, its figure and summary.json; made if need be.
    proposal : Proposal, optional
        What the spec was made of.
    tell : callable, optional
        Told what is done next.
    """
    there = [one for one in (SPEC, PAGE, SUMMARY) if (folder / one).exists()]
    if there and not force:
        raise InvalidInput(
            f"{folder / there[0]} is there already: --force replaces it, --out DIR puts everything elsewhere"
        )
    folder.mkdir(parents=True, exist_ok=True)
    spec = make_spec(tomllib.loads(text), source=str(folder / SPEC), folder=folder)
    doubts: list[str] = []
    tell(
        "what each action would have earned in each row …"
        if proposal is not None
        else "the world that was guessed …"
    )
    env = environment_of(spec) if proposal is None else table_environment(spec, doubts.append, proposal.log)
    # A table, or one that was made up from answers.
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
    run = simulate(
        policy,
        env,
        size.rounds,
        size.replications,
        seed=size.seed,
        name=name,
        workers=workers,
        progress=progress,
        warn=False,
    )
    found = Start(spec, folder, env, best, run, tuple(doubts), proposal, learnt)
    write_summary([run], folder / SUMMARY)
    found.report().write(folder, date=datetime.date.today().isoformat(), seed=size.seed)
    return found


def _learnt(spec: Spec, proposal: Proposal, doubts: list[str]) -> LearntValue | None:
    """What a policy learnt from the table would earn; None, and a doubt, where the table can't say."""
    n = len(proposal.log)
    if n < LEAST_ROWS:
        doubts.append(
            f"{n} rows are too few to estimate what a policy learnt from them would earn: {LEAST_ROWS} are needed"
        )
        return None
    try:
        found = learnt_value(rows_of(spec, proposal.log), spec.rules)
    except InfeasibleProblem:
        doubts.append(
            "what a policy learnt from the table would earn is not known: in parts of the table no policy keeps the rules"
        )
        return None
    if found.clipped > _CLIPPED_SHARE:
        doubts.append(
            f"what was done had a chance below {LEAST_CHANCE:.0%} in {found.clipped:.0%} of the rows: what a policy would earn "
            "there is extrapolated"
        )
    return found


def _short(value: float) -> str:
    return format_number(0.0 if abs(value) < 1e-12 else float(value))
