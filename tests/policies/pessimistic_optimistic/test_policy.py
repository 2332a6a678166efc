"""What a policy does round by round: choices, ties, delays, batches, copies, explanations, rules, sleeping actions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightrope as tr
from strategies import numbers, rows, unit_rows, wholes
from tightrope import kernels


def assert_same_state(a, b):
    assert list(a) == list(b)
    for name in a:
        assert a[name].dtype == b[name].dtype, name
        assert a[name].tobytes() == b[name].tobytes(), name
        assert a[name].shape == b[name].shape, name


def form_A(d=4, K=2, **more):
    return tr.PessimisticOptimistic(
        reward=tr.Ridge(d), constraints=K, **{"slater": 0.3, "horizon": 500, **more}
    )


def form_B(d=4, d_w=3, K=2, **more):
    return tr.PessimisticOptimistic(
        reward=tr.Ridge(d), cost=tr.Ridge(d_w), constraints=K, **{"slater": 0.3, "horizon": 500, **more}
    )


def form_arms(J=4, K=1, **more):
    return tr.PessimisticOptimistic(
        reward=tr.ArmMeans(J),
        cost=tr.ArmMeans(J),
        constraints=K,
        V=tr.Power(1.0, 0.5),
        epsilon=tr.Power(6.0, -0.5),
        **more,
    )


# The choice


def rounds_that_permute(phi, W, orders, rewards):
    """How many rounds pass, until one ties, in which a policy that is shown the actions in another order chooses the same one."""
    one, other = (
        tr.PessimisticOptimistic(
            reward=tr.Ridge(phi.shape[2], bonus=0.05),
            constraints=W.shape[2],
            V=tr.Power(4.0, 0.5),
            epsilon=tr.Power(0.5, -0.5),
            horizon=500,
        )
        for _ in range(2)
    )
    for t, order in enumerate(orders):
        a, b = one.decide(phi[t], W[t]), other.decide(phi[t, order], W[t, order])
        values = a.explain().values
        np.testing.assert_allclose(b.explain().values, values[order], atol=1e-9)
        best = np.flatnonzero(values >= values.max() - 1e-9)
        assert a.row in best
        assert order[b.row] in best
        if len(best) > 1:
            return t  # the lowest row wins, and rows have moved
        np.testing.assert_allclose(one.queue, other.queue, atol=1e-9)
        one.learn(a, float(rewards[t]))
        other.learn(b, float(rewards[t]))
    return len(orders)


@given(data=st.data(), J=st.integers(2, 6), n=st.integers(1, 20))
def test_permuting_the_actions_permutes_the_choice(data, J, n):
    orders = data.draw(wholes(n, J, below=256)).argsort(axis=1, kind="stable")
    rounds_that_permute(data.draw(rows(n, J, 4)), data.draw(numbers(n, J, 2)), orders, data.draw(numbers(n)))


def test_permuting_the_actions_permutes_the_choice_in_rounds_without_ties():
    n, J = 300, 7
    rng = np.random.default_rng(0)
    phi, W = unit_rows(rng, n * J, 4).reshape(n, J, 4), rng.uniform(-1, 1, size=(n, J, 2))
    orders = rng.permuted(np.tile(np.arange(J), (n, 1)), axis=1)
    assert rounds_that_permute(phi, W, orders, rng.random(n)) == n


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ([0.5, 0.5, 0.5], 0),
        ([0.1, 0.9, 0.9], 1),
        ([0.5 - 0.45e-12, 0.5, 0.4], 0),
        ([0.5 - 1e-12, 0.5, 0.5], 1),
        ([1e-12, 3e-12], 1),
        ([0.0], 0),
        ([-3.0, -2.0], 1),
    ],
)
def test_ties_go_to_the_lowest_row(values, row):
    assert kernels.first_of_the_best(np.array(values)) == row


def test_ties_in_decide():
    policy = form_A(d=3, K=0)
    assert policy.decide(np.eye(3)).row == 0  # equal features by symmetry
    phi = np.eye(3) * np.array([[0.1], [0.2], [0.2]])
    policy = tr.PessimisticOptimistic(reward=tr.Ridge(3, bonus=0.01), constraints=0, horizon=10)
    assert policy.decide(phi).row == 1


@given(data=st.data(), n=st.integers(1, 30), J=st.integers(1, 5))
def test_without_constraints_it_is_linucb(data, n, J):
    """argmax of min(1, ⟨θ̂, φ⟩ + √β ‖φ‖_{Σ⁻¹}), written out here."""
    d, T, bonus = 3, 200, 0.2
    rounds, rewards = data.draw(rows(n, J, d)), data.draw(numbers(n))
    policy, plain = (
        tr.policies.LinUCB(tr.Ridge(d, bonus=bonus), horizon=T),
        tr.PessimisticOptimistic(reward=tr.Ridge(d, bonus=bonus), horizon=T),
    )
    Sigma, b = np.eye(d), np.zeros(d)
    for t, phi in enumerate(rounds):
        beta = 1 + math.sqrt(2 * math.log(T) + d * math.log((d + t) / d))
        inverse = np.linalg.inv(Sigma)
        r = np.minimum(
            1, phi @ inverse @ b + bonus * beta * np.sqrt(np.einsum("ij,jk,ik->i", phi, inverse, phi))
        )
        decision = policy.decide(phi)
        np.testing.assert_allclose(decision.explain().values, r, atol=1e-9)
        assert r[decision.row] >= r.max() - 1e-9
        assert plain.decide(phi).row == decision.row
        reward = float(rewards[t])
        policy.learn(decision, reward)
        plain.learn(t, reward)
        x = phi[decision.row]
        Sigma, b = Sigma + np.outer(x, x), b + reward * x
    assert policy.queue.shape == policy.totals.shape == (0,)


def test_one_action_on_offer_and_changing_sets():
    rng = np.random.default_rng(0)
    policy = form_A()
    for J in (1, 7, 1, 3, 20):
        W = rng.uniform(-1, 1, size=(J, 2))
        before = policy.queue
        decision = policy.decide(unit_rows(rng, J, 4), W)
        assert 0 <= decision.row < J
        assert decision.action == decision.row
        eps = 2**0.75 * math.sqrt(6 / policy.rounds)
        np.testing.assert_allclose(policy.queue, np.maximum(0, before + W[decision.row] + eps), atol=1e-12)
    assert policy.rounds == 5


def test_input_arrays_are_not_changed_and_not_kept():
    rng = np.random.default_rng(1)
    for policy, second in ((form_A(), rng.uniform(-1, 1, (3, 2))), (form_B(), unit_rows(rng, 3, 3))):
        phi = unit_rows(rng, 3, 4)
        kept_phi, kept_second = phi.copy(), second.copy()
        decision = policy.decide(phi, second)
        np.testing.assert_array_equal(phi, kept_phi)
        np.testing.assert_array_equal(second, kept_second)
        before = policy.hooks.state()
        phi[:] = 0.0
        second[:] = 0.0
        assert_same_state(before, policy.hooks.state())
        decision.explain().rewards[:] = 7.0
        assert decision.explain().rewards.max() <= 1.0


def test_lists_integers_and_read_only_arrays_are_taken():
    policy = form_A(d=2, K=1)
    policy.decide([[1, 0], [0, 1]], [[0], [1]])
    frozen = np.eye(2)
    frozen.flags.writeable = False
    policy.decide(frozen, np.asfortranarray([[0.5], [-0.5]], dtype=np.float32))
    assert policy.rounds == 2


# Queue, totals, learning


def test_the_queue_moves_in_decide_and_not_in_learn():
    rng = np.random.default_rng(2)
    for policy, second, costs in (
        (form_A(), rng.uniform(-1, 1, (3, 2)), None),
        (form_B(), unit_rows(rng, 3, 3), [0.2, -0.4]),
    ):
        first = policy.decide(unit_rows(rng, 3, 4), second)
        moved = policy.queue
        assert (moved > 0).all()
        policy.learn(first, 0.5, costs)
        np.testing.assert_array_equal(policy.queue, moved)


@pytest.mark.parametrize("cost_range", [(-0.5, 0.5), (-1.0, 1.0)])
def test_an_estimate_of_a_cost_stays_within_its_range(cost_range):
    """Costs are learnt at short features and asked for at long ones, where the line goes far beyond what costs can be."""
    policy = tr.PessimisticOptimistic(
        reward=tr.Ridge(1),
        cost=tr.Ridge(1, bonus=0.01),
        constraints=1,
        slater=0.3,
        horizon=500,
        cost_range=cost_range,
    )
    for _ in range(200):
        policy.learn(policy.decide([[1.0]], [[0.1]]), 0.5, [0.5])
    assert policy.hooks.cost_model().means([[1.0]]) > 2.0
    seen = policy.decide(np.ones((2, 1)), np.array([[1.0], [-1.0]])).explain()
    np.testing.assert_array_equal(seen.costs, [[cost_range[1]], [cost_range[0]]])


def test_totals_are_the_costs_chosen_in_A_and_the_costs_learnt_in_B():
    rng = np.random.default_rng(3)
    policy, total = form_A(), np.zeros(2)
    for _ in range(30):
        W = rng.uniform(-1, 1, (4, 2))
        total += W[policy.decide(unit_rows(rng, 4, 4), W).row]
    np.testing.assert_allclose(policy.totals, total, atol=1e-12)

    policy, total = form_B(), np.zeros(2)
    for i in range(30):
        decision = policy.decide(unit_rows(rng, 4, 4), unit_rows(rng, 4, 3))
        np.testing.assert_allclose(policy.totals, total, atol=1e-12)
        if i % 3:
            observed = rng.uniform(-1, 1, 2)
            policy.learn(decision, costs=observed)
            total += observed
    np.testing.assert_allclose(policy.totals, total, atol=1e-12)


@pytest.mark.parametrize("make", [form_A, form_B])
def test_outcomes_late_out_of_order_or_never(make):
    """The estimates depend on which outcomes came, in the order in which they came, and on nothing else."""
    rng = np.random.default_rng(4)
    policy = make()
    decisions, rows, costs = [], [], []
    for _ in range(20):
        phi, second = unit_rows(rng, 3, 4), unit_rows(rng, 3, 2 if make is form_A else 3)
        decisions.append(policy.decide(phi, second))
        rows.append(phi[decisions[-1].row])
        costs.append(second[decisions[-1].row])
    assert policy.pending == tuple(range(20))
    order = rng.permutation(20)[:15]
    reward_model, cost_model = tr.Ridge(4), tr.Ridge(3, n_outputs=2)
    for i in order:
        y, w = float(rng.normal()), rng.uniform(-1, 1, 2)
        if make is form_A:
            policy.learn(decisions[i], y)
        else:
            policy.learn(int(i), costs=w)
            policy.learn(decisions[i], reward=y)
            cost_model.learn(costs[i], w)
        reward_model.learn(rows[i], y)
    assert policy.pending == tuple(sorted(set(range(20)) - set(order.tolist())))
    for name, array in reward_model.arrays().items():
        np.testing.assert_array_equal(policy.hooks.reward_model().arrays()[name], array)
    if make is form_B:
        for name, array in cost_model.arrays().items():
            np.testing.assert_array_equal(policy.hooks.cost_model().arrays()[name], array)


def test_each_part_of_an_outcome_is_taken_once():
    rng = np.random.default_rng(5)
    policy = form_B()
    decision = policy.decide(unit_rows(rng, 3, 4), unit_rows(rng, 3, 3))
    policy.learn(decision, reward=0.5)
    assert policy.pending == (0,)
    with pytest.raises(tr.InvalidInput, match="decision 0 already has its reward"):
        policy.learn(decision, reward=0.5, costs=[0.1, 0.1])
    policy.learn(decision, costs=[0.1, 0.2])
    assert policy.pending == ()
    np.testing.assert_array_equal(policy.totals, [0.1, 0.2])
    with pytest.raises(tr.InvalidInput, match="decision 0 already has its whole outcome, or was forgotten"):
        policy.learn(decision, costs=[0.1, 0.2])
    other = policy.decide(unit_rows(rng, 3, 4), unit_rows(rng, 3, 3))
    policy.learn(other, costs=[0.1, 0.2])
    with pytest.raises(tr.InvalidInput, match="decision 1 already has its costs"):
        policy.learn(other, costs=[0.1, 0.2])


def test_forget():
    policy = form_A()
    rng = np.random.default_rng(6)
    first, second = (policy.decide(unit_rows(rng, 3, 4), rng.uniform(-1, 1, (3, 2))) for _ in range(2))
    queue = policy.queue
    policy.forget(first)
    policy.forget(second.number)
    np.testing.assert_array_equal(policy.queue, queue)
    assert policy.pending == ()
    assert policy.hooks.reward_model().n_learnt == 0
    with pytest.raises(tr.InvalidInput, match="or was forgotten"):
        policy.learn(first, 1.0)


# Batches and copies


def batch_inputs(form, rng, n):
    J = 4
    if form == "A":
        return {"features": rng.uniform(-0.5, 0.5, (n, J, 4)), "costs": rng.uniform(-1, 1, (n, J, 2))}
    if form == "A, sets that change":
        sizes = rng.integers(1, 6, size=n)
        return {
            "features": [unit_rows(rng, J, 4) for J in sizes],
            "costs": [rng.uniform(-1, 1, (J, 2)) for J in sizes],
            "actions": [rng.permutation(9)[:J].tolist() for J in sizes],
        }
    if form == "B":
        return {
            "features": rng.uniform(-0.5, 0.5, (n, J, 4)),
            "cost_features": rng.uniform(-0.5, 0.5, (n, J, 3)),
        }
    if form == "arms":
        return {"actions": [None if i % 2 else [0, 2] for i in range(n)]}
    if form == "rules":
        return {
            "features": [unit_rows(rng, 1, 3)[0] for _ in range(n)],
            "usage": [{"hours": rng.uniform(0, 1, 2).tolist()} for _ in range(n)],
            "group": [("A", ())[i % 2] for i in range(n)],
        }
    return {"rounds": n}


def some_rules():
    return tr.Rules(
        [
            tr.Capacity("a", at_most=0.6),
            tr.Share("b", at_least=0.2, among="A"),
            tr.Budget("hours", at_most=0.7),
        ],
        actions=["a", "b"],
    )


FORMS = {
    "A": form_A,
    "A, sets that change": form_A,
    "B": form_B,
    "arms": form_arms,
    "rules": lambda: tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(2, 3), constraints=some_rules(), slater=0.1, horizon=None
    ),
    "no constraints": lambda: tr.policies.LinUCB(tr.ArmMeans(3)),
    "measured": lambda: form_A(slater=None, horizon=None),
}


@pytest.mark.parametrize("form", FORMS)
def test_decide_many_is_that_many_decides(form):
    rng = np.random.default_rng(7)
    one = FORMS[form]()
    inputs = batch_inputs("A" if form == "measured" else form, rng, 40)
    # Something to estimate from first, so that the estimates matter.
    for i in range(10):
        start = {name: value[i] for name, value in inputs.items() if name != "rounds"}
        decision = one.decide(**start)
        one.learn(decision, 0.3, None if one.hooks.cost_model() is None else [0.1] * one.hooks.n_constraints)
    other = one.copy()
    many = one.decide_many(**inputs)
    singles = [
        other.decide(**{name: value[i] for name, value in inputs.items() if name != "rounds"})
        for i in range(40)
    ]
    assert [(d.action, d.row, d.number) for d in many] == [(d.action, d.row, d.number) for d in singles]
    for a, b in zip(many, singles):
        np.testing.assert_array_equal(a.explain().values, b.explain().values)
    assert_same_state(one.hooks.state(), other.hooks.state())


def test_decide_many_is_all_or_nothing():
    rng = np.random.default_rng(8)
    policy = form_A(slater=None)
    policy.decide(unit_rows(rng, 3, 4), rng.uniform(-1, 1, (3, 2)))
    before = policy.hooks.state()
    features, costs = rng.uniform(-0.5, 0.5, (6, 3, 4)), rng.uniform(-1, 1, (6, 3, 2))
    for name, spoilt, message in (
        ("costs", (5, 2, 1), r"round 5 of decide_many: costs\[2, 1\] must lie in \[-1, 1\], but got 3"),
        (
            "features",
            (4, 1, 0),
            r"round 4 of decide_many: features\[1\] must have a Euclidean norm of at most 1",
        ),
    ):
        bad = {"features": features.copy(), "costs": costs.copy()}
        bad[name][spoilt] = 3.0
        with pytest.raises(tr.InvalidInput, match=message):
            policy.decide_many(**bad)
        assert_same_state(before, policy.hooks.state())
    with pytest.raises(tr.InvalidInput, match=r"their lengths differ: \{'features': 6, 'costs': 5\}"):
        policy.decide_many(features, costs[:5])
    assert_same_state(before, policy.hooks.state())
    assert policy.decide_many(features[:0], costs[:0]) == []


def test_rows_at_the_edge_of_the_norm_limit_are_judged_alike_everywhere():
    """The kernel's sum and NumPy's round differently: whichever counts, a batch must not stop half way."""
    rng = np.random.default_rng(9)
    edge = unit_rows(rng, 400, 7)
    edge *= np.sqrt(kernels.NORM_LIMIT / np.einsum("ij,ij->i", edge, edge))[:, None]
    policy = tr.policies.LinUCB(tr.Ridge(7))
    seen = set()
    for x in edge:
        accepted = kernels.rows_are_valid(x[None])
        made = policy.rounds
        batch = [x[None] * 0.5, x[None]]
        if accepted:
            policy.decide_many(batch)
            assert policy.rounds == made + 2
        else:
            with pytest.raises(tr.InvalidInput, match=r"round 1 of decide_many: features\[0\] must have"):
                policy.decide_many(batch)
            assert policy.rounds == made
        seen.add(accepted)
    assert seen == {True, False}


@pytest.mark.parametrize("form", FORMS)
def test_a_copy_is_independent(form):
    rng = np.random.default_rng(10)
    policy = FORMS[form]()
    inputs = batch_inputs("A" if form == "measured" else form, rng, 6)
    decisions = policy.decide_many(**inputs)
    twin = policy.copy()
    assert_same_state(policy.hooks.state(), twin.hooks.state())
    before = policy.hooks.state()
    twin.decide_many(**inputs)
    twin.learn(decisions[0].number, 1.0)
    assert_same_state(before, policy.hooks.state())
    with pytest.raises(tr.InvalidInput, match="decision 1 was made by another policy"):
        twin.learn(decisions[1], 1.0)
    policy.learn(decisions[1], 1.0)


def test_estimators_given_to_a_policy_are_copied():
    model = tr.Ridge(2)
    policy = tr.PessimisticOptimistic(reward=model, constraints=0)
    policy.learn(policy.decide(np.eye(2)), 1.0)
    assert model.n_learnt == 0
    policy.hooks.reward_model().learn([1.0, 0.0], 5.0)
    assert policy.hooks.reward_model().n_learnt == 1


def test_warm_start():
    """A policy with a pre-taught model chooses like one that has learnt the same outcomes itself."""
    rng = np.random.default_rng(11)
    taught, cost = tr.Ridge(3, bonus=0.1), tr.Ridge(3, bonus=0.1, n_outputs=2)
    for x in unit_rows(rng, 50, 3):
        taught.learn(x, float(x[0]))
        cost.learn(x, [x[1], -x[2]])
    warm = tr.PessimisticOptimistic(reward=taught, cost=cost, constraints=2, slater=0.2, horizon=100)
    assert warm.hooks.reward_model().n_learnt == warm.hooks.cost_model().n_learnt == 50
    phi = unit_rows(rng, 4, 3)
    explanation = warm.decide(phi, phi).explain()
    np.testing.assert_allclose(
        explanation.rewards,
        np.minimum(1, taught.means(phi) + taught.radius(100) * taught.widths(phi)),
        atol=1e-12,
    )
    low = cost.means(phi) - cost.radius(100) * cost.widths(phi)[:, None]
    np.testing.assert_allclose(explanation.costs, np.clip(low, -1, 1), atol=1e-12)
    with pytest.raises(tr.InvalidInput, match="has learnt 2 quantities can't go on with 1"):
        tr.PessimisticOptimistic(reward=taught, cost=cost, constraints=1, slater=0.2, horizon=100)


# Proposals


@pytest.mark.parametrize("form", FORMS)
def test_a_proposal_is_the_next_decision_and_changes_nothing(form):
    rng = np.random.default_rng(15)
    policy = FORMS[form]()
    inputs = batch_inputs("A" if form == "measured" else form, rng, 20)
    for i in range(20):
        now = {name: value[i] for name, value in inputs.items() if name != "rounds"}
        before = policy.hooks.state()
        proposal = policy.propose(**now)
        assert_same_state(before, policy.hooks.state())
        decision = policy.decide(**now)
        assert (proposal.action, proposal.row) == (decision.action, decision.row)
        assert str(proposal.explain()) == str(decision.explain())
        with pytest.raises(tr.InvalidInput, match="decision was proposed, not made"):
            policy.learn(proposal, 1.0)
        policy.learn(
            decision, 0.5, None if policy.hooks.cost_model() is None else [0.1] * policy.hooks.n_constraints
        )


# Explanations


@pytest.mark.parametrize("K", [0, 1, 3, 18])
def test_an_explanation_adds_up(K):
    rng = np.random.default_rng(K)
    policy = form_A(K=K)
    for _ in range(25):
        queue = policy.queue
        W = rng.uniform(-1, 1, (5, K))
        decision = policy.decide(unit_rows(rng, 5, 4), W)
        told = decision.explain()
        np.testing.assert_allclose(told.values, told.rewards - told.penalties.sum(axis=1), atol=1e-12)
        np.testing.assert_array_equal(told.queue, queue)
        np.testing.assert_array_equal(told.costs, W)
        assert told.round == policy.rounds
        assert (
            told.row
            == decision.row
            == int(np.argmax(told.values >= told.values.max() - 1e-12 * abs(told.values.max())))
        )
        if K:
            np.testing.assert_allclose(told.penalties, W * queue / told.V, atol=1e-12)
            schedules = (0.3 * K**0.25 * math.sqrt(2 * told.round / 3), K**0.75 * math.sqrt(6 / told.round))
            assert (told.V, told.epsilon) == pytest.approx(schedules)
        for j, row in enumerate(told.rows()):
            assert row["value"] == pytest.approx(row["reward"] - sum(row["penalties"].values()))
            assert row["chosen"] == (j == decision.row)
    lines = str(told).splitlines()
    assert len(lines) == 1 + 5 + 1
    assert [line.startswith("→") for line in lines].index(True) == 1 + decision.row
    assert max(map(len, lines)) <= 132
    assert len({len(line) for line in lines[:-1]}) == 1
    assert ("more penalties" in lines[0]) == (K > 6)
    assert "-0.0000" not in str(told)


def test_an_explanation_speaks_the_words_of_the_rules():
    rules = some_rules()
    policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=rules, slater=0.1, horizon=100)
    policy.decide(usage={"hours": [0.2, 0.9]}, group="A")
    told = policy.decide(usage={"hours": [0.2, 0.9]}, group="A").explain()
    assert told.actions == ("a", "b")
    assert told.constraints == rules.names
    text = str(told)
    for name in rules.names:
        assert f"penalty {name}" in text
    assert told.rows()[1]["action"] == "b"
    assert set(told.rows()[0]["penalties"]) == set(rules.names)
    assert "-0.0000" not in str(policy.copy().decide(usage={"hours": 0.0}, group=()).explain())


def test_repr():
    assert (
        repr(form_A())
        == "PessimisticOptimistic(reward=Ridge(4, bonus=1, m=1, ridge=1), constraints=2, slater=0.3, horizon=500)"
    )
    assert "V=Power(1, 0.5)" in repr(form_arms())
    assert repr(form_A().decide(np.eye(4), np.zeros((4, 2)))) == (
        "Decision(action=0, probability=1, row=0, number=0)"
    )


# Rules, groups, usage


def test_rules_stand_in_for_the_cost_matrix():
    rng = np.random.default_rng(12)
    rules = some_rules()
    by_words, by_matrix = (
        tr.PessimisticOptimistic(reward=tr.DisjointRidge(2, 3), constraints=rules, slater=0.1, horizon=100)
        for _ in range(2)
    )
    for i in range(40):
        x, usage, group = unit_rows(rng, 1, 3)[0], {"hours": rng.uniform(0, 1, 2)}, ("A", "B", ())[i % 3]
        a = by_words.decide(x, usage=usage, group=group)
        b = by_matrix.decide(x, rules.costs(usage=usage, group=group))
        assert a.action == b.action
        reward = float(rng.random())
        by_words.learn(a, reward)
        by_matrix.learn(b, reward)
    np.testing.assert_array_equal(by_words.queue, by_matrix.queue)
    np.testing.assert_array_equal(by_words.totals, by_matrix.totals)


@pytest.mark.parametrize("group", ["A", ["A"], {"A", "C"}, ("C", "A"), iter(["A", "C"])])
def test_the_group_of_a_pending_decision_is_kept(group):
    """A rule for a group, seen after acting: the group named in decide counts in learn, in whatever form it came."""
    rules = tr.Rules([tr.Budget("hours", at_most=0.4, seen="after", among="A")], actions=["a", "b"])
    policy = tr.PessimisticOptimistic(
        reward=tr.ArmMeans(2), cost=tr.ArmMeans(2), constraints=rules, slater=0.1, horizon=100
    )
    inside, outside = policy.decide(group=group), policy.decide(group="B")
    policy.learn(inside, 1.0, usage={"hours": 0.9})
    np.testing.assert_allclose(policy.totals, [0.5])
    policy.learn(outside, 1.0, usage={"hours": 0.9})
    np.testing.assert_allclose(policy.totals, [0.5])


def test_mixed_rules_take_the_known_columns_alone():
    rules = tr.Rules(
        [tr.Budget("hours", at_most=0.4, seen="after"), tr.Capacity("a", at_most=0.5)], actions=["a", "b"]
    )
    policies = [
        tr.PessimisticOptimistic(
            reward=tr.ArmMeans(2), cost=tr.ArmMeans(2), constraints=rules, slater=0.1, horizon=50
        )
        for _ in range(3)
    ]
    told = [
        policies[0].decide().explain(),
        policies[1].decide(costs=[[0.5], [-0.5]]).explain(),
        policies[2].decide(costs=[[99.0, 0.5], [math.nan, -0.5]]).explain(),
    ]
    for one in told:
        np.testing.assert_array_equal(one.costs, [[-0.4, 0.5], [-0.4, -0.5]])
    with pytest.raises(tr.InvalidInput, match=r"costs\[1, 0\] must lie in \[-1, 1\], but got -2"):
        policies[0].decide(costs=[[0.5], [-2.0]])
    with pytest.raises(tr.InvalidInput, match=r"costs\[1, 1\] must lie in \[-1, 1\], but got -2"):
        policies[0].decide(costs=[[0.0, 0.5], [0.0, -2.0]])


# Sleeping actions


def test_sleeping_arms():
    rng = np.random.default_rng(13)
    policy = form_arms(J=5)
    counts = np.zeros(5)
    for _ in range(60):
        awake = rng.permutation(5)[: rng.integers(1, 6)]
        decision = policy.decide(actions=awake)
        assert decision.action == awake[decision.row]
        policy.learn(decision, float(rng.random()), [float(rng.uniform(-1, 1))])
        counts[decision.action] += 1
    np.testing.assert_array_equal(policy.hooks.reward_model().counts, counts)
    np.testing.assert_array_equal(policy.hooks.cost_model().counts, counts)


def test_an_arm_asleep_costs_nothing_to_the_others():
    """With arms 0 and 2 on offer the values are those of arms 0 and 2 among all."""
    policy = form_arms(J=3)
    for arm in (0, 1, 2, 2, 1, 0):
        decision = policy.decide(actions=[arm])
        policy.learn(decision, 0.1 * arm, [0.2 * arm - 0.3])
    whole, part = policy.copy().decide().explain(), policy.decide(actions=[2, 0]).explain()
    np.testing.assert_array_equal(part.values, whole.values[[2, 0]])
    np.testing.assert_array_equal(part.costs, whole.costs[[2, 0]])
    assert part.actions == ("2", "0")


def test_sleeping_actions_of_a_disjoint_model():
    rng = np.random.default_rng(14)
    policy = tr.PessimisticOptimistic(reward=tr.DisjointRidge(4, 2), constraints=1, slater=0.2, horizon=100)
    model = tr.DisjointRidge(4, 2)
    for _ in range(40):
        awake = rng.permutation(4)[: rng.integers(1, 5)].tolist()
        one_x = bool(rng.random() < 0.5)
        x = unit_rows(rng, 1 if one_x else len(awake), 2)
        decision = policy.decide(x[0] if one_x else x, rng.uniform(-1, 1, (len(awake), 1)), actions=awake)
        assert decision.action == awake[decision.row]
        own = np.zeros((4, 2))
        own[awake] = x
        expected = np.minimum(1, model.means(own) + model.radius(100) * model.widths(own))[awake]
        np.testing.assert_allclose(decision.explain().rewards, expected, atol=1e-12)
        policy.learn(decision, 0.5)
        model.learn(x[0] if one_x else x[decision.row], 0.5, action=decision.action)


def test_ids_of_a_shared_model_are_free():
    policy = form_A(d=2, K=1)
    decision = policy.decide(np.eye(2), [[1.0], [-1.0]], actions=[900, 31])
    assert decision.action == (900, 31)[decision.row]


def test_sleeping_actions_by_name():
    policy = tr.PessimisticOptimistic(
        reward=tr.ArmMeans(2), constraints=some_rules(), slater=0.1, horizon=100
    )
    decision = policy.decide(usage={"hours": {"a": 0.1, "b": 0.3}}, group=(), actions=["b"])
    assert (decision.action, decision.row) == (1, 0)
    assert decision.explain().actions == ("b",)
    np.testing.assert_allclose(decision.explain().costs, [[-0.6, 0.0, -0.4]])


def test_a_rule_of_a_group_that_is_seen_after_acting_costs_nothing_outside_its_group():
    rules = tr.Rules(
        [
            tr.Budget("hours", at_most=0.4, seen="after", among="night"),
            tr.Budget("beds", at_most=0.5, seen="after"),
        ],
        actions=["a", "b"],
    )
    policy = tr.PessimisticOptimistic(
        reward=tr.ArmMeans(2), cost=tr.ArmMeans(2), constraints=rules, slater=0.1
    )
    day = policy.decide(group=())
    np.testing.assert_array_equal(day.explain().costs, [[0.0, -0.5], [0.0, -0.5]])
    policy.learn(day, 1.0, usage={"beds": 1.0})
    night = policy.decide(group="night")
    assert (night.explain().costs[:, 0] < 0).all()
    policy.learn(night, 1.0, usage={"beds": 1.0, "hours": 0.9})
    np.testing.assert_allclose(policy.totals, [0.5, 1.0])
    before = policy.hooks.state()
    with pytest.raises(tr.InvalidInput, match="group is missing"):
        policy.decide()
    assert all(np.array_equal(before[name], array) for name, array in policy.hooks.state().items())
