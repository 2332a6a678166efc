# %% [markdown]
# # LLM routing under a budget
#
# Three language models answer questions: a small one, a medium one, a large one. The large one is right more often and costs thirty times as
# much, and what a call costs is known only when the answer is there. The bill may be 0.4 cents per question on average, **at all times**: not at the end
# of the month, when nothing can be done about it any more.
#
# Which question needs which model is not known. This page learns it while answering, with the rule kept from the start.
#
# ## A world to try it in
#
# Questions have a length, may contain code, and are harder or easier. A world of your own needs nothing but two functions: what comes, and what an
# action brings. (In production these are your users and your models.)

# %%
import numpy as np

models = ["small", "medium", "large"]
price = np.array([0.05, 0.25, 1.5])  # cents for 1,000 tokens


def question(rng):
    """What a router sees: length in words, whether there is code, and how many steps it seems to ask for."""
    return rng.lognormal(4.0, 0.8), float(rng.random() < 0.3), float(rng.integers(1, 5))


def answer(rng, words, code, steps, model):
    """Whether the answer was right, and what it cost in cents."""
    skill = np.array([1.6, 2.6, 4.2])[model]
    difficulty = 0.25 + 0.5 * steps + 0.9 * code
    right = rng.random() < 1 / (1 + np.exp(-(skill - difficulty)))
    tokens = (words * 1.4 + 150 * steps) * rng.lognormal(0.0, 0.25)
    return float(right), float(tokens / 1000 * price[model])


rng = np.random.default_rng(0)
sample = [question(rng) for _ in range(2000)]
mean_cents = {}
for j, name in enumerate(models):
    right, cents = np.mean([answer(rng, *q, j) for q in sample], axis=0)
    mean_cents[name] = cents
    print(f"{name:7} right {right:.2f}, {cents:.3f} cents a question")

# %% [markdown]
# ## The rule, and a policy
#
# The cost is `seen="after"`: a model of the costs is learnt beside the one of the rewards. Features go in as they are, in any unit.

# %%
import tightrope as tr

rules = tr.Rules([tr.Budget("cents", at_most=0.4, range=(0, 10), seen="after")], actions=models)
policy = tr.ShadowPrice(reward=tr.DisjointRidge(3, 4), cost=tr.DisjointRidge(3, 4), constraints=rules, seed=1)
print(rules)

# %% [markdown]
# ## 4,000 questions
#
# The loop is the same in production: `decide`, call the model, `learn` what came of it.


# %%
def run(choose, told, n=4000, seed=7):
    """Rewards, costs and choices of n questions."""
    rng, kept = np.random.default_rng(seed), []
    for _ in range(n):
        words, code, steps = question(rng)
        x = np.array([1.0, np.log(words), code, steps])
        model, decision = choose(x)
        right, cents = answer(rng, words, code, steps, model)
        told(decision, right, cents)
        kept.append((right, cents, model, steps + 2 * code))
    return np.array(kept)


def by_policy(x):
    decision = policy.decide(x, cost_features=x)
    return decision.action, decision


ours = run(by_policy, lambda decision, right, cents: policy.learn(decision, right, usage={"cents": cents}))
print(f"right {ours[:, 0].mean():.3f}, {ours[:, 1].mean():.3f} cents a question of 0.4 allowed")

# %% [markdown]
# For comparison: a bandit that maximises right answers and knows no rule, and the best that one can do without looking at the question, which is to send as
# many as the budget bears to the large model and all others to the small one.

# %%
bandit = tr.policies.LinUCB(reward=tr.DisjointRidge(3, 4, m=4, bonus=0.1))


def by_bandit(x):
    decision = bandit.decide(x / np.linalg.norm([1, 8, 1, 4]))
    return decision.action, decision


plain = run(by_bandit, lambda decision, right, cents: bandit.learn(decision, right))
coin = np.random.default_rng(2)
share = (0.4 - mean_cents["small"]) / (mean_cents["large"] - mean_cents["small"])
blind = run(lambda x: (2 if coin.random() < share else 0, None), lambda *_: None)
for name, kept in (("ShadowPrice", ours), ("LinUCB, no rules", plain), ("small and large by a coin", blind)):
    print(f"{name:26} right {kept[:, 0].mean():.3f}   cents {kept[:, 1].mean():.3f}")

# %% alt="Cents a question so far, by the number of questions: ShadowPrice stays at the limit of 0.4, the bandit without rules well above it. Beside it the shares of the models by how hard a question is."
import matplotlib.pyplot as plt

figure, (bill, who) = plt.subplots(1, 2)
rounds = np.arange(1, len(ours) + 1)
for name, kept, style in (("ShadowPrice", ours, "-"), ("LinUCB, no rules", plain, "--")):
    bill.plot(rounds[20:], (kept[:, 1].cumsum() / rounds)[20:], style, label=name)
bill.axhline(0.4, color="black", linewidth=1, label="limit")
bill.set(title="cents a question so far", xlabel="questions")
bill.legend()
late = ours[2000:]
hardness = np.unique(late[:, 3])
bottom = np.zeros(len(hardness))
for j, name in enumerate(models):
    shares = np.array([(late[late[:, 3] == h, 2] == j).mean() for h in hardness])
    who.bar(hardness, shares, bottom=bottom, label=name)
    bottom += shares
who.set(title="who answers, later half", xlabel="steps, two more if there is code", ylim=(0, 1))
who.legend()
plt.show()

# %% [markdown]
# ## What the budget is worth
#
# The **price** of the rule: how many more right answers per question one more cent per question would bring. This is the number to have at hand when
# somebody asks whether the budget should go up.

# %%
print(
    f"one more cent a question would earn {policy.prices[0]:.3f} right answers a question, by what is known now"
)
print(
    f"total so far: {10 * policy.totals[0]:+.1f} cents against what was allowed (0 or less: the rule holds)"
)

# %% [markdown]
# And why the last question went where it did:

# %%
question_now = np.array([1.0, np.log(120), 1.0, 4.0])
print(policy.propose(question_now, cost_features=question_now).explain())

# %% [markdown]
# The budget can change while it runs: `policy.change_limit("cents", 0.6)` ([how](../howto/change-a-rule.md)). What is promised where costs are seen only after
# acting: [nothing is proved of the totals](../concepts/what-holds-when.md), and a `hard` cap in the [service](../service.md) is what stops the spending for sure.
