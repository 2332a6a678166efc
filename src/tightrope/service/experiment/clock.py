"""The time of a journal: the wall clock, which may jump, kept to the pace of the steady clock, which can't."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger("tightrope.service")

SLOWEST: Final = 0.5
FASTEST: Final = 2.0
# How many seconds the two may differ before an alarm.
ALARM: Final = 5.0
# How many seconds past the journal's last entry the wall clock is trusted at a start; and how many, if no pending decision would
# have expired by then.
BELIEVED: Final = 86_400.0
LONGEST_SILENCE: Final = 30 * 86_400.0


class SteadyClock:
    """Seconds since 1970 that never jump, whatever the wall clock does.

    From one reading to the next it moves by at least half and at most twice what passed on the steady clock, and within that to
    where the wall clock is: a decision never expires before half of its time has really passed, and expiry never stops. A wall
    clock that was set right by an hour is caught up with in an hour. While the two are more than `ALARM` seconds apart, `ahead`
    says how much, and the log has a warning.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall, self._steady = wall, steady
        self._now, self._at = wall(), steady()
        self._turn = threading.Lock()
        self._resumed = False
        # How far the wall clock is ahead, in seconds, if that is worth an alarm; and how often that happened.
        self.ahead = 0.0
        self.alarms = 0

    def __call__(self) -> float:
        with self._turn:
            return self._advance()

    def resume(self, last: float, *, safe: float = math.inf, accept: bool = False) -> None:
        """Continue after a journal whose last entry is from `last`, and in which nothing expires and no window ends before `safe`.

        Only the wall clock says how long the service was stopped. If it is before `last`, it is not trusted: time continues from
        `last`. The same happens at the first call if it is more than a day after `last` and after `safe`, or more than 30 days
        after `last`, unless `accept`: pending decisions must not expire, nor limits be refilled, because of a wrong clock.
        """
        with self._turn:
            now = self._advance()
            far = now > max(last + BELIEVED, min(safe, last + LONGEST_SILENCE))
            doubted = now < last or (far and not accept and not self._resumed)
            self._resumed = True
            if not doubted:
                return
            log.error(
                "the clock of this machine is %.1f days %s the journal's last entry: time continues from that entry, and nothing "
                "expires because of it. Check the clock.%s",
                abs(now - last) / 86_400.0,
                "before" if now < last else "after",
                ""
                if now < last
                else " If the service really was stopped that long, start it once with --accept-clock.",
            )
            self._now = last
            self._advance()

    def _advance(self) -> float:
        wall, at = self._wall(), self._steady()
        passed = at - self._at
        self._now = min(max(wall, self._now + SLOWEST * passed), self._now + FASTEST * passed)
        self._at = at
        self._compare(wall - self._now)
        return self._now

    def _compare(self, ahead: float) -> None:
        was, self.ahead = self.ahead, ahead if abs(ahead) > ALARM else 0.0
        if self.ahead and not was:
            self.alarms += 1
            log.error(
                "the clock jumped: it is %.0f s %s the journal's time, which catches up at no more than twice the normal pace; "
                "nothing expires because of it. Check the clock of this machine.",
                abs(ahead),
                "ahead of" if ahead > 0 else "behind",
            )
        elif was and not self.ahead:
            log.info("the clock and the journal's time agree again")
