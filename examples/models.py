"""Which model behind the prices? Linear, random features, boosted trees, forests and networks on two tables with rules.

Satimage with no class named in more than a fifth of the rounds, handwritten digits with five rules, and a made-up world with noisy
rewards and two rules. Rows are drawn with replacement, and beside it each row comes once. All models have their defaults. What is
finished stands in OUT/runs.jsonl and is not run again, so that the command can be stopped and go on later.

    python examples/models.py [--data DIR] [--out out/models] [--runs 2] [--rounds 50000] [--workers 2] [--world …] [--model …]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import tightrope as tr
from tightrope_lab.evidence.tables import TABLES

DATA = Path(__file__).parents[2] / "shared" / "data"
WORLDS = ("satimage", "digits", "noisy")
MODELS: dict[str, Callable[[int, int], tr.models.Model]] = {
    "linear": lambda J, p: tr.Standardised(J, p),
    "random features": lambda J, p: tr.Features("fourier", tr.Standardised(J, p)),
    "boosted-trees": lambda J, p: tr.Ensemble("boosted-trees", J, p),
    "small-boosted-trees": lambda J, p: tr.Ensemble("small-boosted-trees", J, p),
    "extra-trees": lambda J, p: tr.Ensemble("extra-trees", J, p),
    "forest": lambda J, p: tr.Ensemble("forest", J, p),
    "boosting": lambda J, p: tr.Ensemble("boosting", J, p),
    "random-forest": lambda J, p: tr.Ensemble("random-forest", J, p),
    "mlp": lambda J, p: tr.Ensemble("mlp", J, p),
    "auto": lambda J, p: tr.Auto(J, p),
}
MARKS = (2_000, 10_000, 50_000)
# A total above zero in the first rounds is what it costs to learn.
SETTLED = 500


def environment(world: str, data: Path) -> tr.environments.Tabular:
    """The world of that name."""
    return noisy() if world == "noisy" else TABLES[world](data).env


def noisy(contexts: int = 6_000) -> tr.environments.Tabular:
    """Four actions that pay off half of the time and a little more where their own features say so; two have a cap of 30 %."""
    x = np.random.default_rng(0).normal(size=(contexts, 6))
    waves = [
        0.25 * np.sign(x[:, 0] * x[:, 1]),
        0.25 * np.sin(2.0 * x[:, 2]),
        0.2 * np.tanh(x[:, 3]),
        0.0 * x[:, 4],
    ]
    costs = np.full((4, 2), -0.3)
    costs[[0, 1], [0, 1]] = 0.7
    weights = np.full(contexts, 1.0 / contexts)
    return tr.environments.Tabular(
        weights, x, 0.5 + np.stack(waves, axis=1), np.tile(costs, (contexts, 1, 1))
    )


def run(world: str, name: str, seed: int, rounds: int | None, data: Path, labels: bool) -> dict[str, Any]:
    """One run: `rounds` rows drawn with replacement, or each row once for None."""
    env = environment(world, data)
    J, p, K = env.n_actions, env.n_features, env.n_constraints
    draw = np.random.default_rng([seed, 16])
    rows = draw.permutation(env.n_contexts) if rounds is None else draw.integers(env.n_contexts, size=rounds)
    policy = tr.ShadowPrice(reward=MODELS[name](J, p), constraints=K, seed=seed)
    policy.hooks.report_to(lambda concern: None)
    right, highest, seconds = (np.zeros(len(rows)) for _ in range(3))
    totals, began = np.zeros(K), time.process_time()
    for t, c in enumerate(rows):
        start = time.perf_counter()
        decision = policy.decide(env.features[c], env.costs[c])
        seconds[t] = time.perf_counter() - start
        right[t] = env.rewards[c, decision.action]
        policy.learn(decision, float(draw.random() < right[t]))
        totals += env.costs[c, decision.action]
        highest[t] = totals.max()
    above = np.flatnonzero(highest > 1e-9)
    marks = [t for t in MARKS if t <= len(rows)] if rounds is not None else [len(rows)]
    return {
        "world": world,
        "model": name,
        "seed": seed,
        "rounds": rounds,
        "accuracy": {str(t): [right[:t].mean(), right[t * 4 // 5 : t].mean()] for t in marks},
        "last_above": int(above[-1] + 1) if len(above) else 0,
        "decision_ms": [float(1e3 * np.quantile(seconds[len(rows) // 2 :], q)) for q in (0.5, 0.99)],
        "cpu_seconds": time.process_time() - began,
        "all_labels": all_labels(env, MODELS[name](J, p), rows) if labels else None,
    }


def all_labels(env: tr.environments.Tabular, model: tr.models.Model, rows: Any) -> float:
    """The accuracy in the last fifth of the same learner that was shown every label before, by the best shares for its scores."""
    seen, late = np.split(rows, [len(rows) * 4 // 5])
    if isinstance(model, tr.Ensemble):
        settings = {**model.settings(), "keep": len(seen) * env.n_actions, "refit": "now"}
        model = tr.models.model_from_settings(settings)
    for c in seen:
        for a in range(env.n_actions):
            model.learn(env.features[c], float(env.rewards[c, a]), a)
    actions = np.tile(np.arange(env.n_actions), len(late))
    scores = np.asarray(model.means(np.repeat(env.features[late], env.n_actions, axis=0), actions))
    believed = tr.environments.Tabular(
        np.full(len(late), 1.0 / len(late)),
        rewards=np.clip(scores.reshape(len(late), -1), 0.0, 1.0),
        costs=env.costs[late],
        cost_range=env.cost_range,
    )
    return float((tr.solve(believed).policy * env.rewards[late]).sum(axis=1).mean())


def table(found: list[dict[str, Any]], world: str) -> Iterable[str]:
    """The table of a world, a row for each model, means over runs."""
    mine = [one for one in found if one["world"] == world]
    lengths = sorted({int(t) for one in mine if one["rounds"] is not None for t in one["accuracy"]})
    heads = [f"{t:,}" for t in lengths] + ["all labels", "each row once", "all labels"]
    yield f"| {world} | " + " | ".join(heads) + " | above zero after 500 | decision ms (median, 99 %) |"
    yield "| --- |" + " --- |" * (len(heads) + 2)
    for name in MODELS:
        many = [one for one in mine if one["model"] == name and one["rounds"] is not None]
        once = [one for one in mine if one["model"] == name and one["rounds"] is None]
        if not many and not once:
            continue
        cells = [_accuracy([one["accuracy"].get(str(t)) for one in many]) for t in lengths]
        cells += [
            _labels(many),
            _accuracy([next(iter(one["accuracy"].values())) for one in once]),
            _labels(once),
        ]
        both = many + once
        late = sum(one["last_above"] > SETTLED for one in both)
        median, high = np.mean([one["decision_ms"] for one in both], axis=0)
        yield f"| {name} | {' | '.join(cells)} | {late} of {len(both)} | {median:.2f}, {high:.2f} |"


def _accuracy(pairs: list[Any]) -> str:
    kept = [pair for pair in pairs if pair is not None]
    return "{:.3f} / {:.3f}".format(*np.mean(kept, axis=0)) if kept else "–"


def _labels(found: list[dict[str, Any]]) -> str:
    known = [one["all_labels"] for one in found if one["all_labels"] is not None]
    return f"{np.mean(known):.3f}" if known else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=Path("out/models"))
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument(
        "--rounds", type=int, default=50_000, help="drawn with replacement; 0: only each row once"
    )
    parser.add_argument(
        "--once", action=argparse.BooleanOptionalAction, default=True, help="each row once, too"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--labels", type=int, default=2, help="how many of the runs are compared with all labels"
    )
    parser.add_argument("--world", action="append", choices=WORLDS)
    parser.add_argument("--model", action="append", choices=list(MODELS))
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "runs.jsonl"
    found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(one["world"], one["model"], one["seed"], one["rounds"]) for one in found}
    lengths = [*([None] if options.once else []), *([options.rounds] if options.rounds else [])]
    tasks = [
        (world, name, seed, rounds)
        for rounds in lengths
        for seed in range(options.runs)
        for world in options.world or WORLDS
        for name in options.model or MODELS
        if (world, name, seed, rounds) not in done
    ]
    jobs = (joblib.delayed(run)(*task, options.data, task[2] < options.labels) for task in tasks)
    with file.open("a", encoding="utf-8") as kept:
        for one in joblib.Parallel(options.workers, return_as="generator_unordered")(jobs):
            kept.write(json.dumps(one) + "\n")
            kept.flush()
            found.append(one)
            print(f"{len(found)}: {one['world']}, {one['model']}, run {one['seed']}", flush=True)
    for world in options.world or WORLDS:
        print("\n" + "\n".join(table(found, world)))


if __name__ == "__main__":
    main()
