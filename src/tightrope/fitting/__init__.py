"""Which model suits logged decisions."""

from tightrope.fitting.comparison import Comparison, Fitted, compare
from tightrope.fitting.recommendation import Fit, compare_models

__all__ = ["Comparison", "Fit", "Fitted", "compare", "compare_models"]
