"""Where limits per window stand: for one key, or for the keys that are closest to their limits."""

from __future__ import annotations

from tightrope.ledger.windows import Limit, WindowAccount, Windows
from tightrope.service import requests
from tightrope.service.answer import Answer, Refusal
from tightrope.service.experiment import Batch
from tightrope_client import responses


def show_windows(batch: Batch, request: requests.WindowQuery) -> Answer:
    """What is used, reserved, allowed and left of each limit per window: for one key, or for those closest to their limits."""
    windows = batch.state.ledger.windows
    time = max(batch.now, batch.state.time) / 1e6
    limits = [] if windows is None else list(enumerate(windows.limits))
    if request.rule is not None:
        limits = [(m, one) for m, one in limits if one.column.name == request.rule]
        if not limits:
            raise Refusal(404, "unknown", f"no limit per window is called {request.rule!r:.220}")
    if request.key is not None:
        limits = [(m, one) for m, one in limits if one.by is not None]
        if not limits:
            raise Refusal(404, "unknown", "no such limit has accounts by key")
    shown = [] if windows is None else [_window(windows, m, one, time, request) for m, one in limits]
    return Answer.of(responses.WindowList(time=time, windows=shown))


def _window(
    windows: Windows, m: int, limit: Limit, time: float, request: requests.WindowQuery
) -> responses.WindowState:
    rule = limit.column.rule
    if limit.by is None or request.key is not None:
        accounts = [windows.account(m, request.key if limit.by is not None else None, time)]
    else:
        accounts = windows.closest(m, request.limit, time)
    shown = responses.WindowState(
        name=limit.column.name,
        rule=str(rule),
        side=limit.column.side,
        unit=rule.unit,
        per=str(rule.per),
        zone=rule.zone,
        by=limit.by,
        hard=limit.hard,
        accounts=[_account(one) for one in accounts],
        above=int(windows.overruns[m]),
        gone=int(windows.strays[m]),
    )
    if limit.by is not None:
        shown["keys"] = len(limit.accounts.now.rows)
    return shown


def _account(one: WindowAccount) -> responses.WindowAccount:
    return {
        "key": one.address.key,
        "start": one.start,
        "end": one.end,
        "decisions": one.decisions,
        "used": float(one.used),
        "reserved": float(one.reserved),
        "allowed": float(one.allowed),
        "left": float(one.left),
    }
