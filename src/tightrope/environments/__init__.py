"""Environments draw contexts, rewards and costs: ready-made ones, `Tabular`, which they are built from, and `Custom` for your own.

>>> from tightrope import environments
>>> environments.bandit(threshold=0.1)
Tabular('bandit', contexts=1, actions=4, features=0, constraints=1, costs bernoulli, seen after)
"""

from tightrope.environments.bandit import bandit
from tightrope.environments.build import load
from tightrope.environments.custom import Custom
from tightrope.environments.drifting import Drifting
from tightrope.environments.hospital import hospital, hospital_rules
from tightrope.environments.log import Logged, from_log
from tightrope.environments.synthetic import synthetic
from tightrope.environments.table import Table, WeakEvidence, from_table
from tightrope.environments.tabular import Tabular

__all__ = [
    "Custom",
    "Drifting",
    "Logged",
    "Table",
    "Tabular",
    "WeakEvidence",
    "from_log",
    "from_table",
    "load",
]
__all__ += ["bandit", "hospital", "hospital_rules", "synthetic"]
