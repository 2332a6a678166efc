"""What the README says of whole tables."""

from fractions import Fraction

import numpy as np

import tightrope as tr
from readme_claims import claim


@claim(
    "A whole table at once. tr.allocate takes the same rules to a whole table and returns an action for each row, so that every "
    "rule holds exactly, with a proven gap (how)"
)
def test_a_whole_table_is_allocated_so_that_every_rule_holds_exactly():
    draw, n = np.random.default_rng(0), 20_000
    table = {
        f"{what}_{name}": draw.uniform(size=n) for what in ("score", "cost") for name in ("small", "large")
    }
    rules = tr.Rules(
        [tr.Capacity("large", at_most=0.4), tr.Budget("cost", at_most=0.45)], actions=["small", "large"]
    )
    reward, cost = ({name: f"{what}_{name}" for name in ("small", "large")} for what in ("score", "cost"))
    plan = tr.allocate(table, rules, reward=reward, usage={"cost": cost})
    chosen = np.asarray(plan.actions)
    assert len(chosen) == n
    assert (chosen == "large").sum() <= Fraction(4, 10) * n
    spent = sum(Fraction(repr(float(table[f"cost_{name}"][i]))) for i, name in enumerate(chosen.tolist()))
    assert spent <= Fraction(45, 100) * n
    earned = sum(table[f"score_{name}"][i] for i, name in enumerate(chosen.tolist()))
    assert 0.0 <= plan.gap <= 1e-4
    # Without rules nobody earns less; with them nobody earns more than the value and the gap say.
    assert earned <= np.maximum(table["score_small"], table["score_large"]).sum()
