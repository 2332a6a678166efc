"""The outcomes that a model keeps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.kernels import bootstrap
from tightrope.models.outcome_memory import KeptOutcomes, bootstrap_weights


def kept(rule: str = "both", limit: int = 20, seed: int = 3) -> KeptOutcomes:
    return KeptOutcomes(2, 1, limit=limit, rule=rule, seed=seed)


def add(memory: KeptOutcomes, first: int, last: int) -> None:
    for number in range(first, last + 1):
        memory.add([number, -number], number % 3, 10.0 * number, number, float(number))


def chosen(memory: KeptOutcomes) -> list[int]:
    memory.choose()
    memory.take_up()
    return memory.in_force().numbers.tolist()


def test_all_are_kept_up_to_the_limit_with_what_was_seen() -> None:
    memory = kept()
    add(memory, 1, 20)
    assert chosen(memory) == list(range(1, 21))
    features, actions, outcomes, numbers, times = memory.in_force()
    np.testing.assert_array_equal(features, np.column_stack([numbers, -numbers]))
    np.testing.assert_array_equal(actions, numbers % 3)
    np.testing.assert_array_equal(times, numbers)
    np.testing.assert_array_equal(outcomes[:, 0], 10.0 * numbers)


@pytest.mark.parametrize("rule", ["both", "recent", "reservoir"])
def test_which_are_kept_depends_on_the_rule_alone_and_not_on_when_fits_were_made(rule: str) -> None:
    """However often a sample was chosen before, it is the one that a rule picks from everything that ever came."""
    often, once = kept(rule), kept(rule)
    for last in range(30, 301, 30):
        add(often, last - 29, last)
        numbers = chosen(often)
        assert len(often) == 20, "what is not in the sample is forgotten"
    add(once, 1, 300)
    assert chosen(once) == numbers
    newest = {"both": 10, "recent": 20, "reservoir": 0}[rule]
    assert numbers[20 - newest :] == list(range(301 - newest, 301))
    drawn = np.empty(300 - newest)
    bootstrap.priorities(3, np.arange(1, 301 - newest), drawn)
    assert set(numbers[: 20 - newest]) == set((np.argsort(-drawn)[: 20 - newest] + 1).tolist())


def test_the_reservoir_is_an_even_sample() -> None:
    counts = np.zeros(200)
    for seed in range(300):
        memory = kept("reservoir", seed=seed)
        add(memory, 1, 200)
        counts[np.array(chosen(memory)) - 1] += 1
    assert stats.chisquare(counts).pvalue > 1e-3


def test_what_a_fit_was_made_of_stays_until_the_next_takes_its_place() -> None:
    memory = kept()
    add(memory, 1, 20)
    before = chosen(memory)
    add(memory, 21, 60)
    memory.choose()
    following = memory.next().numbers.tolist()
    add(memory, 61, 65)
    assert memory.in_force().numbers.tolist() == before
    assert memory.next().numbers.tolist() == following
    assert set(before) - set(following), "otherwise this shows nothing"
    memory.take_up()
    assert memory.in_force().numbers.tolist() == following
    assert memory.all().numbers.tolist() == [*following, *range(61, 66)]


def test_it_is_restored_from_its_arrays() -> None:
    memory, other = kept(), kept()
    add(memory, 1, 90)
    memory.choose()
    arrays = {name: array.copy() for name, array in memory.arrays().items()}
    other.make_room(arrays)
    for name, array in other.arrays().items():
        array[...] = arrays[name]
    for one in (memory, other):
        add(one, 91, 150)
        one.take_up()
    for name, array in memory.arrays().items():
        np.testing.assert_array_equal(other.arrays()[name], array)


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    arrays = kept().arrays()
    for wrong in (
        {"numbers": np.zeros(3, dtype=np.int64)},
        {"used": np.array([65])},
        {"used": np.array([-1])},
        {"used": np.zeros(2, dtype=np.int64)},
    ):
        with pytest.raises(ValueError, match="kept outcomes must have one length"):
            kept().make_room({**arrays, **wrong})
    with pytest.raises(InvalidInput, match="keep_rule must be one of 'both', 'recent', 'reservoir'"):
        kept("newest")


def test_weights_are_poisson_and_never_change() -> None:
    numbers, worth = np.arange(1, 20_001), np.ones(20_000)
    weights = bootstrap_weights(5, numbers, worth, 7)
    shares = np.bincount(weights.reshape(-1).astype(int), minlength=6)[:6] / weights.size
    np.testing.assert_allclose(shares, stats.poisson.pmf(np.arange(6), 1.0), atol=0.005)
    assert abs(np.corrcoef(weights.T)[np.triu_indices(7, 1)]).max() < 0.03, "members are independent"
    np.testing.assert_array_equal(bootstrap_weights(5, numbers[100:110], worth[:10], 7), weights[100:110])
    np.testing.assert_array_equal(bootstrap_weights(5, numbers[:50], worth[:50], 4), weights[:50, :4])
    assert (bootstrap_weights(6, numbers, worth, 7) != weights).any()
    for number in (1, 2, 77):
        u, v = kernels.uniforms(5, bootstrap.STREAM, number, 1)
        assert weights[number - 1, 2:4].tolist() == stats.poisson.ppf([u, v], 1.0).tolist()


def test_what_is_worth_less_drops_out_for_good() -> None:
    numbers = np.arange(1, 5001)
    before = bootstrap_weights(5, numbers, np.ones(5000), 4)
    for worth in (0.7, 0.3, 0.01):
        after = bootstrap_weights(5, numbers, np.full(5000, worth), 4)
        assert (after <= before).all()
        assert abs(after.mean() - worth) < 0.02
        before = after
    alone = bootstrap_weights(5, numbers, np.full(5000, 0.3), 1)
    assert set(alone.reshape(-1)) == {0.0, 1.0}
    assert abs(alone.mean() - 0.3) < 0.02
    assert (bootstrap_weights(5, numbers, np.ones(5000), 1) == 1.0).all()
