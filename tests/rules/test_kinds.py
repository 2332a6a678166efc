"""The kinds of rule: their fields, scales and words."""

from __future__ import annotations

import pytest

from tightrope.errors import InvalidInput
from tightrope.rules import Budget, Capacity, Mean, Share, rule_fields


@pytest.mark.parametrize(
    ("rule", "scale"),
    [
        (Capacity("a", 0.2), 1.0),
        (Budget("h", 0.4), 1.0),
        (Budget("h", 0.4, range=(0, 0.5)), 1.0),
        (Budget("h", 3.0, range=(0, 8)), 8.0),
        (Budget("h", 10.0, range=(0, 8)), 10.0),  # limit above the range: never violated
        (Budget("h", 2.0, range=(3, 4)), 2.0),  # limit below it: never met
        (Budget("h", 3.5, range=(3, 4)), 1.0),
        (Budget("h", 3.5, "a", range=(3, 4)), 4.0),  # 0 where another action is chosen
        (Mean("h", at_least=-1, at_most=3, range=(0, 2)), 4.0),
    ],
)
def test_scale_is_the_width_of_values_and_limits(rule, scale):
    assert rule.scale == scale


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Capacity("a", 1.7), r"Capacity\('a'\): at_most must lie in \[0, 1\].*but got 1.7"),
        (lambda: Capacity("a", -0.1), "at_most must lie in"),
        (lambda: Share("a", float("nan")), r"at_least must lie in \[0, 1\], but got nan"),
        (lambda: Share("a", "0.5"), "at_least must be a number, but got '0.5'"),
        (lambda: Share("a", True), "at_least must be a number, but got True"),
        (lambda: Share("", 0.5), "Share: action must be a name"),
        (lambda: Share([], 0.5), "Share: action must name one action or several"),
        (lambda: Share(["a", "a"], 0.5), "several different ones"),
        (
            lambda: Share(["a", 1.5], 0.5),
            r"action\[1\] must be a name that is not empty, or an index >= 0, but got 1.5",
        ),
        (lambda: Share(-1, 0.5), "index >= 0, but got -1"),
        (lambda: Share(None, 0.5), "but got None"),
        (lambda: Capacity("a", 0.5, among=""), "among must name"),
        (lambda: Capacity("a", 0.5, among=["A", "A"]), "among must name"),
        (lambda: Capacity("a", 0.5, among=3), "among must name"),
        (lambda: Capacity("a", 0.5, seen="later"), "seen must be 'before' or 'after', but got 'later'"),
        (lambda: Capacity("a", 0.5, name=""), "name must be a text"),
        (lambda: Budget("", 0.5), "Budget: name must be a text"),
        (lambda: Budget("h", float("inf")), "at_most must be finite"),
        (lambda: Budget("h", 10**400), "at_most must be finite"),
        (lambda: Budget("h", 0.5, range=(1, 0)), "low < high"),
        (lambda: Budget("h", 0.5, range=(0,)), r"must be a pair"),
        (lambda: Budget("h", 0.5, range="01"), r"must be a pair"),
        (lambda: Budget("h", 0.5, range=(0, float("nan"))), r"range\[1\] must be finite"),
        (lambda: Budget("h", 0.5, range=(-1e308, 1e308)), "too far apart"),
        (lambda: Mean("h"), "at_most or at_least must be given"),
    ],
)
def test_bad_rules(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Capacity("icu", at_most=0.2), "icu: at most 20% of decisions"),
        (Share("icu", at_least=0.175), "icu: at least 17.5% of decisions"),
        (Budget("nurse_hours", at_most=0.4), "nurse_hours: at most 0.4 per decision on average"),
        (
            Share(["icu", "surgery"], 0.3, among="A"),
            "among group A: icu or surgery: at least 30% of that group's decisions",
        ),
        (
            Budget("nurse_hours", 0.1875, action="icu"),
            "nurse_hours used by icu: at most 0.1875 per decision on average",
        ),
        (Mean("wait", at_least=0.1), "wait: at least 0.1 per decision on average"),
        (
            Mean("wait", 2, 1, among=("A", "B"), range=(0, 5), seen="after"),
            "among groups A or B: wait: at least 1 and at most 2 per decision of those groups on average "
            "(seen after acting)",
        ),
        (Capacity((0, 1, 4), 1), "actions 0, 1 or 4: at most 100% of decisions"),
    ],
)
def test_words(rule, words):
    assert str(rule) == words


def test_the_fields_of_a_kind_and_which_must_be_given():
    fields = {"action": True, "at_most": True, "among": False, "seen": False, "name": False}
    windows = ("per", "by", "zone", "hard", "resolution", "expiry", "max_keys", "count")
    assert rule_fields("capacity") == fields | dict.fromkeys(windows, False)
