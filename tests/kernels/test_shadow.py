"""One round of the shadow-price policy against the recipe written out in plain Python, matrices inverted afresh."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import tightrope as tr
from tightrope import kernels
from tightrope.kernels import prices, shadow, shadow_learning, shadow_solve, shadow_trace


class SlowModel:
    """Ridge regression in its own units, from all that was ever learnt."""

    def __init__(self, n_actions, p, outputs, centred, prior=0.0):
        self.ridge, self.p, self.outputs, self.centred, self.prior = (
            4.0 if p else 1.0,
            p,
            outputs,
            centred,
            prior,
        )
        blocks = n_actions or 1
        self.learnt = [[] for _ in range(blocks)]
        self.shared, self.outcomes = n_actions is None, []
        self.errors, self.weight = np.zeros(outputs), 0.0
        self.squares, self.sums, self.renewal = np.zeros(p), np.zeros(p), [2] * blocks
        self.per_unit, self.shift = np.zeros((blocks, p)), np.zeros((blocks, p))
        self.looks, self.next_look, self.left = [], 8, np.ones(blocks)

    def block(self, action):
        return 0 if self.shared else action

    def units(self, x, g):
        """1/unit of each feature: the block's, else that of all rows, else as if x were learnt now."""
        n = len(self.outcomes)
        found = self.per_unit[g].copy()
        for i in np.flatnonzero(found == 0.0):
            if self.squares[i] > 0:
                found[i] = math.sqrt(n / self.squares[i])
            elif x[i] != 0:
                found[i] = math.sqrt(n + 1) / abs(x[i])
        return found

    def row(self, x, g):
        x = np.asarray(x, dtype=float)
        return np.append(x * self.units(x, g) + self.shift[g], 2.0 if self.p else 1.0)

    def Sigma(self, g):
        Z = np.array([self.row(x, g) for x, _ in self.learnt[g]]).reshape(-1, self.p + 1)
        return self.ridge * np.eye(self.p + 1) + Z.T @ Z, Z

    def centre(self):
        return np.mean(self.outcomes, axis=0) if self.centred and self.outcomes else np.zeros(self.outputs)

    def parts(self, x, action):
        """Mean, xᵀΣ⁻¹x and λ‖Σ⁻¹x‖² of one row."""
        g, c = self.block(action), self.centre()
        z = self.row(x, g)
        Sigma, Z = self.Sigma(g)
        y = np.array([y - c for _, y in self.learnt[g]]).reshape(-1, self.outputs)
        inverse = np.linalg.inv(Sigma)
        return c + z @ inverse @ (Z.T @ y), z @ inverse @ z, self.ridge * np.sum((inverse @ z) ** 2)

    def predict(self, x, action):
        mean, whole, hidden = self.parts(x, action)
        over = max(1.0, whole)
        whole, hidden = whole / over, hidden / over
        noise, signal = self.noise()
        return mean, np.sqrt(whole * (noise + (hidden / whole) ** 4 * np.maximum(0.0, signal - noise)))

    def drawn(self, action):
        """The part of its deviation that a reward is drawn with."""
        g = self.block(action)
        return (0.75 if len(self.learnt) > 1 else 1.0) * self.left[g] if self.learnt[g] else 1.0

    def look_ahead(self, rows, best):
        """A round is decided, and row `best` is the best by the estimates."""
        if not self.outcomes:
            return
        t = len(self.looks) + 1
        self.looks.append((rows[t % len(rows)], rows[best], self.block(best)))
        if t < self.next_look:
            return
        self.next_look = math.floor(1.25 * t) + 1
        weights = 2.0 * np.arange(1, t + 1) / (t * (t + 1))
        for g in range(len(self.learnt)):
            if not self.learnt[g]:
                continue
            of_all, chosen = np.zeros((2, self.p + 1, self.p + 1))
            for weight, (one, top, its_block) in zip(weights, self.looks):
                z, w = self.row(one, g), self.row(top, g)
                of_all += weight * np.outer(z, z)
                chosen += weight * np.outer(w, w) * (its_block == g)
            now, _ = self.Sigma(g)
            then = now + 10.0 * t * chosen
            left = np.trace(np.linalg.inv(then) @ of_all) / np.trace(np.linalg.inv(now) @ of_all)
            self.left[g] = math.sqrt(left)

    def noise(self):
        n, one = len(self.outcomes), np.ones(self.outputs)
        if n == 0 and not self.prior:
            return one, one
        about = np.mean(self.outcomes, axis=0) if self.centred else 0.0
        squares = np.sum((np.array(self.outcomes).reshape(n, self.outputs) - about) ** 2, axis=0)
        if self.prior:
            noise, signal = self.prior**2 + self.errors, (self.prior**2 + squares) / (n + 1.0)
        else:
            noise, signal = squares / n + self.errors, squares / n
        noise = noise / (self.weight + 1.0)
        # Equal outcomes tell their unit alone; where all are 0, not even that.
        size = np.square(np.mean(self.outcomes, axis=0))
        unit = np.where(size > 0, size, 1.0)
        return np.where(noise > 0, noise, unit), np.where(noise > 0, signal, unit)

    def learn(self, x, action, y):
        y = np.atleast_1d(np.asarray(y, dtype=float))
        x, g, n = np.asarray(x, dtype=float), self.block(action), len(self.outcomes) + 1
        mean, _, _ = self.parts(x, action)
        self.squares += x**2
        self.sums += x
        fresh = (self.per_unit[g] == 0.0) & (x != 0.0)
        self.per_unit[g, fresh] = np.sqrt(n / self.squares[fresh])
        _, h, _ = self.parts(x, action)
        if self.outcomes or not self.centred:
            weight = math.sqrt(2.0 * h / (1.0 + h))
            self.weight += weight
            self.errors += weight * (y - mean) ** 2 / (1.0 + h)
        self.learnt[g].append((x, y))
        self.outcomes.append(y)
        if len(self.learnt[g]) >= self.renewal[g]:
            self.renewal[g] = math.floor(1.5 * len(self.learnt[g])) + 1
            known = self.per_unit[g] > 0.0
            mean, square = self.sums / n, self.squares / n
            variance = square - mean**2
            scale = np.sqrt(np.where(variance > 1e-12 * square, variance, square)[known])
            self.per_unit[g, known], self.shift[g, known] = 1.0 / scale, -mean[known] / scale


class SlowShadowPrice:
    """The recipe, step by step, where every solve is finished in the round that it starts in."""

    def __init__(
        self,
        J,
        p,
        K,
        late=(),
        caution=3.0,
        explore=1.0,
        memory=2048,
        guard=False,
        seed=0,
        shared=True,
        least_chance=0.0,
    ):
        self.least_chance = least_chance
        self.K, self.late, self.caution, self.explore, self.guard, self.seed = (
            K,
            list(late),
            caution,
            explore,
            guard,
            seed,
        )
        self.reward = SlowModel(None if shared else J, p, 1, True)
        self.cost = SlowModel(None if shared else J, p, len(self.late), False) if self.late else None
        self.t, self.rho, self.next_solve = 0, 1.0, 2
        self.S, self.booked, self.A1, self.A2, self.G, self.p, self.q, self.clock = np.zeros((8, K))
        self.rise, self.highest, self.earlier, self.avoidable = np.zeros(K), np.zeros(K), np.zeros(K), 0
        self.widened = self.times_likened = 0
        self.exact = [Fraction(0)] * K
        self.infeasible = np.zeros(K, dtype=bool)
        self.capacity, self.slots, self.entries, self.counts = memory, [], [], []

    def m(self):
        return np.divide(self.A2, self.A1, out=np.zeros(self.K), where=self.A1 > 0)

    def normals(self, n, t, slot):
        found = []
        for i in range((n + 1) // 2):
            u, v = kernels.uniforms(np.uint64(self.seed), 0, t, slot + i)
            r, angle = math.sqrt(-2.0 * math.log(1.0 - u)), 2.0 * math.pi * v
            found += [r * math.cos(angle), r * math.sin(angle)]
        return np.array(found[:n])

    def predict(self, x, W):
        """r̂, s, ŵ, ω of one round."""
        J = len(x)
        seen = [self.reward.predict(x[j], j) for j in range(J)]
        r = np.array([float(a[0]) for a, _ in seen])
        s = np.array([self.reward.drawn(j) * float(b[0]) for j, (_, b) in enumerate(seen)])
        r, s = self.likened(x, r, s)
        s = self.explore * s
        w, omega = np.array(W, dtype=float), np.zeros((J, self.K))
        if self.cost is not None:
            for j in range(J):
                w[j, self.late], omega[j, self.late] = self.cost.predict(x[j], j)
        return r, s, w, omega

    def likened(self, x, r, s):
        """Where known actions stand out, the others are expected to be like them, as far as they are unknown."""
        if self.reward.shared or not self.reward.p:
            return r, s
        off = r - self.reward.centre()[0]
        unknown = np.array(
            [(hidden / whole) ** 2 for _, whole, hidden in map(self.reward.parts, x, range(len(x)))]
        )
        known, signal = 1.0 - unknown, float(np.max(self.reward.noise()))
        if not known @ off**2 > 16.0 * signal * known.sum() or not np.max(np.abs(off)) > 4.0 * math.sqrt(
            signal
        ):
            return r, s
        self.times_likened += 1
        mean, square = known @ off / known.sum(), known @ off**2 / known.sum()
        return r + unknown * (mean - off), np.sqrt(s**2 + unknown * square)

    def solve(self, t):
        live = [i for i, n in enumerate(self.counts) if n]
        rewards, costs, offsets, weights, spread = [], [], [0], [], 0.0
        for i in live:
            x, W = self.entries[i]
            r, s, w, omega = self.predict(x, W)
            n, row, A = self.counts[i], offsets[-1], len(self.late)
            z = self.normals((row + len(r)) * (1 + A), t, 2**31)[row * (1 + A) :].reshape(len(r), 1 + A)
            rewards += list(r + s * z[:, 0])
            w = w.copy()
            w[:, self.late] += 0.7 * self.explore * omega[:, self.late] * z[:, 1:]
            costs += list(w)
            high, low = max(r + s), min(r - s)
            spread += n * (high - low) * (high - low > 1e-12 * max(abs(high), abs(low)))
            offsets.append(row + len(r))
            weights.append(float(n))
        n, m = sum(weights), self.m()
        rho = max(1e-9 * self.rho, spread / n) if spread > 0 else self.rho
        cap = np.divide(20.0 * rho, m, out=np.zeros(self.K), where=m > 0)
        solver, room = np.zeros(prices.solver_size(self.K)), np.zeros(max(np.diff(offsets)))
        prices.begin_prices(solver, self.p, cap, m, np.zeros(self.K), rho)
        prices.advance_prices(
            solver,
            np.array(rewards),
            np.array(costs).ravel(),
            np.array(offsets),
            np.array(weights),
            room,
            np.inf,
        )
        at = prices.solver_parts(self.K)
        p, gradient, squares = (solver[a : a + self.K] for a in (at[0], at[4], at[8]))
        mean = -gradient
        error = np.sqrt(np.maximum(0.0, squares - mean**2) / n)
        self.infeasible = (cap > 0) & (p >= 0.999 * cap) & (n >= 8) & (mean > 2 * error)
        # A ρ that falls by more than a hundred was a guess, and so was what was carried in its units.
        fall = rho / self.rho if rho / self.rho < 0.01 else 1.0
        self.p, self.rho, self.q = p.copy(), rho, np.minimum(self.q * fall / 2, cap)

    def decide(self, x, W):
        t, K = self.t + 1, self.K
        if t >= self.next_solve and self.slots:
            self.solve(t)
            self.next_solve = 2 * t
        r, s, w, omega = self.predict(x, W)
        known = np.array([k not in self.late for k in range(K)])
        square = w**2 + omega**2
        self.A2 += square.mean(axis=0)
        self.A1 += np.sqrt(square).mean(axis=0)
        self.G[known] += square.mean(axis=0)[known]
        m, T = self.m(), self.S + self.booked
        lam, z, slope, e, target = np.zeros(K), np.zeros(K), np.zeros(K), np.ones(K), np.zeros(K)
        for k in range(K):
            if m[k] == 0:
                continue
            moved = math.sqrt(max(self.G[k], self.A2[k]))
            V = 4.0 * moved * m[k] / self.rho
            b = self.caution * math.sqrt(max(1.0, self.G[k] / self.A2[k])) * math.sqrt(moved * m[k])
            rises = 0.4 * self.caution * max(self.highest[k], self.earlier[k])
            self.widened += rises > b
            b = max(b, rises)
            target[k] = -b
            f = (T[k] + b) / V
            f = min(f, 0.0) if self.infeasible[k] else f
            dg = max(self.G[k], self.A2[k]) - self.clock[k]
            self.clock[k] += dg
            self.q[k] = max(-self.p[k], self.q[k] + f * dg / (64.0 * moved * m[k]))
            self.q[k] = min(self.q[k], 0.0) if self.infeasible[k] else self.q[k]
            lam[k] = max(0.0, self.p[k] + self.q[k] + f)
            z[k] = 0.6 * b
            slope[k] = 0.0 if self.infeasible[k] or b == 0 else self.rho / m[k]
            e[k] = 0.7 * (min(1.0, max(0.4, abs(T[k]) / b)) if b else 1.0)

        def wall(total, k):
            return 0.5 * z[k] * max(0.0, total / z[k] + 1.0) ** 2

        mean, variance = r - w @ lam, s**2
        for j in range(len(r)):
            for k in range(K):
                if slope[k]:
                    mean[j] -= slope[k] * (wall(T[k] + w[j, k], k) - wall(T[k], k))
                variance[j] += (self.explore * e[k] * lam[k] * omega[j, k]) ** 2
        # An action that leads a known total above zero, where the wall stands, is out while another does not.
        above = (T + w > 1e-12 * z)[:, known]
        stands = (z > 0) & ((slope > 0) | (1e-12 * z >= T))
        low = ~(above & stands[known]).any(axis=1)
        kept = low if low.any() else np.ones(len(r), dtype=bool)
        if self.guard:
            over = [
                [max(0, self.exact[k] + Fraction(w[j, k])) for k in np.flatnonzero(known)]
                for j in range(len(r))
            ]
            excess = np.array([sum(float(o) / m[k] for k, o in enumerate(row)) for row in over])
            safe = np.array([not any(row) for row in over])
            kept = safe if safe.any() else excess <= excess.min()
        value = np.where(kept, mean + np.sqrt(variance) * self.normals(len(r), t, 1), -np.inf)
        row = int(np.flatnonzero(value >= value.max() - 1e-12 * abs(value.max()))[0])
        estimates = np.where(kept, mean, -np.inf)
        best = estimates.max() - 1e-12 * abs(estimates.max())
        self.reward.look_ahead(x, int(np.flatnonzero(estimates >= best)[0]))
        u, v = kernels.uniforms(np.uint64(self.seed), 0, t, 2**31 - 1)
        over = (w + omega > 0) & (T + w + omega > 0)
        sharing = np.flatnonzero(kept & ~over.any(axis=1))
        if u < self.least_chance and len(sharing):
            row = int(sharing[int(v * len(sharing))])
        led = above.any(axis=1)
        self.avoidable += bool(led[row] and not led.all())
        step = w[row] - omega[row]
        counted = (target < T) | (step < 0)
        self.rise = np.where(counted, np.maximum(0.0, self.rise + step), self.rise)
        self.highest = np.maximum(self.rise, self.highest)
        if math.log2(t).is_integer():
            self.earlier, self.highest = self.highest, np.zeros(K)
        for k in np.flatnonzero(known):
            self.exact[k] += Fraction(w[row, k])
            self.S[k] = float(self.exact[k])
        self.booked[~known] += w[row, ~known]
        self.remember(t, x, W)
        self.t, self.lam, self.row, self.x, self.estimate = t, lam, row, x, w[row]
        return row

    def remember(self, t, x, W):
        slot = len(self.slots)
        if slot >= self.capacity:
            u, v = kernels.uniforms(np.uint64(self.seed), 0, t, 0)
            if u * t >= 2.0 * self.capacity:
                return
            slot = math.floor(v * self.capacity)
            self.counts[self.slots[slot]] -= 1
        entry = (np.array(x), np.array(W, dtype=float))
        same = [
            i
            for i, old in enumerate(self.entries)
            if self.counts[i] and all(np.array_equal(a, b) for a, b in zip(old, entry))
        ]
        free = [i for i, n in enumerate(self.counts) if not n]
        number = same[0] if same else free[0] if free else len(self.entries)
        if number == len(self.entries):
            self.entries.append(entry)
            self.counts.append(0)
        elif not same:
            self.entries[number] = entry
        self.counts[number] += 1
        if slot == len(self.slots):
            self.slots.append(number)
        else:
            self.slots[slot] = number

    def learn(self, reward, costs=None):
        if reward and not np.any(self.reward.outcomes):
            # The first reward that is not 0 says what the unit is.
            self.rho, self.p, self.q = (abs(reward) * one for one in (self.rho, self.p, self.q))
        self.reward.learn(self.x[self.row], self.row, reward)
        if self.cost is not None:
            late = self.late
            self.booked[late] -= self.estimate[late]
            self.S[late] += costs
            self.G[late] += np.square(costs)
            self.cost.learn(self.x[self.row], self.row, costs)


def contexts(rng, C, J, p, K, infeasible=False):
    """Rounds that come again, with costs that bind, and true rewards."""
    X = rng.normal(size=(C, J, p))
    r = X @ rng.normal(size=p)
    W = 0.6 * r[:, :, None] + 0.4 * rng.normal(size=(C, J, K)) - 0.15
    if infeasible:
        W[:, :, 0] = np.abs(W[:, :, 0]) + 0.1
    return X, r, W


WORLDS = {
    "before": {},
    "before, arms of their own": {"shared": False},
    "after": {"late": (0, 1)},
    "guard": {"guard": True},
    "infeasible": {"infeasible": True},
    "a small memory": {"memory": 20},
    "no caution": {"caution": 0.0},
    "no exploration": {"explore": 0.0},
    "after, arms of their own": {"late": (0, 1), "shared": False},
    "in stretches": {"stretch": 40},
    "a rare context, arms of their own": {"shared": False, "rare": 37},
    "a least chance": {"least_chance": 0.4},
    "a least chance, after": {"least_chance": 0.4, "late": (0, 1)},
    "a least chance, guard": {"least_chance": 0.4, "guard": True},
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_recipe_written_out(world):
    rest = dict(WORLDS[world])
    stretch, rare = rest.pop("stretch", 0), rest.pop("rare", 0)
    rng = np.random.default_rng(sum(map(ord, world)))
    C, J, p, K, T = 10, 3, 2, 2, 260
    X, r, W = contexts(rng, C, J, p, K, rest.pop("infeasible", False))
    if stretch:
        # Half of the contexts give back, whatever is chosen, the others cost.
        W += np.where(np.arange(C) < C // 2, -0.8, 0.8)[:, None, None]
    if rare:
        # The first context can be told from all others, comes every so many rounds, and earns a hundred times as much.
        X[:, :, 1], r[0] = np.arange(C)[:, None] == 0, [30.0, 60.0, 150.0]
    slow = SlowShadowPrice(J, p, K, **rest)
    late, shared = rest.pop("late", ()), rest.pop("shared", True)

    def model():
        return tr.Ridge(p) if shared else tr.DisjointRidge(J, p)

    policy = tr.ShadowPrice(reward=model(), constraints=K, cost=model() if late else None, **rest)
    for t in range(T):
        c = t // stretch % 2 * (C // 2) + rng.integers(C // 2) if stretch else rng.integers(C)
        if rare:
            c = 0 if t % rare == rare - 1 else rng.integers(1, C)
        decision = policy.decide(X[c]) if late else policy.decide(X[c], W[c])
        row = slow.decide(X[c], np.zeros((J, K)) if late else W[c])
        price = decision.trace[shadow_trace.trace_parts(J, K)[5] :][:K]
        np.testing.assert_allclose(price, slow.lam, rtol=1e-6, atol=1e-6 * slow.rho, err_msg=f"round {t + 1}")
        assert decision.row == row, f"round {t + 1}"
        reward, costs = float(r[c, row] + 0.1 * rng.normal()), W[c, row] + 0.1 * rng.normal(size=K)
        policy.learn(decision, reward, costs if late else None)
        slow.learn(reward, costs if late else None)
    np.testing.assert_allclose(policy.totals, slow.S, atol=1e-9)
    np.testing.assert_array_equal(policy.infeasible, slow.infeasible)
    prices = policy._prices
    for which, name in ((shadow.RISE, "rise"), (shadow.HIGHEST, "highest"), (shadow.EARLIER, "earlier")):
        np.testing.assert_allclose(prices.vector(which), getattr(slow, name), atol=1e-6, err_msg=name)
    assert prices.core[shadow.AVOIDABLE] == slow.avoidable
    assert stretch == 0 or slow.widened > 10
    assert rare == 0 or slow.times_likened > 3
    assert policy.infeasible.any() == (world == "infeasible")
    assert [int(number) for number in policy._memory.slots] == slow.slots


class TestOneFormula:
    def test_no_wall_without_caution(self):
        core = shadow.new_core(1, 1.0, 0.0, 8, False, np.array([True]))
        trace, J = np.zeros(shadow_trace.trace_size(1, 1)), 1
        trace[5 * J] = 0.5
        assert shadow.step(J, np.zeros(1), core, trace, np.uint64(0), -1) == 0
        rules = trace[shadow_trace.trace_parts(J, 1)[5] :]
        assert np.isfinite(trace).all()
        assert rules[4] == rules[5] == 0.0

    def test_a_rule_that_never_costs_has_no_price(self):
        core = shadow.new_core(2, 1.0, 3.0, 8, False, np.array([True, True]))
        trace = np.zeros(shadow_trace.trace_size(1, 2))
        trace[5] = 0.5
        shadow.step(1, np.zeros(2), core, trace, np.uint64(0), -1)
        price = trace[shadow_trace.trace_parts(1, 2)[5] :][:2]
        assert price[0] > 0.0
        assert price[1] == 0.0

    @pytest.mark.parametrize("factor", [1e-6, 1e6])
    def test_a_guessed_unit_is_given_up_for_the_first_cost_that_is_seen(self, factor):
        core = shadow.new_core(1, 1.0, 3.0, 8, False, np.array([False]))
        trace, spreads = np.zeros(shadow_trace.trace_size(1, 1)), np.ones(1)
        shadow.step(1, spreads, core, trace, np.uint64(0), -1)
        shadow_learning.correct_unit(core, 0, factor)
        assert shadow.typical_size(core, 0) == pytest.approx(factor)
        shadow_learning.correct_unit(core, 0, 10.0 * factor)
        assert shadow.typical_size(core, 0) == pytest.approx(factor)

    def test_deadlines_and_samples(self):
        assert shadow_solve.deadline(8.0, 6.0, 100.0, 2) == 8.0
        assert shadow_solve.deadline(64.0, 1e9, 100.0, 2) == 96.0
        rows = shadow_solve.rows_allowed(2048.0, 100.0, 3)
        assert shadow_solve.deadline(2048.0, rows, 100.0, 3) <= 2048 + 1024

    def test_equal_pairs_share_a_fingerprint_and_others_do_not(self):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=1500), rng.normal(size=30)
        mark = shadow.fingerprint(x, y, shadow.MARKS)
        assert shadow.fingerprint(x.copy(), y.copy(), shadow.MARKS) == mark
        for i in (0, 700, 1499):
            other = x.copy()
            other[i] += 1e-6
            assert shadow.fingerprint(other, y, shadow.MARKS) != mark
        assert shadow.fingerprint(y, x, shadow.MARKS) != mark
