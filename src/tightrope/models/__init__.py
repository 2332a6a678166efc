"""Models of a reward or of costs, one per file, all known by name in `MODELS`."""

from tightrope.models.arm_means import ArmMeans
from tightrope.models.auto import Auto
from tightrope.models.disjoint_ridge import DisjointRidge
from tightrope.models.ensemble import Ensemble
from tightrope.models.features import Features
from tightrope.models.linear import Linear
from tightrope.models.logistic import Logistic
from tightrope.models.model import MODELS, Model, model_from_settings, register
from tightrope.models.ridge import Ridge
from tightrope.models.standardised import Standardised

__all__ = ["MODELS", "ArmMeans", "Auto", "DisjointRidge", "Ensemble", "Features", "Linear", "Logistic"]
__all__ += ["Model", "Ridge", "Standardised", "model_from_settings", "register"]
