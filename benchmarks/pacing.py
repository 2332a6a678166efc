"""How well limits per window are paced: what was asked beside what is measured, as the mean over runs of six weeks.

    python benchmarks/pacing.py --runs 8                     # writes a line for each world and run, and a table at the end
    python benchmarks/pacing.py --runs 2 --only keys         # some of the worlds
    python benchmarks/pacing.py --table build/pacing.jsonl   # the table of lines that were written before
    python benchmarks/pacing.py --figure docs/figures/pacing.png

A run of all worlds takes some six minutes of processor time at 1,500 decisions a day.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tightrope as tr
from tightrope_lab.pacing import trials
from tightrope_lab.pacing.play import play
from tightrope_lab.pacing.worlds import (
    BUSY_DAY,
    DAY,
    DOUBLE_DAY,
    HALF_DAY,
    HOUR,
    START,
    Traffic,
    coupons,
    late,
    routing,
)

# What is asked of each measure: "≥" or "≤", and the number.
ASKED = {
    "one amount, payoffs known": {
        "reward": (">=", 0.99),
        "days above": ("<=", 0.05),
        "worst excess": ("<=", 0.005),
        "left for the last hour": (">=", 0.99),
        "first day": (">=", 0.9),
        "double day": (">=", 0.98),
        "busy afternoon": (">=", 0.94),
    },
    "one amount, learning": {
        "reward": (">=", 0.975),
        "days above": ("<=", 0.05),
        "worst excess": ("<=", 0.005),
        "left for the last hour": (">=", 0.99),
        "first day": (">=", 0.9),
        "double day": (">=", 0.98),
        "busy afternoon": (">=", 0.94),
    },
    "any 24 hours": {"reward": (">=", 0.965), "hours above": ("<=", 0.0)},
    "hour, day and week": {"reward": (">=", 0.98), "windows above by 2 %": ("<=", 0.005)},
    "a cost per day, a share per week": {"reward": (">=", 0.975)},
    "keys, uniform": {"of the distance": (">=", 0.65), "most used": ("<=", 1.0)},
    "keys, heavy": {"of the distance": (">=", 0.73), "most used": ("<=", 1.0)},
    "keys, bursts": {"of the distance": (">=", 0.6), "most used": ("<=", 1.0)},
    "outcomes two hours late": {"unused": ("<=", 0.03), "windows above": ("<=", 0.05)},
}
# Users have about twelve decisions a day, and may use eight.
PER_USER, OF_USER = 12.0, 8.0


def worlds(seed: int, traffic: Traffic) -> dict[tuple[str, str], Callable[[], dict[str, float]]]:
    """By what is measured and where."""
    found: dict[tuple[str, str], Callable[[], dict[str, float]]] = {}
    for world in (routing, coupons):
        name = world.__name__
        found |= {
            ("one amount, payoffs known", name): lambda world=world: trials.one_amount(
                world(seed, traffic), known=True, seed=seed
            ),
            ("one amount, learning", name): lambda world=world: trials.one_amount(
                world(seed, traffic), known=False, seed=seed
            ),
            ("any 24 hours", name): lambda world=world: trials.rolling(world(seed, traffic), seed),
            ("hour, day and week", name): lambda world=world: trials.nested(world(seed, traffic), seed),
            ("a cost per day, a share per week", name): lambda world=world: trials.two_usages(
                world(seed, traffic), seed
            ),
        }
    n_users = int(traffic.per_day / PER_USER)
    for users in ("uniform", "heavy", "bursts"):
        found[f"keys, {users}", "coupons"] = lambda users=users: trials.keys(
            coupons(seed, traffic, users, n_users), OF_USER, seed
        )
    found["outcomes two hours late", "routing"] = lambda: trials.late_outcomes(
        late(routing(seed, traffic), seed), seed=seed
    )
    return found


def table(lines: list[dict[str, object]]) -> str:
    """Markdown: what was asked, and the mean over runs."""
    rows = ["| limits | world | | asked | measured | runs |", "| --- | --- | --- | --- | --- | --- |"]
    for what, asked in ASKED.items():
        places = dict.fromkeys(str(one["world"]) for one in lines if one["what"] == what)
        for place in places:
            own = [one["measures"] for one in lines if (one["what"], one["world"]) == (what, place)]
            for name, (sign, wanted) in asked.items():
                values = np.array([one[name] for one in own if name in one])  # type: ignore[index,operator]
                if not len(values):
                    continue
                worst = name in ("worst excess", "most used")
                value = float(values.max() if worst else values.mean())
                met = value >= wanted if sign == ">=" else value <= wanted + 1e-9
                words = f"{'≥' if sign == '>=' else '≤'} {wanted:g}"
                shown = f"{value:.4f}" if met else f"**{value:.4f}**"
                rows.append(f"| {what} | {place} | {name} | {words} | {shown} | {len(values)} |")
    return "\n".join(rows)


def draw(path: Path) -> None:
    """What is used of an amount per day, by the time of day, on usual days and on others."""
    from matplotlib.figure import Figure

    world = coupons(0, Traffic(per_day=600.0, days=BUSY_DAY + 1))
    amount = trials.amount_per_day(world)
    played = play(world, [tr.Budget("cost", amount, per="day")], known=True)
    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    axes = figure.subplots()
    others = {DOUBLE_DAY: "twice the traffic", HALF_DAY: "half the traffic", BUSY_DAY: "a busy afternoon"}
    colours = {DOUBLE_DAY: "#c1440e", HALF_DAY: "#2b6cb0", BUSY_DAY: "#2f855a"}
    for day in range(7, BUSY_DAY + 1):
        own = world.days == day
        hours, used = (world.times[own] - START) % DAY / HOUR, np.cumsum(played.used[own]) / amount
        special = day in others
        axes.plot(
            hours,
            used,
            color=colours.get(day, "#b0b0b0"),
            label=others.get(day),
            lw=2.0 if special else 0.7,
            zorder=2 + special,
        )
    axes.axhline(1.0, color="black", lw=0.8, ls="--")
    axes.set(
        xlim=(0, 24),
        ylim=(0, 1.05),
        xticks=range(0, 25, 4),
        xlabel="hour of the day",
        ylabel="used of the amount",
    )
    axes.legend(frameon=False, loc=(0.03, 0.6))
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first run")
    parser.add_argument("--days", type=int, default=42)
    parser.add_argument("--per-day", type=float, default=1500.0)
    parser.add_argument("--only", default="", help="worlds whose names contain this")
    parser.add_argument("--out", type=Path, default=Path("build/pacing.jsonl"))
    parser.add_argument("--table", type=Path, help="only print the table of these lines")
    parser.add_argument("--figure", type=Path, help="only draw what is used of an amount by the time of day")
    given = parser.parse_args()
    if given.figure is not None:
        draw(given.figure)
        return
    if given.table is None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with given.out.open("a", encoding="utf-8") as out:
            for seed in range(given.first, given.first + given.runs):
                for (what, world), measure in worlds(seed, Traffic(given.per_day, given.days)).items():
                    if given.only in what:
                        line = {"what": what, "world": world, "seed": seed, "measures": measure()}
                        print(json.dumps(line), file=out, flush=True)
    lines = (given.table or given.out).read_text(encoding="utf-8").splitlines()
    print(table([json.loads(line) for line in lines]))


if __name__ == "__main__":
    main()
