"""What CONTRIBUTING says of the code is so: how one adds things and the walks."""

from __future__ import annotations

import ast
import importlib
import os
import random
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from tightrope.cli import main
from tightrope.environments.build import ENVIRONMENTS, environment_of
from tightrope.models import MODELS
from tightrope.policies import POLICIES
from tightrope.rules import RULE_KINDS
from tightrope.service.experiment.experiment import Experiment
from tightrope.service.journal.conformance import JournalSuite
from tightrope.service.storage import journal_at, storages
from tightrope.service.storage.memory import MemoryJournal
from tightrope.spec import make_spec, read_spec
from tightrope.sweeps import sweep
from tightrope.testing import check_environment, check_model, check_policy
from workbench import Bench, read

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "tightrope"
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


# --- how one adds things ---

BLOCKS = dict(re.findall(r"```python\n# src/tightrope/([\w/]+)\.py\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def added(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Lets a file of the page be in the package for the time of a test."""
    paths: list[tuple[Any, str]] = []
    known = [(registry, set(registry)) for registry in (POLICIES, MODELS, RULE_KINDS, ENVIRONMENTS)]

    def add(name: str) -> None:
        folder, _, file = name.rpartition("/")
        place = tmp_path / folder
        place.mkdir(parents=True)
        (place / f"{file}.py").write_text(BLOCKS[name], encoding="utf-8")
        package = importlib.import_module(f"tightrope.{folder.replace('/', '.')}")
        package.__path__.append(str(place))
        paths.append((package, str(place)))

    yield add
    for package, place in paths:
        package.__path__.remove(place)
    for registry, names in known:
        for name in set(registry) - names:
            del registry[name]
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def test_every_block_is_tried() -> None:
    assert set(BLOCKS) == {
        "policies/cheapest",
        "models/last_seen",
        "rules/kinds/band",
        "environments/coins",
        "service/storage/frames",
    }


def test_a_policy_is_one_file(added: Callable[[str], None], tmp_path: Path) -> None:
    added("policies/cheapest")
    made = POLICIES.find("cheapest")
    assert check_policy(lambda: made(4, n_constraints=1), strict=True) == []
    spec = make_spec({"environment": {"kind": "synthetic", "actions": 4}, "policy": {"kind": "cheapest"}})
    [policy] = tr.environments.build.policies_of(spec, environment_of(spec)).values()
    assert policy.kind == "cheapest"
    policy.save(tmp_path / "policy")
    assert tr.load(tmp_path / "policy").hooks.state().keys() == policy.hooks.state().keys()


def test_a_model_is_one_file(added: Callable[[str], None]) -> None:
    added("models/last_seen")
    assert check_model(lambda: MODELS.find("last-seen")(3)) == []
    spec = make_spec({"environment": {"kind": "bandit"}, "policy": {"reward": {"model": "last-seen"}}})
    [policy] = tr.environments.build.policies_of(spec, environment_of(spec)).values()
    assert policy.hooks.reward_model().kind == "last-seen"


def test_a_rule_is_one_file(added: Callable[[str], None]) -> None:
    added("rules/kinds/band")
    spec = make_spec(
        {"actions": ["a", "b"], "rule": [{"kind": "band", "action": "a", "at_least": 0.25, "at_most": 0.5}]}
    )
    assert str(spec.rules) == "a: at least 25% and at most 50% of decisions"
    assert spec.rules is not None
    np.testing.assert_array_equal(spec.rules.costs(), [[0.5, -0.75], [-0.5, 0.25]])


def test_an_environment_is_one_file(added: Callable[[str], None]) -> None:
    added("environments/coins")
    env = environment_of(make_spec({"environment": {"kind": "coins", "fair": 0.4}}))
    assert (env.name, env.rewards[0, 0]) == ("coins", 0.4)
    assert check_environment(ENVIRONMENTS.find("coins")) == []


def test_a_storage_is_one_file(added: Callable[[str], None], tmp_path: Path) -> None:
    added("service/storage/frames")
    assert "frames" in storages()
    tests = [name for name in vars(JournalSuite) if name.startswith("test_")]
    for name in tests:
        suite = JournalSuite()
        suite.make = lambda place=tmp_path / name: journal_at(f"frames:{place}", "ward")  # type: ignore[method-assign,misc]
        (tmp_path / name).mkdir()
        getattr(suite, name)()


# --- the walks ---

WALKS = {
    title: re.findall(r"^\| \d+ \| `([\w/.]+)` \| `([\w.]+)` \|", part, re.MULTILINE)
    for title, part in re.findall(
        r"^\*\*(One [^*]+)\*\*(.*?)(?=^\*\*One |^## )", PAGE, re.MULTILINE | re.DOTALL
    )
}


def walked(play: Callable[[], Any]) -> list[tuple[str, str]]:
    """File and name of every function of the package that is called, in order."""
    called: list[tuple[str, str]] = []

    inside = f"{SOURCE}{os.sep}"

    def note(frame: FrameType, event: str, arg: object) -> None:
        # Millions of calls come by here, and no path is made for those of other packages.
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(inside):
            called.append((Path(code.co_filename).relative_to(SOURCE).as_posix(), code.co_qualname))

    sys.setprofile(note)
    try:
        play()
    finally:
        sys.setprofile(None)
    return called


def online() -> None:
    DECIDE(FEATURES, COSTS)


FEATURES, COSTS = np.eye(3), np.full((3, 1), -0.5)
DECIDE = tr.PessimisticOptimistic(reward=tr.Ridge(3), constraints=1, slater=0.5, horizon=10).decide


def simulated() -> None:
    policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(4), cost=tr.ArmMeans(4), constraints=1, slater=0.5)
    tr.simulate(policy, tr.environments.bandit(), 5, 2, workers=1, optimum=0.0)


def swept(folder: Path) -> None:
    sizes = {"rounds": 5, "replications": 1}
    data = {"environment": {"kind": "bandit"}, "simulation": sizes, "sweep": {"policy.caution": [1.0, 3.0]}}
    sweep(make_spec(data), folder, workers=1)


def fitted() -> None:
    reward = {"model": "ensemble", "estimator": "extra-trees", "members": 2, "first": 6}
    context = {"x": {"type": "number", "min": 0, "max": 1}}
    bench = Bench(
        make_spec({"actions": ["a", "b"], "context": context, "policy": {"reward": reward}}, name="w")
    )
    for i in range(6):
        read(bench.decide({"event_id": str(i), "context": {"x": i / 6}}))
        read(bench.learn(str(i), reward=i % 2))
    bench.work()


def started(folder: Path) -> None:
    """`tightrope init` on a small table, then the service's first start."""
    draw = random.Random(0)
    lines = [
        f"{draw.choice(['letter', 'email'])},{draw.randint(0, 1)},{draw.randint(18, 80)}" for _ in range(200)
    ]
    (folder / "mail.csv").write_text("\n".join(["sent,bought,age", *lines]))
    init = [
        "init",
        "--from",
        folder / "mail.csv",
        "--rule",
        "letter <= 0.5",
        "--yes",
        "--no-open",
        "--out",
        folder / "out",
    ]
    size = ["--rounds", 40, "--replications", 2, "--workers", 1]
    assert main([str(word) for word in (*init, *size)]) == 0
    Experiment(read_spec(folder / "out" / "spec.toml"), MemoryJournal()).open()


def test_the_walks_are_the_ones_that_are_documented(tmp_path: Path) -> None:
    online()  # the first decision looks the compiled code up
    played = {
        "One online decision": walked(online),
        "One simulated round": walked(simulated),
        "One sweep cell": walked(lambda: swept(tmp_path)),
        "One table, on its way into a service": walked(lambda: started(tmp_path)),
        "One fit of an ensemble": walked(fitted),
    }
    assert set(WALKS) == {*played, "One HTTP decision"}
    assert len(WALKS["One online decision"]) == 3
    for title, called in played.items():
        seen = iter(called)
        missing = [step for step in WALKS[title] if not step[0].startswith("kernels/") and step not in seen]
        assert not missing, f"{title}: these come in this order, with others between them"


def test_what_the_walks_name_is_there() -> None:
    named = {step for walk in WALKS.values() for step in walk}
    for file, name in named:
        tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
        for part in name.split("."):
            tree = next(one for one in tree.body if getattr(one, "name", None) == part)  # type: ignore[attr-defined,assignment]


def test_what_is_named_beside_the_walks_is_there() -> None:
    [part] = re.findall(r"^## Six walks$(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    words = {word for path in SOURCE.rglob("*.py") for word in re.findall(r"\w+", path.read_text("utf-8"))}
    for named in set(re.findall(r"`([\w./]+)`", part)):
        if named.endswith(".py"):
            assert (SOURCE / named).exists() or (ROOT / named).exists(), named
        elif "/" not in named:
            assert set(named.split(".")) <= words, named


# --- the size of files ---


def test_no_file_has_two_subjects() -> None:
    """Above 700 lines it has; a long table or one CUDA kernel aside."""
    long = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if len(path.read_text(encoding="utf-8").splitlines()) > 700
    }
    assert not long
