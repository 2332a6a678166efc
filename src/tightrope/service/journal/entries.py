"""The entries of a journal: what happened to an experiment, in order. Everything else about it can be computed from these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from tightrope.policies.decision import Gaps, Members
from tightrope.service.requests import DecisionRequest, Used

# The format of tables and entries.
FORMAT: Final = 1


class _Entry(msgspec.Struct, tag_field="kind", omit_defaults=True, kw_only=True):
    # The id of the key behind the request; None without keys, and for what the service did by itself.
    by: str | None = None


class Started(_Entry, tag="started"):
    """The experiment as its spec states it, and how long it waits for outcomes: the first entry, repeated when that changes.

    `reset_caps` names the hard caps that begin at 0 with this change, whatever was spent. `ranges` are those of usage that no rule
    declares, as they were inferred. `changes` are those that were asked for while it ran, in words; `stated` is then the spec that
    the service was started with: started with it again, it goes on as changed. `scheduled` is the position of the `Scheduled` entry
    that begins to hold.
    """

    format: int
    version: str
    spec: dict[str, Any]
    expire_after: float
    max_pending: int
    reset_caps: list[str] = msgspec.field(default_factory=list)
    ranges: dict[str, tuple[float, float]] = msgspec.field(default_factory=dict)
    changes: list[str] = msgspec.field(default_factory=list)
    stated: dict[str, Any] | None = None
    scheduled: int | None = None


class Reported(msgspec.Struct, omit_defaults=True):
    """The parts of an outcome as they were reported."""

    reward: float | None = None
    usage: Used | None = None


class Assigned(msgspec.Struct, frozen=True, array_like=True):
    """Who decided: in which arm, or None without a control group; and which earlier decision it repeats, by number.

    `own` is the decision's number among the baseline's own; below 0 if it is none.
    """

    arm: Literal["policy", "control"] | None = None
    repeats: int | None = None
    own: int = -1


class Decided(_Entry, tag="decided"):
    """A decision: what was asked, what was answered, the numbers behind it (`Decision`'s trace) and the queue after it.

    `offered` holds the ids of the actions that were compared, None for all; `proposed` what the policy would have chosen where
    shadow mode served the default. `probability` is the one with which the action was served, after prices, hard caps and
    eligibility: 1 for a policy that does not draw and for a default, None if there is no closed form. `probabilities` are those of
    all actions on offer, by row; left out if the one served has 1. `sampling` says how it was drawn, if not from normal laws.
    In the control group they are those of the baseline, and a repeat has 1; trace and sampling are always the policy's. `assigned`
    is there if the spec has a control group or actions that stick.
    """

    event_id: str
    request: DecisionRequest
    fingerprint: bytes
    number: int
    action: int
    trace: bytes
    queue: bytes
    offered: list[int] | None = None
    proposed: int | None = None
    probability: float | None = None
    probabilities: bytes | None = None
    sampling: Members | Gaps | None = None
    assigned: Assigned | None = None


class Learnt(_Entry, tag="learnt"):
    """An outcome, or a part of one, that was applied; or the correction of one, with the id that its sender gave it.

    `cancelled` says that the decision was never carried out. A correction has what was learnt until then, and what it takes to
    learn it otherwise: the decision's action, x and groups, and whether the decision was made under an `earlier` configuration.
    """

    event_id: str
    number: int
    reward: float | None = None
    usage: Used | None = None
    cancelled: bool | None = None
    correction: str | None = None
    was: Reported | None = None
    action: int | None = None
    x: bytes | None = None
    group: str | list[str] | None = None
    earlier: bool = False


class Expired(_Entry, tag="expired"):
    """Decisions whose outcome is no longer awaited."""

    numbers: list[int]
    event_ids: list[str]


class Refused(_Entry, tag="refused"):
    """An outcome that was well formed, but came too late, was for an unknown event, or contradicted an earlier one."""

    event_id: str
    reason: Literal["late", "unknown", "differs"]
    reward: float | None = None
    usage: Used | None = None


class TookEffect(_Entry, tag="background"):
    """Background work takes effect: its number in `hooks.background()`, and its result, fitted trees included."""

    work: int
    result: list[int | float | bytes]


class ModeChanged(_Entry, tag="mode"):
    """Live, shadow (with the action that is served by default) or paused."""

    mode: Literal["live", "shadow", "paused"]
    default: int | None = None


class RolledBack(_Entry, tag="rolled back"):
    """Back to the snapshot at `position`. Its state is repeated here: snapshots may be dropped, so the journal needs none."""

    position: int
    restore: Literal["learnt", "all"]
    state: bytes


class WarmStarted(_Entry, tag="warm start"):
    """What the policy learnt from a table before its first decision: its state from here on, whatever happens to the file."""

    file: str
    sha256: str
    rows: int
    state: bytes


class Snapshotted(_Entry, tag="snapshot"):
    """A snapshot was taken of the state after the entry at `of`: its digest, which a snapshot that is used must have."""

    of: int
    digest: str
    label: str | None = None


class Erased(_Entry, tag="erased"):
    """The personal data in some rows is gone for good. `rows` are ranges of positions, both ends included.

    `numbers` are the decisions whose inputs are gone, also from the policy's memory; pending ones are no longer awaited.
    `keys` are digests of the keys that they were counted by: accounts per window go by these from here on.
    `own` and `users` are the numbers of the baseline's own decisions among these, and the rows of their users in the lift.
    `stale` are the positions of snapshots with a label that still hold them. Entries that follow rewrite these, some at a time, and
    have nothing but `snapshots`: the position of each and its new digest, empty for one that could not be read and was dropped.
    """

    rows: list[tuple[int, int]]
    event_ids: list[str] = msgspec.field(default_factory=list)
    numbers: list[int] = msgspec.field(default_factory=list)
    keys: list[str] = msgspec.field(default_factory=list)
    own: list[int] = msgspec.field(default_factory=list)
    users: list[int] = msgspec.field(default_factory=list)
    stale: list[int] = msgspec.field(default_factory=list)
    snapshots: list[tuple[int, str]] = msgspec.field(default_factory=list)

    @property
    def goes_on(self) -> bool:
        """Whether it continues an erasure that an earlier entry began."""
        return not self.rows


class Scheduled(_Entry, tag="scheduled"):
    """A change, as it was asked for, that begins to hold with the first batch at or after `starts`, in microseconds."""

    starts: int
    change: dict[str, Any]


class Cancelled(_Entry, tag="cancelled"):
    """The change that was scheduled at `position` will not begin: somebody cancelled it, or by now it is impossible, and `why`."""

    position: int
    why: str | None = None


class Blank(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of an entry whose personal part was erased; `kind` is the kind that it had."""

    kind: str
    by: str | None = None
    event_id: str | None = None
    number: int | None = None
    action: int | None = None
    reason: Literal["late", "unknown", "differs"] | None = None
    position: int | None = None
    restore: Literal["learnt", "all"] | None = None


# In the order of their numbers in the tables, by which a query picks some without decoding: a new kind goes to the end, and from
# the first release on none leaves.
Written: TypeAlias = (
    Decided
    | Learnt
    | Started
    | Expired
    | Refused
    | TookEffect
    | ModeChanged
    | RolledBack
    | Snapshotted
    | Erased
    | WarmStarted
    | Scheduled
    | Cancelled
)
Entry: TypeAlias = Written | Blank
KINDS: Final[dict[type[Any], int]] = {kind: number for number, kind in enumerate(get_args(Written), 1)}
# What may be personal, or was computed from personal data, and is therefore sealed in a row.
SEALED: Final[dict[type[Any], tuple[str, ...]]] = {
    Decided: (
        *("request", "fingerprint", "trace", "queue", "offered", "proposed", "probability", "probabilities"),
        "assigned",
    ),
    Learnt: ("reward", "usage", "was", "x", "group"),
    Refused: ("reward", "usage"),
    RolledBack: ("state",),
    WarmStarted: ("state",),
}
# The kinds up to this one are found by their event id; the others, which are few, by their kind.
LAST_BY_EVENT: Final = 2


def probabilities_of(entry: Decided, n_actions: int) -> NDArray[np.float64] | None:
    """The probability of every action, (J,), 0 for those that were not on offer; None if not known."""
    if entry.probability is None:
        return None
    found = np.zeros(n_actions)
    if entry.probabilities is None:
        found[entry.action] = entry.probability
    else:
        chances = np.frombuffer(entry.probabilities)
        # Later actions come last.
        offered = slice(len(chances)) if entry.offered is None else entry.offered
        found[offered] = chances
    return found


def named_probabilities(
    entry: Decided, actions: Sequence[str], offered: Sequence[int]
) -> dict[str, float] | None:
    """The same by name, of the actions that were `offered`."""
    found = probabilities_of(entry, len(actions))
    return None if found is None else {actions[a]: float(found[a]) for a in offered}


def label_after_erasure(position: int) -> str:
    """The label of the snapshot that follows an erasure, the only one with its own position in its label."""
    return f"after the erasure at {position}"
