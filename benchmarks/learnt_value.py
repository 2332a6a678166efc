"""Does the interval that `tightrope init` tells cover what it claims to estimate? On worlds whose truth is known.

    python benchmarks/learnt_value.py                                       # coupons and shifts, some minutes
    python benchmarks/learnt_value.py --satimage ../shared/data/satimage/satimage.csv.gz

For each world and seed a table is drawn, `learnt_value` is asked of it, and what it estimates is computed on the whole population:
θ, the average over the folds of what the policies of the folds earn there, with what they use beyond a limit charged at its price
(see `tightrope.starting.learnt_value`). The same for the best fixed mix. "plain" is the optimum of the world that is fitted to all
rows of the table: what `tightrope oracle` says of it.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import astuple
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tightrope import Budget, Capacity, Rules, lp
from tightrope.starting.learnt_value import Learnt, Rows, learnt_value

ROOT = Path(__file__).parents[1]


class World(NamedTuple):
    """A population with its true means, and tables drawn from it."""

    name: str
    rules: Rules
    x: np.ndarray  # (m, p)
    weights: np.ndarray
    rewards: np.ndarray  # (m, J)
    costs: np.ndarray  # (m, J, K)
    draw: Callable[[int], Rows]
    learns_costs: bool  # whether costs are known of what was done alone

    def population(self) -> Rows:
        """As a policy sees it."""
        known = np.full(self.costs.shape, np.nan) if self.learns_costs else self.costs
        return Rows(self.x, None, self.rewards, None, known, np.ones((len(self.x), self.costs.shape[2])))

    def value(self, pi: np.ndarray, prices: np.ndarray) -> float:
        """What π earns in the population, its costs charged at prices."""
        charged = self.rewards - self.costs @ prices
        return float(self.weights @ (pi * charged).sum(axis=1))

    def best(self) -> float:
        """What the best policy earns that knows all means and keeps the rules."""
        return float(lp.allocation(self.weights, self.rewards, self.costs).value)


class Found(NamedTuple):
    """One table: estimates with intervals beside the truth."""

    value: float
    low: float
    high: float
    truth: float
    mix: float
    mix_low: float
    mix_high: float
    mix_truth: float
    plain: float

    @property
    def covers(self) -> bool:
        return self.low <= self.truth <= self.high

    @property
    def mix_covers(self) -> bool:
        return self.mix_low <= self.mix_truth <= self.mix_high


def ask(world: World, seed: int) -> Found:
    """Draw a table, estimate, and compare."""
    rows, everyone = world.draw(seed), world.population()
    found = learnt_value(rows, world.rules, seed=seed)
    truths = [world.value(one.probabilities(everyone), one.prices) for one in found.learnt]
    mixes = [world.value(np.tile(one.mix, (len(world.x), 1)), one.mix_prices) for one in found.learnt]
    # The optimum of the world that is fitted to all rows.
    whole = Learnt.of(rows, world.rules.cost_range)
    rewards, costs = whole.expected(rows)
    plain = lp.allocation(np.full(len(rows), 1.0 / len(rows)), rewards, costs).value
    policy, mix = astuple(found.policy), astuple(found.mix)
    return Found(*policy, float(np.mean(truths)), *mix, float(np.mean(mixes)), float(plain))


# --- worlds ---


def coupons(rows: int = 600) -> World:
    """The generator of examples/coupons.csv: four coupons drawn by a coin, at most 250 cents per customer."""
    spec = importlib.util.spec_from_file_location("make_coupons", ROOT / "examples" / "make_coupons.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    names = list(made.CENTS)
    cents = np.array([float(made.CENTS[name]) for name in names])
    rules = Rules([Budget("cents", at_most=250.0, range=(0, 1000), seen="after")], actions=names)
    poisson = np.exp(-4.0) * np.cumprod([1.0, *(4.0 / k for k in range(1, 30))])
    people, weights = [], []
    for age in range(18, 80):
        for visits, p in enumerate(poisson):
            member = 0.2 + 0.08 * min(visits, 6)
            for yes, q in ((True, member), (False, 1.0 - member)):
                people.append((age, visits, yes))
                weights.append(p * q / 62)
    chances = np.array([[made.chance(*one, name) for name in names] for one in people])
    costs = np.broadcast_to(rules.costs({"cents": cents}), (len(people), 4, 1))

    def features(people: list[tuple[int, int, bool]]) -> np.ndarray:
        age, visits, member = np.array(people, dtype=float).T
        return np.column_stack([np.ones(len(age)), (age - 48.5) / 17.9, (visits - 4) / 2.0, member])

    def draw(seed: int) -> Rows:
        table = made.rows(rows, seed)
        people = [(one["age"], one["visits"], one["member"] == "yes") for one in table]
        actions = np.array([names.index(one["coupon"]) for one in table])
        bought = np.array([float(one["bought"]) for one in table])
        known = np.full((rows, 4, 1), np.nan)
        logged = rules.logged({"cents": cents[actions]}, [names[j] for j in actions])
        return Rows(features(people), actions, bought, logged, known, np.ones((rows, 1)))

    weights = np.array(weights) / np.sum(weights)
    return World("coupons, 600 rows", rules, features(people), weights, chances, costs, draw, True)


def shifts(rows: int = 1000) -> World:
    """Made up: curved rewards with noise, actions chosen by the context, minutes that differ from person to person, two rules."""
    rng = np.random.default_rng(1)
    names = ["a", "b", "c"]
    rules = Rules(
        [Budget("minutes", at_most=22.0, range=(0, 90), seen="after"), Capacity("c", at_most=0.25)],
        actions=names,
    )

    def means(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rewards = np.column_stack(
            [5.0 + z[:, 0], 6.5 + 2.0 * np.sin(2.0 * z[:, 1]), 5.5 + 2.5 * z[:, 2] * (z[:, 0] > 0)]
        )
        minutes = np.column_stack([10.0 + 4.0 * np.abs(z[:, 1]), 30.0 + 8.0 * z[:, 0], np.full(len(z), 25.0)])
        return rewards, np.clip(minutes, 1.0, 80.0)

    def features(z: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(z)), z])

    everyone = rng.normal(size=(4_000, 3))
    rewards, minutes = means(everyone)
    costs = np.stack([rules.costs({"minutes": m}) for m in minutes])

    def draw(seed: int) -> Rows:
        rng = np.random.default_rng([2, seed])
        at = rng.integers(len(everyone), size=rows)
        z = everyone[at]
        odds = np.exp(0.8 * np.column_stack([z[:, 0], -z[:, 0], 0.5 * z[:, 1]]))
        share = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)
        actions = (rng.random(rows)[:, None] > share).sum(axis=1)
        r, m = means(z)
        took = np.arange(rows), actions
        used = np.clip(m[took] + rng.normal(scale=4.0, size=rows), 0.0, 90.0)
        known = np.stack([rules.costs({"minutes": np.zeros(3)})] * rows)
        known[:, :, 0] = np.nan
        logged = rules.logged({"minutes": used}, [names[j] for j in actions])
        return Rows(features(z), actions, r[took] + rng.normal(size=rows), logged, known, np.ones((rows, 2)))

    class Shifts(World):
        def population(self) -> Rows:
            seen = self.costs.copy()
            seen[:, :, 0] = np.nan
            return Rows(self.x, None, self.rewards, None, seen, np.ones((len(self.x), 2)))

    weights = np.full(len(everyone), 1.0 / len(everyone))
    return Shifts("shifts, 1,000 rows", rules, features(everyone), weights, rewards, costs, draw, True)


def satimage(path: Path, rows: int = 1500) -> World:
    """Land cover by satellite: the right one of six earns 1; actions drawn by a biased coin; one of them at most in 15 %."""
    from tightrope.tables import read_table

    table = read_table(path)
    columns = [name for name in table.names if name not in ("label", "split")]
    right = [str(one) for one in table.whole("label").tolist()]
    names = sorted(set(right))
    rules = Rules([Capacity(names[0], at_most=0.15)], actions=names)
    x = np.column_stack([table.numbers(name) for name in columns])
    x = np.column_stack([np.ones(len(x)), (x - x.mean(axis=0)) / x.std(axis=0)])
    rewards = np.array([[float(one == name) for name in names] for one in right])
    costs = np.broadcast_to(rules.costs(), (len(x), len(names), 1))

    def draw(seed: int) -> Rows:
        rng = np.random.default_rng([3, seed])
        at = rng.integers(len(x), size=rows)
        odds = np.exp(0.3 * x[at, 1:2] * np.linspace(-1.0, 1.0, len(names)))
        share = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)
        actions = np.minimum(len(names) - 1, (rng.random(rows)[:, None] > share).sum(axis=1))
        logged = rules.logged({}, [names[j] for j in actions])
        return Rows(x[at], actions, rewards[at, actions], logged, costs[at], np.ones((rows, 1)))

    weights = np.full(len(x), 1.0 / len(x))
    return World("satimage, 1,500 rows", rules, x, weights, rewards, costs, draw, False)


def _drawn(
    name: str,
    rows: int,
    rules: Rules,
    everyone: np.ndarray,
    means: np.ndarray,
    chances: np.ndarray,
    draws: int,
) -> World:
    """People with known chances of success (m, J), and actions that were taken with known chances (m, J)."""
    names = list(rules.actions)
    x = np.column_stack([np.ones(len(everyone)), everyone])
    costs = np.broadcast_to(rules.costs(), (len(x), len(names), 1))

    def draw(seed: int) -> Rows:
        rng = np.random.default_rng([draws, seed])
        at = rng.integers(len(x), size=rows)
        share = np.cumsum(chances[at], axis=1)
        actions = np.minimum(len(names) - 1, (rng.random(rows)[:, None] > share).sum(axis=1))
        rewards = (rng.random(rows) < means[at, actions]).astype(float)
        logged = rules.logged({}, [names[j] for j in actions])
        return Rows(x[at], actions, rewards, logged, costs[at], np.ones((rows, 1)))

    return World(name, rules, x, np.full(len(x), 1.0 / len(x)), means, costs, draw, False)


def chosen(rows: int = 1000) -> World:
    """Made up: five actions, chosen for those in whom they succeed most often, by columns that the outcome depends on as well."""
    rng = np.random.default_rng(4)
    z = rng.normal(size=(4_000, 4))
    pull = np.column_stack([z[:, 0], z[:, 1], z[:, 2], -z[:, 0] - z[:, 1], np.zeros(len(z))])
    means = 1.0 / (1.0 + np.exp(0.5 - 0.8 * pull - 0.6 * z[:, 3:4] - np.linspace(0.0, 0.4, 5)))
    odds = np.exp(0.7 * pull)
    rules = Rules([Capacity("e", at_most=0.2)], actions=list("abcde"))
    return _drawn(
        "chosen by the context, 1,000 rows",
        rows,
        rules,
        z,
        means,
        odds / odds.sum(axis=1, keepdims=True),
        5,
    )


def rare(rows: int = 1000) -> World:
    """Made up: three actions; the one that is best for most was taken in 2 % of the rows."""
    rng = np.random.default_rng(6)
    z = rng.normal(size=(4_000, 3))
    pull = np.column_stack([0.0 * z[:, 0], z[:, 0], 0.6 + z[:, 1]])
    means = 1.0 / (1.0 + np.exp(0.3 - 0.7 * pull))
    chances = np.tile([0.49, 0.49, 0.02], (len(z), 1))
    rules = Rules([Capacity("c", at_most=0.5)], actions=["a", "b", "c"])
    return _drawn("rare action, 1,000 rows", rows, rules, z, means, chances, 7)


# --- the table ---


def lines(worlds: list[World], seeds: range) -> Iterator[str]:
    head = ["table", "seeds", "θ, mean", "said, mean", "said, from – to", "half the interval", "covers θ"]
    head += ["covers the mix's", "best policy", "plain, from – to"]
    yield f"| {' | '.join(head)} |"
    yield "| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- |"
    for world in worlds:
        found = [ask(world, seed) for seed in seeds]
        said, plain = [one.value for one in found], [one.plain for one in found]
        cells = [
            world.name,
            f"{len(seeds)}",
            f"{np.mean([one.truth for one in found]):.4f}",
            f"{np.mean(said):.4f}",
            f"{min(said):.4f} – {max(said):.4f}",
            f"{np.mean([(one.high - one.low) / 2 for one in found]):.4f}",
            f"{sum(one.covers for one in found)} of {len(seeds)}",
            f"{sum(one.mix_covers for one in found)} of {len(seeds)}",
            f"{world.best():.4f}",
            f"{min(plain):.4f} – {max(plain):.4f}",
        ]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--satimage", type=Path, help="satimage.csv.gz, a table of labelled pixels")
    parser.add_argument("--seeds", type=int, default=20, help="how many tables of each world")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    worlds = [coupons(), shifts(), *([satimage(given.satimage)] if given.satimage else []), chosen(), rare()]
    for line in lines(worlds, range(given.first, given.first + given.seeds)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
