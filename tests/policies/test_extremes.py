"""Whatever is accepted: sizes of all kinds, mixed, leave every number finite and probabilities that sum to 1."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightrope as tr
from tightrope.kernels.probabilities import largest_probabilities, probabilities_room
from tightrope.validation import LARGEST

J, D, K = 3, 2, 2
SIZES = (0.0, 5e-324, 1e-300, 1e-160, 1e-60, 1e-30, 1e-12, 1e-3, 1.0, 50.0, 1e6, 1e12, 1e20, LARGEST)

MODELS: dict[str, Any] = {
    "arms": lambda: tr.ArmMeans(J),
    "ridge": lambda: tr.Ridge(D),
    "disjoint": lambda: tr.DisjointRidge(J, D),
    "logistic": lambda: tr.Logistic(n_features=D),
    "ensemble": lambda: tr.Ensemble("extra-trees", None, D, members=2, first=5, refit="now"),
}


def made(kind: str, seed: int) -> Any:
    """A policy of each kind, and what it is given in a round."""
    model, _, rest = kind.partition(" ")
    reward = MODELS[model]()
    if "paper" in rest:
        return tr.PessimisticOptimistic(reward=reward, constraints=K, slater=0.1)
    options: dict[str, Any] = {"half_life": 2.0} if "fading" in rest else {}
    if "late" in rest:
        return tr.ShadowPrice(reward=reward, cost=MODELS[model](), constraints=K, seed=seed, **options)
    return tr.ShadowPrice(reward=reward, constraints=K, guard="guard" in rest, seed=seed, **options)


def sized(random: np.random.Generator, shape: Any) -> Any:
    """Numbers of one size, or of any, or repeated, or ordinary."""
    signs = random.choice([-1.0, 1.0], shape)
    kind = random.integers(4)
    if kind == 0:
        return np.full(shape, random.choice(SIZES))
    if kind == 1:
        return signs * random.choice(SIZES, shape)
    return signs * random.uniform(size=shape) * (random.choice(SIZES) if kind == 2 else 1.0)


KINDS = [
    f"{model} {rest}"
    for model in ("arms", "ridge", "disjoint")
    for rest in ("known", "known guard", "late", "known fading", "late fading", "paper")
]


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32 - 1), rounds=st.integers(5, 50))
@settings(max_examples=4, deadline=None)
def test_every_number_stays_finite(kind: str, seed: int, rounds: int) -> None:
    play(kind, seed, rounds)


@pytest.mark.parametrize("kind", ["logistic known", "ensemble known"])
@given(seed=st.integers(0, 2**32 - 1), rounds=st.integers(5, 20))
@settings(max_examples=2, deadline=None)
def test_so_it_does_with_models_that_are_fitted_again(kind: str, seed: int, rounds: int) -> None:
    play(kind, seed, rounds)


def play(kind: str, seed: int, rounds: int) -> None:
    """Decide and learn with numbers of all sizes, and look at every number."""
    random = np.random.default_rng(seed)
    policy = made(kind, seed % 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tr.errors.PolicyWarning)
        for _ in range(rounds):
            features, costs = sized(random, (J, D)), sized(random, (J, K))
            if "disjoint" in kind:
                features = features[0]
            if "paper" in kind:
                # Which takes features in the unit ball, and costs in [-1, 1].
                features, costs = np.clip(features, -0.7, 0.7), np.clip(costs, -1.0, 1.0)
            given = {} if "arms" in kind else {"features": features}
            decision = policy.decide(**given, **({} if "late" in kind else {"costs": costs}))
            assert np.isfinite(decision.trace).all()
            assert decision.probabilities.min() >= 0.0
            assert decision.probabilities.sum() == pytest.approx(1.0, abs=1e-6)
            if random.uniform() < 0.8:
                reward = float(sized(random, ()))
                if "logistic" in kind:
                    # Which takes rewards in [0, 1].
                    reward = min(1.0, abs(reward))
                policy.learn(decision, reward, *([sized(random, K)] if "late" in kind else []))
            for name, array in policy.hooks.state().items():
                assert np.asarray(array).dtype.kind != "f" or np.isfinite(array).all(), name


@pytest.mark.parametrize("kind", ["ridge known", "disjoint late"])
def test_one_huge_round_does_not_break_what_comes_after(kind: str) -> None:
    policy, random = made(kind, 0), np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tr.errors.PolicyWarning)
        for t in range(60):
            size = LARGEST if t == 3 else 1.0
            features = size * random.uniform(size=D if "disjoint" in kind else (J, D))
            late = "late" in kind
            decision = policy.decide(features, *([] if late else [random.uniform(-1, 0.5, (J, K))]))
            assert decision.probabilities.sum() == pytest.approx(1.0, abs=1e-6)
            policy.learn(decision, random.uniform(), *([random.uniform(-1, 0.5, K)] if late else []))


@pytest.mark.parametrize("what", ["features", "costs", "reward"])
@pytest.mark.parametrize("value", [1.1 * LARGEST, -1e40, 1e100, np.inf, np.nan])
def test_what_is_larger_is_refused_by_name_and_changes_nothing(what: str, value: float) -> None:
    policy = tr.ShadowPrice(reward=tr.Ridge(D), constraints=K)
    decision = policy.decide(np.ones((J, D)), np.zeros((J, K)))
    before = {name: np.array(array) for name, array in policy.hooks.state().items()}
    x, W = np.ones((J, D)), np.zeros((J, K))
    if what != "reward":
        {"features": x, "costs": W}[what][1, 0] = value
    act, given = (policy.learn, (decision, value)) if what == "reward" else (policy.decide, (x, W))
    with pytest.raises(tr.InvalidInput, match=rf"^{what}.*(must lie in \[-1e\+30, 1e\+30\]|must be finite)"):
        act(*given)
    after = policy.hooks.state()
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name], err_msg=name)


@pytest.mark.parametrize(
    ("means", "deviations", "winner"),
    [
        ([1e23, 1.0, 2.0], [1e-5, 1e-5, 1e-5], 0),
        ([1e23, 1e23, 0.0], [1.0, 2.0, 3.0], 0),
        ([-1e40, -1e40, -2e40], [1e10, 1e-300, 0.0], 0),
        ([0.0, 0.0, -1.0], [5e-324, 1e-320, 1e-310], 1),
    ],
)
def test_deviations_that_vanish_beside_their_means(
    means: list[float], deviations: list[float], winner: int
) -> None:
    out, room = np.zeros(J), np.zeros(probabilities_room(J))
    largest_probabilities(np.array(means), np.array(deviations), out, room)
    assert np.isfinite(out).all()
    assert out.sum() == pytest.approx(1.0)
    assert out[winner] > 0.0
