"""Which model suits logged decisions."""

from tightrope.fitting.comparison import Comparison, Fitted, compare_models
from tightrope.fitting.fit import Fit, fit

__all__ = ["Comparison", "Fit", "Fitted", "compare_models", "fit"]
