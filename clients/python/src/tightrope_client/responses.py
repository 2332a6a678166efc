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
    - arm: With a control group: whether the policy decided or the baseline.
    - repeats: Where actions stick: the number of the decision that it repeats.
    - probabilities: With `explain`: of all actions on offer, by name.
    - explanation: With `explain`: why.
    """

    event_id: str
    action: int
    name: str
    sequence: int
    probability: float | None
    proposed: NotRequired[str]
    arm: NotRequired[Literal["policy", "control"]]
    repeats: NotRequired[int]
    probabilities: NotRequired[dict[str, float] | None]
    explanation: NotRequired[Explanation]


class KnownOutcome(TypedDict):
    """The parts of an outcome that have arrived.

    - usage: What was used, by the names in the rules.
    - cancelled: Whether the decision was never carried out.
    """

    reward: NotRequired[float]
    usage: NotRequired[dict[str, float]]
    cancelled: NotRequired[bool]


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
    arm: NotRequired[Literal["policy", "control"]]
    repeats: NotRequired[int]
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


class Correction(TypedDict):
    """A corrected outcome.

    - outcome: The outcome as it counts now.
    - learnt: What became of what was learnt from it: `exactly` as if it had come that way, `at the next fit`, or `not`, because the
      model no longer knows that outcome. Totals and hard caps are always exact. Null for a repeated request.
    """

    event_id: str
    sequence: int
    correction_id: str
    outcome: KnownOutcome
    learnt: Literal["exactly", "at the next fit", "not"] | None


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
    """An action, and how often it was served.

    - offered: How often it was on offer.
    - state: Paused and retired actions are off offer, retired ones for good.
    - description: What it is, for people.
    - was: Its earlier names.
    """

    name: str
    decisions: int
    share: float
    offered: int
    state: Literal["active", "paused", "retired"]
    description: str
    was: list[str]


class EarlierLimit(TypedDict):
    """What a rule counted before its limit changed; take it from the numbers of the rule to get those since then.

    - until: When that was.
    - decisions, used, allowed: As in the rule. Null: not known.
    """

    until: float
    decisions: int
    used: float | None
    allowed: float | None


class ScheduledChange(TypedDict):
    """A change that begins later.

    - position: In the journal; `POST /v1/changes/cancel` takes it.
    - starts: When it begins.
    - change: What was asked for.
    - by: The id of the key that asked for it.
    """

    position: int
    starts: float
    change: dict[str, Any]
    by: str | None


class Changed(TypedDict):
    """What was changed, will change, or with `check` would change.

    - possible: Whether it can be done; only a check says no, with `why`, and the smallest `relaxation` of limits, by rule.
    - position: In the journal; null for a check.
    - starts: When it begins, if not at once.
    - changes: In words.
    """

    possible: bool
    position: int | None
    starts: float | None
    changes: list[str]
    why: str | None
    relaxation: dict[str, float]


class Cancelled(TypedDict):
    """The position of the change that was cancelled."""

    position: int


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
    - earlier: What it counted until its limit last changed; null if it never did.
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
    earlier: EarlierLimit | None


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


class WindowAccount(TypedDict):
    """Where the account of a limit per window stands, in the rule's units.

    - key: Whose account it is; null for all decisions. One that starts with `~` was erased.
    - start, end: When its window began and ends, in seconds since 1970; a rolling window ends now.
    - decisions: How many decisions it has counted in this window.
    - reserved: What is held until outcomes say what was really used.
    - allowed: What may be used in this window, or must be, for a limit with `at_least`.
    """

    key: str | None
    start: float
    end: float
    decisions: int
    used: float
    reserved: float
    allowed: float
    left: float


class WindowState(TypedDict):
    """Where a limit per window stands.

    - per, zone, by, hard: As in the spec.
    - keys: How many keys have an account in this window, for a limit by key.
    - accounts: One for all, or those of the keys that are closest to their limits.
    - above: Outcomes that used more than was reserved for them; they are booked in full.
    - gone: Outcomes that came when the window of their decision was no longer kept.
    """

    name: str
    rule: str
    side: Literal["at_most", "at_least"]
    unit: str
    per: str
    zone: str
    by: str | None
    hard: bool
    keys: NotRequired[int]
    accounts: list[WindowAccount]
    above: int
    gone: int


class WindowList(TypedDict):
    """Limits per window.

    - time: The time of the journal, in seconds since 1970.
    """

    time: float
    windows: list[WindowState]


class OutcomeCounts(TypedDict):
    """How many outcomes arrived, and what became of the others.

    - rewards: Rewards that were learnt.
    - complete: Decisions whose whole outcome is known.
    - cancelled: Decisions that were never carried out.
    - missing, late, rejected, rolled_back: No longer awaited; came after that; contradicted what was recorded; undone by a
      rollback.
    """

    rewards: int
    mean_reward: float | None
    complete: int
    pending: int
    missing: int
    cancelled: int
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


class ReplacedValues(TypedDict):
    """How many values of a field of the context were replaced, as the spec declares.

    - why: They were `missing`, or none of the declared ones (`other`).
    - values: How many.
    - taken_as: What was used instead, in words.
    """

    field: str
    why: Literal["missing", "other"]
    values: int
    taken_as: str


class State(TypedDict):
    """Where an experiment stands.

    - policy: Its kind.
    - position: How many entries the journal has.
    - head: The hash of the last entry, which proves all of them.
    - default: What shadow mode serves.
    - windows: How many limits per window there are; see `GET /v1/windows`.
    - holdout: The share of the control group; null without one.
    - repeats: How many decisions repeated an action that a user keeps.
    - slater: Slater's constant, if the policy has one.
    - scheduled: Changes that begin later.
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
    scheduled: list[ScheduledChange]
    constraints: list[ConstraintState]
    hard_caps: list[HardCapState]
    windows: int
    outcomes: OutcomeCounts
    shadow_decisions: int
    outside: list[OutsideValues]
    replaced: list[ReplacedValues]
    holdout: float | None
    repeats: int
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


class ArmCounts(TypedDict):
    """One number for each arm."""

    policy: int
    control: int


class Measure(TypedDict):
    """What an arm earned or used, and how much more it was under the policy.

    - name, unit: `reward`, or a rule's name and the unit of what it counts.
    - rule: The rule in words; null for the reward.
    - counted: How many decisions (or users) each arm's mean is over.
    - policy, control: Means per decision, or per user; null if nothing is known.
    - lift: The first less the second.
    - low, high: The 95 % interval of the lift, valid whenever you look; null while too little is known.
    """

    name: str
    unit: str
    rule: str | None
    counted: ArmCounts
    policy: float | None
    control: float | None
    lift: float | None
    low: float | None
    high: float | None


class Lift(TypedDict):
    """The policy against the control group's baseline.

    - share: Of the control group.
    - by: The key that it is drawn by; null if each decision is drawn by itself.
    - per: What means and lifts are per: a decision, or a user (the sum of all of that user's decisions so far).
    - baseline: What the control group gets, in words.
    - since, sequence: From when on it counts, and from which decision: it begins anew when what it compares changes.
    - decisions: How many of them were live, in each arm.
    - users: How many users there are in each arm; null if `by` is.
    - unmeasured: Decisions that do not count because there were too many users.
    - displaced: Decisions of the control group for which no action of the baseline was on offer.
    - reward: The lift in reward.
    - rules: The lift in what each rule counts.
    """

    share: float
    by: str | None
    per: Literal["decision", "user"]
    baseline: str
    since: float
    sequence: int
    decisions: ArmCounts
    users: ArmCounts | None
    unmeasured: int
    displaced: int
    reward: Measure
    rules: list[Measure]


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
    - own, users: For an erasure: which of the baseline's own decisions, and which rows of the lift's users, it reached.
    - changes: What was changed while it ran, in words.
    - stated: The spec that the service was started with before that.
    - scheduled: The position at which this change was scheduled.
    - starts, change: When a scheduled change begins, in microseconds, and what was asked for.
    - why: Why a scheduled change was cancelled, if nobody asked for it.
    """

    position: int
    time: float
    kind: Literal["started", "mode", "rolled back", "erased", "scheduled", "cancelled"]
    by: NotRequired[str]
    format: NotRequired[int]
    version: NotRequired[str]
    spec: NotRequired[dict[str, Any]]
    expire_after: NotRequired[float]
    max_pending: NotRequired[int]
    reset_caps: NotRequired[list[str]]
    ranges: NotRequired[dict[str, tuple[float, float]]]
    changes: NotRequired[list[str]]
    stated: NotRequired[dict[str, Any] | None]
    scheduled: NotRequired[int | None]
    starts: NotRequired[int]
    change: NotRequired[dict[str, Any]]
    why: NotRequired[str]
    mode: NotRequired[Literal["live", "shadow", "paused"]]
    default: NotRequired[int]
    restore: NotRequired[Literal["learnt", "all"]]
    rows: NotRequired[list[tuple[int, int]]]
    event_ids: NotRequired[list[str]]
    numbers: NotRequired[list[int]]
    own: NotRequired[list[int]]
    users: NotRequired[list[int]]
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


class DecisionResult(TypedDict):
    """What became of one item of a batch.

    - status: 200, or the status that the request would have got by itself.
    - decision: With 200.
    - error: With any other.
    - retry_after: After how many seconds to send it again, if that may help.
    """

    status: int
    decision: NotRequired[Decision]
    error: NotRequired[ErrorDetail]
    retry_after: NotRequired[int]


class DecisionResults(TypedDict):
    """The results of a batch, in the order of its items."""

    results: list[DecisionResult]


class OutcomeResult(TypedDict):
    """What became of one item of a batch.

    - status: 200, or the status that the request would have got by itself.
    - outcome: With 200.
    - error: With any other.
    - retry_after: After how many seconds to send it again, if that may help.
    """

    status: int
    outcome: NotRequired[Outcome]
    error: NotRequired[ErrorDetail]
    retry_after: NotRequired[int]


class OutcomeResults(TypedDict):
    """The results of a batch, in the order of its items."""

    results: list[OutcomeResult]


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
