"""A kind of rule that a user writes in a file of their own works wherever the built-in ones do."""

from __future__ import annotations

import inspect
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import tightrope as tr
from tightrope.environments.build import environment_of
from tightrope.ledger.hard_caps import hard_caps
from tightrope.rules import RULE_KINDS, DecisionRule, Rules, register
from tightrope.rules.rule import ChosenActions, Groups, Name, ShareOfDecisions, When
from tightrope.service.experiment.configuration import served_part
from tightrope.spec import SpecError, make_spec, read_spec


@dataclass(frozen=True, repr=False)
class Band(DecisionRule):
    """An action gets a share of the decisions that lies in a band: two columns of costs."""

    action: ChosenActions
    at_least: ShareOfDecisions
    at_most: ShareOfDecisions
    among: Groups | None = field(default=None, kw_only=True)
    seen: When = field(default="before", kw_only=True)
    name: Name | None = field(default=None, kw_only=True)


SPEC = """
actions = ["icu", "surgery", "other"]
[[rule]]
kind = "band"
action = "icu"
at_least = 0.1
at_most = 0.3
"""


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register("band")(Band)
    yield
    del RULE_KINDS["band"]


def test_in_a_set_of_rules() -> None:
    rules = Rules([Band("a", 0.25, 0.5), tr.Capacity("b", 0.5)], actions=["a", "b"])
    assert str(rules).startswith("a: at least 25% and at most 50% of decisions\n")
    assert rules.names == ("band a at most", "band a at least", "capacity b")
    np.testing.assert_array_equal(rules.costs(), [[0.5, -0.75, -0.5], [-0.5, 0.25, 0.5]])


def test_its_conflicts_are_found() -> None:
    with pytest.raises(tr.InfeasibleProblem, match="'a: at least 25% and at most 50% of decisions' and"):
        Rules([Band("a", 0.25, 0.5), tr.Share("b", 0.9)], actions=["a", "b"])


def test_as_plain_data_and_pickled() -> None:
    rules = Rules([Band(["a", "b"], 0.25, 0.5, among="A", name="both")], actions=["a", "b", "c"])
    again = Rules.from_data(json.loads(json.dumps(rules.to_data())), rules.actions)
    assert rules.names == ("both at most", "both at least")
    assert again == rules == pickle.loads(pickle.dumps(rules))
    assert repr(rules[0]) == "Band(('a', 'b'), at_least=0.25, at_most=0.5, among='A', name='both')"


def test_in_a_spec_with_an_environment_and_a_hard_cap() -> None:
    spec = read_spec(
        SPEC
        + 'hard = true\ntotal = 5\n[environment]\nkind = "tabular"\nweights = [1.0]\nrewards = [[0.1, 0.2, 0.3]]'
    )
    assert list(spec.rules or ()) == [Band("icu", 0.1, 0.3)]
    assert environment_of(spec).n_constraints == 2
    [cap] = hard_caps(spec)
    assert (cap.name, cap.allowed) == ("icu: at least 10% and at most 30% of decisions", 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"at_most": 1.5}, r"rule\[0\]\.at_most: must lie in \[0, 1\]"),
        ({"action": "icuu"}, r"rule\[0\]\.action: unknown action 'icuu' \(did you mean 'icu'\?\)"),
        (
            {"atmost": 0.5},
            r"rule\[0\]\.atmost: unknown field \(did you mean 'at_most'\?\); allowed: kind, action",
        ),
        ({"usage": {"icu": 1.0}}, r"rule\[0\]\.usage: unknown field"),
    ],
)
def test_mistakes_in_a_spec_are_named(change: dict[str, object], message: str) -> None:
    rule = {"kind": "band", "action": "icu", "at_least": 0.1, "at_most": 0.3, **change}
    with pytest.raises(SpecError, match=message):
        make_spec({"actions": ["icu", "other"], "rule": [rule]})


def test_a_name_is_taken_once_and_data_need_one() -> None:
    with pytest.raises(tr.InvalidInput, match="rule 'capacity' is already registered"):
        register("capacity")(Band)
    unregistered = dataclass(frozen=True, repr=False)(type("Loose", (Band,), {}))
    with pytest.raises(tr.InvalidInput, match=r"Loose must be registered under a name"):
        unregistered("a", 0.1, 0.2).to_data()


def test_what_a_kind_must_be_is_told() -> None:
    @dataclass(frozen=True, repr=False)
    class Bare(DecisionRule):
        action: ChosenActions
        at_most: ShareOfDecisions

    with pytest.raises(tr.InvalidInput, match="Bare must have a field `among`, as every Rule"):
        Bare("a", 0.5)


def test_from_a_file_that_the_spec_names(tmp_path: Path) -> None:
    """Nobody has registered it: the spec says where it is."""
    source = inspect.getsource(Band)
    imports = "from dataclasses import dataclass, field\n\nfrom tightrope.rules import DecisionRule\n"
    imports += "from tightrope.rules.rule import ChosenActions, Groups, Name, ShareOfDecisions, When\n\n\n"
    (tmp_path / "bands.py").write_text(imports + source)
    (tmp_path / "wards.toml").write_text(SPEC.replace('"band"', '"bands.py:Band"'))
    spec = read_spec(tmp_path / "wards.toml", trust=True)
    assert spec.rules is not None
    assert spec.rules.names == ("band icu at most", "band icu at least")
    again = Rules.from_data(json.loads(json.dumps(spec.rules.to_data())), spec.rules.actions)
    assert again == spec.rules
    replayed = make_spec(served_part(spec))
    assert replayed.rules == spec.rules
    (tmp_path / "wards.toml").write_text(SPEC.replace('"band"', '"bands.py:Bnd"'))
    with pytest.raises(SpecError, match=r"rule\[0\]\.kind: rule 'bands.py:Bnd': bands.py has no class 'Bnd'"):
        read_spec(tmp_path / "wards.toml", trust=True)
