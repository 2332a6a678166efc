"""The rounds that prices are made from: each distinct one once, catalogues by reference, files that hold them once."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import tightrope as tr
from kernel_tools import same
from shadow_tools import equal_states
from tightrope.policies.shadow_price.memory import Remembered, RoundMemory, pack, unpack


def entry(i, J=2):
    return Remembered(np.arange(J), np.full((J, 2), float(i)), None, np.full((J, 1), -float(i)))


class TestDistinctRounds:
    @given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), max_size=60))
    def test_counts_and_numbers(self, events):
        """As a list of slots would have it: numbers are given lowest free first."""
        memory, slots, numbers = RoundMemory(), [], {}
        for round_, place in events:
            slot = min(place, len(slots))
            if slot < len(slots):
                old = slots[slot]
                slots[slot] = None
                if old not in slots:
                    del numbers[old]
                slots[slot] = round_
            else:
                slots.append(round_)
            if round_ not in numbers:
                numbers[round_] = min(set(range(len(numbers) + 1)) - set(numbers.values()))
            one = entry(round_)
            memory.remember(slot, one, one.mark())
            assert memory.slots == [numbers[r] for r in slots]
            entries, weights = memory.sample(np.inf)
            expected = sorted(numbers, key=numbers.get)
            assert [int(e.phi[0, 0]) for e in entries] == expected
            assert weights.tolist() == [slots.count(r) for r in expected]
        again, _ = RoundMemory.restore(memory.arrays()[0])
        assert equal_states(again.arrays()[0], memory.arrays()[0])

    def test_equal_marks_do_not_make_equal_rounds(self):
        memory = RoundMemory()
        memory.remember(0, entry(1), 0.5)
        memory.remember(1, entry(2), 0.5)
        memory.remember(2, entry(1), 0.5)
        assert memory.slots == [0, 1, 0]

    def test_samples_have_as_many_rows_as_may(self):
        memory = RoundMemory()
        for i in range(5):
            memory.remember(i, entry(i, J=3), float(i))
        assert [len(memory.sample(n)[0]) for n in (0, 3, 4, 100)] == [1, 1, 2, 5]

    def test_restating_changes_the_costs_where_rules_are_in_force(self):
        memory = RoundMemory()
        one = Remembered(np.arange(1), None, None, np.zeros((1, 2)), np.array([True, False]))
        memory.remember(0, one, one.mark())
        memory.remember(1, one._replace(force=None), one.mark())
        memory.restate(np.array([0.5, 0.25]))
        same(memory.entries[0].W, [[0.5, 0.0]])
        same(memory.entries[1].W, [[0.5, 0.25]])

    def test_slots_that_name_no_round_are_refused(self):
        memory = RoundMemory()
        memory.remember(0, entry(1), 0.5)
        with pytest.raises(ValueError, match="memory/slots"):
            RoundMemory.restore({**memory.arrays()[0], "slots": np.array([3])})


def test_packed_rounds_share_their_arrays():
    table = np.ones((5, 3))
    rounds = [Remembered(np.arange(5), table, table, np.full((5, 2), i), None, True) for i in range(4)]
    arrays = pack(rounds)
    assert arrays["tables"].size == table.size
    for one, other in zip(unpack(arrays), rounds):
        assert one.phi is one.psi
        assert one.catalogue
        for part in ("ids", "phi", "W"):
            same(getattr(one, part), getattr(other, part))


class TestCatalogue:
    def make(self, J=1500, d=4):
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(J, d))
        return tr.policies.Catalogue(rows / np.linalg.norm(rows, axis=1).max()), rng

    def costs(self, rng, J=1500):
        usage = scipy.sparse.random_array((J, 2), density=0.4, rng=rng, format="csr")
        return tr.policies.SparseCosts(usage, limits=[0.2, 0.2])

    def test_the_memory_keeps_ids_and_costs_and_the_catalogue_by_reference(self, tmp_path):
        catalogue, rng = self.make()
        policy = tr.ShadowPrice(reward=tr.Ridge(4), constraints=2)
        for _ in range(10):
            decision = policy.decide(catalogue, self.costs(rng))
            policy.learn(decision, 1.0)
        assert all(entry.phi is catalogue.features for entry in policy._memory.entries)
        # In the middle of a solve, whose sample holds the same rounds.
        assert policy._prices.solve is not None
        assert policy.hooks.state()["memory/tables"].size == catalogue.features.size
        policy.save(tmp_path / "policy")
        numbers = 10 * 1500 * (2 + 1) + catalogue.features.size + 10 * 1500 * (2 + 1)
        assert (tmp_path / "policy").stat().st_size < 8 * numbers + 20_000

    def test_a_restored_policy_knows_the_same_catalogue_again(self, tmp_path):
        catalogue, rng = self.make()
        costs = [self.costs(rng) for _ in range(3)]
        policy = tr.ShadowPrice(reward=tr.Ridge(4), constraints=2)
        for t in range(7):
            policy.learn(policy.decide(catalogue, costs[t % 3]), float(t % 2))
        policy.save(tmp_path / "policy")
        twin = tr.load(tmp_path / "policy")
        for t in range(12):
            chosen = [one.decide(catalogue, costs[t % 3]) for one in (policy, twin)]
            assert chosen[0].action == chosen[1].action
            for one, decision in zip((policy, twin), chosen):
                one.learn(decision, float(t % 2))
        assert twin._memory.slots == policy._memory.slots
        assert len({id(one.phi) for one in twin._memory.entries if one is not None}) == 1
        assert equal_states(policy.hooks.state(), twin.hooks.state())

    def test_a_view_that_is_written_to_later_is_copied(self):
        rng = np.random.default_rng(0)
        buffer = np.zeros((40_000, 4))
        view = buffer[:20_000]
        policy = tr.ShadowPrice(reward=tr.Ridge(4), constraints=1)
        view[:] = rng.normal(size=view.shape)
        policy.decide(view, np.zeros((20_000, 1)))
        first = view.copy()
        view[:] = 0.0
        same(policy._memory.entries[0].phi, first)

    def test_a_catalogue_that_can_not_be_written_to(self):
        catalogue, _ = self.make(J=50)
        frozen = catalogue.features.copy()
        frozen.flags.writeable = False
        policies = [tr.ShadowPrice(reward=tr.Ridge(4), cost=tr.Ridge(4), constraints=2) for _ in range(2)]
        catalogues = tr.policies.Catalogue(frozen), catalogue
        for _ in range(10):
            chosen = [policy.decide(one) for policy, one in zip(policies, catalogues)]
            assert chosen[0].action == chosen[1].action
            for policy, decision in zip(policies, chosen):
                policy.learn(decision, 1.0, [0.1, -0.1])
        assert len(policies[0]._memory.entries) == 1
        assert policies[0]._memory.entries[0].phi is frozen

    def test_probabilities_of_more_actions_than_are_stated_are_refused(self):
        catalogue, rng = self.make()
        policy = tr.ShadowPrice(reward=tr.Ridge(4), constraints=2)
        decision = policy.decide(catalogue, self.costs(rng))
        with pytest.raises(tr.InvalidInput, match="up to 1024 actions on offer, but there are 1500"):
            decision.probabilities  # noqa: B018
        assert np.isnan(decision.explain().probabilities).all()
        assert np.isnan(policy.propose(catalogue, self.costs(rng)).explain().probabilities).all()

    def test_sparse_costs_are_those_of_the_dense_array(self):
        catalogue, rng = self.make(J=60)
        sparse, dense = (tr.ShadowPrice(reward=tr.Ridge(4), constraints=2) for _ in range(2))
        for _ in range(40):
            costs = self.costs(rng, J=60)
            W = np.array([costs.row(j) for j in range(60)])
            chosen = sparse.decide(catalogue, costs), dense.decide(catalogue.features, W)
            assert chosen[0].action == chosen[1].action
            sparse.learn(chosen[0], 0.5)
            dense.learn(chosen[1], 0.5)
        same(sparse.totals, dense.totals)
        with pytest.raises(tr.InvalidInput, match="takes only features and costs"):
            sparse.decide(catalogue, self.costs(rng, J=60), actions=[0])
