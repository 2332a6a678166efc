"""Significance against cases that were computed by hand."""

from __future__ import annotations

import pytest

from tightrope_lab.bakeoff.statistics import compare, holm, paired_p


def test_a_paired_t_test_by_hand():
    # Mean 0.2, deviation 0.1: t = 2√3. With 2 degrees of freedom p = 1 - t / √(2 + t²) = 1 - √(12/14).
    assert paired_p([0.1, 0.2, 0.3]) == pytest.approx(1 - (12 / 14) ** 0.5)
    assert paired_p([-0.1, -0.2, -0.3]) == paired_p([0.1, 0.2, 0.3])
    # With 1 degree of freedom p = 1 - 2 arctan(t) / π; mean 2, deviation √2: t = 2.
    assert paired_p([1.0, 3.0]) == pytest.approx(0.2951672353)


def test_equal_differences_prove_no_more_than_the_resolution_allows():
    # As if the deviation were 0.1: t = 0.2 √3 / 0.1.
    assert paired_p([0.2, 0.2, 0.2], resolution=0.1) == pytest.approx(1 - (12 / 14) ** 0.5)
    assert paired_p([0.5, 0.5, 0.5]) == 0.0
    assert paired_p([0.0, 0.0]) == 1.0
    assert paired_p([0.5]) == 1.0


def test_holm_by_hand():
    # 0.0125 = 0.05 / 4 is rejected, 0.0166 ≤ 0.05 / 3 too, 0.03 > 0.05 / 2 is not, and nothing after it.
    assert holm([0.03, 0.0125, 0.04, 0.0166]) == [False, True, False, True]
    assert holm([0.02, 0.02, 0.02]) == [False, False, False]
    assert holm([]) == []


def test_wins_and_losses_by_hand():
    theirs = {"a": {0: 0.5, 1: 0.5, 2: 0.5}, "b": {0: 0.5, 1: 0.5, 2: 0.5}, "c": {0: 0.5, 1: 0.5, 2: 0.5}}
    ours = {
        "a": {0: 0.600, 1: 0.601, 2: 0.599},  # t = 100 √3: p < 0.05 / 3
        "b": {0: 0.400, 1: 0.401, 2: 0.399},  # the same, the other way
        "c": {0: 0.600, 1: 0.700, 2: 0.800},  # t = 2√3: p = 0.07
        "only ours": {0: 1.0, 1: 1.0, 2: 1.0},
    }
    found = compare(ours, theirs, dict.fromkeys(theirs, 1e-3))
    assert (found.wins, found.losses, found.tables) == (("a",), ("b",), 3)


def test_runs_are_paired_by_their_seeds():
    ours = {"a": {0: 0.11, 1: 0.91, 2: 0.51}}
    theirs = {"a": {2: 0.50, 0: 0.10, 1: 0.90}}
    assert compare(ours, theirs, {"a": 1e-4}).wins == ("a",)
    assert compare(ours, {"a": {0: 0.1}}, {"a": 1e-4}).wins == ()
