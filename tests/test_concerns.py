"""Concerns: counted over runs, told as warnings that point at the caller."""

from __future__ import annotations

import pytest

import tightrope as tr
from tightrope.concerns import Concern, in_runs, of_runs, warn

ONE, OTHER = Concern("one", "It is 1.", "Do this."), Concern("other", "It is 2.", "Do that.")


def test_runs_are_counted_by_kind_and_the_first_message_stays():
    later = Concern("one", "It is 7.", "Do this.")
    assert of_runs([[], [ONE, OTHER], [later]]) == (
        Concern("one", "It is 1.", "Do this.", runs=2),
        Concern("other", "It is 2.", "Do that.", runs=1),
    )
    assert of_runs([[], []]) == ()


@pytest.mark.parametrize(
    ("runs", "n", "words"),
    [(1, 1, "It is 1. Do this."), (3, 3, "in all 3 runs"), (17, 20, "in 17 of 20 runs")],
)
def test_in_how_many_runs(runs, n, words):
    [found] = of_runs([[ONE]] * runs)
    assert in_runs(found, n).startswith(words)


def test_a_warning_names_the_line_of_the_caller():
    with pytest.warns(tr.errors.PolicyWarning, match=r"^It is 1\. Do this\.$") as told:
        warn(ONE)
    assert [one.filename for one in told] == [__file__]
