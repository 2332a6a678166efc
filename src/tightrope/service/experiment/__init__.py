"""One experiment: its state and its journal, and the threads that change and read them."""

from __future__ import annotations

from tightrope.service.experiment.batch import Batch, Op
from tightrope.service.experiment.experiment import Experiment

__all__ = ["Batch", "Experiment", "Op"]
