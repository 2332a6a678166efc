"""Logs of the service: lines for people, or one JSON object per line for machines."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

Format = Literal["text", "json"]

# What every record has; anything else was given with `extra=`.
_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_encoder = msgspec.json.Encoder(enc_hook=repr)


class JsonLines(logging.Formatter):
    """Time, level, logger, message and whatever was given with `extra=`; for an exception its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": time, "level": record.levelname, "logger": record.name}
        line |= {"message": record.getMessage()}
        line |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _encoder.encode(line).decode()


class Lines(logging.Formatter):
    """The same for people: what was given with `extra=` follows the message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        more = (f" {name}={value}" for name, value in vars(record).items() if name not in _USUAL)
        return super().formatMessage(record) + "".join(more)


def configure(form: Format, *, requests: bool = False) -> None:
    """Send what the service logs to standard error; `requests` logs every one of them."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("tightrope.service.requests").setLevel(logging.DEBUG if requests else logging.INFO)
