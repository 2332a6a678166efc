"""What is expected of actions that were never tried where others stand out."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from tightrope.kernels import rare, standardised

J = 3
ALL = np.arange(J)
USUAL, RARE = [1.0, 0.0, 0.3], [1.0, 1.0, 0.3]


def taught(told, rounds=400):
    """A model of each action by itself that knows the usual contexts, and was told these rewards, by action, in the rare one."""
    rng = np.random.default_rng(0)
    model = tr.models.Standardised(J, 3)
    for t in range(rounds):
        model.learn([1.0, 0.0, rng.normal()], 0.5 + 0.1 * rng.normal(), t % J)
    for action, reward in told.items():
        model.learn(RARE, reward, action)
    return model


def believed(model, x):
    """Means and deviations for draws, with what stands out and without."""
    room, out = np.empty(standardised.predictions_room(4, 1)), np.empty(4 * J)
    x = np.array(x)
    rare.predict_rewards(model.flat, model.spread, x, 0, True, ALL, out, 0, J, room)
    standardised.predict_rewards(model.flat, model.spread, x, 0, True, ALL, out, 2 * J, 3 * J, room)
    return out.reshape(2, 2, J)


def test_untried_actions_are_expected_to_be_like_the_one_that_stands_out():
    (means, deviations), (alone, narrow) = believed(taught({0: 60.0}), RARE)
    assert means == pytest.approx([60.0, 60.0, 60.0], rel=0.02)
    assert deviations[1:] == pytest.approx([60.0, 60.0], rel=0.05)
    assert abs(alone[1:]).max() < 2.0
    assert narrow[1:].max() < 10.0
    # What is known of the first one stays as it was.
    assert means[0] == pytest.approx(alone[0], rel=1e-3)
    assert deviations[0] < 1.0


def test_between_known_ones_they_are_expected_in_the_middle():
    (means, deviations), _ = believed(taught({0: 60.0, 2: -20.0}), RARE)
    assert means[1] == pytest.approx(20.0, abs=1.0)
    assert deviations[1] == pytest.approx(np.sqrt((60.0**2 + 20.0**2) / 2), rel=0.03)


@pytest.mark.parametrize(
    ("told", "x"),
    [({0: 60.0}, USUAL), ({0: 0.8}, RARE), ({}, RARE)],
    ids=["usual", "not far", "unknown to all"],
)
def test_elsewhere_nothing_changes(told, x):
    likened, alone = believed(taught(told), x)
    np.testing.assert_array_equal(likened, alone)


def test_parameters_that_all_actions_share_need_no_likening():
    model = tr.models.Standardised(n_features=3)
    for t in range(400):
        model.learn([1.0, 0.0, t % 7], 0.5)
    model.learn(RARE, 60.0)
    rows, out = np.array([RARE, USUAL, [1.0, 5.0, 0.0]]).reshape(-1), np.empty(4 * J)
    room = np.empty(standardised.predictions_room(4, 1))
    rare.predict_rewards(model.flat, model.spread, rows, 0, False, ALL, out, 0, J, room)
    standardised.predict_rewards(model.flat, model.spread, rows, 0, False, ALL, out, 2 * J, 3 * J, room)
    np.testing.assert_array_equal(out[: 2 * J], out[2 * J :])


def test_the_best_action_of_a_rare_context_is_found():
    """0.7 % of contexts earn 150 times as much. Without likening most seeds stay with the first action that they try there."""
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        policy = tr.ShadowPrice(reward=tr.DisjointRidge(J, 3), constraints=1, seed=seed)
        taken = []
        for t in range(3000):
            strange = t % 140 == 70
            decision = policy.decide([1.0, float(strange), rng.normal()], [[-0.25], [0.25], [0.75]])
            earned = [0.0, 60.0, 150.0] if strange else [0.0, 0.5, 0.8]
            policy.learn(decision, earned[decision.action] + 0.1 * rng.normal())
            if strange:
                taken.append(decision.action)
        found.append(np.mean(np.array(taken[-10:]) == 2))
    assert np.mean(found) > 0.75
