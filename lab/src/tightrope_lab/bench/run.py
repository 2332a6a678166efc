"""Running the contests: each in a process of its own, on one core and one thread; tables and files of what came out.

The two programs take turns; what counts is processor time, which, unlike the clock on the wall, does not grow when others use the
machine.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.errors import InvalidInput, TightropeError
from tightrope.files import write as write_file
from tightrope.report import save_figure
from tightrope.validation import whole_number
from tightrope_lab.bench import scaling
from tightrope_lab.bench.contests import CASES, REPEATS, Contest
from tightrope_lab.bench.scaling import quartiles

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
PARTS = ("start", "scaling")


def measure(contest: Contest, repeats: int = REPEATS) -> dict[str, Any]:
    """Run both programs in turn; medians and quartiles of the microseconds of a round, their ratio, and how far the results differ."""
    whole_number("repeats", repeats, low=1)
    ours, rival = contest.ours()(), contest.rival()()
    both = min(len(ours.choices), len(rival.choices))
    agree = np.mean(np.equal(ours.choices[:both], rival.choices[:both]))
    error = np.abs(ours.state - rival.state).max(initial=0.0)
    times = np.empty((2, repeats))
    for i in range(repeats):
        # Who goes first changes, so that neither always finds what the other left in the caches.
        for side in (0, 1) if i % 2 else (1, 0):
            program = (contest.ours, contest.rival)[side]()
            started = time.process_time()
            program()
            times[side, i] = time.process_time() - started
    times *= 1e6 / np.array([[contest.rounds], [contest.rival_rounds or contest.rounds]])
    mine, theirs = (quartiles(side) for side in times)
    ratio_low, ratio_high = np.quantile(times[1] / times[0], (0.25, 0.75)).tolist()
    return {
        "what": contest.what,
        "against": contest.against,
        "ours": mine,
        "rival": theirs,
        "ratio": theirs["median"] / mine["median"],
        "ratio_low": ratio_low,
        "ratio_high": ratio_high,
        "agree": float(agree),
        "error": float(error),
        "rounds": both,
        "repeats": repeats,
    }


def bench(
    names: Sequence[str] = (),
    *,
    full: bool = False,
    repeats: int | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Measure cases, each in a process of its own: `{"machine", "rows", "start", "scaling"}`.

    As the command `tightrope bench`: "start" is the first call of a process, "scaling" the engine's cost against the size of the
    problem. `tell` is called with the name of a case when it starts.
    """
    known = [*CASES, *PARTS]
    for name in names:
        if name not in known:
            raise InvalidInput(field="case", must=f"be one of {', '.join(known)}", got=name)
    if repeats is not None:
        whole_number("repeats", repeats, low=1)
    slow = ["scaling", *(name for name, case in CASES.items() if case.full)]
    chosen = [*dict.fromkeys(names)] or [name for name in known if full or name not in slow]
    data: dict[str, Any] = {"machine": machine(), "rows": [], "start": None, "scaling": None}
    for name in chosen:
        tell(name)
        if name == "start":
            data["start"] = start(repeats or REPEATS)
        elif name == "scaling":
            data["scaling"] = _in_a_process("scaling")
        else:
            row = _in_a_process(name, str(repeats or CASES[name].repeats))
            data["rows"].append({"case": name, **row, "target": CASES[name].target})
    return data


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    from importlib.metadata import version

    processor = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "numba": version("numba"),
    }


def tables(data: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """What `bench` gives, for people: title, head and rows of each table."""
    shown = []
    if data["rows"]:
        head = ["case", "what", "against", "ours", "theirs", "ratio", "quartiles", "target"]
        head += ["same choices", "error"]
        rows = []
        for row in data["rows"]:
            took = [_spread(row["ours"]), _spread(row["rival"])]
            ratio = [f"{row['ratio']:.2f}", f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}"]
            alike = [f"{100 * row['agree']:.4g} % of {row['rounds']:,}", f"{row['error']:.0e}"]
            target = _target(row["target"], row["ratio"])
            rows.append([row["case"], row["what"], row["against"], *took, *ratio, target, *alike])
        title = "processor time of a round in µs: median ± half the distance of the quartiles"
        shown.append((title, head, rows))
    if data["start"] is not None:
        head = ["seconds of a cold process", "import", "make a policy", "first decide", "first learn"]
        head += ["until decided", "on the wall"]
        rows = [
            [name, *(f"{value:.3f}" for value in data["start"][key].values())]
            for name, key in (("compiling", "compiling"), ("compiled code on disk", "cached"))
        ]
        shown.append(("the first call", head, rows))
    if data["scaling"] is not None:
        limits = data["scaling"]["limits"]
        copied = ", ".join(f"{rate / 1e9:.0f} ({_bytes(size)})" for size, rate in limits["bandwidth"])
        rows = [
            [
                f"{point['axis']} = {point[point['axis']]:,}",
                f"{point['median']:.3g}",
                f"{point['low']:.3g} to {point['high']:.3g}",
                f"{point['limit']:.2g}",
                f"{point['times_limit']:.1f}",
            ]
            for point in data["scaling"]["points"]
        ]
        head = ["varied", "µs a round", "quartiles", "limit", "times the limit"]
        title = f"engine, one core; its limits: {limits['flops'] / 1e9:.0f} Gflop/s, GB/s copied {copied}"
        shown.append((title, head, rows))
    return shown


def write(data: Mapping[str, Any], folder: str | os.PathLike[str]) -> None:
    """`bench.json`, `bench.md` and, where scaling was measured, `scaling.png`."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    write_file(target / "bench.json", json.dumps(data, indent=1, allow_nan=False) + "\n")
    parts = []
    for title, head, rows in tables(data):
        lines = [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)]
        parts.append("\n".join([f"**{title[0].upper()}{title[1:]}**", "", *lines]))
    write_file(target / "bench.md", "\n\n".join(parts) + "\n")
    if data["scaling"] is not None:
        save_figure(scaling.figure(data["scaling"]), target / "scaling.png")


# A process as a user starts it; times since its very first instruction, and of its own processor.
_FIRST_CALL = """
import json, time
at = [time.process_time()]
import tightrope as tr
at.append(time.process_time())
wall = time.perf_counter()
import numpy as np
policy = tr.PessimisticOptimistic(reward=tr.Ridge(20), constraints=3, slater=0.1, horizon=1000)
at.append(time.process_time())
decision = policy.decide(np.eye(20)[:10].copy(), np.zeros((10, 3)))
at.append(time.process_time())
policy.learn(decision, 0.5)
at.append(time.process_time())
print(json.dumps([*np.diff(at).tolist(), at[3] - at[1], time.perf_counter() - wall]))
"""


def start(repeats: int = REPEATS) -> dict[str, Any]:
    """Seconds of a cold process until its first decision: compiling, and (median) with the compiled code found on disk.

    `import`, `policy` (the classes and Numba are loaded, a policy is made), `decide` and `learn` (the first call of each), and
    `ready`, all between the import and the first decision, in processor time and on the wall.
    """
    parts = ("import", "policy", "decide", "learn", "ready", "ready_wall")
    with tempfile.TemporaryDirectory(prefix="tightrope-bench-") as folder:
        environment = {**os.environ, **ONE_THREAD, "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", _FIRST_CALL]
        compiling = _json_of(command, environment)
        cached = np.median([_json_of(command, environment) for _ in range(repeats)], axis=0)
    return {
        "compiling": dict(zip(parts, compiling, strict=True)),
        "cached": dict(zip(parts, cached.tolist(), strict=True)),
        "repeats": repeats,
    }


def _in_a_process(*arguments: str) -> Any:
    return _json_of([sys.executable, "-m", __package__, *arguments], {**os.environ, **ONE_THREAD})


def _json_of(command: Sequence[str], environment: Mapping[str, str]) -> Any:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TightropeError(f"a benchmark's process ended with status {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def _spread(one: Mapping[str, float]) -> str:
    digits = max(0, 2 - math.floor(math.log10(one["median"])))
    return f"{one['median']:,.{digits}f} ± {(one['high'] - one['low']) / 2:,.{digits}f}"


def _target(target: float | None, ratio: float) -> str:
    return "–" if target is None else f"{target:g}{'' if ratio >= target else ' missed'}"


def _bytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 2**20 else f"{size >> 10} KiB"
