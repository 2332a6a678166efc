"""What the README says of its two commands, the command line and the pictures: one test for each, "
"named after it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tightrope as tr
from policy_tools import unwatched
from readme_claims import README, claim
from tightrope.cli import main
from tightrope.service.server import make_service
from tightrope.spec import read_spec
from tightrope.studies import mab
from tightrope.studies.hospital import balanced_shares

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = sorted(
    set(re.findall(r"^tightrope (\w+)", README.split("## Commands")[1].split("##")[0], re.MULTILINE))
)


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([command, "--help"]) == 0
    return capsys.readouterr().out


@claim("Every command takes --help; those that print results take --json and --out DIR")
def test_every_command_takes_help_and_those_that_print_results_take_json_and_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(COMMANDS) >= 9
    for command in COMMANDS:
        said = help_of(command, capsys)
        assert command in said
        if command not in ("serve", "calibrate"):  # the one answers callers, the other writes a file
            assert "--json" in said, command
            assert "--out" in said, command


@claim("A spec is one TOML file, the same for every command that takes one; examples/ has several")
def test_a_spec_is_one_toml_file_the_same_for_every_command_that_takes_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert len(list((ROOT / "examples").glob("*.toml"))) > 3
    spec = str(ROOT / "examples" / "hospital.toml")
    small = ["--rounds", "20", "--replications", "2"]
    for command in (
        ["oracle", spec],
        ["simulate", spec, *small],
        ["compare", spec, "--policy", "uniform", *small, "--out", str(tmp_path / "league")],
    ):
        assert main(command) == 0
        assert "ward-routing" in capsys.readouterr().out
    assert make_service([read_spec(Path(spec))], data=tmp_path / "data") is not None


@unwatched  # that rewards are at their clip is what it is about
@claim(
    "no violation at the end of any horizon",
    "With the paper's full confidence radius the policy only balances the shares, as a round-robin does; "
    "with a tenth of it, it learns",
)
def test_in_the_hospital_the_full_radius_balances_shares_and_a_tenth_of_it_learns() -> None:
    env = tr.environments.hospital()
    m = tr.check(env).m
    for horizon in (2_500, 22_500):
        regret = {}
        for bonus in (1.0, 0.1):
            policy = tr.PessimisticOptimistic(
                reward=tr.DisjointRidge(6, 10, bonus=bonus, m=m),
                constraints=18,
                V=tr.Power(4.0, 0.5),
                epsilon=tr.Power(1.0, -0.5),
                horizon=horizon,
            )
            run = tr.simulate(policy, env, rounds=horizon, replications=10)
            assert run.violation.mean[-1] == 0
            regret[bonus] = run.regret.mean[-1]
        robin = tr.simulate(
            tr.policies.RoundRobin(6, shares=balanced_shares(env)), env, rounds=horizon, replications=10
        )
        assert regret[1.0] == pytest.approx(robin.regret.mean[-1], rel=0.15)
        assert horizon == 2_500 or regret[0.1] < 0.95 * regret[1.0], (
            "there is little to learn in 2,500 rounds"
        )


@unwatched  # ε above every cost is one of the schedules
@claim(
    "Four arms, threshold 0.1, cost seen after acting (tightrope reproduce mab): the constraint binds, and the schedules "
    "and the range to which unknown costs are clipped decide what happens"
)
def test_on_four_arms_the_constraint_binds_and_schedules_and_clip_decide_what_happens() -> None:
    env = tr.environments.bandit(threshold=0.1, costs_seen="after")
    assert tr.solve(env).duals[0] > 0.5
    regret = {
        (schedule, clip): tr.simulate(
            mab._policy(clip, V=mab._V(schedule, 0.1), epsilon=mab._epsilon(schedule)), env, 3_000, 10
        ).regret.mean[-1]
        for schedule in ("paper", "A")
        for clip in ((-0.1, 0.9), (-1.0, 1.0))
    }
    by_schedule = [abs(regret["paper", clip] - regret["A", clip]) for clip in ((-0.1, 0.9), (-1.0, 1.0))]
    by_clip = [
        abs(regret[schedule, (-0.1, 0.9)] - regret[schedule, (-1.0, 1.0)]) for schedule in ("paper", "A")
    ]
    assert max(by_schedule) > 100
    assert max(by_clip) > 100
