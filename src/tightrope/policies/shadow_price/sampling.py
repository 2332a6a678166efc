"""How an action is drawn: from normal laws, by following one of the model's members, or by inverse gap weighting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.kernels import probabilities, shadow, shadow_trace
from tightrope.models import Model, hooks
from tightrope.policies.decision import Gaps, Members
from tightrope.validation import Array
from tightrope.words import Text

SAMPLINGS = ("normal", "members", "gaps")
# The slots for drawing members: for the choice, then for a solve that starts in the round; beyond all slots of `shadow`.
MEMBER_SLOT = 3 * 2**30
# γ = GAMMA √(n t) for n actions that may be taken, with gaps in units of ρ.
GAMMA = 3.0
# A slope that leaves only the best.
STEEPEST = 1e300


def sampling_for(stated: Any, reward: Model | None) -> str:
    """The given sampling, or the reward model's default; refused if the model can't be sampled that way."""
    if stated is not None and stated not in SAMPLINGS:
        raise InvalidInput(field="sampling", must=f"be one of {', '.join(SAMPLINGS)}", got=stated)
    if reward is None:  # which has no sizes yet
        return "normal"
    sampling = hooks.exploration(reward) if stated is None else stated
    if sampling not in SAMPLINGS:
        raise InvalidInput(
            Text(
                "exploration of {model!r} must be one of {known}, but is {sampling!r}.",
                model=reward,
                known=", ".join(SAMPLINGS),
                sampling=sampling,
            )
        )
    if sampling == "members" and not hooks.defines(reward, "members"):
        said = 'sampling "members" needs a reward model that has some, but {model!r} is one model.'
        raise InvalidInput(Text(said, model=reward), field="sampling")
    if sampling == "normal" and type(reward).deviations is Model.deviations:
        said = '{model!r} has no deviations; use sampling "gaps".'
        raise InvalidInput(Text(said, model=reward), field="sampling")
    return sampling


def follow_member(J: int, core: Array, trace: Array, members: Array, seed: np.uint64) -> tuple[int, Members]:
    """The best row for one random member, and how it was drawn; unknown costs are drawn from their normal laws as usual.

    `members` (M, J): their distances from the mean reward. The trace is as `shadow.weigh` leaves it.
    """
    K = int(core[shadow.CONSTRAINTS])
    shifts = core[shadow.EXPLORE] * members
    at, end, *_ = shadow_trace.trace_parts(J, K)
    means = trace[at:end].copy()
    trace[at:end] += shifts[member_of(seed, core[shadow.ROUNDS], 0, len(shifts))]
    row = int(shadow_trace.draw_values(J, K, trace, seed, core[shadow.ROUNDS]))
    trace[at:end] = means
    return row, Members(shifts.tobytes())


def member_of(seed: np.uint64, t: float, draw: int, M: int) -> int:
    """Which of M members a draw in round t follows: 0 is for the choice, then one for each round of a solve's sample."""
    return int(kernels.uniforms(seed, 0, t, MEMBER_SLOT + draw)[0] * M)


def weigh_gaps(J: int, core: Array, trace: Array, learnt: int, seed: np.uint64) -> tuple[int, Gaps]:
    """A row by inverse gap weighting, and how it was drawn.

    `learnt`: outcomes behind the means, if they are counted. The trace is as `shadow.weigh` leaves it.
    """
    K = int(core[shadow.CONSTRAINTS])
    means, deviations, values, marks, costs, _ = shadow_trace.trace_parts(J, K)
    t = float(core[shadow.ROUNDS])
    if K == 0:
        # No solve measures ρ if there are no prices: take a mean over rounds, with more weight on later ones.
        core[shadow.RHO] += (np.ptp(trace[:means]) - core[shadow.RHO]) * min(1.0, shadow.FADE / t)
    trace[values:marks] = trace[means:deviations]
    trace[deviations:values] = 0.0
    allowed = trace[marks:costs] != 0.0
    outcomes = min(max(t, float(learnt)), shadow.half_life(core) / shadow.LN2)
    unit = core[shadow.RHO] * core[shadow.EXPLORE]
    gamma = GAMMA * math.sqrt(allowed.sum() * outcomes)
    slope = min(STEEPEST, gamma / unit) if unit > 0.0 else STEEPEST
    chances = gap_probabilities(trace[values:marks], allowed, slope)
    u = kernels.uniforms(seed, 0, t, MEMBER_SLOT)[0]
    row = min(int(np.searchsorted(np.cumsum(chances), u, side="right")), int(np.flatnonzero(chances)[-1]))
    return row, Gaps(float(slope))


def gap_probabilities(values: Array, allowed: Any, slope: float) -> Array:
    """Inverse gap weighting: an action whose value is Δ below the best has probability 1/(n + slope·Δ), the best has the rest.

    n counts the actions that may be taken; the lowest of equal rows is the best (Foster and Rakhlin 2020, `SquareCB`).

    >>> gap_probabilities(np.array([0.0, 1.0, 0.5]), np.ones(3, bool), 2.0).round(3)
    array([0.2 , 0.55, 0.25])
    """
    found = np.zeros(len(values))
    rows = np.flatnonzero(allowed)
    if not len(rows):
        found[0] = 1.0
        return found
    own = values[rows]
    best = int(kernels.first_of_the_best(own))
    found[rows] = 1.0 / (len(rows) + slope * np.maximum(0.0, own[best] - own))
    found[rows[best]] = 0.0
    found[rows[best]] = 1.0 - found.sum()
    return found


def member_probabilities(means: Array, deviations: Array, allowed: Any, shifts: Array) -> Array:
    """The mean over members of the probability that each row is best; their share, if only the member is drawn."""
    rows = np.flatnonzero(allowed)
    found = np.zeros(len(means))
    n, sd = len(rows), np.ascontiguousarray(deviations[rows])
    if not sd.any():
        values = means[rows] + shifts[:, rows]
        least = np.array([kernels.tied_with(one) for one in values.max(axis=1).tolist()])
        best = np.argmax(values >= least[:, None], axis=1)
        found[rows] = np.bincount(best, minlength=n) / len(shifts)
        return found
    out, room = np.empty(n), np.empty(probabilities.probabilities_room(n))
    for shift in shifts:
        probabilities.largest_probabilities(means[rows] + shift[rows], sd, out, room)
        found[rows] += out / len(shifts)
    return found
