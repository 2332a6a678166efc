"""Ensembles of any estimators."""

from __future__ import annotations

from tightrope.models import Ensemble, Model
from tightrope.testing import ModelSuite


class TestForest(ModelSuite):
    def make(self) -> Model:
        return Ensemble("extra-trees", 3, 2, members=4)


class TestBoosting(ModelSuite):
    def make(self) -> Model:
        return Ensemble("boosted-trees", 3, 2, members=3, refit="now")


class TestNetworks(ModelSuite):
    def make(self) -> Model:
        return Ensemble("mlp", 3, 2, members=3)
