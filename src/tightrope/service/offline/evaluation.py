"""Another policy judged on what the service recorded: what it would have earned, and whether it would have kept its rules.

The policy lives through the journal. At each decision it is offered what was on offer then and says with which probabilities π it
would have taken each action. Where the action that was served fits a draw of its own (with probability π / (p·M), p the probability
stored and M the largest such ratio so far) the round is its own: it follows, and learns the outcome when that was learnt. So
its prices, totals and estimates are those of a life of its own, shorter than the journal. The estimators of `offpolicy` then
weigh every recorded outcome by π / p. All that goes into a weight was settled before the action was drawn, by the service and by
the policy, however much both learn: errors are those of a martingale, and the intervals, which count rounds of the policy's
own, hold asymptotically for the average of what it earns over these rounds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tightrope import displays
from tightrope.errors import InvalidInput, TightropeError
from tightrope.frames import AsFrame
from tightrope.offpolicy import Evaluation, Log, Measure, evaluate
from tightrope.offpolicy.estimators import Method
from tightrope.offpolicy.evaluation import SNAPSHOT
from tightrope.policies import Policy
from tightrope.policies.pending import AWAITS_COSTS
from tightrope.service.experiment.configuration import served_policy
from tightrope.service.journal.contract import Journal
from tightrope.service.journal.entries import probabilities_of
from tightrope.service.offline.served_decisions import Reader, Record, Served, spec_to_judge
from tightrope.spec import Spec
from tightrope.validation import Array, finite_number, whole_number

_CERTAIN: Final = 1.0 - 1e-9
_FEWEST: Final = 30  # decisions with an outcome
_WORTH_LEAST: Final = 10  # rounds of the policy's own
_MOST_NUMBERS: Final = 50_000_000
_LARGEST_RATIO: Final = (
    20.0  # beyond it, one rare coincidence would leave the policy without rounds of its own
)


class Unanswerable(TightropeError):
    """The journal can't say how a policy would have done. `reasons` say why."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("the journal can't answer: " + "; ".join(reasons))
        self.reasons = reasons


@dataclass(frozen=True)
class Estimate:
    """A mean under the policy, in the user's units, with its 95 % interval, and the service's own mean on these decisions.

    `bias` is how far left-out decisions may have moved the estimate. A rule has a `limit` and a `verdict` on it.
    """

    name: str
    estimate: float
    low: float
    high: float
    bias: float
    recorded: float
    rule: str | None = None
    limit: float | None = None
    verdict: str | None = None


@dataclass(frozen=True, repr=False)
class Judgement(AsFrame):
    """What `judge` found.

    `judged` are the decisions that it rests on, `rounds` those of them that the policy lived through as its own, `adaptive`
    says whether the policy that was served learnt, `notes` what the estimates are of, and `doubts` why to trust them less.
    """

    experiment: str
    policy: str
    served: str
    method: Method
    decisions: int
    judged: int
    left_out: dict[str, int]
    rounds: int
    adaptive: bool
    reward: Estimate
    rules: tuple[Estimate, ...]
    worth: float
    missed: float
    notes: tuple[str, ...]
    doubts: tuple[str, ...]

    def __repr__(self) -> str:
        reward = f"{self.reward.estimate:.4g} [{self.reward.low:.4g}, {self.reward.high:.4g}]"
        verdicts = "".join(f"; {one.name} {one.verdict}" for one in self.rules)
        return f"Judgement({self.policy} on {self.judged:,} decisions of {self.experiment}; reward {reward}{verdicts})"

    def frame_rows(self) -> list[dict[str, Any]]:
        return [asdict(one) for one in (self.reward, *self.rules)]

    def _repr_html_(self) -> str:
        rows = []
        for one in (self.reward, *self.rules):
            span = f"{displays.text(one.low)} to {displays.text(one.high)}"
            limit = "" if one.limit is None else displays.text(one.limit)
            rows.append((one.name, one.estimate, span, one.recorded, limit, one.verdict or ""))
        title = f"{self.policy} on {self.judged:,} of {self.decisions:,} decisions of {self.experiment}, served by {self.served}"
        head = ("per decision", "estimate", "95 % interval", "recorded", "limit", "verdict")
        doubts = displays.lines_of((f"doubt: {doubt}" for doubt in self.doubts), warning=True)
        return displays.page(title, displays.table(head, rows), displays.lines_of(self.notes), doubts)

    def data(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def judge(
    journal: Journal,
    spec: Spec,
    *,
    method: Method = "dr",
    clip: float | None = None,
    last: int | None = None,
    may_lack: float = 0.1,
    may_miss: float = 0.05,
    seed: int = 0,
) -> Judgement:
    """What the policy of `spec` would have earned, and what its rules would have cost, by an open journal; or `Unanswerable`.

    - spec: Its [policy] is judged. Actions, context and rules default to the journal's.
    - clip: Cut weights off at this.
    - last: Use only this many of the newest decisions.
    - may_lack: The share of decisions that may lack their whole outcome; they are left out, as if missing at random.
    - may_miss: The share of the policy's actions that the service may have had less than a chance of 1/n to take.
    - seed: For the draws that decide which rounds are the policy's own.
    """
    for name, share in (("may_lack", may_lack), ("may_miss", may_miss)):
        finite_number(name, share, low=0.0, high=1.0)
    if clip is not None:
        finite_number("clip", clip, low=1.0)
    record = Record.of(journal, trust=spec.trust)
    if last is not None:
        record.served = record.served[-whole_number("last", last, low=1) :]
        record.shadow = record.control = record.repeats = 0
    if not record.served:
        raise Unanswerable("it holds no decision that was served live")
    spec = spec_to_judge(spec, record.spec)
    policy = served_policy(spec)
    reader = Reader(spec, policy)
    if reasons := list(reader.misfits(record)):
        raise Unanswerable(*reasons)
    rows, late, left_out = _usable(record, reader, may_lack)
    life = _lived(policy, reader, rows, late, record.spec, seed)
    if policy.rounds < _WORTH_LEAST:
        own = f"the policy would have made {policy.rounds} itself, fewer than {_WORTH_LEAST}"
        raise Unanswerable(f"of {len(rows)} decisions with an outcome {own}")
    try:
        found = _evaluated(life, spec, method, clip, may_miss, seed)
    except InvalidInput as error:
        raise Unanswerable(str(error).rstrip("."), *_remedy(record.spec)) from error
    worth = found.weights.effective
    if worth < _WORTH_LEAST:
        words = f"{len(rows)} decisions with an outcome are worth {worth:.1f} rounds of the policy's own, fewer than {_WORTH_LEAST}"
        raise Unanswerable(f"{words}: it rarely takes the action that was served")
    adaptive = _learns(record.spec)
    return Judgement(
        experiment=record.spec.name,
        policy=spec.policies[0].name,
        served=record.spec.policies[0].name,
        method=method,
        decisions=len(record.served) + record.shadow + record.control + record.repeats + record.erased,
        judged=len(rows),
        left_out={why: count for why, count in left_out.items() if count},
        rounds=policy.rounds,
        adaptive=adaptive,
        reward=_within(_in_units(found.reward, None, 1.0, life.rewards), record.spec.reward_range),
        rules=tuple(
            _in_units(one, column, life.in_force[:, k].mean(), life.costs_served[:, k])
            for k, (one, column) in enumerate(
                zip(found.constraints, spec.rules.columns if spec.rules else ())
            )
        ),
        worth=worth,
        missed=found.weights.cut,
        notes=_notes(policy, spec, len(rows), adaptive),
        doubts=found.doubts,
    )


def _usable(record: Record, reader: Reader, may_lack: float) -> tuple[list[Served], Array, dict[str, int]]:
    """The decisions that can be weighted, their costs that are seen after acting, and how many are left out for which reason."""
    drawn = [one for one in record.served if one.entry.probability is not None]
    unknown = len(record.served) - len(drawn)
    why = "of a policy whose probabilities have no closed form"
    if not drawn:
        raise Unanswerable(f"none of the {unknown} decisions that were served live has a probability ({why})")
    if all(one.entry.probability >= _CERTAIN for one in drawn if one.entry.probability is not None):
        words = "every decision was served with probability 1, so no row shows what another action would have earned"
        raise Unanswerable(f"{words}; serve a policy that draws ({record.spec.policies[0].name!r} did not)")
    try:
        late = [None if one.reward is None else reader.observed(one) for one in drawn]
    except InvalidInput as error:
        raise Unanswerable(f"outcomes can't be read by the policy's rules: {error}") from error
    whole = [one for one, costs in zip(drawn, late, strict=True) if costs is not None]
    lacking = len(drawn) - len(whole)
    reasons = []
    if len(whole) < _FEWEST:
        reasons.append(
            f"only {len(whole)} decisions have their whole outcome, but at least {_FEWEST} are required"
        )
    if lacking > may_lack * len(drawn):
        rewards = sum(one.reward is None for one in drawn)
        parts = f"{rewards} the reward"
        if lacking > rewards:
            parts += f", {lacking - rewards} only the costs that a rule counts"
        reasons.append(
            f"{lacking} of {len(drawn)} decisions lack their outcome ({parts}), more than the share of {may_lack:g} that may: "
            "the known ones may differ from the others"
        )
    if reasons:
        raise Unanswerable(*reasons)
    left_out = {
        "in shadow mode": record.shadow,
        "of the control group, whose baseline never takes some action": record.control,
        "that repeat an earlier one for the same user": record.repeats,
        f"without a probability ({why})": unknown,
        "without their whole outcome": lacking,
        "whose inputs were erased": record.erased,
    }
    return whole, np.array([costs for costs in late if costs is not None]), left_out


@dataclass(frozen=True)
class _Life:
    """What happened at each recorded decision: propensities and the policy's π (n, J), outcomes, costs by rule."""

    actions: NDArray[np.int64]
    rewards: Array
    propensities: Array
    target: Array
    # Of every action, (n, J, K'), and of the one served, (n, K''); which columns those are.
    known: Array
    late: Array
    columns: tuple[NDArray[Any], NDArray[Any]]
    in_force: Array
    contexts: Array | None
    # How many rounds of its own the policy had before: it does not change within one.
    rounds: NDArray[np.int64]

    @property
    def costs_served(self) -> Array:
        known, late = self.columns
        costs = np.empty((len(self.rewards), len(known) + len(late)))
        costs[:, known] = self.known[np.arange(len(self.rewards)), self.actions]
        costs[:, late] = self.late
        return costs


def _lived(
    policy: Policy, reader: Reader, rows: list[Served], late: Array, recorded: Spec, seed: int
) -> _Life:
    """Run the policy through the journal, which changes it."""
    n, J = len(rows), len(recorded.actions)
    if n * J > _MOST_NUMBERS:
        raise Unanswerable(
            f"{n} decisions on {J} actions don't fit into memory; use --last {_MOST_NUMBERS // J}"
        )
    rules = reader.spec.rules
    p, pi = np.empty((n, J)), np.zeros((n, J))
    known = np.zeros((n, J, len(reader.known)))
    in_force = np.ones((n, 0 if rules is None else rules.n_constraints))
    contexts: list[Array | None] = []
    rounds = np.empty(n, dtype=np.int64)
    draws = np.random.default_rng(whole_number("seed", seed)).random(n)
    largest = 1.0
    # Outcomes of the policy's own rounds that have not arrived yet: (where, number, row), the next one first.
    coming: list[tuple[int, int, int]] = []
    for i, one in enumerate(rows):
        while coming and coming[0][0] < one.position:
            _, number, row = heapq.heappop(coming)
            _learn(policy, number, rows[row], late[row])
        try:
            offer, x = reader.offered(one)
            quote = policy.quote(offer)
        except InvalidInput as error:
            where = f"decision {one.entry.event_id!r} at position {one.position}"
            raise Unanswerable(f"{where} can't be put to the policy: {error}") from error
        chances = np.asarray(quote.proposed.probabilities, dtype=float)
        if np.isnan(chances).any():
            # Without a closed form the draw itself is used: equally right on average, but noisier.
            chances = np.eye(len(chances))[quote.proposed.row]
        found = probabilities_of(one.entry, J)
        assert found is not None
        p[i], pi[i, offer.ids] = found, chances
        known[i, offer.ids] = offer.W[:, reader.known]
        if rules is not None:
            in_force[i] = rules.in_force(one.entry.request.group) if reader.grouped else True
        contexts.append(x)
        rounds[i] = policy.rounds
        ratio = pi[i, one.entry.action] / p[i, one.entry.action]
        largest = min(max(largest, ratio), _LARGEST_RATIO)
        if draws[i] * largest < ratio:
            decision = policy.commit(quote, one.entry.action)
            heapq.heappush(coming, (one.known_at, decision.number, i))
    plain = all(x is not None for x in contexts)
    return _Life(
        actions=np.array([one.entry.action for one in rows]),
        rewards=np.array([one.reward for one in rows], dtype=float),
        # Probabilities that are integrated numerically add up to 1 as nearly as they are exact.
        propensities=p / p.sum(axis=1, keepdims=True),
        target=pi / pi.sum(axis=1, keepdims=True),
        known=known,
        late=late,
        columns=(reader.known, reader.late),
        in_force=in_force,
        contexts=np.array(contexts) if plain and contexts else None,
        rounds=rounds,
    )


def _learn(policy: Policy, number: int, one: Served, costs: Array) -> None:
    awaited = policy.hooks.pending[number][0] & AWAITS_COSTS
    try:
        policy.learn(number, one.reward, costs if awaited else None)
    except InvalidInput as error:
        where = f"the outcome of decision {one.entry.event_id!r} at position {one.known_at}"
        raise Unanswerable(f"{where} can't be learnt by the policy: {error}") from error


def _evaluated(
    life: _Life, spec: Spec, method: Method, clip: float | None, may_miss: float, seed: int
) -> Evaluation:
    """By the estimators; costs that were known before acting need no weights."""
    known, late = life.columns
    names = np.array(() if spec.rules is None else spec.rules.names, dtype=object)
    common: dict[str, Any] = {
        "propensities": life.propensities,
        "contexts": life.contexts,
        # The length of a round is random: average over rounds, not decisions.
        "groups": life.rounds,
        "action_names": spec.actions,
        "in_order": True,
    }
    how: dict[str, Any] = {
        "clip": clip,
        "may_miss": may_miss,
        "least_chance": 1.0 / len(life.rewards),
        "seed": seed,
    }
    log = Log(life.actions, life.rewards, life.late, constraints=tuple(names[late]), **common)
    found = evaluate(log, life.target, method, **how)
    measures: dict[int, Measure] = dict(zip(late.tolist(), found.constraints, strict=True))
    if len(known):
        log = Log(life.actions, life.rewards, life.known, constraints=tuple(names[known]), **common)
        unweighted = evaluate(log, life.target, "ips", **how).constraints
        measures |= dict(zip(known.tolist(), unweighted, strict=True))
    # The target is a whole run, however certain each of its actions was.
    doubts = tuple(doubt for doubt in found.doubts if doubt != SNAPSHOT)
    return replace(found, constraints=tuple(measures[k] for k in sorted(measures)), doubts=doubts)


def _in_units(one: Measure, column: Any, share: float, served: Array) -> Estimate:
    """A mean cost as the rule's own quantity, per decision to which the rule applies: `share` of all."""
    if column is None:
        return Estimate(one.name, one.value, one.low, one.high, one.bias, float(served.mean()))
    if not share:
        raise Unanswerable(f"no decision was recorded to which {str(column.rule)!r} applies")
    value, low, high, recorded = (
        float(column.in_units(cost / share)) + 0.0 for cost in (one.value, one.low, one.high, served.mean())
    )
    low, high = min(low, high), max(low, high)
    bias, rule = float(one.bias * column.rule.scale / share), str(column.rule)
    return Estimate(one.name, value, low, high, bias, recorded, rule, column.limit, one.verdict)


def _within(one: Estimate, ends: tuple[float, float] | None) -> Estimate:
    """What is known of the range ends the interval, and weights may have led the estimate beyond it."""
    if ends is None:
        return one
    value, low, high = (float(np.clip(x, *ends)) for x in (one.estimate, one.low, one.high))
    return replace(one, estimate=value, low=low, high=high)


def _remedy(served: Spec) -> Iterator[str]:
    """What to do before more is served."""
    policy = served.policies[0]
    if policy.kind == "shadow-price" and not policy.settings.get("least_chance"):
        how = "set least_chance in its [policy], such as 0.02, and no action will lack a chance from then on"
        yield f"{policy.name} was served without one: {how}"


def _learns(spec: Spec) -> bool:
    """Whether the served policy learnt; one whose file is gone may have."""
    try:
        return served_policy(spec).hooks.learns
    except InvalidInput:
        return True


def _notes(policy: Policy, spec: Spec, rows: int, adaptive: bool) -> tuple[str, ...]:
    rounds = f"{policy.rounds:,} rounds that the policy would have made itself among {rows:,} decisions"
    notes = [f"estimates are means over the {rounds}"]
    if policy.hooks.learns:
        notes[0] += ", its first: it learns in them, and with another --seed it may learn something else"
    if adaptive:
        notes.append(
            "the log is adaptive (its probabilities depended on earlier outcomes): intervals are asymptotic (martingale), and fail "
            "where probabilities go to 0"
        )
    if any(one.hard for one in spec.rule_specs):
        notes.append("hard caps are not judged: the policy had the same actions on offer as the service")
    return tuple(notes)
