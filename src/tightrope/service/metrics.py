"""Numbers for Prometheus, in its text format; `metrics.toml` says what each of them means."""

from __future__ import annotations

import tomllib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

_HELP: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_EDGES: Final = {
    "request_seconds": (*_SECONDS, 10.0, 30.0),
    "commit_seconds": _SECONDS,
    "batch_size": (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0),
}
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Sample(NamedTuple):
    """A number: its name, its labels, itself. One whose name ends in `_total` is a counter, which never falls."""

    name: str
    labels: Mapping[str, str]
    value: float


class Samples(list[Sample]):
    """What is known about one experiment at the time of the request."""

    def __init__(self, experiment: str) -> None:
        self._label = {"experiment": experiment}

    def add(self, name: str, value: float, **labels: str) -> None:
        self.append(Sample(name, {**self._label, **labels}, float(value)))

    def add_state(self, state: Mapping[str, Any]) -> None:
        """What `GET /v1/state` says."""
        outcomes = state["outcomes"]
        self.add("journal_position", state["position"])
        self.add("pending", outcomes["pending"])
        self.add("reward_sum", (outcomes["mean_reward"] or 0.0) * outcomes["rewards"])
        for one in state["actions"]:
            self.add("decisions_total", one["decisions"], action=one["name"])
        for kind in ("rewards", "complete", "missing", "late", "rejected"):
            self.add("outcomes_total", outcomes[kind], kind=kind)
        for one in state["outside"]:
            self.add("values_outside_total", one["values"], field=one["field"])
        for one in state["replaced"]:
            self.add("values_replaced_total", one["values"], field=one["field"], why=one["why"])
        self.add("repeats_total", state["repeats"])
        for one in state["constraints"]:
            self.add("cumulative_cost", one["cumulative_cost"], constraint=one["name"])
            self.add("queue", one["queue"], constraint=one["name"])
        for one in state["hard_caps"]:
            self.add("hard_cap_used", one["used"], cap=one["name"])
            self.add("hard_cap_limit", one["total"], cap=one["name"])

    def add_clock(self, ahead: float, alarms: int) -> None:
        self.add("clock_ahead_seconds", ahead)
        self.add("clock_alarms_total", alarms)


class Metrics:
    """Counters and histograms of one process, by experiment; what belongs to none has the experiment ""."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, str, int]] = Counter()
        self._writer_errors: Counter[str] = Counter()
        self._buckets: dict[tuple[str, str, str], tuple[list[int], list[float]]] = {}

    def answered(self, experiment: str, route: str, status: int, seconds: float) -> None:
        self._answers[experiment, route, status] += 1
        self.observe("request_seconds", experiment, seconds, route)

    def writer_failed(self, experiment: str) -> None:
        """Count an error that a writer's thread survived."""
        self._writer_errors[experiment] += 1

    def observe(self, name: str, experiment: str, value: float, route: str = "") -> None:
        edges = _EDGES[name]
        found = self._buckets.get((name, experiment, route))
        if found is None:
            # One count for each edge and one for beyond; the sum.
            found = self._buckets[name, experiment, route] = [0] * (len(edges) + 1), [0.0]
        counts, total = found
        counts[bisect_left(edges, value)] += 1
        total[0] += value

    def text(self, samples: Iterable[Sample] = (), experiments: frozenset[str] | None = None) -> str:
        """All metrics, with what is known now; only of the named experiments, if any ("": metrics of none)."""
        lines: list[str] = []
        shown: set[str] = set()

        def head(name: str, kind: str) -> str:
            full = f"tightrope_{name}"
            if name not in shown:
                shown.add(name)
                lines.extend([f"# HELP {full} {_HELP[name]}", f"# TYPE {full} {kind}"])
            return full

        counted = []
        for (experiment, route, status), n in sorted(self._answers.copy().items()):
            labels = {"experiment": experiment, "route": route, "status": str(status)}
            counted.append(Sample("requests_total", labels, n))
        for experiment, n in sorted(self._writer_errors.copy().items()):
            counted.append(Sample("writer_errors_total", {"experiment": experiment}, n))
        if experiments is not None:
            counted = [one for one in counted if one.labels["experiment"] in experiments]
        for (name, experiment, route), (counts, [total]) in sorted(self._buckets.copy().items()):
            if experiments is not None and experiment not in experiments:
                continue
            full, labels = head(name, "histogram"), {"experiment": experiment, "route": route}
            for edge, below in zip([*map(str, _EDGES[name]), "+Inf"], accumulate(counts), strict=True):
                lines.append(f"{full}_bucket{_braces({**labels, 'le': edge})} {below}")
            lines.append(f"{full}_sum{_braces(labels)} {total!r}")
            lines.append(f"{full}_count{_braces(labels)} {sum(counts)}")
        for one in sorted([*counted, *samples], key=lambda one: one.name):
            name = head(one.name, "counter" if one.name.endswith("_total") else "gauge")
            lines.append(f"{name}{_braces(one.labels)} {one.value!r}")
        return "\n".join(lines) + "\n"


def _braces(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items() if value)
    return "{" + pairs + "}" if pairs else ""
