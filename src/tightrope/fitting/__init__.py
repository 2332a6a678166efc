"""Which model suits logged decisions."""

from tightrope.fitting.comparison import Comparison, Fitted, compare_models
from tightrope.fitting.recommendation import Fit, fit

__all__ = ["Comparison", "Fit", "Fitted", "compare_models", "fit"]
