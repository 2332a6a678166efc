"""The OpenAPI document says all that is sent and sent back, in names, types and words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tightrope.service import requests
from tightrope.service.http import handlers
from tightrope.service.http.app import ROUTES, document
from tightrope.service.http.openapi import EXAMPLES
from tightrope.service.requests import ErasureRequest, ModeRequest, OutcomeQuery, PageQuery
from tightrope.spec import Spec, make_spec, read_spec
from tightrope_client import responses
from workbench import CONTEXT, Bench, play, ward

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "hospital.toml"
API = document()
SCHEMAS: dict[str, Any] = API["components"]["schemas"]


HOLDOUT = {"share": 0.3, "baseline": "other"}


def priced() -> Spec:
    """Prices and a hard cap."""
    cap: dict[str, Any] = {"kind": "budget", "name": "beds", "at_most": 0.5, "hard": True, "total": 40}
    cap["usage"] = {"icu": 1.0, "surgery": 0.0, "other": 0.0}
    after = {"kind": "budget", "name": "hours", "at_most": 0.6, "seen": "after"}
    daily = {"kind": "capacity", "action": "icu", "at_most": 900, "count": True, "per": "day", "hard": True}
    return make_spec(
        {
            "name": "ward",
            "actions": ["icu", "surgery", "other"],
            "context": CONTEXT,
            "rule": [cap, after, daily],
            "holdout": HOLDOUT,
        }
    )


def lively(spec: Spec) -> Bench:
    """An experiment to which everything has happened that can."""
    bench = Bench(spec, expire_after=60.0)
    play(bench, 150)
    bench.ask(handlers.change_mode, ModeRequest(mode="shadow", default="other"))
    for event_id in ("shadowed", "gone", "pending"):
        bench.decide({"event_id": event_id, "context": {"age": 3, "sex": "f"}})
    bench.learn("shadowed", reward=1.0, usage={"hours": 0.5})
    bench.learn("shadowed", reward=0.0)
    bench.learn("nobody", reward=1.0, usage={"hours": 0.5})
    bench.ask(handlers.erase, ErasureRequest(event_ids=["gone"]))
    bench.now += 100.0
    bench.decide({"event_id": "last", "context": {"age": 3, "sex": "f"}})
    bench.learn("pending", reward=1.0)
    return bench


@pytest.mark.parametrize("spec", [ward(holdout=HOLDOUT), priced()], ids=["queues", "prices"])
def test_every_field_that_is_sent_is_declared(spec: Spec) -> None:
    bench = lively(spec)
    asked: dict[str, list[Any]] = {
        "list_decisions": [PageQuery(limit=1000)],
        "show_decision": [requests.EventQuery("shadowed"), requests.EventQuery("last")],
        "list_outcomes": [
            OutcomeQuery(limit=1000, status=status) for status in ("late", "rejected", "missing", "pending")
        ],
        "list_changes": [PageQuery(limit=1000)],
        "show_windows": [requests.WindowQuery()],
    }
    seen: set[str] = set()
    for route in (one for one in ROUTES if not one.of_service and one.method == "GET"):
        for query in asked.get(route.handler.__name__, [None]):
            answer = msgspec.json.decode(bench.ask(route.handler, query).body)
            assert "error" not in answer
            # What is not declared is dropped when it is read as the type.
            assert json.loads(json.dumps(msgspec.convert(answer, route.answer))) == answer, route.path
            for name in ("decisions", "outcomes", "changes", "snapshots"):
                assert answer.get(name) != [], f"{route.path} shows none, so nothing was tested"
            lists = (value for value in answer.values() if isinstance(value, list))
            seen |= {key for value in lists for one in value if isinstance(one, dict) for key in one}
    assert {
        "erased",
        "proposed",
        "probabilities",
        "expired",
        "reason",
        "restore",
        "spec",
        "event_ids",
    } <= seen
    assert ("price" in seen) == ("total" in seen) == (spec.policies[0].kind == "shadow-price")


def test_everything_has_a_name_and_words() -> None:
    operations_ = [one for methods in API["paths"].values() for one in methods.values()]
    assert len({one["operationId"] for one in operations_}) == len(operations_) == len(ROUTES)
    assert all(one["summary"] and one["tags"] for one in operations_)
    for route in ROUTES:
        operation = API["paths"][route.path][route.method.lower()]
        if route.path != "/openapi.json" and not isinstance(route.answer, str):
            schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
            assert schema == {"$ref": f"#/components/schemas/{route.answer.__name__}"}
        if route.scope is not None:
            refused = {"401", "403", "429"}
            assert refused <= set(operation["responses"])
            assert all(operation["responses"][one]["content"] for one in refused)
            assert operation["security"] == [{"key": []}]
        assert ("503" in operation["responses"]) == (
            not route.of_service or route.path in ("/healthz", "/readyz")
        )
        if not route.of_service:
            assert "Retry-After" in operation["responses"]["503"]["headers"]
    assert all(schema["description"] for schema in SCHEMAS.values())
    for kind in (
        requests.DecisionRequest,
        requests.OutcomeRequest,
        requests.ModeRequest,
        requests.RollbackRequest,
    ):
        for name, field in SCHEMAS[kind.__name__]["properties"].items():
            assert field["description"], (kind, name)
    assert not [one for one in SCHEMAS.values() if "----" in one["description"]]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_what_they_are_examples_of(name: str) -> None:
    assert SCHEMAS[name]["examples"] == [EXAMPLES[name]]
    kind = getattr(requests if name.endswith(("Request", "Batch")) else responses, name)
    read = msgspec.convert(EXAMPLES[name], kind)
    if name.endswith(("Request", "Batch")):
        assert msgspec.to_builtins(read) == EXAMPLES[name]
    else:
        assert read == EXAMPLES[name]


def test_every_body_has_an_example() -> None:
    posted = {one.request.__name__ for one in ROUTES if one.method == "POST" and one.request is not None}
    assert posted <= set(EXAMPLES)


def test_the_example_of_a_decision_is_one_of_the_hospital() -> None:
    spec = read_spec(EXAMPLE)
    bench = Bench(spec)
    answer = bench.decide(EXAMPLES["DecisionRequest"])
    assert answer.status == 200
    assert set(json.loads(answer.body)) == set(EXAMPLES["Decision"])
    assert spec.actions[EXAMPLES["Decision"]["action"]] == EXAMPLES["Decision"]["name"]
    assert bench.learn(**EXAMPLES["OutcomeRequest"]).status == 200
