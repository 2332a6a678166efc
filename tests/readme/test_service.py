"""What docs/why.md promises of the service: one test for each, named after it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any

import apsw
import httpx
import numpy as np
import pytest

from readme_claims import WHY, claim
from tightrope.service.http.server import make_service
from tightrope.service.offline.replay import verify
from tightrope.service.storage.sqlite import SqliteJournal
from tightrope.spec import make_spec, read_spec
from workbench import Bench, arms, code, read, running

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# The bodies that the page's curl sends.
DECISION, OUTCOME = (
    re.search(rf"/v1/{route} -d '(.*)'", WHY).group(1)  # type: ignore[union-attr]
    for route in ("decisions", "outcomes")
)


@pytest.fixture
def hospital(tmp_path: Path) -> Iterator[tuple[httpx.Client, Path]]:
    data = tmp_path / "data"
    with running(make_service([read_spec(EXAMPLES / "hospital.toml")], data=data)) as client:
        yield client, data


@claim(
    "A 200 means that the decision, its inputs, its probability and the prices behind it are on disk",
)
def test_a_200_means_that_the_decision_its_inputs_its_probability_and_its_prices_are_on_disk(
    hospital: tuple[httpx.Client, Path], tmp_path: Path
) -> None:
    client, data = hospital
    answer = client.post("/v1/decisions", content=DECISION)
    assert answer.status_code == 200
    there = tmp_path / "copy"
    shutil.copytree(data, there)  # while the service runs: what a machine that stopped now would find
    with running(make_service([read_spec(EXAMPLES / "hospital.toml")], data=there)) as again:
        stored = again.get("/v1/decisions/p-17").json()
        assert stored["name"] == answer.json()["name"]
        assert stored["request"]["context"] == {"age": 71.0, "sex": "f", "prior_inpatient": 2.0}
        assert 0.0 < stored["probability"] <= 1.0
        assert stored["probability"] == stored["probabilities"][stored["name"]]
        assert len(again.get("/v1/decisions/p-17/explanation").json()) > 0


class CountedFile(apsw.VFSFile):
    """A file that counts when it is told to reach the disk."""

    def __init__(self, vfs: Counted, name: Any, flags: Any) -> None:
        super().__init__("", name, flags)
        self._vfs = vfs

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._vfs.syncs += 1


class Counted(apsw.VFS):
    """A file system on which nothing differs but that fsyncs are counted."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name, self.syncs = name, 0

    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:
        return CountedFile(self, name, flags)


@claim(
    "A 200 means that the decision, its inputs, its probability and the prices behind it are on disk",
)
def test_on_disk_means_that_the_disk_was_told_to_keep_it_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only reached the cache of the operating system is lost when the power goes."""
    disk, opened = Counted("readme"), SqliteJournal.__init__

    def on_the_counted_disk(journal: SqliteJournal, *given: Any, **rest: Any) -> None:
        opened(journal, *given, **{**rest, "vfs": disk.name})

    monkeypatch.setattr(SqliteJournal, "__init__", on_the_counted_disk)
    with running(make_service([read_spec(EXAMPLES / "hospital.toml")], data=tmp_path)) as client:
        for body, route in (
            (DECISION, "decisions"),
            (OUTCOME, "outcomes"),
            (DECISION.replace("17", "18"), "decisions"),
        ):
            before = disk.syncs
            assert client.post(f"/v1/{route}", content=body).status_code == 200
            assert disk.syncs > before, route


def test_the_probability_on_disk_is_the_one_that_the_decision_was_drawn_with() -> None:
    """Of two arms the better one is drawn as often as its posterior is above the other's, by the model's own numbers."""
    bench = Bench(make_spec({"name": "arms", "actions": ["a", "b"]}))
    for i in range(30):
        read(bench.decide({"event_id": str(i)}))
        read(bench.learn(str(i), reward=[0.1, 0.9, 0.4][i % 3]))
    state = bench.experiment._state
    assert state is not None
    model = state.policy.hooks.reward_model()
    means, deviations = (np.ravel(one) for one in model.predictions(None, [0, 1]))
    deviations = deviations * model.drawn_parts(np.arange(2))
    first = NormalDist().cdf(float(means[0] - means[1]) / float(np.hypot(*deviations)))
    made = read(bench.decide({"event_id": "last"}))
    bench.reopened()
    stored = read(bench.decide({"event_id": "last"}))
    assert stored["sequence"] == made["sequence"]
    assert stored["probability"] == pytest.approx([first, 1.0 - first][made["action"]], abs=1e-6)
    assert 0.01 < first < 0.99


@claim(
    "The dashboard at / works offline; it shows every rule in words, its price, and which rules can't be met",
)
def test_the_dashboard_shows_every_rule_its_price_and_what_can_not_be_met_and_works_offline(
    hospital: tuple[httpx.Client, Path],
) -> None:
    client, _ = hospital
    page = client.get("/").text
    outside = re.findall(r"(?:src|href)=[\"'](?:https?:)?//[^\"']*", page)
    assert not outside
    rules = client.get("/v1/state").json()["constraints"]
    assert len(rules) == 3
    for rule in rules:
        assert re.search(r"at (most|least)", rule["rule"])
        assert rule["price"] >= 0.0
        assert rule["infeasible"] is False


@claim("There is one decision for each event_id, an outcome applies exactly once")
def test_one_decision_for_each_event_id_and_an_outcome_applies_exactly_once(
    hospital: tuple[httpx.Client, Path],
) -> None:
    client, _ = hospital
    first, second = (client.post("/v1/decisions", content=DECISION).json() for _ in range(2))
    assert first["name"] == second["name"]
    assert client.get("/v1/state").json()["decisions"] == 1
    answers = [client.post("/v1/outcomes", content=OUTCOME) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 200], "a repetition is welcome"
    assert client.get("/v1/state").json()["outcomes"]["complete"] == 1
    assert (
        client.post("/v1/outcomes", content=OUTCOME.replace('"reward": 1', '"reward": 0')).status_code == 409
    )


@claim("hard caps are never exceeded")
def test_hard_caps_are_never_exceeded() -> None:
    bench = Bench(
        arms(rules=[{"kind": "budget", "name": "fuel", "at_most": 0.9, "hard": True, "total": 1.0}])
    )
    spent, refused = 0.0, 0
    for i in range(40):
        answer = bench.decide({"event_id": str(i), "usage": {"fuel": [0.25, 0.5]}})
        if answer.status == 200:
            spent += (0.25, 0.5)[read(answer)["action"]]
        else:
            assert code(answer) == (409, "exhausted")
            refused += 1
        if i == 1:
            bench.reopened()
    assert refused > 30
    assert 0.5 < spent <= 1.0


@claim("the state is a function of the journal, bit for bit")
def test_the_state_is_a_function_of_the_journal_bit_for_bit() -> None:
    bench = Bench(read_spec(EXAMPLES / "hospital.toml"))
    for i in range(60):
        read(
            bench.decide(
                {"event_id": str(i), "context": {"age": i, "sex": "fm"[i % 2], "prior_inpatient": i % 4}}
            )
        )
        if i % 3:
            read(bench.learn(str(i), reward=i % 2))
    assert verify(bench.journal).digest == bench.digest()
