"""The form of the dashboard that changes actions and limits: it asks, then waits for a confirmation, then changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from chromium import Browser, Page
from tightrope.service import create_key
from tightrope.service.experiment import Experiment
from tightrope.service.http.app import Service
from tightrope.service.http.keys import Keys
from tightrope.service.storage.memory import MemoryJournal
from workbench import running, visit, ward


@pytest.fixture
def web() -> Iterator[httpx.Client]:
    experiment = Experiment(ward(policy={"kind": "shadow-price"}), MemoryJournal())
    experiment.open()
    experiment.warm_up()
    with running(Service([experiment])) as client:
        for i in range(20):
            assert client.post("/v1/decisions", content=visit(i)).status_code == 200
        yield client


def opened(chromium: Browser, web: httpx.Client) -> Page:
    page = chromium.page()
    page.size(1000, 800)
    page.open(f"{web.base_url}/")
    page.wait(
        "!document.getElementById('main').hidden && document.getElementById('change-which').options.length > 0"
    )
    return page


def fill(page: Page, kind: str, which: str, value: str = "") -> None:
    page.js(
        f"""(() => {{
          const kind = document.getElementById("change-kind");
          kind.value = {json.dumps(kind)};
          kind.dispatchEvent(new Event("change"));
          document.getElementById("change-which").value = {json.dumps(which)};
          document.getElementById("change-value").value = {json.dumps(value)};
        }})()"""
    )


def answered(page: Page, words: str) -> None:
    page.wait(f"document.getElementById('change-answer').innerText.includes({json.dumps(words)})")


def confirm(page: Page, answer: bool) -> None:
    page.js(f"window.confirm = (text) => ((window.asked = text), {json.dumps(answer)})")


def test_a_change_is_checked_confirmed_and_made(chromium: Browser, web: httpx.Client) -> None:
    page = opened(chromium, web)
    fill(page, "limit", "capacity icu", "0.3")
    page.js("document.getElementById('change-check').click()")
    answered(page, "It is possible: rule 'icu: at most 40% of decisions': at_most was 0.4, and now is 0.3.")
    confirm(page, False)
    page.js("document.getElementById('change').requestSubmit()")
    answered(page, "Nothing has changed.")
    assert "at_most was 0.4" in page.js("window.asked")
    assert web.get("/v1/state").json()["constraints"][0]["limit"] == 0.4
    confirm(page, True)
    page.js("document.getElementById('change').requestSubmit()")
    answered(page, "Done, entry ")
    assert web.get("/v1/state").json()["constraints"][0]["limit"] == 0.3
    page.poll()
    page.wait("document.getElementById('rules').innerText.includes('This limit has held since ')")
    # The mean so far is beside what was allowed so far, not beside the new limit.
    assert "of 20 decisions that count, at most 40.0 % under its limits so far." in page.js(
        "document.getElementById('rules').innerText"
    )
    fill(page, "pause", "surgery")
    page.js("document.getElementById('change').requestSubmit()")
    answered(page, "the action 'surgery' was active, and now is paused")
    page.poll()
    page.wait("document.getElementById('actions').innerText.includes('paused')")
    fill(page, "add", "other", "hospice")
    page.js("document.getElementById('change').requestSubmit()")
    answered(page, "the action 'hospice' is new, and begins like 'other'")
    page.poll()
    page.wait("document.getElementById('actions').innerText.includes('hospice')")
    fill(page, "limit", "capacity icu", "-1")
    page.js("document.getElementById('change').requestSubmit()")
    answered(page, "Not done: ")


def test_a_key_without_the_scope_changes_nothing(chromium: Browser, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    reader = create_key(keys, scopes=["read"], experiments=["ward"])
    experiment = Experiment(ward(), MemoryJournal())
    experiment.open()
    experiment.warm_up()
    with running(Service([experiment], keys=Keys(keys))) as web:
        page = chromium.page()
        page.open(f"{web.base_url}/")
        page.wait("!document.getElementById('key-form').hidden && document.activeElement.id === 'key'")
        page.write(reader)
        page.press("Enter", 13, text="\r")
        page.wait(
            "!document.getElementById('main').hidden && document.getElementById('change-which').options.length > 0"
        )
        fill(page, "pause", "icu")
        page.js("document.getElementById('change').requestSubmit()")
        answered(page, "Not done: this key does not have the scope 'admin'")
