"""What every test has: how Hypothesis searches, and pytest's explanations in the modules that tests share."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("workbench")

# Compiled code makes the first example slow, so no example has a deadline; what takes longer says so itself.
settings.register_profile(
    "tightrope", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tightrope")
