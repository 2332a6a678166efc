"""TOML that reads back as it was."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_tools import EXAMPLES
from tightrope.errors import InvalidInput
from tightrope.toml import dumps

_scalars = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.datetimes()
    | st.dates()
)


_values = st.recursive(
    _scalars,
    lambda one: (
        st.lists(one, max_size=4) | st.dictionaries(st.text("ab.\"'= \n#é\x7f", max_size=4), one, max_size=3)
    ),
)


@settings(max_examples=150)
@given(st.dictionaries(st.text('abc._- \\"[]é', max_size=5), _values, max_size=5))
def test_toml_is_read_back_as_it_was(data):
    assert tomllib.loads(dumps(data)) == data


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_examples_survive_being_written(path):
    data = tomllib.loads(path.read_text())
    assert tomllib.loads(dumps(data)) == data


def test_toml_refuses_what_it_can_not_hold():
    with pytest.raises(InvalidInput, match="NoneType"):
        dumps({"a": None})


def test_plain_values_come_first_and_tables_within_tables_stay_on_one_line():
    policy = {"slater": 0.1, "reward": {"bonus": 0.5}}
    text = dumps({"rule": [{"kind": "share"}], "policy": policy, "name": "beds"})
    rule, table = '[[rule]]\nkind = "share"\n', "[policy]\nslater = 0.1\nreward = { bonus = 0.5 }\n"
    assert text == f'name = "beds"\n\n{rule}\n{table}'
