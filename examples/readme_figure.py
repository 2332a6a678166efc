"""README's first picture: what coupons earn and cost, by a policy that keeps two rules and by a bandit that knows none.

python examples/readme_figure.py [--out docs/figures/coupons.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

import tightrope as tr

CENTS = {"none": 0, "delivery": 200, "five": 500, "ten": 1000}
LIMIT, RANGE = 250, 1000


def world() -> Any:
    """A shop's table of 600 customers, with at most 250 cents per customer, and no coupon for one in ten."""
    table = pd.read_csv(Path(__file__).with_name("coupons.csv"))
    limits = [tr.Budget("cents", at_most=LIMIT, range=(0, RANGE)), tr.Share("none", at_least=0.1)]
    columns = {
        "context": ["age", "visits", "member"],
        "action": "coupon",
        "reward": "bought",
        "usage": {"cents": CENTS},
    }
    return tr.environments.from_table(table, **columns, rules=tr.Rules(limits, actions=list(CENTS)))


def runs(env: Any, rounds: int = 5_000, replications: int = 20) -> dict[str, Any]:
    """The default policy, and the bandit of the textbook, on the same draws."""
    size = (env.n_actions, env.n_features)
    policies = {
        "ShadowPrice": tr.ShadowPrice(env.rules),
        "LinUCB, a plain bandit": tr.policies.LinUCB(tr.DisjointRidge(*size, m=4.0, bonus=0.1)),
    }
    return {
        name: tr.simulate(policy, env, rounds, replications, seed=1, warn=False)
        for name, policy in policies.items()
    }


def spent(run: Any) -> Any:
    """Cents per customer so far, by the round."""
    return LIMIT + RANGE * run.mean_cost_curve.mean[:, 0] / run.rounds


def main() -> None:
    """Draw it, and say what it shows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/figures/coupons.png"))
    out = parser.parse_args().out
    env = world()
    best = tr.solve(env).value
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    for (name, run), style in zip(runs(env).items(), ("-", "--"), strict=True):
        left.plot(run.rounds, run.average_reward.mean, style, label=name)
        right.plot(run.rounds, spent(run), style, label=name)
        print(
            f"{name}: {run.average_reward.mean[-1]:.3f} of the customers bought, {spent(run)[-1]:.0f} cents per customer"
        )
    print(f"the best with both rules: {best:.3f}")
    left.axhline(best, color="black", linewidth=1, label="best with both rules")
    right.axhline(LIMIT, color="black", linewidth=1, label="limit")
    left.set(title="share of customers that bought, so far", xlabel="customers", ylim=(0.4, None))
    right.set(title="cents per customer, so far", xlabel="customers", ylim=(0, None))
    for axes in (left, right):
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    main()
