"""Fits are in the journal and in snapshots: neither a restart nor a replay makes one again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tightrope.errors import InvalidInput
from tightrope.models import Ensemble
from tightrope.models.estimators import Recipe
from tightrope.models.trees import FlatTrees
from tightrope.service.journal.entries import TookEffect
from tightrope.service.journal.rows import entry_of
from tightrope.service.offline.replay import open_journal, verify
from tightrope.service.storage.sqlite import SqliteJournal
from tightrope.spec import make_spec
from workbench import Bench

MODELS = {
    "auto": "auto",
    "scikit-learn": {"model": "ensemble", "estimator": "extra-trees", "members": 2, "first": 12},
    "network": {"model": "ensemble", "estimator": "mlp", "members": 2, "first": 12},
}


def experiment(path: Path, reward: Any) -> Bench:
    spec = {
        "name": "shop",
        "actions": ["a", "b"],
        "context": {"x": {"type": "number", "min": 0, "max": 1}},
        "policy": {"reward": reward},
    }
    return Bench(make_spec(spec), SqliteJournal(path))


def live(bench: Bench, first: int, last: int) -> None:
    for i in range(first, last):
        bench.decide({"event_id": f"{i}", "context": {"x": (i * 0.37) % 1.0}})
        bench.learn(f"{i}", reward=float(i % 3 == 0))
        bench.work()


@pytest.mark.parametrize("kind", MODELS)
def test_a_replay_and_a_restart_fit_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shop.sqlite"
    bench = experiment(path, MODELS[kind])
    live(bench, 0, 60)
    results = [entry.result for row in bench.journal.rows() if isinstance(entry := entry_of(row), TookEffect)]
    assert len(results) >= 2
    assert all(isinstance(fit, bytes) for _, fit in results)
    digest = bench.digest()

    def fitted(*given: Any) -> Any:
        raise AssertionError("it is fitted again")

    with monkeypatch.context() as patch:
        patch.setattr(Recipe, "fitted", fitted)
        # From the rows alone, then from the snapshot that is taken when it stops.
        again = experiment(path, MODELS[kind]) if bench.experiment.journal.close() is None else bench
        assert again.digest() == digest
        again.experiment.close()
        assert verify(open_journal(path)).decisions == 60
        from_snapshot = experiment(path, MODELS[kind])
        assert from_snapshot.decide({"event_id": "one more", "context": {"x": 0.5}}).status == 200
        from_snapshot.experiment.close()


def test_trees_that_lead_nowhere_are_refused() -> None:
    model = Ensemble("forest", 1, 1, members=2)
    model.learn_many(np.arange(40.0)[:, None], np.arange(40.0) % 2, np.zeros(40, dtype=int))
    arrays = model._in_force().predictor.arrays()
    sizes: dict[str, int] = {"n_features": 1, "sums": 2}
    assert len(FlatTrees.of_arrays(arrays, 2, 1, **sizes).roots) == 20
    wrong: dict[str, Any] = {
        "child": np.where(arrays["child"] >= 0, 0, -1),  # a circle
        "feature": arrays["feature"] + 1,
        "roots": arrays["roots"] + len(arrays["child"]),
        "first": arrays["first"] * 2,
        "value": arrays["value"][:-1],
        "base": arrays["base"][:-1],
    }
    for name, array in wrong.items():
        with pytest.raises(ValueError, match="do not fit"):
            FlatTrees.of_arrays({**arrays, name: array}, 2, 1, **sizes)


def test_a_damaged_fit_is_refused() -> None:
    model = Ensemble("forest", 1, 1, members=2)
    model.deferred = True
    for i in range(31):
        model.learn([float(i)], i % 2, 0)
    job = model.due()
    assert job is not None
    mark, packed = job()
    assert isinstance(packed, bytes)
    twin = Ensemble("forest", 1, 1, members=2)
    twin.deferred = True
    for i in range(31):
        twin.learn([float(i)], i % 2, 0)
    with pytest.raises(InvalidInput, match="can't be read"):
        twin.take([mark, packed[:100]])
    twin.take([mark, packed])
    model.take([mark, packed])
    assert np.array_equal(twin.means([[3.0]], [0]), model.means([[3.0]], [0]))
