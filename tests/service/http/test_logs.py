"""Logs for machines and for people."""

from __future__ import annotations

import json
import logging

from tightrope.service.http.logs import JsonLines, Lines


def record(**extra: object) -> logging.LogRecord:
    made = logging.LogRecord(
        "tightrope.service", logging.WARNING, "f.py", 1, "mode %s\nof %r", ("live", "ä"), None
    )
    vars(made).update(extra)
    return made


def test_one_object_a_line_with_what_was_given() -> None:
    line = JsonLines().format(record(key="1a2b", status=200, odd={1, 2}))
    assert "\n" not in line
    read = json.loads(line)
    assert read["message"] == "mode live\nof 'ä'"
    assert (read["level"], read["logger"], read["key"], read["status"]) == (
        "WARNING",
        "tightrope.service",
        "1a2b",
        200,
    )
    assert read["time"].endswith("+00:00")


def test_a_traceback_is_a_field() -> None:
    try:
        raise ValueError("broken")
    except ValueError as error:
        made = record()
        made.exc_info = (ValueError, error, error.__traceback__)
    assert "ValueError: broken" in json.loads(JsonLines().format(made))["exception"]


def test_people_see_the_same() -> None:
    assert Lines().format(record(key="1a2b")).endswith("mode live\nof 'ä' key=1a2b")
