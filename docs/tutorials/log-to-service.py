# %% [markdown]
# # From a log to the service
#
# A help desk answers tickets by a template, by a junior or by a senior, and has drawn one of the three at random for a while, with the probabilities written down. That is a log. This page
# turns it into a served policy: which model suits the data, what a policy *would* have earned, a warm start, the service, and what the service's own journal is good for afterwards.
#
# The rule: juniors and seniors may spend 9 minutes per ticket on average. How long a ticket takes is known when it is done.

# %%
import numpy as np
import pandas as pd

who = ["template", "junior", "senior"]


def ticket(rng):
    """What is known when a ticket comes in."""
    return {
        "topic": str(rng.choice(["billing", "access", "bug"], p=[0.5, 0.3, 0.2])),
        "words": int(rng.lognormal(4.0, 0.7)),
        "angry": bool(rng.random() < 0.25),
    }


def handled(rng, topic, words, angry, name):
    """Whether the customer was content, and the minutes it took."""
    good = {"template": 0.55, "junior": 0.65, "senior": 0.8}[name]
    good -= {"billing": 0.0, "access": 0.05, "bug": {"template": 0.4, "junior": 0.2, "senior": 0.05}[name]}[
        topic
    ]
    good -= 0.2 * angry * (name == "template") + 0.0008 * min(words, 300) * (name != "senior")
    minutes = (
        {"template": 0.0, "junior": 8.0, "senior": 14.0}[name]
        * (0.5 + 0.008 * min(words, 150))
        * rng.lognormal(0, 0.2)
    )
    return float(rng.random() < good), float(min(minutes, 60.0))


rng = np.random.default_rng(11)
rows = []
for _ in range(2500):
    now, name = ticket(rng), who[rng.choice(3, p=[0.4, 0.3, 0.3])]
    content, minutes = handled(rng, **now, name=name)
    rows.append(
        {
            **now,
            "handled_by": name,
            "chance": {"template": 0.4}.get(name, 0.3),
            "content": content,
            "minutes": round(minutes, 1),
        }
    )
log = pd.DataFrame(rows)
log.head()

# %% [markdown]
# ## Which model?
#
# Every model predicts rows that it has not learnt from ([more](../fit.md)). The simplest one among those that are as good as the best is recommended.

# %%
import tightrope as tr

found = tr.compare_models(
    log,
    ["arm-means", "linear", "logistic"],
    action="handled_by",
    reward="content",
    probability="chance",
    context=["topic", "words", "angry"],
    name="tickets",
)
for sentence in found.words():
    print(sentence)

# %% [markdown]
# ## A world made of the log
#
# `from_table` fits what every ticket would have brought with each of the three. Minutes are `seen="after"`. Where a fit is doubtful it warns, in words.

# %%
rules = tr.Rules([tr.Budget("minutes", at_most=5.0, range=(0, 60), seen="after")], actions=who)
env = tr.environments.from_table(
    log,
    context=["topic", "words", "angry"],
    action="handled_by",
    reward="content",
    usage={"minutes": "minutes"},
    rules=rules,
    name="tickets",
)
tr.solve(env)

# %% [markdown]
# ## What would another policy have earned?
#
# Before anyone is exposed to it: off-policy evaluation with intervals, on the log itself and not on a fit. First "bugs to the seniors, everything else to the template", then everything to
# the seniors, which breaks the rule, and the evaluation says so with confidence.

# %%
from tightrope.offpolicy import Log, evaluate

over = (
    log[["minutes"]] - 5.0
).to_numpy()  # of each ticket, above zero where it took longer than is allowed on average
logged = Log(
    log.handled_by,
    log.content,
    over,
    propensities=log.chance,
    contexts=log,
    encoder=env.encoder,
    action_names=who,
)
print(evaluate(logged, np.where(log.topic == "bug", who.index("senior"), who.index("template")), "dr"))
print(evaluate(logged, np.full(len(log), who.index("senior")), "dr"))

# %% [markdown]
# ## A warm start
#
# A policy that learns the log before its first ticket (a cost is what was used less the limit, as a part of the range that the rule declares). Both keep the rule; the warm one does not have to try what the log already knows.

# %%
size = (env.n_actions, env.n_features)
cold = tr.ShadowPrice(reward=tr.DisjointRidge(*size), cost=tr.DisjointRidge(*size), constraints=rules)
warm = cold.copy()
warm.warm_start(log, log.handled_by, log.content, costs=over / 60, encoder=env.encoder)
runs = {
    name: tr.simulate(policy, env, rounds=2000, replications=20, seed=5)
    for name, policy in (("cold", cold), ("warm", warm))
}
pd.DataFrame(
    {
        name: {
            "content": run.average_reward.at().mean,
            "minutes per ticket": 5 + 60 * run.mean_cost_curve.mean[-1, 0] / run.n_rounds,
            "regret": run.regret.mean[-1],
        }
        for name, run in runs.items()
    }
).T.round(3)

# %% alt="Regret by ticket: that of the warm policy is a fraction of the cold one's. Beside it minutes per ticket, both below the limit of 5."
import matplotlib.pyplot as plt

figure, (regret, minutes) = plt.subplots(1, 2)
for (name, run), style in zip(runs.items(), ("--", "-")):
    regret.plot(run.rounds, run.regret.mean, style, label=name)
    minutes.plot(
        run.rounds[15:], (5 + 60 * run.mean_cost_curve.mean[:, 0] / run.rounds)[15:], style, label=name
    )
minutes.axhline(5, color="black", linewidth=1, label="limit")
regret.set(title="regret so far", xlabel="tickets")
minutes.set(title="minutes per ticket so far", xlabel="tickets")
for axes in (regret, minutes):
    axes.legend()
plt.show()

# %% [markdown]
# ## Serve it, warm
#
# The spec says it in four lines: `[warm_start]` names the table and its columns. The journal keeps what was learnt, so a restart or a replay needs the table no more.

# %%
from pathlib import Path

log.to_csv("log.csv", index=False)
spec = env.to_spec("tickets.toml")
spec.write_text(
    spec.read_text()
    + """
[warm_start]
file = "log.csv"
action = "handled_by"
reward = "content"
usage = { minutes = "minutes" }
"""
)
print(spec.read_text())

# %%
import subprocess
import sys

from tightrope.service import Client


def tightrope(*arguments):
    return [sys.executable, "-m", "tightrope", *arguments]


server = subprocess.Popen(
    tightrope("serve", "tickets.toml", "--data", "data", "--port", "8124"),
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
rng = np.random.default_rng(12)
with Client("http://127.0.0.1:8124", patience=200) as client:
    for i in range(600):
        now = ticket(rng)
        decision = client.decide(now, event_id=f"ticket-{i}")
        content, minutes = handled(rng, **now, name=decision["name"])
        client.learn(f"ticket-{i}", reward=content, usage={"minutes": minutes})
    state = client.state()
print(
    f"{state['decisions']} tickets, {state['outcomes']['mean_reward']:.3f} content; {state['constraints'][0]['rule']}"
)
pd.DataFrame(state["actions"])[["name", "share"]].set_index("name").T.round(3)

# %%
server.terminate()
_ = server.wait()

# %% [markdown]
# ## What the journal is good for
#
# Every decision is on disk with its probability, so the service's own journal is the next log. It can be verified, every decision made again and compared bit for bit:

# %%
print(
    subprocess.run(
        tightrope("replay", "data/tickets.sqlite"), capture_output=True, text=True, check=True
    ).stdout
)

# %% [markdown]
# and another policy is judged on it before it is served. Where the journal can't tell, because an action had no chance where the candidate would take it, it says so in place of a number:

# %%
_ = Path("candidate.toml").write_text("""
[policy]
kind = "shadow-price"
explore = 0.3
""")
done = subprocess.run(
    tightrope("evaluate", "data", "--policy", "candidate.toml"), capture_output=True, text=True
)
print(done.stdout or done.stderr)

# %% [markdown]
# - [Judge another policy on the journal](../evaluation.md): what the intervals are worth.
# - [Real data](../real-data.md): what may not be concluded from a log.
# - [Backup](../backup.md), [erasure](../erasure.md), [faults](../service-faults.md): running it.
