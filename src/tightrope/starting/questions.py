"""A problem from answers to questions, if there is no table yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tightrope.errors import InvalidInput
from tightrope.messages import did_you_mean
from tightrope.starting.rule_text import Used, read_rule, rule_of
from tightrope.validation import finite_number
from tightrope.words import Shown

# Asks a question; Enter gives the default answer.
Ask = Callable[[str, str], str]


@dataclass(frozen=True)
class Answers:
    """What people say about a problem that has no table yet.

    `context` holds fields such as ``age: 0..120`` and ``sex: f, m``; `rules` such as ``letter <= 0.3`` and
    ``minutes <= 4.5``; `usage`, by its name, what each action uses; `chances` how often each action succeeds, as a guess.
    """

    name: str = "experiment"
    actions: Sequence[str] = ("a", "b")
    context: Sequence[str] = ()
    rules: Sequence[str] | None = None
    usage: dict[str, dict[str, float]] = field(default_factory=dict)
    chances: dict[str, float] = field(default_factory=dict)

    def data(self, *, rounds: int, replications: int) -> tuple[dict[str, Any], dict[str, str]]:
        """The spec as plain data, and the reasons for its rules."""
        names = [one.strip() for one in self.actions]
        if len(names) < 2 or len({*names}) < len(names) or not all(names):
            got = Shown(", ".join(map(repr, names)))
            raise InvalidInput(field="actions", must="be at least two different names", got=got)
        for given in self.chances:
            if given not in names:
                hint = f"{did_you_mean(given, names)}; actions: {', '.join(names)}"
                raise InvalidInput(f"chance {given!r} names no action{hint}", field="chance")
        chances = [self.chances.get(one, guess) for one, guess in zip(names, _guesses(len(names)))]
        for name, chance in zip(names, chances):
            finite_number(f"chance of {name!r}", chance, low=0.0, high=1.0)
        rules, reasons = [_rule(text, names, self.usage) for text in self.rules or ()], {}
        if self.rules is None:
            best = names[chances.index(max(chances))]
            rules = [{"kind": "capacity", "action": best, "at_most": 0.5}]
            why = "An example: the most promising action gets no more than half. Change it or remove it."
            reasons[f"{best} <= 0.5"] = why
        return {
            "name": self.name,
            "actions": names,
            "context": dict(_field(one) for one in self.context),
            "reward": {"range": [0, 1]},
            "rule": rules,
            "environment": {"kind": "tabular", "weights": [1.0], "rewards": [chances]},
            "simulation": {"rounds": rounds, "replications": replications},
        }, reasons

    @classmethod
    def asked(cls, ask: Ask, given: Answers) -> Answers:
        name = ask("What is it about, in one word?", given.name)
        actions = _split(ask("What are the actions? Names, separated by commas", ", ".join(given.actions)))
        asked = "What is known before a decision? Such as   age: 0..120   or   sex: f, m"
        print(f"{asked}   ; Enter ends the list.")
        context = [*given.context, *_listed(ask, "  known before", _field)]
        chances = dict(given.chances)
        for one, guess in zip(actions, _guesses(len(actions))):
            question = f"How often does {one!r} succeed, as a guess from 0 to 1?"
            chances[one] = _asked_number(ask, question, chances.get(one, guess))
        usage = dict(given.usage)

        def check(rule: str) -> None:
            subject = read_rule(rule).name
            if subject not in actions and subject not in usage:
                questions = {one: f"  how many {subject} does {one!r} use?" for one in actions}
                usage[subject] = {one: _asked_number(ask, words, 1.0) for one, words in questions.items()}
            _rule(rule, actions, usage)

        print(
            f"What must hold? For example   {actions[0]} <= 0.3   (at most 30 % of the decisions),   minutes <= 4.5   "
            "(on average per decision); Enter ends the list."
        )
        rules = [*(given.rules or ()), *_listed(ask, "  rule", check)]
        return cls(name, actions, context, rules, usage, chances)


def _rule(text: str, actions: Sequence[str], usage: dict[str, dict[str, float]]) -> dict[str, Any]:
    name = read_rule(text).name
    if name in usage and (missing := [one for one in actions if one not in usage[name]]):
        raise InvalidInput(f"rule {text!r}: how many {name} does {missing[0]!r} use?")
    used = {
        what: Used(min(by.values()), max(by.values()), {"usage": {one: by.get(one) for one in actions}})
        for what, by in usage.items()
    }
    each = ",".join(f"{one}=1" for one in actions)
    return rule_of(text, actions, used, f". If actions use it, say how much: --usage {name}:{each}")


def _field(text: str) -> tuple[str, dict[str, Any]]:
    """``age: 0..120`` or ``sex: f, m``."""
    name, _, told = text.partition(":")
    name, told = name.strip(), told.strip()
    ends = re.fullmatch(r"(\S+?)\s*(?:\.\.|…|–| to )\s*(\S+)", told)
    if name and ends:
        try:
            ranged = {"min": float(ends[1]), "max": float(ends[2])}
            return name, {"type": "number", **ranged, "outside": "clip"}
        except ValueError:
            pass
    values = _split(told)
    if not name or len(values) < 2:
        raise InvalidInput(field="context", must="look like 'age: 0..120' or 'sex: f, m'", got=text)
    return name, {"type": "category", "values": values}


def read_usage(text: str) -> tuple[str, dict[str, float]]:
    """``minutes:email=1,letter=9``: the name of a usage, and what each action uses."""
    name, _, told = text.partition(":")
    try:
        used = {one.partition("=")[0].strip(): float(one.partition("=")[2]) for one in told.split(",")}
    except ValueError:
        used = {}
    if not name or not used:
        raise InvalidInput(field="usage", must="look like 'minutes:email=1,letter=9'", got=text)
    return name.strip(), used


def _listed(ask: Ask, question: str, check: Callable[[str], object]) -> Iterator[str]:
    """Answers until an empty one, without those that `check` refuses."""
    while answer := ask(question, ""):
        try:
            check(answer)
            yield answer
        except InvalidInput as error:
            print(f"  {error}")


def _split(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _guesses(n: int) -> list[float]:
    """From 0.6 down to 0.4."""
    return [round(0.6 - 0.2 * i / max(1, n - 1), 3) for i in range(n)]


def _asked_number(ask: Ask, question: str, default: float) -> float:
    while True:
        answer = ask(question, f"{default:g}")
        try:
            return float(answer)
        except ValueError:
            print(f"  that must be a number, but got {answer!r}")
