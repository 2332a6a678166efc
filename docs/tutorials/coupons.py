# %% [markdown]
# # A table of coupons
#
# A shop has sent coupons to 600 customers by a coin, and knows who bought. From now on it wants to send each customer the coupon that
# works best for *them*, and has two rules: on average no more than 2.50 per customer, and one customer in ten gets nothing, so that the shop
# goes on seeing what happens without a coupon.
#
# This page goes from that table to a service that decides, learns and keeps both rules. The table is made up
# ([the script](../../examples/make_coupons.py)); `tightrope examples` copies it, and everything else that is named here.

# %%
import pandas as pd

table = pd.read_csv("examples/coupons.csv")
table.head()

# %% [markdown]
# `cents` is what the coupon costs when it is sent. What was sent, what that cost and how often it worked:

# %%
table.groupby("coupon").agg(
    customers=("bought", "size"), cents=("cents", "mean"), bought=("bought", "mean")
).round(2).sort_values("cents")

# %% [markdown]
# ## From the table to a served policy
#
# Rules are written as they are said. `from_table` makes a world of the table in which policies can be tried, and `to_spec` writes the
# file that `tightrope serve` takes. This is all of it:

# %% tags=["from-table-to-service"]
import pandas as pd
import tightrope as tr

table = pd.read_csv("examples/coupons.csv")
cents = {"none": 0, "delivery": 200, "five": 500, "ten": 1000}
limits = [tr.Budget("cents", at_most=250, range=(0, 1000)), tr.Share("none", at_least=0.1)]
rules = tr.Rules(limits, actions=list(cents))
known = ["age", "visits", "member"]
columns = {"context": known, "action": "coupon", "reward": "bought", "usage": {"cents": cents}}
env = tr.environments.from_table(table, **columns, rules=rules, name="coupons")
env.to_spec("coupons.toml")

# %% [markdown]
# That spec is [served](#serve-it) below as it stands. First a look at what it will do.
#
# ## What is the best that could be done?
#
# Before anything learns: a linear program finds the best shares for every kind of customer that keep both rules, on what the table says.

# %%
best = tr.solve(env)
best

# %% [markdown]
# The **price** of a rule is what one more unit of its limit would earn: here, one more cent per customer. Doubling the budget would earn at most 250 times as much. It is worth
# knowing before arguing about the budget. All of it is about the world as the table tells it, and not about next month's customers.

# %%
print(f"as the table was made: {table.bought.mean():.3f}")
print(f"the best with both rules: {best.value:.3f}")
print(f"one more cent per customer would earn {best.prices[0]:.5f} purchases")

# %% [markdown]
# ## Try it
#
# 5,000 customers, twenty times over. `ShadowPrice` has nothing to set; beside it a bandit of the textbook, which knows no rules.

# %%
size = (env.n_actions, env.n_features)
ours = tr.simulate(
    tr.ShadowPrice(reward=tr.DisjointRidge(*size), constraints=rules),
    env,
    rounds=5000,
    replications=20,
    seed=1,
)
plain = tr.simulate(
    tr.policies.LinUCB(reward=tr.DisjointRidge(*size, m=4, bonus=0.1)),
    env,
    rounds=5000,
    replications=20,
    seed=1,
)


def in_words(run):
    """Where a run ended, in the shop's own units."""
    cents, without = run.mean_cost_curve.mean[-1] / run.n_rounds
    return {
        "bought": run.average_reward.at().mean,
        "cents per customer": 250 + 1000 * cents,
        "without a coupon": 0.1 - without,
    }


pd.DataFrame({"ShadowPrice": in_words(ours), "LinUCB": in_words(plain)}).T.round(3)

# %% alt="Cents per customer and purchases so far, by the round: ShadowPrice stays at the limit of 250 cents, LinUCB goes far beyond it."
import matplotlib.pyplot as plt

figure, (spent, bought) = plt.subplots(1, 2)
for name, run, style in (("ShadowPrice", ours, "-"), ("LinUCB", plain, "--")):
    spent.plot(run.rounds, 250 + 1000 * run.mean_cost_curve.mean[:, 0] / run.rounds, style, label=name)
    bought.plot(run.rounds, run.average_reward.mean, style, label=name)
spent.axhline(250, color="black", linewidth=1, label="limit")
bought.axhline(best.value, color="black", linewidth=1, label="best with both rules")
spent.set(title="cents per customer so far", xlabel="customers")
bought.set(title="share that bought so far", xlabel="customers")
for axes in (spent, bought):
    axes.legend()
plt.show()

# %% [markdown]
# The plain bandit sells a little more, with money that was not to be spent. How often the total of a rule was above its limit, and when for the last time:

# %%
ours.summary()

# %% [markdown]
# ## Serve it
#
# In a terminal this is `tightrope serve coupons.toml --data data`; here it runs in the background. The program that sends the coupons asks
# with what it knows of a customer, and tells what came of it once it is known, minutes or days later. (Here customers are drawn as the table was made.)

# %%
import subprocess
import sys

from tightrope.service import Client

server = subprocess.Popen(
    [sys.executable, "-m", "tightrope", "serve", "coupons.toml", "--data", "data", "--port", "8123"],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)

# %%
sys.path.append("examples")
import numpy as np
from make_coupons import chance

rng = np.random.default_rng(3)
with Client("http://127.0.0.1:8123", patience=200) as client:
    for i in range(1000):
        customer = table.iloc[rng.integers(len(table))][["age", "visits", "member"]].to_dict()
        decision = client.decide(customer, event_id=f"customer-{i}")
        buys = rng.random() < chance(
            customer["age"], customer["visits"], customer["member"] == "yes", decision["name"]
        )
        client.learn(decision["event_id"], reward=float(buys))
    state = client.state()
    last = client.decide({"age": 30, "visits": 1, "member": "no"}, explain=True)

pd.DataFrame(state["actions"])[["name", "share"]].set_index("name").T.round(3)

# %% [markdown]
# Every decision comes with its probability, and with its reasons if they are asked for:

# %%
print(last["name"], "with probability", round(last["probability"], 3))
pd.DataFrame(last["explanation"]["actions"]).round(3)

# %%
server.terminate()
_ = server.wait()

# %% [markdown]
# ## Where to go from here
#
# - [Start here](../start.md) does the same without a line of Python.
# - [Move from simulation to service](../howto/simulation-to-service.md): what changes, and in which order.
# - [Rules](../rules.md): groups, several limits, rules that conflict.
# - [What holds when](../concepts/what-holds-when.md): what is promised of the rules, and what is only measured.
