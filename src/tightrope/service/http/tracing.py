"""OpenTelemetry traces of requests, if it is installed and a provider is set (`opentelemetry-instrument tightrope serve …`).

Without one, `spans` is None and requests have no extra cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from starlette.types import Scope


def spans() -> Callable[[Scope], AbstractContextManager[dict[str, Any]]] | None:
    """Makes a span around the answer to a request, a child of the caller's if it sends `traceparent`.

    Entries of the dictionary that it yields become attributes. None without OpenTelemetry or a provider.
    """
    try:
        from opentelemetry import propagate, trace
    except ImportError:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    tracer = provider.get_tracer("tightrope.service")

    @contextmanager
    def span_of(scope: Scope) -> Iterator[dict[str, Any]]:
        method: str = scope["method"]
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        noted: dict[str, Any] = {"http.request.method": method}
        below = propagate.extract(carrier)
        with tracer.start_as_current_span(method, context=below, kind=trace.SpanKind.SERVER) as span:
            try:
                yield noted
            finally:
                span.update_name(f"{method} {noted.get('http.route', '')}".strip())
                span.set_attributes(noted)
                if noted.get("http.response.status_code", 0) >= 500:
                    span.set_status(trace.Status(trace.StatusCode.ERROR))

    return span_of
