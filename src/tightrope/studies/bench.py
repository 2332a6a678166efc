"""How fast the package is: ratios to plain NumPy loops with the same mathematics, measured in one run, with the error beside the time.

Each case runs in a process of its own, on one core and one thread. The two programs take turns; what counts is processor time,
which, unlike the clock on the wall, does not grow when others use the machine.
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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from tightrope import kernels
from tightrope.catalogue import Catalogue, SparseCosts
from tightrope.engine import simulate
from tightrope.environments import hospital
from tightrope.errors import InvalidInput, TightropeError
from tightrope.models import DisjointRidge, Ridge
from tightrope.policies import PessimisticOptimistic
from tightrope.report import save_figure
from tightrope.schedules import Power
from tightrope.studies import baselines
from tightrope.studies.baselines import Outcome, Settings
from tightrope.studies.scaling import figure, pin
from tightrope.validation import Array, whole_number

REPEATS = 9
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
DELTA = 0.1
BLOCK = 16_384  # rows: 8 MiB at d = 64, which stays in a cache

Program = Callable[[], Outcome]


@dataclass(frozen=True)
class Contest:
    """Two programs that make the same choices.

    Attributes
    ----------
    what : str
        The problem.
    against : str
        What the rival computes.
    ours, rival : callable
        Each makes a program, ready to run; making it is not timed.
    rounds, rival_rounds : int
        Choices are compared over as many as both made.
    """

    what: str
    against: str
    ours: Callable[[], Program]
    rival: Callable[[], Program]
    rounds: int
    rival_rounds: int


def online(
    J: int = 10, d: int = 20, K: int = 3, rounds: int = 3_000, against: str = "NumPy, shared model"
) -> Contest:
    """`decide` and `learn` on features and costs that are new in every round."""
    draw = np.random.default_rng(0)
    phis = _unit_rows(draw, rounds * J, d).reshape(rounds, J, d)
    Ws = draw.uniform(-1.0, 1.0, size=(rounds, J, K))
    rewards = draw.uniform(size=rounds).tolist()
    settings = baselines.paper(K, DELTA, rounds)

    def play(policy: PessimisticOptimistic) -> Outcome:
        choices = []
        for phi, W, reward in zip(phis, Ws, rewards):
            decision = policy.decide(phi, W)
            policy.learn(decision, reward)
            choices.append(decision.action)
        return Outcome(choices, _numbers(policy))

    return Contest(
        f"decide + learn, J = {J:,}, d = {d:,}, K = {K:,}, fresh features",
        against,
        lambda: partial(play, _policy(Ridge(d), K, settings)),
        lambda: partial(baselines.shared, phis, Ws, rewards, settings),
        rounds,
        rounds,
    )


def online_after(J: int = 10, d: int = 20, K: int = 3, rounds: int = 3_000, bonus: float = 0.1) -> Contest:
    """`decide` and `learn` where costs are seen after acting, and learnt from features of their own."""
    draw = np.random.default_rng(0)
    phis, psis = (_unit_rows(draw, rounds * J, d).reshape(rounds, J, d) for _ in range(2))
    # With a tenth of √β the estimates of costs leave their lower end within these rounds.
    Ws = np.clip(psis @ draw.normal(size=(d, K)) / 2.0 - 0.1, -1.0, 1.0)
    rewards = draw.uniform(size=rounds).tolist()
    settings = baselines.paper(K, DELTA, rounds, bonus)

    def play(policy: PessimisticOptimistic) -> Outcome:
        choices = []
        for phi, psi, W, reward in zip(phis, psis, Ws, rewards):
            decision = policy.decide(phi, psi)
            policy.learn(decision, reward, W[decision.action])
            choices.append(decision.action)
        cost_model = policy.cost_model
        assert isinstance(cost_model, Ridge)
        return Outcome(choices, np.concatenate([_numbers(policy), cost_model.Theta.ravel()]))

    return Contest(
        f"decide + learn, J = {J}, d = {d}, K = {K}, costs seen after acting",
        "NumPy, two shared models",
        lambda: partial(play, _policy(Ridge(d, bonus=bonus), K, settings, Ridge(d, bonus=bonus))),
        lambda: partial(baselines.after, phis, psis, Ws, rewards, settings),
        rounds,
        rounds,
    )


def ward(rounds: int = 3_000) -> Contest:
    """`decide` and `learn` in the hospital: a model for each of six wards, 10 features, 18 constraints."""
    tables, contexts, uniforms = _hospital(rounds)
    settings = Settings(4.0, 1.0, rounds)
    features, costs, rewards = tables

    def play(policy: PessimisticOptimistic) -> Outcome:
        choices = []
        for c, uniform in zip(contexts.tolist(), uniforms.tolist()):
            decision = policy.decide(features[c], costs[c])
            policy.learn(decision, 1.0 if uniform < rewards[c, decision.action] else 0.0)
            choices.append(decision.action)
        return Outcome(choices, _numbers(policy))

    return Contest(
        "decide + learn, hospital: J = 6 models of 10 features, K = 18",
        "NumPy, block by block",
        lambda: partial(play, _policy(DisjointRidge(6, 10), 18, settings)),
        lambda: partial(baselines.disjoint, *tables, contexts, uniforms, settings),
        rounds,
        rounds,
    )


def engine(rounds: int = 5_000, replications: int = 20) -> Contest:
    """`simulate` on one core in the hospital; the NumPy loop runs the first replication, and gets its random numbers for free."""
    env = hospital()
    tables, contexts, uniforms = _hospital(rounds)
    settings = Settings(4.0, 1.0, rounds)

    def play(policy: PessimisticOptimistic) -> Outcome:
        run = simulate(
            policy,
            env,
            rounds=rounds,
            replications=replications,
            seed=0,
            workers=1,
            record=1,
            optimum=0.0,
            keep_choices=True,
            progress=False,
        )
        assert run.choices is not None
        state = [[run.reward[0, -1]], run.cost[0, -1], run.last_violation[0]]
        return Outcome(run.choices[0].tolist(), np.concatenate(state))

    return Contest(
        "simulate, hospital, one core",
        "NumPy, block by block",
        lambda: partial(play, _policy(DisjointRidge(6, 10), 18, settings)),
        lambda: partial(baselines.simulated, *tables, contexts, uniforms, settings),
        rounds * replications,
        rounds,
    )


def catalogue(
    J: int = 200,
    d: int = 64,
    K: int = 10,
    rounds: int = 1_500,
    bonus: float = 0.1,
    running: bool = False,
    folder: str | os.PathLike[str] | None = None,
) -> Contest:
    """A fixed `Catalogue`, where lazy widths do: against a full sweep, or (`running`) against widths that are carried along.

    With a folder the features are written there and mapped into memory, and the full sweep goes block by block. A tenth of √β
    (`bonus`) makes a policy that learns within these rounds; at the paper's own every r̂ is clipped at 1, and no width matters.
    """
    draw = np.random.default_rng(0)
    phi: Array
    if folder is None:
        phi = _unit_rows(draw, J, d)
    else:
        path = Path(folder, "features.npy")
        _write_rows(draw, J, d, path)
        phi = np.load(path, mmap_mode="r")
    theta = _unit_rows(draw, 1, d)[0]
    rewards = 0.5 + 0.5 * np.asarray(phi @ theta)
    W = draw.uniform(-1.0, 1.0, size=(J, K))
    settings = baselines.paper(K, DELTA, rounds, bonus)
    offer = Catalogue(phi)
    rows = np.asarray(phi)

    def rival() -> Program:
        if running:
            return partial(baselines.running_widths, rows, W, rewards, rounds, settings)
        return partial(
            baselines.full_sweep, rows, W, rewards, rounds, settings, None if folder is None else BLOCK
        )

    return Contest(
        f"decide + learn, catalogue of {J:,} × {d}, K = {K}{', memory-mapped' if folder else ''}",
        "NumPy, widths carried along" if running else f"NumPy, all widths{' in blocks' if folder else ''}",
        lambda: partial(
            _play_catalogue, _policy(Ridge(d, bonus=bonus), K, settings), offer, W, rewards, rounds
        ),
        rival,
        rounds,
        rounds,
    )


def many_constraints(
    J: int = 50, d: int = 20, K: int = 10_000, touched: int = 3, rounds: int = 200
) -> Contest:
    """`SparseCosts` of which each action touches few, against a dense cost matrix."""
    draw = np.random.default_rng(0)
    phi = _unit_rows(draw, J, d)
    rewards = 0.5 + 0.5 * phi[:, 0]
    columns = np.concatenate([draw.choice(K, size=touched, replace=False) for _ in range(J)])
    at = np.arange(J + 1) * touched
    usage = scipy.sparse.csr_array((draw.uniform(0.1, 0.6, size=J * touched), columns, at), shape=(J, K))
    limits = draw.uniform(0.0, 0.1, size=K)
    dense = usage.toarray() - limits
    settings = baselines.paper(K, DELTA, rounds, 0.1)
    offer, costs = Catalogue(phi), SparseCosts(usage, limits)
    return Contest(
        f"decide + learn, J = {J}, d = {d}, K = {K:,}, an action touches {touched}",
        "NumPy, dense costs",
        lambda: partial(
            _play_catalogue, _policy(Ridge(d, bonus=0.1), K, settings), offer, costs, rewards, rounds
        ),
        lambda: partial(baselines.full_sweep, phi, dense, rewards, rounds, settings),
        rounds,
        rounds,
    )


def many_rounds(
    J: int = 10, d: int = 20, K: int = 3, rounds: int = 4_000, successive: bool = False
) -> Contest:
    """`decide_many` on one state of the model: against one matrix product in NumPy, or (`successive`) against our own `decide`."""
    draw = np.random.default_rng(0)
    learnt = 500
    settings = baselines.paper(K, DELTA, rounds, 0.1)
    model = Ridge(d, bonus=0.1)
    for x in _unit_rows(draw, learnt, d):
        model.learn(x, float(draw.uniform()))
    phis = _unit_rows(draw, rounds * J, d).reshape(rounds, J, d)
    Ws = draw.uniform(-1.0, 1.0, size=(rounds, J, K))

    def together(policy: PessimisticOptimistic) -> Outcome:
        return Outcome([decision.action for decision in policy.decide_many(phis, Ws)], policy.queue)

    def one_by_one(policy: PessimisticOptimistic) -> Outcome:
        return Outcome([policy.decide(phi, W).action for phi, W in zip(phis, Ws)], policy.queue)

    def rival() -> Program:
        if successive:
            return partial(one_by_one, _policy(model, K, settings))
        return partial(baselines.batch, phis, Ws, model.Sigma_inv[0], model.Theta[0, 0], learnt, settings)

    return Contest(
        f"decide_many, {rounds:,} rounds, J = {J}, d = {d}, K = {K}",
        "our decide, one by one" if successive else "NumPy, one product",
        lambda: partial(together, _policy(model, K, settings)),
        rival,
        rounds,
        rounds,
    )


@dataclass(frozen=True)
class Case:
    """A contest by name, and how many times faster we mean to be; None where it is measured for what it is."""

    make: Callable[[], Contest]
    target: float | None = None
    full: bool = False
    repeats: int = REPEATS


def _million(running: bool) -> Contest:
    folder = tempfile.TemporaryDirectory(prefix="tightrope-bench-")
    _KEPT.append(folder)
    return catalogue(1_000_000, 64, 2, rounds=30, running=running, folder=folder.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []

CASES: dict[str, Case] = {
    "online": Case(online, 4.0),
    "hospital": Case(ward, 4.0),
    "online-after": Case(online_after),
    "online-large": Case(partial(online, 50, 100, 10, 800), 1.5),
    "catalogue": Case(catalogue, 5.0),
    "catalogue-running": Case(partial(catalogue, running=True)),
    "engine": Case(engine, 20.0),
    "features": Case(partial(online, 10, 2_000, 3, 20)),
    "constraints": Case(many_constraints),
    "batch": Case(many_rounds),
    "batch-decide": Case(partial(many_rounds, successive=True)),
    "million": Case(partial(_million, False), 5.0, full=True, repeats=7),
    "million-running": Case(partial(_million, True), full=True, repeats=7),
}
PARTS = ("start", "scaling")


def measure(contest: Contest, repeats: int = REPEATS) -> dict[str, Any]:
    """Run both programs in turn; medians and quartiles of the microseconds of a round, their ratio, and how far the results differ.

    >>> row = measure(online(J=3, d=2, K=1, rounds=10), repeats=2)
    >>> row["agree"], row["ratio"] > 0
    (1.0, True)
    """
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
    times *= 1e6 / np.array([[contest.rounds], [contest.rival_rounds]])
    low, (mine, theirs), high = np.quantile(times, (0.25, 0.5, 0.75), axis=1)
    return {
        "what": contest.what,
        "against": contest.against,
        "ours": {"median": float(mine), "low": float(low[0]), "high": float(high[0])},
        "rival": {"median": float(theirs), "low": float(low[1]), "high": float(high[1])},
        "ratio": float(theirs / mine),
        "ratio_low": float(np.quantile(times[1] / times[0], 0.25)),
        "ratio_high": float(np.quantile(times[1] / times[0], 0.75)),
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

    Parameters
    ----------
    names : sequence of str
        Cases of `CASES`, "start" for the first call of a process, "scaling" for the engine's cost against the size of the
        problem; by default all cases that are not `full`, and "start".
    full : bool
        All of them: takes some minutes, and 0.5 GiB of disk in a temporary folder.
    repeats : int, optional
        Of each program; at least 7 by default.
    tell : callable
        Called with the name of a case when it starts.

    Examples
    --------
    >>> bench(["walking"])
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: case must be one of online, hospital, ..., start, scaling, but got 'walking'.
    """
    known = [*CASES, *PARTS]
    for name in names:
        if name not in known:
            raise InvalidInput(f"case must be one of {', '.join(known)}, but got {name!r}.")
    if repeats is not None:
        whole_number("repeats", repeats, low=1)
    chosen = [*dict.fromkeys(names)] or [
        name for name in known if full or (name != "scaling" and not (name in CASES and CASES[name].full))
    ]
    data: dict[str, Any] = {"machine": machine(), "rows": [], "start": None, "scaling": None}
    for name in chosen:
        tell(name)
        if name == "start":
            data["start"] = start(repeats or REPEATS)
        elif name == "scaling":
            data["scaling"] = _in_a_process("tightrope.studies.scaling")
        else:
            row = _in_a_process(__name__, name, str(repeats or CASES[name].repeats))
            data["rows"].append({"case": name, **row, "target": CASES[name].target})
    return data


def machine() -> dict[str, Any]:
    """What the numbers were measured on.

    >>> sorted(machine())
    ['cores', 'load', 'numba', 'numpy', 'processor', 'python']
    """
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
    """What `bench` gives, for people: title, head and rows of each table.

    >>> point = {"axis": "J", "J": 2, "median": 2.0, "low": 1.9, "high": 2.2, "limit": 0.2, "times_limit": 10.0}
    >>> limits = {"flops": 5e10, "bandwidth": [[2**18, 1e11]]}
    >>> title, head, rows = tables({"rows": [], "start": None, "scaling": {"limits": limits, "points": [point]}})[0]
    >>> rows
    [['J = 2', '2', '1.9 to 2.2', '0.2', '10.0']]
    """
    shown = []
    if data["rows"]:
        head = [
            "case",
            "what",
            "against",
            "ours",
            "theirs",
            "ratio",
            "quartiles",
            "target",
            "same choices",
            "error",
        ]
        rows = [
            [
                row["case"],
                row["what"],
                row["against"],
                _spread(row["ours"]),
                _spread(row["rival"]),
                f"{row['ratio']:.2f}",
                f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}",
                "–"
                if row["target"] is None
                else f"{row['target']:g}{'' if row['ratio'] >= row['target'] else ' missed'}",
                f"{100 * row['agree']:.4g} % of {row['rounds']:,}",
                f"{row['error']:.0e}",
            ]
            for row in data["rows"]
        ]
        shown.append(
            ("processor time of a round in µs: median ± half the distance of the quartiles", head, rows)
        )
    if data["start"] is not None:
        head = [
            "seconds of a cold process",
            "import",
            "make a policy",
            "first decide",
            "first learn",
            "until decided",
            "on the wall",
        ]
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
    (target / "bench.json").write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    parts = []
    for title, head, rows in tables(data):
        lines = [head, ["---"] * len(head), *rows]
        parts.append(
            "\n".join(
                [f"**{title[0].upper()}{title[1:]}**", "", *(f"| {' | '.join(line)} |" for line in lines)]
            )
        )
    (target / "bench.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    if data["scaling"] is not None:
        save_figure(figure(data["scaling"]), target / "scaling.png")


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


def _in_a_process(module: str, *arguments: str) -> Any:
    return _json_of([sys.executable, "-m", module, *arguments], {**os.environ, **ONE_THREAD})


def _json_of(command: Sequence[str], environment: Mapping[str, str]) -> Any:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TightropeError(f"a benchmark's process ended with status {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def _policy(
    reward: Ridge | DisjointRidge, K: int, settings: Settings, cost: Ridge | None = None
) -> PessimisticOptimistic:
    return PessimisticOptimistic(
        reward=reward,
        cost=cost,
        constraints=K,
        horizon=settings.horizon,
        V=Power(settings.v, 0.5),
        epsilon=Power(settings.e, -0.5),
    )


def _spread(one: Mapping[str, float]) -> str:
    digits = max(0, 2 - math.floor(math.log10(one["median"])))
    return f"{one['median']:,.{digits}f} ± {(one['high'] - one['low']) / 2:,.{digits}f}"


def _bytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 2**20 else f"{size >> 10} KiB"


def _play_catalogue(
    policy: PessimisticOptimistic, offer: Catalogue, costs: Any, rewards: Array, rounds: int
) -> Outcome:
    choices = []
    for _ in range(rounds):
        decision = policy.decide(offer, costs)
        policy.learn(decision, float(rewards[decision.action]))
        choices.append(decision.action)
    return Outcome(choices, _numbers(policy))


def _numbers(policy: PessimisticOptimistic) -> Array:
    """Q and θ̂."""
    model = policy.reward_model
    assert isinstance(model, (Ridge, DisjointRidge))
    return np.concatenate([policy.queue, model.Theta.ravel()])


def _hospital(rounds: int) -> tuple[tuple[Array, Array, Array], Any, Array]:
    """The tables, and the contexts and uniforms of replication 0 under seed 0, as the engine draws them."""
    env = hospital()
    assert env.features is not None
    drawn = np.array([kernels.uniforms(0, 0, t, kernels.CONTEXT_SLOT) for t in range(1, rounds + 1)])
    cdf = np.cumsum(env.weights)
    contexts = np.minimum(np.searchsorted(cdf, drawn[:, 0], side="right"), len(cdf) - 1)
    tables = tuple(np.array(table) for table in (env.features, env.costs, env.rewards))
    return (tables[0], tables[1], tables[2]), contexts, drawn[:, 1].copy()


def _unit_rows(draw: np.random.Generator, n: int, d: int) -> Array:
    rows = draw.normal(size=(n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _write_rows(draw: np.random.Generator, J: int, d: int, path: Path) -> None:
    target = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(J, d))
    for at in range(0, J, 65_536):
        target[at : at + 65_536] = _unit_rows(draw, min(65_536, J - at), d)
    target.flush()


def _main(name: str, repeats: str) -> None:
    pin()
    case = CASES[name]
    row = measure(case.make(), int(repeats))
    for folder in _KEPT:
        folder.cleanup()
    print(json.dumps(row, allow_nan=False))


if __name__ == "__main__":
    _main(*sys.argv[1:])
