"""The words of reports, explained for who has not read the paper."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple


class Word(NamedTuple):
    """A word of reports: its title, how texts mention it where that leads to its meaning, the longest first, and its meaning."""

    title: str
    mentions: tuple[str, ...]
    meaning: str


# In the order in which they are explained: each uses only what stands above it.
WORDS = {
    "round": Word(
        "round",
        (),
        "One decision: a context is seen, an action is chosen, a reward is earned. **T** is the number of rounds.",
    ),
    "run": Word(
        "run",
        (),
        "One simulation from the first round to the last. Several runs, on other draws, tell what is chance: brackets "
        "and bands are 95 % intervals over runs.",
    ),
    "optimum": Word(
        "optimum",
        ("optimum",),
        "The most that any way of choosing could earn a round, on average and under the rules, if everything were known. "
        "A linear program finds it.",
    ),
    "regret": Word(
        "regret",
        ("regrets", "regret"),
        "What was earned less than the optimum would have, added up over the rounds. 0 is perfect; below 0 was earned by "
        "breaking rules, or by luck.",
    ),
    "cost": Word(
        "cost",
        (),
        "Of a decision and a rule: what is used, less what the rule allows. Above 0 it takes room, below 0 it gives some back.",
    ),
    "total": Word(
        "total, or cumulative cost",
        ("cumulative costs", "cumulative cost", "totals"),
        "The costs of all decisions so far, added up: one for each rule. **A rule holds while its total is at or below 0.**",
    ),
    "violation": Word(
        "violation",
        ("expected violation", "path violation", "violations", "violation"),
        "By how much totals are above 0, added over the rules; since rules differ in their units, each is divided by the width "
        "of its range (a share of decisions by 1) first. *Expected*: of totals averaged over runs, chance taken "
        "out. *Path*: of the totals of each run.",
    ),
    "last violated": Word(
        "last violated round",
        ("last violated round", "last violated"),
        "The last round of a run in which some total was above 0: from then on all rules held.",
    ),
    "slater": Word(
        "Slater's constant δ",
        ("Slater's constant", "δ"),
        "How much room the rules leave: some way of choosing stays below every limit by δ a round. The smaller, the harder.",
    ),
    "optimism": Word(
        "optimism, radius, bonus",
        ("optimism", "radius", "bonus"),
        "What is not known well is taken to be as good as it may be, so that it is tried: r̂ is the estimated reward "
        "plus a *radius*, which shrinks "
        "with what is learnt. The *bonus* is a factor on the radius: 1 is what the theory asks for, 0.1 a tenth of it.",
    ),
    "queue": Word(
        "queue Q",
        ("virtual queue", "queues", "queue"),
        "Of the paper's algorithm, one number for each rule: it grows while the rule is overdrawn and falls while there "
        "is room. The longer, the more choices go by it.",
    ),
    "V": Word(
        "V_{t}",
        ("V_{t}",),
        "Of the paper's algorithm, the weight of reward against queues in round t: an action's value is its reward less "
        "Q/V_{t} times its cost.",
    ),
    "epsilon": Word(
        "ε_{t}",
        ("ε_{t}",),
        "Of the paper's algorithm, by how much every rule is tightened in round t: a margin that shrinks with time.",
    ),
    "schedules": Word(
        "schedules",
        ("schedules",),
        "How V_{t} and ε_{t} change with the round. The paper's experiments use simple ones, such as √t and 6/√t; "
        "Theorem 1 (costs seen before acting) and Theorem 2 "
        "(seen after acting) of the paper each prescribe their own, made of δ.",
    ),
    "clip": Word(
        "clip",
        ("clipped", "clips", "clip"),
        "A range that estimates are cut to. A *tight* clip is what a cost can really be, the *unit* clip is [−1, 1].",
    ),
    "price": Word(
        "price",
        ("shadow prices", "prices"),
        "The reward that one more unit of a rule's limit would earn: what `shadow-price` decides by, in place of queues.",
    ),
    "pareto": Word(
        "Pareto front",
        ("Pareto front",),
        "The settings that none beats in both: any other has more regret or more violation than one of them.",
    ),
}


def place_of(name: str) -> str:
    """Where a page explains a word."""
    return "word-" + name.lower().replace(" ", "-")


def with_links(text: str, words: Collection[str], told: set[str]) -> str:
    """Markup in which the first mention of each of these words leads to where it is explained; those in `told` have theirs.

    >>> with_links("Regret and totals; regret again.", ["regret", "total"], set())
    '[Regret](#word-regret) and [totals](#word-total); regret again.'
    """
    for name in words:
        mentions = WORDS[name].mentions
        if name in told or not mentions:
            continue
        pattern = re.compile(rf"(?<![\w{{/])({'|'.join(map(re.escape, mentions))})(?![\w_{{])", re.IGNORECASE)
        # Neither code nor what is a link already.
        parts = re.split(r"(`[^`]*`|\[[^\]]*\]\([^)]*\))", text)
        for i in range(0, len(parts), 2):
            parts[i], n = pattern.subn(rf"[\1](#{place_of(name)})", parts[i], count=1)
            if n:
                told.add(name)
                break
        text = "".join(parts)
    return text
