# %% [markdown]
# # Ward routing
#
# A hospital sends every patient to one of six wards. It wants patients to stay well, and has eighteen rules: no ward is
# overfilled, none stands empty, and no ward's nurses are overrun. Which patient does best where must be learnt, on patients; rules must hold while that is learnt.
#
# The environment is calibrated on 99,340 real hospital encounters ([how](../hospital.md)). It is semi-synthetic: nothing here says which ward is better for whom in reality.

# %%
import tightrope as tr

env = tr.environments.hospital()
env

# %%
print(tr.environments.hospital_rules())

# %% [markdown]
# ## The best that is possible
#
# Someone who knew how every kind of patient fares in every ward could solve a linear program. Its value is the yardstick; its **prices** are those of the rules: what
# one more unit of a limit would earn. Only rules that bind have one.

# %%
import pandas as pd

best = tr.solve(env)
print(f"{best.value:.4f} patients stay well per patient; certificate: gap {best.certificate.gap:.1e}")
rules = pd.DataFrame(
    {"rule": env.constraints, "left": best.left, "price": best.prices, "binds": best.binding}
)
rules[rules.binds].round(4)

# %% [markdown]
# ## Learn it
#
# Three policies on the same 10,000 patients, twenty times over. `ShadowPrice` has nothing set. `LinUCB` is the textbook's bandit, which knows no rules. Round robin keeps the rules
# by construction and learns nothing.

# %%
wards = tr.DisjointRidge(env.n_actions, env.n_features)
policies = {
    "ShadowPrice": tr.ShadowPrice(reward=wards, constraints=18),
    "LinUCB, no rules": tr.policies.LinUCB(
        reward=tr.DisjointRidge(env.n_actions, env.n_features, m=4, bonus=0.1)
    ),
    "round robin": tr.policies.RoundRobin(env.n_actions),
}
runs = {
    name: tr.simulate(policy, env, rounds=10_000, replications=20, seed=0, warn=False)
    for name, policy in policies.items()
}
pd.DataFrame(
    {
        name: {
            "regret": run.regret.mean[-1],
            "violation at the end": run.violation.mean[-1],
            "last round with a rule broken": run.last_violated().mean,
            "largest share of a ward": run.shares.mean[-1].max(),
        }
        for name, run in runs.items()
    }
).T.round(2)

# %% [markdown]
# **Regret** is what was lost against someone who knew everything, in patients. **Violation** is by how much the totals of all rules together were above their limits.

# %% alt="Regret by round, and the share of patients in the fullest ward by round. ShadowPrice has little regret and stays below 20 per cent; LinUCB has less regret and overfills a ward."
import matplotlib.pyplot as plt

figure, (regret, fullest) = plt.subplots(1, 2)
for (name, run), style in zip(runs.items(), ("-", "--", ":")):
    regret.plot(run.rounds, run.regret.mean, style, label=name)
    fullest.plot(run.rounds[20:], run.shares.mean[20:].max(axis=1), style, label=name)
fullest.axhline(0.2, color="black", linewidth=1)
fullest.text(10_000, 0.2, "limit ", ha="right", va="bottom")
regret.set(title="regret so far", xlabel="patients")
fullest.set(title="share of the fullest ward", xlabel="patients", ylim=(0, None))
regret.legend()
plt.show()

# %% [markdown]
# A bandit without rules loses less, or even wins against the yardstick, because the yardstick keeps the rules and it does not.
#
# ## One patient
#
# The same policy, one decision at a time, as a program would use it. `usage` and `group` are not needed here: the environment tells the costs of each ward directly.

# %%
import numpy as np

policy = policies["ShadowPrice"].copy()
rng = np.random.default_rng(5)
for kind in rng.choice(env.n_contexts, size=3000, p=env.weights):
    decision = policy.decide(env.features[kind], env.costs[kind])
    policy.learn(decision, float(rng.random() < env.rewards[kind, decision.action]))
totals = pd.Series(policy.totals, index=env.constraints)
print(
    f"{(totals <= 0).sum()} of 18 rules hold after 3,000 patients; the closest: {totals.idxmax()}, {totals.max():+.1f}"
)

# %%
shown = decision.explain()
pd.DataFrame(
    {
        "ward": env.actions or range(6),
        "expected": shown.rewards,
        "value": shown.values,
        "probability": shown.probabilities,
    }
).round(3)

# %% [markdown]
# *Value* is the expected reward less what the prices take for the rules that the ward uses up. The choice is drawn at random around it, more widely the less is known
# ([exploration](../concepts/exploration.md)), and its [probability](../concepts/probabilities.md) is exact.
#
# - Put it behind HTTP: `tightrope serve examples/hospital.toml --data data`, and `python examples/serve_hospital.py --patients 2000` brings patients.
# - [What holds when](../concepts/what-holds-when.md): `guard=True` keeps every total at or below zero in every round wherever a ward allows it.
# - [The league](../league.md) has 26 entries on this and 21 other problems.
