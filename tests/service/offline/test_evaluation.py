"""Another policy judged on a journal: estimates against truths that are known, units, and everything that must be refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from tightrope.errors import InvalidInput
from tightrope.service.http import handlers
from tightrope.service.journal.entries import Decided
from tightrope.service.journal.rows import entry_of
from tightrope.service.offline.evaluation import Estimate, Judgement, Unanswerable, judge
from tightrope.service.requests import ModeRequest
from tightrope.spec import Spec, SpecError, make_spec
from workbench import Bench, read

GREEDY = f"{Path(__file__).parents[1] / 'epsilon_greedy.py'}:EpsilonGreedy"
DRAWS = {"kind": GREEDY, "epsilon": 0.3}
SEX = {"sex": {"type": "category", "values": ["f", "m"]}}
HOURS = {"kind": "budget", "name": "hours", "at_most": 3.0, "range": [0, 8], "seen": "after"}
HIGH = {"kind": "capacity", "action": "high", "at_most": 0.4}

# By context and action: what is earned, and the hours used.
REWARDS = np.array([[0.2, 0.5, 0.8], [0.6, 0.4, 0.5]])
HOURS_USED = np.array([[1.0, 2.0, 6.0], [1.4, 3.0, 5.0]])


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy of our own that most of these journals were served by."""
    monkeypatch.setenv("TIGHTROPE_TRUST", GREEDY.rpartition(":")[0])


def trial(policy: dict[str, Any], rules: list[dict[str, Any]] | None = None, **changes: Any) -> Spec:
    return make_spec(
        {
            "name": "trial",
            "actions": ["none", "low", "high"],
            "context": SEX,
            "rule": [HIGH, HOURS] if rules is None else rules,
            "policy": policy,
            **changes,
        }
    )


def serve(
    spec: Spec,
    rounds: int,
    seed: int = 0,
    *,
    body: Callable[[int], dict[str, Any]] = lambda i: {},
    outcome: Callable[[int, dict[str, Any]], dict[str, Any] | None] = lambda i, outcome: outcome,
    bench: Bench | None = None,
    first: int = 0,
) -> Bench:
    """Rounds in a world whose means are known; `outcome` may change what is reported of one."""
    draw = np.random.default_rng(seed)
    bench = Bench(spec) if bench is None else bench
    late = spec.rules is not None and not spec.rules.seen.all()
    for i in range(first, first + rounds):
        c = int(draw.integers(2))
        sent = {"context": {"sex": "fm"[c]}} if spec.encoder else {}
        a = read(bench.decide({"event_id": f"visit-{i}", **sent, **body(i)}))["action"]
        y, u = float(draw.random() < REWARDS[c, a]), float(HOURS_USED[c, a] * draw.uniform(0.7, 1.3))
        told = outcome(i, {"reward": y, **({"usage": {"hours": u}} if late else {})})
        if told:
            assert bench.learn(f"visit-{i}", **told).status == 200
    return bench


def judged(
    bench: Bench, policy: dict[str, Any], *, spec: dict[str, Any] | None = None, **how: Any
) -> Judgement:
    named = {"actions": ["none", "low", "high"]} if spec and "rule" in spec else {}
    return judge(bench.journal, make_spec({"policy": policy, **named, **(spec or {})}), **how)


def refused(bench: Bench, policy: dict[str, Any], *, spec: dict[str, Any] | None = None, **how: Any) -> str:
    with pytest.raises(Unanswerable) as caught:
        judged(bench, policy, spec=spec, **how)
    return str(caught.value)


def all_of(found: Judgement) -> list[Estimate]:
    return [found.reward, *found.rules]


# --- estimates ---


def test_intervals_cover_the_truth_on_logs_of_a_policy_that_learns() -> None:
    """Nominally 95 %; what chance explains of 88 % or more passes (one in ten thousand), for every quantity and method."""
    logs, truth = 40, [REWARDS.mean(), 1 / 3, HOURS_USED.mean()]
    methods: tuple[Any, ...] = ("dr", "ips")
    hits = {method: np.zeros(3) for method in methods}
    errors = {method: np.zeros((logs, 3)) for method in methods}
    for i in range(logs):
        bench = serve(trial({**DRAWS, "seed": i}), 250, seed=i)
        for method in methods:
            found = judged(bench, {"kind": "uniform"}, method=method, seed=i)
            assert found.adaptive
            hits[method] += [e.low - 1e-9 <= t <= e.high + 1e-9 for e, t in zip(all_of(found), truth)]
            errors[method][i] = [e.estimate - t for e, t in zip(all_of(found), truth)]
    for method in methods:
        assert (hits[method] >= binom.ppf(1e-4, logs, 0.88)).all(), (method, hits[method])
        z = np.abs(errors[method].mean(axis=0)) / (errors[method].std(axis=0) / np.sqrt(logs) + 1e-12)
        assert (z[[0, 2]] < 4.5).all(), (method, z)
    # What was known before acting needs no weights: the policy's own share, exactly.
    assert np.abs(errors["ips"][:, 1]).max() < 1e-12
    assert errors["dr"][:, 2].std() < errors["ips"][:, 2].std() / 1.5, "the fit takes up noise"


def test_a_control_group_does_not_bend_the_estimates() -> None:
    """Rows of a baseline that spares an action are left out, as are repeats; those of a mix of all actions count."""
    for baseline, spared in (("low", True), ({"none": 0.25, "low": 0.5, "high": 0.25}, False)):
        z = []
        for i in range(12):
            bench = serve(trial(DRAWS, holdout={"share": 0.4, "baseline": baseline}), 250, seed=i)
            found = judged(bench, {"kind": "uniform"}, method="ips", seed=i)
            left = sum(one for why, one in found.left_out.items() if "control group" in why)
            assert (60 < left < 140) if spared else left == 0
            assert (found.decisions, found.judged) == (250, 250 - left)
            error = found.reward.estimate - REWARDS.mean()
            z.append(error / (found.reward.high - found.reward.low) * 3.92)
        assert abs(np.mean(z)) < 4.5 / np.sqrt(12), (baseline, z)


def test_repeats_of_a_decision_are_left_out() -> None:
    spec = trial(DRAWS, sticky={"by": "user", "for": "30d"})
    bench = serve(spec, 300, body=lambda i: {"keys": {"user": f"u{i % 150}"}})
    found = judged(bench, {"kind": "uniform"})
    assert found.left_out == {"that repeat an earlier one for the same user": 150}
    assert (found.decisions, found.judged) == (300, 150)


def test_a_policy_that_learns_lives_as_it_would_have_lived() -> None:
    """Its queue, its estimates and so its choices are its own: on average what it does when it is served itself."""
    target = {
        "kind": "pessimistic-optimistic",
        "reward": {"bonus": 0.1},
        "cost": {"bonus": 0.1},
        "V": {"scale": 3.0, "exponent": 0.5},
        "epsilon": {"scale": 0.2, "exponent": -0.5},
    }
    rules = [{**HIGH, "at_most": 0.3}, {**HOURS, "at_most": 2.5}]
    found = []
    for i in range(15):
        bench = serve(trial({"kind": "uniform", "seed": i}, rules), 300, seed=100 + i)
        found.append(judged(bench, target, seed=i, method="snips"))
        assert not any("evaluate_live" in doubt for doubt in found[-1].doubts), "a life is no moment"
    lived = round(np.mean([one.rounds for one in found]))
    assert 80 < lived < 120, "a third of what was served"
    own = []
    for i in range(30):
        bench = serve(trial(target, rules), lived, seed=200 + i)
        state = bench.state()
        own.append([state["outcomes"]["mean_reward"], state["actions"][2]["share"]])
    for k, name in enumerate(("reward", "capacity high")):
        theirs = np.array([all_of(one)[k].estimate for one in found])
        mine = np.array(own)[:, k]
        error = np.hypot(theirs.std() / np.sqrt(len(theirs)), mine.std() / np.sqrt(len(mine)))
        assert 0.1 < mine.mean() < 0.9
        assert abs(theirs.mean() - mine.mean()) < 4.5 * error, (name, theirs.mean(), mine.mean(), error)


def test_the_policy_that_was_served_earns_what_was_recorded() -> None:
    bench = serve(trial({"kind": "uniform"}), 300)
    found = judged(bench, {"kind": "uniform", "seed": 9}, method="snips")
    assert found.reward.estimate == pytest.approx(found.reward.recorded)
    assert found.rules[1].estimate == pytest.approx(found.rules[1].recorded)
    assert found.rounds == found.judged == 300
    assert not found.adaptive, "uniform does not learn"
    rewards = read(bench.ask(handlers.show_state))["outcomes"]
    assert found.reward.recorded == pytest.approx(rewards["mean_reward"])


def test_rules_are_in_the_users_units() -> None:
    """By hand: shares as shares, hours as hours, among a group per decision of that group, at_least with its ends in order."""
    rules = [
        {"kind": "share", "action": ["low", "high"], "at_least": 0.5},
        {"kind": "capacity", "action": "high", "at_most": 0.2, "among": "old"},
        {"kind": "mean", "name": "hours", "at_least": 1.0, "at_most": 7.0, "range": [0, 8], "seen": "after"},
    ]
    spec = trial({"kind": "uniform"}, rules)
    bench = serve(spec, 600, body=lambda i: {"group": ["old"] if i % 4 == 0 else []})
    found = judged(bench, {"kind": "uniform"}, method="snips")
    share, among, most, least = found.rules
    assert [one.name for one in found.rules] == [
        "share low or high",
        "capacity high among old",
        "hours at most",
        "hours at least",
    ]
    assert (share.estimate, share.limit, share.verdict) == (
        pytest.approx(2 / 3),
        0.5,
        "satisfied with 95 % confidence",
    )
    assert (among.estimate, among.limit, among.verdict) == (
        pytest.approx(1 / 3),
        0.2,
        "violated with 95 % confidence",
    )
    assert most.estimate == pytest.approx(least.estimate)
    assert most.low == pytest.approx(least.low)
    assert HOURS_USED.mean() - 0.6 < most.low < most.estimate < most.high < HOURS_USED.mean() + 0.6
    assert (most.limit, least.limit) == (7.0, 1.0)


def test_other_rules_than_those_that_were_served_are_judged_where_their_usage_is_known() -> None:
    bench = serve(trial(DRAWS), 300)
    strict = {"kind": "budget", "name": "hours", "at_most": 2.0, "range": [0, 8], "seen": "after"}
    share = {"kind": "share", "action": "none", "at_least": 0.1}
    found = judged(bench, {"kind": "uniform"}, spec={"rule": [share, strict]})
    assert [(one.name, one.limit) for one in found.rules] == [("share none", 0.1), ("hours", 2.0)]
    assert found.rules[1].verdict == "violated with 95 % confidence"
    assert judged(bench, {"kind": "uniform"}, spec={"rule": []}).rules == ()


def test_outcomes_are_learnt_when_they_were_learnt() -> None:
    """Greedy breaks ties by the lowest action until it is taught: here only after the last decision."""
    late = serve(trial({"kind": "uniform"}, []), 300, outcome=lambda i, outcome: None)
    for i in range(300):
        late.learn(f"visit-{i}", reward=-1.0)
    soon = serve(trial({"kind": "uniform"}, []), 300, outcome=lambda i, outcome: {"reward": -1.0})
    share = [{"kind": "capacity", "action": "none", "at_most": 0.5}]
    assert judged(late, {"kind": "greedy"}, spec={"rule": share}).rules[0].estimate == pytest.approx(1.0)
    assert judged(soon, {"kind": "greedy"}, spec={"rule": share}).rules[0].estimate < 0.9


def test_without_a_closed_form_the_draws_of_the_policy_stand_in() -> None:
    bench = serve(trial({"kind": "uniform"}), 400)
    found = judged(bench, {"kind": "lints", "reward": {"bonus": 0.05}}, method="snips")
    assert 0 < found.rules[0].estimate < 1, "now one action, now another"
    assert found.reward.estimate > REWARDS.mean(), "it learns"


def test_the_newest_decisions_alone() -> None:
    bench = serve(trial({"kind": "uniform"}), 200)
    found = judged(bench, {"kind": "uniform"}, last=120)
    assert (found.decisions, found.judged) == (120, 120)


def test_some_actions_on_offer_and_hard_caps() -> None:
    """Usage comes as a list for the actions asked for, of which hard caps leave some; raw features by row likewise."""
    fuel = {"kind": "budget", "name": "fuel", "at_most": 0.5, "hard": True, "total": 100.0}
    spec = trial({"kind": "uniform"}, [fuel])

    def body(i: int) -> dict[str, Any]:
        if i % 2:
            return {"actions": ["high", "low"], "usage": {"fuel": [0.9, 0.0]}}
        return {"usage": {"fuel": {"none": 0.0, "low": 0.0, "high": 0.9}}}

    bench = serve(spec, 320, body=body)
    found = judged(bench, {"kind": "uniform"}, method="ips")
    [entry] = found.rules
    assert entry.estimate == pytest.approx(entry.recorded, abs=0.06)
    assert any("hard caps are not judged" in note for note in found.notes)
    entries = [entry_of(row) for row in bench.journal.rows()]
    offered = {tuple(entry.offered or ()) for entry in entries if isinstance(entry, Decided)}
    assert {(), (2, 1), (0, 1), (1,)} == offered, "all, two, and what the cap left of them"


def test_what_is_left_out_is_counted() -> None:
    bench = Bench(trial({"kind": "uniform"}))
    bench.ask(handlers.change_mode, ModeRequest(mode="shadow", default="low"))
    bench.decide({"event_id": "shadow", "context": {"sex": "f"}})
    bench.ask(handlers.change_mode, ModeRequest(mode="live"))
    serve(bench.spec, 100, bench=bench, outcome=lambda i, outcome: outcome if i % 20 else {"reward": 1.0})
    found = judged(bench, {"kind": "uniform"})
    assert (found.decisions, found.judged) == (101, 95)
    assert found.left_out == {"in shadow mode": 1, "without their whole outcome": 5}


def test_what_the_service_had_no_chance_of_is_left_out_and_said() -> None:
    """In 20 of 300 decisions ε is so small that no one sees two of three actions: 4.4 % of what an even policy does."""
    bench = Bench(trial({**DRAWS, "epsilon": 1e-6}), accept_changes=True)
    serve(bench.spec, 20, bench=bench)
    bench.spec = trial({**DRAWS, "epsilon": 0.5})
    bench.reopened()
    serve(bench.spec, 280, seed=1, bench=bench, first=20)
    found = judged(bench, {"kind": "uniform"})
    assert found.missed == pytest.approx(40 / 900)
    assert found.reward.bias > 0.03
    assert found.rules[0].bias == 0, "its costs are known of every action"
    words = refused(bench, {"kind": "uniform"}, may_miss=0.04)
    assert "the log must give every action of the target a chance" in words
    assert "had none in 20 of 300 rows" in words
    assert "4.44% of what it does" in words


# --- refusals ---


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"kind": "pessimistic-optimistic", "slater": 0.1}, "every decision was served with probability 1"),
        ({"kind": "greedy"}, "serve a policy that draws ('greedy' did not)"),
        ({"kind": "lints"}, "none of the 40 decisions that were served live has a probability"),
    ],
)
def test_a_log_without_draws_or_probabilities(policy: dict[str, Any], words: str) -> None:
    assert words in refused(serve(trial(policy), 40), {"kind": "uniform"})


def test_nothing_live() -> None:
    assert "no decision that was served live" in refused(Bench(trial(DRAWS)), {"kind": "uniform"})


def test_too_few_outcomes() -> None:
    assert "only 29 decisions have their whole outcome, but at least 30" in refused(
        serve(trial(DRAWS), 29), {"kind": "uniform"}
    )


def test_outcomes_that_are_missing() -> None:
    def some(i: int, outcome: dict[str, Any]) -> dict[str, Any] | None:
        return outcome if i % 5 else {"reward": 1.0} if i % 2 else None

    bench = serve(trial(DRAWS), 200, outcome=some)
    words = refused(bench, {"kind": "uniform"})
    assert (
        "40 of 200 decisions lack their outcome (20 the reward, 20 only the costs that a rule counts)"
        in words
    )
    assert judged(bench, {"kind": "uniform"}, may_lack=0.2).judged == 160
    assert judged(bench, {"kind": "uniform"}, spec={"rule": [HIGH]}, may_lack=0.1).judged == 180


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"actions": ["none", "high", "low"], "rule": []},
            "the actions must be the journal's, 'none', 'low', 'high'",
        ),
        ({"actions": ["none", "low"], "rule": []}, "but the policy has 'none', 'low'"),
        ({"context": {"age": {"type": "number", "min": 0, "max": 9}}}, "context.age was never recorded"),
        (
            {"context": {"sex": {"type": "category", "values": ["f", "x"]}}},
            "can't be put to the policy: context.sex must be one of 'f', 'x', but got 'm'",
        ),
        (
            {"rule": [{"kind": "budget", "name": "minutes", "at_most": 0.5, "seen": "after"}]},
            "counts 'minutes', which was never recorded; recorded: 'hours'",
        ),
        (
            {"rule": [{"kind": "budget", "name": "fuel", "at_most": 0.5}]},
            "counts 'fuel', which was never recorded; recorded: 'hours'",
        ),
        (
            {"rule": [{**HOURS, "seen": "before"}]},
            "'hours' is known only after acting here, so a rule on it must have seen = \"after\"",
        ),
        (
            {"rule": [{**HIGH, "among": "old"}]},
            "group is missing",
        ),
        (
            {"rule": [{**HOURS, "range": [0, 4]}]},
            "outcomes can't be read by the policy's rules: usage['hours']",
        ),
    ],
)
def test_a_policy_that_reads_something_else(spec: dict[str, Any], words: str) -> None:
    assert words in refused(serve(trial(DRAWS), 40), {"kind": "uniform"}, spec=spec)


def test_fewer_fields_of_the_context_will_do() -> None:
    context = {**SEX, "age": {"type": "number", "min": 0, "max": 100}}
    spec = trial({"kind": "uniform"}, context=context)
    bench = Bench(spec)
    serve(spec, 90, bench=bench, body=lambda i: {"context": {"sex": "fm"[i % 2], "age": float(i)}})
    assert judged(bench, {"kind": "greedy"}, spec={"context": SEX}).judged == 90
    assert judged(bench, {"kind": "uniform"}, spec={"context": {}}).judged == 90


def test_vectors_need_the_journals_own_spec() -> None:
    vector = {"count": 2, "min": 0, "max": 1}
    bench = Bench(
        make_spec({"actions": ["none", "low", "high"], "features": vector, "policy": {"kind": "uniform"}})
    )
    for i in range(40):
        read(bench.decide({"features": [0.5, 0.1 * (i % 2)], "event_id": str(i)}))
        bench.learn(str(i), reward=1.0)
    assert judged(bench, {"kind": "greedy"}).judged == 40
    assert judged(bench, {"kind": "uniform"}, spec={"context": {}}).judged == 40
    other = {"features": {**vector, "max": 2}}
    assert "the journal's [features] are others" in refused(bench, {"kind": "uniform"}, spec=other)


def test_a_rule_for_a_group_that_never_came() -> None:
    rules = [{**HIGH, "among": "old"}]
    bench = serve(trial(DRAWS, rules), 60, body=lambda i: {"group": []})
    assert "no decision was recorded to which" in refused(bench, {"kind": "uniform"})


def test_a_policy_that_seldom_does_what_was_served() -> None:
    """One action served nineteen times in twenty, and a policy that wants the others."""
    bench = serve(trial({**DRAWS, "epsilon": 0.03}, []), 60)
    words = refused(bench, {"kind": "round-robin", "shares": [0.0, 0.0, 1.0]}, spec={})
    assert "fewer than 10" in words or "had none in" in words


def test_an_outcome_that_the_policy_does_not_take() -> None:
    """LFG's rewards lie in [0, 1]."""
    bench = serve(trial({"kind": "uniform"}, [], context={}), 60, outcome=lambda i, outcome: {"reward": 2.0})
    target = {"kind": "lfg", "shares": [0.0, 0.2, 0.1], "eta": 0.5}
    assert "can't be learnt by the policy: reward must lie in [0, 1]" in refused(bench, target)


def test_a_bad_argument_is_no_fault_of_the_journal() -> None:
    bench = serve(trial(DRAWS), 40)
    for how in ({"clip": 0.5}, {"may_lack": 2.0}, {"may_miss": -0.1}, {"last": 0}):
        with pytest.raises(InvalidInput, match=next(iter(how))):
            judged(bench, {"kind": "uniform"}, **how)


def test_a_bad_spec_is_no_fault_of_the_journal() -> None:
    bench = serve(trial(DRAWS), 40)
    with pytest.raises(SpecError, match="policy: the service runs a single policy, but the spec has 2"):
        judge(bench.journal, make_spec({"policy": [{"kind": "uniform"}, {"kind": "greedy"}]}))
    with pytest.raises(SpecError, match=r"policy\.kind"):
        judged(bench, {"kind": "unheard-of"})
