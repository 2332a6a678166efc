"""An experiment with one visit whose numbers occur nowhere else, for every kind of model: what is searched for after an erasure."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from tightrope.service.experiment import Op
from tightrope.service.http import handlers
from tightrope.service.journal.chain import read as read_parts
from tightrope.service.journal.contract import Journal
from tightrope.service.requests import DecisionRequest, ErasureRequest, RollbackRequest, SnapshotRequest
from tightrope.spec import Spec, make_spec
from workbench import CONTEXT, PAPER, Bench, read

# Numbers whose eight bytes occur nowhere else.
SECRET_AGE, SECRET_MINUTES, SECRET_REWARD, SECRET_HOURS = (
    *(77.03125918273645, 0.41406259182736455, 0.6171875918273645, 0.21093759182736456),
)
RULES = [
    {"kind": "capacity", "action": "icu", "at_most": 0.4},
    {"kind": "budget", "name": "minutes", "at_most": 0.6},
    {"kind": "budget", "name": "hours", "at_most": 0.6, "seen": "after"},
]
MODELS: dict[str, Any] = {
    "linear": None,
    "logistic": {"model": "logistic"},
    "features": {"model": "features", "transformer": "fourier", "first": 15},
    "ensemble": {"model": "ensemble", "estimator": "extra-trees", "members": 3, "first": 12},
    "network": {
        "model": "ensemble",
        "estimator": "mlp",
        "members": 2,
        "first": 12,
        "params": {"max_iter": 5},
    },
    "auto": {
        "model": "auto",
        "candidates": ["standardised", {"model": "ensemble", "first": 12, "members": 2}],
    },
}


def specs() -> dict[str, Spec]:
    common = {"name": "ward", "actions": ["icu", "surgery", "other"], "context": CONTEXT}
    found = {
        name: make_spec(
            {
                **common,
                "rule": RULES,
                "policy": {"kind": "shadow-price", **({} if model is None else {"reward": model})},
            }
        )
        for name, model in MODELS.items()
    }
    cost = {"kind": "shadow-price", "cost": MODELS["ensemble"]}
    found["ensemble of costs"] = make_spec({**common, "rule": RULES, "policy": cost})
    for kind, more in (
        ("pessimistic-optimistic", {**PAPER, "slater": "measure"}),
        ("provable-shadow-price", {}),
    ):
        policy = more or {"kind": kind, "price_cap": 2.0}
        found[kind] = make_spec({**common, "rule": RULES[:2], "policy": policy})
    return found


SPECS = specs()


def erasing(*events: str) -> Op:
    return Op(handlers.erase, ErasureRequest(event_ids=list(events)))


def visit(i: int, secret: bool = False) -> dict[str, Any]:
    age, minutes = (SECRET_AGE, SECRET_MINUTES) if secret else (30.0 + i, (i % 16) / 32)
    return {
        "event_id": f"visit-{i}",
        "context": {"age": age, "sex": "fm"[i % 2]},
        "usage": {"minutes": [minutes, minutes / 2, 0.0]},
    }


def play(bench: Bench, first: int, last: int, secret: int = -1) -> None:
    for i in range(first, last):
        read(bench.decide(visit(i, i == secret)))
        if i != 7:
            late = bench.spec.rules is not None and not bench.spec.rules.seen.all()
            used = {"usage": {"hours": SECRET_HOURS if i == secret else (i % 8) / 8}} if late else {}
            read(bench.learn(f"visit-{i}", reward=SECRET_REWARD if i == secret else (i % 4) / 4, **used))


def filled(bench: Bench) -> int:
    """Visits 0 to 39, and the position of a snapshot with a label; visit 13 is the secret one, 7 is waited for."""
    play(bench, 0, 20, secret=13)
    good: int = read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="good")))["position"]
    play(bench, 20, 30)
    read(bench.ask(handlers.roll_back, RollbackRequest(position=good, restore="all")))
    play(bench, 30, 40)
    return good


def secrets(bench: Bench) -> list[bytes]:
    """What visit 13 said, as requests, rows and the policy's memory have it, and all that was sealed in its entries."""
    state = bench.experiment.state
    assert state is not None
    request = DecisionRequest(**visit(13, secret=True))
    offer = state.input.read(request)
    x = state.input.x(request, len(offer.ids))
    assert x is not None
    used = offer.W[:2, 1]
    given = [SECRET_AGE, SECRET_MINUTES, SECRET_MINUTES / 2, SECRET_REWARD, SECRET_HOURS]
    encoded = [struct.pack("<d", float(one)) for one in (*np.ravel(x)[1:2], *used, *given)]
    sealed = [parts.sealed for row in bench.journal.find(["visit-13"]) if (parts := read_parts(row.data))]
    return [*encoded, *(struct.pack(">d", one) for one in given), *filter(None, sealed)]


def stored(journal: Journal) -> Iterator[bytes]:
    """Everything that a query can reach."""
    for row in journal.rows():
        yield row.data
    for one in journal.snapshots():
        saved = journal.snapshot(one.position)
        assert saved is not None
        yield saved.state
