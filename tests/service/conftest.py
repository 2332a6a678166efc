"""What the tests of the service are given. What they share beside fixtures is in `workbench` and `faults`."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

pytest.register_assert_rewrite("workbench")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """After trouble an experiment tries at once to get its journal back."""
    monkeypatch.setattr("tightrope.service.experiment.experiment._RETRY_SECONDS", 0)


@pytest.fixture(autouse=True)
def _state_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads of journals in databases are kept for each test alone: another server may be at the same port later."""
    folder = tmp_path_factory.getbasetemp() / f"state-{secrets.token_hex(4)}"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))


@pytest.fixture
def quiet() -> Iterator[None]:
    """Errors of the disk are logged; some tests cause hundreds."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    """A PostgreSQL server of our own."""
    from faults.database import Server

    server = Server()
    yield server
    server.remove()
