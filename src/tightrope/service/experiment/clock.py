"""The time of a journal: the wall clock's, which may jump, held to the pace of the steady clock, which can't."""

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
# Seconds that the two may be apart before it is said.
ALARM: Final = 5.0
# So many seconds after the journal's last entry the wall clock is believed at a start; and so many, where nothing that is waited
# for would have expired by then.
BELIEVED: Final = 86_400.0
LONGEST_SILENCE: Final = 30 * 86_400.0


class SteadyClock:
    """Seconds since 1970 that never jump, whatever the wall clock does.

    From one reading to the next it moves by at least half and at most twice what passed on the steady clock, and within that to
    where the wall clock is: a decision never expires before half of its time has really passed, and expiry never stops. A wall
    clock that was set right by an hour is caught up with in an hour. While the two are more than `ALARM` seconds apart, `ahead`
    says how much, and the log has said so.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall, self._steady = wall, steady
        self._now, self._at = wall(), steady()
        self._turn = threading.Lock()
        self._resumed = False
        # How far the wall clock is ahead, in seconds, where that is worth an alarm; and how often that began.
        self.ahead = 0.0
        self.alarms = 0

    def __call__(self) -> float:
        with self._turn:
            return self._advance()

    def resume(self, last: float, *, safe: float = math.inf, accept: bool = False) -> None:
        """Go on after a journal whose last entry is of `last`, and in which nothing expires before `safe`.

        Nothing says how long the service was stopped but the wall clock. Where that is before `last`, it is doubted: time goes on
        from `last`. So it is at the first call where it is more than a day after `last` and after `safe`, or more than 30 days
        after `last`, unless `accept`: what is waited for must not expire by a clock that is wrong.
        """
        with self._turn:
            now = self._advance()
            far = now > max(last + BELIEVED, min(safe, last + LONGEST_SILENCE))
            doubted = now < last or (far and not accept and not self._resumed)
            self._resumed = True
            if not doubted:
                return
            log.error(
                "the clock of this machine is %.1f days %s the journal's last entry: time goes on from that entry, and nothing "
                "expires by this. Check the clock.%s",
                abs(now - last) / 86_400.0,
                "before" if now < last else "after",
                ""
                if now < last
                else " If the service was stopped for so long, start it once with --accept-clock.",
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
                "the clock jumped: it is %.0f s %s the journal's time, which follows at most at twice its pace; "
                "nothing expires by this. Check the clock of this machine.",
                abs(ahead),
                "ahead of" if ahead > 0 else "behind",
            )
        elif was and not self.ahead:
            log.info("the clock and the journal's time agree again")
