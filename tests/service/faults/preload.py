"""Imported once by the process from which services are forked: everything is loaded and compiled when it has been."""

from __future__ import annotations

import uvicorn.lifespan.on
import uvicorn.protocols.http.auto  # noqa: F401

import tightrope.service.http.server
import tightrope.service.storage.sqlite  # noqa: F401
from tightrope.service.experiment import Experiment
from tightrope.service.storage.memory import MemoryJournal
from workbench import measured, ward

for _spec in (ward(), measured()):
    Experiment(_spec, MemoryJournal()).warm_up()
