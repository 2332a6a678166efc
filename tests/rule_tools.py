"""Random sets of rules over three actions, for tests of what is made of them."""

from __future__ import annotations

from hypothesis import strategies as st

from tightrope.errors import InfeasibleProblem
from tightrope.rules import Budget, Capacity, Mean, Rules, Share

ABC = ["a", "b", "c"]
RANGES = {"hours": (0.0, 1.0), "wait": (-2.0, 6.0), "dose": (1.0, 1.5)}
LIMITS = {"hours": (0.0, 2.0), "wait": (-2.0, 9.0), "dose": (1.0, 3.0)}
groups_of_actions = st.sampled_from(["a", "b", "c", ("a", "b"), ["c", "a"], ("a", "b", "c")])
among = st.sampled_from([None, None, "A", "B", ("A", "B")])
seen = st.sampled_from(["before", "after"])


@st.composite
def any_rule(draw):
    kind = draw(st.sampled_from(["capacity", "share", "budget", "mean"]))
    common = {"among": draw(among), "seen": draw(seen)}
    if kind == "capacity":
        return Capacity(draw(groups_of_actions), draw(st.floats(0, 1)), **common)
    if kind == "share":
        return Share(draw(groups_of_actions), draw(st.floats(0, 1)), **common)
    name = draw(st.sampled_from(sorted(RANGES)))
    limit = draw(st.floats(*LIMITS[name]))
    common["range"] = RANGES[name]
    if kind == "budget":
        return Budget(name, limit, draw(st.none() | groups_of_actions), **common)
    low = draw(st.none() | st.floats(RANGES[name][0] - 1, limit))
    return Mean(name, at_most=limit, at_least=low, **common)


@st.composite
def any_rules(draw):
    rules = draw(st.lists(any_rule(), max_size=6, unique=True))
    while True:
        try:
            return Rules(rules, actions=ABC)
        except InfeasibleProblem as conflict:
            rules = [rule for rule in rules if rule not in conflict.rules]
