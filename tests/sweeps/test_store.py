"""Parts on disk: one writer, and damage that is named."""

from __future__ import annotations

import pytest

from sweep_tools import GRID, spec_of
from tightrope.errors import TightropeError
from tightrope.sweeps import sweep
from tightrope.sweeps.store import Store


def test_one_sweep_at_a_time_in_a_folder(tmp_path):
    with Store(tmp_path, ()).held(), pytest.raises(TightropeError, match="another sweep is writing"):
        sweep(spec_of(GRID), tmp_path, workers=1)
    assert sweep(spec_of(GRID), tmp_path, workers=1).ran == 6


def test_a_damaged_part_is_named(tmp_path):
    sweep(spec_of(GRID), tmp_path, workers=1)
    part = next((tmp_path / "cells").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(TightropeError, match=part.name):
        sweep(spec_of(GRID), tmp_path, workers=1)
    part.unlink()
    assert 0 < sweep(spec_of(GRID), tmp_path, workers=1).ran < 6
