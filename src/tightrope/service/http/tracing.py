"""OpenTelemetry traces of requests, where it is installed and a provider is set (`opentelemetry-instrument tightrope serve …`).

Without one, `spans` finds none and requests cost nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.types import Scope


class Spans:
    """A span for each request, below the caller's where it sends `traceparent`."""

    def __init__(self, tracer: Any, extract: Any, server: Any, error: Any) -> None:
        self._tracer, self._extract, self._server, self._error = tracer, extract, server, error

    @contextmanager
    def of(self, scope: Scope) -> Iterator[dict[str, Any]]:
        """The span around an answer; what is noted in the dictionary that it gives becomes attributes."""
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        noted: dict[str, Any] = {"http.request.method": scope["method"]}
        with self._tracer.start_as_current_span(
            scope["method"], context=self._extract(carrier), kind=self._server
        ) as span:
            try:
                yield noted
            finally:
                span.update_name(f"{scope['method']} {noted.get('http.route', '')}".strip())
                span.set_attributes(noted)
                if noted.get("http.response.status_code", 0) >= 500:
                    span.set_status(self._error)


def spans() -> Spans | None:
    """What makes the spans; None where OpenTelemetry is not installed or no provider is set."""
    try:
        from opentelemetry import propagate, trace
    except ImportError:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    tracer = provider.get_tracer("tightrope.service")
    return Spans(tracer, propagate.extract, trace.SpanKind.SERVER, trace.Status(trace.StatusCode.ERROR))
