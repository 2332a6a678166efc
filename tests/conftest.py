"""What every test has: how Hypothesis searches, pytest's explanations in the modules that tests share, and a browser."""

from __future__ import annotations

from collections import Counter
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


# Files that wait for servers, browsers and other processes more than they compute, the longest first.
WAITING = (
    "service/test_takeovers.py",
    "sweeps/test_engines_ray.py",
    "service/test_faults.py",
    "service/http/test_dashboard.py",
    "service/http/test_app.py",
    "clients/test_client.py",
    "clients/test_typescript.py",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several workers share the files, those that wait are spread among those that compute, and short ones come last."""
    if not hasattr(config, "workerinput"):
        return
    tests = Counter(item.path for item in items)
    files = sorted(tests, key=lambda path: -tests[path])
    waiting = [path for name in WAITING for path in files if path.as_posix().endswith(f"tests/{name}")]
    places = {path: float(i) for i, path in enumerate(path for path in files if path not in waiting)}
    places |= {path: 12.0 * i - 0.5 for i, path in enumerate(waiting)}
    items.sort(key=lambda item: places[item.path])


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
