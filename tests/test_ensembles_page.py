"""What `docs/ensembles.md` says, and the study that its table comes from."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from tightrope.models.estimators import NAMED

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "ensembles.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_models", ROOT / "examples" / "models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_study_goes_on_where_it_was_stopped(
    study: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(study, "MARKS", (200, 400))
    arguments = [
        "--out",
        str(tmp_path),
        "--world",
        "digits",
        "--model",
        "linear",
        "--rounds",
        "400",
        "--workers",
        "1",
    ]
    printed = []
    for runs in ("1", "2", "2"):
        monkeypatch.setattr(sys, "argv", ["models.py", *arguments, "--runs", runs, "--labels", "1"])
        study.main()
        printed.append(capsys.readouterr().out)
    assert [page.count(", run ") for page in printed] == [2, 2, 0]
    kept = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert [(one["seed"], one["rounds"]) for one in kept] == [(0, None), (0, 400), (1, None), (1, 400)]
    once = np.mean([one["accuracy"]["1797"] for one in kept if one["rounds"] is None], axis=0)
    assert f"{once[0]:.3f} / {once[1]:.3f}" in printed[2]
    assert f"| {kept[0]['all_labels']:.3f} |" in printed[2]


def test_all_labels_are_what_a_learner_could_know(study: ModuleType) -> None:
    """A learner that can tell everything gets what the best policy gets; one that can tell nothing no more than chance."""
    draw = np.random.default_rng(0)
    right = draw.integers(0, 2, 60)
    env = tr.environments.Tabular(
        np.full(60, 1 / 60),
        draw.normal(size=(60, 1)) + 8.0 * right[:, None],
        np.eye(2)[right],
        np.tile([[0.5], [-0.5]], (60, 1, 1)),
    )
    rows = draw.permutation(np.tile(np.arange(60), 3))
    late = rows[len(rows) * 4 // 5 :]
    best = tr.solve(
        tr.environments.Tabular(
            np.full(len(late), 1 / len(late)), rewards=env.rewards[late], costs=env.costs[late]
        )
    ).value
    forest = tr.Ensemble("extra-trees", 2, 1, members=2)
    assert abs(study.all_labels(env, forest, rows) - best) < 0.03


def test_the_page_names_every_estimator_and_the_study_runs_them(study: ModuleType) -> None:
    assert re.findall(r'\n\| `"([a-z-]+)"` \|', PAGE) == list(NAMED)
    assert set(NAMED) <= set(study.MODELS)


def test_fits_in_50_000_outcomes() -> None:
    model = tr.Ensemble("extra-trees", 1, 1, refit="now")
    counted, x = int(re.findall(r"50,000 outcomes take (\d+) fits", PAGE)[0]), np.zeros(1)
    for _ in range(50_000):
        model.learn(x, 0.0, 0)
    assert model.fits == counted
