"""State files and journals that an earlier version wrote load, go on and replay as they did then, bit for bit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tightrope as tr
from tightrope.service.offline.replay import open_journal, verify
from tightrope.service.storage.sqlite import SqliteJournal
from tightrope.spec import make_spec
from workbench import Bench, read

FIXTURES = Path(__file__).parent / "fixtures"
STATES = sorted(path.stem for path in (FIXTURES / "states").glob("*.npz"))
JOURNALS = sorted(path.stem for path in (FIXTURES / "journals").glob("*.sqlite"))


def test_nothing_has_been_lost() -> None:
    assert len(STATES) == 13
    assert JOURNALS == ["measured", "ward"]


@pytest.mark.parametrize("name", STATES)
def test_a_saved_policy_goes_on_as_it_did(name: str) -> None:
    recorded = json.loads((FIXTURES / "states" / f"{name}.json").read_text())
    policy = tr.load(FIXTURES / "states" / f"{name}.npz")
    _go_on(policy, recorded)


@pytest.mark.parametrize("name", STATES)
def test_and_so_does_what_this_version_makes_of_it(name: str, tmp_path: Path) -> None:
    recorded = json.loads((FIXTURES / "states" / f"{name}.json").read_text())
    tr.load(FIXTURES / "states" / f"{name}.npz").save(tmp_path / "again.npz")
    _go_on(tr.load(tmp_path / "again.npz"), recorded)


def _go_on(policy: Any, recorded: dict[str, Any]) -> None:
    assert _standing(policy) == recorded["begin"]
    for step in recorded["steps"]:
        if "learn" in step:
            policy.learn(**step["learn"])
            continue
        decision = policy.decide(**step["decide"])
        why = decision.explain()
        assert {
            "action": decision.action,
            "row": decision.row,
            "number": decision.number,
            "rewards": why.rewards.tolist(),
            "costs": why.costs.tolist(),
            "values": why.values.tolist(),
            "V": why.V,
            "epsilon": why.epsilon,
        } == step["gives"]
    assert _standing(policy) == recorded["end"]


def _standing(policy: Any) -> dict[str, Any]:
    return {
        "rounds": policy.rounds,
        "pending": list(policy.pending),
        "queue": policy.queue.tolist(),
        "totals": policy.totals.tolist(),
        "slater": policy.slater,
    }


@pytest.fixture(params=JOURNALS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A copy of a journal, and what is known of it."""
    copy = tmp_path / f"{request.param}.sqlite"
    shutil.copy(FIXTURES / "journals" / copy.name, copy)
    return copy, json.loads((FIXTURES / "journals" / f"{request.param}.json").read_text())


def test_a_journal_replays(journal: tuple[Path, dict[str, Any]]) -> None:
    path, recorded = journal
    source = open_journal(path)
    report = verify(source)
    source.close()
    assert report.digest == recorded["digest"]
    for name in ("entries", "decisions", "outcomes", "snapshots"):
        assert getattr(report, name) == recorded[name], name


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_the_service_opens_a_journal_and_goes_on(
    journal: tuple[Path, dict[str, Any]], without_snapshots: bool
) -> None:
    path, recorded = journal
    opened = SqliteJournal(path)
    if without_snapshots:
        opened.open()
        opened.append([], drop=[snapshot.position for snapshot in opened.snapshots()])
        assert opened.snapshots() == []
    bench = Bench(make_spec(recorded["spec"]), opened, **recorded["options"])
    assert bench.digest() == recorded["digest"]
    assert opened.last() == recorded["entries"], "opening an unchanged experiment writes nothing"
    bench.now = recorded["now"] + 1.0
    for step in recorded["next"]:
        answer = read(bench.decide(step["request"]))
        assert {key: answer[key] for key in step["answer"]} == step["answer"]
    state = bench.state()
    assert {key: state[key] for key in recorded["state"]} == recorded["state"]
    assert bench.digest() == recorded["digest_after"]
    bench.experiment.close()
