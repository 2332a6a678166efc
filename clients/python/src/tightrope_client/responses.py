"""The service's answers as types: an editor completes their fields, and the service builds its OpenAPI document from them.

Whole numbers are at least 0. A number that is not finite is null in JSON. Times are seconds since 1970.

>>> decision: Decision = {"event_id": "visit-1", "action": 1, "name": "surgery", "sequence": 0, "probability": 1.0}
>>> decision["name"]
'surgery'
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class ActionValue(TypedDict):
    """What an action was worth when the decision was made.

    - reward: Its expected reward; for some policies an optimistic bound.
    - penalties: By constraint.
    - value: What the policy compares: reward less penalties. Null if it is not finite.
    - probability: The chance of drawing it; only for policies that draw.
    """

    action: str
    chosen: bool
    reward: float | None
    penalties: dict[str, float | None]
    value: float | None
    probability: NotRequired[float | None]


class Explanation(TypedDict):
    """Why a decision was taken.

    - actions: What each action on offer was worth.
    - queue: Prices or queues by constraint, when the decision was made.
    - V, epsilon: Weight of the reward and tightening of the limits; null for a policy without them.
    - words: The explanation in words, if the policy gives one.
    """

    actions: list[ActionValue]
    queue: dict[str, float | None]
    V: float | None
    epsilon: float | None
    words: NotRequired[list[str]]


class Decision(TypedDict):
    """A decision.

    - event_id: The id that the caller gave, or the one that the service made.
    - action: The action's number, in the order of the spec.
    - name: Its name.
    - sequence: How many decisions the experiment had made before this one.
    - probability: The probability with which the action was served; 1 if nothing was drawn, null if there is no closed form.
    - proposed: In shadow mode: what the policy would have chosen.
    - probabilities: With `explain`: of all actions on offer, by name.
    - explanation: With `explain`: why.
    """

    event_id: str
    action: int
    name: str
    sequence: int
    probability: float | None
    proposed: NotRequired[str]
    probabilities: NotRequired[dict[str, float] | None]
    explanation: NotRequired[Explanation]


class KnownOutcome(TypedDict):
    """The parts of an outcome that have arrived.

    - usage: What was used, by the names in the rules.
    """

    reward: NotRequired[float]
    usage: NotRequired[dict[str, float]]


class RecordedDecision(Decision):
    """A decision with its outcome so far.

    - request: What was asked.
    - outcome: The parts of its outcome that have arrived.
    - pending: Whether the rest is still awaited.
    """

    request: dict[str, Any]
    outcome: KnownOutcome
    pending: bool


class ListedDecision(TypedDict):
    """A decision in a list. An erased one keeps only its id, number, action and position; a damaged one its id and position.

    - position, time: Its position in the journal, and when it was made.
    - request: What was asked.
    - erased: Whether its inputs and outcomes have been erased.
    - damaged: Whether its journal entry can't be read.
    """

    event_id: str
    action: NotRequired[int]
    sequence: NotRequired[int]
    position: int
    time: float
    name: NotRequired[str]
    probability: NotRequired[float | None]
    proposed: NotRequired[str]
    probabilities: NotRequired[dict[str, float] | None]
    explanation: NotRequired[Explanation]
    request: NotRequired[dict[str, Any]]
    erased: NotRequired[Literal[True]]
    damaged: NotRequired[Literal[True]]


class DecisionPage(TypedDict):
    """Decisions, newest first.

    - before: Pass it to get the next page; null at the end.
    """

    decisions: list[ListedDecision]
    before: int | None


class Outcome(TypedDict):
    """The parts of an outcome that have arrived so far.

    - awaits: The parts that are still awaited.
    """

    event_id: str
    sequence: int
    awaits: list[Literal["reward", "usage"]]


class ListedOutcome(TypedDict):
    """An outcome that came late, was rejected, is missing, or is still awaited.

    - sequence: If missing or pending: the decision's number.
    - time: When the outcome came; if pending, when its decision was made.
    - expired: If missing: when the service stopped waiting for it.
    - reason: If late or rejected: why.
    - by: The id of the key that sent it.
    - damaged: Whether its journal entry can't be read: only its time is known.
    """

    event_id: NotRequired[str]
    sequence: NotRequired[int]
    time: NotRequired[float]
    expired: NotRequired[float]
    reason: NotRequired[Literal["late", "unknown", "differs"]]
    reward: NotRequired[float | None]
    usage: NotRequired[dict[str, float] | None]
    by: NotRequired[str | None]
    damaged: NotRequired[Literal[True]]


class OutcomePage(TypedDict):
    """Outcomes, newest first; pending ones oldest first.

    - before: Pass it to get the next page; null at the end.
    """

    outcomes: list[ListedOutcome]
    before: int | None


class ActionShare(TypedDict):
    """How often an action was served.

    - offered: How often it was on offer.
    """

    name: str
    decisions: int
    share: float
    offered: int


class ConstraintState(TypedDict):
    """Where a constraint stands.

    - rule: In words.
    - side: Which side, if the rule has two.
    - limit, unit: The limit as the rule states it, and its unit.
    - one_more: What one more unit of the limit means, in words.
    - decisions: How many decisions it was counted over; null after a change of the rule's scale.
    - used, allowed, left: In the rule's unit: what was used (for `at_least`, what there was), what the limit allowed so far (for
      `at_least`, required), and the difference. Null: not known.
    - cumulative_cost: Sum of usage less limit over all decisions, divided by the rule's scale: at most 0 if the rule holds.
    - queue: The price or queue that the policy uses, on the same scale.
    - price: What one more unit, such as one more nurse hour, would earn.
    - infeasible: Whether it can't be met, judging by what was seen.
    """

    name: str
    rule: str
    side: str
    seen: Literal["before", "after"]
    limit: float
    unit: str
    one_more: str
    decisions: int | None
    used: float | None
    allowed: float | None
    left: float
    cumulative_cost: float
    queue: float
    price: NotRequired[float]
    infeasible: bool


class Withheld(TypedDict):
    """Which actions a hard cap withholds.

    - since, sequence: When this began, and with which decision.
    - decisions: How many decisions there have been since.
    - actions: How often it withheld each action.
    - mean_reward_before, mean_reward_since: Null if no reward is known.
    """

    since: float
    sequence: int
    decisions: int
    actions: dict[str, int]
    mean_reward_before: float | None
    mean_reward_since: float | None


class HardCapState(TypedDict):
    """Where a hard cap stands: `used` of `total`, in the rule's units, and which actions it withholds now.

    - used: What has been used or reserved.
    - reserved: The part of `used` that is held until the outcomes say what was really used.
    """

    name: str
    rule: str
    unit: str
    total: float
    used: float
    reserved: float
    left: float
    withheld: Withheld | None


class OutcomeCounts(TypedDict):
    """How many outcomes arrived, and what became of the others.

    - rewards: Rewards that were learnt.
    - complete: Decisions whose whole outcome is known.
    - missing, late, rejected, rolled_back: No longer awaited; came after that; contradicted what was recorded; undone by a
      rollback.
    """

    rewards: int
    mean_reward: float | None
    complete: int
    pending: int
    missing: int
    late: int
    rejected: int
    rolled_back: int


class ConcernState(TypedDict):
    """Something that the policy can't do as asked, and what helps."""

    kind: str
    message: str
    remedy: str


class OutsideValues(TypedDict):
    """How many numbers of a field of the context were outside its range.

    - low, high: The range.
    - values: How many were outside it.
    - outside: What happened to them: `clip`, they were moved to the nearer end; `take`, they were used as they were.
    """

    field: str
    low: float
    high: float
    values: int
    outside: Literal["clip", "take"]


class State(TypedDict):
    """Where an experiment stands.

    - policy: Its kind.
    - position: How many entries the journal has.
    - head: The hash of the last entry, which proves all of them.
    - default: What shadow mode serves.
    - slater: Slater's constant, if the policy has one.
    """

    experiment: str
    policy: str
    position: int
    head: str
    time: float
    mode: Literal["live", "shadow", "paused"]
    default: str | None
    decisions: int
    actions: list[ActionShare]
    constraints: list[ConstraintState]
    hard_caps: list[HardCapState]
    outcomes: OutcomeCounts
    shadow_decisions: int
    outside: list[OutsideValues]
    slater: float | None
    concerns: list[ConcernState]


class History(TypedDict):
    """Where an experiment stood at up to 240 moments: lists of equal length.

    - decisions, rewards, reward_sum: How many there had been, and the sum of the rewards.
    - cumulative_costs, queues, prices: By constraint; prices only if the policy has them.
    - left, allowed: By constraint, in the rule's units.
    - actions: How often each was served.
    """

    decisions: list[float]
    time: list[float]
    rewards: list[float]
    reward_sum: list[float]
    cumulative_costs: dict[str, list[float]]
    left: dict[str, list[float]]
    allowed: dict[str, list[float]]
    queues: dict[str, list[float]]
    prices: NotRequired[dict[str, list[float]]]
    actions: dict[str, list[float]]


class RuleCost(TypedDict):
    """What a round would earn without one of the rules."""

    name: str
    without: float


class RuleCosts(TypedDict):
    """Roughly what rules cost in reward, judged by remembered rounds.

    - reward: What a round earns with all rules; null if that is not known, and `why` gives the reason.
    - rounds: How many rounds this is judged by.
    """

    reward: float | None
    rounds: int
    rules: list[RuleCost]
    why: str | None


class Change(TypedDict):
    """A change of the configuration: a start, a mode, a rollback or an erasure, with its details.

    - position: In the journal; for a rollback, the snapshot's position.
    - by: The id of the key that asked for it.
    - damaged: Whether its journal entry can't be read.
    - ranges: For a start: the inferred ranges of usage that no rule declares.
    """

    position: int
    time: float
    kind: Literal["started", "mode", "rolled back", "erased"]
    by: NotRequired[str]
    format: NotRequired[int]
    version: NotRequired[str]
    spec: NotRequired[dict[str, Any]]
    expire_after: NotRequired[float]
    max_pending: NotRequired[int]
    reset_caps: NotRequired[list[str]]
    ranges: NotRequired[dict[str, tuple[float, float]]]
    mode: NotRequired[Literal["live", "shadow", "paused"]]
    default: NotRequired[int]
    restore: NotRequired[Literal["learnt", "all"]]
    rows: NotRequired[list[tuple[int, int]]]
    event_ids: NotRequired[list[str]]
    numbers: NotRequired[list[int]]
    stale: NotRequired[list[int]]
    snapshots: NotRequired[list[tuple[int, str]]]
    damaged: NotRequired[Literal[True]]


class ChangePage(TypedDict):
    """Changes, newest first.

    - before: Pass it to get the next page; null at the end.
    """

    changes: list[Change]
    before: int | None


class Snapshot(TypedDict):
    """A snapshot of the state after the entry at `position`: its SHA-256, and its name, if it has one."""

    position: int
    time: float
    digest: str
    label: str | None


class SnapshotList(TypedDict):
    """Snapshots that can be rolled back to, oldest first."""

    snapshots: list[Snapshot]


class Rollback(TypedDict):
    """The rollback's position in the journal, and the snapshot that it went back to."""

    position: int
    restored: Snapshot


class ModeState(TypedDict):
    """The mode, and what shadow mode serves."""

    mode: Literal["live", "shadow", "paused"]
    default: str | None


class Erasure(TypedDict):
    """What was erased.

    - erased, unknown: The events that were erased, and those that no decision was made for.
    - entries: How many entries of the journal lost something.
    """

    erased: list[str]
    unknown: list[str]
    entries: int


class ExperimentSummary(TypedDict):
    """An experiment: its name, whether it is ready, and its actions."""

    name: str
    status: str
    actions: list[str]


class ExperimentList(TypedDict):
    """The experiments that the key opens."""

    experiments: list[ExperimentSummary]


class Health(TypedDict):
    """Whether all worker threads are running."""

    status: Literal["alive", "dead"]


class Readiness(TypedDict):
    """Whether every experiment accepts decisions; without a key, only how many have which status.

    - why: If not: the reasons, in words.
    """

    ready: bool
    why: NotRequired[list[str]]
    experiments: NotRequired[dict[str, int]]


class ErrorDetail(TypedDict):
    """Why a request was refused.

    - code: For programs.
    - message: For people; it names the field.
    - field: Which entry of the body is wrong, if it is a single one, such as ``usage.hours[2]``.
    """

    code: str
    message: str
    field: NotRequired[str]


class Error(TypedDict):
    """A request that was refused."""

    error: ErrorDetail
