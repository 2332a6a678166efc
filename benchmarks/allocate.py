"""A table of many rows at once: `tightrope allocate` from Parquet to Parquet, and general LP solvers on the same program.

Ten float32 score columns, two budgets whose usage is a column per action, and eighteen further rules: capacities, shares and rules
among groups. Each program runs in a process of its own. Ours reads and writes files, and its answer is in whole rows; the solvers
get the program in memory, in fractions, and their time is that of the solver alone.

    python benchmarks/allocate.py --rows 100000 1000000 --solvers ipm pdlp --cap 300
    python benchmarks/allocate.py --rows 1000000 --keys 5000

`pdlp` is that of HiGHS; `ortools-pdlp` needs OR-Tools, which is best installed elsewhere: `--python OTHER/bin/python`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ACTIONS = [f"a{j}" for j in range(10)]
PART = 250_000


def columns(n: int, seed: int, keys: int) -> dict[str, np.ndarray]:
    """Scores, two usages for each action, a group and a key."""
    rng = np.random.default_rng(seed)
    worth = rng.gamma(2.0, 1.0, n).astype(np.float32)
    found = {f"score_{a}": worth * rng.random(n, dtype=np.float32) for a in ACTIONS}
    found |= {
        f"cost_{a}": rng.random(n, dtype=np.float32) * np.float32((j + 1) / 10) for j, a in enumerate(ACTIONS)
    }
    found |= {f"hours_{a}": rng.random(n, dtype=np.float32) for a in ACTIONS}
    found["group"] = np.array(["A", "B", "C"])[rng.integers(0, 3, n)]
    if keys:
        found["team"] = rng.integers(0, keys, n)
    return found


def spec(n: int, keys: int) -> str:
    """Two budgets and eighteen further rules; with keys one of the budgets is split evenly."""
    split = f'at_most = {0.25 * n / keys}\nper = "table"\nby = "team"' if keys else "at_most = 0.25"
    rules = [f'kind = "budget"\nname = "cost"\n{split}', 'kind = "budget"\nname = "hours"\nat_most = 0.3']
    rules += [f'kind = "capacity"\naction = "{a}"\nat_most = 0.11' for a in ACTIONS]
    rules += [
        'kind = "share"\naction = "a0"\nat_least = 0.12\namong = "A"',
        'kind = "share"\naction = "a9"\nat_least = 0.1\namong = "B"',
        'kind = "share"\naction = ["a2", "a3"]\nat_least = 0.15\namong = "C"',
        'kind = "capacity"\naction = ["a4", "a5"]\nat_most = 0.19\namong = "A"',
        'kind = "capacity"\naction = "a1"\nat_most = 0.1\namong = "B"',
        'kind = "budget"\nname = "hours"\nat_most = 0.28\namong = "C"',
        'kind = "mean"\nname = "hours"\nat_least = 0.05',
        'kind = "share"\naction = ["a6", "a7", "a8", "a9"]\nat_least = 0.3',
    ]
    reward, cost, hours = (
        ", ".join(f'{a} = "{name}_{a}"' for a in ACTIONS) for name in ("score", "cost", "hours")
    )
    told = f'[allocate]\ngroup = "group"\nreward = {{ {reward} }}\n[allocate.usage]\ncost = {{ {cost} }}\nhours = {{ {hours} }}'
    return "\n".join([f"actions = {json.dumps(ACTIONS)}", *(f"[[rule]]\n{rule}" for rule in rules), told])


def write_table(path: Path, n: int, keys: int) -> None:
    """The table, written in parts."""
    import pyarrow as pa
    import pyarrow.parquet

    writer = None
    for part, begin in enumerate(range(0, n, PART)):
        table = pa.table(columns(min(PART, n - begin), part, keys))
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema, compression="none")
        writer.write_table(table)
    if writer is not None:
        writer.close()


def ours(folder: Path) -> dict[str, Any]:
    """`tightrope allocate`, kernels compiled before."""
    from tightrope.cli import main

    run = [
        "allocate",
        str(folder / "spec.toml"),
        "--in",
        str(folder / "table.parquet"),
        "--out",
        str(folder / "out"),
        "--json",
    ]
    begun, processor = time.perf_counter(), time.process_time()
    assert main(run) == 0
    summary = json.loads((folder / "out" / "summary.json").read_text())
    left = min(row["left"] for row in summary["rows"])
    return {
        "wall": time.perf_counter() - begun,
        "cpu": time.process_time() - processor,
        "gap": summary["gap"],
        "value": summary["value"],
        "worst": max(0.0, -left),
    }


def write_program(folder: Path) -> dict[str, Any]:
    """The linear program of the table, for solvers that share no process with ours."""
    import pyarrow.parquet
    import scipy.sparse as sp

    from tightrope.allocation.problem import rows_and_limits
    from tightrope.allocation.reader import read_rows
    from tightrope.allocation.settings import task_of
    from tightrope.allocation.settle import options
    from tightrope.allocation.table import Table, cores
    from tightrope.frames import Frame
    from tightrope.spec import read_spec

    task = task_of(read_spec(folder / "spec.toml"))
    frame = Frame(pyarrow.parquet.read_table(folder / "table.parquet"))
    rows, limits = rows_and_limits(
        read_rows(frame, task.layout, task.rules.registry), task.layout, task.limits, task.rules
    )
    with cores(1) as pool:
        scores, costs, _ = options(Table(rows, limits, pool), np.arange(len(rows.scores)))
    matrix = sp.csc_array(costs.T)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    np.savez(folder / "program.npz", scores=scores, limits=limits.amounts, n=len(rows.scores), **parts)
    return {}


def solver(folder: Path, name: str, cap: float) -> dict[str, Any]:
    """A general solver on the same linear program, to a relative gap of 1e-4."""
    import scipy.sparse as sp

    read = np.load(folder / "program.npz")
    scores, limits, n = read["scores"], read["limits"], int(read["n"])
    shape = (len(limits), len(scores))
    matrix = sp.csc_array((read["data"], read["indices"], read["indptr"]), shape=shape)
    each = sp.kron(sp.eye_array(n), np.ones((1, len(ACTIONS))), format="csc")
    whole = sp.vstack([matrix, each], format="csc")
    low, high = np.append(np.full(len(limits), -np.inf), np.ones(n)), np.append(limits, np.ones(n))
    begun, processor = time.perf_counter(), time.process_time()
    x, ended = (_ortools if name == "ortools-pdlp" else _highs)(scores, whole, low, high, name, cap)
    wall, cpu = time.perf_counter() - begun, time.process_time() - processor
    beyond = matrix @ x - limits
    scale = np.maximum(1.0, np.abs(limits))
    return {
        "wall": wall,
        "cpu": cpu,
        "value": float(scores @ x),
        "worst": float((beyond / scale).max()),
        "ended": ended,
    }


def _highs(
    scores: np.ndarray, whole: Any, low: np.ndarray, high: np.ndarray, name: str, cap: float
) -> tuple[np.ndarray, str]:
    import highspy

    from tightrope.lp.highs import lp_model

    highspy.Highs.resetGlobalScheduler(True)
    made = highspy.Highs()
    options = {"output_flag": False, "solver": name, "time_limit": cap, "run_crossover": "off", "threads": 2}
    for option, value in {
        **options,
        "pdlp_optimality_tolerance": 1e-4,
        "ipm_optimality_tolerance": 1e-4,
    }.items():
        made.setOptionValue(option, value)
    columns = np.zeros(len(scores)), np.full(len(scores), np.inf)
    entries = whole.indptr.astype(np.int32), whole.indices.astype(np.int32), whole.data
    assert made.passModel(lp_model(scores, columns, (low, high), entries)) == highspy.HighsStatus.kOk
    made.run()
    return np.asarray(made.getSolution().col_value), made.modelStatusToString(made.getModelStatus())


def _ortools(
    scores: np.ndarray, whole: Any, low: np.ndarray, high: np.ndarray, name: str, cap: float
) -> tuple[np.ndarray, str]:
    from ortools.pdlp import solve_log_pb2, solvers_pb2
    from ortools.pdlp.python import pdlp

    made = pdlp.QuadraticProgram()
    made.resize_and_initialize(len(scores), len(low))
    made.objective_vector = -scores
    made.constraint_matrix = whole
    made.constraint_lower_bounds, made.constraint_upper_bounds = low, high
    made.variable_lower_bounds, made.variable_upper_bounds = (
        np.zeros(len(scores)),
        np.full(len(scores), np.inf),
    )
    parameters = solvers_pb2.PrimalDualHybridGradientParams(num_threads=2)
    parameters.termination_criteria.time_sec_limit = cap
    parameters.termination_criteria.simple_optimality_criteria.eps_optimal_relative = 1e-4
    parameters.termination_criteria.simple_optimality_criteria.eps_optimal_absolute = 1e-4
    found = pdlp.primal_dual_hybrid_gradient(made, parameters)
    return np.asarray(found.primal_solution), solve_log_pb2.TerminationReason.Name(
        found.solve_log.termination_reason
    )


def main() -> None:
    """One line for each program."""
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    read.add_argument("--keys", type=int, default=0)
    read.add_argument("--solvers", nargs="*", default=[])
    read.add_argument("--cap", type=float, default=300.0)
    read.add_argument("--python", default=sys.executable)
    read.add_argument("--one", nargs=2, metavar=("FOLDER", "PROGRAM"))
    given = read.parse_args()
    if given.one:
        folder, name = Path(given.one[0]), given.one[1]
        alone = {"tightrope": ours, "program": write_program}
        found = alone[name](folder) if name in alone else solver(folder, name, given.cap)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print("RESULT " + json.dumps({**found, "peak_gib": peak}))
        return
    for n in given.rows:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "spec.toml").write_text(spec(n, given.keys))
            write_table(folder / "table.parquet", n, given.keys)
            for name in ("tightrope", *(["program", *given.solvers] if given.solvers else [])):
                python = given.python if name.startswith("ortools") else sys.executable
                command = [python, __file__, "--one", str(folder), name, "--cap", str(given.cap)]
                paths = {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
                run = subprocess.run(command, capture_output=True, text=True, check=False, env=paths)
                lines = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
                print(
                    f"{n:>11,} {name:>13}",
                    lines[0][7:] if lines else run.stderr.strip().splitlines()[-1],
                    flush=True,
                )


if __name__ == "__main__":
    main()
