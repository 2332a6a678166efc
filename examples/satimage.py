"""Soil classes from a satellite image, with no class named in more than a fifth of the rounds.

Every label is known, so the environment is exact: reward 1 for the right class, nothing fitted. Prints what is optimal with
and without the caps, what a linear rule fitted to all labels gets, and what policies reach that see one reward a round.

    python examples/satimage.py [--data DIR] [--rounds 20000] [--replications 10]
"""

from __future__ import annotations

import argparse
import csv
import gzip
from pathlib import Path

import numpy as np

import tightrope as tr

CAP = 0.2
BANDS = [f"x{i}" for i in range(1, 37)]
DATA = Path(__file__).parents[2] / "shared" / "data"


def read(data: Path) -> dict[str, np.ndarray]:
    with gzip.open(data / "satimage" / "satimage.csv.gz", "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    frame = {name: np.array(column) for name, column in zip(header, zip(*rows), strict=True)}
    return frame | {name: frame[name].astype(float) for name in BANDS}


def environment(frame: dict[str, np.ndarray], cap: float = CAP) -> tr.environments.Tabular:
    classes = np.unique(frame["label"]).tolist()
    rules = tr.Rules([tr.Capacity(one, at_most=cap) for one in classes], actions=classes)
    return tr.environments.from_table(frame, context=BANDS, label="label", rules=rules, name="satimage")


def without_rules(env: tr.environments.Tabular) -> tr.environments.Tabular:
    return tr.environments.Tabular(
        env.weights, env.features, env.rewards, actions=env.actions, name="satimage, free"
    )


def linear_accuracy(env: tr.environments.Tabular) -> float:
    """Accuracy of the best shares for least-squares scores, fitted to every label: what a linear model could know."""
    scores = env.features @ np.linalg.lstsq(env.features, env.rewards)[0]
    believed = tr.environments.Tabular(
        env.weights, env.features, np.clip(scores, 0, 1), env.costs, cost_range=env.cost_range
    )
    return float(env.weights @ (tr.solve(believed).policy * env.rewards).sum(axis=1))


def policies(env: tr.environments.Tabular) -> dict[str, object]:
    J, p, K = env.n_actions, env.n_features, env.n_constraints
    slater = tr.solve(env).slater

    def papers(bonus: float, **schedule: object) -> tr.PessimisticOptimistic:
        return tr.PessimisticOptimistic(
            reward=tr.DisjointRidge(J, p, bonus=bonus), constraints=K, slater=slater, **schedule
        )

    return {
        "shadow-price": tr.ShadowPrice(reward=tr.DisjointRidge(J, p), constraints=K),
        "the paper's policy, its constants": papers(1.0),
        "the paper's policy, set by hand": papers(0.1, V=tr.Power(1.0, 0.5), epsilon=tr.Power(1.0, -0.5)),
        "round robin": tr.policies.RoundRobin(J),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--replications", type=int, default=10)
    options = parser.parse_args()

    env = environment(read(options.data))
    free = without_rules(env)
    best = tr.solve(env)
    print(f"{env}\n")
    print("| known in full | accuracy without caps | accuracy with caps |\n| --- | --- | --- |")
    print(f"| optimum (LP) | {tr.solve(free).value:.4f} | {best.value:.4f} |")
    print(f"| linear scores | {linear_accuracy(free):.4f} | {linear_accuracy(env):.4f} |")
    print(f"\nSlater's constant {best.slater:.4f}; the caps bind for class {', '.join(bound(best))}.\n")

    print(f"{options.rounds:,} rounds, {options.replications} runs:\n")
    print("| policy | accuracy | in the last fifth | largest share | violation | last violated round |")
    print("| --- | --- | --- | --- | --- | --- |")
    unruled = tr.ShadowPrice(reward=tr.DisjointRidge(env.n_actions, env.n_features))
    for name, policy, world in [
        ("shadow-price, no caps", unruled, free),
        *((name, policy, env) for name, policy in policies(env).items()),
    ]:
        run = tr.simulate(
            policy, world, options.rounds, options.replications, record=[options.rounds * 4 // 5]
        )
        late = np.diff(run.reward, axis=1)[:, -1].mean() / (options.rounds - run.rounds[0])
        share = run.shares.mean[-1].max()
        limits = "– | –"
        if world is env:
            limits = f"{run.violation.mean[-1]:.1f} | {run.last_violated().mean:.0f}"
        print(f"| {name} | {run.average_reward.at()} | {late:.3f} | {share:.3f} | {limits} |", flush=True)


def bound(best: tr.oracle.Solution) -> list[str]:
    return [name.removeprefix("capacity ") for name, tight in zip(best.constraints, best.binding) if tight]


if __name__ == "__main__":
    main()
