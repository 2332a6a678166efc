"""Running totals under any bounded prices: the published rounds, an independent transcription, exactly solved runs."""

import math

import numpy as np
import pytest

from tightrope.errors import InvalidInput
from tightrope.schedules import Power, known_costs
from tightrope_lab import theory
from tightrope_lab.theory.totals import LogTimes, Summed

HALF_ROOT = Power(0.5, 0.5)
OUTGROWS = LogTimes(2.0, HALF_ROOT)


def paper(K, delta):
    V, epsilon = known_costs(K)
    return {"K": K, "delta": delta, "V": Power(delta * V.scale, 0.5), "b": Summed(Power(epsilon.scale, -0.5))}


def outgrowing(K, delta, p=0.0):
    return {"K": K, "delta": delta, "V": HALF_ROOT, "b": OUTGROWS, "price_bound": p}


def ends(q, setting, eta=None):
    if q is None:
        return theory.expected_violation_ends(theory.Steering(**setting, eta=eta))
    return theory.violation_probability_ends(theory.Steering(**setting, eta=eta), q)


class TestRounds:
    # With η in steps of 0.02 from 0.01, as the table was worked out; η is the one that gives the least.
    @pytest.mark.parametrize(
        ("setting", "q", "eta", "published"),
        [
            (paper(1, 0.5), None, 0.71, 589),
            (paper(1, 0.5), 0.01, 0.59, 1_103),
            (paper(1, 0.1), None, 0.71, 15_798),
            (paper(1, 0.1), 0.01, 0.61, 26_272),
            (paper(3, 0.2), None, 0.85, 39_254),
            (paper(3, 0.2), 0.01, 0.87, 41_839),
            (
                {"K": 1, "delta": 0.1, "V": Power(1.0, 0.5), "b": Summed(Power(6.0, -0.5))},
                None,
                0.09,
                6_614_782,
            ),
        ],
    )
    def test_published_to_the_round(self, setting, q, eta, published):
        assert ends(q, setting, eta) == published
        assert 0.99 * published < ends(q, setting) <= published
        assert min(ends(q, setting, e) for e in (eta - 0.02, eta + 0.02)) >= published

    @pytest.mark.parametrize(
        ("setting", "q", "published"),
        [
            (paper(18, 0.00625), None, 3.7e9),
            (outgrowing(1, 0.5), None, 922),
            (outgrowing(1, 0.5), 0.01, 1_100),
            (outgrowing(1, 0.5, 1.0), None, 1_556),
            (outgrowing(1, 0.5, 1.0), 0.01, 1_925),
            (outgrowing(1, 0.1), None, 148_265),
            (outgrowing(1, 0.1), 0.01, 154_924),
            (outgrowing(1, 0.1, 1.0), None, 1.1e6),
            (outgrowing(3, 0.2), None, 59_485),
            (outgrowing(3, 0.2), 0.01, 66_103),
            (outgrowing(3, 0.2, 1.0), None, 139_531),
        ],
    )
    def test_published_or_a_little_earlier(self, setting, q, published):
        # η there was searched more coarsely.
        assert 0.94 * published < ends(q, setting) <= published

    def test_none_that_anyone_could_wait_for(self):
        assert ends(None, outgrowing(18, 0.00625)) > 10**18
        assert ends(None, outgrowing(18, 0.00625, 1.0)) > 10**18

    def test_no_promise_where_the_weight_outgrows_the_buffer(self):
        for b in (Power(2.0, 0.25), Summed(Power(6.0, -0.6)), LogTimes(1.0, Power(1.0, 0.4))):
            setting = {"K": 1, "delta": 0.5, "V": HALF_ROOT, "b": b}
            assert ends(None, setting) is None
            assert ends(0.01, setting) is None
        # As fast, but too low: a constant times V against (1 + p̄)V/δ.
        assert ends(None, {"K": 1, "delta": 0.5, "V": HALF_ROOT, "b": Power(0.9, 0.5)}) is None
        assert ends(None, {"K": 1, "delta": 0.5, "V": HALF_ROOT, "b": Power(1.2, 0.5)}) is not None

    @pytest.mark.parametrize("setting", [paper(1, 0.5), paper(3, 0.2), outgrowing(2, 0.4, 0.5)])
    def test_it_is_the_first_and_it_stays(self, setting):
        end = ends(None, setting)
        around = theory.expected_total_bound(np.array([end - 1, end]), theory.Steering(**setting))
        assert around[0] > 0 >= around[1]
        assert np.all(
            theory.expected_total_bound(np.geomspace(end, 1e12, 200), theory.Steering(**setting)) <= 0
        )
        certain = ends(0.01, setting)
        around = theory.violation_probability_bound(
            np.array([certain - 1, certain]), theory.Steering(**setting)
        )
        assert around[0] > 0.01 >= around[1]
        late = theory.violation_probability_bound(
            np.geomspace(certain, 1e12, 200), theory.Steering(**setting)
        )
        assert np.all(np.diff(late) <= 0)

    def test_better_than_the_route_through_the_queues(self):
        for K, delta in ((1, 0.5), (1, 0.1), (3, 0.2), (18, 0.00625)):
            setting = paper(K, delta)
            queues = theory.violation_ends_schedule(
                theory.Steering(K, delta, setting["V"], theory.Summed(setting["b"].epsilon))
            )
            assert 2.8 * ends(None, setting) < queues


def transcribed(tau, eta, K, delta, V, b, p_bar, B):
    """log G of the theorem, word by word, with the exact b and t₁ found by walking."""
    rho = eta * delta / 2
    nu = B + rho
    zeta = rho / (nu**2 + nu * rho / 3)
    t1 = 1
    while math.sqrt(K) * (b(t1 + 1) - b(t1)) > rho:
        t1 += 1

    def phi(t):
        return (V(t) * (1 + p_bar) + B**2 / 2) / ((1 - eta) * delta)

    def rest(t):
        return 2 / (zeta * rho) * math.exp(zeta * (nu + phi(t)))

    t = tau + 1
    anytime = math.exp(zeta * math.sqrt(K) * b(t)) * (1 + rest(t))
    if t < t1:
        return math.log(anytime)
    start = math.exp(zeta * math.sqrt(K) * b(t1)) * (1 + rest(t1))
    return math.log(min(anytime, (1 - zeta * rho / 2) ** (t - t1) * start + rest(t)))


@pytest.mark.parametrize("tau", [1, 30, 400, 2_000])
@pytest.mark.parametrize(
    ("b", "exact"),
    [
        (Summed(Power(2.0, -0.5)), lambda t: sum(2.0 / math.sqrt(s) for s in range(1, t))),
        (Power(1.5, 0.6), lambda t: 1.5 * t**0.6),
        (LogTimes(0.7, Power(0.5, 0.5)), lambda t: 0.35 * math.sqrt(t) * math.log(1 + t)),
    ],
)
def test_against_a_transcription(tau, b, exact):
    K, delta, eta, p_bar, B = 2, 0.8, 0.6, 0.5, 1.2
    V = Power(0.3, 0.5)
    got = theory.log_moment_bound(tau, theory.Steering(K, delta, V, b, price_bound=p_bar, B=B, eta=eta))
    assert got == pytest.approx(transcribed(tau, eta, K, delta, V, exact, p_bar, B), rel=1e-9)


class TestExactlySolvedRuns:
    """Actions of reward 1 and 0 whose costs are 1 or 0, and 0 or −1, with probability ½ each: δ = ½, and totals lie on a grid."""

    eta = 0.7
    zeta = theory.drift_exponent(drift=0.7 * 0.5 / 2, jump=1 + 0.7 * 0.5 / 2)

    def test_prices_that_jump(self):
        p_bar, n, V, b = 2.0, 1500, HALF_ROOT, Power(0.2, 0.75)
        law = {0.0: 1.0}
        mean, late, moment, excess = (np.empty(n) for _ in range(4))
        for t in range(1, n + 1):
            after = {}
            for S, share in law.items():
                tempted = p_bar * (t // 7 % 2) + (S + b(t)) / V(t) < 1.0
                for w in (1.0, 0.0) if tempted else (0.0, -1.0):
                    after[S + w] = after.get(S + w, 0.0) + share / 2
            law = after
            S, share = np.array(list(law)), np.array(list(law.values()))
            mean[t - 1], late[t - 1], excess[t - 1] = share @ S, share @ (S > 0), share @ np.maximum(0, S)
            moment[t - 1] = share @ np.exp(self.zeta * np.maximum(0, S + b(t + 1)))
        tau = np.arange(1, n + 1)
        setting = {"K": 1, "delta": 0.5, "V": V, "b": b, "price_bound": p_bar}
        assert late[:50].max() > 0.4 > late[-1]
        assert np.all(mean <= theory.expected_total_bound(tau, theory.Steering(**setting)))
        assert np.all(late <= theory.violation_probability_bound(tau, theory.Steering(**setting)))
        assert np.all(excess <= theory.excess_bound(tau, theory.Steering(**setting)))
        assert np.all(
            np.log(moment) <= theory.log_moment_bound(tau, theory.Steering(**setting, eta=self.eta))
        )

    def test_reflected_queues(self):
        n, V, epsilon = 1200, Power(12.0, 0.0), Power(0.125, 0.0)
        law, total = {0.0: 1.0}, 0.0
        mean, moment = np.empty(n), np.empty(n)
        for t in range(n):
            after = {}
            for Q, share in law.items():
                for w in (1.0, 0.0) if V(1) > Q else (0.0, -1.0):
                    total += share * w / 2
                    queue = max(0.0, Q + w + 0.125)
                    after[queue] = after.get(queue, 0.0) + share / 2
            law = after
            mean[t] = total
            moment[t] = np.array(list(law.values())) @ np.exp(self.zeta * np.array(list(law)))
        tau = np.arange(1, n + 1)
        setting = {"K": 1, "delta": 0.5, "V": V, "b": Summed(epsilon)}
        assert mean[:50].max() > 5
        assert np.all(mean <= theory.expected_total_bound(tau, theory.Steering(**setting)))
        assert np.all(
            np.log(moment) <= theory.log_moment_bound(tau, theory.Steering(**setting, eta=self.eta))
        )


class TestBuffers:
    @pytest.mark.parametrize("exponent", [-1.0, -0.7, -0.5, -0.2, 0.0])
    def test_sums_are_bracketed_and_tight(self, exponent):
        from tightrope_lab.theory.totals import _Sum

        shape = _Sum(Power(3.0, exponent))
        exact = np.concatenate([[0.0], np.cumsum(3.0 * np.arange(1.0, 20_000) ** exponent)])
        t = np.arange(1.0, 20_001)
        low, high = shape.low(t), shape.high(t)
        slack = 1e-12 * (1 + exact)
        assert np.all(low <= exact + slack)
        assert np.all(exact <= high + slack)
        assert np.all(high - low < 1e-3)
        assert Summed(Power(3.0, exponent))(20_000) == pytest.approx(exact[-1])

    @pytest.mark.parametrize(
        "b", [Summed(Power(1.0, -0.5)), Power(2.0, 0.7), OUTGROWS, Summed(Power(1.0, -0.2))]
    )
    def test_what_the_proof_takes_from_their_shape(self, b):
        from tightrope_lab.theory.totals import _buffer

        shape = _buffer(b)
        t = np.arange(1.0, 5_000)
        assert np.all(np.diff(shape.low(t) / t**shape.exponent) >= -1e-12)
        step = shape.step(t)
        assert np.all(shape.high(t + 1) - shape.low(t) <= step + 1e-6)
        assert np.all(np.diff(step[int(shape.concave_from) - 1 :]) <= 1e-12)
        far = np.geomspace(1e5, 1e12, 50)
        assert np.all(np.diff(shape.step(far)) < 0)

    def test_a_slow_logarithm_is_concave_where_it_is_said_to_be(self):
        from tightrope_lab.theory.totals import _buffer

        shape = _buffer(LogTimes(1.0, Power(1.0, 0.8)))
        t = np.arange(shape.concave_from, 4 * shape.concave_from)
        assert np.all(np.diff(shape.step(t)) <= 0)


def test_shapes_and_no_constraints():
    tau = np.array([[5, 10], [2_000, 4_000]])
    bound = theory.expected_total_bound(tau, theory.Steering(**outgrowing(2, 0.5)))
    assert bound.shape == tau.shape
    assert theory.expected_total_bound(10, theory.Steering(**outgrowing(2, 0.5))) == bound[0, 1]
    assert isinstance(theory.violation_probability_bound(10, theory.Steering(**outgrowing(2, 0.5))), float)
    none = outgrowing(0, 0.5)
    assert (
        theory.expected_total_bound(9, theory.Steering(**none))
        == theory.violation_probability_bound(9, theory.Steering(**none))
        == 0
    )
    assert ends(None, none) == ends(0.5, none) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"delta": 0.0}, "delta must"),
        ({"K": -1}, "K must"),
        ({"V": Power(1.0, -0.5)}, "V must be a Power"),
        ({"b": Power(1.0, -0.5)}, "b must be a Power"),
        ({"b": Power(1.0, 1.0)}, "the exponent of b must be below 1"),
        ({"b": 3.0}, "b must be a Power"),
        ({"eta": 1.0}, "eta must lie in"),
        ({"eta": 0.0}, "eta must"),
        ({"price_bound": -1.0}, "price_bound must"),
        ({"B": 1.5}, "B must"),
    ],
)
def test_bad_arguments(changes, message):
    with pytest.raises(InvalidInput, match=message):
        theory.expected_total_bound(5, theory.Steering(**{**outgrowing(1, 0.5), **changes}))


def test_bad_buffers_and_probabilities():
    with pytest.raises(InvalidInput, match="epsilon must be a Power"):
        Summed(Power(1.0, 0.5))
    with pytest.raises(InvalidInput, match="exponent of V must be below 1"):
        LogTimes(1.0, Power(1.0, 1.0))
    with pytest.raises(InvalidInput, match="factor must"):
        LogTimes(0.0, HALF_ROOT)
    for q in (0.0, 1.0):
        with pytest.raises(InvalidInput, match="q must"):
            ends(q, outgrowing(1, 0.5))
    with pytest.raises(InvalidInput, match="tau must"):
        theory.expected_total_bound(0, theory.Steering(**outgrowing(1, 0.5)))
