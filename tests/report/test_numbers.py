"""Numbers as people write them."""

from __future__ import annotations

import pytest

from tightrope.report import (
    format_estimate,
    format_number,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (12345.678, "12,346"),
        (999.96, "1,000"),
        (0.5, "0.5"),
        (123.456, "123.5"),
        (-0.00625, "−0.00625"),
        (3.2e-7, "3.20·10⁻⁷"),
        (float("inf"), "∞"),
        (float("nan"), "–"),
    ],
)
def test_format_number(value: float, text: str) -> None:
    assert format_number(value) == text


def test_format_estimate_shows_what_the_interval_can_bear() -> None:
    assert format_estimate(55.123, 54.9, 55.4) == "55.12 [54.90, 55.40]"
    assert format_estimate(1874.2, 1802.0, 1950.0) == "1,874 [1,802, 1,950]"
    assert format_estimate(-0.001, -0.4, 0.4) == "0.00 [−0.40, 0.40]"
    assert format_estimate(2.5, 2.5, 2.5) == "2.5 [2.5, 2.5]"
