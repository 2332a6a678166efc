"""What every test has: how Hypothesis searches, pytest's explanations in the modules that tests share, and a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from chromium import Browser, browser, without_chromium

pytest.register_assert_rewrite("workbench")

# Compiled code makes the first example slow, so no example has a deadline; what takes longer says so itself.
settings.register_profile(
    "tightrope", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tightrope")


@pytest.fixture(scope="session", autouse=True)
def _own_state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the service keeps for its user between runs is kept for these alone."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
        yield


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser without a window; who asks for one is skipped where there is none."""
    problem = without_chromium()
    if problem:
        pytest.skip(problem)
    with browser(tmp_path_factory.mktemp("chromium")) as one:
        yield one
