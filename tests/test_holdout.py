"""The `[holdout]` and `[sticky]` of a spec: what is taken, what is refused, and how a control group is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tightrope.holdout import drawn, is_held_out
from tightrope.service.experiment.assignment import Assignment
from tightrope.spec import Spec, SpecError, make_spec


def spec(**tables: Any) -> Spec:
    return make_spec({"actions": ["a", "b", "c"], **tables})


@pytest.mark.parametrize(
    ("holdout", "shares"),
    [({"baseline": "b"}, [0.0, 1.0, 0.0]), ({"baseline": {"a": 0.25, "c": 0.75}}, [0.25, 0.0, 0.75])],
)
def test_an_action_and_a_mix_are_a_fixed_mix(holdout: dict[str, Any], shares: list[float]) -> None:
    read = spec(holdout={"share": 0.1, **holdout})
    assert read.baseline is not None
    assert (read.baseline.kind, read.baseline.settings) == ("fixed-mix", {"shares": shares})
    assert read.key_names == ()


def test_a_baseline_may_be_a_policy_of_its_own() -> None:
    read = spec(holdout={"share": 0.1, "by": "user", "policy": {"kind": "linucb"}})
    assert read.baseline is not None
    assert (read.baseline.kind, read.baseline.where, read.key_names) == (
        "linucb",
        "holdout.policy",
        ("user",),
    )


REFUSED = {
    "holdout.share: must be below 1.0, but got 1.5": {"holdout": {"share": 1.5, "baseline": "a"}},
    "holdout.share: is missing": {"holdout": {"baseline": "a"}},
    "holdout: needs a baseline": {"holdout": {"share": 0.1}},
    "but got both": {"holdout": {"share": 0.1, "baseline": "a", "policy": {}}},
    "holdout.baseline: must name actions of the spec, but got 'd'": {
        "holdout": {"share": 0.1, "baseline": "d"}
    },
    "holdout.baseline: must have shares that sum to 1, but they sum to 0.5": {
        "holdout": {"share": 0.1, "baseline": {"a": 0.5}}
    },
    "holdout.baseline.a: must lie in [0, 1], but got 2.0": {
        "holdout": {"share": 0.1, "baseline": {"a": 2.0, "b": -1.0}}
    },
    "holdout.shares: unknown field (did you mean 'share'?)": {"holdout": {"shares": 0.1}},
    "holdout.policy.knd: unknown field": {"holdout": {"share": 0.1, "policy": {"knd": 1}}},
    "sticky.for: must be a time such as": {"sticky": {"by": "user", "for": "7 weeks"}},
    "holdout.by: must be 'user', the key of [sticky]": {
        "holdout": {"share": 0.1, "by": "team", "baseline": "a"},
        "sticky": {"by": "user", "for": "7d"},
    },
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_wrong_is_named(words: str) -> None:
    with pytest.raises(SpecError) as refused:
        # What only the policy's class knows is found when it is built.
        Assignment(spec(**REFUSED[words]), {})
    assert words in str(refused.value)


def test_a_larger_control_group_holds_the_smaller_one() -> None:
    bits = [drawn("routing", f"user u{i}") for i in range(20_000)]
    small, large = (np.array([is_held_out(one, share) for one in bits]) for share in (0.1, 0.3))
    assert abs(small.mean() - 0.1) < 0.01
    assert abs(large.mean() - 0.3) < 0.01
    assert (large >= small).all()


def test_experiments_do_not_hold_out_the_same_users() -> None:
    one, other = (
        np.array([is_held_out(drawn(name, f"user u{i}"), 0.3) for i in range(20_000)]) for name in ("x", "y")
    )
    assert abs((one & other).mean() - 0.09) < 0.01
