"""What a policy would have earned and cost, estimated from the logged decisions of another one.

Four estimators, for the reward and for the mean cost of each constraint. With w = π(a|x) / p(a|x), target over log:

`replay`  keep a row with probability w / max w; the average of the rows kept
`ips`     the average of w·y: unbiased, and wide
`snips`   Σ w·y / Σ w: a little biased, mostly narrower, does not change when a constant is added to y
`dr`      the average of Σ_a π(a|x) ŷ(x, a) + w·(y − ŷ(x, a)), ŷ fitted on rows of other folds: unbiased, and narrow where ŷ is good

A policy that balances rules over time, by a queue or prices, is not a table of probabilities: `evaluate_live` lets it run on
the log's rows and judges what it does on average.

All of this needs a log whose actions were drawn at random with known probabilities. How good the intervals are, and what may not
be concluded, is in `docs/real-data.md`.

>>> import numpy as np
>>> rng = np.random.default_rng(1)
>>> actions = rng.integers(0, 2, 1000)
>>> rewards = (rng.random(1000) < np.array([0.3, 0.6])[actions]).astype(float)
>>> log = Log(actions, rewards, costs=np.array([[-0.2], [0.1]])[actions], propensities=np.full(1000, 0.5))
>>> print(evaluate(log, np.tile([0.2, 0.8], (1000, 1)), "snips"))
snips on 1,000 rows, worth 731 rows of the target's own
              estimate  95 % interval     limit  verdict
reward          0.5204  0.4843 to 0.5566
constraint 0    0.0383  0.0322 to 0.0444      0  violated with 95 % confidence
"""

from tightrope.log import Log, LogColumns
from tightrope.offpolicy.evaluation import Evaluation, Measure, Weights, evaluate
from tightrope.offpolicy.live import evaluate_live

__all__ = ["Evaluation", "Log", "LogColumns", "Measure", "Weights", "evaluate", "evaluate_live"]
