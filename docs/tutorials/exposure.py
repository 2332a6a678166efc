# %% [markdown]
# # A fair share of exposure
#
# A marketplace shows one seller at the top of each page. It wants visitors to buy; its contract with the sellers says that each of the five is shown at least 10 % of the time,
# and that in the north, where two small sellers are at home, these two together get at least 40 %. Rules like these are promises to people: they must hold this week, not on average over
# the year, and it is worth knowing what each of them costs.

# %%
import numpy as np
import pandas as pd
import tightrope as tr

sellers = ["anna", "bert", "cleo", "dina", "emil"]
rng = np.random.default_rng(4)
n = 400
visitors = pd.DataFrame(
    {
        "region": rng.choice(["north", "south"], n, p=[0.35, 0.65]),
        "returning": rng.random(n) < 0.4,
        "minutes": rng.gamma(2.0, 3.0, n).round(1),
    }
)
# How likely a visitor buys from each seller: anna is everybody's favourite, dina and emil are small and from the north.
for seller, base in zip(sellers, (0.45, 0.35, 0.3, 0.16, 0.12)):
    local = 0.18 * ((visitors.region == "north") & (seller in ("dina", "emil")))
    visitors[seller] = (
        base + local + 0.01 * visitors.minutes + 0.05 * visitors.returning * (seller == "bert")
    ).clip(0, 0.95)
visitors.head().round(2)

# %% [markdown]
# ## Promises as rules
#
# `Share` is a minimum, of one action or of a group of them; `among` restricts a rule to a group of visitors.

# %%
rules = tr.Rules(
    [tr.Share(seller, at_least=0.1) for seller in sellers]
    + [tr.Share(("dina", "emil"), at_least=0.4, among="north")],
    actions=sellers,
)
print(rules)

# %% [markdown]
# Promises that contradict each other are refused, with the ones that do and the smallest change that would help:

# %%
try:
    tr.Rules([tr.Share("anna", at_least=0.7), tr.Share(("dina", "emil"), at_least=0.4)], actions=sellers)
except tr.InfeasibleProblem as error:
    print(error)

# %% [markdown]
# ## What a promise costs
#
# Here every visitor's chances are known, so the table is a world that is exact. The oracle tells what the best shop window earns with the rules and without, and the
# price of each rule.


# %%
def world(rules):
    return tr.environments.from_table(
        visitors,
        context=["region", "returning", "minutes"],
        reward={s: s for s in sellers},
        rules=rules,
        group="region",
        name="window",
    )


env = world(rules)
best = tr.solve(env)
print(
    f"purchases per visitor: {visitors[sellers].max(axis=1).mean():.4f} without rules, {best.value:.4f} with them"
)
pd.Series(best.prices / 100, index=env.constraints, name="one more point of share costs").round(4).to_frame()

# %% alt="What the best window earns by the share that is promised to each seller: the line falls, ever more steeply."
import matplotlib.pyplot as plt

promised = np.linspace(0, 0.2, 11)
earned = [
    tr.solve(world(tr.Rules([tr.Share(s, at_least=p) for s in sellers], actions=sellers))).value
    for p in promised
]
figure, axes = plt.subplots(figsize=(6, 3))
axes.plot(100 * promised, earned, marker="o")
axes.set(
    xlabel="share promised to each seller (%)",
    ylabel="purchases per visitor",
    title="what fairness costs, at best",
)
plt.show()

# %% [markdown]
# ## Learn it with the promises kept
#
# What visitors like is not known in reality. `ShadowPrice` learns it; `guard=True` adds the certainty that no total rises above zero in any round in which some seller avoids it.

# %%
size = (env.n_actions, env.n_features)
runs = {
    "ShadowPrice": tr.simulate(
        tr.ShadowPrice(reward=tr.DisjointRidge(*size), constraints=rules), env, 4000, 20, seed=2
    ),
    "with guard": tr.simulate(
        tr.ShadowPrice(reward=tr.DisjointRidge(*size), constraints=rules, guard=True), env, 4000, 20, seed=2
    ),
    "no rules": tr.simulate(
        tr.policies.LinUCB(reward=tr.DisjointRidge(*size, m=4, bonus=0.1)), env, 4000, 20, seed=2, warn=False
    ),
}
pd.DataFrame(
    {
        name: {
            "purchases per visitor": run.average_reward.at().mean,
            "worst rule's total": run.mean_cost_curve.mean[-1].max(),
            **{f"share {s}": run.shares.mean[-1, j] for j, s in enumerate(sellers)},
        }
        for name, run in runs.items()
    }
).round(3)

# %% alt="Exposure of the five sellers so far, by visitor, with the rules and without them: without rules two sellers are hardly shown."
figure, panels = plt.subplots(1, 2, sharey=True)
for axes, name in zip(panels, ("ShadowPrice", "no rules")):
    for j, (seller, style) in enumerate(zip(sellers, ("-", "--", "-.", ":", (0, (1, 1))))):
        axes.plot(runs[name].rounds[10:], runs[name].shares.mean[10:, j], linestyle=style, label=seller)
    axes.axhline(0.1, color="black", linewidth=1)
    axes.set(title=name, xlabel="visitors")
panels[0].set_ylabel("share of exposure so far")
panels[1].legend()
plt.show()

# %% [markdown]
# A total is what was promised less what was given, added up over all visitors: at or below zero the promise is kept. The small cost of learning comes on top of what fairness costs at best.
#
# - [Rules](../rules.md): groups, several limits on one action, averages of anything that is counted.
# - [Prices](../concepts/prices.md): what the numbers above mean, and how a policy uses them.
# - [Change a rule while it runs](../howto/change-a-rule.md): when the contract changes.
