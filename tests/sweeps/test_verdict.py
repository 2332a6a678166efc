"""Whether tuning was worth it, in words."""

from __future__ import annotations

from tightrope.sweeps.tune import Check, Trial


def check(rounds, difference, *, spread=1.0, met=True, shortfall=0.0, regret=100.0, error=None):
    """Three runs each: of the settings, with so much more regret, and of the untouched spec."""
    untouched = {"met": True, "error": error, "regret": regret, "reward_by_run": [50.0, 60.0, 70.0]}
    if error is not None:
        untouched |= {"met": None, "regret": None, "reward_by_run": None}
    rewards = [50.0 - difference - spread, 60.0 - difference, 70.0 - difference + spread]
    tuned = {"met": met, "shortfall": shortfall, "error": None, "reward_by_run": rewards}
    return Check.of(rounds, tuned, untouched)


def trial(*checks, missed=()):
    settings = {"policy.explore": 0.7, "policy.caution": 3.0}
    return Trial(settings, {}, checks, "the defaults", missed)


def test_less_regret_at_all_lengths_is_worth_it():
    found = trial(check(1_000, -12.0), check(2_000, -9.0), check(5_000, -6.0, regret=200.0))
    assert found.words == (
        "explore 0.7, caution 3.0: 12 % less regret than the defaults at 1,000 rounds (−12.0 [−14.5, −9.5]), "
        "9 % less at 2,000 (−9.0 [−11.5, −6.5]), 3 % less at 5,000 (−6.0 [−8.5, −3.5]): worth it"
    )
    assert found.worth_it
    assert not found.passed_over


def test_more_regret_later_is_not():
    found = trial(check(1_000, -12.0), check(2_000, -9.0), check(5_000, 15.0))
    assert "15 % more at 5,000 (15.0 [12.5, 17.5]): not worth it" in found.words
    assert found.passed_over
    assert not found.worth_it


def test_what_chance_may_explain_is_not():
    found = trial(check(1_000, -2.0, spread=5.0), check(2_000, -9.0), check(5_000, -9.0))
    assert found.words.endswith(": not worth it, since chance alone may explain it")
    assert not found.worth_it
    assert not found.passed_over


def test_a_target_that_is_missed_is_named():
    found = trial(check(1_000, -12.0), check(2_000, -12.0, met=False, shortfall=0.25))
    assert "; the target is missed at 2,000 rounds by 0.25: not worth it" in found.words
    assert found.passed_over


def test_more_regret_is_worth_it_where_the_untouched_spec_misses_the_target():
    lengths = [check(rounds, 8.0) for rounds in (1_000, 2_000, 5_000)]
    assert trial(*lengths).passed_over
    found = trial(*lengths, missed=(2_000, 5_000))
    assert found.worth_it
    assert found.words.endswith("; the defaults missed the target at 2,000 and 5,000 rounds: worth it")


def test_nothing_to_compare_with():
    found = trial(*(check(rounds, 0.0, error="slater is missing") for rounds in (1_000, 2_000, 5_000)))
    assert found.worth_it
    assert found.words == (
        "explore 0.7, caution 3.0: the defaults can't run, so there is nothing to compare with (slater is missing): worth it"
    )
    assert found.as_data()["checks"][0]["difference"] is None


def test_the_same_in_every_run():
    found = trial(*(check(rounds, 0.0, spread=0.0) for rounds in (1_000, 2_000, 5_000)))
    assert found.words == "explore 0.7, caution 3.0: the same decisions as the defaults"
    assert not found.worth_it
    assert not found.passed_over


def test_regret_of_zero_has_no_percentages():
    found = trial(*(check(rounds, -2.0, regret=0.0) for rounds in (1_000, 2_000, 5_000)))
    assert "2 less regret than the defaults at 1,000 rounds" in found.words
