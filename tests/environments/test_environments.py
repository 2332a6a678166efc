"""The package gives its names when they are first used."""

from __future__ import annotations

import pytest

import tightrope as tr


class TestPackage:
    def test_functions_survive_the_import_of_their_modules(self) -> None:
        import importlib

        for name in ("bandit", "synthetic", "hospital"):
            module = importlib.import_module(f"tightrope.environments.{name}")
            assert getattr(tr.environments, name) is getattr(module, name)

    def test_unknown_names(self) -> None:
        assert {"Tabular", "bandit", "hospital", "synthetic"} <= set(dir(tr.environments))
        with pytest.raises(AttributeError, match="no attribute 'casino'"):
            _ = tr.environments.casino  # type: ignore[attr-defined]
