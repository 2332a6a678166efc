"""Rows by column names as the context of a decision: the encoder of the table, in the spec, at the door and in the journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tightrope as tr
from tightrope.service.answer import Refusal
from tightrope.service.experiment.configuration import require_fit, served_part, served_policy
from tightrope.service.experiment.policy_input import PolicyInput
from tightrope.service.http.app import Service
from tightrope.service.http.keys import Keys, create_key
from tightrope.service.offline.replay import verify
from tightrope.service.offline.served_decisions import spec_to_judge
from tightrope.service.requests import DecisionRequest, read_body
from tightrope.service.storage.memory import MemoryJournal
from tightrope.spec import SpecError, make_spec, read_spec
from workbench import Bench, code, running


def encoder() -> tr.Encoder:
    table = pd.DataFrame({"age": [20.0, 40, 60], "ward": ["A", "B", "B"], "urgent": [True, False, True]})
    return tr.Encoder({"age": {"missing": "mean"}, "ward": {"unseen": "other"}, "urgent": "boolean"}).fit(
        table
    )


def spec_of(made: tr.Encoder, **more: Any) -> Any:
    data = {"name": "rows", "actions": ["icu", "other"], "context": {"encoder": made.to_dict()}}
    rules = [{"kind": "capacity", "action": "icu", "at_most": 0.4}]
    return make_spec({**data, "rule": rules, **more})


def request(context: dict[str, Any]) -> DecisionRequest:
    return read_body(json.dumps({"context": context}).encode(), DecisionRequest)


def read(spec: Any, context: dict[str, Any]) -> Any:
    """x, by way of a whole offer."""
    reader, asked = PolicyInput(spec, served_policy(spec)), request(context)
    return reader.x(asked, len(reader.read(asked).ids))


@pytest.mark.parametrize(
    "row",
    [
        {"age": 41, "ward": "B", "urgent": True},
        {"age": None, "ward": "C", "urgent": False},
        {"ward": "A", "urgent": True},
    ],
)
def test_a_row_is_encoded_as_in_the_table(row: dict[str, Any]) -> None:
    made = encoder()
    x = read(spec_of(made), row)
    assert x is not None
    assert (
        x.tobytes()
        == made.transform(pd.DataFrame([{"age": np.nan, **row}]).astype({"age": float}))[0].tobytes()
    )


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"ward": "A"}, "context.urgent is missing: give true or false"),
        ({"age": "old", "ward": "A", "urgent": True}, "context.age must be a number, but got 'old'"),
        ({"age": True, "ward": "A", "urgent": True}, "context.age must be a number, but got True"),
        ({"ward": 7, "urgent": "yes"}, "context.urgent must be true or false, but got 'yes'"),
        ({"wrd": "A", "urgent": True}, r"context.wrd is not a declared field \(did you mean 'ward'\?\)"),
    ],
)
def test_what_is_wrong_with_a_row_is_said_by_its_column(row: dict[str, Any], words: str) -> None:
    answer = Bench(spec_of(encoder())).decide({"event_id": "e", "context": row})
    assert code(answer) == (422, "invalid")
    with pytest.raises(tr.InvalidInput, match=words):
        read(spec_of(encoder()), row)


def test_declared_fields_refuse_what_is_no_number() -> None:
    fields = {
        "age": {"type": "number", "min": 0, "max": 100},
        "sex": {"type": "category", "values": ["f", "m"]},
    }
    spec = make_spec({"actions": ["a"], "context": fields})
    for row in (
        {"age": True, "sex": "f"},
        {"age": None, "sex": "f"},
        {"age": 1, "sex": None},
        {"age": 1, "sex": True},
    ):
        with pytest.raises(tr.InvalidInput, match=r"context\.(age|sex) (must be|is missing)"):
            read(spec, row)
    with pytest.raises(
        Refusal, match=r"context\.age must be true or false or a number or a text, but got \[1\]"
    ):
        request({"age": [1]})


def test_rows_are_journalled_and_replayed_without_the_file(tmp_path: Path) -> None:
    made = encoder()
    made.save(tmp_path / "rows.json")
    (tmp_path / "rows.toml").write_text(
        'actions = ["icu", "other"]\n[context]\nencoder = "rows.json"\n'
        '[[rule]]\nkind = "capacity"\naction = "icu"\nat_most = 0.4\n'
    )
    spec = read_spec(tmp_path / "rows.toml")
    assert spec.encoder == made
    assert spec.context_names == ("age", "ward", "urgent")
    (tmp_path / "rows.json").unlink()
    journal = MemoryJournal()
    bench = Bench(spec, journal)
    for i in range(40):
        row = (
            {"age": 20 + i, "ward": "AB?"[i % 3], "urgent": i % 2 == 0}
            if i % 5
            else {"ward": "A", "urgent": True}
        )
        assert bench.decide({"event_id": f"e{i}", "context": row}).status == 200
        assert bench.learn(f"e{i}", reward=float(i % 3 == 0)).status == 200
    assert bench.reopened().status == "ready"
    assert verify(journal).entries >= 80
    again = make_spec(json.loads(json.dumps(served_part(spec))))
    assert again.encoder == made
    judged = spec_to_judge(make_spec({"policy": {"kind": "uniform"}}), again)
    assert judged.encoder == made


def test_another_encoder_can_not_go_on() -> None:
    other = tr.Encoder(["age", "ward", "urgent"]).fit(
        {"age": [1, 2], "ward": ["A", "B"], "urgent": [True, False]}
    )
    old, new = spec_of(encoder()), spec_of(other)
    with pytest.raises(SpecError, match=r"context: was .*, and now is"):
        require_fit(old, new, served_policy(old), served_policy(new))
    require_fit(old, spec_of(encoder()), served_policy(old), served_policy(old))


def test_the_api_shows_the_columns_to_whom_they_concern(tmp_path: Path) -> None:
    def context_of(api: dict[str, Any]) -> dict[str, Any]:
        shown: dict[str, Any] = api["components"]["schemas"]["DecisionRequest"]["properties"]["context"]
        return shown

    with running(Service([Bench(spec_of(encoder())).experiment])) as web:
        shown = context_of(web.get("/openapi.json").json())["anyOf"][0]
        assert "context of rows" in web.get("/docs").text
    assert shown["title"] == "context of rows"
    assert list(shown["properties"]) == ["age", "ward", "urgent"]
    assert shown["required"] == ["ward", "urgent"]
    key = create_key(tmp_path / "keys.json", scopes=["read"])
    with running(Service([Bench(spec_of(encoder())).experiment], keys=Keys(tmp_path / "keys.json"))) as web:
        assert "urgent" not in web.get("/openapi.json").text
        found = web.get("/openapi.json", headers={"authorization": f"Bearer {key}"}).json()
        assert context_of(found)["anyOf"][0] == shown


def test_a_rule_for_a_group_that_is_seen_before_acting_is_served_by_the_default_policy() -> None:
    rules = [{"kind": "share", "action": "a", "at_least": 0.5, "among": "old"}]
    bench = Bench(make_spec({"name": "groups", "actions": ["a", "b"], "rule": rules}))
    for i in range(20):
        assert bench.decide({"event_id": str(i), "group": ["old"] if i % 2 else []}).status == 200
    assert bench.state()["constraints"][0]["decisions"] == 10
    assert verify(bench.journal).digest == bench.digest()
