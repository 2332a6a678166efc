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
    declares, as they were inferred.
    """

    format: int
    version: str
    spec: dict[str, Any]
    expire_after: float
    max_pending: int
    reset_caps: list[str] = msgspec.field(default_factory=list)
    ranges: dict[str, tuple[float, float]] = msgspec.field(default_factory=dict)


class Decided(_Entry, tag="decided"):
    """A decision: what was asked, what was answered, the numbers behind it (`Decision`'s trace) and the queue after it.

    `offered` holds the ids of the actions that were compared, None for all; `proposed` what the policy would have chosen where
    shadow mode served the default. `probability` is the one with which the action was served, after prices, hard caps and
    eligibility: 1 for a policy that does not draw and for a default, None if there is no closed form. `probabilities` are those of
    all actions on offer, by row; left out if the one served has 1. `sampling` says how it was drawn, if not from normal laws.
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


class Learnt(_Entry, tag="learnt"):
    """An outcome, or a part of one, that was applied."""

    event_id: str
    number: int
    reward: float | None = None
    usage: Used | None = None


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
    `stale` are the positions of snapshots with a label that still hold them. Entries that follow rewrite these, some at a time, and
    have nothing but `snapshots`: the position of each and its new digest, empty for one that could not be read and was dropped.
    """

    rows: list[tuple[int, int]]
    event_ids: list[str] = msgspec.field(default_factory=list)
    numbers: list[int] = msgspec.field(default_factory=list)
    stale: list[int] = msgspec.field(default_factory=list)
    snapshots: list[tuple[int, str]] = msgspec.field(default_factory=list)

    @property
    def goes_on(self) -> bool:
        """Whether it continues an erasure that an earlier entry began."""
        return not self.rows


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
)
Entry: TypeAlias = Written | Blank
KINDS: Final[dict[type[Any], int]] = {kind: number for number, kind in enumerate(get_args(Written), 1)}
# What may be personal, or was computed from personal data, and is therefore sealed in a row.
SEALED: Final[dict[type[Any], tuple[str, ...]]] = {
    Decided: (
        *("request", "fingerprint", "trace", "queue", "offered", "proposed", "probability", "probabilities"),
    ),
    Learnt: ("reward", "usage"),
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
        offered = slice(None) if entry.offered is None else entry.offered
        found[offered] = np.frombuffer(entry.probabilities)
    return found


def named_probabilities(entry: Decided, actions: Sequence[str]) -> dict[str, float] | None:
    """The same of the actions on offer, by name."""
    found = probabilities_of(entry, len(actions))
    if found is None:
        return None
    offered = range(len(actions)) if entry.offered is None else entry.offered
    return {actions[a]: float(found[a]) for a in offered}


def label_after_erasure(position: int) -> str:
    """The label of the snapshot that follows an erasure, the only one with its own position in its label."""
    return f"after the erasure at {position}"
