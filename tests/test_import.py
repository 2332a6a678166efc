"""`import tightrope` stays light, and what it names is there and documented."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
import types

import pytest
from joblib.externals.loky.backend.reduction import dumps

import tightrope as tr
from tightrope.models import hooks

HEAVY = ["numpy", "numba", "highspy", "matplotlib", "scipy", "pyarrow", "sklearn"]

PROBE = """
import json, sys
import tightrope
print(json.dumps(sorted(sys.modules)))
"""


def test_import_is_light():
    """Nothing that takes long to import is loaded; how long that takes is measured by `tightrope bench start`."""
    found = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    loaded = set(json.loads(found.stdout))
    own = {name for name in loaded if name.startswith("tightrope")}
    assert own == {"tightrope", "tightrope.errors", "tightrope.version", "tightrope.words"}
    assert not [name for name in HEAVY if name in loaded]


def test_scenarios_load_their_data_when_they_are_asked_for():
    ask = "from tightrope_lab.league.scenarios import scenario; scenario('fair-jobs')"
    probe = f"import sys; {ask}; print('sklearn' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


@pytest.mark.parametrize("name", tr.__all__)
def test_every_public_name_resolves_and_is_documented(name):
    value = getattr(tr, name)
    assert name in dir(tr)
    if callable(value) or isinstance(value, types.ModuleType):
        assert (inspect.getdoc(value) or "").strip(), name
    if isinstance(value, type) and value.__module__.startswith("tightrope"):
        for attribute, member in vars(value).items():
            if not attribute.startswith("_") and (
                inspect.isfunction(member) or isinstance(member, (property, classmethod))
            ):
                # A model's hooks are documented once, by the functions that ask for them.
                asked = getattr(hooks, attribute, None) if issubclass(value, tr.Model) else None
                text = inspect.getdoc(getattr(value, attribute)) or inspect.getdoc(asked) or ""
                assert text.strip(), f"{name}.{attribute}"


def test_the_surface_is_small():
    public = [name for name in dir(tr) if not name.startswith("_")]
    assert len(public) <= 35
    assert set(public) == {name for name in tr.__all__ if not name.startswith("_")}
    tr.lp  # noqa: B018  # a module that is not listed loads, and stays unlisted
    assert dir(tr) == sorted(dir(tr))
    assert "lp" not in dir(tr)


def test_no_name_comes_twice_and_unknown_ones_are_refused():
    assert len(set(tr.__all__)) == len(tr.__all__)
    with pytest.raises(AttributeError, match="module 'tightrope' has no attribute 'nonsense'"):
        tr.nonsense  # noqa: B018


def test_a_function_that_names_the_environments_goes_to_another_process() -> None:
    environments = tr.environments

    def named():
        return environments

    assert pickle.loads(dumps(named))() is environments
