"""What the README says of the league: read off the tables that `tightrope compare` wrote, and tried "
"on a part of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from readme_claims import README, claim, plain
from tightrope.environments.scenarios import SCENARIOS
from tightrope.studies.league import ROSTER, compare
from tightrope.studies.league.entries import chosen_entries
from tightrope.studies.league.ranking import MOST_ABOVE

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "league.md").read_text(encoding="utf-8")
TABLES = PAGE.split("<!-- standings: begin -->")[1].split("<!-- standings: end -->")[0]
SAID = plain(README.split("## How it compares")[1].split("\n## ")[0])


def rows(head: str) -> list[list[str]]:
    """The cells of the table that has this head."""
    body = TABLES.split(head)[1].split("\n\n")[0]
    return [
        [cell.strip(" `*") for cell in line.strip("|").split("|")] for line in body.splitlines()[2:] if line
    ]


def number(text: str) -> float:
    return float(text.split()[0].replace(",", "").replace("−", "-"))


# By policy: in how many scenarios it keeps the rules, in how many it plays, mean and worst ratio, on which, first places.
SCORES = {
    row[0].split()[0].strip("`"): (*map(int, re.findall(r"\d+", row[1])), row[2], row[3], row[4], int(row[7]))
    for row in rows("| policy | keeps the rules in |")
}
# By scenario: the policies shown, best first, with their places and regrets.
BEST: dict[str, list[tuple[str, str, float]]] = {}
for scenario, place, policy, regret, *_ in rows("| scenario | place |"):
    name = scenario or name  # noqa: F821  # a scenario stands in its first row alone
    BEST.setdefault(name, []).append((policy, place, number(regret)))


@claim(
    "tightrope compare (19 scenarios, 25 entries, 10,000 rounds, 5 runs; docs/league.md)",
    "To keep the rules means two things: no violation is shown at the end, and at most 10 % of the rounds"
    " have some total above zero",
)
def test_19_scenarios_25_entries_10000_rounds_5_runs() -> None:
    assert len(SCENARIOS) == len(BEST) == 19
    assert len(chosen_entries()) == len(SCORES) == 25
    assert "10,000 rounds, 5 runs each" in TABLES
    assert MOST_ABOVE == 0.1


@claim(
    "shadow-price, the default, with nothing set, keeps the rules in all 19 scenarios and has the lowest "
    "regret of all that keep them in 18",
    "Its ratio, (regret + 20) / (regret of the best + 20), is 1.00 on average and 1.09 at worst, in "
    "switching-best, where the world "
    "changes half-way and two guards do better",
)
def test_shadow_price_keeps_the_rules_in_all_19_and_has_the_lowest_regret_in_18() -> None:
    assert SCORES["shadow-price"] == (19, 19, "1.00", "1.09", "switching-best", 18)
    assert [one[0] for one in BEST["switching-best"][:3]] == ["guarded-linucb", "prudent", "shadow-price"]
    assert sum(one[0][0] == "shadow-price" for one in BEST.values()) == 18
    for name, shown in BEST.items():
        (regret,) = (regret for policy, _, regret in shown if policy == "shadow-price")
        assert regret <= 6 * (shown[0][2] + 20) - 20, name


@claim(
    "The next best are rivals that mind the rules too: lagrangian keeps them in 18 of 19 with a mean "
    "ratio of 2.75, a plain one without "
    "margin in 4 of 19"
)
def test_the_next_best_are_rivals_that_mind_the_rules_too() -> None:
    assert SCORES["lagrangian"][:3] == (18, 19, "2.75")
    assert SCORES["plain-lagrangian"][:2] == (4, 19)
    wide = {name: float(one[2]) for name, one in SCORES.items() if one[0] >= 15 and name != "shadow-price"}
    assert min(wide, key=wide.__getitem__) == "lagrangian", "of all that keep the rules in most scenarios"


@claim(
    'The paper\'s policy keeps the rules in all 19, at a mean ratio of 31.78; with tightening="capped" in 15, at 10.05',
    "opb and oplb, which promise every single round, keep them wherever they play, at mean ratios of "
    "22.55 and 28.82",
)
def test_what_the_papers_policy_and_those_who_promise_every_round_pay() -> None:
    assert SCORES["pessimistic-optimistic"][:3] == (19, 19, "31.78")
    assert SCORES["pessimistic-optimistic-capped"][:3] == (15, 19, "10.05")
    for name, ratio in (("opb", "22.55"), ("oplb", "28.82")):
        kept, played, mean, *_ = SCORES[name]
        assert (kept, mean) == (played, ratio)


@pytest.mark.parametrize("name", ["many-constraints", "wine"])
def test_a_part_of_the_league_comes_out_as_the_page_says(name: str) -> None:
    """Two runs of 10,000 rounds: the default keeps the rules and is ahead of the best rival, by about "
    "what the page says."""
    rivals = [ROSTER["shadow-price"], ROSTER[BEST[name][1][0]]]
    found = compare(rivals, [name], rounds=10_000, replications=2, workers=1)
    ours, rival = found.performances
    assert ours.kept
    assert ours.result.regret.mean[-1] < rival.result.regret.mean[-1]
    for one, (_, _, said) in zip((ours, rival), BEST[name]):
        assert one.result.regret.mean[-1] == pytest.approx(said, rel=0.35)
