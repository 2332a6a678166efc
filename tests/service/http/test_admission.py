"""Who gets in: shares of the experiments, rates of the keys, memory for bodies."""

from __future__ import annotations

import contextlib
import random
from collections import Counter

import pytest

from tightrope.service.answer import Refusal
from tightrope.service.http.admission import Admission, BodyBudget, Rates


def test_one_experiment_gets_all_and_of_several_each_has_its_share() -> None:
    alone = Admission(["a"], 8)
    tickets = [alone.enter("a") for _ in range(8)]
    with pytest.raises(Refusal) as refusal:
        alone.enter("a")
    assert (refusal.value.status, refusal.value.retry_after) == (503, 1)
    alone.leave("a", tickets[3])
    assert alone.waiting("a") == 7
    alone.enter("a")

    names = ["a", "b", "c"]
    shared = Admission(names, 12)
    for _ in range(12 - 2 * 2):
        shared.enter("a")
    with pytest.raises(Refusal):
        shared.enter("a")
    for name in ("b", "c"):
        for _ in range(2):
            shared.enter(name)
        with pytest.raises(Refusal):
            shared.enter(name)


def test_slots_add_up_in_any_order() -> None:
    chance = random.Random(0)
    admission = Admission(["a", "b"], 9)
    inside: list[tuple[str, int]] = []
    for _ in range(5000):
        name = chance.choice("ab")
        if inside and chance.random() < 0.48:
            admission.leave(*inside.pop(chance.randrange(len(inside))))
        else:
            try:
                inside.append((name, admission.enter(name)))
            except Refusal:
                used = Counter(one for one, _ in inside)
                # Its own two are taken, and so are the five that are anyone's.
                assert used[name] >= 2
                assert sum(max(0, n - 2) for n in used.values()) == 5
        assert len(inside) <= 9
        assert {one: admission.waiting(one) for one in "ab"} == {
            one: sum(name == one for name, _ in inside) for one in "ab"
        }


def test_the_oldest_that_waits_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    admission = Admission(["a"], 4)
    assert admission.oldest("a") == 0.0
    first = admission.enter("a")
    now[0] = 103.0
    admission.enter("a")
    now[0] = 104.5
    assert admission.oldest("a") == 4.5
    admission.leave("a", first)
    assert admission.oldest("a") == 1.5


def test_a_rate_holds_over_any_second_and_for_each_key_alone() -> None:
    now = [0.0]
    rates = Rates(lambda: now[0])
    taken: list[float] = []
    for i in range(2000):
        now[0] = i * 0.01
        with contextlib.suppress(Refusal):
            rates.take("one", 5.0)
            taken.append(now[0])
    assert 5 * 20 <= len(taken) <= 5 * 20 + 5
    assert all(sum(start <= at < start + 1 for at in taken) <= 10 for start in taken)
    rates.take("other", 5.0)
    slow = Rates(lambda: now[0])
    slow.take("one", 0.01)
    with pytest.raises(Refusal) as refused:
        slow.take("one", 0.01)
    assert (refused.value.status, refused.value.retry_after) == (429, 100)


def test_one_key_gets_half_of_the_memory_for_bodies() -> None:
    budget = BodyBudget(100)
    budget.take("one", 50)
    with pytest.raises(Refusal):
        budget.take("one", 1)
    budget.take("other", 50)
    with pytest.raises(Refusal):
        budget.take("third", 1)
    budget.give_back("one", 50)
    budget.take("third", 50)
    without_keys = BodyBudget(100)
    without_keys.take(None, 100)
