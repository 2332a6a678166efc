"""A world that changes half-way, with and without a half-life: how long it takes to be back near the new optimum.

Queries go to language models under two rules; half-way the two best models change places (`switching-best` of the league). Prints a
table and draws the figure of docs/drift.md.

    python examples/drift.py [--rounds 20000] [--replications 20] [--figure docs/figures/drift.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tightrope as tr
from tightrope_lab.league.scenarios import scenario

HALF_LIVES = (None, 2000.0, 1000.0, 500.0)
WINDOW, NEAR = 500, 0.95
STEP = 50


class Recovery(NamedTuple):
    """Rounds (n,), and what was earned in the `WINDOW` rounds up to each, as a part of the optimum of the moment, on average."""

    rounds: np.ndarray
    earned: np.ndarray
    before: float  # of the optimum, in the last tenth of the run before the change
    after: float  # and in the last tenth of all
    back: int | None  # rounds after the change until a window of them is near the optimum, None if none is
    last_violated: float


def policy(half_life: float | None) -> tr.ShadowPrice:
    return tr.ShadowPrice(
        reward=tr.DisjointRidge(4, 3, half_life=half_life), constraints=2, half_life=half_life
    )


def recovery(half_life: float | None, rounds: int, replications: int, seed: int = 0) -> Recovery:
    env, half = scenario("switching-best").env, rounds // 2
    run = tr.simulate(policy(half_life), env, rounds, replications, seed=seed, record=rounds // STEP)
    optima = [tr.solve(phase).value for phase in env.phases]
    t, mean = np.asarray(run.rounds), run.reward.mean(axis=0)

    def earned(first: np.ndarray, last: np.ndarray) -> np.ndarray:
        best = optima[0] * np.minimum(last, half) + optima[1] * np.maximum(last - half, 0)
        best -= optima[0] * np.minimum(first, half) + optima[1] * np.maximum(first - half, 0)
        return (np.interp(last, [0, *t], [0, *mean]) - np.interp(first, [0, *t], [0, *mean])) / best

    at = t[t >= WINDOW]
    windows, since = earned(at - WINDOW, at), at - half
    # Before a window is full the old world is in it.
    near = (since >= WINDOW) & (windows >= NEAR)
    tenth = rounds // 10
    return Recovery(
        at,
        windows,
        float(earned(np.array(half - tenth), np.array(half))),
        float(earned(np.array(rounds - tenth), np.array(rounds))),
        int(since[near][0]) if near.any() else None,
        float(run.last_violated().mean),
    )


def draw(found: dict[float | None, Recovery], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8.0, 4.0), layout="constrained")
    for half_life, one in found.items():
        label = "forgets nothing" if half_life is None else f"half-life {half_life:,.0f} rounds"
        axes.plot(one.rounds, one.earned, label=label, lw=1.5, color="black" if half_life is None else None)
    axes.axhline(NEAR, color="grey", lw=0.8, ls=":")
    axes.set_xlabel("round")
    axes.set_ylabel(f"reward of the last {WINDOW} rounds,\npart of the optimum of the moment")
    axes.legend(loc="lower left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    found = {one: recovery(one, given.rounds, given.replications) for one in HALF_LIVES}
    print("| half-life | before the change | rounds until within 5 % | at the end | last total above zero |")
    print("| --- | --- | --- | --- | --- |")
    for half_life, one in found.items():
        shown = "none" if half_life is None else f"{half_life:,.0f}"
        back = "not within the run" if one.back is None else f"{one.back:,}"
        print(f"| {shown} | {one.before:.1%} | {back} | {one.after:.1%} | {one.last_violated:.1f} |")
    if given.figure is not None:
        draw(found, given.figure)


if __name__ == "__main__":
    main()
