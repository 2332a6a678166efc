"""A journal as a log: what was served, with which chance, and what came of it, for whoever learns from logged decisions."""

from __future__ import annotations

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.log import Log
from tightrope.service.experiment.configuration import served_policy
from tightrope.service.journal.contract import Journal
from tightrope.service.journal.entries import probabilities_of
from tightrope.service.offline.served_decisions import Reader, Record
from tightrope.spec import Spec


def log_of(journal: Journal, *, trust: bool = False) -> tuple[Log, Spec]:
    """The decisions of an open journal that were served live and have their whole outcome, in their order; its spec.

    The log has propensities where those of all decisions are known. Costs that are seen after acting are the log's; rules seen
    before acting need no log. With `trust` classes of your own that the journal names may run.
    """
    record = Record.of(journal, trust=trust)
    spec = record.spec
    reader = Reader(spec, served_policy(spec))
    if reasons := list(reader.misfits(record)):
        raise InvalidInput("the journal can't be read as a log: " + "; ".join(reasons) + ".")
    actions, rewards, late, contexts, chances = [], [], [], [], []
    J = len(spec.actions)
    for one in record.served:
        costs = None if one.reward is None else reader.observed(one)
        if one.reward is None or costs is None:
            continue
        actions.append(one.entry.action)
        rewards.append(one.reward)
        late.append(costs)
        contexts.append(reader.offered(one).x)
        p = probabilities_of(one.entry, J)
        chances.append(np.nan if p is None else p[one.entry.action])
    if len(rewards) < 2:
        raise InvalidInput(
            f"the journal has {len(rewards)} decisions with their whole outcome, and 2 are needed at least."
        )
    names = () if spec.rules is None else spec.rules.names
    log = Log(
        actions,
        rewards,
        np.array(late),
        propensities=None if np.isnan(chances).any() else chances,
        contexts=np.array(contexts) if all(x is not None for x in contexts) else None,
        in_order=True,
        action_names=spec.actions,
        constraints=[names[k] for k in reader.late],
    )
    return log, spec
