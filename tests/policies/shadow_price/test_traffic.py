"""The forecast of decisions, on days whose law is known."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope.policies.shadow_price.pacing.traffic import Traffic
from tightrope.rules.calendars import Calendar

MONDAY, DAY = 1_704_067_200.0, 86_400.0
UTC = Calendar("day", "UTC")


def times(day: int, n: int, rng: np.random.Generator) -> list[float]:
    """Most come between nine and twelve; at weekends half of them."""
    n = n // 2 if day % 7 >= 5 else n
    hours = np.where(rng.random(n) < 0.8, 9.0 + 3.0 * rng.random(n), 24.0 * rng.random(n))
    return (MONDAY + day * DAY + 3600.0 * np.sort(hours)).tolist()


def watched(days: int, n: int = 400, expect: float | None = None) -> Traffic:
    traffic, rng = Traffic(UTC.bounds, "UTC", expect), np.random.default_rng(0)
    for day in range(days):
        for t in times(day, n, rng):
            traffic = traffic.at(t)
            traffic.note(t)
    return traffic


def test_it_learns_the_level_the_weekdays_and_the_time_of_day() -> None:
    traffic = watched(21)
    monday = MONDAY + 21 * DAY
    asked = traffic.at(monday)
    assert asked.until(monday, monday + DAY)[0] == pytest.approx(400.0, rel=0.1)
    assert asked.until(monday, monday + 9 * 3600.0)[0] == pytest.approx(30.0, rel=0.4)
    assert asked.until(monday, monday + 12 * 3600.0)[0] == pytest.approx(360.0, rel=0.1)
    assert asked.until(monday, monday + 7 * DAY)[0] == pytest.approx(2400.0, rel=0.1)
    saturday = MONDAY + 26 * DAY
    assert traffic.at(saturday).until(saturday, saturday + DAY)[0] == pytest.approx(200.0, rel=0.2)


def test_asking_changes_nothing() -> None:
    traffic = watched(3)
    before = traffic.state.copy()
    later = traffic.at(MONDAY + 3 * DAY + 100.0)
    assert later is not traffic
    later.until(MONDAY + 3 * DAY + 100.0, MONDAY + 5 * DAY)
    np.testing.assert_array_equal(traffic.state, before)


def test_a_pause_of_days_teaches_no_empty_ones() -> None:
    traffic = watched(7)
    back = MONDAY + 14 * DAY
    assert traffic.at(back).until(back, back + DAY)[0] == pytest.approx(400.0, rel=0.15)


def test_a_day_that_was_joined_late_teaches_its_level_but_no_profile() -> None:
    traffic = Traffic(UTC.bounds, "UTC")
    for i in range(100):
        traffic = traffic.at(t := MONDAY + DAY / 2 + i * DAY / 200)
        traffic.note(t)
    following = traffic.at(MONDAY + DAY)
    assert following.until(MONDAY + DAY, MONDAY + 2 * DAY)[0] == pytest.approx(200.0, rel=0.05)
    assert following.until(MONDAY + DAY, MONDAY + 1.5 * DAY)[0] == pytest.approx(100.0, rel=0.05)


def test_with_expect_the_first_day_is_forecast() -> None:
    told = watched(0, expect=400.0).at(MONDAY)
    mean, deviation = told.until(MONDAY, MONDAY + DAY)
    assert (mean, deviation < 0.5) == (pytest.approx(400.0), True)


def test_what_is_to_come_by_time_of_day() -> None:
    traffic = watched(7)
    morning = MONDAY + 7 * DAY
    shares = traffic.at(morning).coming_by_time(8, morning, morning + DAY)
    assert (shares.sum(), shares[3] > 0.6) == (pytest.approx(1.0), True)
    evening = morning + 0.9 * DAY
    np.testing.assert_array_equal(traffic.at(evening).coming_by_time(8, evening, morning + DAY)[:7], 0.0)
