"""A spec that runs in no time."""

import pytest

from cli_tools import SMALL


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return str(path)
