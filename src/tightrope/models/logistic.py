"""Logistic regression for outcomes between two limits, such as successes and failures."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.kernels import forgetting, logistic
from tightrope.models.blocks import BlockModel, block_widths, drawn_parameters, faded
from tightrope.models.hooks import Corrected
from tightrope.models.model import NO_DECISION, Ids, Normals, checked_outcome, known_action, register
from tightrope.models.outcome_memory import keep_rows
from tightrope.validation import Array, finite_array, finite_number, require_range, whole_number
from tightrope.words import Shown

# Means and deviations of σ(N(m, s²)) are sums over these nodes, right to 1e-3 for s up to 3.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
# Rounding may put outcomes slightly outside the limits.
_ROUNDING = 1e-9
# How many times as large as `prior` says the effects of features may be: at 16, logits of 20 and more. The choice is made from this
# many kept outcomes on, and the next larger one is taken where its log marginal likelihood is this near to the best.
_REACHES, _LEAST_ROWS, _NEARLY = 2.0 ** np.arange(5), 32, 2.0
# How many outcomes until all kept ones are refitted: 4, 6, 8, 12, 16, 24 and so on.
_FITTED_AT = frozenset(m << k for m in (2, 3) for k in range(1, 62))
# The logit if all outcomes are failures.
_LEAST_LOGIT = 12.0


@register("logistic")
class Logistic(BlockModel):
    """Logistic regression, learnt online, for outcomes of 0 and 1 or anything between: a mean never leaves the limits.

    It is Bayesian: each outcome moves the mode of the posterior by Newton's method and adds its curvature to the precision
    (Laplace's approximation; `tightrope.kernels.logistic` has the formulas). Curvatures found early are wrong where probabilities
    turn out to be extreme, so the latest outcomes are kept and refitted, together with what is known from earlier ones, whenever
    their number has grown by about half, and whenever half of the kept ones are new. Uncertainty is normal on the logit. Features
    may be in any unit: at the same times, each is centred and scaled by what was seen.

    Parameters
    ----------
    n_actions : int, optional
        Each action has its own parameters. None: all actions share them if `n_features` is given; otherwise the policy decides.
    n_features : int, optional
        0 for arms alone. By default as many as in the first context that its policy is shown.
    prior : float
        The standard deviation of a logit before anything is learnt; at 1.75 the probability is nearly uniform. An untried action is
        expected to do as well as all others did. It acts as a ridge penalty: p/prior² times the sum of squares of the coefficients
        of p features with deviation 1, and 1/prior² times the square of the constant. For the features it is only the first
        penalty, because it would shrink large effects and make their intervals too short. From 32 kept outcomes on, each fit takes
        1, 1/4, 1/16, 1/64 or 1/256 of it, whichever has the highest marginal likelihood; once that is not the first, the next
        smaller one if its log likelihood is within 2. `penalty` has the one in force. With ``keep=0`` it stays as it is.
    low, high : float or (n_outputs,) of float
        The range of outcomes; others are refused.
    keep : int
        How many outcomes are kept for refitting; 0 learns purely online.
    n_outputs : int
    half_life : float or str, optional
        How many outcomes, of all actions together, until one counts half as much; None forgets nothing.

    Examples
    --------
    >>> model = Logistic(n_features=1)
    >>> for i in range(2000):
    ...     model.learn([float(i % 10)], float(i % 10 == 9))
    >>> model.means([[0.0], [9.0]]).round(2)
    array([0.  , 0.87])
    """

    decision = NO_DECISION

    def __init__(
        self,
        n_actions: int | None = None,
        n_features: int | None = None,
        *,
        prior: float = 1.75,
        low: Any = 0.0,
        high: Any = 1.0,
        keep: int = 1024,
        n_outputs: int = 1,
        half_life: float | str | None = None,
    ) -> None:
        known = self._set_sizes(n_actions, n_features)
        self.n_outputs = M = whole_number("n_outputs", n_outputs)
        self.prior = finite_number("prior", prior, low=0.0, open_low=True)
        ends = [finite_array(*end, (), (M,)) for end in (("low", low), ("high", high))]
        self.low, self.high = (end.tolist() for end in ends)
        self._low, self._high = (np.array(np.broadcast_to(end, (M,))) for end in ends)
        if (self._low >= self._high).any():
            came = Shown(f"low = {self.low} and high = {self.high}")
            raise InvalidInput(field="low", must="be below high", got=came)
        self.keep = whole_number("keep", keep)
        self._take_half_life(half_life)
        if not known:
            return
        p = self.n_features
        blocks, q = (self.n_actions or 1) * M, p + 1
        # The square norm of a typical row, p scaled features and the constant, is 2.
        self._ridge = (2.0 if p else 1.0) / self.prior**2
        self.flat = kernels.new_ridge(blocks, q, 1)
        self._views = kernels.ridge_views(self.flat)
        self._views.Sigma[:] = self._ridge * np.eye(q)
        self._views.Sigma_inv[:] = np.eye(q) / self._ridge
        # Centre and scale of each feature, as in use; a scale of 0 before the first outcome.
        self.units = np.zeros((2, p))
        self.moments = np.zeros((2, p))  # mean and sum of squared deviations of the rows learnt
        self.tally = np.zeros(1 + M)  # how many outcomes, and the sum of each output
        self.reach = np.ones(1)  # the scale of features is divided by it
        self.offset = np.zeros(M)  # the expected logit of an untried action
        self.shifted = np.zeros(M)
        # What is kept, oldest first: rows as given, outcomes, and of each the block of its first output and when it was learnt.
        self.rows, self.outcomes = np.zeros((self.keep, p)), np.zeros((self.keep, M))
        self.which, self.when = np.zeros(self.keep, dtype=np.int64), np.zeros(self.keep)
        self.kept = np.zeros(1, dtype=np.int64)
        # Of which decision each is, by its number.
        self.decisions = np.zeros(self.keep, dtype=np.int64)
        # The precision and b of the outcomes before them, as of a certain time.
        self.before_S, self.before_b = np.zeros((blocks, q, q)), np.zeros((blocks, q))
        self.before_at = np.zeros(1)
        self.ages = np.zeros(0) if self._fades is None else forgetting.new_ages(*self._fades, blocks, q)

    @property
    def penalty(self) -> float:
        """The fit's factor on the sum of squared feature coefficients, for features with deviation 1."""
        return self.n_features * self._ridge / 2.0 / float(self.reach[0]) ** 2

    @property
    def n_learnt(self) -> int:
        return int(self._views.stat[kernels.LEARNT]) // max(1, self.n_outputs)

    def never_learnt(self) -> NDArray[np.bool_] | None:
        if self.n_actions is None:
            return None
        first = self._views.Sigma[:: max(1, self.n_outputs), -1, -1]
        return np.asarray(first <= self._ridge)

    # Learn

    def check_outcome(self, outcome: Any) -> None:
        y = checked_outcome(outcome, self.n_outputs)
        low, high = self._low + self.shifted, self._high + self.shifted
        room = _ROUNDING * (1.0 + np.abs(low) + np.abs(high))
        try:
            require_range("outcome", y, low - room, high + room)
        except InvalidInput as error:
            remedy = "Set the limits of a logistic model with low and high."
            raise InvalidInput(error, remedy=remedy) from error

    def learn(self, features: Any, outcome: Any, action: int | None = None) -> None:
        g = 0 if self.n_actions is None else known_action(action, self.n_actions)
        x = self._rows(features, 1).reshape(-1)
        self.check_outcome(outcome)
        y = self._in_unit(checked_outcome(outcome, self.n_outputs))
        if not self.n_learnt and self.n_features:
            # The scale of features: that of the first row, or the average if that is smaller.
            typical = float(np.sqrt(np.mean(x**2))) or 1.0
            self.units[1] = np.maximum(np.abs(x), typical) * np.sqrt(self.n_features)
        self._note(x, y)
        M, q = self.n_outputs, self.n_features + 1
        row, room, scratch = self._extended(x[None, :])[0], np.empty(q + 1), np.empty(2 * q * q)
        for i, block in enumerate(range(g * M, g * M + M)):
            w = forgetting.weight(self.ages, 0, block) if self.half_life else 1.0
            worn = logistic.learn(self.flat, block, row.copy(), 0, y[i], self.offset[i], w, room)
            if self.half_life is not None:
                forgetting.renew_those_due(self.flat, self.ages, 0, block, self._ridge, scratch)
            elif worn:
                kernels.ridge_refresh(self.flat, block, scratch)
        if self.keep:
            i = int(self.kept[0])
            self.rows[i], self.outcomes[i], self.which[i], self.when[i] = x, y, g * M, self._now()
            self.decisions[i] = self.decision
            self.kept[0] = i + 1
        if self.n_learnt in _FITTED_AT or self.kept[0] == self.keep > 0:
            self._measure_anew()
            if self.keep:
                self._fit_anew()

    def correct(self, features: Any, was: Array, now: Array, action: int, decision: int) -> Corrected:
        """Correct the outcome if it is still kept; the next fit uses it."""
        mine = np.flatnonzero(self.decisions[: self.kept[0]] == decision)
        self.outcomes[mine] = self._in_unit(now)
        return "at the next fit" if len(mine) else "not"

    def _in_unit(self, outcome: Array) -> Array:
        """An outcome as a part of the way from low to high."""
        return np.clip((outcome - self._low - self.shifted) / (self._high - self._low), 0.0, 1.0)

    def forget_inputs(self, numbers: Collection[int]) -> None:
        """Drop the rows kept from these decisions, and refit without them.

        Their part in means, scales and counts stays, and so does everything older than the kept rows.
        """
        stays = ~np.isin(self.decisions[: self.kept[0]], list(numbers))
        if not stays.all():
            self._keep_rows(np.flatnonzero(stays))
            self._fit_anew()

    def _keep_rows(self, which: Ids) -> None:
        kept = (self.rows, self.outcomes, self.which, self.when, self.decisions)
        self.kept[0] = keep_rows(kept, which, int(self.kept[0]))

    def shift(self, output: int, by: float) -> None:
        self.shifted[output] += by

    def _note(self, x: Array, y: Array) -> None:
        """Add to the sums that determine the scale of features and the offset."""
        if self.half_life is not None:
            fade = forgetting.note_outcome(self.ages, 0)
            self.tally *= fade
            self.moments[1] *= fade
        self.tally[0] += 1.0
        self.tally[1:] += y
        mean, squares = self.moments
        apart = x - mean
        mean += apart / self.tally[0]
        squares += apart * (x - mean)

    def _measure_anew(self) -> None:
        """Centre and scale features by the rows learnt so far, set the offset by the outcomes, and convert what was learnt.

        An old row is T times the new one: its scaled features, and the constant that the change of centre enters by. So a precision
        S becomes T⁻¹ST⁻ᵀ and b becomes T⁻¹b; when a logit's offset rises by δ, b loses δ·S times the constant.
        """
        n, (mean, squares), (centre, scale) = self.tally[0], self.moments, self.units
        spread = np.sqrt(squares / n)
        # A feature that never varied says nothing of its unit.
        varies = spread > 1e-9 * (np.abs(mean) + scale)
        new_scale = np.where(varies, spread * np.sqrt(max(1, self.n_features)) / self.reach, scale)
        back = np.eye(self.n_features + 1)
        back[:-1, :-1] = np.diag(scale / new_scale)
        back[:-1, -1] = (centre - mean) / new_scale
        self.units[0], self.units[1] = mean, new_scale
        rates = (self.tally[1:] + 0.5) / (n + 1.0)
        rise = np.clip(np.log(rates / (1.0 - rates)), -_LEAST_LOGIT, _LEAST_LOGIT) - self.offset
        self.offset += rise
        rises = np.tile(rise, self.n_actions or 1)[:, None]

        def restated(S: Array, b: Array) -> tuple[Array, Array]:
            S = back @ S @ back.T
            return S, b @ back.T - rises * S[:, :, -1]

        views, ridge = self._views, self._ridge * np.eye(self.n_features + 1)
        learnt, views.B[:, 0] = restated(views.Sigma - ridge, views.B[:, 0])
        views.Sigma[:] = ridge + 0.5 * (learnt + learnt.transpose(0, 2, 1))
        self.before_S[:], self.before_b[:] = restated(self.before_S, self.before_b)
        self._refresh_all()

    def _fit_anew(self) -> None:
        """Find the mode of each block's posterior from all kept rows; fold the older half of a full memory into earlier sums."""
        n, now = int(self.kept[0]), self._now()
        weights = np.ones(n)
        if self._fades is not None:
            weights = 2.0 ** -((now - self.when[:n]) / self._fades.length)
            fade = 2.0 ** -((now - self.before_at[0]) / self._fades.length)
            self.before_S *= fade
            self.before_b *= fade
            self.before_at[0] = self.ages[forgetting.BORN :] = now
        if self.n_features and n >= _LEAST_ROWS:
            self._choose_reach(weights)
        Z = self._extended(self.rows[:n])
        leave = n - n // 2 if n == self.keep else 0
        for block, i, mine in self._rows_by_block():
            z, y, w = Z[mine], self.outcomes[mine, i], weights[mine]
            b, precision = self.before_b[block], self.before_S[block] + self._ridge * np.eye(Z.shape[1])
            theta = _mode(z, y, w, self.offset[i], precision, b, self._views.Theta[block, 0])
            logits = z @ theta
            p = _sigmoid(logits + self.offset[i])
            curvatures = w * p * (1.0 - p)
            Sigma = precision + (z * curvatures[:, None]).T @ z
            self._views.Sigma[block], self._views.B[block, 0] = Sigma, Sigma @ theta
            old = mine < leave
            self.before_S[block] += (z[old] * curvatures[old, None]).T @ z[old]
            self.before_b[block] += (curvatures * logits + w * (y - p))[old] @ z[old]
        self._keep_rows(np.arange(leave, n))
        self._refresh_all()

    def _choose_reach(self, weights: Array) -> None:
        """Choose the reach that makes the outcomes most likely, or the next larger one if nearly as good; convert what was learnt.

        A reach that is a little too large costs little; one that is too small shrinks effects, and intervals miss them. It scales
        the features rather than the penalty, so that features and constant keep the single ridge λI that forgetting needs.
        """
        n, old = len(weights), float(self.reach[0])
        Z, ridge = self._extended(self.rows[:n]), self._ridge * np.eye(self.n_features + 1)
        likely = np.zeros(len(_REACHES))
        for block, i, mine in self._rows_by_block():
            z, y, w = Z[mine], self.outcomes[mine, i], weights[mine]
            S, b, theta = self.before_S[block], self.before_b[block], self._views.Theta[block, 0]
            for k, reach in enumerate(_REACHES):
                D = self._stretch(reach / old)
                precision = ridge + D[:, None] * S * D
                found, mode = _evidence(z * D, y, w, self.offset[i], precision, D * b, theta / D)
                likely[k] += found
                # The next mode is near this one.
                theta = D * mode
        best = int(np.argmax(likely))
        # If nothing favours a larger reach than the first, for example if all outcomes failed, it stays.
        if 0 < best < len(_REACHES) - 1 and likely[best + 1] >= likely[best] - _NEARLY:
            best += 1
        self.reach[0] = _REACHES[best]
        D = self._stretch(float(self.reach[0]) / old)
        self.units[1] /= D[:-1]
        self.before_S *= D[:, None] * D
        self.before_b *= D
        self._views.Theta[:, 0] /= D

    def _rows_by_block(self) -> Iterator[tuple[int, int, Ids]]:
        """Each block, its output, and which of the kept rows belong to it."""
        for block in range(len(self.before_S)):
            i = block % self.n_outputs
            yield block, i, np.flatnonzero(self.which[: self.kept[0]] == block - i)

    def _stretch(self, by: float) -> Array:
        """What a row is multiplied by when features become larger by a factor, and the constant stays."""
        return np.append(np.full(self.n_features, by), 1.0)

    def _refresh_all(self) -> None:
        scratch = np.empty(2 * (self.n_features + 1) ** 2)
        for block in range(len(self.before_S)):
            kernels.ridge_refresh(self.flat, block, scratch)

    def _now(self) -> float:
        return float(self.ages[forgetting.TIME]) if self.half_life is not None else 0.0

    # Predict

    def means(self, features: Any = None, actions: Any = None) -> Array:
        return self._shaped(self.predictions(features, actions)[0])

    def deviations(self, features: Any = None, actions: Any = None) -> Array:
        return self._shaped(self.predictions(features, actions)[1])

    def predictions(self, features: Any = None, actions: Any = None) -> tuple[Array, Array]:
        """Means and standard deviations, (n, n_outputs) each: those of σ(N(m, s²)), m and s as `logits` has them."""
        m, s = self.logits(features, actions)
        p = _sigmoid(m[:, :, None] + s[:, :, None] * _NODES)
        means = p @ _WEIGHTS
        deviations = np.sqrt((p - means[:, :, None]) ** 2 @ _WEIGHTS)
        span = self._high - self._low
        return self._low + self.shifted + span * means, span * deviations

    def logits(self, features: Any = None, actions: Any = None) -> tuple[Array, Array]:
        """Mean and standard deviation of the logit of each row, (n, n_outputs) each."""
        rows, ids = self._rows_and_ids(features, actions)
        M, n = self.n_outputs, len(ids)
        if self.n_features and not self.n_learnt:
            return np.zeros((n, M)), np.full((n, M), self.prior)
        Z = self._extended(rows)
        means, deviations = np.empty((n, M)), np.empty((n, M))
        for i in range(M):
            blocks = self._groups(ids) * M + i
            means[:, i] = np.einsum("np,np->n", self._views.Theta[blocks, 0], Z) + self.offset[i]
            deviations[:, i] = block_widths(self.flat, Z, blocks, self._ridge, self.ages)
        return means, deviations

    def sampled(self, features: Any, actions: Any, scale: float, normals: Normals) -> Array:
        """The outcome that a draw θ̃ ~ N(θ̂, scale² Σ⁻¹) expects of each row, one draw for each set of parameters."""
        rows, ids = self._rows_and_ids(features, actions)
        q, low = self.n_features + 1, self._low[0] + self.shifted[0]
        span = self._high[0] - self._low[0]
        if self.n_features and not self.n_learnt:
            t = scale * self.prior * np.array([normals(1, int(a) * q)[0] for a in ids])
            return np.asarray(low + span * _sigmoid(t))
        groups, which = np.unique(self._groups(ids), return_inverse=True)
        drawn = []
        for g in groups.tolist():
            block = g * self.n_outputs
            Sigma = self._views.Sigma[block] / faded(self.ages, np.array([block]))
            drawn.append(drawn_parameters(Sigma, self._views.Theta[block, 0], scale, normals(q, g * q)))
        p = _sigmoid(np.einsum("np,np->n", np.array(drawn)[which], self._extended(rows)) + self.offset[0])
        return np.asarray(low + span * p)

    def _groups(self, ids: Ids) -> Ids:
        return ids if self.n_actions is not None else np.zeros_like(ids)

    def _ages(self) -> Array:
        return self.ages

    def arrays(self) -> dict[str, NDArray[Any]]:
        names = ["flat", "units", "moments", "tally", "reach", "offset", "shifted", "rows", "outcomes"]
        names += ["which", "when", "decisions", "kept", "before_S", "before_b", "before_at"]
        return {name: getattr(self, name) for name in names + ["ages"] * (self.half_life is not None)}

    def _extended(self, rows: Array) -> Array:
        centre, scale = self.units
        return np.concatenate([(rows - centre) / scale, np.ones((len(rows), 1))], axis=1)

    def _rows_and_ids(self, features: Any, actions: Any) -> tuple[Array, Ids]:
        rows, ids = super()._rows_and_ids(features, actions)
        return np.broadcast_to(rows, (len(ids), rows.shape[1])), ids


def _evidence(Z: Array, y: Array, w: Array, offset: float, precision: Array, b: Array, theta: Array) -> Any:
    """The log marginal likelihood up to a constant, by Laplace's approximation around the mode, and that mode."""
    theta = _mode(Z, y, w, offset, precision, b, theta)
    t = Z @ theta + offset
    p = _sigmoid(t)
    Sigma = precision + (Z * (w * p * (1.0 - p))[:, None]).T @ Z
    fit = w @ (y * t - np.logaddexp(0.0, t)) + b @ theta - 0.5 * theta @ precision @ theta
    return float(fit - 0.5 * np.linalg.slogdet(Sigma)[1]), theta


def _mode(Z: Array, y: Array, w: Array, offset: float, precision: Array, b: Array, theta: Array) -> Array:
    """Where w·log-likelihood(y; Zθ + offset) − ½θᵀPθ + bᵀθ is highest, by Newton's steps that are halved until they help."""

    def loss(theta: Array) -> float:
        t = Z @ theta + offset
        return float(w @ (np.logaddexp(0.0, t) - y * t) + 0.5 * theta @ precision @ theta - b @ theta)

    now = loss(theta)
    for _ in range(50):
        p = _sigmoid(Z @ theta + offset)
        slope = Z.T @ (w * (y - p)) + b - precision @ theta
        step = np.linalg.solve(precision + (Z * (w * p * (1.0 - p))[:, None]).T @ Z, slope)
        gain = float(slope @ step)
        if gain <= 1e-14 * (1.0 + abs(now)):
            break
        while (then := loss(theta + step)) > now - 1e-4 * gain and gain > 1e-14 * (1.0 + abs(now)):
            step, gain = 0.5 * step, 0.5 * gain
        theta, now = theta + step, then
    return theta


def _sigmoid(t: Array) -> Array:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * t)))
