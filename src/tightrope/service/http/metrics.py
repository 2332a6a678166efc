"""Numbers for Prometheus, in its text format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, Final, Literal, NamedTuple

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
    """A number that is known when it is asked for: its name, what it means, its labels, itself; a counter never falls."""

    name: str
    words: str
    labels: Labels
    value: float
    kind: Literal["gauge", "counter"] = "gauge"


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

        for (experiment, route, status), n in sorted(self._answers.copy().items()):
            if experiments is None or experiment in experiments:
                head("tightrope_requests_total", "Answers by route and status.", "counter")
                labels = {"experiment": experiment, "route": route, "status": str(status)}
                lines.append(f"tightrope_requests_total{_braces(labels)} {n}")
        for experiment, n in sorted(self._writer_errors.copy().items()):
            if experiments is None or experiment in experiments:
                words = "Errors that a writer's thread met and outlived."
                head("tightrope_writer_errors_total", words, "counter")
                lines.append(f"tightrope_writer_errors_total{_braces({'experiment': experiment})} {n}")
        for (name, experiment, route), (counts, [total]) in sorted(self._buckets.copy().items()):
            if experiments is not None and experiment not in experiments:
                continue
            full, labels = f"tightrope_{name}", {"experiment": experiment, "route": route}
            head(full, _HELP[name], "histogram")
            for edge, below in zip([*map(str, _EDGES[name]), "+Inf"], accumulate(counts), strict=True):
                lines.append(f"{full}_bucket{_braces({**labels, 'le': edge})} {below}")
            lines.append(f"{full}_sum{_braces(labels)} {total!r}")
            lines.append(f"{full}_count{_braces(labels)} {sum(counts)}")
        for one in sorted(samples, key=lambda one: one.name):
            head(f"tightrope_{one.name}", one.words, one.kind)
            lines.append(f"tightrope_{one.name}{_braces(one.labels)} {one.value!r}")
        return "\n".join(lines) + "\n"


def samples_of(experiment: str, state: Mapping[str, Any]) -> list[Sample]:
    """What `GET /v1/state` says of an experiment."""
    label = {"experiment": experiment}
    outcomes = state["outcomes"]
    found = [
        Sample("journal_position", "Entries in the journal.", label, float(state["position"])),
        Sample("pending", "Decisions whose outcome is waited for.", label, float(outcomes["pending"])),
        Sample(
            "reward_sum", "Sum of the rewards.", label, (outcomes["mean_reward"] or 0.0) * outcomes["rewards"]
        ),
    ]
    for action in state["actions"]:
        labels, value = {**label, "action": action["name"]}, float(action["decisions"])
        found.append(Sample("decisions_total", "Decisions by action.", labels, value, "counter"))
    for kind in ("rewards", "complete", "missing", "late", "rejected"):
        labels, value = {**label, "kind": kind}, float(outcomes[kind])
        found.append(Sample("outcomes_total", "Outcomes by kind.", labels, value, "counter"))
    for one in state["outside"]:
        labels, value = {**label, "field": one["field"]}, float(one["values"])
        words = "Numbers of a context that were outside their range, by field."
        found.append(Sample("values_outside_total", words, labels, value, "counter"))
    for column in state["constraints"]:
        labels = {**label, "constraint": column["name"]}
        words = "Sum of the costs: a rule holds at or below 0."
        found.append(Sample("cumulative_cost", words, labels, column["cumulative_cost"]))
        found.append(Sample("queue", "The dual variable of a rule.", labels, column["queue"]))
    for cap in state["hard_caps"]:
        labels = {**label, "cap": cap["name"]}
        found.append(Sample("hard_cap_used", "Used or reserved of a hard cap.", labels, cap["used"]))
        found.append(Sample("hard_cap_limit", "What a hard cap allows in all.", labels, cap["total"]))
    return found


def clock_samples(experiment: str, clock: object) -> list[Sample]:
    """Whether the machine's clock is to be believed."""
    if not isinstance(clock, SteadyClock):
        return []
    label = {"experiment": experiment}
    words = "The machine's clock before the journal's, where they disagree."
    return [
        Sample("clock_ahead_seconds", words, label, clock.ahead),
        Sample(
            "clock_alarms_total", "How often they began to disagree.", label, float(clock.alarms), "counter"
        ),
    ]


def _braces(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items() if value)
    return "{" + pairs + "}" if pairs else ""
