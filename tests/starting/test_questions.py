"""A problem by questions."""

from __future__ import annotations

import pytest

from tightrope.errors import InvalidInput
from tightrope.spec import make_spec, read_spec
from tightrope.starting.questions import Answers, read_usage
from tightrope.starting.text import plain_spec_text

MAIL = Answers(
    name="mail",
    actions=["email", "letter"],
    context=["age: 0..120", "sex: f, m"],
    rules=["minutes <= 4", "letter >= 10%"],
    usage={"minutes": {"email": 1.0, "letter": 9.0}},
    chances={"letter": 0.7},
)
SIZE = {"rounds": 100, "replications": 2}


def test_answers_are_a_spec():
    data, _ = MAIL.data(**SIZE)
    spec = make_spec(data)
    assert str(spec.rules) == "minutes: at most 4 per decision on average\nletter: at least 10% of decisions"
    assert spec.usage == MAIL.usage
    assert data["environment"]["rewards"] == [[0.6, 0.7]]
    assert spec.context_names == ("age", "sex")


def test_its_text_is_the_same_spec_with_comments():
    data, reasons = MAIL.data(**SIZE)
    text = plain_spec_text(data, reasons, asked="tightrope init")
    read = read_spec(text)
    expected = make_spec(data)
    assert (read.rules, read.encoder, read.environment.settings) == (
        expected.rules,
        expected.encoder,
        expected.environment.settings,
    )
    assert "# For oracle, simulate and tune: a guess of how often each action succeeds" in text


def test_without_rules_there_is_an_example_or_none():
    data, reasons = Answers(actions=["a", "b"]).data(**SIZE)
    assert data["rule"] == [{"kind": "capacity", "action": "a", "at_most": 0.5}]
    assert "An example" in reasons["a <= 0.5"]
    none, _ = Answers(actions=["a", "b"], rules=()).data(**SIZE)
    assert none["rule"] == []
    assert read_spec(plain_spec_text(none, {}, asked="tightrope init")).rules is None


def test_usage_must_be_told_of_every_action():
    half = Answers(actions=["a", "b"], rules=["hours <= 1"], usage={"hours": {"a": 1.0}})
    with pytest.raises(InvalidInput, match="how many hours does 'b' use"):
        half.data(**SIZE)


def test_usage_is_read_by_name_and_action():
    assert read_usage("minutes:email=1,letter=9") == ("minutes", {"email": 1.0, "letter": 9.0})


def test_guesses_stand_for_chances_that_nobody_told():
    data, _ = Answers(actions=["email", "letter"], context=["age: 0..120"]).data(**SIZE)
    assert data["context"] == {"age": {"type": "number", "min": 0.0, "max": 120.0, "outside": "clip"}}
    assert data["environment"]["rewards"] == [[0.6, 0.4]]
