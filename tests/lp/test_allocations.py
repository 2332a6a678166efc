"""Linear programs: optimality is proven (weak duality, brute force, another solver), not compared with stored numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from strategies import numbers, wholes
from tightrope import lp
from tightrope.errors import InfeasibleProblem, InvalidInput

METHODS = ("direct", "decomposition")


def random_program(
    seed: int, contexts: int = 7, actions: int = 4, constraints: int = 3
) -> tuple[Any, Any, Any]:
    draw = np.random.default_rng(seed)
    weights = draw.dirichlet(np.ones(contexts))
    rewards = draw.uniform(size=(contexts, actions))
    costs = draw.uniform(-1, 1, size=(contexts, actions, constraints)) + 0.3 * (rewards[:, :, None] - 0.5)
    return weights, rewards, costs


def by_linprog(weights: Any, rewards: Any, costs: Any, epsilon: Any = 0.0) -> float | None:
    contexts, actions = rewards.shape
    found = linprog(
        -(weights[:, None] * rewards).ravel(),
        A_ub=(weights[:, None, None] * costs).reshape(rewards.size, -1).T,
        b_ub=np.broadcast_to(-np.asarray(epsilon, dtype=float), costs.shape[2]),
        A_eq=np.kron(np.eye(contexts), np.ones(actions)),
        b_eq=np.ones(contexts),
    )
    return -found.fun if found.status == 0 else None


class TestAllocation:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("seed", range(8))
    def test_agrees_with_another_solver(self, seed: int, method: lp.Method) -> None:
        weights, rewards, costs = random_program(seed)
        epsilon = np.array([0.0, 0.02, -0.1])
        found = lp.allocation(weights, rewards, costs, epsilon=epsilon, method=method)
        assert found.value == pytest.approx(by_linprog(weights, rewards, costs, epsilon), abs=1e-8)
        assert found.method == method
        np.testing.assert_allclose(
            found.slack, -epsilon - np.einsum("c,cj,cjk->k", weights, found.x, costs), atol=1e-12
        )

    @settings(max_examples=60)
    @given(
        contexts=st.integers(1, 60),
        actions=st.integers(1, 5),
        constraints=st.integers(1, 6),
        grain=st.sampled_from([0, 1, 2]),
        data=st.data(),
    )
    def test_methods_agree(
        self, contexts: int, actions: int, constraints: int, grain: int, data: st.DataObject
    ) -> None:
        """Both methods, on tied (rounded), duplicated, ragged and zero-weight data, feasible or not."""
        # A zero among the parts gives a context without weight.
        parts = data.draw(wholes(contexts, below=20))
        parts[0] += 1
        weights = parts / parts.sum()
        rewards = np.abs(data.draw(numbers(contexts, actions)))
        costs = data.draw(numbers(contexts, actions, constraints)) + 0.3 * (rewards[:, :, None] - 0.5)
        if grain:
            rewards, costs = rewards.round(grain), costs.round(grain)
        if data.draw(st.booleans(), label="duplicates"):
            rewards[:], costs[:] = rewards[0], costs[0]
        keep = data.draw(wholes(contexts, actions, below=2)) == 0
        keep |= data.draw(st.booleans(), label="all on offer")
        keep[:, 0] = True
        offsets = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
        arguments = {
            "offsets": offsets,
            "epsilon": data.draw(st.sampled_from([0.0, -0.2, 0.1]), label="epsilon"),
        }
        outcomes: list[float | None] = []
        for method in METHODS:
            try:
                found = lp.allocation(weights, rewards[keep], costs[keep], method=method, **arguments)
                proof = lp.certify(
                    weights, rewards[keep], costs[keep], x=found.x, duals=found.duals, **arguments
                )
                assert proof.verified
                outcomes.append(found.value)
            except InfeasibleProblem:
                outcomes.append(None)
        if None in outcomes:
            assert outcomes == [None, None]
        else:
            assert outcomes[0] == pytest.approx(outcomes[1], abs=3e-9)
        constants = [lp.slater(weights, costs[keep], offsets=offsets, method=m).value for m in METHODS]
        assert constants[0] == pytest.approx(constants[1], abs=3e-9)
        assert (None in outcomes) == (constants[0] < arguments["epsilon"] - 1e-9)

    @pytest.mark.parametrize("method", METHODS)
    def test_larger_instance_is_proven(self, method: lp.Method) -> None:
        weights, rewards, costs = random_program(3, contexts=400, actions=6, constraints=8)
        found = lp.allocation(weights, rewards, costs, method=method)
        assert found.certificate.verified
        assert found.certificate.gap <= 1e-9
        assert found.value == pytest.approx(lp.allocation(weights, rewards, costs).value, abs=2e-9)

    def test_auto_goes_by_size(self) -> None:
        assert lp.allocation(*random_program(0)).method == "direct"
        assert lp.allocation(*random_program(0, contexts=1_000, actions=4)).method == "decomposition"

    @pytest.mark.parametrize("method", METHODS)
    def test_duals_are_finite_differences(self, method: lp.Method) -> None:
        program = random_program(5, contexts=12)
        found = lp.allocation(*program, epsilon=0.1, method=method)
        assert (found.duals > 1e-3).any()
        h = 1e-5
        for k, step in enumerate(np.eye(3) * h):
            up = lp.allocation(*program, epsilon=0.1 + step, method=method).value
            down = lp.allocation(*program, epsilon=0.1 - step, method=method).value
            assert (down - up) / (2 * h) == pytest.approx(found.duals[k], abs=1e-4)

    @pytest.mark.parametrize("method", METHODS)
    def test_result_is_deterministic(self, method: lp.Method) -> None:
        program = random_program(6, contexts=50)
        one, two = (lp.allocation(*program, method=method) for _ in range(2))
        assert one.value == two.value
        np.testing.assert_array_equal(one.x, two.x)
        np.testing.assert_array_equal(one.duals, two.duals)

    def test_no_constraints(self) -> None:
        weights, rewards, _ = random_program(1)
        found = lp.allocation(weights, rewards, np.empty((*rewards.shape, 0)))
        assert found.value == pytest.approx(weights @ rewards.max(axis=1))
        assert found.duals.shape == (0,)
        assert lp.slater(weights, np.empty((*rewards.shape, 0))).value == 1.0

    @pytest.mark.parametrize("method", METHODS)
    def test_infeasible_tells_how_much_and_which(self, method: lp.Method) -> None:
        # x on the first action costs 0.8 x - 0.3 and 0.7 - 1.2 x: at best 0.1 each, at x = 1/2.
        costs = [[[0.5, -0.5, -1.0], [-0.3, 0.7, -1.0]]]
        with pytest.raises(InfeasibleProblem, match=r"misses some by 0\.15; constraints in conflict: 0, 1$"):
            lp.allocation([1.0], [[0.0, 1.0]], costs, epsilon=0.05, method=method)

    @pytest.mark.parametrize("method", METHODS)
    def test_constraints_that_can_only_just_be_met(self, method: lp.Method) -> None:
        draw = np.random.default_rng(2)
        rewards, one_way = draw.uniform(size=(40, 3)), draw.uniform(-1, 1, size=(40, 3, 2))
        found = lp.allocation(
            np.full(40, 1 / 40), rewards, np.concatenate([one_way, -one_way], axis=2), method=method
        )
        np.testing.assert_allclose(np.einsum("cj,cjk->k", found.x, one_way) / 40, 0.0, atol=1e-9)

    @pytest.mark.parametrize("method", METHODS)
    def test_weights_of_very_different_size(self, method: lp.Method) -> None:
        _, rewards, costs = random_program(8, contexts=60)
        weights = np.geomspace(1e-14, 1.0, 60)
        found = lp.allocation(weights / weights.sum(), rewards, costs, method=method)
        assert found.certificate.verified

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"weights": [0.5, -0.5]}, "weights must be"),
            ({"weights": [0.0, 0.0]}, "not all 0"),
            ({"rewards": [0.1, 0.2]}, r"rewards must have shape \(2, any\)"),
            ({"rewards": np.empty((2, 0))}, "J >= 1"),
            ({"costs": [[0.1, 0.2], [0.1, 0.2]]}, "costs must have shape"),
            ({"costs": [[[0.1], [np.nan]], [[0.1], [0.1]]]}, r"costs\[0, 1, 0\] must be finite, but got nan"),
            ({"rewards": [["a", "b"], ["c", "d"]]}, "rewards must hold real numbers"),
            ({"epsilon": [0.1, 0.2]}, "epsilon must be a number or 1 numbers"),
            ({"epsilon": np.inf}, "epsilon must be finite"),
            ({"offsets": [0, 2, 4]}, r"rewards must have shape \(any,\)"),
            ({"method": "simplex"}, "method must be 'auto', 'direct' or 'decomposition'"),
        ],
    )
    def test_refuses(self, change: dict[str, Any], text: str) -> None:
        arguments: dict[str, Any] = {
            "weights": [0.5, 0.5],
            "rewards": [[0.1, 0.2], [0.3, 0.4]],
            "costs": np.zeros((2, 2, 1)),
        }
        with pytest.raises(InvalidInput, match=text):
            lp.allocation(**{**arguments, **change})

    @pytest.mark.parametrize("offsets", [[0, 0, 3], [0, 2, 4], [1, 2, 3], [0.0, 1.0, 3.0], [0, 3]])
    def test_refuses_bad_offsets(self, offsets: Any) -> None:
        with pytest.raises(InvalidInput, match="offsets must hold 3 increasing integers"):
            lp.allocation([0.5, 0.5], [0.1, 0.2, 0.3], np.zeros((3, 1)), offsets=offsets)


class TestSlater:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("contexts", [1, 30])
    def test_hospital_rules(self, contexts: int, method: lp.Method) -> None:
        """Six wards: capacity 1{a=j} - cap, fairness fair - 1{a=j}, nursing 1{a=j} - 0.1875; δ = 0.00625.

        Ward 1 can have at most 0.1875 - δ and must have at least 0.175 + δ: hence 2δ <= 0.0125.
        """
        capacity = np.array([0.2, 0.2, 0.175, 0.175, 0.175, 0.175])
        fairness = np.array([0.175, 0.175, 0.15, 0.15, 0.125, 0.125])
        ward = np.eye(6)
        costs = np.concatenate([ward - capacity, fairness - ward, ward - 0.1875], axis=1)
        found = lp.slater(np.full(contexts, 1 / contexts), np.tile(costs, (contexts, 1, 1)), method=method)
        assert found.value == pytest.approx(0.00625, abs=1e-12)
        assert found.duals.sum() == pytest.approx(1.0)

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("seed", range(4))
    def test_is_where_feasibility_ends(self, seed: int, method: lp.Method) -> None:
        weights, rewards, costs = random_program(seed, contexts=5, actions=3, constraints=4)
        delta = lp.slater(weights, costs, method=method).value
        assert by_linprog(weights, rewards, costs, delta - 1e-6) is not None
        assert by_linprog(weights, rewards, costs, delta + 1e-6) is None

    @pytest.mark.parametrize("method", METHODS)
    def test_shift_moves_it_and_the_cap_holds(self, method: lp.Method) -> None:
        weights, _, costs = random_program(9)
        delta = lp.slater(weights, costs, method=method).value
        assert lp.slater(weights, costs + 2.0, method=method).value == pytest.approx(delta - 2.0)
        assert lp.slater(weights, costs - 5.0, method=method).value == 1.0

    def test_refuses_wrong_shape(self) -> None:
        with pytest.raises(InvalidInput, match=r"costs must have shape \(C, J, K\)"):
            lp.slater([1.0], [[0.1]])
