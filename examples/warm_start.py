"""A policy that has read the log before it goes live, against one that has not.

The world is the calibrated hospital, second reward. A log of patients sent to wards at random teaches the reward model; the
queue starts at zero all the same, since the log's costs were another policy's. Prints what a second log says about the best
rule by that model, then regret and violation of both policies.

    python examples/warm_start.py [--logged 20000] [--rounds 20000] [--replications 20]
"""

from __future__ import annotations

import argparse

import numpy as np

import tightrope as tr
from tightrope.offpolicy import Log, evaluate


def draw_log(env: tr.environments.Tabular, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contexts, wards drawn evenly, outcomes."""
    rng = np.random.default_rng(seed)
    context = rng.choice(env.n_contexts, n, p=env.weights)
    ward = rng.integers(0, env.n_actions, n)
    return context, ward, (rng.random(n) < env.rewards[context, ward]).astype(float)


def new_policy(env: tr.environments.Tabular) -> tr.PessimisticOptimistic:
    return tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(env.n_actions, env.n_features, bonus=0.1),
        constraints=env.n_constraints,
        V=tr.Power(4.0, 0.5),
        epsilon=tr.Power(1.0, -0.5),
    )


def best_rule(env: tr.environments.Tabular, policy: tr.PessimisticOptimistic) -> np.ndarray:
    """The optimal shares by context if what the policy's model has learnt were the truth."""
    means = np.clip([policy.reward_model.means(x) for x in env.features], 0.0, 1.0)
    return tr.solve(
        tr.environments.Tabular(env.weights, None, means, env.costs, cost_range=env.cost_range)
    ).policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logged", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--replications", type=int, default=20)
    options = parser.parse_args()

    env = tr.environments.hospital("any")
    cold, warm = new_policy(env), new_policy(env)
    context, ward, outcome = draw_log(env, options.logged, seed=1)
    warm.warm_start(env.features[context], ward, outcome)
    print(
        f"{warm.reward_model.n_learnt:,} outcomes learnt; round {warm.rounds}, queue {warm.queue.max():g}\n"
    )

    rule = best_rule(env, warm)
    truth = float(env.weights @ (rule * env.rewards).sum(axis=1))
    print(f"The best rule by that model, judged on a second log (its true value is {truth:.4f}):\n")
    context, ward, outcome = draw_log(env, options.logged, seed=2)
    log = Log(
        ward,
        outcome,
        propensities=np.full((options.logged, env.n_actions), 1 / env.n_actions),
        contexts=context,
        action_names=env.actions,
    )
    print("| method | estimate | 95 % interval | rows it is worth |\n| --- | --- | --- | --- |")
    for method in ("replay", "ips", "snips", "dr"):
        found = evaluate(log, rule[context], method)
        reward = found.reward
        interval = f"{reward.low:.4f} to {reward.high:.4f}"
        print(f"| {method} | {reward.value:.4f} | {interval} | {found.weights.effective:,.0f} |")

    print(f"\n{options.rounds:,} rounds, {options.replications} runs, optimum {tr.solve(env).value:.4f}:\n")
    early = options.rounds // 20
    print(f"| start | regret at {early:,} | regret at {options.rounds:,} | violation | last violated round |")
    print("| --- | --- | --- | --- | --- |")
    for name, policy in (("cold", cold), ("warm", warm), ("round robin", tr.RoundRobin(env.n_actions))):
        run = tr.simulate(policy, env, options.rounds, options.replications, record=[early])
        limits = f"{run.violation.mean[-1]:.1f} | {run.last_violated().mean:.0f}"
        print(f"| {name} | {run.regret.at(early)} | {run.regret.at()} | {limits} |", flush=True)


if __name__ == "__main__":
    main()
