"""What a caller may send: JSON read strictly, refused with the field or the byte named."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NoReturn, TypeAlias, TypeVar

import msgspec

from tightrope.messages import fault
from tightrope.service.answer import Refusal

# PostgreSQL's text can't hold U+0000, and nobody should have to print the others. Python's $ would allow a trailing line feed.
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+(?!\n)$")]

# For people.
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=1000)]

# What was used, by the names in the rules.
Used: TypeAlias = dict[str, float]

# An action. A journal can't store numbers beyond 64 bits.
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=1 << 31)]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one request. Beyond them: 413 for bytes, 422 for the rest; a page of a list just ends there."""

    body_bytes: int = 1 << 20
    # Bytes of a decision's request in its journal row: a number takes 9 bytes there, but may take 2 in the body.
    row_bytes: int = 1 << 18
    # Bytes of the event id and groups of a pending decision. The spec fixes the number of its features.
    pending_bytes: int = 1 << 12
    # Bytes of one page of a list, unless its first entry alone is longer.
    page_bytes: int = 1 << 22
    # Rows on offer in one decision.
    actions: int = 1_000
    # Of a context.
    fields: int = 1_000
    # Characters of a text in a context: even an unseen category goes into the journal.
    characters: int = 1_000
    # Of a decision: whom it is for.
    keys: int = 20
    # Entries in `features` and in `usage`.
    numbers: int = 50_000
    # Nesting of arrays and objects.
    depth: int = 8
    # Items in a batch: as many as are made durable together.
    items: int = 256
    # Largest magnitude of a reward where the spec declares no range: the formulas are for rewards near [0, 1].
    reward: float = 1e6


LIMITS: Final = Limits()


class _Request(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    def require_within(self, limits: Limits) -> None:
        """Refuse requests that are too large. The experiment checks what the fields mean."""


class DecisionRequest(_Request):
    """The body of `POST /v1/decisions`.

    - event_id: The caller's id for this decision, which makes a retry safe. The service makes one if it is missing.
    - context: The fields that the spec declares, by name.
    - features: If the spec declares `[features]` instead of a `[context]`: a vector, or one row for each action.
    - usage: What each action uses, by the names in the rules: one number for all, a list by action, or an object by action's name.
    - group: The context's groups, among those that the spec declares or its rules name; an empty list for none.
    - actions: Names or numbers of the actions on offer; all by default.
    - keys: Whom the decision is for, such as `{"user": "u17"}`, where rules count by it, or the control group or sticky actions do.
    - default: The action that is served in shadow mode.
    - explain: Whether the answer says why. It is ignored when two bodies are compared.
    """

    event_id: Name | None = None
    context: dict[str, float | str | bool | None] | None = None
    features: list[float | list[float]] | None = None
    usage: dict[str, float | list[float] | dict[str, float]] | None = None
    group: Name | list[Name] | None = None
    actions: list[Number | str] | None = None
    keys: dict[Name, Name | Number] | None = None
    default: Number | str | None = None
    explain: bool = False

    def require_within(self, limits: Limits) -> None:
        for name in ("features", "usage"):
            _require_count(name, getattr(self, name), limits)
        for name, entries, most in (
            ("actions", self.actions, limits.actions),
            ("group", self.group, limits.actions),
            ("context", self.context, limits.fields),
            ("keys", self.keys, limits.keys),
        ):
            if entries is not None and len(entries) > most and not isinstance(entries, str):
                raise _invalid(f"{name} must have at most {most} entries, but got {len(entries)}")
        most = limits.characters
        for name, value in (self.context or {}).items():
            if isinstance(value, str) and len(value) > most:
                raise _invalid(
                    f"context.{name:.100} must have at most {most} characters, but has {len(value)}"
                )


class OutcomeRequest(_Request):
    """The body of `POST /v1/outcomes`: the reward, what was used, or both; each once. Or that nothing came of the decision.

    - event_id: Of the decision.
    - reward: In the unit of the spec's rewards; best between 0 and 1.
    - usage: What was used, by the names of the rules that are seen after acting: `{"hours": 0.5}` is half an hour, whatever the
      limit.
    - cancelled: The decision was never carried out: limits per window get back what it booked, and no outcome will come.
    """

    event_id: Name
    reward: float | None = None
    usage: Used | None = None
    cancelled: bool = False

    def require_within(self, limits: Limits) -> None:
        _require_count("usage", self.usage, limits)
        if self.cancelled and (self.reward is not None or self.usage is not None):
            raise _invalid("reward and usage must be left out where cancelled is true")
        if self.reward is None and self.usage is None and not self.cancelled:
            raise _invalid("reward or usage must be given, but got neither")
        if self.reward is not None and not abs(self.reward) <= limits.reward:
            most = limits.reward
            words = f"reward must lie in [-{most:g}, {most:g}], but got {self.reward:g}"
            raise Refusal(422, "invalid", words, field="reward")


_ITEMS: Final = msgspec.Meta(min_length=1, max_length=LIMITS.items)


class DecisionBatch(_Request):
    """The body of `POST /v1/decisions/batch`.

    - decisions: What `POST /v1/decisions` takes, up to 256 times. Each is answered by itself.
    """

    decisions: Annotated[list[DecisionRequest], _ITEMS]


class OutcomeBatch(_Request):
    """The body of `POST /v1/outcomes/batch`.

    - outcomes: What `POST /v1/outcomes` takes, up to 256 times. Each is answered by itself.
    """

    outcomes: Annotated[list[OutcomeRequest], _ITEMS]


class CorrectionRequest(OutcomeRequest, kw_only=True):
    """The body of `POST /v1/corrections`: what an outcome should have been. Parts that are left out stay.

    - event_id: Of the decision.
    - correction_id: The caller's id for this correction, which makes a retry safe.
    - reward, usage: As they should have been reported.
    """

    correction_id: Name

    def require_within(self, limits: Limits) -> None:
        if self.cancelled:
            raise _invalid("cancelled must be left out: an outcome can't be corrected to none")
        super().require_within(limits)


class ModeRequest(_Request):
    """The body of `POST /v1/mode`.

    - mode: `live`; `shadow`, which serves a default and learns from its outcomes; or `paused`, which only learns.
    - default: In shadow mode, the action for callers who name none.
    """

    mode: Literal["live", "shadow", "paused"]
    default: Number | str | None = None


class ActionChange(_Request):
    """What changes of an action.

    - state: `active`; `paused`, off offer until it is active again; or `retired`, off offer for good.
    - name: Its new name. Its number and all that was learnt and counted stay.
    - description: What it is, for people.
    """

    state: Literal["active", "paused", "retired"] | None = None
    name: Name | None = None
    description: Text | None = None


class NewAction(_Request):
    """An action that joins.

    - like: The action whose beliefs it begins with, less certain; without it nothing is believed of it.
    - usage: What it uses, for every rule whose usage the spec states.
    - state: Paused, if callers must get to know it first.
    """

    like: Name | None = None
    usage: Used = {}
    state: Literal["active", "paused"] = "active"
    description: Text = ""


class ChangeRequest(_Request):
    """The body of `POST /v1/changes`: everything in it changes together, or nothing.

    - actions: What changes of existing actions, by name.
    - add: New actions, by name.
    - rules: By name, as `GET /v1/state` lists them: fields with new values, such as `{"at_most": 0.3}`; null drops a rule, and a
      field that is null takes it out of the rule.
    - add_rules: New rules, as the spec writes them.
    - starts: From when it holds, in seconds since 1970; at once if it is missing or past.
    - check: Only say whether it is possible; nothing changes.
    """

    actions: dict[Name, ActionChange] = {}
    add: dict[Name, NewAction] = {}
    rules: dict[Name, dict[str, Any] | None] = {}
    add_rules: list[dict[str, Any]] = []
    starts: Annotated[float, msgspec.Meta(ge=0, le=1e11)] | None = None
    check: bool = False

    def require_within(self, limits: Limits) -> None:
        for name in ("actions", "add", "rules", "add_rules"):
            if len(given := getattr(self, name)) > limits.actions:
                raise _invalid(f"{name} must have at most {limits.actions} entries, but got {len(given)}")
        if not (self.actions or self.add or self.rules or self.add_rules):
            raise _invalid("actions, add, rules or add_rules must say what changes, but got none of them")


class CancelRequest(_Request):
    """The body of `POST /v1/changes/cancel`.

    - position: Of the change that has not begun yet, as `GET /v1/state` lists it.
    """

    position: Annotated[int, msgspec.Meta(ge=1, le=1 << 62)]


class SnapshotRequest(_Request):
    """The body of `POST /v1/snapshots`.

    - label: Its name; a labelled snapshot is kept for ever.
    """

    label: Name


class ErasureRequest(_Request):
    """The body of `POST /v1/erasures`.

    - event_ids: The events whose inputs and outcomes are erased for good, at most 1,000.
    """

    event_ids: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=1000)]


class RollbackRequest(_Request):
    """The body of `POST /v1/rollback`.

    - position: Of the snapshot, as `GET /v1/snapshots` lists it.
    - restore: Only what was learnt, or rounds, queues and cumulative costs too. Hard caps never go back.
    """

    position: Annotated[int, msgspec.Meta(ge=1, le=1 << 62)]
    restore: Literal["learnt", "all"]


class EventQuery(msgspec.Struct, frozen=True):
    """Which event: the end of `GET /v1/decisions/…`."""

    event_id: Annotated[Name, msgspec.Meta(description="The id of the decision.")]


_LIMIT: Final = msgspec.Meta(ge=1, le=1000, description="The most rows to return; 20 by default.")
_BEFORE: Final = msgspec.Meta(ge=1, le=1 << 62, description="The `before` of the previous page.")


class PageQuery(msgspec.Struct, frozen=True):
    """Which rows of a list, newest first: a limited number, before a position."""

    limit: Annotated[int, _LIMIT] = 20
    before: Annotated[int, _BEFORE] | None = None


class OutcomeQuery(PageQuery, frozen=True, kw_only=True):
    """Which outcomes of `GET /v1/outcomes`."""

    status: Annotated[
        Literal["late", "rejected", "missing", "pending"], msgspec.Meta(description="Which outcomes.")
    ]


class WindowQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which accounts of `GET /v1/windows`."""

    rule: Annotated[Name, msgspec.Meta(description="Only this limit, by its name.")] | None = None
    key: Annotated[Name, msgspec.Meta(description="Only the accounts of this key.")] | None = None
    limit: Annotated[
        int, msgspec.Meta(ge=1, le=1000, description="The most keys to return of each limit; 20 by default.")
    ] = 20


Body = TypeVar("Body", bound=_Request)
Query = TypeVar("Query", bound=msgspec.Struct)


def read_query(texts: Mapping[str, str], kind: type[Query]) -> Query:
    """Path and query as `kind`, or a `Refusal` that names the parameter."""
    given = {name: texts[name] for name in kind.__struct_fields__ if name in texts}
    try:
        given.get("event_id", "").encode()
        query = msgspec.convert(given, kind, strict=False)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        if isinstance(error, UnicodeEncodeError) or "event_id" in given:
            raise Refusal(404, "unknown", "no decision can have such an event_id") from None
        raise _unfit(error, given, kind) from None
    for name in given:
        # msgspec takes the word null for None. Whoever leaves a parameter out does not send it.
        if getattr(query, name) is None:
            words = f"{name} must have a value, but is {given[name]!r}: leave it out"
            raise Refusal(422, "invalid", words, field=name)
    return query


def read_body(body: bytes, kind: type[Body], limits: Limits = LIMITS) -> Body:
    """`body` as `kind`, or a `Refusal` that names the byte (not JSON) or the field (anything else)."""
    if len(body) > limits.body_bytes:
        words = f"the body must have at most {limits.body_bytes} bytes, but has {len(body)}"
        raise Refusal(413, "too-large", words)
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        request: Body = decoder.decode(body)
    except msgspec.ValidationError as error:
        _require_depth(body, limits.depth)
        # As plain data, to show the value in the message.
        raise _unfit(error, _require_single_keys(body, _VALUES), kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _require_depth(body, limits.depth)
        raise _malformed(error, body) from None
    # Before the bytes are parsed again: anything within these limits is short enough for that.
    request.require_within(limits)
    if len(body) * _LONGEST > limits.row_bytes:
        size = len(msgspec.msgpack.encode(request))
        if size > limits.row_bytes:
            words = f"the request takes {size} bytes of the journal, but may take at most {limits.row_bytes}"
            raise Refusal(413, "too-large", words)
    if body.count(b":") != _keys(msgspec.json.decode(body)):
        _require_single_keys(body)
    if b"-0" in body:
        # 0 says the same.
        request = msgspec.convert(_positive_zeros(msgspec.to_builtins(request)), kind)
    return request


def read_items(body: bytes, kind: type[Body], limits: Limits = LIMITS) -> list[_Request | Refusal]:
    """The requests in a batch, each as `read_body` reads it; one that is refused leaves its `Refusal` in its place."""
    if len(body) > limits.body_bytes:
        words = f"the body must have at most {limits.body_bytes} bytes, but has {len(body)}"
        raise Refusal(413, "too-large", words)
    [name] = kind.__struct_fields__
    item = _ITEM_OF[kind]
    # Two levels above an item.
    _require_depth(body, limits.depth + 2)
    if body.count(f'"{name}"'.encode()) > 1:
        _require_single_keys(body)
    try:
        read = _batch_decoder(name, limits.items).decode(body)
    except msgspec.ValidationError as error:
        raise _unfit(error, _require_single_keys(body, _VALUES), kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _malformed(error, body) from None
    found: list[_Request | Refusal] = []
    for raw in getattr(read, name):
        try:
            found.append(read_body(bytes(raw), item, limits))
        except Refusal as refusal:
            found.append(refusal)
    return found


def fingerprint(request: DecisionRequest | OutcomeRequest) -> bytes:
    """16 bytes that are equal for two bodies exactly if they mean the same, regardless of key order and spaces."""
    if isinstance(request, DecisionRequest) and request.explain:
        request = msgspec.structs.replace(request, explain=False)
    return hashlib.blake2b(msgspec.json.encode(request, order="deterministic"), digest_size=16).digest()


# How many journal bytes one byte of a body can become at most: a digit and a comma are a number of nine bytes.
_LONGEST: Final = 5
_DECODERS: dict[type[_Request], msgspec.json.Decoder[Any]] = {}
_ITEM_OF: Final[dict[Any, type[_Request]]] = {DecisionBatch: DecisionRequest, OutcomeBatch: OutcomeRequest}


@functools.cache
def _batch_decoder(name: str, items: int) -> msgspec.json.Decoder[Any]:
    """Reads a batch without its items, so that a bad one does not refuse the others."""
    listed = Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=items)]
    return msgspec.json.Decoder(msgspec.defstruct("Batch", [(name, listed)], forbid_unknown_fields=True))


# A text to its end, or to the end of the body if unterminated, without backtracking: nothing is read twice.
_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[][{}]', re.DOTALL)
_CLOSES: Final = {ord("["): ord("]"), ord("{"): ord("}")}


def _invalid(message: str) -> Refusal:
    return Refusal(422, "invalid", message)


def _unfit(error: msgspec.ValidationError, given: Any, kind: Any) -> Refusal:
    path, words, _ = fault(error, given, kind, shown=_shown, table="an object")
    at = path.removeprefix(".")
    return Refusal(422, "invalid", f"{at or 'the body'} {words}", field=at or None)


def _require_count(name: str, entries: list[Any] | dict[str, Any] | None, limits: Limits) -> None:
    if entries is None:
        return
    each = entries.values() if isinstance(entries, dict) else entries
    count = sum(len(entry) if isinstance(entry, list | dict) else 1 for entry in each)
    if count > limits.numbers:
        raise _invalid(f"{name} must hold at most {limits.numbers} numbers, but holds {count}")


def _require_depth(body: bytes, limit: int) -> None:
    """Refuse deep nesting, in one pass that ends with the first value or where brackets no longer match."""
    if body.count(b"[") + body.count(b"{") <= limit:
        return
    open_ones: list[int] = []
    for token in _TOKENS.finditer(body):
        first = body[token.start()]
        if first in _CLOSES:
            open_ones.append(_CLOSES[first])
            if len(open_ones) > limit:
                words = f"nested deeper than {limit} levels (byte {token.start()} of the body)"
                raise Refusal(400, "malformed", words)
        elif first in b"]}" and (not open_ones or open_ones.pop() != first or not open_ones):
            return


class _Twice(Exception):
    pass


def _single(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Twice(key)
            seen.add(key)
    return table


# Numbers don't matter in this pass; `float` never fails on what the JSON scanner takes for a number.
_PAIRS: Final = json.JSONDecoder(object_pairs_hook=_single, parse_int=float, parse_float=float)
_VALUES: Final = json.JSONDecoder(
    object_pairs_hook=_single, parse_int=lambda digits: int(digits) if len(digits) < 20 else float(digits)
)


def _require_single_keys(body: bytes, decoder: json.JSONDecoder = _PAIRS) -> Any:
    """Refuse duplicate keys, of which msgspec silently takes the last. Returns the decoded body, or None for bad JSON."""
    try:
        return decoder.decode(body.decode())
    except _Twice as twice:
        raise _invalid(f"{twice} appears twice in one object") from None
    except (ValueError, RecursionError):
        # msgspec refuses an earlier place, with a better message.
        return None


def _keys(table: dict[str, Any]) -> int:
    """How many keys there are in all objects. Each has a colon of its own: with as many colons, none came twice."""
    count = len(table)
    for value in table.values():
        if isinstance(value, dict):
            count += _keys(value)
    return count


def _positive_zeros(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _positive_zeros(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_positive_zeros(one) for one in value]
    return 0.0 if isinstance(value, float) and value == 0.0 else value


class _Constant(Exception):
    """NaN, Infinity or -Infinity, which Python's parser takes for numbers."""


def _no_constant(name: str) -> NoReturn:
    raise _Constant(name)


def _malformed(error: Exception, body: bytes) -> Refusal:
    if not body.strip():
        return Refusal(400, "malformed", "the body is empty, but must be a JSON object")
    try:
        body.decode()
    except UnicodeDecodeError as wrong:
        return Refusal(400, "malformed", f"not UTF-8: {wrong.reason} (byte {wrong.start} of the body)")
    try:
        json.loads(body, parse_int=float, parse_constant=_no_constant)
    except json.JSONDecodeError as wrong:
        # Its offsets count characters, but are more precise than msgspec's.
        place = len(wrong.doc[: wrong.pos].encode())
        reason = wrong.msg[:1].lower() + wrong.msg[1:] if place < len(body) else "it ends too early"
        return Refusal(400, "malformed", f"not JSON: {reason} (byte {place} of the body)")
    except _Constant as constant:
        byte = re.search(r"\(byte \d+\)", str(error))
        where = f" {byte[0][:-1]} of the body)" if byte else ""
        words = f"not JSON, which has no {constant}{where}: leave out a field that has no value"
        return Refusal(400, "malformed", words)
    except (ValueError, RecursionError):
        pass
    # What the standard library lets pass: half of a surrogate pair.
    lone = re.search(rb"\\u[dD][89a-fA-F]", body)
    found = re.fullmatch(r"JSON is malformed: (.*) \(byte (\d+)\)", str(error))
    if found or lone is None:
        reason, at = (found[1], int(found[2])) if found else (str(error), len(body))
    else:
        reason, at = "half of a surrogate pair", lone.start()
    return Refusal(400, "malformed", f"not JSON: {reason} (byte {at} of the body)")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
