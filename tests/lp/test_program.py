"""Proofs of solutions: what is right is accepted, what was tampered with is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tightrope import lp
from tightrope.errors import InvalidInput, SolverError
from tightrope.lp import allocations


def random_program(
    seed: int, contexts: int = 7, actions: int = 4, constraints: int = 3
) -> tuple[Any, Any, Any]:
    draw = np.random.default_rng(seed)
    weights = draw.dirichlet(np.ones(contexts))
    rewards = draw.uniform(size=(contexts, actions))
    costs = draw.uniform(-1, 1, size=(contexts, actions, constraints)) + 0.3 * (rewards[:, :, None] - 0.5)
    return weights, rewards, costs


class TestCertificate:
    @pytest.fixture
    def solved(self) -> tuple[tuple[Any, Any, Any], lp.Allocation]:
        program = random_program(5, contexts=12)
        return program, lp.allocation(*program, epsilon=0.1)

    def test_accepts_the_solution(self, solved: tuple[tuple[Any, Any, Any], lp.Allocation]) -> None:
        program, found = solved
        proof = lp.certify(*program, x=found.x, duals=found.duals, epsilon=0.1)
        assert proof == found.certificate
        assert proof.verified

    @pytest.mark.parametrize(
        "wound", ["mass", "negative", "greedy", "lazy", "duals", "negative duals", "nan"]
    )
    def test_refuses_a_corrupted_one(
        self, solved: tuple[tuple[Any, Any, Any], lp.Allocation], wound: str
    ) -> None:
        (weights, rewards, costs), found = solved
        x, duals = found.x.copy(), found.duals.copy()
        if wound == "mass":
            x[0] *= 1 - 1e-6
        elif wound == "negative":
            x[0, :2] += [1.0, -1.0]
        elif wound == "greedy":
            x = np.eye(4)[rewards.argmax(axis=1)]
        elif wound == "lazy":
            x = lp.slater(weights, costs).x
        elif wound == "duals":
            duals = duals * (1 + 1e-3)
        elif wound == "negative duals":
            duals[found.duals.argmin()] = -0.1
        else:
            x[3, 1] = np.nan
        assert not lp.certify(weights, rewards, costs, x=x, duals=duals, epsilon=0.1).verified

    def test_an_unverified_result_is_never_returned(self, monkeypatch: pytest.MonkeyPatch) -> None:
        solve = lp.solve_lp

        def corrupted(*args: Any, **kwargs: Any) -> lp.LPSolution:
            found = solve(*args, **kwargs)
            return lp.LPSolution(found.status, found.value, found.x, found.duals_ub + 0.5, found.duals_eq)

        monkeypatch.setattr(allocations, "solve_lp", corrupted)
        with pytest.raises(SolverError, match="relative gap"):
            lp.allocation(*random_program(0))

    def test_refuses_wrong_shapes(self, solved: tuple[tuple[Any, Any, Any], lp.Allocation]) -> None:
        program, found = solved
        with pytest.raises(InvalidInput, match="x must have shape"):
            lp.certify(*program, x=found.x[:-1], duals=found.duals)
        with pytest.raises(InvalidInput, match=r"duals must have shape \(3,\)"):
            lp.certify(*program, x=found.x, duals=found.duals[:-1])
