"""What the theorems promise, as numbers: those of the paper, of its variants, and of policies that steer by shadow prices.

>>> print(guarantees(K=1, delta=0.5, d=4, T=1_000_000))
K = 1, delta = 0.5, d = 4, T = 1000000
promise                               bound      trivial  informative
regret by round T                  215417.8      1000000  yes
violation by round T                      0      1000000  yes
no violation from round              246722      1000000  yes
the same, sharper proof                2678      1000000  yes
the same, best proof                    597      1000000  yes
a path violates: < 1 % from            1100      1000000  yes
P(a path violates at T)                   1            1  no
path bound holds from round         8086025      1000000  no
capped: regret by round T            210345      1000000  yes
capped: no violation from               721      1000000  yes
capped: a path, < 1 % from             1542      1000000  yes
regret by T, learnt costs      1.753548e+10      1000000  no
violation by T, learnt costs        1453868      1000000  no
none from, learnt costs        2.003445e+08      1000000  no
capped: none from, learnt           3138677      1000000  no
"""

from tightrope_lab.theory.capped import (
    capped_ends,
    capped_schedules,
    regret_bound_capped,
    regret_bound_linear_capped,
    violation_bound_capped,
    violation_bound_linear_capped,
    violation_ends_capped,
    violation_ends_linear_capped,
)
from tightrope_lab.theory.measured import overestimate_probability, violation_bound_measured
from tightrope_lab.theory.paper import (
    Form,
    drift_exponent,
    drift_mean_bound,
    elliptical_potential,
    linucb_bound,
    queue_bound,
    queue_bound_linear,
    queue_bound_schedule,
    radius,
    regret_bound,
    regret_bound_linear,
    tail_bound,
    tail_bound_full,
    tail_starts,
    tightness_cost,
    violation_bound,
    violation_bound_linear,
    violation_bound_schedule,
    violation_ends,
    violation_ends_linear,
    violation_ends_schedule,
)
from tightrope_lab.theory.price_regret import (
    FiniteWorld,
    RegretParts,
    price_cost_bound,
    regret_bound_prices,
    regret_parts,
    steered_prices,
)
from tightrope_lab.theory.promises import Guarantees, guarantees
from tightrope_lab.theory.safeguards import (
    Ratchet,
    RatchetPromise,
    ratchet_promise,
    rounds_without_safe_action,
)
from tightrope_lab.theory.totals import (
    LogTimes,
    Steering,
    Summed,
    excess_bound,
    expected_total_bound,
    expected_violation_ends,
    log_moment_bound,
    violation_probability_bound,
    violation_probability_ends,
)

__all__ = ["capped_ends", "capped_schedules", "regret_bound_capped", "regret_bound_linear_capped"]
__all__ += ["violation_bound_capped", "violation_bound_linear_capped", "violation_ends_capped"]
__all__ += ["violation_ends_linear_capped"]
__all__ += ["overestimate_probability", "violation_bound_measured"]
__all__ += ["Form", "drift_exponent", "drift_mean_bound", "elliptical_potential", "linucb_bound"]
__all__ += ["queue_bound", "queue_bound_linear", "queue_bound_schedule", "radius", "regret_bound"]
__all__ += ["regret_bound_linear", "tail_bound", "tail_bound_full", "tail_starts", "tightness_cost"]
__all__ += ["violation_bound", "violation_bound_linear", "violation_bound_schedule", "violation_ends"]
__all__ += ["violation_ends_linear", "violation_ends_schedule"]
__all__ += ["FiniteWorld", "RegretParts", "price_cost_bound", "regret_bound_prices", "regret_parts"]
__all__ += ["steered_prices"]
__all__ += ["Guarantees", "guarantees"]
__all__ += ["Ratchet", "RatchetPromise", "ratchet_promise", "rounds_without_safe_action"]
__all__ += ["LogTimes", "Steering", "Summed", "excess_bound", "expected_total_bound"]
__all__ += ["expected_violation_ends", "log_moment_bound", "violation_probability_bound"]
__all__ += ["violation_probability_ends"]
