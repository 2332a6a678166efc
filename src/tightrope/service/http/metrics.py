"""Numbers for Prometheus, in its text format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, Final, NamedTuple

from tightrope.service.experiment.clock import SteadyClock

_HELP: Final = {
    "request_seconds": "Time from a request's head to its answer, by route.",
    "commit_seconds": "Time to make a batch durable, all of its work included.",
    "batch_size": "Operations in a batch.",
}
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_EDGES: Final = {
    "request_seconds": (*_SECONDS, 10.0, 30.0),
    "commit_seconds": _SECONDS,
    "batch_size": (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0),
}
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

Labels = Mapping[str, str]


class Sample(NamedTuple):
    """A number: its name, what it means, its labels, itself. One whose name ends in `_total` is a counter, which never falls."""

    name: str
    words: str
    labels: Labels
    value: float


class Samples(list[Sample]):
    """What is known of one experiment when it is asked for."""

    def __init__(self, experiment: str) -> None:
        self._label = {"experiment": experiment}

    def add(self, name: str, words: str, value: float, **labels: str) -> None:
        """One more number."""
        self.append(Sample(name, words, {**self._label, **labels}, float(value)))

    def add_state(self, state: Mapping[str, Any]) -> None:
        """What `GET /v1/state` says."""
        outcomes = state["outcomes"]
        self.add("journal_position", "Entries in the journal.", state["position"])
        self.add("pending", "Decisions whose outcome is waited for.", outcomes["pending"])
        rewards = (outcomes["mean_reward"] or 0.0) * outcomes["rewards"]
        self.add("reward_sum", "Sum of the rewards.", rewards)
        for one in state["actions"]:
            self.add("decisions_total", "Decisions by action.", one["decisions"], action=one["name"])
        for kind in ("rewards", "complete", "missing", "late", "rejected"):
            self.add("outcomes_total", "Outcomes by kind.", outcomes[kind], kind=kind)
        for one in state["outside"]:
            words = "Numbers of a context that were outside their range, by field."
            self.add("values_outside_total", words, one["values"], field=one["field"])
        for one in state["constraints"]:
            words = "Sum of the costs: a rule holds at or below 0."
            self.add("cumulative_cost", words, one["cumulative_cost"], constraint=one["name"])
            self.add("queue", "The dual variable of a rule.", one["queue"], constraint=one["name"])
        for one in state["hard_caps"]:
            self.add("hard_cap_used", "Used or reserved of a hard cap.", one["used"], cap=one["name"])
            self.add("hard_cap_limit", "What a hard cap allows in all.", one["total"], cap=one["name"])

    def add_clock(self, clock: object) -> None:
        """Whether the machine's clock is to be believed."""
        if isinstance(clock, SteadyClock):
            words = "The machine's clock before the journal's, where they disagree."
            self.add("clock_ahead_seconds", words, clock.ahead)
            self.add("clock_alarms_total", "How often they began to disagree.", clock.alarms)


class Metrics:
    """Counters and histograms of one process, by experiment; what belongs to none has the experiment ""."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str, int], int] = {}
        self._writer_errors: dict[str, int] = {}
        self._buckets: dict[tuple[str, str, str], tuple[list[int], list[float]]] = {}

    def answered(self, experiment: str, route: str, status: int, seconds: float) -> None:
        """One more answer to a request."""
        key = (experiment, route, status)
        self._answers[key] = self._answers.get(key, 0) + 1
        self.observe("request_seconds", experiment, seconds, route)

    def writer_failed(self, experiment: str) -> None:
        """One more error that a writer's thread met and outlived."""
        self._writer_errors[experiment] = self._writer_errors.get(experiment, 0) + 1

    def observe(self, name: str, experiment: str, value: float, route: str = "") -> None:
        """One more value of a histogram."""
        edges = _EDGES[name]
        found = self._buckets.get((name, experiment, route))
        if found is None:
            # One count for each edge and one for beyond; the sum.
            found = self._buckets[name, experiment, route] = [0] * (len(edges) + 1), [0.0]
        counts, total = found
        counts[bisect_left(edges, value)] += 1
        total[0] += value

    def text(self, samples: Iterable[Sample] = (), experiments: frozenset[str] | None = None) -> str:
        """Everything, with what is known now; of some experiments alone, where they are named ("": what belongs to none)."""
        lines: list[str] = []
        shown: set[str] = set()

        def head(name: str, words: str, kind: str) -> None:
            if name not in shown:
                shown.add(name)
                lines.extend([f"# HELP {name} {words}", f"# TYPE {name} {kind}"])

        counted = []
        for (experiment, route, status), n in sorted(self._answers.copy().items()):
            labels = {"experiment": experiment, "route": route, "status": str(status)}
            counted.append(Sample("requests_total", "Answers by route and status.", labels, n))
        for experiment, n in sorted(self._writer_errors.copy().items()):
            words = "Errors that a writer's thread met and outlived."
            counted.append(Sample("writer_errors_total", words, {"experiment": experiment}, n))
        if experiments is not None:
            counted = [one for one in counted if one.labels["experiment"] in experiments]
        for (name, experiment, route), (counts, [total]) in sorted(self._buckets.copy().items()):
            if experiments is not None and experiment not in experiments:
                continue
            full, labels = f"tightrope_{name}", {"experiment": experiment, "route": route}
            head(full, _HELP[name], "histogram")
            for edge, below in zip([*map(str, _EDGES[name]), "+Inf"], accumulate(counts), strict=True):
                lines.append(f"{full}_bucket{_braces({**labels, 'le': edge})} {below}")
            lines.append(f"{full}_sum{_braces(labels)} {total!r}")
            lines.append(f"{full}_count{_braces(labels)} {sum(counts)}")
        for one in sorted([*counted, *samples], key=lambda one: one.name):
            name = f"tightrope_{one.name}"
            head(name, one.words, "counter" if name.endswith("_total") else "gauge")
            lines.append(f"{name}{_braces(one.labels)} {one.value!r}")
        return "\n".join(lines) + "\n"


def _braces(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items() if value)
    return "{" + pairs + "}" if pairs else ""
