"""One checker for each kind of value, and errors that name the entry."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope import validation
from tightrope.errors import InvalidInput


def test_plain_arrays_are_those_that_compiled_code_reads():
    given = np.zeros((2, 3)), np.zeros((2, 3)).T, [0.0]
    assert [validation.is_plain(one) for one in given] == [True, False, False]


def test_arrays_are_made_of_what_comes():
    array = validation.real_array("costs", [[0, 1]], (None, 2))
    assert array.dtype == np.float64
    assert array.tolist() == [[0.0, 1.0]]
    assert validation.finite_array("weights", [1, 2], (None,)).tolist() == [1.0, 2.0]
    assert validation.labels(np.array(["a", "b"], dtype=object)).dtype.kind == "U"


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            lambda: validation.require_finite("reward", np.array([1.0, np.nan])),
            "reward[1] must be finite, but got nan.",
        ),
        (
            lambda: validation.finite_number("slater", -0.1, low=0.0, high=1.0, open_low=True),
            "slater must lie in (0, 1], but got -0.1.",
        ),
        (
            lambda: validation.require_choice("truth", "linaer", ("linear", "misspecified")),
            "truth must be one of 'linear', 'misspecified', but got 'linaer'.",
        ),
        (
            lambda: validation.whole_number("horizon", 1.5, low=1),
            "horizon must be a whole number >= 1, but got 1.5.",
        ),
    ],
)
def test_errors_name_the_entry(check, message):
    with pytest.raises(InvalidInput) as refused:
        check()
    assert str(refused.value) == message


def test_numbers_outside_a_range():
    assert validation.taken_range(0.0, 120.0, "clip") == (0.0, 120.0)
    assert validation.taken_range(0.0, 120.0, "take") == (-1200.0, 1320.0)
