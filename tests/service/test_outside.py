"""Numbers that do not belong: what is outside the range of a field is clipped, refused or taken; a reward outside is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tightrope.service.http import handlers
from tightrope.service.metrics import Samples
from tightrope.service.offline.replay import verify
from tightrope.service.requests import EventQuery
from tightrope.spec import Spec, SpecError, make_spec, read_spec
from tightrope.starting import propose
from tightrope.starting.text import spec_text
from tightrope.tables import read_table
from workbench import Bench, read

REPLACED = "values_replaced_total"
HUGE = [30_000.0, 1e20, 1e308, -1e308, -1e6]


def ages(outside: str | None = None, policy: str = "shadow-price", **more: Any) -> Spec:
    age = {"type": "number", "min": 18, "max": 79, **({} if outside is None else {"outside": outside})}
    rule = {"kind": "capacity", "action": "a", "at_most": 0.4}
    data = {"actions": ["a", "b"], "context": {"age": age}, "rule": [rule], "policy": {"kind": policy}}
    return make_spec({**data, **more})


def table(folder: Path, rows: int = 300) -> Path:
    """Visits of people from 18 to 79, whose age makes one action better; a bonus in cents beside a plain success."""
    random = np.random.default_rng(0)
    age = random.integers(18, 80, rows)
    age[:2] = 18, 79
    done = random.choice(["call", "letter"], rows)
    well = random.random(rows) < np.where(done == "call", age / 100, 0.5)
    lines = [f"{a},{d},{int(w)},{50.0 * w - 10.0}" for a, d, w in zip(age, done, well)]
    path = folder / "visits.csv"
    path.write_text("age,done,well,cents\n" + "\n".join(lines) + "\n")
    return path


def proposed(folder: Path, reward: str) -> Spec:
    path = table(folder)
    columns = read_table(path)
    found = propose(
        columns,
        file=path.name,
        name="visits",
        action="done",
        reward=[reward],
        context=["age"],
        usage=[],
        rules=[],
    )
    (folder / "spec.toml").write_text(spec_text(found, rounds=100, replications=2, asked="tightrope init"))
    return read_spec(folder / "spec.toml")


def test_init_writes_the_ranges_of_the_table(tmp_path: Path) -> None:
    spec = proposed(tmp_path, "well")
    assert spec.encoder.ranges == {"age": (18.0, 79.0, "clip")}
    assert 'outside = "clip"' in (tmp_path / "spec.toml").read_text()
    assert spec.reward_range == (0.0, 1.0)
    assert proposed(tmp_path, "cents").reward_range == (-20.0, 80.0), "twice as far as the table goes"


def test_an_age_of_30000_is_clipped_counted_and_shown(tmp_path: Path) -> None:
    bench = Bench(proposed(tmp_path, "well"))
    honest = Bench(bench.spec)
    for i, value in enumerate(HUGE):
        end = 79.0 if value > 0 else 18.0
        far = read(bench.decide({"event_id": str(i), "context": {"age": value}, "explain": True}))
        near = read(honest.decide({"event_id": str(i), "context": {"age": end}, "explain": True}))
        assert far["explanation"] == near["explanation"], "as if the end of the range had been sent"
        assert all(-0.5 < row["reward"] < 1.5 for row in far["explanation"]["actions"])
        for one in (bench, honest):
            read(one.learn(str(i), reward=1.0))
    assert bench.state()["outside"] == [
        {"field": "age", "low": 18.0, "high": 79.0, "values": 5, "outside": "clip"}
    ]
    assert honest.state()["outside"] == []
    samples = Samples("x")
    samples.add_state(bench.state())
    [sample] = [one for one in samples if one.name == "values_outside_total"]
    assert (sample.labels, sample.value) == ({"experiment": "x", "field": "age"}, 5.0)
    bench.reopened()
    assert bench.state()["outside"][0]["values"] == 5, "counted again by the replay"
    assert verify(bench.journal).digest == bench.digest()


@pytest.mark.parametrize("policy", ["shadow-price", "greedy", "lints"])
def test_what_is_taken_stays_within_reach_and_every_number_finite(policy: str) -> None:
    bench = Bench(ages("take", policy))
    for i in range(40):
        value = HUGE[i % len(HUGE)] if i % 2 else 20.0 + i
        shown = read(bench.decide({"event_id": str(i), "context": {"age": value}, "explain": True}))
        assert all(
            np.isfinite([row["reward"], row["value"]]).all() for row in shown["explanation"]["actions"]
        )
        read(bench.learn(str(i), reward=float(i % 2)))
    [told] = bench.state()["outside"]
    assert (told["values"], told["outside"]) == (20, "take")
    assert verify(bench.journal).digest == bench.digest()


def test_what_is_refused_leaves_no_trace() -> None:
    bench = Bench(ages("refuse"))
    read(bench.decide({"event_id": "1", "context": {"age": 20}}))
    before = bench.digest()
    for value in HUGE:
        answer = bench.decide({"context": {"age": value}})
        assert answer.status == 422
        assert "context.age must lie in [18, 79], but got" in answer.body.decode()
    assert bench.digest() == before
    assert bench.state()["outside"] == []


def test_a_reward_outside_is_refused_and_changes_nothing() -> None:
    bench = Bench(ages(reward={"range": [0, 1]}))
    read(bench.decide({"event_id": "1", "context": {"age": 20}}))
    before, rows = bench.digest(), bench.journal.last()
    for event_id in ("1", "nobody"):
        for reward in (7.0, -0.001, 1e5):
            answer = bench.learn(event_id, reward=reward)
            assert answer.status == 422
            assert "reward must lie in [0, 1], the spec's [reward] range, but got" in answer.body.decode()
    assert (bench.digest(), bench.journal.last()) == (before, rows)
    read(bench.learn("1", reward=1.0))
    assert read(bench.ask(handlers.show_state))["outcomes"]["mean_reward"] == 1.0


def test_without_a_declared_range_a_reward_is_bounded_all_the_same() -> None:
    bench = Bench(ages())
    read(bench.decide({"event_id": "1", "context": {"age": 20}}))
    read(bench.learn("1", reward=7.0))


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        ({"range": [1, 0]}, r"reward.range: must be \[low, high\] with low < high"),
        ({"range": [0]}, r"reward.range"),
        ({"rnge": [0, 1]}, r"reward.rnge: unknown field \(did you mean 'range'\?\)"),
    ],
)
def test_a_range_of_rewards_that_is_none(reward: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        ages(reward=reward)


@pytest.mark.parametrize("bad", ["1e20", "1e308"])
def test_a_table_with_a_reward_that_can_not_be_right_is_refused(bad: str, tmp_path: Path) -> None:
    path = tmp_path / "past.csv"
    path.write_text(f"age,done,well\n20,a,1\n30,b,{bad}\n")
    past = {"file": str(path), "action": "done", "reward": "well"}
    with pytest.raises(SpecError, match="warm_start: reward"):
        Bench(ages(warm_start=past))
    with pytest.raises(SpecError, match="warm_start: reward"):
        Bench(ages(warm_start=past, reward={"range": [0, 1]}))


def test_a_table_is_clipped_as_callers_are(tmp_path: Path) -> None:
    path = tmp_path / "past.csv"
    states = []
    for age in ("30000", "79"):
        path.write_text("age,done,well\n" + f"20,a,1\n{age},b,0\n" * 5)
        past = {"file": str(path), "action": "done", "reward": "well"}
        bench = Bench(ages(warm_start=past))
        assert bench.experiment.state is not None
        states.append(bench.experiment.state.policy.hooks.state())
    for name, array in states[0].items():
        np.testing.assert_array_equal(array, states[1][name])


def test_what_contexts_lack_is_replaced_counted_and_shown() -> None:
    context = {
        "age": {"type": "number", "min": 0, "max": 100, "missing": 40},
        "sex": {"type": "category", "values": ["f", "m"], "other": "m"},
    }
    spec = make_spec({"actions": ["a", "b"], "context": context})
    bench = Bench(spec)
    sent: list[dict[str, Any]] = [{"sex": "x"}, {"age": None, "sex": "f"}, {"age": 7, "sex": "f"}]
    for i, one in enumerate(sent):
        read(bench.decide({"event_id": str(i), "context": one}))
    assert bench.decide({"event_id": "3", "context": {"age": 1}}).status == 422, "sex must be there"
    state = bench.state()
    assert state["replaced"] == [
        {"field": "age", "why": "missing", "values": 2, "taken_as": "40"},
        {"field": "sex", "why": "other", "values": 1, "taken_as": "m"},
    ]
    assert read(bench.ask(handlers.show_decision, EventQuery("0")))["request"]["context"] == {"sex": "x"}
    samples = Samples("x")
    samples.add_state(state)
    counted = {(one.labels["field"], one.labels["why"]): one.value for one in samples if one.name == REPLACED}
    assert counted == {("age", "missing"): 2, ("sex", "other"): 1}
    assert verify(bench.journal).digest == bench.digest()
