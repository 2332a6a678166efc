"""The time of a journal, whatever the clock of the machine does."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightrope.service.experiment import Experiment, Op
from tightrope.service.experiment.clock import ALARM, BELIEVED, FASTEST, LONGEST_SILENCE, SLOWEST, SteadyClock
from tightrope.service.http import handlers
from tightrope.service.metrics import Metrics, Samples
from tightrope.service.offline.replay import verify
from tightrope.service.requests import OutcomeRequest
from tightrope.service.storage.memory import MemoryJournal
from workbench import arms, read

DAY = 86_400.0
YEAR = 365 * DAY


class Machine:
    """A wall clock that can be set, and a steady one that can't."""

    def __init__(self) -> None:
        self.real, self.off = 0.0, 0.0
        self.clock = SteadyClock(lambda: 1.7e9 + self.real + self.off, lambda: self.real)


STEPS = st.lists(
    st.tuples(st.floats(0.0, 1e5), st.one_of(st.just(0.0), st.floats(-50 * YEAR, 50 * YEAR))), max_size=12
)


@given(STEPS)
def test_it_runs_between_half_and_double_pace_whatever_the_wall_clock_says(
    steps: list[tuple[float, float]],
) -> None:
    machine = Machine()
    began = last = machine.clock()
    for passed, off in steps:
        machine.real, machine.off = machine.real + passed, off
        now = machine.clock()
        assert SLOWEST * passed <= now - last + 1e-6
        assert now - last <= FASTEST * passed + 1e-6
        last = now
    machine.off = 0.0
    machine.real += 2 * abs(last - began) + machine.real
    assert machine.clock() == 1.7e9 + machine.real, "a clock that is right again is caught up with"
    assert machine.clock.ahead == 0.0


def test_a_jump_is_said_once_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    with caplog.at_level(logging.INFO, "tightrope.service"):
        for off in (0.0, ALARM / 2, 3600.0, 3600.0):
            machine.real, machine.off = machine.real + 1.0, off
            machine.clock()
        assert machine.clock.alarms == 1
        assert machine.clock.ahead == pytest.approx(3600.0, abs=10.0)
        machine.real += 3600.0
        machine.clock()
    assert [one.levelname for one in caplog.records] == ["ERROR", "INFO"]
    assert "the clock jumped" in caplog.text


def ask(experiment: Experiment, event_id: str | None = None) -> dict[str, int]:
    """A decision, and then how many are pending and missing."""
    from tightrope.service.requests import DecisionRequest

    if event_id is not None:
        [answer] = experiment.process([Op(handlers.decide, DecisionRequest(event_id=event_id))])
        assert answer.status == 200
    outcomes = read(experiment.process([Op(handlers.show_state)])[0])["outcomes"]
    return {name: outcomes[name] for name in ("pending", "missing")}


@pytest.mark.parametrize("believed", [False, True])
def test_half_a_second_ten_years_ahead_expires_nothing_and_stops_nothing(believed: bool) -> None:
    """The control believes the machine's clock."""
    machine = Machine()
    clock = (lambda: 1.7e9 + machine.real + machine.off) if believed else machine.clock
    experiment = Experiment(arms(), MemoryJournal(), expire_after=600.0, clock=clock)
    experiment.open()
    ask(experiment, "before")
    machine.real, machine.off = 1.0, 10 * YEAR
    assert (ask(experiment, "meanwhile") == {"pending": 2, "missing": 0}) is not believed
    machine.real, machine.off = 1.5, 0.0
    ask(experiment, "after")
    machine.real = 300.0
    assert (ask(experiment) == {"pending": 3, "missing": 0}) is not believed
    machine.real = 605.0
    assert (ask(experiment) == {"pending": 0, "missing": 3}) is not believed
    verify(experiment.journal)


def test_a_start_goes_on_from_the_journal_where_the_clock_can_not_be_right() -> None:
    journal, machine = MemoryJournal(), Machine()
    first = Experiment(arms(), journal, expire_after=600.0, clock=machine.clock)
    first.open()
    ask(first, "before")
    for off, alarms in ((60.0, 0), (-3600.0, 1), (-390 * DAY, 1), (BELIEVED + 60.0, 1), (390 * DAY, 1)):
        machine.off = off
        clock = SteadyClock(lambda: 1.7e9 + machine.real + machine.off, lambda: machine.real)
        again = Experiment(arms(), journal, expire_after=600.0, clock=clock)
        again.open()
        assert ask(again) == {"pending": 1, "missing": 0}, off
        assert clock.alarms == alarms, off
    machine.off = 700.0
    later = Experiment(arms(), journal, expire_after=600.0, clock=Machine().clock)
    later.clock = SteadyClock(lambda: 1.7e9 + machine.real + machine.off, lambda: machine.real)
    later.open()
    assert ask(later) == {"pending": 0, "missing": 1}, "a service that was stopped for long is believed"


@pytest.mark.parametrize("pending", [True, False])
@pytest.mark.parametrize("accepted", [True, False])
@pytest.mark.parametrize("days", [0.5, 3.0, 20.0, 29.5, 45.0, 390.0])
def test_a_start_long_after_the_last_entry_expires_nothing_unless_the_clock_is_accepted(
    days: float, accepted: bool, pending: bool
) -> None:
    """Decisions are waited for 10 days. Where none is, a stop of up to 30 days is believed."""
    journal, machine = MemoryJournal(), Machine()
    first = Experiment(arms(), journal, expire_after=10 * DAY, clock=machine.clock)
    first.open()
    ask(first, "before")
    if not pending:
        first.process([Op(handlers.learn, OutcomeRequest(event_id="before", reward=1.0))])
    machine.off = days * DAY
    clock = SteadyClock(lambda: 1.7e9 + machine.real + machine.off, lambda: machine.real)
    again = Experiment(arms(), journal, expire_after=10 * DAY, clock=clock, accept_clock=accepted)
    again.open()
    believed = accepted or days <= (10.0 if pending else 30.0)
    expired = pending and believed and days > 10.0
    assert ask(again) == {"pending": int(pending and not expired), "missing": int(expired)}
    ask(again, "after")
    time = read(again.process([Op(handlers.show_state)])[0])["time"]
    assert time - 1.7e9 == pytest.approx(days * DAY if believed else 0.0, abs=1.0), "the journal's time"
    assert clock.alarms == (not believed)
    # The clock is set right: time goes on from where it is, and nothing has been lost.
    machine.off, machine.real = 0.0, 3600.0
    ask(again, "later")
    assert believed or ask(again)["missing"] == 0
    verify(journal)


def test_a_clock_that_was_doubted_or_believed_once_is_not_judged_again_by_a_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Trouble with the disk makes an experiment read its journal again: its own clock has run on all the while."""
    machine = Machine()
    machine.clock.resume(1.7e9)
    machine.real = LONGEST_SILENCE + DAY
    machine.clock.resume(1.7e9, safe=1.7e9 + 60.0)
    assert machine.clock() == 1.7e9 + machine.real
    assert not caplog.records


def test_what_is_doubted_at_a_start_is_said_with_the_option_that_helps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = Machine()
    machine.clock.resume(1.7e9 - 390 * DAY)
    assert "390.0 days after the journal's last entry" in caplog.text
    assert "--accept-clock" in caplog.text
    assert machine.clock() < 1.7e9 - 389 * DAY
    caplog.clear()
    Machine().clock.resume(1.7e9 + DAY)
    assert "1.0 days before the journal's last entry" in caplog.text
    assert "--accept-clock" not in caplog.text


def test_a_journal_that_an_earlier_jump_took_ahead_goes_on_expiring() -> None:
    journal, machine = MemoryJournal(), Machine()
    wrong = Experiment(arms(), journal, expire_after=600.0, clock=lambda: 1.7e9 + 10 * YEAR)
    wrong.open()
    ask(wrong, "ahead")
    experiment = Experiment(arms(), journal, expire_after=600.0, clock=machine.clock)
    experiment.open()
    ask(experiment, "now")
    machine.real = 2 * 600.0 + 1.0
    assert ask(experiment) == {"pending": 0, "missing": 2}


def test_a_jump_is_in_the_metrics() -> None:
    machine = Machine()
    experiment = Experiment(arms(), MemoryJournal(), clock=machine.clock)
    experiment.open()
    machine.real, machine.off = 1.0, 10 * YEAR
    ask(experiment)
    samples = Samples("arms")
    samples.add_clock(machine.clock.ahead, machine.clock.alarms)
    text = Metrics().text(samples)
    assert 'tightrope_clock_alarms_total{experiment="arms"} 1' in text
    [ahead] = [line for line in text.splitlines() if line.startswith("tightrope_clock_ahead_seconds{")]
    assert float(ahead.split()[-1]) == pytest.approx(10 * YEAR, rel=1e-6)
