"""Who draws contexts, rewards and costs: ready-made environments, `Tabular`, from which they are made, and `Custom`, for your own.

>>> from tightrope import environments
>>> environments.bandit(threshold=0.1)
Tabular('bandit', contexts=1, actions=4, features=0, constraints=1, costs bernoulli, seen after)

Every name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tightrope.environments.bandit import bandit as bandit
    from tightrope.environments.build import load as load
    from tightrope.environments.custom import Custom as Custom
    from tightrope.environments.drifting import Drifting as Drifting
    from tightrope.environments.hospital import hospital as hospital
    from tightrope.environments.hospital import hospital_rules as hospital_rules
    from tightrope.environments.log import Logged as Logged
    from tightrope.environments.log import from_log as from_log
    from tightrope.environments.synthetic import synthetic as synthetic
    from tightrope.environments.table import Table as Table
    from tightrope.environments.table import WeakEvidence as WeakEvidence
    from tightrope.environments.table import from_table as from_table
    from tightrope.environments.tabular import Tabular as Tabular

_HOMES = {
    "Custom": "tightrope.environments.custom",
    "Drifting": "tightrope.environments.drifting",
    "Logged": "tightrope.environments.log",
    "Table": "tightrope.environments.table",
    "Tabular": "tightrope.environments.tabular",
    "WeakEvidence": "tightrope.environments.table",
    "bandit": "tightrope.environments.bandit",
    "from_log": "tightrope.environments.log",
    "from_table": "tightrope.environments.table",
    "hospital": "tightrope.environments.hospital",
    "hospital_rules": "tightrope.environments.hospital",
    "load": "tightrope.environments.build",
    "synthetic": "tightrope.environments.synthetic",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tightrope.environments' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


class _Package(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        # Importing the submodule `bandit` would otherwise put it in the place of the function `bandit`.
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # By name, as every module is: a user's own function that names this one goes to other processes.
        return importlib.import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package
