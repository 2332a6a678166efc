"""The studies: the numbers that independent runs give, and a report that holds together."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser

import pytest
from tightrope.studies.ward import balanced_shares

import tightrope as tr
from tightrope.environments import bandit
from tightrope.studies import STUDIES, reproduce
from tightrope.studies.bounds import growth_exponent

T, RUNS = 10_000, 200
PAPER = {"V": tr.Power(1.0, 0.5), "epsilon": tr.Power(6.0, -0.5)}
THEORY = {"V": tr.Power(0.1 * math.sqrt(2 / 3), 0.5), "epsilon": tr.Power(math.sqrt(6), -0.5)}


def arms(cost_range, **schedules):
    return tr.PessimisticOptimistic(
        reward=tr.ArmMeans(4), cost=tr.ArmMeans(4), constraints=1, cost_range=cost_range, **schedules
    )


def test_threshold_one_half():
    run = tr.simulate(arms((-0.5, 0.5), **PAPER), bandit(0.5), rounds=T, replications=RUNS)
    assert 50 < run.regret.mean[-1] < 72
    assert run.violation.mean.max() < 1


@pytest.mark.parametrize(
    ("cost_range", "schedules", "regret", "largest_violation"),
    [
        ((-0.1, 0.9), THEORY, 339, 28),
        ((-0.1, 0.9), PAPER, 1495, 40),
        ((-1.0, 1.0), THEORY, -875, 357),
        ((-1.0, 1.0), PAPER, 347, 6),
    ],
)
def test_the_clip_matters(cost_range, schedules, regret, largest_violation):
    """Independent runs, 200 each, standard error about 10: four of their and our standard errors apart at most."""
    run = tr.simulate(arms(cost_range, **schedules), bandit(0.1), rounds=T, replications=RUNS)
    assert run.regret.mean[-1] == pytest.approx(regret, abs=4 * math.hypot(10, 10))
    assert run.violation.mean.max() == pytest.approx(largest_violation, abs=0.1 * abs(regret) ** 0.9 + 3)


@pytest.mark.parametrize(("threshold", "regret"), [(0.5, 1874), (0.1, 2355)])
def test_opb(threshold, regret):
    """The regret that was noted is that of p = 1/T² with T = 10⁵; with T = 10⁴ it is 8 % and 2 % lower."""
    settings = {"safe_cost": -threshold, "cost_range": (-threshold, 1 - threshold)}
    noted = tr.simulate(
        tr.OPB(4, horizon=100_000, **settings), bandit(threshold), rounds=T, replications=RUNS
    )
    assert noted.regret.mean[-1] == pytest.approx(regret, abs=20)
    own = tr.simulate(tr.OPB(4, horizon=T, **settings), bandit(threshold), rounds=T, replications=RUNS)
    assert own.regret.mean[-1] < noted.regret.mean[-1]
    assert own.violation.mean.max() == 0


def test_hospital_with_the_papers_settings():
    env = tr.environments.hospital()
    policy = tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(6, 10, m=5.7),
        constraints=18,
        V=tr.Power(4.0, 0.5),
        epsilon=tr.Power(1.0, -0.5),
        horizon=T,
    )
    run = tr.simulate(policy, env, rounds=T, replications=10)
    assert run.violation.mean[-1] == 0
    kinds = (range(6), range(6, 12), range(12, 18))
    assert [run.last_violated(kind).mean for kind in kinds] == [57, 121, 85]


def test_balanced_shares_keep_the_largest_distance_from_every_rule():
    env = tr.environments.hospital()
    shares = balanced_shares(env)
    assert shares.sum() == pytest.approx(1)
    assert (shares @ env.costs[0]).max() == pytest.approx(-0.00625, abs=1e-9)


def test_growth_exponent_of_a_square_root():
    run = tr.simulate(tr.Uniform(4), bandit(0.5), rounds=1000)
    flat = run.with_optimum(0.0)
    assert growth_exponent(flat) is None
    assert growth_exponent(run) == pytest.approx(1.0, abs=0.1)


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.headings, self.sources, self.tables = [], [], 0

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.sources += [found[a] for a in ("src", "href", "xlink:href") if a in found]
        self.tables += tag == "table"


def test_all_studies_give_one_report(tmp_path):
    lines = []
    page = reproduce("all", rounds=600, replications=3, seed=4, out=tmp_path, tell=lines.append)
    assert page == tmp_path / "index.html"
    text = page.read_text(encoding="utf-8")
    parsed = Page()
    parsed.feed(text)
    assert parsed.tables >= 8
    assert not [s for s in parsed.sources if s.startswith(("http", "//"))]
    for study in STUDIES:
        assert f"tightrope reproduce {study}" in text
        assert any(line.startswith(f"{study}: ") for line in lines)
    assert len(list(tmp_path.glob("*.png"))) >= 9
    rows = json.loads((tmp_path / "summary.json").read_text())["rows"]
    needed = {
        "policy",
        "scenario",
        "round",
        "regret",
        "regret_low",
        "regret_high",
        "violation",
        "last_violation",
    }
    assert all(needed <= set(row) for row in rows)
    assert {row["policy"] for row in rows} == {"pessimistic-optimistic", "opb", "round-robin"}
    keys = [(row["study"], row["variant"], row["round"]) for row in rows]
    assert len(keys) == len(set(keys))


def test_an_unknown_study_is_refused(tmp_path):
    with pytest.raises(tr.InvalidInput, match="one of mab, hospital, bounds, tail, all"):
        reproduce("moon", out=tmp_path)
