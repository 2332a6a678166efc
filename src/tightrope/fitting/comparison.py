"""Models compared on logged decisions: each predicts outcomes of rows that it did not learn from."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightrope import displays
from tightrope.errors import InvalidInput
from tightrope.frames import AsFrame
from tightrope.models import hooks
from tightrope.models.sizes import Sizes, model_class, sized
from tightrope.offpolicy import Evaluation, Log, evaluate
from tightrope.offpolicy.estimators import mean_and_error, parts
from tightrope.progress import progress_bar
from tightrope.report import Calibration
from tightrope.trust import grant
from tightrope.validation import Array

# From simple to rich, in the order in which a tie is decided: name, settings, whether outcomes must lie in [0, 1].
CANDIDATES: tuple[tuple[str, dict[str, Any], bool], ...] = (
    ("arm-means", {"model": "arm-means"}, False),
    ("linear", {"model": "disjoint-ridge"}, False),
    ("logistic", {"model": "logistic"}, True),
    ("random-features", {"model": "features", "transformer": "fourier"}, False),
    ("small-boosted-trees", {"model": "ensemble", "estimator": "small-boosted-trees"}, False),
    ("boosted-trees", {"model": "ensemble", "estimator": "boosted-trees"}, False),
    ("extra-trees", {"model": "ensemble", "estimator": "extra-trees"}, False),
    ("mlp", {"model": "ensemble", "estimator": "mlp"}, False),
)
_BINS = 10
_FEW = 20  # rows in a bin


@dataclass(frozen=True, eq=False)
class Fitted:
    """One model on rows that it had not learnt from.

    `loss` is the squared error as a part of the outcomes' variance (1 for predicting only the average), with its standard error;
    `value` is what its favourite action of each row would earn, if actions were logged at random. `expected` (n, J, M) holds its
    means for every action of every row.
    """

    name: str
    settings: dict[str, Any]
    loss: float
    loss_error: float
    calibration: Calibration
    value: Evaluation | None
    seconds: float
    errors: Array
    expected: Array

    def __repr__(self) -> str:
        return f"Fitted({self.name!r}, loss={self.loss:.4f} ± {self.loss_error:.4f}, {self.seconds:.1f} s)"


@dataclass(frozen=True, eq=False)
class Comparison(AsFrame):
    """What `compare` found: `fitted`, in the order given, and which one to use."""

    log: Log
    what: str
    outcomes: Array
    fitted: tuple[Fitted, ...]
    best: Fitted
    recommended: Fitted

    def __getitem__(self, name: str) -> Fitted:
        for one in self.fitted:
            if one.name == name:
                return one
        known = ", ".join(repr(one.name) for one in self.fitted)
        raise InvalidInput(field="model", must=f"be one of {known}", got=name)

    def __repr__(self) -> str:
        models = ", ".join(one.name for one in self.fitted)
        return f"Comparison({self.what} by {models}; recommended: {self.recommended.name})"

    def table(self, recommended: str = "{}") -> tuple[list[str], list[list[str]]]:
        """Head and rows of the models, in the order of `fitted`; `recommended` is how the name of that model is written."""
        valued = any(one.value is not None for one in self.fitted)
        head = ["model", "squared error, of the variance", "off at its levels (by chance)"]
        rows = []
        for one in self.fitted:
            name = recommended.format(one.name) if one is self.recommended else one.name
            row = [name, f"{one.loss:.4f} ± {one.loss_error:.4f}"]
            row.append(f"{one.calibration.gap:.4f} ({one.calibration.noise:.4f})")
            if valued:
                value = None if one.value is None else one.value.reward
                row.append("–" if value is None else f"{value.value:.4f} [{value.low:.4f}, {value.high:.4f}]")
            rows.append([*row, f"{one.seconds:.1f}"])
        return [*head, *["its favourites would earn"] * valued, "seconds"], rows

    def html_table(self) -> displays.Html:
        """The models, the recommended one bold, as a notebook shows them."""
        (first, *head), rows = self.table()
        marked = self.fitted.index(self.recommended)
        return displays.table([f"{first} of the {self.what}", *head], rows, marked=marked)

    def _repr_html_(self) -> str:
        title = f"Use {self.recommended.name} for the {self.what}"
        return displays.page(title, self.html_table(), displays.lines_of(self.words()))

    def levels(self) -> dict[str, Calibration]:
        """How right each model's expectations were, by its name."""
        return {one.name: one.calibration for one in self.fitted}

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row for each model."""
        return [
            {
                "what": self.what,
                "model": one.name,
                "settings": one.settings,
                "loss": one.loss,
                "loss_error": one.loss_error,
                "calibration_gap": one.calibration.gap,
                "calibration_by_chance": one.calibration.noise,
                "value": one.value and one.value.reward.value,
                "value_low": one.value and one.value.reward.low,
                "value_high": one.value and one.value.reward.high,
                "seconds": one.seconds,
                "recommended": one is self.recommended,
            }
            for one in self.fitted
        ]

    def ahead(self, one: Fitted, other: Fitted) -> tuple[float, float]:
        """By how much the loss of `one` is below that of `other`, and the standard error of that."""
        return mean_and_error(other.errors - one.errors, self.log.groups)

    def words(self) -> list[str]:
        """The recommendation, in sentences."""
        take, best = self.recommended, self.best
        said = [
            f"Use {take.name} for the {self.what}: on rows that it did not learn from, its squared error is "
            f"{take.loss:.3f} of the outcomes' variance (standard error {take.loss_error:.3f})."
        ]
        if best is not take:
            ahead, error = self.ahead(best, take)
            said.append(
                f"{best.name} has {best.loss:.3f}, but that is within one standard error ({ahead:.4f} against {error:.4f}), "
                f"and {take.name} is simpler."
            )
        rivals = [one for one in self.fitted if one not in (take, best)]
        if rivals:
            nearest = min(rivals, key=lambda one: one.loss)
            ahead, error = self.ahead(take, nearest)
            said.append(f"The next is {nearest.name}, {ahead:.4f} behind (standard error {error:.4f}).")
        if take.loss > 1.0 - 2.0 * take.loss_error:
            said.append("That is no better than the average of all outcomes: the log doesn't say what to do.")
        elif take.name == "arm-means":
            said.append("The context says nothing that the action doesn't: no model that uses it was better.")
        said.append(_calibration_in_words(take))
        if take.value is not None:
            reward, logged = take.value.reward, float(self.log.rewards.mean())
            said.append(
                f"Its favourite action in every row would earn {reward.value:.4f} per decision, without any rule (95 % interval "
                f"{reward.low:.4f} to {reward.high:.4f}); the log has {logged:.4f}."
            )
        return said


def compare(
    log: Log,
    models: Sequence[Any] | None = None,
    *,
    what: str = "reward",
    outcomes: Array | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Each model predicts rows that it did not learn from, fold by fold; in a log `in_order`, the rows that come next.

    `log.contexts` (n, p) are the features; without them only arms can be told apart. `outcomes` (n, M) are rewards by default, and
    `what` is what they are called. By default the `models` are those of `CANDIDATES` that fit; each may be a name, settings or a
    (name, settings) pair.
    """
    y = log.rewards[:, None] if outcomes is None else outcomes
    variance = y.var(axis=0)
    if not (variance > 0.0).all():
        raise InvalidInput(field=f"the {what}", must=f"vary, but all of the log's are {y[0].tolist()}")
    chosen = list(_chosen(models, log, y))
    fitted = []
    with progress_bar(f"models of the {what}", len(chosen), "models", progress) as advance:
        for name, settings in chosen:
            fitted.append(_fit(name, settings, log, y, variance, outcomes is None))
            advance()
    best = min(fitted, key=lambda one: one.loss)
    for one in fitted:  # the simplest that is within one standard error of the best
        behind, error = mean_and_error(one.errors - best.errors, log.groups)
        if one is best or behind <= error:
            break
    return Comparison(log, what, y, tuple(fitted), best, one)


def _chosen(models: Sequence[Any] | None, log: Log, y: Array) -> Iterator[tuple[str, dict[str, Any]]]:
    usual = {name: settings for name, settings, _ in CANDIDATES}
    if models is None:
        bounded = bool((y >= 0.0).all() and (y <= 1.0).all())
        for name, settings, unit in CANDIDATES:
            if (bounded or not unit) and (name == "arm-means" or log.contexts is not None):
                yield name, settings
        return
    if isinstance(models, str) or not len(models):
        raise InvalidInput(field="models", must="be a list of names or settings", got=models)
    # Typed by whoever calls or runs the command.
    grant([one if isinstance(one, str | Mapping) else list(one) for one in models])
    for one in models:
        if isinstance(one, str):
            yield one, usual.get(one, {"model": one})
        elif isinstance(one, Mapping):
            yield str(one.get("estimator", one.get("model"))), dict(one)
        else:
            name, settings = one
            yield str(name), dict(settings)


def features_of(log: Log) -> Array | None:
    """x of each row, (n, p); for numbered contexts, indicators, since the number is a label and not a quantity."""
    if log.contexts is None or log.contexts.ndim == 2:
        return None if log.contexts is None else np.asarray(log.contexts, dtype=float)
    ids = np.unique(log.contexts, return_inverse=True)[1]
    return np.eye(int(ids.max()) + 1)[ids]


def _fit(name: str, settings: dict[str, Any], log: Log, y: Array, variance: Array, earns: bool) -> Fitted:
    n, J, M = log.n_rows, log.n_actions, y.shape[1]
    x = features_of(log)
    expected = np.empty((n, J, M))
    begun = time.perf_counter()
    sizes = Sizes(J, 0 if x is None else x.shape[1], per_action=False)
    stated = dict(settings)
    made = model_class(str(stated.pop("model", None)), sizes)
    for seen, unseen in parts(log):
        # In any unit.
        model = hooks.standardised(sized(made, sizes, **stated), M, centred=True, prior=np.zeros(M))
        rows = x if model.n_features else None
        outcomes = y[seen] if M > 1 else y[seen, 0]
        hooks.learn_many(model, None if rows is None else rows[seen], outcomes, log.actions[seen])
        count = int(unseen.sum())
        ids = np.tile(np.arange(J), count)
        many = None if rows is None else np.repeat(rows[unseen], J, axis=0)
        said = np.asarray(model.means(many, ids), dtype=float).reshape(count, J, M)
        expected[unseen] = np.where(np.isfinite(said), said, y[seen].mean(axis=0))
    seconds = time.perf_counter() - begun
    own = expected[np.arange(n), log.actions]
    errors = ((own - y) ** 2 / variance).mean(axis=1)
    loss, error = mean_and_error(errors, log.groups)
    value = None
    if earns and log.propensities is not None:
        with suppress(InvalidInput):  # nothing can be said of what was never tried
            value = evaluate(log, expected[:, :, 0].argmax(axis=1), may_miss=0.05)
    levels = _calibration(own, y, variance)
    return Fitted(name, settings, loss, error, levels, value, seconds, errors, expected)


def _calibration(expected: Array, y: Array, variance: Array) -> Calibration:
    """Of all outputs together, in standard deviations where there are several."""
    scale = np.ones(1) if y.shape[1] == 1 else np.sqrt(variance)
    said, seen = (expected / scale).reshape(-1), (y / scale).reshape(-1)
    bins = np.array_split(np.argsort(said, kind="stable"), min(_BINS, max(1, len(said) // _FEW)))
    return Calibration(
        np.array([said[rows].mean() for rows in bins]),
        np.array([seen[rows].mean() for rows in bins]),
        np.array([seen[rows].std() / math.sqrt(len(rows)) for rows in bins]),
    )


def _calibration_in_words(one: Fitted) -> str:
    gap, noise = one.calibration.gap, one.calibration.noise
    if gap <= 1.5 * noise:
        return f"Its expectations are right on average at every level: off by {gap:.3f}, which chance explains ({noise:.3f})."
    low, high = one.calibration.expected[[0, -1]] - one.calibration.seen[[0, -1]]
    how = "too extreme" if low < 0.0 < high else "too moderate" if high < 0.0 < low else "off"
    return f"Its expectations are {how}: off by {gap:.3f} on average over ten levels, where chance explains {noise:.3f}."
