"""Data that names code: nothing of it runs unless someone trusts it, whichever door it comes through."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from tightrope import trust
from tightrope.cli import main
from tightrope.environments.build import environment_of
from tightrope.models import model_from_settings
from tightrope.policies.build import build_policy
from tightrope.policies.state_file import SEAL, sealed
from tightrope.service.experiment.state import ExperimentState
from tightrope.service.journal.rows import row_of
from tightrope.service.storage import journal_at
from tightrope.simulation.run import simulate_spec
from tightrope.spec import make_spec

# A module that leaves a mark when it is imported, and again when one of its classes is constructed.
EVIL = """
from pathlib import Path
MARK = Path(__file__).with_suffix(".mark")
MARK.write_text("imported")

class Estimator:
    def __init__(self, **settings): MARK.write_text("constructed")
    def get_params(self, deep=True): return {}
    def set_params(self, **given): return self
    def fit(self, X, y): return self
    def predict(self, X): return X[:, 0]
    def transform(self, X): return X

class Thing(Estimator):
    def __init__(self, *given, **settings): MARK.write_text("constructed")
"""
POPEN = {"args": "touch {mark}", "shell": True}


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """A module and a file of another's; tells whether anything of them has run."""
    name = f"evil_{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]}"
    (tmp_path / f"{name}.py").write_text(EVIL)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    importlib.invalidate_caches()

    def has_run() -> bool:
        return any(tmp_path.glob("*.mark")) or name in sys.modules

    has_run.module = name  # type: ignore[attr-defined]
    return has_run


def spec_of(reward: Any = None, **policy: Any) -> dict[str, Any]:
    return {
        "name": "trial",
        "actions": ["a", "b"],
        "context": {"x": {"type": "number", "min": 0, "max": 1}},
        "policy": {**({} if reward is None else {"reward": reward}), **policy},
    }


def ensemble(estimator: str, /, **params: Any) -> dict[str, Any]:
    return {"model": "ensemble", "estimator": estimator, "params": params}


def built(data: dict[str, Any], *, trust: bool = False) -> None:
    """All that a spec names."""
    spec = make_spec(data, trust=trust)
    build_policy(spec.policies[0], spec.problem())
    if spec.environment is not None:
        environment_of(spec)


# Everywhere that a spec names a class: the module of the estimator that runs is filled in.
NAMED: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "estimator": lambda module, _: spec_of(ensemble(f"{module}:Estimator")),
    "in its parameters": lambda module, _: spec_of(
        ensemble("sklearn.ensemble:BaggingRegressor", estimator={"kind": f"{module}:Estimator"})
    ),
    "in a list in its parameters": lambda module, _: spec_of(
        ensemble("sklearn.pipeline:Pipeline", steps=[{"tuple": ["evil", {"kind": f"{module}:Estimator"}]}])
    ),
    "transformer": lambda module, _: spec_of(
        {"model": "features", "transformer": f"{module}:Estimator", "inner": "ridge"}
    ),
    "transformer of a known size": lambda module, _: spec_of(
        {"model": "features", "transformer": f"{module}:Estimator", "inner": "ridge", "size": 3}
    ),
    "candidate": lambda module, _: spec_of(
        {"model": "auto", "candidates": [{"model": "ensemble", "estimator": f"{module}:Estimator"}]}
    ),
    "inner model": lambda module, _: spec_of(
        {"model": "features", "transformer": "splines", "inner": ensemble(f"{module}:Estimator")}
    ),
    "model": lambda module, _: spec_of(f"{module}:Thing"),
    "model in a file": lambda _, file: spec_of(f"{file}:Thing"),
    "policy": lambda module, _: spec_of(kind=f"{module}:Thing"),
    "policy in a file": lambda _, file: spec_of(kind=f"{file}:Thing"),
    "policy that trusts itself": lambda _, file: spec_of(kind=f"{file}:Thing", trust=True),
    "rule": lambda module, _: {**spec_of(), "rule": [{"kind": f"{module}:Thing"}]},
    "rule in a file": lambda _, file: {**spec_of(), "rule": [{"kind": f"{file}:Thing"}]},
    "environment": lambda module, _: {**spec_of(), "environment": {"kind": f"{module}:Thing"}},
    "environment in a file": lambda _, file: {**spec_of(), "environment": {"kind": f"{file}:Thing"}},
}


@pytest.mark.parametrize("where", NAMED)
def test_a_spec_runs_nothing_that_nobody_trusts(where: str, evil: Any) -> None:
    data = NAMED[where](evil.module, f"{evil.module}.py")
    with pytest.raises(tr.InvalidInput) as told:
        built(data)
    assert not evil()
    field = {"ru": "rule[0].kind", "en": "environment.kind", "po": "policy.kind"}.get(
        where[:2], "policy.reward"
    )
    for words in (field, evil.module, "--trust", "trust=True", "TIGHTROPE_TRUST"):
        assert words in str(told.value)


@pytest.mark.parametrize(
    "where", [one for one in NAMED if one.startswith(("est", "in ", "mod", "pol")) and "itself" not in one]
)
def test_with_trust_it_runs(where: str, evil: Any) -> None:
    data = NAMED[where](evil.module, f"{evil.module}.py")
    # A Thing is no model; what matters is that it was tried.
    with contextlib.suppress(tr.InvalidInput, AttributeError, TypeError):
        built(data, trust=True)
    assert evil()


def test_the_operator_lists_modules_and_files(
    evil: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIGHTROPE_TRUST", f"elsewhere, {evil.module}")
    spec = make_spec(spec_of(ensemble(f"{evil.module}:Estimator")))
    build_policy(spec.policies[0], spec.problem())
    assert evil()
    for mark in tmp_path.glob("*.mark"):
        mark.unlink()
    (tmp_path / "other.py").write_text(EVIL)
    spec = make_spec(spec_of(kind="other.py:Thing"))
    with pytest.raises(tr.InvalidInput, match="--trust"):
        build_policy(spec.policies[0], spec.problem())
    assert not (tmp_path / "other.mark").exists()
    monkeypatch.setenv("TIGHTROPE_TRUST", str(tmp_path / "other.py"))
    build_policy(spec.policies[0], spec.problem())
    assert (tmp_path / "other.mark").exists()


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        ("subprocess:Popen", POPEN, "--trust"),
        ("os:system", {"command": "touch {mark}"}, "--trust"),
        # In an allowed module, but not of it, not a class, or not an estimator.
        ("sklearn.utils.validation:warnings", {}, "must be a class with fit"),
        ("sklearn.utils._testing:check_call", POPEN, "--trust|there is no class"),
        ("sklearn.pipeline:make_pipeline", {}, "must be a class with fit"),
        ("sklearn.preprocessing:StandardScaler", {}, "must be a class with fit or partial_fit and predict"),
        ("sklearn.utils:Bunch", {}, "must be a class with fit"),
        ("sklearn..evil:Estimator", {}, "--trust"),
        ("sklearn/../evil:Estimator", {}, "--trust"),
        # scikit-learn keeps what it has fitted as pickles there, and reads those that it finds.
        ("sklearn.pipeline:Pipeline", {"steps": [], "memory": "cache"}, "memory must be left out"),
        (
            "sklearn.ensemble:BaggingRegressor",
            {"estimator": {"kind": "subprocess:Popen", **POPEN}},
            "estimator 'subprocess:Popen'.*--trust",
        ),
    ],
)
@pytest.mark.parametrize("trust", [False, True])
def test_only_estimators_are_constructed(
    tmp_path: Path, name: str, params: Any, words: str, trust: bool
) -> None:
    mark = tmp_path / "mark"
    filled = json.loads(json.dumps(params).replace("{mark}", str(mark)))
    # What is no estimator is not constructed with trust either.
    with pytest.raises(tr.InvalidInput) as told:
        built(spec_of(ensemble(name, **filled)), trust=trust and "--trust" not in words)
    assert told.match(words)
    assert not mark.exists()


def test_trust_does_not_make_an_estimator_of_a_command(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    data = {"estimator": "shlex:shlex", "params": {"instream": str(mark)}}
    spec = make_spec(spec_of({"model": "ensemble", **data}), trust=True)
    with pytest.raises(tr.InvalidInput, match="'shlex:shlex' must be a class with fit"):
        build_policy(spec.policies[0], spec.problem())


def saved(path: Path, kind: str, settings: Any, like: str) -> Path:
    """The file of a policy whose header names other classes; its seal holds."""
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        entries = {one[:-4]: np.load(io.BytesIO(archive.read(one))) for one in archive.namelist()}
    header = json.loads(entries.pop("header").tobytes())
    header |= {"kind": kind, "settings": settings(header["settings"])}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    made = path.with_name(like)
    made.write_bytes(sealed({"header": text, **entries}))
    return made


@pytest.mark.parametrize("what", ["kind", "file", "model", "estimator"])
def test_a_saved_policy_runs_nothing(what: str, evil: Any, tmp_path: Path) -> None:
    honest = tmp_path / "honest"
    tr.ShadowPrice(reward=tr.Ensemble("extra-trees", 2, 1), constraints=1).save(honest)
    kind = {"kind": f"{evil.module}:Thing", "file": f"{tmp_path / evil.module}.py:Thing"}.get(
        what, "shadow-price"
    )

    def settings(given: dict[str, Any]) -> dict[str, Any]:
        reward = {
            "model": {"model": f"{evil.module}:Thing"},
            "estimator": {"estimator": f"{evil.module}:Estimator"},
        }
        return {**given, "reward": {**given["reward"], **reward.get(what, {})}}

    changed = saved(honest, kind, settings, "changed")
    with pytest.raises(tr.InvalidInput) as told:
        tr.load(changed)
    assert not evil()
    for words in ("changed", evil.module, "--trust", "trust=True"):
        assert words in str(told.value)
    refused = (
        contextlib.nullcontext() if what == "estimator" else pytest.raises((tr.InvalidInput, AttributeError))
    )
    with refused:  # A Thing is no policy and no model.
        tr.load(changed, trust=True)
    assert evil()


def test_arrays_of_pickles_are_not_read(tmp_path: Path) -> None:
    class Canary:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "mark"),)

    array = np.array([Canary()], dtype=object)
    np.savez(tmp_path / "world.npz", weights=array)
    spec = make_spec({"environment": {"kind": "tabular", "file": "world.npz"}}, folder=tmp_path)
    with pytest.raises(tr.InvalidInput, match="plain arrays"):
        environment_of(spec)
    honest = tmp_path / "honest"
    tr.policies.Uniform(2).save(honest)
    body = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(honest.read_bytes())) as old, zipfile.ZipFile(body, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, allow_pickle=True)
        new.writestr("more.npy", buffer.getvalue())
        new.comment = bytes(SEAL)
    raw = body.getvalue()[:-SEAL]
    honest.write_bytes(raw + hashlib.sha256(raw).hexdigest().encode())
    with pytest.raises(tr.InvalidInput):
        tr.load(honest)
    assert not (tmp_path / "mark").exists()


# Journals


@pytest.fixture
def journal(evil: Any, tmp_path: Path) -> Path:
    """A journal that someone made up: its chain holds, and its configuration names an estimator of theirs."""
    state = ExperimentState(make_spec(spec_of(ensemble("sklearn.tree:DecisionTreeRegressor"))))
    entry = state.started("0")
    entry.spec["policy"]["reward"]["estimator"] = f"{evil.module}:Estimator"
    made = journal_at(f"sqlite:{tmp_path / 'data'}", "trial")
    assert made.open()
    made.append([row_of(1, 1_000_000, entry)])
    made.close()
    return tmp_path / "data" / "trial.sqlite"


COMMANDS = {
    "replay": ["replay", "{journal}"],
    "restore": ["restore", "{journal}", "elsewhere.sqlite"],
    "erase": ["erase", "{journal}", "--event-id", "v1"],
    "fit": ["fit", "{journal}"],
    "evaluate": ["evaluate", "{journal}", "--policy", "plain.toml"],
    "serve": ["serve", "plain.toml", "--data", "data", "--accept-changes", "--port", "1"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_journal_runs_nothing(command: str, journal: Path, evil: Any, capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "plain.toml").write_text(
        'name = "trial"\nactions = ["a", "b"]\n[context]\nx = { type = "number", min = 0, max = 1 }\n'
    )
    assert main([word.format(journal=journal) for word in COMMANDS[command]]) != 0
    assert not evil()
    told = capsys.readouterr().err
    if command not in ("fit", "evaluate"):  # which have nothing to read, and never come to the estimator
        assert f"{evil.module}:Estimator" in told
        assert "--trust" in told


def test_a_journal_that_is_trusted_is_replayed(journal: Path, evil: Any, capsys: Any) -> None:
    assert main(["replay", str(journal), "--trust"]) == 0
    assert evil()


SPECS = {
    "simulate": ["--rounds", "5", "--replications", "1"],
    "oracle": [],
    "sweep": ["--out", "swept", "--workers", "1"],
    "tune": ["--out", "tuned", "--workers", "1"],
    "compare": ["--quick", "--out", "league"],
    "serve": ["--port", "1"],
    "openapi": [],
}


@pytest.mark.parametrize("command", SPECS)
def test_every_command_that_reads_a_spec(command: str, evil: Any, capsys: Any, tmp_path: Path) -> None:
    bandit = '[environment]\nkind = "bandit"\n' if command != "serve" else 'actions = ["a", "b"]\n'
    policy = f'[policy]\nkind = "{evil.module}.py:Thing"\n'
    if command == "oracle":
        bandit, policy = f'[environment]\nkind = "{evil.module}.py:Thing"\n', ""
    if command == "openapi":
        bandit, policy = f'actions = ["a"]\n[[rule]]\nkind = "{evil.module}.py:Thing"\n', ""
    (tmp_path / "evil.toml").write_text(f'{bandit}{policy}[sweep]\n"policy.horizon" = [5]\n')
    assert main([command, "evil.toml", *SPECS[command]]) != 0
    assert not evil()
    assert "--trust" in capsys.readouterr().err


def test_what_you_type_is_trusted(evil: Any, capsys: Any) -> None:
    words = [
        "--quick",
        "--scenario",
        "bandit-slack",
        "--rounds",
        "5",
        "--replications",
        "1",
        "--out",
        "league",
    ]
    main(["compare", "--policy", f"{evil.module}.py:Thing", *words])
    assert evil()


def test_names_are_text_in_every_report(tmp_path: Path) -> None:
    """Whoever writes the names of actions, rules and policies does not write the page."""
    canary = "<script>canary()</script><img src=x onerror=canary()>"
    rule = {"kind": "capacity", "action": f"a {canary}", "at_most": 0.5, "name": f"rule {canary}"}
    spec = {
        "name": f"spec {canary}",
        "actions": [f"a {canary}", f"b {canary}"],
        "rule": [rule],
        "policy": {"kind": "uniform", "name": f"policy {canary}"},
        "environment": {"kind": "tabular", "weights": [1.0], "rewards": [[0.2, 0.8]]},
        "simulation": {"rounds": 5, "replications": 1},
    }
    simulate_spec(make_spec(spec), out=tmp_path, warn=False)
    pages = [one for one in tmp_path.rglob("*") if one.suffix in (".html", ".svg")]
    assert any(one.name == "index.html" and "canary" in one.read_text() for one in pages)
    for page in pages:
        assert "<script>canary" not in page.read_text()
        assert "<img src=x" not in page.read_text()
    assert "<script>" not in tr.solve(environment_of(make_spec(spec)))._repr_html_()


# What a program has of its own


def test_an_object_of_yours_is_trusted(evil: Any) -> None:
    module = importlib.import_module(evil.module)
    model = tr.Ensemble(module.Estimator(), 2, 1)
    assert type(model_from_settings(model.settings())) is tr.Ensemble
    assert type(pickle.loads(pickle.dumps(model))) is tr.Ensemble


def test_a_class_that_the_program_has_is_found_without_trust(tmp_path: Path) -> None:
    class_name = f"{Own.__module__}:Own"
    assert Own.kind == class_name
    Own(2).save(tmp_path / "own")
    assert type(tr.load(tmp_path / "own")) is Own


class Own(tr.policies.Uniform):
    """A policy of this file's own, which nobody registered."""


def test_names_of_libraries_and_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(trust.VARIABLE, raising=False)
    places = ("sklearn.linear_model", "sklearnt", "os")
    assert [trust.is_allowed(one, trust.LIBRARIES) for one in places] == [True, False, False]
    assert trust.absolute("mine.py:Mine", Path("/specs")) == "/specs/mine.py:Mine"
    assert trust.absolute("shop.rules:Band") == "shop.rules:Band"
    with pytest.raises(
        tr.errors.Untrusted, match=r"^estimator 'subprocess:Popen' would run code that is not of catboost"
    ):
        trust.require_trusted("estimator", "subprocess:Popen", libraries=trust.LIBRARIES)
