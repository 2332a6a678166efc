"""The way of one decision through the service: every function that is handed it, from the first byte to the answer.

`PYTHONPATH=src:tests:tests/service python tests/service/test_walk.py` prints it.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import tightrope
from tightrope.offer import Offer
from tightrope.service.answer import Answer
from tightrope.service.experiment import Op
from tightrope.service.http.server import make_service
from tightrope.service.journal.entries import Decided
from tightrope.service.journal.rows import Row
from tightrope.service.requests import DecisionRequest
from workbench import visit, ward

SOURCE = Path(tightrope.__file__).parent
PAGE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"

# What a decision is on its way: bytes, a request, an operation, what was read of it, an entry, a row, an answer.
Forms = (DecisionRequest, Op, Offer, Decided, Row, Answer)
LAST = visit(9)


class Walk:
    """A profiler that notes the functions below `service/` that are called with a decision, or that call such a function."""

    def __init__(self) -> None:
        self.called: list[tuple[str, str]] = []
        self.everything: set[tuple[str, str]] = set()
        self.traces = False
        self._stacks: dict[int, list[list[Any]]] = {}

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        path = Path(code.co_filename)
        if SOURCE / "service" not in path.parents or re.search(r"<\w+>$", code.co_qualname):
            return
        stack = self._stacks.setdefault(threading.get_ident(), [])
        if event == "call":
            step = path.relative_to(SOURCE).as_posix(), code.co_qualname
            self.everything |= {step} if self.traces else set()
            # A coroutine that goes on is called again.
            known = [one for one in stack if one[0] is frame]
            stack.append(known[0] if known else [frame, step, False])
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if self.traces and any(_is_a_decision(frame.f_locals.get(name)) for name in names):
                for one in stack:
                    if not one[2]:
                        one[2] = True
                        self.called.append(one[1])
        elif event == "return" and stack:
            stack.pop()

    def steps(self) -> list[tuple[str, str]]:
        """Each function once, in the order in which they are first handed the decision."""
        return list(dict.fromkeys(self.called))


def _is_a_decision(value: Any) -> bool:
    if isinstance(value, Forms) or (isinstance(value, bytes) and value == LAST):
        return True
    if isinstance(value, dict):
        return value.get("path") == "/v1/decisions"
    return type(value) in (list, tuple) and any(map(_is_a_decision, value))


async def decided(walk: Walk, folder: str) -> None:
    """Some decisions through the ASGI application, on a journal on disk; the last one is traced, in all threads."""
    service = make_service([ward()], data=folder)
    async with service.lifespan():
        for i in range(3):
            assert await asked(service, visit(i)) == 200
        # What is checked beside all else after a start is no part of the way.
        while any(thread.name.startswith("audit") for thread in threading.enumerate()):
            await asyncio.sleep(0.01)
        sys.setprofile(walk)
        walk.traces = True
        assert await asked(service, LAST) == 200
        walk.traces = False
        sys.setprofile(None)


async def asked(service: Any, body: bytes) -> int:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/decisions", "query_string": b""}
    await service({**scope, "headers": [(b"host", b"localhost")]}, receive, send)
    return int(sent[0]["status"])


def walked() -> Walk:
    walk = Walk()
    threading.setprofile(walk)
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(decided(walk, folder))
    finally:
        threading.setprofile(None)
        sys.setprofile(None)
    return walk


def test_a_decision_is_handed_through_few_functions_as_documented() -> None:
    steps = walked().steps()
    assert len(steps) <= 25
    assert len({file for file, _ in steps}) <= 10
    [part] = re.findall(
        r"^\*\*One HTTP decision\*\*(.*?)(?=^\*\*|^## )", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    documented = re.findall(r"^\| \d+ \| `([\w/.]+)` \| `([\w.]+)` \|", part, re.MULTILINE)
    assert documented == steps


if __name__ == "__main__":
    found = walked()
    for number, (file, name) in enumerate(found.steps(), 1):
        print(f"| {number} | `{file}` | `{name}` |")
    print(
        len(found.steps()),
        "functions in",
        len({file for file, _ in found.steps()}),
        "files are handed the decision;",
    )
    print(
        len(found.everything),
        "in",
        len({file for file, _ in found.everything}),
        "are called, housekeeping included",
    )
