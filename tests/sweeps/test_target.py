"""Targets, and how runs are held against them."""

from __future__ import annotations

import numpy as np
import pytest

from sweep_tools import run_of
from tightrope.errors import InvalidInput
from tightrope.sweeps import Target


def test_targets_are_judged_at_every_recorded_round_after_theirs():
    run = run_of([[5.0, 2.0, -1.0, -1.0]] * 3, rounds=[10, 20, 30, 40])
    assert Target.parse("violation<=0").judge(run)[0]
    assert Target.parse("violation<=0 after 20").judge(run)[0]
    judged = Target.parse("violation <= 0 after 19").judge(run)
    assert judged == (False, 2.0)
    assert Target.parse("violation<=5 after 1 and regret<=20").judge(run)[0]
    assert not Target.parse("violation<=0 and regret<20").judge(run)[0]  # regret is 40 · (1 − 0.5), exactly
    assert Target.parse("path_violation<=1e-3 after 2_0").judge(run)[0]


def test_targets_count_the_high_end_of_the_interval():
    rng = np.random.default_rng(1)
    run = run_of(rng.normal(-0.2, 1.0, (20, 1)), rounds=[10])
    assert run.violation.high[-1] > 0.0
    assert not Target.parse("violation<=0").judge(run)[0]
    assert Target.parse("violation<=0").judge(run_of(rng.normal(-2.0, 1.0, (20, 1)), rounds=[10]))[0]
    with pytest.raises(InvalidInput, match="at least 2"):
        Target.parse("violation<=0").judge(run_of([[-1.0]], rounds=[10]))


def test_targets_ask_for_the_rounds_that_they_speak_of():
    target = Target.parse("violation<=0 after 500 and regret<=9")
    recorded = target.recorded(2_000)
    assert recorded[0] == 501
    assert recorded[-1] == 2_000
    assert 60 <= len(recorded) <= 101
    assert max(np.diff(recorded)) <= 40
    assert Target.parse("regret<=9").recorded(2_000) == [2_000]
    with pytest.raises(InvalidInput, match="must leave rounds to judge"):
        target.recorded(500)


@pytest.mark.parametrize(
    "text",
    ["", "violation", "violation=0", "violation>=0", "violation<=x", "violation<=nan", "violation<=0 after", "cost<=0",
     "violation<=0 after x", "violation<=0 after 1.5", "violation<=0 or regret<=1", "violation<=0 after -3"],
)  # fmt: skip
def test_bad_targets_are_refused(text):
    with pytest.raises(InvalidInput, match="target"):
        Target.parse(text)
