"""What words cost: `decide` and `learn` with usage and group by name, beside the same rounds with the costs as a matrix.

    python benchmarks/words.py                 # the table
    python benchmarks/words.py --rounds 100000 --json words.json
    python benchmarks/words.py --policy my_file.py:make   # another policy: make(reward, cost, rules, slater) → policy

Every case plays the same rounds twice, once on words and once on the costs that `Rules.costs` makes of them, and says whether both
made the same choices. Processor time, µs a round, in blocks of a hundred rounds that take turns: the median, and the fastest
twentieth of the blocks, which is what a machine without other work shows.
"""

from __future__ import annotations

import argparse
import json
import runpy
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import tightrope as tr

BLOCK = 100
DRAWN = 1_000  # different rounds, played over and over

Rounds = list[tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]]


@dataclass(frozen=True)
class Case:
    """Rules over J actions, the form in which usage is said, and the models."""

    rules: str
    form: str
    shared: bool = False  # one model on features of each action, or one for each action
    slater: float | None = 0.1  # None: measured

    @property
    def name(self) -> str:
        model = "Ridge(20), J = 10" if self.shared else "DisjointRidge(6, 10)"
        return f"{self.rules}, {self.form}, {model}{'' if self.slater else ', slater measured'}"


def rule_sets(J: int) -> dict[str, tr.Rules]:
    """Rules of growing size over actions a, b, c, …"""
    actions = [chr(ord("a") + j) for j in range(J)]
    three = [tr.Capacity("a", at_most=0.3), tr.Share("b", at_least=0.1), tr.Budget("hours", at_most=0.5)]
    eight = [
        *three,
        tr.Capacity("c", at_most=0.4, among="A"),
        tr.Share("d", at_least=0.05, among=("A", "B")),
        tr.Budget("beds", at_most=0.6, action=("a", "b"), among="B"),
        tr.Mean("age", at_most=70.0, at_least=20.0, range=(0.0, 100.0)),
        tr.Mean("risk", at_most=0.6),
    ]
    late = [*three[:2], tr.Budget("hours", at_most=0.5, seen="after"), tr.Budget("beds", at_most=0.6)]
    after = [
        tr.Budget("hours", at_most=0.5, seen="after"),
        tr.Mean("risk", at_most=0.6, seen="after", among="A"),
    ]
    paper = [tr.Budget("nursing", at_most=0.2, action=name) for name in actions]
    paper += [tr.Capacity(name, at_most=0.4) for name in actions]
    paper += [tr.Share(name, at_least=0.05) for name in actions]
    found = {
        "3 rules": three,
        "8 rules": eight,
        f"{3 * J} rules": paper,
        "some seen after": late,
        "all seen after": after,
    }
    return {name: tr.Rules(rules, actions=actions) for name, rules in found.items()}


RANGES = {"hours": 1.0, "beds": 1.0, "age": 100.0, "risk": 1.0, "nursing": 1.0}
FORMS: dict[str, Callable[[np.ndarray, tuple[str, ...]], Any]] = {
    "arrays": lambda values, _: values,
    "lists": lambda values, _: values.tolist(),
    "numbers": lambda values, _: float(values[0]),
    "tables": lambda values, actions: dict(zip(actions, values.tolist())),
}


def make_policy(reward: tr.Model, cost: tr.Model | None, rules: tr.Rules, slater: float | None) -> Any:
    """The paper's policy."""
    return tr.PessimisticOptimistic(
        reward=reward, cost=cost, constraints=rules, slater=slater, horizon=100_000
    )


def drawn_rounds(case: Case, rules: tr.Rules, J: int, d: int) -> tuple[Rounds, Rounds]:
    """What is given to `decide` and `learn` in each round, in words, and as numbers."""
    draw = np.random.default_rng(1)
    names = {column.rule.name for column in rules.columns if column.rule.counts_usage}
    late = not rules.seen.all()
    words, numbers = [], []
    for _ in range(DRAWN):
        shape = (J, d) if case.shared else (d,)
        x = draw.normal(size=shape)
        x /= np.linalg.norm(x, axis=-1, keepdims=True)
        group = ("A", "B", "C")[draw.integers(3)]
        said = {}
        for name in sorted(names):
            values = draw.uniform(0.0, RANGES[name], size=J)
            said[name] = np.full(J, values[0]) if case.form == "numbers" else values
        before = {
            column.rule.name
            for k, column in enumerate(rules.columns)
            if column.rule.counts_usage and rules.seen[k]
        }
        form = FORMS[case.form]
        usage = {name: form(values, rules.actions) for name, values in said.items() if name in before}
        rest = {"cost_features": x} if late else {}
        seen = {name: float(values[0]) for name, values in said.items() if name not in before}
        words.append(((x,), {**rest, "usage": usage, "group": group}, {"usage": seen} if late else {}))
        W = rules.costs(usage, group)
        observed = {"costs": rules.observed(seen, "a", group)} if late else {}
        shown = () if not rules.seen.any() else (W,)
        numbers.append(((x, *shown), {**rest, "group": group}, observed))
    return words, numbers


def play(policy: Any, rounds: Rounds, rewards: list[float], times: int) -> Iterator[tuple[float, list[int]]]:
    """µs a round and the choices, for one block of rounds after another."""
    for block in range(times):
        chosen = []
        first = block * BLOCK % DRAWN
        started = time.process_time()
        for i in range(first, first + BLOCK):
            given, named, outcome = rounds[i]
            decision = policy.decide(*given, **named)
            policy.learn(decision, rewards[i], **outcome)
            chosen.append(decision.action)
        yield (time.process_time() - started) / BLOCK * 1e6, chosen


def measure(case: Case, rounds: int, make: Callable[..., Any]) -> dict[str, Any]:
    """µs a round in words and in numbers, in turns."""
    J, d = (10, 20) if case.shared else (6, 10)
    rules = rule_sets(J)[case.rules]
    rewards = np.random.default_rng(2).uniform(size=DRAWN).tolist()

    def model() -> tr.Model:
        return tr.Ridge(d) if case.shared else tr.DisjointRidge(J, d)

    made = [make(model(), None if rules.seen.all() else model(), rules, case.slater) for _ in range(2)]
    runs = [
        play(policy, drawn, rewards, rounds // BLOCK)
        for policy, drawn in zip(made, drawn_rounds(case, rules, J, d))
    ]
    times: tuple[list[float], list[float]] = ([], [])
    same = played = 0
    for both in zip(*runs):
        for spent, (microseconds, _) in zip(times, both):
            spent.append(microseconds)
        same += sum(a == b for a, b in zip(both[0][1], both[1][1]))
        played += BLOCK
    row: dict[str, Any] = {"case": case.name, "same": same / played}
    for name, spent in zip(("words", "numbers"), times):
        warm = spent[len(spent) // 20 + 1 :]
        row |= {name: statistics.median(warm), f"{name}_at_best": statistics.quantiles(warm, n=20)[0]}
    return row


CASES = [
    *(Case(rules, form) for rules in ("3 rules", "8 rules") for form in FORMS),
    *(Case(rules, form, shared=True) for rules in ("3 rules", "8 rules") for form in ("arrays", "lists")),
    Case("18 rules", "arrays"),
    Case("8 rules", "lists", slater=None),
    Case("some seen after", "lists"),
    Case("some seen after", "lists", shared=True),
    Case("all seen after", "numbers"),
]


def main() -> None:
    """The table, or a file for machines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--policy", help="FILE:FUNCTION that makes the policy")
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    make = make_policy
    if given.policy:
        path, _, function = given.policy.rpartition(":")
        make = runpy.run_path(path)[function]
    rows = []
    print("| rules, usage, model | words | at best | numbers | at best | same choices |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for case in CASES:
        row = measure(case, given.rounds, make)
        rows.append(row)
        times = " | ".join(
            f"{row[name]:.2f}" for name in ("words", "words_at_best", "numbers", "numbers_at_best")
        )
        print(f"| {row['case']} | {times} | {row['same']:.0%} |", flush=True)
    if given.json:
        with open(given.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
