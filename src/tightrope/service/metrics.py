"""Numbers for Prometheus, in its text format.

>>> metrics = Metrics()
>>> metrics.count("requests", {"route": "/v1/decisions", "status": "200"})
>>> print(metrics.text().splitlines()[2])
tightrope_requests_total{route="/v1/decisions",status="200"} 1
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tightrope.service.clock import SteadyClock

_HELP: Final = {
    "requests": "Answers by route and status.",
    "commit_seconds": "Time to make a batch durable, all of its work included.",
    "batch_size": "Operations in a batch.",
    "writer_errors": "Errors that a writer's thread met and outlived.",
}
_EDGES: Final = {
    "commit_seconds": (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
    "batch_size": (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0),
}
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

Labels = Mapping[str, str]
Gauge = tuple[str, str, Labels, float]


class Metrics:
    """Counters and histograms of one process; gauges are given when they are shown."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self._buckets: dict[tuple[str, str], list[float]] = {}

    def count(self, name: str, labels: Labels) -> None:
        """One more."""
        key = (name, tuple(labels.items()))
        self._counts[key] = self._counts.get(key, 0) + 1

    def observe(self, name: str, experiment: str, value: float) -> None:
        """One more value of a histogram."""
        edges = _EDGES[name]
        # One number for each edge, one for beyond, then the sum.
        bucket = self._buckets.setdefault((name, experiment), [0.0] * (len(edges) + 2))
        bucket[bisect_left(edges, value)] += 1
        bucket[-1] += value

    def text(self, gauges: Iterable[Gauge] = (), experiments: frozenset[str] | None = None) -> str:
        """Everything, with gauges (name, help, labels, value); of some experiments alone, where they are named."""
        lines: list[str] = []
        shown: set[str] = set()

        def head(name: str, words: str, kind: str) -> None:
            if name not in shown:
                shown.add(name)
                lines.extend([f"# HELP {name} {words}", f"# TYPE {name} {kind}"])

        for (name, pairs), n in sorted(self._counts.items()):
            head(f"tightrope_{name}_total", _HELP[name], "counter")
            lines.append(f"tightrope_{name}_total{_braces(dict(pairs))} {n}")
        for (name, experiment), bucket in sorted(self._buckets.items()):
            if experiments is not None and experiment not in experiments:
                continue
            full = f"tightrope_{name}"
            head(full, _HELP[name], "histogram")
            below = 0.0
            for edge, inside in zip([*map(str, _EDGES[name]), "+Inf"], bucket):
                below += inside
                lines.append(f"{full}_bucket{_braces({'experiment': experiment, 'le': edge})} {below:g}")
            lines.append(f"{full}_sum{_braces({'experiment': experiment})} {bucket[-1]!r}")
            lines.append(f"{full}_count{_braces({'experiment': experiment})} {below:g}")
        for name, words, labels, value in sorted(gauges, key=lambda gauge: gauge[0]):
            kind = "counter" if name.endswith("_total") else "gauge"
            head(f"tightrope_{name}", words, kind)
            lines.append(f"tightrope_{name}{_braces(labels)} {value!r}")
        return "\n".join(lines) + "\n"


def gauges_of(experiment: str, state: Mapping[str, Any]) -> list[Gauge]:
    """What `GET /v1/state` says of an experiment, as gauges."""
    label = {"experiment": experiment}
    outcomes = state["outcomes"]
    found: list[Gauge] = [
        ("journal_position", "Entries in the journal.", label, float(state["position"])),
        ("pending", "Decisions whose outcome is waited for.", label, float(outcomes["pending"])),
        ("reward_sum", "Sum of the rewards.", label, (outcomes["mean_reward"] or 0.0) * outcomes["rewards"]),
    ]
    for action in state["actions"]:
        labels = {**label, "action": action["name"]}
        found.append(("decisions_total", "Decisions by action.", labels, float(action["decisions"])))
    for kind in ("rewards", "complete", "missing", "late", "rejected"):
        found.append(("outcomes_total", "Outcomes by kind.", {**label, "kind": kind}, float(outcomes[kind])))
    for column in state["constraints"]:
        labels = {**label, "constraint": column["name"]}
        words = "Sum of the costs: a rule holds at or below 0."
        found.append(("cumulative_cost", words, labels, column["cumulative_cost"]))
        found.append(("queue", "The dual variable of a rule.", labels, column["queue"]))
    for cap in state["hard_caps"]:
        labels = {**label, "cap": cap["name"]}
        found.append(("hard_cap_used", "Used or reserved of a hard cap.", labels, cap["used"]))
        found.append(("hard_cap_total", "What a hard cap allows in all.", labels, cap["total"]))
    return found


def clock_gauges(experiment: str, clock: object) -> list[Gauge]:
    """Whether the machine's clock is to be believed."""
    if not isinstance(clock, SteadyClock):
        return []
    label = {"experiment": experiment}
    return [
        (
            "clock_ahead_seconds",
            "The machine's clock before the journal's, where they disagree.",
            label,
            clock.ahead,
        ),
        ("clock_alarms_total", "How often they began to disagree.", label, float(clock.alarms)),
    ]


def _braces(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return "{" + pairs + "}" if labels else ""
