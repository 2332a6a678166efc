"""Totals that wander: contexts that come in stretches, costs of very different sizes, and what is said about them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightrope as tr
from tightrope.concerns import ignore
from tightrope.kernels import shadow, wander

ACTIONS = ["none", "some", "much"]


def day_and_night(rng, rounds, period):
    """Costs (3,) of each round: in the day even the dearest action gives back, at night even the cheapest costs."""
    night = np.arange(rounds) % period >= period // 2
    return np.where(night[:, None], [0.15, 0.4, 0.9], [-0.5, -0.2, 0.3]) + 0.05 * rng.normal(size=(rounds, 3))


def log_normal(rng, rounds):
    """The first action always gives back; what the others cost differs by factors of hundreds."""
    use = np.exp(2.0 * rng.normal(size=(rounds, 3))) - 0.7
    use[:, 0] = -0.7
    return use


def totals_of(costs, seed=0, late=0, **rest):
    """The running total after each round, and the policy."""
    policy = tr.ShadowPrice(
        reward=tr.ArmMeans(3), cost=tr.ArmMeans(3) if late else None, constraints=1, seed=seed, **rest
    )
    policy.hooks.report_to(ignore)
    rng, taken, waiting = np.random.default_rng(seed), [], []
    for round_costs in costs:
        decision = policy.decide() if late else policy.decide(costs=round_costs[:, None])
        a = decision.action
        taken.append(round_costs[a])
        reward = [0.1, 0.5, 0.9][a] + 0.1 * rng.normal()
        waiting.append((decision, reward, [round_costs[a]]))
        if len(waiting) > late:
            told = waiting.pop(0)
            policy.learn(*(told if late else told[:2]))
    return np.cumsum(taken), policy


class TestBuffer:
    def test_after_two_nights_the_buffer_holds_the_third(self):
        for seed in range(3):
            costs = day_and_night(np.random.default_rng(seed), 3000, 600)
            totals, _ = totals_of(costs, seed)
            assert (totals[1200:] > 0.0).mean() < 0.05
            # The first night lasts too long for any choice.
            assert (totals[300:600] > 0.0).mean() > 0.5

    def test_the_buffer_for_single_steps_would_not_hold_it(self, monkeypatch):
        """The control: the same policy, which forgets its rises after every round."""
        costs = day_and_night(np.random.default_rng(0), 3000, 600)
        step = tr.ShadowPrice.decide

        def decide(policy, **offer):
            for which in (shadow.RISE, shadow.HIGHEST, shadow.EARLIER):
                policy._prices.vector(which)[:] = 0.0
            return step(policy, **offer)

        monkeypatch.setattr(tr.ShadowPrice, "decide", decide)
        totals, _ = totals_of(costs)
        assert (totals[1200:] > 0.0).mean() > 0.2

    @pytest.mark.parametrize("late", [0, 5])
    def test_steps_that_do_not_depend_on_each_other_leave_it_as_it_is(self, late):
        for seed in range(3):
            noise = np.random.default_rng(seed).normal(size=(1500, 3))
            _, policy = totals_of(np.array([-0.4, 0.1, 0.6]) + 0.3 * noise, seed, late)
            core, m = policy._prices.core, shadow.typical_size(policy._prices.core, 0)
            found = shadow.buffer_of(core, 0, m)
            highest, earlier = (policy._prices.vector(which) for which in (shadow.HIGHEST, shadow.EARLIER))
            assert max(highest[0], earlier[0]) > 0.0
            highest[:] = earlier[:] = 0.0
            assert found == shadow.buffer_of(core, 0, m)

    def test_a_changed_limit_forgets_rises_under_the_old_one(self):
        _, policy = totals_of(day_and_night(np.random.default_rng(0), 900, 600))
        rises = shadow.RISE, shadow.HIGHEST, shadow.EARLIER
        assert max(policy._prices.vector(which)[0] for which in rises) > 10.0
        policy.change_limit(0, shift=0.1)
        assert all(policy._prices.vector(which)[0] == 0.0 for which in rises)


class TestFormulas:
    def test_a_rise_is_counted_from_the_last_low_point(self):
        rise, seen = 0.0, []
        for step, counts in [
            (2.0, True),
            (-1.0, False),
            (3.0, True),
            (5.0, False),
            (-9.0, True),
            (1.0, True),
        ]:
            rise = wander.rise_after(rise, step, counts)
            seen.append(rise)
        assert seen == [2.0, 1.0, 4.0, 4.0, 0.0, 1.0]

    def test_windows_double_or_last_a_half_life(self):
        ends = [t for t in range(1, 101) if wander.window_ends(float(t), math.inf)]
        assert ends == [1, 2, 4, 8, 16, 32, 64]
        ends = [t for t in range(1, 101) if wander.window_ends(float(t), 30.5)]
        assert ends == [1, 2, 4, 8, 16, 30, 32, 60, 64, 90]

    def test_only_a_high_rise_widens(self):
        assert wander.widened(5.0, 3.0, 4.0) == 5.0
        assert wander.widened(5.0, 3.0, 10.0) == pytest.approx(12.0)
        assert wander.widened(0.0, 0.0, 10.0) == 0.0


class TestStepsAcross:
    @pytest.mark.parametrize("seed", range(3))
    def test_known_costs_of_any_size_lead_no_total_above_zero(self, seed):
        costs = log_normal(np.random.default_rng(seed), 1500)
        totals, policy = totals_of(costs, seed)
        assert totals.max() <= 1e-9
        assert policy.decide(costs=[[-0.7], [50.0], [900.0]]).probabilities.tolist() == [1.0, 0.0, 0.0]

    def test_without_caution_they_do_and_the_policy_names_the_guard(self):
        costs = log_normal(np.random.default_rng(0), 1500)
        totals, policy = totals_of(costs, caution=0.0)
        assert (totals > 1e-9).mean() > 0.1
        (concern,) = [one for one in policy.concerns() if "need not" in one.kind]
        assert "guard=True" in concern.remedy
        led = np.diff(totals, prepend=0.0)
        # The first action always gives back, so that a total a step from zero need not have gone above it.
        counted = int(((totals > 1e-9) & (totals - led - 0.7 <= 1e-9)).sum())
        assert f"In {counted} of 1,500 rounds" in concern.message

    def test_where_all_lead_above_prices_decide(self):
        policy = tr.ShadowPrice(reward=tr.ArmMeans(3), constraints=1)
        assert (policy.decide(costs=[[0.5], [0.1], [0.9]]).probabilities > 0.0).all()
        assert policy._prices.core[shadow.AVOIDABLE] == 0.0

    def test_what_somebody_else_commits_counts(self):
        policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1, guard=True)
        policy.hooks.report_to(ignore)
        for _ in range(600):
            policy.learn(policy.commit(policy.quote(costs=[[1.0], [-700.0]]), 0), 0.0)
        (concern,) = [one for one in policy.concerns() if "need not" in one.kind]
        assert "In 600 of 600 rounds" in concern.message
        assert "committed" in concern.remedy
