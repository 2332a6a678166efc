"""What limits per window by key cost: memory and restart with a million keys, and the time of a served decision.

    python benchmarks/windows.py [--keys 1000000] [--decisions 4000]

CPU time of whole batches on a journal in memory, so that no disk is measured; the same decisions with and without the rule by key.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from typing import Any

from tightrope.service.experiment import Experiment, Op
from tightrope.service.http import handlers
from tightrope.service.requests import DecisionRequest, OutcomeRequest
from tightrope.service.storage.memory import MemoryJournal
from tightrope.spec import make_spec

ACTIONS = ["large", "medium", "small", "none"]
COST = {"large": 0.9, "medium": 0.4, "small": 0.2, "none": 0.0}
AVERAGE = {"kind": "capacity", "action": "large", "at_most": 0.4}
BY_KEY = {
    "kind": "budget",
    "name": "cost",
    "at_most": 2,
    "per": "day",
    "by": "user",
    "hard": True,
    "usage": COST,
}
NOON = 20_000 * 86_400.0 + 43_200.0


def experiment(*rules: dict[str, Any]) -> Experiment:
    spec = make_spec(
        {"name": "keys", "actions": ACTIONS, "rule": list(rules), "policy": {"kind": "shadow-price"}}
    )
    made = Experiment(spec, MemoryJournal(), clock=lambda: NOON, snapshot_every=10**9)
    made.open()
    return made


def per_decision(made: Experiment, decisions: int, keys: int | None) -> float:
    """Seconds of CPU for one decision and its outcome, in batches of 16."""
    began = time.process_time()
    for first in range(0, decisions, 16):
        events = range(first, first + 16)
        named = [None if keys is None else {"user": f"user-{7919 * i % keys:07d}"} for i in events]
        asked = [DecisionRequest(event_id=f"e{i}", keys=one) for i, one in zip(events, named)]
        made.process([Op(handlers.decide, one) for one in asked])
        told = [OutcomeRequest(event_id=f"e{i}", reward=0.5) for i in events]
        made.process([Op(handlers.learn, one) for one in told])
    return (time.process_time() - began) / decisions


def fill(made: Experiment, keys: int) -> None:
    assert made.state is not None
    windows = made.state.ledger.windows
    assert windows is not None
    accounts = windows.limits[0].accounts
    accounts.roll(NOON)
    for i in range(keys):
        accounts.book(f"user-{i:07d}", NOON, 10**8, 0)


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--decisions", type=int, default=4000)
    given = parser.parse_args()
    plain, keyed = experiment(AVERAGE), experiment(AVERAGE, BY_KEY)
    for made, keys in ((plain, None), (keyed, given.keys)):
        per_decision(made, 320, keys)
    before = megabytes()
    fill(keyed, given.keys)
    found: dict[str, float] = {
        "keys": given.keys,
        "MB before": round(before),
        "MB with keys": round(megabytes()),
    }
    without = per_decision(plain, given.decisions, None)
    found |= {"us a decision and outcome without": round(1e6 * without, 1)}
    found |= {"with": round(1e6 * per_decision(keyed, given.decisions, given.keys), 1)}
    found["ratio"] = round(found["with"] / found["us a decision and outcome without"], 2)
    assert keyed.state is not None
    began = time.process_time()
    packed, _ = keyed.state.snapshot()
    found |= {
        "snapshot, s": round(time.process_time() - began, 2),
        "snapshot, MB": round(len(packed) / 2**20),
    }
    began = time.process_time()
    keyed.state.restore(packed, keyed.state.position, keyed.state.head)
    found |= {"restore, s": round(time.process_time() - began, 2), "MB at most": round(megabytes())}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
