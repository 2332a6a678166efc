"""An ensemble of any estimators, with means and deviations from an online bootstrap."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import math
import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.kernels import normal
from tightrope.models.background import BackgroundWork, Result
from tightrope.models.estimators import as_data, recipe
from tightrope.models.grown_trees import compile_ahead
from tightrope.models.hooks import Corrected, checked_example, one_by_one
from tightrope.models.members import (
    Growth,
    Members,
    Plan,
    fit_members,
    packed_members,
    restored_members,
    units_of,
    unpacked_members,
)
from tightrope.models.model import NO_DECISION, Ids, Model, missing_sizes, more_actions, register, size, under
from tightrope.models.outcome_memory import KeptOutcomes, Sample
from tightrope.models.sizes import shared_or_each
from tightrope.validation import Array, finite_array, finite_number, require_choice, whole_number
from tightrope.words import Shown

# The fewest outcomes between two fits.
_LEAST_APART = 10
# A background fit takes effect after this fraction of the outcomes between two fits; one that is made in steps needs more of them.
_LAG, _LAG_IN_STEPS = 0.1, 0.25
# When a fit that waits for `take` takes effect: never by itself.
_NEVER = 1 << 62
# Takes the place of a draw's replication, for predictions before the first fit.
_STREAM = 0x656E73

# The clock, whole numbers: outcomes learnt; when the next fit begins; when the fit in force and the one under way began, and when
# that one takes effect (0 for none); fits that have taken effect; marks of all that was learnt, now and when those fits began.
LEARNT, NEXT_FIT, IN_FORCE, UNDER_WAY, TAKES_EFFECT, FITS, MARK, MARK_IN_FORCE, MARK_UNDER_WAY = range(9)


@register("ensemble")
class Ensemble(Model):
    """Several copies of any estimator with `fit` and `predict`, each on its own bootstrap of the outcomes.

    For each member, every outcome counts a number of times drawn once from Poisson(1). Members are refitted when the number of
    outcomes has grown by a fraction; in between nothing changes. Their mean is the model's mean, and `spread` times their standard
    deviation is its uncertainty. A policy follows one member in a round. `docs/ensembles.md` says what was measured, and what is
    saved.

    Parameters
    ----------
    estimator : str or object
        "forest" (where outcomes are hardly noisy) and "boosting" (where they are): small trees, grown quickly by compiled code, in
        steps that are spread over rounds. With scikit-learn "extra-trees" and "small-boosted-trees" (like these), "boosted-trees",
        "random-forest" or "mlp"; `module:Class`; or an object like those of scikit-learn, which is stored as its class and
        parameters. A classifier learns only 0 and 1.
    n_actions : int, optional
        J. None if the features alone describe an action, or if `n_features` is not given.
    n_features : int, optional
        By default as many as in the first context that its policy sees.
    members : int
        1 means one fit to all outcomes, without deviations; it explores by "gaps".
    shared : bool, optional
        One estimator for all actions, which gets features and action, instead of one for each. By default only for "mlp".
    spread : float
        How much of the deviation between members counts: groups of trees differ by more than their errors.
    growth : float
        A fit begins when what is kept has grown by this factor since the last one began.
    first : int
        How many outcomes before the first fit. Until then all actions look alike, and as uncertain as outcomes vary.
    keep : int
        The most outcomes that a fit uses.
    keep_rule : {"both", "recent", "reservoir"}
        Which outcomes those are: the newest, an even sample of all, or half and half.
    half_life : float or str, optional
        How many outcomes until one counts half as much, or a time such as "2h"; None forgets nothing.
    refit : {"background", "now"}
        Whether the old fit goes on answering while the new one is made. The new one takes effect at a fixed outcome, so that every
        run makes the same choices; in the service, as soon as it is ready, and the journal records when.
    made_up : int
        How many rounds with the best or the worst outcome each member imagines for each action.
    exploration : {"members", "gaps", "normal"}, optional
        How a policy explores with it; "members" by default.
    params : mapping, optional
        Parameters of the named estimator.
    seed, n_outputs : int

    Examples
    --------
    An action that pays off when two features have the same sign, which no linear model can see:

    >>> model = Ensemble("extra-trees", n_actions=1, n_features=2)
    >>> rows = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    >>> for x in rows:
    ...     model.learn(x, float(x[0] * x[1] > 0), action=0)
    >>> model.means([[0.5, 0.5], [0.5, -0.5]], [0, 0]).round()
    array([1., 0.])
    """

    deferred = False
    decision = NO_DECISION

    def __init__(
        self,
        estimator: Any = "boosted-trees",
        n_actions: int | None = None,
        n_features: int | None = None,
        *,
        members: int = 10,
        shared: bool | None = None,
        spread: float = 0.5,
        growth: float = 1.3,
        first: int = 30,
        keep: int = 50_000,
        keep_rule: str = "both",
        half_life: float | str | None = None,
        refit: str = "background",
        made_up: int = 2,
        exploration: str | None = None,
        params: Mapping[str, Any] | None = None,
        seed: int = 0,
        n_outputs: int = 1,
    ) -> None:
        self.estimator, self.params = as_data(estimator, params)
        self._recipe = recipe(self.estimator, self.params)
        self.n_actions = size("n_actions", n_actions, low=1)
        self.n_members = whole_number("members", members, low=1)
        self.shared = self._recipe.named.shared if shared is None else bool(shared)
        self.spread = finite_number("spread", spread, low=0.0)
        self.growth = finite_number("growth", growth, low=1.0, open_low=True)
        self.first = whole_number("first", first, low=1)
        self.keep, self.keep_rule = whole_number("keep", keep, low=1), keep_rule
        self._take_half_life(half_life)
        require_choice("refit", refit, ("background", "now"))
        self.refit = refit
        self.made_up = whole_number("made_up", made_up)
        usual = "members" if self.n_members > 1 else "gaps"
        self.exploration = usual if exploration is None else exploration
        require_choice("exploration", self.exploration, ("members", "gaps", "normal"))
        self.seed = whole_number("seed", seed)
        self.n_outputs = K = whole_number("n_outputs", n_outputs, low=1)
        if not self._take_sizes(n_features=size("n_features", n_features, low=1)):
            return
        length = None if self._fades is None else self._fades.length
        sizes = self.n_members, self.n_actions, self.shared, K
        self._plan = Plan(self._recipe, *sizes, length, self.made_up, self.seed)
        self._kept = KeptOutcomes(self.n_features, K, limit=self.keep, rule=self.keep_rule, seed=self.seed)
        self._clock = np.zeros(9, dtype=np.int64)
        self._clock[NEXT_FIT] = self.first
        # The time by which outcomes age: until now, and when the fit in force and the one under way began.
        self._times = np.zeros(3)
        self._seen = np.zeros(self.n_actions or 1, dtype=np.int64)
        # How many actions were known when the fit in force and the one under way began.
        self._actions_then = np.zeros(2, dtype=np.int64)
        self._shifts = np.zeros(K)
        # Of networks, which go on from fit to fit: the weights of the fit in force, or those that it went on from; and of which fit
        # they are by its mark, 0 for none.
        self._weights = self._plan.no_weights(self.n_features)
        self._weights_of = np.zeros(1 if self._weights.size else 0, dtype=np.int64)
        # The fit in force as bytes, and its mark (0 for none): it is made once, and never again.
        self._fit_bytes, self._fit_bytes_of = np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
        # Fits by the mark of their data: the one in force, and the one under way.
        self._fitted: dict[int, Future[Members] | Growth] = {}
        self._last_asked: tuple[Any, Array] | None = None

    # What it expects

    def means(self, features: Any = None, actions: Any = None) -> Array:
        return self._shaped(self._said(features, actions).mean(axis=0))

    def deviations(self, features: Any = None, actions: Any = None) -> Array:
        """`spread` times the standard deviation between members; 0 for a single member that is fitted."""
        said = self._said(features, actions)
        if not self.fits:
            unit = units_of(self._kept.all().outcomes)
            return self._shaped(np.broadcast_to(unit, said.shape[1:]).copy())
        return self._shaped(self.spread * said.std(axis=0, ddof=1 if self.n_members > 1 else 0))

    def members(self, features: Any = None, actions: Any = None) -> Array:
        """What each member expects of each row, (M, n) or (M, n, n_outputs), its distance from the mean times `spread`."""
        said = self._said(features, actions)
        mean, spread = said.mean(axis=0), self.spread if self.fits else 1.0
        drawn: Array = mean + spread * (said - mean)
        return drawn[:, :, 0] if self.n_outputs == 1 else drawn

    @property
    def fits(self) -> int:
        return int(self._clock[FITS])

    @property
    def n_learnt(self) -> int:
        return int(self._clock[LEARNT])

    @property
    def working_features(self) -> int:
        # As if each member took a thousand multiplications, about what a hundred steps down its trees are.
        return math.ceil(math.sqrt(1000.0 * self.n_members))

    def never_learnt(self) -> NDArray[np.bool_] | None:
        return None if self.n_actions is None else np.asarray(self._seen == 0)

    # What it learns

    def learn(self, features: Any, outcome: Any, action: int | None = None) -> None:
        self._note(features, outcome, action)
        clock = self._clock
        if clock[UNDER_WAY] and clock[LEARNT] >= clock[TAKES_EFFECT]:
            self._take_up()
        if not clock[UNDER_WAY] and clock[LEARNT] >= clock[NEXT_FIT]:
            self._begin(background=self.refit == "background")
        elif clock[UNDER_WAY] and not self.deferred and isinstance(growth := self._fit(1), Growth):
            # A part of it in each round until it takes effect, so that no round waits for all of it.
            growth.advance(math.ceil(self._plan_then(1).steps / (clock[TAKES_EFFECT] - clock[UNDER_WAY])))

    def learn_many(self, features: Any, outcomes: Any, actions: Any = None) -> None:
        for row, outcome, action in one_by_one(features, outcomes, actions):
            self._note(row, outcome, action)
        clock = self._clock
        if clock[UNDER_WAY]:
            self._take_up()
        if clock[LEARNT] >= min(self.first, clock[NEXT_FIT]):
            self._begin(background=False)

    def _note(self, features: Any, outcome: Any, action: int | None) -> None:
        if self._recipe.named.grow is not None:
            compile_ahead()
        x, y, a = checked_example(self, features, outcome, action)
        y, a, clock = y - self._shifts, a or 0, self._clock
        clock[LEARNT] += 1
        self._seen[a] += 1
        self._times[0] += 1.0 if self._fades is None else self._fades.tick
        self._kept.add(x, a, y, int(clock[LEARNT]), self._times[0], decision=self.decision)
        clock[MARK] = _mark(clock[MARK], x.tobytes(), a.to_bytes(8), y.tobytes())

    def forget_inputs(self, numbers: Collection[int]) -> None:
        """Drop the rows of these decisions; a fit that used any of them is made again from the remaining rows."""
        if self._kept.forget(numbers):
            self._made_anew()

    def _made_anew(self) -> None:
        """What is kept has changed: fits are made again from it."""
        clock, left = self._clock, self._kept
        # Marks of the remaining rows only: the next one to ask, here or after loading, makes the same fit.
        clock[MARK] = _mark_of(left.all(), int(clock[LEARNT]))
        fits = (IN_FORCE, MARK_IN_FORCE, left.in_force()), (UNDER_WAY, MARK_UNDER_WAY, left.next())
        for began, mark, sample in fits:
            if not len(sample.numbers):
                clock[[began, mark]] = 0
            elif clock[began]:
                clock[mark] = _mark_of(sample, int(clock[began]))
        if not clock[UNDER_WAY]:
            clock[TAKES_EFFECT] = 0
        if not clock[IN_FORCE]:
            # Nothing is left to fit: back to before the first fit.
            clock[FITS] = 0
            self._weights[...], self._weights_of[...] = 0.0, 0
        for fit in self._fitted.values():
            fit.cancel()
        self._fitted.clear()
        self._fit_bytes, self._fit_bytes_of[0] = np.zeros(0, dtype=np.uint8), 0
        self._last_asked = None

    def correct(self, features: Any, was: Array, now: Array, action: int, decision: int) -> Corrected:
        """Correct the outcome if it is still kept; a fit that used it is made again, the next one uses it anyway."""
        samples = self._kept.correct(decision, now - self._shifts)
        if samples is None:
            return "not"
        if samples:
            self._made_anew()
            return "exactly"
        self._clock[MARK] = _mark(self._clock[MARK], now.tobytes())
        return "at the next fit"

    def resemble(self, action: int, like: int) -> None:
        """Learn some of the newest outcomes of another action as those of this one, for the next fit."""
        kept, was = self._kept.all(), self.decision
        rows = np.flatnonzero(kept.actions == like)
        for i in rows[-min(_ALIKE, math.ceil(len(rows) / 4)) :] if len(rows) else ():
            self.decision = int(self._kept.decision(int(i)))
            self._note(kept.features[i], kept.outcomes[i] + self._shifts, action)
        self.decision = was

    def check_outcome(self, outcome: Any) -> None:
        if self._recipe.classifier and not np.isin(np.asarray(outcome) - self._shifts, (0.0, 1.0)).all():
            must, remedy = f"be 0 or 1, since {self.estimator} is a classifier", "Use a regressor instead."
            raise InvalidInput(field="outcome", must=must, got=outcome, remedy=remedy)

    def elapse(self, time: float) -> None:
        self._times[0] += time

    def shift(self, output: int, by: float) -> None:
        self._shifts[output] += by

    def _begin(self, *, background: bool) -> None:
        """Choose the data of the next fit, and when it takes effect."""
        clock = self._clock
        if self._weights.size and self.fits:
            self._weights = self._in_force().weights(self._plan_then(0).no_weights(self.n_features))
            self._weights_of[0] = clock[MARK_IN_FORCE]
        self._kept.choose()
        counted = float(self._plan.worth(self._kept.next().times, self._times[0]).sum())
        apart = max(_LEAST_APART, math.ceil((self.growth - 1.0) * counted - 1e-9))
        lag, part = 0, _LAG if self._recipe.named.grow is None else _LAG_IN_STEPS
        if background:
            lag = _NEVER - int(clock[LEARNT]) if self.deferred else max(1, math.floor(part * apart))
        clock[UNDER_WAY], clock[MARK_UNDER_WAY], self._times[2] = clock[LEARNT], clock[MARK], self._times[0]
        clock[TAKES_EFFECT], clock[NEXT_FIT] = clock[LEARNT] + lag, clock[LEARNT] + apart
        self._actions_then[1] = self.n_actions or 0
        if not lag:
            self._take_up()
        elif not self.deferred:
            self._fit(1)

    def _take_up(self) -> None:
        """Put the fit under way into force; the first caller that needs it waits."""
        clock = self._clock
        self._kept.take_up()
        clock[IN_FORCE], clock[MARK_IN_FORCE] = clock[UNDER_WAY], clock[MARK_UNDER_WAY]
        self._times[1] = self._times[2]
        clock[UNDER_WAY], clock[TAKES_EFFECT] = 0, 0
        self._actions_then[0] = self._actions_then[1]
        clock[FITS] += 1
        for mark, fit in list(self._fitted.items()):
            if mark != clock[MARK_IN_FORCE]:
                fit.cancel()
                del self._fitted[mark]

    # For a keeper that says when fits take effect

    def background(self) -> list[BackgroundWork]:
        return [self] if self.refit == "background" else []

    def due(self) -> Callable[[], Result] | None:
        """Make the fit under way; the caller waits until it is done."""
        if not self._clock[UNDER_WAY]:
            return None
        mark, fit = int(self._clock[MARK_UNDER_WAY]), self._fit(1)

        def made() -> Result:
            try:
                packed = packed_members(fit.result())
            except InvalidInput:
                return [mark]  # whoever asks for an answer is told
            return [mark] if packed is None else [mark, packed]

        return made

    def take(self, result: Result) -> None:
        """Use the fit that was made in the background from now on."""
        mark = int(self._clock[MARK_UNDER_WAY])
        if not self._clock[UNDER_WAY] or result[:1] != [mark]:
            raise InvalidInput(f"there is no fit under way with the mark {result[:1]}.")
        if isinstance(packed := result[-1], bytes):
            if mark not in self._fitted:
                try:
                    self._fitted[mark] = _done(unpacked_members(self._plan_then(1), self.n_features, packed))
                except ValueError as error:
                    raise InvalidInput(f"the fit with the mark {mark}: {error}.") from error
            self._note_bytes(packed, mark)
        self._take_up()

    def _note_bytes(self, packed: bytes, mark: int) -> None:
        self._fit_bytes, self._fit_bytes_of[0] = np.frombuffer(packed, dtype=np.uint8).copy(), mark

    def prepare(self) -> None:
        """Fit what is in use, so that the next decision need not wait."""
        if self.fits:
            self._in_force()

    def grow(self, n_actions: int) -> None:
        if more_actions(self, n_actions):
            self._seen = np.concatenate([self._seen, np.zeros(n_actions - len(self._seen), dtype=np.int64)])
            self.n_actions, self._plan = n_actions, self._plan._replace(n_actions=n_actions)

    def _plan_then(self, which: int) -> Plan:
        return self._plan._replace(n_actions=int(self._actions_then[which]) or None)

    # Fits

    def _in_force(self) -> Members:
        fit = self._fit(0)
        if self._clock[UNDER_WAY] and not self.deferred:
            self._fit(1)
        return fit.result()

    def _fit(self, which: int) -> Future[Members] | Growth:
        """The fit in force (0) or under way (1). If it is not in memory, as after loading, it is read from its bytes; without
        bytes, as of an estimator that is neither trees nor networks, it is made again from what is kept.
        """
        mark = int(self._clock[MARK_UNDER_WAY if which else MARK_IN_FORCE])
        if mark not in self._fitted or self._fitted[mark].cancelled():
            begun, now = int(self._clock[UNDER_WAY if which else IN_FORCE]), float(self._times[1 + which])
            sample = self._kept.next() if which else self._kept.in_force()
            self._fitted[mark] = self._started(mark, self._plan_then(which), sample, begun, now)
        return self._fitted[mark]

    def _started(
        self, mark: int, plan: Plan, sample: Sample, begun: int, now: float
    ) -> Future[Members] | Growth:
        if self._fit_bytes.size and self._fit_bytes_of[0] == mark:
            return _done(unpacked_members(plan, self.n_features, self._fit_bytes.tobytes()))
        start = self._weights.copy() if self._weights.size and self._weights_of[0] else None
        if start is not None and start.shape != plan.no_weights(self.n_features).shape:
            # Networks start from scratch if there are more actions.
            start = None
        if start is not None and self._weights_of[0] == mark:
            return _done(restored_members(plan, sample, start))
        if self._recipe.named.grow is not None:
            return Growth(plan, sample, begun, now)
        if self.refit == "background":
            return _worker(os.getpid()).submit(fit_members, plan, sample, begun, now, start)
        return _done(fit_members(plan, sample, begun, now, start))

    def _said(self, features: Any, actions: Any) -> Array:
        """What each member expects of each row, (M, n, n_outputs); a policy asks for means and deviations of the same rows."""
        rows, ids = self._rows(features, actions)
        at = self._clock[MARK_IN_FORCE if self.fits else MARK], rows.tobytes(), ids.tobytes()
        if self._last_asked is None or self._last_asked[0] != at:
            said = self._expected(rows, ids) if self.fits else self._guesses(ids)
            self._last_asked = at, said
        return self._last_asked[1] + self._shifts

    def _expected(self, rows: Array, ids: Ids) -> Array:
        """What the members in force expect; for actions that they have never seen, as before the first fit."""
        known = ids < (int(self._actions_then[0]) or len(ids) + 1)
        if self.n_actions is None or known.all():
            return self._in_force().predict(rows, ids)
        said = self._guesses(ids)
        said[:, known] = self._in_force().predict(np.ascontiguousarray(rows[known]), ids[known])
        return said

    def _guesses(self, ids: Ids) -> Array:
        """Predictions before the first fit, (M, n, n_outputs): members ignore features, and each ranks actions differently."""
        M, K = self.n_members, self.n_outputs
        known, where = np.unique(ids, return_inverse=True)
        slots = [int(a) * M * K + i for a in known for i in range(M * K)]
        drawn = [normal(self.seed, _STREAM, self.n_learnt, slot) for slot in slots]
        z = np.array(drawn).reshape(len(known), M, K)
        z -= z.mean(axis=1, keepdims=True)
        outcomes = self._kept.all().outcomes
        centre = outcomes.mean(axis=0) if len(outcomes) else np.zeros(K)
        return np.asarray(centre + units_of(outcomes) * z[where].swapaxes(0, 1))

    def _rows(self, features: Any, actions: Any) -> tuple[Array, Ids]:
        if actions is not None:
            ids = np.ascontiguousarray(actions, dtype=np.int64)
        elif self.n_actions is not None:
            ids = np.arange(self.n_actions)
        else:
            ids = np.arange(len(np.atleast_2d(features)))
        rows = finite_array("features", features, (self.n_features,), (len(ids), self.n_features))
        if self.n_actions is not None and len(ids) and not 0 <= ids.min() <= ids.max() < self.n_actions:
            came = Shown(f"{ids.min()} to {ids.max()}")
            raise InvalidInput(field="actions", must=f"be below {self.n_actions}", got=came)
        return np.array(np.broadcast_to(rows, (len(ids), self.n_features)), order="C"), ids

    # Settings and state

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "members": self.n_members}

    def arrays(self) -> dict[str, NDArray[Any]]:
        self._pack()
        kept = {f"kept/{name}": array for name, array in self._kept.arrays().items()}
        weights = {"weights": self._weights, "weights_of": self._weights_of} if self._weights.size else {}
        names = "clock", "times", "seen", "actions_then", "shifts", "fit_bytes", "fit_bytes_of"
        own = {name: getattr(self, f"_{name}") for name in names}
        return {**own, **weights, **kept}

    def _pack(self) -> None:
        """See that the fit in force is there as bytes; one that failed is left to whoever asks for an answer."""
        mark = int(self._clock[MARK_IN_FORCE])
        if not self.fits or self._fit_bytes_of[0] == mark:
            return
        with contextlib.suppress(InvalidInput):
            self._note_bytes(packed_members(self._in_force()) or b"", mark)

    def make_room(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Adopt the shapes of these arrays, which are about to be loaded."""
        self._fit_bytes = np.zeros(arrays["fit_bytes"].shape, dtype=np.uint8)
        self._fit_bytes_of[0] = self._clock[MARK_IN_FORCE]
        self._kept.make_room(under("kept", arrays))
        if self._weights.size:
            self._weights = np.zeros(arrays["weights"].shape)

    def copy(self) -> Self:
        twin = super().copy()
        if not missing_sizes(self):
            # A fit never changes, so both may use it.
            twin._fitted = dict(self._fitted)
        return twin

    sized = classmethod(shared_or_each)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_fitted": {}, "_last_asked": None}

    def __repr__(self) -> str:
        hidden = ("estimator", "n_actions", "n_features", "n_outputs", "exploration", "params", "shared")
        usual, given = inspect.signature(type(self)).parameters, self.settings()
        told = [name for name in usual if name not in hidden and given[name] != usual[name].default]
        first = map(repr, (self.estimator, self.n_actions, self.n_features))
        return f"Ensemble({', '.join([*first, *(f'{name}={given[name]!r}' for name in told)])})"


# How many outcomes at most an action that begins like another takes from it.
_ALIKE = 30


def _mark(before: Any, *learnt: bytes) -> int:
    """A number for everything learnt, in order: different histories share one with a chance of 2⁻⁶⁴."""
    said = int(before).to_bytes(8, signed=True) + b"".join(learnt)
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest(), signed=True)


def _mark_of(sample: Sample, at: int) -> int:
    return _mark(at, *(rows.tobytes() for rows in sample))


def _done(members: Members) -> Future[Members]:
    made: Future[Members] = Future()
    made.set_result(members)
    return made


@cache
def _worker(process: int) -> ThreadPoolExecutor:
    """The thread in which a process makes its fits, one after the other."""
    return ThreadPoolExecutor(1, thread_name_prefix="tightrope-fit")
