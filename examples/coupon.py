"""Which coupon to offer to whom, when each of five kinds must go to 15–25 % of the drivers.

The table is a survey: one coupon was shown in each situation. Acceptance of the others is fitted, by ridge regression for
each kind, and the fit is judged on respondents that it has not seen. Prints the fit's quality, what is optimal with and
without the limits, what policies reach, and what the log alone can say about the optimal rule.

    python examples/coupon.py [--data DIR] [--rounds 20000] [--replications 10]
"""

from __future__ import annotations

import argparse
import csv
import gzip
from pathlib import Path

import numpy as np
from scipy.stats import mannwhitneyu

import tightrope as tr
from tightrope.offpolicy import Log, evaluate

LOW, HIGH = 0.15, 0.25
RIDGE = 100.0
KINDS = ("Coffee House", "Restaurant(<20)", "Carry out & Take away", "Bar", "Restaurant(20-50)")
SITUATION = ["destination", "passanger", "weather", "temperature", "time"]
HABITS = ["Bar", "CoffeeHouse", "CarryAway", "RestaurantLessThan20", "Restaurant20To50"]
CONTEXT = [*SITUATION, "gender", "age", "maritalStatus", "has_children", *HABITS]
RESPONDENT = [
    "gender",
    "age",
    "maritalStatus",
    "has_children",
    "education",
    "occupation",
    "income",
    "car",
    *HABITS,
]
FOLDS = 5
DATA = Path(__file__).parents[2] / "shared" / "data"

Frame = dict[str, np.ndarray]


def read(data: Path) -> Frame:
    path = data / "coupon" / "in-vehicle-coupon-recommendation.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    # Missing habits are empty strings: a level of their own.
    frame = {name: np.array(column) for name, column in zip(header, zip(*rows), strict=True)}
    return frame | {"Y": frame["Y"].astype(float)}


def limits() -> tr.Rules:
    return tr.Rules(
        [tr.Capacity(kind, at_most=HIGH) for kind in KINDS]
        + [tr.Share(kind, at_least=LOW) for kind in KINDS],
        actions=KINDS,
    )


def environment(frame: Frame) -> tr.environments.Tabular:
    return tr.environments.from_table(
        frame,
        context=CONTEXT,
        action="coupon",
        reward="Y",
        rules=limits(),
        unit=RESPONDENT,
        ridge=RIDGE,
        name="coupon",
    )


def numbered(frame: Frame, columns: list[str]) -> np.ndarray:
    """A number for each row, the same where the columns hold the same, in the order of first rows."""
    met: dict[tuple[str, ...], int] = {}
    return np.array(
        [met.setdefault(key, len(met)) for key in zip(*(frame[name].tolist() for name in columns))]
    )


def fitted(env: tr.environments.Tabular, context: np.ndarray, frame: Frame, seen: np.ndarray) -> np.ndarray:
    """The environment's fit again, from some of the rows: acceptance by context and kind."""
    x = env.features[context] / env.features[0, 0]
    penalty = RIDGE * np.eye(x.shape[1])
    penalty[0, 0] = 0.0
    slopes = []
    for kind in env.actions:
        rows = seen & (frame["coupon"] == kind)
        slopes.append(np.linalg.solve(x[rows].T @ x[rows] + penalty, x[rows].T @ frame["Y"][rows]))
    means = env.features / env.features[0, 0] @ np.array(slopes).T
    return np.clip(means, 0.0, 1.0)


def quality(
    env: tr.environments.Tabular, context: np.ndarray, frame: Frame, folds: np.ndarray
) -> dict[str, float]:
    y, kind = frame["Y"], np.array([KINDS.index(one) for one in frame["coupon"]])
    predicted, average = np.empty(y.size), np.empty(y.size)
    for fold in range(FOLDS):
        seen, unseen = folds != fold, folds == fold
        predicted[unseen] = fitted(env, context, frame, seen)[context[unseen], kind[unseen]]
        means = np.array([y[seen & (kind == j)].mean() for j in range(len(KINDS))])
        average[unseen] = means[kind[unseen]]
    pairs = (y == 1).sum() * (y == 0).sum()
    return {
        "AUC": float(mannwhitneyu(predicted[y == 1], predicted[y == 0]).statistic / pairs),
        "squared error": float(((y - predicted) ** 2).mean()),
        "squared error of each kind's average": float(((y - average) ** 2).mean()),
        "slope of outcome on prediction": float(np.polyfit(predicted, y, 1)[0]),
    }


def best_for(env: tr.environments.Tabular, rewards: np.ndarray) -> np.ndarray:
    """Probabilities by context of the rule that is optimal for these means."""
    believed = tr.environments.Tabular(env.weights, None, rewards, env.costs, cost_range=env.cost_range)
    return tr.solve(believed).policy


def cross_valued(env: tr.environments.Tabular, context: np.ndarray, frame: Frame, half: np.ndarray) -> float:
    """The rule that is optimal for one half of the respondents, valued by the fit to the other half; the mean of both ways."""
    fits = [fitted(env, context, frame, half == side) for side in (0, 1)]
    return float(np.mean([env.weights @ (best_for(env, a) * b).sum(axis=1) for a, b in (fits, fits[::-1])]))


def log_of(env: tr.environments.Tabular, frame: Frame, by: list[str], rows: np.ndarray) -> Log:
    """The survey as a log, with the shares of the kinds within each cell of `by` for propensities."""
    cell, kind = numbered(frame, by), np.array([KINDS.index(one) for one in frame["coupon"]])
    counts = np.zeros((cell.max() + 1, len(KINDS)))
    np.add.at(counts, (cell, kind), 1)
    shares = counts / counts.sum(axis=1, keepdims=True)
    known = np.broadcast_to(env.costs[0], (int(rows.sum()), *env.costs.shape[1:]))
    return Log(
        frame["coupon"][rows],
        frame["Y"][rows],
        known,
        propensities=shares[cell[rows]],
        contexts=env.features[numbered(frame, CONTEXT)[rows]],
        groups=numbered(frame, RESPONDENT)[rows],
        constraints=limits(),
    )


def policies(env: tr.environments.Tabular) -> dict[str, object]:
    J, p, K = env.n_actions, env.n_features, env.n_constraints

    def papers(bonus: float, **schedule: object) -> tr.PessimisticOptimistic:
        model = tr.DisjointRidge(J, p, bonus=bonus)
        return tr.PessimisticOptimistic(reward=model, constraints=K, slater=tr.solve(env).slater, **schedule)

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

    frame = read(options.data)
    env = environment(frame)
    context, respondent = numbered(frame, CONTEXT), numbered(frame, RESPONDENT)
    print(f"{env}\n{respondent.max() + 1} respondents\n")
    print("| the fit, on respondents not seen | |\n| --- | --- |")
    for name, value in quality(env, context, frame, respondent % FOLDS).items():
        print(f"| {name} | {value:.4f} |")

    best = tr.solve(env)
    means = env.weights @ env.rewards
    fixed = tr.solve(
        tr.environments.Tabular([1.0], None, [means], env.costs[:1], cost_range=env.cost_range)
    ).value
    print("\n| acceptance | |\n| --- | --- |")
    print(f"| as logged | {frame['Y'].mean():.4f} |")
    print(f"| optimum without limits | {env.weights @ env.rewards.max(axis=1):.4f} |")
    print(f"| optimum, each kind 15–25 % | {best.value:.4f} |")
    crossed = cross_valued(env, context, frame, respondent % 2)
    print(f"| the same, chosen by the fit to one half, valued by that to the other | {crossed:.4f} |")
    print(f"| best feasible fixed shares | {fixed:.4f} |")
    print(f"| equal shares | {means.mean():.4f} |")
    shares = env.weights @ best.policy
    print("\n| kind | logged share | accepted, logged | optimal share |\n| --- | --- | --- | --- |")
    for j, kind in enumerate(KINDS):
        rows = frame["coupon"] == kind
        print(f"| {kind} | {rows.mean():.3f} | {frame['Y'][rows].mean():.3f} | {shares[j]:.3f} |")

    print(f"\n{options.rounds:,} rounds, {options.replications} runs:\n")
    print("| policy | acceptance | in the last fifth | regret | violation | last violated round |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, policy in policies(env).items():
        run = tr.simulate(policy, env, options.rounds, options.replications, record=[options.rounds * 4 // 5])
        late = np.diff(run.reward, axis=1)[:, -1].mean() / (options.rounds - run.rounds[0])
        print(
            f"| {name} | {run.average_reward.at()} | {late:.3f} | {run.regret.at()} | "
            f"{run.violation.mean[-1]:.1f} | {run.last_violated().mean:.0f} |",
            flush=True,
        )

    print("\nThe optimal rule of one half of the respondents, judged by the log of the other half alone:\n")
    other = respondent % 2 == 1
    rule = best_for(env, fitted(env, context, frame, ~other))[context[other]]
    try:
        evaluate(log_of(env, frame, SITUATION, other), rule)
    except tr.InvalidInput as refusal:
        print(f"Propensities by situation: refused. {refusal}\n")
    for by in (["destination", "time"], ["destination"]):
        print(f"Propensities by {' and '.join(by)}:\n{evaluate(log_of(env, frame, by, other), rule)}\n")


if __name__ == "__main__":
    main()
