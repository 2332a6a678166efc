"""A policy that has read the log before it goes live, against one that has not.

The world is the calibrated hospital, second reward. A log of patients sent to wards at random teaches the reward model; the
totals start at zero all the same, since the log's costs were another policy's. Prints what a second log says about the best
rule by that model and about the policy itself, which balances the rules over time; then regret and violation, warm and cold.

    python examples/warm_start.py [--logged 20000] [--judged 2000] [--rounds 20000] [--replications 20]
"""

from __future__ import annotations

import argparse

import numpy as np

import tightrope as tr
from tightrope.offpolicy import Log, evaluate, evaluate_live


def draw_log(env: tr.environments.Tabular, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contexts, wards drawn evenly, outcomes."""
    rng = np.random.default_rng(seed)
    context = rng.choice(env.n_contexts, n, p=env.weights)
    ward = rng.integers(0, env.n_actions, n)
    return context, ward, (rng.random(n) < env.rewards[context, ward]).astype(float)


def as_log(env: tr.environments.Tabular, context: np.ndarray, ward: np.ndarray, outcome: np.ndarray) -> Log:
    """With features for contexts, and the costs of every ward, which are known before acting."""
    return Log(
        ward,
        outcome,
        env.costs[context],
        propensities=np.full((context.size, env.n_actions), 1 / env.n_actions),
        contexts=env.features[context],
        action_names=env.actions,
        constraints=env.constraints,
    )


def new_policy(env: tr.environments.Tabular) -> tr.ShadowPrice:
    return tr.ShadowPrice(
        reward=tr.DisjointRidge(env.n_actions, env.n_features), constraints=env.n_constraints
    )


def hand_set_papers_policy(env: tr.environments.Tabular) -> tr.PessimisticOptimistic:
    """The paper's policy with schedules that someone had to choose."""
    return tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(env.n_actions, env.n_features, bonus=0.1),
        constraints=env.n_constraints,
        V=tr.Power(4.0, 0.5),
        epsilon=tr.Power(1.0, -0.5),
    )


def warm_up(
    policy: tr.ShadowPrice,
    env: tr.environments.Tabular,
    context: np.ndarray,
    ward: np.ndarray,
    outcome: np.ndarray,
) -> None:
    """The outcomes teach the model; what was on offer gives prices from the first decision on."""
    # It remembers 2,048 rounds, unless you set `memory`.
    offers = [{"features": env.features[c], "costs": env.costs[c]} for c in context[:2048].tolist()]
    policy.warm_start(env.features[context], ward, outcome, offers=offers)


def best_rule(env: tr.environments.Tabular, policy: tr.ShadowPrice) -> np.ndarray:
    """The optimal shares by context if what the policy's model has learnt were the truth."""
    means = np.clip([policy.hooks.reward_model().means(x) for x in env.features], 0.0, 1.0)
    return tr.solve(
        tr.environments.Tabular(env.weights, None, means, env.costs, cost_range=env.cost_range)
    ).policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logged", type=int, default=20_000)
    parser.add_argument("--judged", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--replications", type=int, default=20)
    options = parser.parse_args()

    env = tr.environments.hospital("any")
    cold, warm = new_policy(env), new_policy(env)
    warm_up(warm, env, *draw_log(env, options.logged, seed=1))
    print(f"{options.logged:,} outcomes learnt; round {warm.rounds}, totals {np.abs(warm.totals).max():g}\n")

    rule = best_rule(env, warm)
    truth = float(env.weights @ (rule * env.rewards).sum(axis=1))
    print(f"The best rule by that model, judged on a second log (its true value is {truth:.4f}):\n")
    drawn = draw_log(env, options.logged, seed=2)
    log = as_log(env, *drawn)
    print("| method | estimate | 95 % interval | rows it is worth |\n| --- | --- | --- | --- |")
    for method in ("replay", "ips", "snips", "dr"):
        found = evaluate(log, rule[drawn[0]], method)
        reward = found.reward
        interval = f"{reward.low:.4f} to {reward.high:.4f}"
        print(f"| {method} | {reward.value:.4f} | {interval} | {found.weights.effective:,.0f} |")

    rows = as_log(env, *(part[: options.judged] for part in drawn))
    found = evaluate_live(rows, warm)
    run = tr.simulate(warm, env, options.judged, options.replications)
    costs = run.cost[:, -1].mean(axis=0) / options.judged
    worst = int(np.argmax([one.value for one in found.constraints]))
    print(
        f"\nThe policy itself, over its next {options.judged:,} rounds, judged on so many rows of that log:\n"
    )
    print("| | estimate | 95 % interval | simulated |\n| --- | --- | --- | --- |")
    for name, one, simulated in (
        ("reward", found.reward, run.average_reward.mean[-1]),
        (f"{found.constraints[worst].name}, the highest cost", found.constraints[worst], costs[worst]),
    ):
        print(f"| {name} | {one.value:.4f} | {one.low:.4f} to {one.high:.4f} | {simulated:.4f} |")

    print(f"\n{options.rounds:,} rounds, {options.replications} runs, optimum {tr.solve(env).value:.4f}:\n")
    early = options.rounds // 20
    print(f"| start | regret at {early:,} | regret at {options.rounds:,} | violation | last violated round |")
    print("| --- | --- | --- | --- | --- |")
    papers, (context, ward, outcome) = hand_set_papers_policy(env), draw_log(env, options.logged, seed=1)
    papers.warm_start(env.features[context], ward, outcome)
    starts = {
        "cold": cold,
        "warm": warm,
        "warm, the paper's policy, set by hand": papers,
        "round robin": tr.policies.RoundRobin(env.n_actions),
    }
    for name, policy in starts.items():
        run = tr.simulate(policy, env, options.rounds, options.replications, record=[early])
        limits = f"{run.violation.mean[-1]:.1f} | {run.last_violated().mean:.0f}"
        print(f"| {name} | {run.regret.at(early)} | {run.regret.at()} | {limits} |", flush=True)


if __name__ == "__main__":
    main()
