"""What callers send: everything hostile is refused with the field or the byte named, and nothing reaches the state."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightrope.service.answer import Refusal
from tightrope.service.requests import (
    _TOKENS,
    DecisionRequest,
    Limits,
    OutcomeRequest,
    fingerprint,
    read_body,
)
from workbench import Bench, code, measured, ward

HOSTILE = [
    (b"", 400, "the body is empty"),
    (b'{"context": {"age": 71', 400, "byte 22"),
    (b'{"context": {"age": NaN}}', 400, "has no NaN (byte 20 of the body)"),
    (b'{"context": {"age": Infinity}}', 400, "byte 20"),
    (b'{"context": {"age": -Infinity}}', 400, "byte 2"),
    (b'{"context": {"age": 01}}', 400, "byte 2"),
    (b'{"a": 1} trailing', 422, "a is an unknown field"),
    (b"{} trailing", 400, "byte 3"),
    (b'{"event_id": "\xff"}', 400, "byte 14"),
    (b'{"event_id": "\\ud800"}', 400, "byte 14"),
    (b"\xef\xbb\xbf{}", 400, "byte 0"),
    (b'{"context": {"age": 1e400}}', 422, "context.age must be a finite number"),
    (b'{"context": {"age": 1' + b"0" * 5000 + b"}}", 422, "context.age must be a finite number"),
    (b'{"context": {"age": "NaN"}}', 422, "context.age"),
    (b'{"context": {"age": true, "sex": "f"}}', 422, "context.age"),
    (b'{"context": {"age": null, "sex": "f"}}', 422, "context.age"),
    (b'{"context": {"age": [71], "sex": "f"}}', 422, "context.age"),
    (b'{"context": {"age": 71}}', 422, "context.sex is missing"),
    (b'{"context": {"age": 71, "sex": "x"}}', 422, "context.sex"),
    (b'{"context": {"age": 71, "sex": "f", "name": "x"}}', 422, "context.name"),
    (b'{"context": {"age": 171, "sex": "f"}}', 422, "context.age must lie in [0, 100]"),
    (b'{"context": {"age": 71, "age": 72, "sex": "f"}}', 422, "age appears twice"),
    (b'{"context": {"age": 71, "sex": "f"}, "context": {}}', 422, "context appears twice"),
    (b'{"context": [1]}', 422, "context must be an object"),
    (b"[]", 422, "the body must be an object"),
    (b"null", 422, "the body must be an object"),
    (b"{}", 422, "context is missing"),
    (b'{"features": [0.1, 0.1, "x"]}', 422, "features[2] must be a number"),
    (b'{"features": [0.1, true, 0.1]}', 422, "features[1] must be a number"),
    (b'{"features": [0.1, 0.1, 0.1]}', 422, "features must be left out: the spec declares a [context]"),
    (b'{"features": [1e20, 1e20, 1e20]}', 422, "features must be left out: the spec declares a [context]"),
    (b'{"features": ' + b"[" * 100_000 + b"]" * 10_000 + b"}", 400, "nested deeper than 8"),
    (b'{"actions": [], "context": {"age": 1, "sex": "f"}}', 422, "actions must name at least one"),
    (
        b'{"actions": ["icu", "icu"], "context": {"age": 1, "sex": "f"}}',
        422,
        "actions must name each action once",
    ),
    (b'{"actions": ["icu", "attic"], "context": {"age": 1, "sex": "f"}}', 422, "actions[1]"),
    (b'{"actions": [true], "context": {"age": 1, "sex": "f"}}', 422, "actions[0]"),
    (b'{"actions": [1.5], "context": {"age": 1, "sex": "f"}}', 422, "actions[0]"),
    (b'{"actions": [-1], "context": {"age": 1, "sex": "f"}}', 422, "actions[0]"),
    (b'{"actions": [99999999999999999999999999], "context": {"age": 1, "sex": "f"}}', 422, "actions[0]"),
    (
        b'{"usage": {"hours": 0.5}, "context": {"age": 1, "sex": "f"}}',
        422,
        "usage.hours is seen after acting",
    ),
    (b'{"usage": {"fuel": 0.5}, "context": {"age": 1, "sex": "f"}}', 422, "fuel"),
    (b'{"usage": {"hours": {"icu": "NaN"}}}', 422, "usage.hours.icu must be a number"),
    (b'{"usage": {"hours": [1, null]}}', 422, "usage.hours[1] must be a number"),
    (
        b'{"costs": [[0.1], [0.1], [0.1]], "context": {"age": 1, "sex": "f"}}',
        422,
        "costs is an unknown field",
    ),
    (b'{"group": [1], "context": {"age": 1, "sex": "f"}}', 422, "group[0] must be a text"),
    (b'{"event_id": 7, "context": {"age": 1, "sex": "f"}}', 422, "event_id must be a text"),
    (b'{"event_id": "", "context": {"age": 1, "sex": "f"}}', 422, "event_id"),
    (b'{"event_id": "a\\u0000b", "context": {"age": 1, "sex": "f"}}', 422, "event_id must hold no control"),
    (b'{"event_id": "' + b"x" * 201 + b'"}', 422, "event_id must have a length <= 200"),
    (b'{"explain": 1, "context": {"age": 1, "sex": "f"}}', 422, "explain must be true or false"),
    (b'{"contxt": {}}', 422, "contxt is an unknown field"),
]


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench(ward())


@pytest.mark.parametrize(("body", "status", "words"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_decisions_are_refused_and_change_nothing(
    bench: Bench, body: bytes, status: int, words: str
) -> None:
    before = bench.digest()
    try:
        answer = bench.decide(body)
        got, message = answer.status, json.loads(answer.body).get("error", {}).get("message", "")
    except Refusal as refusal:
        got, message = refusal.status, refusal.message
    assert got == status, message
    assert words in message
    assert bench.digest() == before


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"event_id": "e", "reward": NaN}', "byte 28"),
        (b'{"event_id": "e", "reward": 1e400}', "reward must be a finite number"),
        (b'{"event_id": "e", "reward": "NaN"}', "reward must be a number"),
        (b'{"event_id": "e", "reward": true}', "reward must be a number"),
        (b'{"event_id": "e", "reward": 1, "reward": 0}', "reward appears twice"),
        (b'{"event_id": "e"}', "reward or usage must be given"),
        (b'{"reward": 1}', "event_id is missing"),
        (b'{"event_id": "e", "usage": {"hours": false}}', "usage.hours must be a number"),
        (b'{"event_id": "e", "usage": {"hours": 1, "hours": 0}}', "hours appears twice"),
        (b'{"event_id": "e", "reward": 1, "\\u0072eward": 0}', "reward appears twice"),
        (b'{"event_id": "a:b", "usage": {"a:": 1, "a:": 0}}', "a: appears twice"),
        (b'{"event_id": "e", "usage": [1e20]}', "usage must be an object"),
        (b'{"event_id": "e", "costs": [1e20]}', "costs is an unknown field"),
    ],
)
def test_hostile_outcomes_are_refused(body: bytes, words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        read_body(body, OutcomeRequest)
    assert 400 <= refusal.value.status < 500
    assert words in refusal.value.message


def test_an_outcome_out_of_range_changes_nothing(bench: Bench) -> None:
    bench.decide(b'{"event_id": "o", "context": {"age": 1, "sex": "f"}}')
    before = bench.digest()
    assert code(bench.learn("o", usage={"hours": 1.5})) == (422, "invalid")
    assert code(bench.learn("o", usage={"fuel": 0.5})) == (422, "invalid")
    with pytest.raises(Refusal, match="reward must lie in") as refused:
        bench.learn("o", reward=1e9)
    assert refused.value.field == "reward"
    assert bench.digest() == before
    assert bench.learn("o", reward=1.0, usage={"hours": 0.5}).status == 200
    assert bench.digest() != before


def test_usage_is_refused_where_it_is_seen_before() -> None:
    bench = Bench(measured())
    bench.decide(b'{"event_id": "o", "context": {"age": 1, "sex": "f"}}')
    assert code(bench.learn("o", reward=1.0, usage={"hours": 0.5})) == (422, "invalid")
    assert bench.learn("o", reward=1.0).status == 200


def test_limits_on_bytes_numbers_and_actions() -> None:
    limits = Limits(body_bytes=200, actions=2, numbers=4)
    read_body(b'{"actions": [0, 1], "features": [1, 2, 3, 4]}', DecisionRequest, limits)
    for body, status, words in [
        (b'{"actions": [0, 1, 2]}', 422, "actions must have at most 2"),
        (b'{"features": [1, 2, 3, 4, 5]}', 422, "features must hold at most 4"),
        (b'{"features": [[1, 2, 3], [4, 5]]}', 422, "features must hold at most 4"),
        (b'{"usage": {"a": [1, 2, 3], "b": {"x": 1, "y": 1}}}', 422, "usage must hold at most 4"),
        (b'{"group": ["a", "b", "c"]}', 422, "group must have at most 2"),
        (b'{"event_id": "' + b"x" * 200 + b'"}', 413, "at most 200 bytes"),
    ]:
        with pytest.raises(Refusal, match=words) as refusal:
            read_body(body, DecisionRequest, limits)
        assert refusal.value.status == status


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [
        "event_id",
        "context",
        "features",
        "usage",
        "group",
        "actions",
        "default",
        "explain",
        "age",
        "sex",
    ]
)


@given(st.dictionaries(FIELDS, JSON, max_size=5) | JSON)
def test_any_json_is_either_read_or_refused_with_4xx(value: object) -> None:
    body = json.dumps(value).encode()
    try:
        status = _FUZZED.decide(body).status
    except Refusal as refusal:
        status = refusal.status
    assert status == 200 or 400 <= status < 500


_FUZZED = Bench(ward("fuzzed"))


@given(st.binary(max_size=64))
def test_any_bytes_are_refused_with_4xx(body: bytes) -> None:
    status = 200
    try:
        read_body(body, DecisionRequest)
    except Refusal as refusal:
        status = refusal.status
    assert status == 200 or 400 <= status < 500


@given(st.permutations(["event_id", "context", "actions"]), st.sampled_from([None, 1]))
def test_a_fingerprint_ignores_order_and_spaces_but_no_value(order: list[str], indent: int | None) -> None:
    value = {"event_id": "e", "context": {"age": 71, "sex": "f"}, "actions": ["icu"]}
    written = json.dumps({key: value[key] for key in order}, indent=indent).encode()
    same = fingerprint(read_body(written, DecisionRequest))
    assert same == fingerprint(read_body(json.dumps(value).encode(), DecisionRequest))
    value["context"] = {"age": 71.5, "sex": "f"}
    assert same != fingerprint(read_body(json.dumps(value).encode(), DecisionRequest))


# --- no body takes long ---


def test_a_text_without_end_is_read_once() -> None:
    small, large = (b"[]" * 9 + b'"' + b'\\"' * n for n in (100, 20_000))
    for body in (small, large):
        # 9 pairs of brackets, and one text to the end.
        assert len(list(_TOKENS.finditer(body))) == 19
    with pytest.raises(Refusal) as refusal:
        read_body(large, DecisionRequest)
    assert refusal.value.status in (400, 422)


@pytest.mark.parametrize(
    "body",
    [
        b'["' + b'\\"' * 20_000 + b"[" * 9,
        b'["' + b"\\" * 40_001,
        b"[" * 8 + b'"[[[" ,"\\"[" ' + b"]" * 8,
        b"[]" * 40_000,
        b"[" + b"[]," * 30_000 + b"]",
        b"]" * 10_000,
        b"[{]}" * 10_000,
    ],
    ids=["unterminated", "backslashes", "brackets in texts", "flat", "shallow", "closing", "crossed"],
)
def test_brackets_in_texts_do_not_count_and_deep_ones_do(body: bytes) -> None:
    with pytest.raises(Refusal) as refusal:
        read_body(body, DecisionRequest)
    assert "nested deeper" not in refusal.value.message
    with pytest.raises(Refusal, match="nested deeper than 8 levels"):
        read_body(
            b"[" * 8 + b'"\\"]]"' + b"," + body.lstrip(b"]") + b"[" * 9, DecisionRequest, Limits(depth=8)
        )


def test_a_context_has_at_most_so_many_fields() -> None:
    fields = {f"field-{i}": 1 for i in range(1001)}
    with pytest.raises(Refusal, match="context must have at most 1000 entries, but got 1001"):
        read_body(json.dumps({"context": fields}).encode(), DecisionRequest)


# --- what says the same is the same ---


def test_minus_zero_is_zero() -> None:
    bench = Bench(ward("zeros"))
    first = bench.decide(b'{"event_id": "z", "context": {"age": -0.0, "sex": "f"}}')
    assert first.status == 200
    for again in (b"0", b"0.0", b"-0", b"-0e5"):
        body = b'{"event_id": "z", "context": {"age": %s, "sex": "f"}}' % again
        assert bench.decide(body) == first
    text = b'{"event_id": "t", "context": {"age": 1, "sex": "f"}, "group": "%s"}'
    assert read_body(text % b"-0.0", DecisionRequest).group == "-0.0"


@pytest.mark.parametrize("event_id", ["abc\n", "\n", "a\nb", "abc\r", "abc\x7f"])
def test_an_event_id_holds_no_line_feed_anywhere(event_id: str) -> None:
    body = json.dumps({"event_id": event_id, "context": {"age": 1, "sex": "f"}}).encode()
    with pytest.raises(Refusal, match="event_id must hold no control characters"):
        read_body(body, DecisionRequest)


@pytest.mark.parametrize(
    "body",
    [
        rb'{"event_id": {"": "\ud800"}, "reward": 1}',
        rb'{"event_id": "e", "reward": "\udfff"}',
        rb'{"event_id": "e", "\ud800": 1}',
        rb'["\ud800"]',
        rb'{"event_id": "\ud800", "event_id": 1}',
    ],
)
def test_half_of_a_surrogate_pair_can_be_refused_in_words(body: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        read_body(body, OutcomeRequest)
    answer = caught.value.answer()
    assert answer.status in (400, 422)
    assert json.loads(answer.body)["error"]["message"]


@pytest.mark.parametrize("number", [2**64, -(2**64), 10**30, 2**32])
@pytest.mark.parametrize("field", ["default", "actions"])
def test_the_number_of_an_action_is_one_that_a_journal_can_hold(field: str, number: int) -> None:
    body = {"event_id": "e", field: [number] if field == "actions" else number}
    with pytest.raises(Refusal, match=rf"^{field}.* must be at (least|most) -?2147483648, but got") as caught:
        read_body(json.dumps(body).encode(), DecisionRequest)
    assert caught.value.status == 422
