"""What a table is proposed to be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tightrope.errors import InvalidInput
from tightrope.frames import Frame
from tightrope.starting.proposal import propose
from tightrope.starting.rule_text import read_rule, rule_name
from tightrope.tables import read_table


def trial(n=300, seed=0):
    """As it is met: an id, times, gaps, booleans, a column of many values, one that tells the reward, one that is empty."""
    rng = np.random.default_rng(seed)
    arm = rng.choice(["control", "drug A", "drug B"], n)
    well = rng.random(n) < np.where(arm == "control", 0.3, 0.55)
    return {
        "visit_id": [float(7000 + i) for i in range(n)],
        "admitted": [f"2026-01-{1 + i % 28:02d}T08:00" for i in range(n)],
        "age": [None if i % 10 == 3 else float(rng.integers(20, 85)) for i in range(n)],
        "smoker": [bool(one) for one in rng.random(n) < 0.3],
        "referrer": [f"GP {int(min(60, rng.pareto(1.0) * 4))}" for _ in range(n)],
        "treatment_arm": arm.tolist(),
        "nurse_hours": np.round(np.where(arm == "drug B", 3.0, 1.0) * rng.uniform(0.6, 1.4, n), 2).tolist(),
        "recovered": [None if i == 0 else ("yes" if one else "no") for i, one in enumerate(well)],
        "discharge_score": (10.0 * well + rng.normal(0, 0.01, n)).tolist(),
        "fax": [None] * n,
    }


def proposed(table=None, **given):
    return propose(
        Frame(trial() if table is None else table, path=Path("trial.csv")),
        file="../trial.csv",
        name="trial",
        **given,
    )


def taken(proposal):
    found: dict[str, list[str]] = {}
    for part in proposal.parts:
        found.setdefault(part.role, []).append(part.what)
    return found


def test_every_column_has_a_part_and_a_reason():
    found = proposed()
    assert taken(found) == {
        "action": ["treatment_arm"],
        "reward": ["recovered"],
        "usage": ["nurse_hours"],
        "rule": [f"nurse_hours <= {found.rules[0]['at_most']:g}"],
        "context": ["age", "smoker", "referrer"],
        "left out": ["1 rows", "visit_id", "admitted", "discharge_score", "fax"],
    }
    assert all(part.why for part in found.parts)
    assert found.log.action_names == ("control", "drug A", "drug B")
    assert found.history.success == "yes"
    assert len(found.log) == 299


def test_the_context_is_declared_as_it_is_met():
    columns = proposed().encoder.columns
    assert (columns["age"].missing, columns["smoker"].missing) == ("indicator", "error")
    referrer = columns["referrer"]
    assert referrer.unseen == "other"
    assert len(referrer.values) <= 20
    # Callers may send what the table never saw, and nothing where it had gaps.
    assert proposed().encoder.vector({"age": None, "smoker": True, "referrer": "GP 999"}).shape == (
        proposed().encoder.n_features,
    )


def test_customers_who_come_again_are_not_context_but_a_few_shops_are():
    table = trial() | {
        "customer_id": [f"K{i % 150:03d}" for i in range(300)],
        "shop_id": [f"S{i % 25:02d}" for i in range(300)],
    }
    found = proposed(table)
    assert "shop_id" in found.encoder.columns
    [why] = [part.why for part in found.parts if part.what == "customer_id"]
    assert why == (
        "it names someone or something that comes again: of 150 values, the 20 most common have 13% of the rows. "
        "--context includes it anyway"
    )
    assert "customer_id" in proposed(table, context=["age", "customer_id"]).encoder.columns


def test_what_no_name_says_is_asked_in_one_go():
    table = {"a": ["x", "y"] * 20, "b": [0.0, 1.0] * 20, "c": ["p", "p", "q", "q"] * 10}
    with pytest.raises(
        InvalidInput, match=r"what was done: .*--action COLUMN.* And .*earned: a, b, c.*--reward COLUMN"
    ):
        proposed(table)


def test_a_budget_is_what_was_used_so_that_the_past_keeps_it():
    found = proposed()
    [rule] = found.rules
    used = [hours for hours, well in zip(trial()["nurse_hours"], trial()["recovered"]) if well is not None]
    assert np.mean(used) <= rule["at_most"] <= np.mean(used) * 1.01
    assert rule["seen"] == "after"
    assert rule["range"] == [0.0, max(used)]


def test_without_usage_the_best_action_is_given_as_much_as_it_had():
    found = proposed(usage=(), rules=None)
    [rule] = found.rules
    share = trial()["treatment_arm"].count(rule["action"]) / 300
    assert rule["kind"] == "capacity"
    assert rule["at_most"] == pytest.approx(share, abs=0.015)
    assert rule["action"] != "control"


def test_what_is_given_is_taken():
    found = proposed(
        action="treatment_arm",
        reward=["recovered"],
        success="no",
        context=["age", "admitted"],
        usage=["nurse_hours"],
        rules=["nurse_hours <= 2", "drug A <= 30%", "drug B >= 0.1"],
    )
    assert list(found.encoder.columns) == ["age", "admitted"]
    assert found.history.success == "no"
    assert [
        {key: one[key] for key in ("kind", *(k for k in ("at_most", "at_least") if k in one))}
        for one in found.rules
    ] == [
        {"kind": "budget", "at_most": 2.0},
        {"kind": "capacity", "at_most": 0.3},
        {"kind": "share", "at_least": 0.1},
    ]
    assert {part.why for part in found.parts if part.role in ("action", "usage", "rule")} == {"you said so"}


def test_labels_and_rewards_of_every_action():
    label = {"x": [float(i) for i in range(9)], "class": ["a", "b", "c"] * 3}
    found = proposed(label)
    assert found.history.label == "class"
    known = {
        "x": [1.0, 2.0],
        "reward_a": [0.0, 1.0],
        "reward_b": [1.0, 0.0],
        "hours_a": [1.0, 1.0],
        "hours_b": [4.0, 2.0],
    }
    found = proposed(known)
    assert found.history.reward == {"a": "reward_a", "b": "reward_b"}
    [rule] = found.rules
    assert (rule["name"], rule["at_most"], rule.get("seen")) == ("hours", 2.0, None)
    again = proposed(known, reward=["a=reward_a", "b=reward_b"], usage=())
    assert again.history.reward == found.history.reward


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"action": "arm"}, r"no column 'arm'.*it has: visit_id"),
        (
            {"rules": ["drug C <= 0.3"]},
            r"'drug C' is neither an action nor .*\(did you mean 'drug (A|B)'\?\)",
        ),
        ({"rules": ["few hours"]}, "NAME <= NUMBER"),
        ({"success": "perhaps"}, "must hold --success 'perhaps', but it holds 'no', 'yes'|'yes', 'no'"),
        ({"context": ["recovered"]}, "that column is the action, the reward or what was used"),
        ({"reward": ["a=age", "smoker"]}, "^reward must be ACTION=COLUMN for every action"),
        (
            {"action": "visit_id", "reward": ["smoker"]},
            "300 different values in 300 rows, but at most 1,000 can be actions",
        ),
    ],
)
def test_what_can_not_be_is_refused_with_what_could(given, words):
    with pytest.raises(InvalidInput, match=words):
        proposed(**given)


def test_where_names_say_nothing_the_options_are_named():
    table = {
        "x": [1.0, 2.0] * 10,
        "city": ["Bonn", "Kiel"] * 10,
        "shirt": ["s", "m"] * 10,
        "gain": [0.5, 1.5] * 10,
    }
    with pytest.raises(
        InvalidInput, match=r"what was done: .*city, shirt.*Use --action COLUMN; or use --label COLUMN"
    ):
        proposed(table)
    with pytest.raises(InvalidInput, match=r"what was earned: x, .*gain\? Use --reward COLUMN"):
        proposed(table, action="city")
    # Which of two texts is the good one can't be guessed either.
    with pytest.raises(InvalidInput, match=r"holds 's', 'm'; use --success to say"):
        proposed(table, action="city", reward=["shirt"])


def test_a_file_with_semicolons_and_decimal_commas(tmp_path):
    lines = ["Nr;Alter;Umsatz;action;reward"]
    lines += [
        f"{i + 1};{20 + i % 50};{i % 9},25;{'Brief' if i % 2 else 'Mail'};{i % 3 // 2}" for i in range(60)
    ]
    (tmp_path / "a.csv").write_text("\r\n".join(lines) + "\r\n", encoding="utf-8-sig")
    found = propose(read_table(tmp_path / "a.csv"), file="a.csv", name="a")
    assert taken(found)["context"] == ["Alter", "Umsatz"]
    assert found.encoder.columns["Umsatz"].mean == pytest.approx(np.mean([i % 9 + 0.25 for i in range(60)]))


def test_a_rule_in_a_few_words():
    assert rule_name({"kind": "share", "action": "letter", "at_least": 0.1}) == "letter >= 0.1"


def test_rules_are_read():
    assert read_rule("letter <= 30%") == ("letter", "at_most", 0.3, ())
    assert read_rule("minutes >= 4.5") == ("minutes", "at_least", 4.5, ())
    assert read_rule("mid >= 40% among far") == ("mid", "at_least", 0.4, ("far",))
    assert read_rule("minutes<=3 among 'far away' or near") == (
        "minutes",
        "at_most",
        3.0,
        ("far away", "near"),
    )
    assert read_rule("a <= 0.5 among x, y").among == ("x", "y")
    for wrong in ("mid >= 40% amongfar", "mid >= 40% among", "mid >= 40% of far"):
        with pytest.raises(InvalidInput, match=r"such as 'letter <= 0.3' or 'letter >= 40% among far'"):
            read_rule(wrong)


def orders(**changes):
    rng = np.random.default_rng(1)
    zone, sent = rng.choice(["far", "near"], 200), rng.choice(["mid", "big"], 200)
    hours = np.where(sent == "mid", 1.0, 3.0).tolist()
    table = {"zone": zone.tolist(), "sent": sent.tolist(), "hours": hours, "age": rng.uniform(20, 80, 200)}
    return {**table, "bought": (rng.random(200) < 0.4).tolist(), **changes}


def test_a_rule_among_a_group_finds_the_column_of_the_groups():
    rules = ["mid >= 40% among far", "hours <= 2.5 among far or near"]
    found = proposed(orders(), rules=rules)
    assert found.history.group == "zone"
    assert found.why("group", "zone") == "it holds 'far', 'near', which a rule is among"
    assert found.rules[0] == {"kind": "share", "action": "mid", "at_least": 0.4, "among": "far"}
    assert (found.rules[1]["name"], found.rules[1]["among"]) == ("hours", ["far", "near"])
    assert taken(found)["rule"] == ["mid >= 0.4 among far", "hours <= 2.5 among far, near"]
    # What is found among the columns stays part of the context; a column that is named as the group may be protected.
    assert "zone" in taken(found)["context"]
    assert "zone" not in taken(proposed(orders(), rules=rules, group="zone"))["context"]
    named = {"group": "zone", "context": ["zone", "age"]}
    assert taken(proposed(orders(), rules=rules, **named))["context"] == ["zone", "age"]


def test_groups_of_numbers_are_named_as_they_are_written():
    floor = [float(one) for one in np.arange(200) % 3]
    found = proposed(orders(floor=floor), rules=["mid >= 40% among 2"], group="floor")
    assert set(found.log.context_groups) == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("rule", "given", "words"),
    [
        (
            "mid >= 0.4 among fra",
            {},
            r"no column holds the groups 'fra'\. Could be: .*zone.* Use --group COLUMN",
        ),
        (
            "mid >= 0.4 among fra",
            {"group": "zone"},
            r"^rule 'mid >= 0.4 among fra': unknown group 'fra' \(did you mean 'far'\?\); known groups: far, near",
        ),
        ("mdi >= 0.4 among far", {}, r"^rule 'mdi >= .*' is neither an action .*\(did you mean 'mid'\?\)"),
    ],
)
def test_an_unknown_group_is_refused_with_the_groups_that_there_are(rule, given, words):
    with pytest.raises(InvalidInput, match=words):
        proposed(orders(), rules=[rule], **given)


def test_groups_that_two_columns_hold_are_not_guessed():
    table = orders()
    with pytest.raises(
        InvalidInput, match=r"several columns hold the groups 'far'\. Could be: zone, zone_before"
    ):
        proposed({**table, "zone_before": table["zone"]}, rules=["mid >= 40% among far"])
