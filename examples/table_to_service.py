"""From a table to a served policy: the table as an environment, a simulation, a spec, decisions by rows, the replay.

`main` is all that a user writes, and `tightrope serve wards.toml` takes the place of `served`; the table is made up here, and would
be read from a file.

    python examples/table_to_service.py
"""

from __future__ import annotations

import json
import tempfile

import numpy as np

import tightrope as tr
from tightrope.service.experiment import Experiment, Op
from tightrope.service.http.handlers import decide, learn
from tightrope.service.offline.replay import verify
from tightrope.service.requests import DecisionRequest, OutcomeRequest, read_body
from tightrope.service.storage.memory import MemoryJournal
from tightrope.spec import Spec, read_spec

Frame = dict[str, np.ndarray]


def visits(n: int = 3000, seed: int = 0) -> Frame:
    """Patients who were sent to a ward by a coin, and whether they got well: the old do better in the icu."""
    rng = np.random.default_rng(seed)
    age, sex, urgent = rng.integers(20, 90, n), rng.choice(["f", "m"], n), rng.random(n) < 0.3
    ward = rng.choice(["icu", "other"], n)
    chance = np.where(ward == "icu", age / 100, 0.45) + 0.1 * urgent
    return {"age": age, "sex": sex, "urgent": urgent, "ward": ward, "well": rng.random(n) < chance}


def main() -> None:
    frame = visits()
    rules = tr.Rules([tr.Capacity("icu", at_most=0.3)], actions=["icu", "other"])
    context = {"age": {"missing": "mean"}, "sex": {"unseen": "other"}, "urgent": "boolean"}
    env = tr.environments.from_table(
        frame, context=context, action="ward", reward="well", rules=rules, name="wards"
    )
    policy = tr.ShadowPrice(reward=tr.DisjointRidge(env.n_actions, env.n_features), constraints=rules)
    policy.warm_start(frame, frame["ward"], frame["well"], encoder=env.encoder)
    run = tr.simulate(policy, env, rounds=2000, replications=4)
    print(
        f"reward {run.average_reward.at()} of {tr.solve(env).value:.3f}, violation {run.violation.mean[-1]:.1f}"
    )
    with tempfile.TemporaryDirectory() as folder:
        spec = read_spec(env.to_spec(f"{folder}/wards.toml"))  # `tightrope serve wards.toml` serves it
        print(f"served and replayed: {served(spec)} entries of the journal come out to the same bits")


def served(spec: Spec) -> int:
    """What `tightrope serve` does with the spec, without HTTP: decisions on rows, some with gaps, and the replay of all that."""
    journal = MemoryJournal()
    experiment = Experiment(spec, journal)
    experiment.open()
    rows = [
        {"age": 41, "sex": "f", "urgent": True},
        {"sex": "x", "urgent": False},
        {"age": None, "sex": "m", "urgent": True},
    ]
    for i in range(90):
        sent = json.dumps({"event_id": str(i), "context": rows[i % 3]})
        visit = read_body(sent.encode(), DecisionRequest)
        outcome = OutcomeRequest(event_id=str(i), reward=float(i % 2))
        answers = experiment.process([Op(decide, visit), Op(learn, outcome)])
        assert all(answer.status == 200 for answer in answers)
    return verify(journal).entries


if __name__ == "__main__":
    main()
