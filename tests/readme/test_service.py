"""What the README promises of the service: one test for each, named after it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from readme_claims import README, claim
from tightrope.service.replay import verify
from tightrope.service.server import make_service
from tightrope.spec import read_spec
from workbench import Bench, arms, code, read, running

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# The bodies that the README's curl sends.
DECISION, OUTCOME = (
    re.search(rf"/v1/{route} -d '(.*)'", README).group(1)  # type: ignore[union-attr]
    for route in ("decisions", "outcomes")
)


@pytest.fixture
def hospital(tmp_path: Path) -> Iterator[tuple[httpx.Client, Path]]:
    data = tmp_path / "data"
    with running(make_service([read_spec(EXAMPLES / "hospital.toml")], data=data)) as client:
        yield client, data


@claim(
    "tightrope serve answers once the decision and its probability are on disk",
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


@claim(
    "a dashboard shows every rule in words, its price, and which rules can't be met",
    "The dashboard at / works offline",
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


@claim("one decision for each event_id, an outcome applies exactly once")
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
