"""The fitted members of an ensemble, each weighting outcomes by its own bootstrap, and their predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from io import BytesIO
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple, Protocol
from zipfile import BadZipFile

import numpy as np

from tightrope.models.estimators import Recipe
from tightrope.models.model import Ids
from tightrope.models.networks import Network, StackedNetworks, network, weight_count
from tightrope.models.outcome_memory import Sample, bootstrap_weights
from tightrope.models.trees import FlatTrees, flat
from tightrope.validation import Array

# One fit at a time: a library's number of threads is a setting of the whole process.
_FITTING = Lock()
_SCALES = "centre", "unit", "feature_centre", "feature_unit"


class Plan(NamedTuple):
    """What is to be fitted: members, a group of estimators for each action (G) or one for all, outputs."""

    recipe: Recipe
    members: int
    n_actions: int | None
    shared: bool
    n_outputs: int
    half_life: float | None
    made_up: int
    seed: int

    @property
    def steps(self) -> int:
        return self.members * self.groups * self.n_outputs

    @property
    def groups(self) -> int:
        return 1 if self.shared or self.n_actions is None else self.n_actions

    def worth(self, times: Array, now: float) -> Array:
        """How much outcomes from these times count now, (n,): half as much with every half-life."""
        if self.half_life is None:
            return np.ones(len(times))
        return np.asarray(np.exp2((times - now) / self.half_life))

    def layers(self, n_features: int) -> tuple[int, ...]:
        """The layer widths of its networks, if it has networks that continue from fit to fit."""
        return self.recipe.layers(n_features + (self.n_actions or 0 if self.shared else 0))

    def no_weights(self, n_features: int) -> Array:
        """Room for the weights of its networks, a row for each, (M · G · n_outputs, …); as if each said 0."""
        count = weight_count(self.layers(n_features)) if self.recipe.named.visits else 0
        return np.zeros((self.members * self.groups * self.n_outputs if count else 0, count))

    def inputs(self, features: Array, actions: Ids) -> Array:
        """An estimator's inputs: features, and the action if all actions share one estimator."""
        if not self.shared or self.n_actions is None:
            return features
        return np.concatenate([features, np.eye(self.n_actions)[actions]], axis=1)

    def group_of(self, actions: Ids) -> Ids:
        return actions if self.groups > 1 else np.zeros(len(actions), dtype=np.int64)


class Predictor(Protocol):
    """Fitted estimators of one kind, (M, G, n_outputs) of them."""

    def predict(self, rows: Array, groups: Ids) -> Array: ...


class Members(NamedTuple):
    """Fitted members: what they expect, in the user's units."""

    plan: Plan
    predictor: Predictor
    centre: Array
    unit: Array
    feature_centre: Array
    feature_unit: Array

    def weights(self, like: Array) -> Array:
        """The weights of its networks, as `no_weights` has room for them; of a constant the number, and then NaN."""
        if isinstance(self.predictor, StackedNetworks):
            return self.predictor.flat
        found = np.full(like.shape, np.nan)
        assert isinstance(self.predictor, FlatTrees)  # all of them constants
        found[:, 0] = self.predictor.base
        return found

    def predict(self, features: Array, actions: Ids) -> Array:
        rows = self.plan.inputs(features, actions)
        if self.plan.recipe.named.scaled:
            rows = (rows - self.feature_centre) / self.feature_unit
        said = self.predictor.predict(np.ascontiguousarray(rows), self.plan.group_of(actions))
        return said * self.unit + self.centre


def fit_members(plan: Plan, sample: Sample, begun: int, now: float, start: Array | None = None) -> Members:
    """Fit every member to a sample that was chosen after outcome number `begun`, at time `now`.

    The result depends only on these, and on the weights `start` that networks continue from, one row for each.
    """
    with _FITTING, _one_thread()():
        return Growth(plan, sample, begun, now, start).result()


class Growth:
    """A fit that can be made in steps: one estimator after the other, the same ones however the steps are cut.

    It has what the ensemble needs of a `Future`.
    """

    def __init__(
        self, plan: Plan, sample: Sample, begun: int, now: float, start: Array | None = None
    ) -> None:
        self._plan, self._sample = plan, sample
        self._rest = _fitted_one_by_one(plan, sample, begun, now, start)
        self._said: list[Any] = []
        self._made: Members | None = None
        self._lock = Lock()

    def advance(self, steps: int) -> None:
        """Do the next steps of M · G · n_outputs, those that are left."""
        with self._lock:
            self._said.extend(islice(self._rest, steps))

    def result(self) -> Members:
        """Do what is left; the fitted members."""
        with self._lock:
            if self._made is None:
                self._said.extend(self._rest)
                self._made = Members(
                    self._plan, _predictor(self._plan, self._said), *_scales(self._plan, self._sample)
                )
                self._said = []
            return self._made

    def cancel(self) -> bool:
        return False

    def cancelled(self) -> bool:
        return False


def _fitted_one_by_one(
    plan: Plan, sample: Sample, begun: int, now: float, start: Array | None
) -> Iterator[Any]:
    """The fitted estimators, by member, group and output."""
    centre, unit, feature_centre, feature_unit = _scales(plan, sample)
    worth = plan.worth(sample.times, now)
    counted = bootstrap_weights(plan.seed, sample.numbers, worth, plan.members)
    draws = np.random.Generator(np.random.Philox(key=[plan.seed & (2**64 - 1), begun]))
    done = 0
    for m in range(plan.members):
        taught, actions, targets, weights = _with_made_up(plan, sample, counted[:, m], draws)
        inputs, targets = plan.inputs(taught, actions), (targets - centre) / unit
        if plan.recipe.named.scaled:
            inputs = (inputs - feature_centre) / feature_unit
        mine = plan.group_of(actions)
        for g in range(plan.groups):
            picked = (mine == g) & (weights > 0.0)
            for k in range(plan.n_outputs):
                state = _random_state(plan.seed, m, g, k)
                row = None if start is None else start[done]
                before = None if row is None or np.isnan(row[-1]) else row
                seen = inputs[picked], targets[picked, k], weights[picked]
                yield plan.recipe.fitted(*seen, state, before)
                done += 1


def restored_members(plan: Plan, sample: Sample, weights: Array) -> Members:
    """Networks with these weights, which were fitted to this sample."""
    between, layers = str(plan.recipe.params.get("activation", "relu")), plan.layers(sample.features.shape[1])
    shape = plan.members, plan.n_outputs
    predictor = StackedNetworks(weights, layers, between, "identity", *shape)
    return Members(plan, predictor, *_scales(plan, sample))


def packed_members(members: Members) -> bytes | None:
    """Fitted trees or networks as bytes, from which any release of any library makes the same ones; None for other estimators."""
    predictor = members.predictor
    if isinstance(predictor, FlatTrees):
        arrays = predictor.arrays()
    elif isinstance(predictor, StackedNetworks) and predictor.behind == "identity":
        arrays = {"flat": predictor.flat}
    else:
        return None
    into = BytesIO()
    np.savez_compressed(
        into, allow_pickle=False, **arrays, **{name: getattr(members, name) for name in _SCALES}
    )
    return into.getvalue()


def unpacked_members(plan: Plan, n_features: int, data: bytes) -> Members:
    """The members that `packed_members` was given; raises `ValueError` for bytes that say anything else."""
    try:
        with np.load(BytesIO(data), allow_pickle=False) as found:
            arrays = dict(found.items())
        scales = [arrays.pop(name) for name in _SCALES]
        rows = plan.inputs(np.zeros((1, n_features)), np.zeros(1, dtype=np.int64))
        K, p = plan.n_outputs, rows.shape[1]
        if [one.shape for one in scales] != [(K,), (K,), (p,), (p,)]:
            raise ValueError("the scales have other shapes")
        predictor: Predictor
        if "flat" in arrays:
            between, layers = str(plan.recipe.params.get("activation", "relu")), plan.layers(n_features)
            if arrays["flat"].shape != (plan.steps, weight_count(layers)):
                raise ValueError("the networks have other layers")
            predictor = StackedNetworks(arrays["flat"], layers, between, "identity", plan.members, K)
        else:
            predictor = FlatTrees.of_arrays(arrays, plan.members, K, n_features=p, sums=plan.steps)
    except (KeyError, OSError, EOFError, BadZipFile) as error:
        raise ValueError(f"what was fitted can't be read: {error!r}") from error
    return Members(plan, predictor, *scales)


def _scales(plan: Plan, sample: Sample) -> tuple[Array, Array, Array, Array]:
    centre, unit = sample.outcomes.mean(axis=0), units_of(sample.outcomes)
    if plan.recipe.classifier:
        centre, unit = np.zeros_like(centre), np.ones_like(unit)
    rows = plan.inputs(sample.features, sample.actions)
    feature_centre, feature_unit = rows.mean(axis=0), rows.std(axis=0)
    usable = feature_unit > 1e-12 * np.abs(feature_centre)
    return centre, unit, feature_centre, np.where(usable, feature_unit, 1.0)


def units_of(outcomes: Array) -> Array:
    """The standard deviation of outcomes; their size if they do not vary, and 1 if all are zero."""
    spread = outcomes.std(axis=0) if len(outcomes) else np.zeros(outcomes.shape[1])
    size = np.abs(outcomes).max(axis=0, initial=0.0)
    return np.where(spread > 1e-9 * size, spread, np.where(size > 0.0, size, 1.0))


def _with_made_up(plan: Plan, sample: Sample, weights: Array, draws: np.random.Generator) -> tuple[Any, ...]:
    """The sample plus a few imaginary rounds per action: contexts that were seen, with the best or the worst outcome.

    Without them all members agree on an action that never earned anything, and none would try it again.
    """
    J, n = plan.n_actions or 1, len(sample.features)
    actions = np.repeat(np.arange(J), plan.made_up)
    at = (draws.random(len(actions)) * n).astype(np.int64)
    low, high = sample.outcomes.min(axis=0), sample.outcomes.max(axis=0)
    if plan.recipe.classifier:
        low, high = np.zeros_like(low), np.ones_like(high)
    else:
        unit = np.where(low < high, 0.0, units_of(sample.outcomes))
        low, high = low - unit, high + unit
    lucky = draws.random((len(actions), plan.n_outputs)) < 0.5
    return (
        np.concatenate([sample.features, sample.features[at]]),
        np.concatenate([sample.actions, actions]),
        np.concatenate([sample.outcomes, np.where(lucky, high, low)]),
        np.concatenate([weights, np.ones(len(actions))]),
    )


def _predictor(plan: Plan, said: Sequence[Any]) -> Predictor:
    """The fastest way to ask them all."""
    shape = plan.members, plan.n_outputs
    sums = [flat(one) for one in said]
    whole = [one for one in sums if one is not None]
    if len(whole) == len(sums):
        return FlatTrees(whole, *shape)
    nets = [one if isinstance(one, float) else network(one) for one in said]
    if None not in nets:
        model = next(one for one in nets if isinstance(one, Network))
        weights = np.full((len(nets), model.flat.size), np.nan)
        for row, net in zip(weights, nets):
            if isinstance(net, Network):
                row[:] = net.flat
            else:
                row[0] = net
        return StackedNetworks(weights, *model[1:], *shape)
    return OneByOne(plan.recipe, said, *shape)


class OneByOne:
    """Estimators that can't be evaluated side by side: each predicts on its own, once for all rows of its group."""

    def __init__(self, recipe: Recipe, fitted: Sequence[Any], members: int, outputs: int) -> None:
        self.recipe, self.fitted, self.members, self.outputs = recipe, fitted, members, outputs

    def predict(self, rows: Array, groups: Ids) -> Array:
        out = np.empty((self.members, len(rows), self.outputs))
        G = len(self.fitted) // (self.members * self.outputs)
        for g in np.unique(groups).tolist():
            picked = groups == g
            for m in range(self.members):
                for k in range(self.outputs):
                    one = self.fitted[(m * G + g) * self.outputs + k]
                    constant = isinstance(one, float)
                    out[m, picked, k] = one if constant else self.recipe.predict(one, rows[picked])
        return out


@cache
def _random_state(seed: int, *which: int) -> int:
    """A random stream for each estimator, the same in every fit, so that two fits differ only by their data."""
    return int(np.random.SeedSequence([seed, *which]).generate_state(1)[0] >> 1)


@cache
def _one_thread() -> Callable[[], AbstractContextManager[Any]]:
    """Libraries sum in an order that depends on the number of threads; one thread gives the same bits everywhere."""
    try:
        from threadpoolctl import ThreadpoolController
    except ModuleNotFoundError:
        return nullcontext
    return partial(ThreadpoolController().limit, limits=1)
