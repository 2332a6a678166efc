"""Traces of requests, where OpenTelemetry is installed."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tightrope.service.experiment import Experiment
from tightrope.service.http import tracing
from tightrope.service.http.app import Service
from tightrope.service.storage.memory import MemoryJournal
from workbench import running, visit, ward


def test_without_a_provider_nothing_is_traced() -> None:
    assert tracing.spans() is None


def test_a_span_for_each_request_below_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    experiment = Experiment(ward(), MemoryJournal())
    experiment.open()
    above = "4bf92f3577b34da6a3ce929d0e0e4736"
    with running(Service([experiment])) as web:
        web.post(
            "/v1/decisions", content=visit(1), headers={"traceparent": f"00-{above}-00f067aa0ba902b7-01"}
        )
        web.get("/v1/decisions/visit-1")
        web.get("/nothing")
    decided, shown, missing = exporter.get_finished_spans()
    assert decided.name == "POST /v1/decisions"
    assert f"{decided.context.trace_id:032x}" == above
    assert decided.kind is trace.SpanKind.SERVER
    assert dict(decided.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/v1/decisions",
        "http.response.status_code": 200,
        "tightrope.experiment": "ward",
    }
    assert shown.name == "GET /v1/decisions/{event_id}"
    assert (missing.attributes or {})["http.response.status_code"] == 404
    assert decided.status.is_ok or decided.status.status_code is trace.StatusCode.UNSET
