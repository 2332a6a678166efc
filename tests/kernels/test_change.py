"""The test for a change of the world: written out slowly, its false alarms, and what a model does after one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tightrope import kernels
from tightrope.kernels import change
from tightrope.kernels.spread import watch_at
from tightrope.models import Standardised


def new_watch(G=1, M=1):
    watch = np.empty(change.watch_size(G, M))
    change.begin_watch(watch, 0)
    return watch


def note(watch, errors, g=0, i=0, M=1):
    """Outcomes until one shows a change; how many there were, or None."""
    for n, e in enumerate(errors, start=1):
        watch[change.block_of_watch(0, g, M)] += 1.0
        change.note_error(watch, 0, g, i, M, float(e))
        if change.is_due(watch, 0):
            return n
    return None


def slow(errors):
    """How many outcomes there are until a change shows, and in how many of the last: from the errors themselves."""
    e = np.clip(errors, -3.0, 3.0)
    for n in range(16, len(e) + 1, 16):
        found = None
        length = 16
        while n % length == 0 and length <= 2**15:
            before = 2 ** int(math.log2(max(1, (n - 1) // 16 * 16))) if n > 16 else 0
            # The powers of two reached before these outcomes were judged; the one before the last is compared with.
            before //= 2
            if n >= 2 * length and before >= 16:
                mean, earlier = e[n - length : n].mean(), e[:before].mean()
                apart = (mean - earlier) ** 2 > change.APART * (1.0 / length + 1.0 / before)
                if length * mean**2 > change.ALARM and apart:
                    found = n, length
            length *= 2
        if found:
            return found
    return None


@pytest.mark.parametrize("seed", range(12))
def test_the_windows_written_out(seed):
    rng = np.random.default_rng(seed)
    errors = rng.normal(size=3000) * rng.choice([1.0, 3.0])
    errors[rng.integers(100, 2500) :] += rng.normal()
    watch = new_watch()
    found = note(watch, errors)
    expected = slow(errors)
    assert (None if found is None else (found, int(watch[change.DUE_OUTCOMES]))) == expected
    if found is not None:
        last = np.clip(errors[found - expected[1] : found], -3, 3)
        assert watch[change.SHIFT] == pytest.approx(last.mean())


def test_a_world_that_stays_the_same_hardly_ever_gives_an_alarm():
    rng = np.random.default_rng(7)
    alarms = sum(note(new_watch(), rng.normal(size=10_000)) is not None for _ in range(200))
    assert alarms <= 4, "one run in fifty at most"


def test_heavy_tails_give_none_either():
    rng = np.random.default_rng(8)
    drawn = rng.standard_t(2.1, size=(100, 5_000))
    alarms = sum(note(new_watch(), errors / errors.std()) is not None for errors in drawn)
    assert alarms <= 2


def test_a_model_that_was_wrong_from_the_start_gives_none():
    rng = np.random.default_rng(9)
    assert note(new_watch(), 0.5 + rng.normal(size=5_000)) is None
    shifted = rng.normal(size=5_000)
    shifted[2_500:] += 0.5
    assert note(new_watch(), shifted) in range(2_500, 3_200)


def test_blocks_and_outputs_are_watched_each_by_itself():
    rng = np.random.default_rng(10)
    errors = rng.normal(size=1_000)
    errors[500:] -= 1.0
    watch = new_watch(3, 2)
    for e in rng.normal(size=700):
        change.note_error(watch, 0, 0, 0, 2, float(e))
    assert note(watch, errors, g=2, i=1, M=2) in range(500, 700)
    assert (watch[change.DUE], watch[change.DUE_OUTPUT]) == (2.0, 1.0)


def changing(model, at, until, *, jump, seed=0):
    """Two actions, rewards linear in x; that of action 0 jumps in round `at`."""
    rng = np.random.default_rng(seed)
    for t in range(until):
        x, action = rng.normal(size=2), t % 2
        reward = 1.0 + 0.5 * x[0] - 0.2 * action + (jump if action == 0 and t >= at else 0.0)
        model.learn(x, reward + 0.3 * rng.normal(), action)
    return model


def test_a_change_is_found_and_only_what_was_wrong_is_learnt_anew():
    model = changing(Standardised(2, 2), 2_000, 2_400, jump=-0.6)
    assert model.changes == 1
    right, other = model.means([[0.0, 0.0], [0.0, 0.0]], [0, 1])
    assert right == pytest.approx(0.4, abs=0.1)
    assert other == pytest.approx(0.8, abs=0.05)
    never = changing(Standardised(2, 2), 9_999, 2_400, jump=-0.6)
    assert never.changes == 0
    assert (
        model.deviations([[0.0, 0.0]] * 2, [0, 1]) > 2 * never.deviations([[0.0, 0.0]] * 2, [0, 1])
    ).all(), "both are less sure than if nothing had changed"


def test_sums_and_inverse_agree_after_a_change():
    model = changing(Standardised(2, 2), 2_000, 2_400, jump=-0.6)
    views = kernels.ridge_views(model.flat)
    for g in range(2):
        np.testing.assert_allclose(views.Sigma[g] @ views.Sigma_inv[g], np.eye(3), atol=1e-9)
        np.testing.assert_allclose(views.Theta[g] @ views.Sigma[g], views.B[g], rtol=1e-9)
    assert np.isfinite(model.spread[watch_at(model.spread) :]).all()


def test_units_of_rewards_do_not_matter():
    one = changing(Standardised(2, 2), 1_000, 1_400, jump=-0.6)
    rng = np.random.default_rng(0)
    other = Standardised(2, 2)
    for t in range(1_400):
        x, action = rng.normal(size=2), t % 2
        reward = 1.0 + 0.5 * x[0] - 0.2 * action + (-0.6 if action == 0 and t >= 1_000 else 0.0)
        other.learn(x * [1e6, 1e-3], 1e5 * (reward + 0.3 * rng.normal()) + 7e6, action)
    assert one.changes == other.changes == 1
    np.testing.assert_allclose(
        other.means([[5e5, 0.0], [5e5, 0.0]], [0, 1]),
        1e5 * one.means([[0.5, 0.0], [0.5, 0.0]], [0, 1]) + 7e6,
        rtol=1e-6,
    )


def test_a_model_that_forgets_does_not_look():
    model = changing(Standardised(2, 2, half_life=300), 2_000, 2_400, jump=-0.6)
    assert model.changes == 0


def test_new_actions_are_watched_too():
    model = changing(Standardised(2, 2), 2_000, 2_100, jump=-0.6)
    before = model.changes
    model.grow(3)
    assert model.changes == before
    rng = np.random.default_rng(1)
    for t in range(1_000):
        x = rng.normal(size=2)
        model.learn(x, (0.0 if t < 600 else 2.0) + 0.3 * rng.normal(), 2)
    assert model.changes == before + 1
