"""`docs/shadow-price.md`: what the default policy is, for whom, and what was measured. Every number is taken from the runs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tightrope.policies import ShadowPrice
from tightrope.report import NamedCurve, Panel, format_number, panels_figure
from tightrope.report.numbers import format_estimate
from tightrope_lab.evidence import held_out, sixty_seconds
from tightrope_lab.evidence.contestants import DEFAULT, PAPER
from tightrope_lab.league.ranking import SOFTENING

Data = Mapping[str, Any]

FIGURE_EXAMPLE, FIGURE_TABLES = "shadow-price-sixty-seconds.png", "shadow-price-real-data.png"


def page(data: Data, command: str) -> str:
    """The page as markdown, of the parts that there are."""
    parts = [_introduction(), _how_it_decides(), _formulas(), _dials(), _when_it_holds(), _why_so()]
    sections = {"example": _example, "league": _league, "tables": _tables, "worlds": _worlds}
    shown = [name for name in sections if name in data]
    parts.append(_evidence(data, shown, command))
    parts += [sections[name](data[name]) for name in shown]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def missed(data: Data) -> list[str]:
    """What was asked for and not reached, in words; empty where all was.

    >>> missed({"league": {"rows": [{"role": "default", "scenario": "hospital", "regret": 90.0, "asked": 80, "runs_in_violation": 0}]}})
    ['hospital: regret 90 instead of at most 80']
    """
    found = []
    for row in data["league"]["rows"] if "league" in data else ():
        if row["role"] == "default":
            if row["regret"] > row["asked"]:
                found.append(
                    f"{row['scenario']}: regret {format_number(row['regret'])} instead of at most {row['asked']}"
                )
            if row["runs_in_violation"] > 0:
                found.append(
                    f"{row['scenario']}: {row['runs_in_violation']:.0%} of the runs end in violation"
                )
    if "worlds" in data:
        found += _missed_held_out(held_out.summarise(data["worlds"]["rows"]))
    if "example" in data:
        found += _missed_example(data["example"]["rows"])
    return found


def real_data_figure(data: Data) -> Any:
    """The share of the optimum by the round, a panel for each table."""
    panels = []
    for name in data["tables"]:
        curves = []
        for role, words in (
            ("default", "ShadowPrice"),
            ("lagrangian", "Lagrangian, tuned"),
            ("paper tuned", "the paper's, tuned"),
            ("paper", "the paper's"),
        ):
            rows = [row for row in data["rows"] if (row["scenario"], row["role"]) == (name, role)]
            curves.append(NamedCurve(words, [row["round"] for row in rows], [row["share"] for row in rows]))
        fact = data["tables"][name]
        last = max(data["rounds"])
        blind = [fact["blind"] / fact["optimum"]] * 2
        curves.append(NamedCurve("choosing blindly", [20, last], blind, reference=True))
        panels.append(Panel(curves, "Round", f"Share of the optimum, {name}", logx=True))
    return panels_figure(panels, height=260.0)


# ------------------------------------------------------------------------------------------------------------ prose


def _introduction() -> str:
    return """
# ShadowPrice

`tr.ShadowPrice` is what Tightrope decides by unless it is told otherwise. It learns what works while it keeps the rules, and there is nothing
to set: no horizon, no Slater's constant, no confidence radius, no range of costs, no unit of features or rewards.

```python
>>> import tightrope as tr
>>> rules = tr.Rules([tr.Capacity("icu", at_most=0.2), tr.Share("icu", at_least=0.1),
...                   tr.Budget("nurse_hours", at_most=0.4)], actions=["icu", "surgery", "other"])
>>> policy = tr.ShadowPrice(reward=tr.DisjointRidge(3, 2), constraints=rules)
>>> for patient in range(200):
...     decision = policy.decide([0.7, 0.7 * (patient % 2)], usage={"nurse_hours": [1.0, 0.5, 0.2]})
...     policy.learn(decision, reward=[0.9, 0.6, 0.5][decision.action])
>>> policy.prices.shape, bool(policy.infeasible.any())     # what one more unit of each limit would earn; rules that can't be met
((3,), False)

```
"""


def _how_it_decides() -> str:
    return """
## How it decides

1. **What is believed.** A model of the rewards, and one of the costs that are seen only after acting, gives each action on offer a mean and
   a standard deviation, in your units. Linear ones are the default, and any other will do ([models.md](models.md)).
2. **What a rule is worth.** The policy remembers rounds that it has seen. Now and then (after 2, 4, 8, … rounds) it asks which prices for the
   rules would lead the best choices on all remembered rounds to keep them: the *shadow prices* of that allocation, the dual of a linear program.
   Where a model is fitted anew from time to time, it asks after each fit as well.
   So a price does not have to climb to its place by violating its rule, as in most algorithms of this kind.
3. **Correction by the totals.** Each price is raised where the running total of its rule comes near zero and lowered where there is slack. The total
   is steered to a buffer below zero, as wide as it is estimated to fluctuate, and close to zero a wall makes every step across it expensive.
4. **Exploration.** Each action's value, reward less the prices of its costs, is drawn from what is believed of it, and the largest draw wins.
   So the probability of every action is known exactly (`decision.probability`), and logs can be evaluated. Models without a posterior are
   explored in [other ways](#three-ways-to-explore).
"""


def _formulas() -> str:
    return """
### The formulas

Of action j, r̂ and s are the mean and the standard deviation of its reward (times `explore`), ŵ and ω those of its costs (ω = 0 where they are known
before acting). S is the total of a rule with the estimates of what is still awaited, and all sums run over the rounds so far.

| | | |
| --- | --- | --- |
| size of a cost | m = Σ mean_j(ŵ² + ω²) / Σ mean_j √(ŵ² + ω²) | what can be chosen, not what was |
| movement of a total | moved = √max(G, Σ mean_j(ŵ² + ω²)), G = Σ w² | of realised costs, or of the offered ones where they are known |
| noise | ν = √max(1, G / Σ mean_j(ŵ² + ω²)) | |
| spread of the rewards | ρ = mean over remembered rounds of max_j(r̂ + s) − min_j(r̂ − s) | optimistic, so that it does not collapse before all was tried |
| shadow price | p = argmin over 0 ≤ p ≤ 20ρ/m of mean_i max_j(r̃_ij − p·w̃_ij) | r̃, w̃ drawn once for each distinct remembered round; solved after 2, 4, 8, … rounds |
| gain and buffer | V = 4·moved·m/ρ, b = `caution`·ν·√(moved·m) | b is that many standard deviations of the total |
| feedback | f = (S + b)/V | only downwards for a rule that can't be met |
| correction | q moves by f, over some 64 √(clock of the rule) rounds, and is halved with every new price | carries over what the feedback settles at |
| price in force | λ = max(0, p + q + f) | `policy.prices` |
| wall | (ρ/m)·(Φ(S + ŵ) − Φ(S)), Φ(s) = ½ z (s/z + 1)₊², z = 0.6 b | rises linearly from S = −z on, looks one step ahead, and credits steps back |
| value | N(r̂ − Σ λŵ − Σ wall, s² + Σ (e·λ·ω)²), e = 0.7·`explore`·min(1, max(0.4, abs(S)/b)) | unknown costs are explored out of slack |

### Three ways to explore

`sampling=` names the way; left out, it is what the reward model asks for (`Model.exploration`). In each the probability of every action is known.

| `sampling` | for | how an action is drawn | probability |
| --- | --- | --- | --- |
| `"normal"` | a mean and a standard deviation | the value above, drawn for each action by itself; the largest wins | by quadrature, to 10⁻⁶ |
| `"members"` | an ensemble | one of its M members is drawn for the round, and value = r̂ + `explore`·(member − r̂) − Σ λŵ − Σ wall; the largest wins | the share of members that prefer the action, exactly: a multiple of 1/M, 0 for what none prefers |
| `"gaps"` | a regressor, nothing but r̂ | by inverse gap weighting: an action whose value is Δ below the best of n has probability 1/(n + γΔ/ρ), the best has the rest; γ = 3√(nt)/`explore` | the same formula, never 0 |

- *Members*: costs that are seen only after acting are drawn from their normal law beside the member, as ever, and the probability is the mean over members of the one by
  quadrature. In a solve each remembered round follows a member of its own.
- *Gaps*: unknown costs go by their means, in a solve too; nothing is locked out, since every action keeps a chance. t is the number of rounds, or of outcomes behind the model if it
  counts more, and with a half-life at most what still counts. ρ is that of the prices; without rules it is a running mean of the range of r̂. This is SquareCB (Foster and Rakhlin, *Beyond UCB:
  optimal and efficient contextual bandits with regression oracles*, ICML 2020) on rewards less prices, as in Slivkins, Sankararaman, Foster (*Contextual bandits with packing and covering constraints: a
  modular Lagrangian approach via regression*, COLT 2023) and Guo, Liu (*Stochastic constrained contextual bandits via Lyapunov optimization based estimation to decision framework*, COLT 2024); their
  guarantees are for their own prices, and are not claimed for these. Gaps in units of the model's own root mean squared error were tried in place of ρ and were no better (three made-up worlds, linear model,
  4 runs of 4,000 rounds, regret with factors 1, 3, 10: in ρ 43, 20, 21 · 164, 133, 153 · 100, 60, 104; in the error 52, 25, 18 · 160, 170, 176 · 51, 51, 107; posterior sampling 21 · 149 · 35).
- A share of 0 says that an action could not have been chosen: logs of `"members"` tell nothing about it. Where logs are to be evaluated, `sampling="normal"` with the same ensemble keeps
  probabilities positive wherever its members differ.
"""


def _dials() -> str:
    settings = inspect.signature(ShadowPrice).parameters
    explore, caution, memory = (settings[name].default for name in ("explore", "caution", "memory"))
    return f"""
## Two dials, which may be left alone

| | default | what it does |
| --- | --- | --- |
| `explore` | {explore:g} | how much of the uncertainty is drawn: {explore:g} is posterior sampling; less earns more in most stationary problems, and is less sure to find everything |
| `caution` | {caution:g} | the buffer below zero, in standard deviations of a total: less earns a little more, more is above zero less often |
| `memory` | {memory:,} | rounds remembered for the prices |
| `guard` | off | with `guard=True` an action that would lift a total above zero is taken only where every action would; for costs seen before acting |
| `sampling` | the model's | how actions are drawn: `"normal"`, `"members"` or `"gaps"` |
| `half_life` | none | after how many rounds what is remembered for the prices counts half |
"""


def _when_it_holds() -> str:
    return """
## When it holds, and for whom it does not

- **Nothing is promised by a theorem for the default.** What follows is measured. The guard is the exception: where costs are seen before acting and every round
  offers an action that breaks no rule, no total is ever above zero. Policies with a proof are `pessimistic-optimistic` and the others of [policies.md](policies.md); see
  [bounds.md](bounds.md).
- **The first rounds are not safe without the guard**, and costs that are seen only after acting have to be tried: with hundreds of unknown cost
  parameters and little room, violation is large before it is paid back. If a rule must never be broken, use the guard, or a policy that knows a
  safe action.
- **Contexts that stay for long** (a ward with the same kind of patient for hours) make totals wander more than the buffer expects: raise `caution`.
- **Rare and large costs** are learnt late, whatever the policy.
- **Rules that can't be met** are reported (`policy.infeasible`, `policy.conflict()`), and the others are kept meanwhile.
- **Linear models**: where rewards are far from linear in the features, every policy with such a model earns less than the optimum, and the rules are
  kept all the same, since totals are those of real costs.
- **A world that changes**: prices remember what was. With `half_life=` remembered rounds, sizes of costs and how far totals have moved count half after so many rounds, prices are solved for at
  least four times in that time, and the correction by the totals stays as quick as it was. Give the models theirs as well. Totals themselves forget nothing.
"""


def _why_so() -> str:
    return """
## Why it is made so

Each part was taken out, or put in, on 40 random worlds of the same law as those held out, 4 runs of 10,000 rounds each, while the recipe was made (with another simulator,
and before errors had weights in the estimate of the noise); these worlds were looked at, so that they prove nothing. Regret is a geometric mean of ratios to the prototype.

| recipe | regret | runs that end in violation | last, median over worlds | mean |
| --- | --- | --- | --- | --- |
| as it is | 0.965 | 3.1% | 79 | 1,022 |
| without the wall | 0.941 | 10.6% | 1,676 | 3,460 |
| without the correction that is carried over | 0.955 | 1.9% | 79 | 1,108 |
| ρ from drawn rewards, not from optimistic ones | 0.963 | 1.9% | 71 | 1,103 |
| unknown costs drawn in full | 0.959 | 2.5% | 87 | 1,171 |
| prices on ties broken upwards: right side −2s/√n | 0.980 | 3.1% | 87 | 980 |
| a ratchet on the buffer, for costs seen before | 0.973 | 3.1% | 79 | 1,020 |
| guard | 0.956 | 12.5% | 48 | 1,926 |
| caution 2 | 0.942 | 3.1% | 99 | 1,684 |
| caution 4 | 1.003 | 2.5% | 67 | 940 |

So the wall is what keeps totals below zero; the theory's two offers, ties broken upwards and the ratchet, cost regret and bring nothing that could be measured here, and
are left to `provable-shadow-price`, whose proof needs them; the guard is quicker out of violation in the median world and blocks the way back where many rules are tight,
so it is a choice. The correction that is carried over is for long runs: in `fair-jobs` the worst of 16 runs of 100,000 rounds had a regret of 713 without it and 208 with it.

The wall matters most with models that are sure of themselves, as boosted trees are: with scores near 0 and 1 a price may move far without changing any choice, so that the feedback, whose
gain falls as 1/√t, can't answer a burst of one class in time. Satimage with six caps, scores of boosted trees (three members, fitted to more and more random rounds), 10 runs of 20,000 rounds, with
these formulas written once more in NumPy so that parts can be left out: a total is above zero after round 500 in 10 runs without the wall, in none with it; accuracy 0.829 against 0.825. Without wall and
correction: 9; with scores flattened (log-odds times 0.3) 8, with extra trees 4; with the wall 0 each time it was tried. The policy itself on these scores, 6 runs each by members at `explore` ½ and 1
and by gaps: 0 of 18, and no total came nearer to zero than −2.
"""


def _evidence(data: Data, shown: Sequence[str], command: str) -> str:
    failures = missed(data)
    verdict = (
        "Everything that is asked for below is reached."
        if not failures
        else "**Not everything that is asked for is reached**: " + "; ".join(failures) + "."
    )
    names = {
        "example": "README's example",
        "league": "the league",
        "tables": "real tables",
        "worlds": "held-out worlds",
    }
    return f"""
## What was measured

On {", ".join(names[name] for name in shown)}, by one command, which wrote this page ({data["date"]}):

```
{command}
```

{verdict} In all tables a **bold** number is the best of those that keep the rules. *Path* is the largest sum of violated totals in any round of a
run, each total in units of the largest cost that its rule is declared to have; *last* is the last round with a total above zero; both are means over runs unless it is said otherwise.
"""


def _example(data: Data) -> str:
    rows = data["rows"]
    body = []
    for name in (DEFAULT, sixty_seconds.GUARDED, PAPER):
        mine = [row for row in rows if row["policy"] == name]
        reward, above = (
            np.array([row["reward"] for row in mine]),
            np.array([row["rounds_above"] for row in mine]),
        )
        last = np.array([row["last_violation"] for row in mine])
        body.append(
            [
                *(f"`{name}`", str(len(mine)), f"{reward.mean():,.1f}", f"{reward.min():,.1f}"),
                *(
                    f"{above.mean():,.1f}",
                    f"{np.median(above):,.0f}",
                    f"{above.max():,.0f}",
                    f"{last.max():,.0f}",
                ),
            ]
        )
    _embolden(body, 2, [True] * 3, highest=True)
    _embolden(body, 4, [True] * 3)
    seeds = len([row for row in rows if row["policy"] == DEFAULT])
    head = [
        "policy",
        "seeds",
        "reward, mean",
        "least",
        "rounds with a rule above zero, mean",
        "median",
        "most",
        "last such round of any seed",
    ]
    return f"""
### README's sixty seconds

{data["rounds"]:,} patients, three actions, three rules, {seeds} seeds. The best possible reward is {data["optimum"]:,.0f}; asked for are at least
{sixty_seconds.LEAST_REWARD:,} on average, at most {sixty_seconds.MOST_ABOVE} rounds with a rule above zero on average, and at most {sixty_seconds.MOST_ABOVE_GUARDED} with the guard. No policy can have
fewer than 4: with none of n patients in the icu its least share is missed, and with one its most is exceeded while n < 5.

{_table(head, body)}

![Totals of the three rules by the round, for the paper's policy, ShadowPrice and ShadowPrice with its guard](figures/{FIGURE_EXAMPLE})

*The total of each rule, as long as it is near zero; above zero it is violated. The first seed of ShadowPrice.*
"""


def _league(data: Data) -> str:
    body = []
    for scenario in dict.fromkeys(row["scenario"] for row in data["rows"]):
        by_role = {row["role"]: row for row in data["rows"] if row["scenario"] == scenario}
        ours = by_role["default"]
        kept = {role: row["regret"] for role, row in by_role.items() if row["kept"]}
        best = min(kept, key=lambda role: kept[role]) if kept else None
        cells = {role: _regret(row, bold=role == best) for role, row in by_role.items()}
        body.append(
            [
                *(f"`{scenario}`", str(ours["asked"]), cells["default"], f"{ours['runs_in_violation']:.0%}"),
                *(_number(ours["path"]), _number(ours["last_violation"]), cells["paper"]),
            ]
        )
    head = [
        "scenario",
        "asked",
        "`shadow-price`: regret",
        "runs that end in violation",
        "path",
        "last",
        f"`{PAPER}`",
    ]
    return f"""
### The league

{data["rounds"]:,} rounds, {data["runs"]} runs on the same draws, nothing set (of costs that are seen after acting `shadow-price` is told what they lie in, as
rules in words would tell it). Mean regret with its 95 % interval, against the most that is asked for. The paper's policy is told Slater's constant and
the horizon. All others, and five more worlds, are in [league.md](league.md).

{_table(head, body)}
"""


def _tables(data: Data) -> str:
    rounds = data["rounds"]
    text = [
        f"""
### Real tables

Each table is an environment whose contexts are its rows and whose optimum is known ([real-data.md](real-data.md)); {data["runs"]} runs. Share of the
optimum earned up to a round, with nothing set. The tuned ones are the best in hindsight of a grid, among those that keep the rules: of 8 settings of the
paper's policy, and of 10 steps and margins of the plain Lagrangian λ ← [λ + η·(w + margin/√t)]⁺ on posterior sampling with the same kind of model.
Who lets totals rise above zero earns more meanwhile, so path and last belong to the comparison.
"""
    ]
    if data["tables"]:
        text.append(f"![Share of the optimum by the round on each table](figures/{FIGURE_TABLES})")
    for name, fact in data["tables"].items():
        body, kept = [], []
        for role in ("default", "guard", "paper", "paper tuned", "lagrangian"):
            rows = {
                row["round"]: row for row in data["rows"] if (row["scenario"], row["role"]) == (name, role)
            }
            end = rows[rounds[-1]]
            kept.append(end["kept"])
            settings = "" if role in ("default", "guard", "paper") else f" ({end['settings']})"
            shares = [f"{rows[at]['share']:.3f}" for at in rounds]
            ends = "yes" if end["kept"] else f"misses by {_number(end['violation'])}"
            body.append(
                [
                    f"`{end['policy']}`{settings}",
                    *shares,
                    _number(end["path"]),
                    _number(end["last_violation"]),
                    ends,
                ]
            )
        for column in range(1, 1 + len(rounds)):
            _embolden(body, column, kept, highest=True)
        head = ["policy", *(f"{at:,} rounds" for at in rounds), "path", "last", "keeps the rules at the end"]
        blind = fact["blind"] / fact["optimum"]
        text.append(
            f"**{name}**: {fact['contexts']:,} contexts, {fact['actions']} actions, {fact['features']} features, {len(fact['rules'])} rules, of which "
            f"{len(fact['binding'])} bind ({', '.join(fact['binding'])}). Choosing blindly, by the best fixed shares, gives {blind:.3f} of the optimum."
        )
        text.append(_table(head, body))
    if data["missing"]:
        text.append(f"Left out, since their files were not in the data folder: {', '.join(data['missing'])}.")
    return "\n\n".join(part.strip() for part in text)


def _worlds(data: Data) -> str:
    found = held_out.summarise(data["rows"])
    body = []
    for name, one in found["policies"].items():
        body.append(
            [
                *(f"`{name}`", str(one["keeps"]), _number(one["mean_ratio"]), _number(one["worst_ratio"])),
                *(f"{one['runs_in_violation']:.1%}", _number(one["path_median"]), _number(one["path_mean"])),
                *(f"{one['last_median']:,.0f}", f"{one['last_mean']:,.0f}"),
            ]
        )
    everyone = [True] * len(body)
    _embolden(body, 1, everyone, highest=True)
    for column in range(2, 9):
        _embolden(body, column, everyone)
    head = [
        "policy",
        f"keeps, of {found['worlds']}",
        "ratio, mean",
        "worst",
        "runs that end in violation",
        "path, median",
        "mean",
        "last, median",
        "mean",
    ]
    ours, theirs = (found["policies"][name] for name in (DEFAULT, held_out.PROTOTYPE))
    pair = found["paired"]
    compared = [
        ["regret, geometric mean of the ratios", f"{pair['geometric_ratio']:.3f} [{pair['geometric_ratio_low']:.3f}, {pair['geometric_ratio_high']:.3f}]", "1"],
        [f"regret, mean over the {pair['kept_by_both']} worlds that both keep", _number(pair["regret_kept"]), _number(pair["regret_kept_prototype"])],
        ["regret, mean over all worlds", _number(ours["regret_mean"]), _number(theirs["regret_mean"])],
        ["last violated round, median over worlds", f"{ours['last_median']:,.0f}", f"{theirs['last_median']:,.0f}"],
        ["last violated round, mean", f"{ours['last_mean']:,.0f}", f"{theirs['last_mean']:,.0f}"],
        ["worlds with the earlier last violation", str(pair["earlier"]), str(pair["later"])],
    ]  # fmt: skip
    first = held_out.FIRST_SEED
    return f"""
### Held out

{found["worlds"]} random worlds that nobody had seen when the defaults were fixed: 2 to 30 actions, 1 to 50 rules, Slater's constant from 0.01, random units of costs and
features, skewed contexts, shared or own parameters, sleeping actions, costs seen before or after acting, with and without noise
(`tightrope_lab.evidence.worlds`). The recipe was fixed by commit {held_out.COMMIT} ({held_out.FIXED}), and the seeds {first:,} + i come from that commit's first four
digits, 0x5be5·1000: nobody could know them before, nor choose them. {data["rounds"]:,} rounds, {data["runs"]} runs each, the same draws for all.

*Ratio* is (regret + {SOFTENING:.0f})/(least regret of all that keep the rules + {SOFTENING:.0f}), over the worlds that a policy keeps; to *keep* a world means to end with
violated totals that sum to at most one largest cost on average. {found["kept_by_none"]} of the worlds are kept by none. The paper's policy is told the true δ and plays the same
worlds in units with |W| ≤ 1 and ‖φ‖ ≤ 1, which it asks for; the last line is the best of 10 settings for each world, chosen in hindsight.

{_table(head, body)}

Paired with the prototype, the first form of the policy that was written down (`tightrope_lab.evidence.rivals`), world by world:

{_table(["", f"`{DEFAULT}`", "`prototype`"], compared)}
"""


def _missed_held_out(found: Data) -> list[str]:
    ours, theirs, pair = *(found["policies"][name] for name in (DEFAULT, held_out.PROTOTYPE)), found["paired"]
    missing = []
    if pair["geometric_ratio"] > 1 or (
        pair["kept_by_both"] and pair["regret_kept"] > pair["regret_kept_prototype"]
    ):
        missing.append("held out: more regret than the prototype")
    if ours["last_median"] > theirs["last_median"] or ours["last_mean"] > theirs["last_mean"]:
        missing.append("held out: a later last violation than the prototype's")
    return missing


def _missed_example(rows: Sequence[Data]) -> list[str]:
    missing = []
    for name, most in (
        (DEFAULT, sixty_seconds.MOST_ABOVE),
        (sixty_seconds.GUARDED, sixty_seconds.MOST_ABOVE_GUARDED),
    ):
        mine = [row for row in rows if row["policy"] == name]
        reward, above = (float(np.mean([row[what] for row in mine])) for what in ("reward", "rounds_above"))
        if reward < sixty_seconds.LEAST_REWARD:
            missing.append(
                f"README's example: {name} earns {reward:,.0f} instead of {sixty_seconds.LEAST_REWARD:,}"
            )
        if above > most:
            missing.append(f"README's example: {name} has {above:.1f} rounds above zero instead of {most}")
    return missing


# ------------------------------------------------------------------------------------------------------------ tables


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body)]
    return "\n".join(lines)


def _embolden(body: list[list[str]], column: int, able: Sequence[bool], *, highest: bool = False) -> None:
    """Make the best numbers of a column bold, among the rows that are able to win."""
    values = [float(row[column].replace(",", "").replace("−", "-").rstrip("%")) if ok and row[column] != "–" else None for row, ok in zip(body, able)]  # fmt: skip
    known = [value for value in values if value is not None]
    if known:
        best = max(known) if highest else min(known)
        for row, value in zip(body, values):
            if value == best:
                row[column] = f"**{row[column]}**"


def _regret(row: Data, *, bold: bool) -> str:
    text = format_estimate(row["regret"], row["regret_low"], row["regret_high"])
    text = f"**{text}**" if bold else text
    return text if row["kept"] else f"{text}, violates"


def _number(value: float | None) -> str:
    """At most three digits after the point, fewer for what is large."""
    if value is None:
        return "–"
    return format_number(value, 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2)
