"""The page that `tightrope simulate --out` writes."""

from __future__ import annotations

from pathlib import Path

from cli_tools import EXAMPLES, SMALL
from html_page import Page
from tightrope.simulation.run import simulate_spec
from tightrope.spec import read_spec


def test_a_summary_first_then_rewards_rules_and_actions(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    spec = read_spec(path)
    results, _ = simulate_spec(spec, rounds=40, replications=3, seed=7, out=tmp_path / "out", warn=False)
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    assert text.index("In short") < text.index('id="words-used-here"') < text.index("<figure")
    assert "2 policies made 40 decisions in each of 3 runs, among 2 actions and under 1 rule." in page.text
    for result in results:
        assert f"{100 * result.average_reward.mean[-1] / 0.5:.1f} % of the optimum" in page.text
        assert f"The rules under {result.policy}" in page.text
    [column] = spec.rules.columns if spec.rules is not None else ()
    assert str(column.rule) in page.text
    left = -column.rule.scale * results[0].cost[:, -1, 0].mean()
    assert f'data-title="left at the end">{left:.4g}</td>' in text
    assert (tmp_path / "out" / "simulation.png").exists()


def test_the_page_says_what_other_limits_would_earn(tmp_path: Path) -> None:
    spec = read_spec(EXAMPLES / "ads-budget.toml")
    simulate_spec(spec, rounds=40, replications=2, out=tmp_path / "out", warn=False)
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "What if a limit were another" in text
    assert "with today's limit of 0.3 the best policy earns" in Page(text).text
    # Only limits that cost something are drawn.
    assert (tmp_path / "out" / "what-if-1.png").exists()
    assert not (tmp_path / "out" / "what-if-2.png").exists()
