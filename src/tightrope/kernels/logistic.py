"""Logistic regression, one outcome at a time: Laplace's approximation of the posterior, carried on as a ridge model's Σ and b.

Before an outcome y at row x, the logit ⟨θ, x⟩ is taken to be N(m, h), m = ⟨θ̂, x⟩, h = xᵀΣ⁻¹x. The mode of the posterior
lies on the line θ̂ + αΣ⁻¹x, so there is one number to find: the logit t with t = m + h(y − σ(t)). There the likelihood has the
curvature v = σ(t)(1 − σ(t)), and in place of y the pseudo-outcome t + (y − σ(t))/v, learnt with weight v by `ridge_learn`, moves θ̂
to that very mode and Σ to Σ + v·xxᵀ. Whatever keeps a ridge model right (refreshes, forgetting) serves this one too.
"""

from __future__ import annotations

import math

from tightrope.kernels import layout
from tightrope.kernels.compile import kernel
from tightrope.kernels.linear_algebra import inner, quadratic_form
from tightrope.kernels.models import ridge_learn

# Below this curvature an outcome says nothing.
LEAST_CURVATURE = 1e-12
STEPS = 60
CLOSE = 1e-12


@kernel
def sigmoid(t):
    """1/(1 + e^−t), without overflow."""
    if t >= 0.0:
        return 1.0 / (1.0 + math.exp(-t))
    e = math.exp(t)
    return e / (1.0 + e)


@kernel
def posterior_logit(m, h, y):
    """t = m + h(y − σ(t)), by Newton steps between bounds: the left side minus the right side rises with t."""
    t = m + h * (y - sigmoid(m))
    low, high = min(m, t), max(m, t)
    t = m
    for _ in range(STEPS):
        p = sigmoid(t)
        gap = t - m - h * (y - p)
        if gap > 0.0:
            high = t
        else:
            low = t
        step = t - gap / (1.0 + h * p * (1.0 - p))
        step = step if low < step < high else 0.5 * (low + high)
        if abs(step - t) <= CLOSE * (1.0 + abs(t)):
            return step
        t = step
    return t


@kernel
def learn(flat, g, Z, z, y, offset, weight, room):
    """Learn one outcome y in [0, 1] at row Z[z] by block g, with logits ⟨θ̂, x⟩ + offset; returns whether the block is worn.

    weight: how much an outcome learnt now counts. The row is overwritten; room has p + 1 numbers.
    """
    _, p, _, theta, inverse, _, _, _ = layout.ridge_parts(flat)
    m = inner(flat, theta + g * p, Z, z, p) + offset
    h = weight * max(0.0, quadratic_form(flat, inverse + g * p * p, Z, z, p))
    t = posterior_logit(m, h, y)
    mean = sigmoid(t)
    v = max(LEAST_CURVATURE, mean * (1.0 - mean))
    root = math.sqrt(v * weight)
    room[p] = root * (t - offset + (y - mean) / v)
    for i in range(p):
        Z[z + i] *= root
    return ridge_learn(flat, g, Z, z, room, p, room, 0)
