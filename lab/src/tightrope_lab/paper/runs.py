"""The runs of a study: made once by its `run`, and told of in a section of the report: its template shows what `tell` makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tightrope.engine import simulate
from tightrope.environments.tabular import Tabular
from tightrope.policies import Policy
from tightrope.result import Result


@dataclass(frozen=True)
class Size:
    """How much to run; None leaves a study its own default."""

    rounds: int | None = None
    replications: int | None = None
    seed: int = 0
    workers: int | None = None
    progress: bool | None = None


@dataclass
class Runs:
    """The runs of one study, in order, each under a label that says what differs from the others."""

    study: str
    size: Size
    tell: Callable[[str], None] = lambda line: None
    results: dict[str, Result] = field(default_factory=dict)

    def add(
        self,
        label: str,
        policy: Policy,
        env: Tabular,
        rounds: int,
        replications: int,
        record: Sequence[int] | None = None,
    ) -> Result:
        """Simulate, and keep the result under `label`."""
        self.tell(label)
        how: dict[str, Any] = {"workers": self.size.workers, "progress": self.size.progress, "record": record}
        # The report says what the paper's policy can't do; there is nobody to warn.
        result = simulate(policy, env, rounds, replications, self.size.seed, **how, warn=False)
        self.results[label] = result
        if result.interrupted:
            raise KeyboardInterrupt
        return result

    def done(self) -> dict[str, Any]:
        """Rounds and replications of the first run, and the command that makes the study again."""
        found: dict[str, list[int]] = {"rounds": [], "replications": []}
        for one in self.results.values():
            found["rounds"].append(one.n_rounds)
            found["replications"].append(one.n_replications)
        words = f"tightrope reproduce {self.study}"
        for name, numbers in found.items():
            # Runs of several sizes have those of the study, unless others were asked for.
            asked = getattr(self.size, name) or (numbers[0] if len({*numbers}) == 1 else None)
            words += "" if asked is None else f" --{name} {asked}"
        first = {name: numbers[0] for name, numbers in found.items()}
        return {**first, "command": f"{words} --seed {self.size.seed}"}

    def rows(self) -> list[dict[str, Any]]:
        """One row for each run and recorded round, with the study and the label beside the usual columns."""
        return [
            {"study": self.study, "variant": label, **row}
            for label, result in self.results.items()
            for row in result.rows()
        ]
