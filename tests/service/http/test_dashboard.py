"""The dashboard, as its readers meet it: in Debian's Chromium without a window."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from chromium import Browser, Page
from tightrope.service import create_key
from tightrope.service.experiment import Experiment
from tightrope.service.http import dashboard
from tightrope.service.http.app import Service
from tightrope.service.http.keys import Keys
from tightrope.service.journal import JournalError
from tightrope.service.storage.memory import MemoryJournal
from tightrope.spec import Spec, make_spec
from workbench import arms, running, visit, ward

# --- what is served ---


@contextlib.contextmanager
def service(*specs: Spec, keys: Path | None = None, **options: Any) -> Iterator[httpx.Client]:
    experiments = [Experiment(spec, MemoryJournal(), **options) for spec in specs]
    for one in experiments:
        one.open()
    with running(Service(experiments, keys=None if keys is None else Keys(keys))) as client:
        yield client


@pytest.fixture(scope="module")
def web() -> Iterator[httpx.Client]:
    """Two experiments; in the first, one rule holds and one is violated."""
    with service(ward(), arms(rules=[{"kind": "share", "action": "b", "at_least": 0.2}])) as client:
        play(client, range(60))
        yield client


WARD = {"experiment": "ward"}


def play(web: httpx.Client, visits: range, **more: Any) -> None:
    """Visits of which most have an outcome, with hours well above what the rule allows."""
    for i in visits:
        assert web.post("/v1/decisions", params=WARD, content=visit(i, **more)).status_code == 200
        if i % 5:
            outcome = {"event_id": f"visit-{i}", "reward": i % 3 / 2, "usage": {"hours": 0.95}}
            assert web.post("/v1/outcomes", params=WARD, json=outcome).status_code == 200


def test_the_page_allows_nothing_from_outside(web: httpx.Client) -> None:
    answer = web.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    policy = dict(one.split(maxsplit=1) for one in answer.headers["content-security-policy"].split("; "))
    assert policy.pop("img-src") == "data:"
    assert policy.pop("default-src") == "'none'"
    assert {"'self'", "'none'"} >= set(policy.values())
    assert {"script-src", "style-src", "connect-src", "frame-ancestors", "base-uri", "form-action"} == set(
        policy
    )
    loaded = re.findall(r'(?:src|href|data-plotly)="([^"]+)"', answer.text)
    assert not [one for one in loaded if re.match(r"(https?:)?//", one)]
    assert sum(one.startswith("static/") for one in loaded) == 5
    assert web.get("/static/plotly.min.js").text.count("plotly") > 10


def test_what_was_loaded_once_is_kept(web: httpx.Client) -> None:
    names = re.findall(r'"(static/[^"]+)"', web.get("/").text)
    for path in [*names, ""]:
        first = web.get(f"/{path}")
        assert first.status_code == 200
        assert first.headers["content-encoding"] == "gzip"
        assert ("immutable" in first.headers["cache-control"]) == bool(path)
        again = web.get(f"/{path}", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert web.get(f"/{path}", headers={"If-None-Match": 'W/"other"'}).status_code == 200
        plain = web.get(f"/{path}", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.content == first.content
    # A page of an earlier release must not keep today's script for a year.
    assert web.get("/static/dashboard.js?v=0").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "name", ["dashboard.py", "dashboard.html", "app.py", "", "..%2Fapp.py", "%2e%2e/app.py"]
)
def test_nothing_else_is_served(web: httpx.Client, name: str) -> None:
    answer = web.get(f"/static/{name}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not-found")


def test_the_page_comes_without_plotly_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget() -> None:
        dashboard._load.cache_clear()
        dashboard._html.cache_clear()

    with monkeypatch.context() as patch, service(ward()) as client:
        patch.setattr("importlib.util.find_spec", lambda name: None)
        forget()
        try:
            assert "plotly.min.js?v=none" in client.get("/").text
            assert client.get("/static/plotly.min.js").status_code == 404
        finally:
            forget()


# --- what is seen ---


@pytest.fixture(scope="module")
def page(chromium: Browser, web: httpx.Client) -> Page:
    """The dashboard of the ward, loaded."""
    return opened(chromium, web)


def opened(chromium: Browser, web: httpx.Client, width: int = 1200, **options: Any) -> Page:
    tab = chromium.page()
    tab.size(width, 800, **options)
    tab.open(f"{web.base_url}/")
    tab.wait("!document.getElementById('main').hidden && document.querySelectorAll('.main-svg').length >= 5")
    return tab


def shown(number: float) -> str:
    """An amount as the page writes it."""
    size = abs(number)
    text = f"{number:.3g}" if size < 1 else f"{number:,.{2 if size < 10 else 1 if size < 1000 else 0}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")


def cards_of(page: Page, place: str = "#rules") -> list[str]:
    """The texts of the cards, without line breaks."""
    cards: list[str] = page.js(f"[...document.querySelectorAll('{place} > li')].map((one) => one.innerText)")
    return [" ".join(card.split()) for card in cards]


def test_it_tells_what_the_state_says(page: Page, web: httpx.Client) -> None:
    state = web.get("/v1/state", params=WARD).json()
    cards = cards_of(page)
    assert len(cards) == len(state["constraints"]) == 2
    for constraint in state["constraints"]:
        [card] = [one for one in cards if constraint["rule"] in one]
        violated = constraint["cumulative_cost"] > 0
        assert card.startswith("✕ Violated" if violated else "✓ Holds")
        used, allowed, left = (shown(constraint[name]) for name in ("used", "allowed", "left"))
        last = f"Over by {left[1:]}" if violated else f"Left {left}"
        assert f"Used {used} Allowed {allowed} {last}" in card
        assert f"Queue {shown(constraint['queue'])}" in card
    assert {" ".join(one.split()[:2]) for one in cards} == {"✕ Violated", "✓ Holds"}
    assert page.text("#verdict").startswith("1 of 2 rules is violated: hours")
    assert page.js("document.title").startswith("✕ ward")
    assert page.text("#mode") == "● Live"

    outcomes = state["outcomes"]
    assert page.text("#decisions") == str(state["decisions"])
    assert page.text("#reward") == f"{outcomes['mean_reward']:.3f}"
    for kind in ("pending", "late", "missing", "rejected"):
        assert page.text(f"#{kind}") == str(outcomes[kind])
    rows = page.js(
        "[...document.querySelectorAll('#actions tbody tr')].map((row) => [...row.cells].map((one) => one.innerText.trim()))"
    )
    assert [row[:3] for row in rows] == [
        [one["name"], str(one["decisions"]), f"{100 * one['share']:.1f} %"] for one in state["actions"]
    ]


def test_it_draws_the_history(page: Page, web: httpx.Client) -> None:
    history = web.get("/v1/history", params=WARD).json()
    state = web.get("/v1/state", params=WARD).json()
    for chart in ("costs-chart", "queues-chart"):
        drawn = page.js(
            f"document.getElementById('{chart}').data.map((one) => [one.name, [...one.x], [...one.y]])"
        )
        assert [one[0] for one in drawn] == list(history["queues"])
        for (name, x, y), constraint in zip(drawn, state["constraints"], strict=True):
            assert x == [0, *history["decisions"], state["decisions"]]
            if chart == "queues-chart":
                assert y == [0, *history["queues"][name], constraint["queue"]]
                continue
            room = zip(
                [*history["left"][name], constraint["left"]],
                [*history["allowed"][name], constraint["allowed"]],
                strict=True,
            )
            assert y == [None, *(100 * left / allowed if allowed else None for left, allowed in room)]
    shares = page.js("document.getElementById('shares-chart').data.map((one) => [...one.y])")
    assert len(shares) == 3
    assert all(abs(sum(column) - 100) < 1e-9 for column in zip(*shares, strict=True))
    reward = page.js("[...document.getElementById('reward-chart').data[1].y].at(-1)")
    assert reward == pytest.approx(state["outcomes"]["mean_reward"])
    rates = page.js(
        "(({x, y}) => [[...x].map((one) => +new Date(one) / 1000), [...y]])(document.getElementById('rate-chart').data[0])"
    )
    if rates[0]:
        total = sum(rate * (b - a) for a, b, rate in zip(rates[0], rates[0][1:], rates[1]))
        assert total == pytest.approx(state["decisions"], rel=0.02)


def test_it_explains_decisions(page: Page, web: httpx.Client) -> None:
    newest = web.get("/v1/decisions", params={**WARD, "limit": 10}).json()["decisions"]
    listed = page.js("[...document.querySelectorAll('#list button')].map((one) => one.dataset.key)")
    assert listed == [one["event_id"] for one in newest]
    page.js("document.querySelectorAll('#list button')[3].click()")
    wanted = newest[3]
    assert not page.js("document.getElementById('follow').checked")
    page.wait("document.querySelector('#why').innerText.includes('Outcome')")
    table = page.js(
        "[...document.querySelectorAll('#why tbody tr')].map((row) => [...row.cells].map((one) => one.innerText.trim()))"
    )
    ranked = sorted(wanted["explanation"]["actions"], key=lambda row: -row["value"])
    assert [row[1:3] for row in table] == [
        [f"{row[name]:.3f}".replace("-", "−") for name in ("value", "reward")] for row in ranked
    ]
    assert table[0][0].startswith(f"→ {wanted['name']}")
    # What the rules add or take off is what makes the value of the reward.
    for row in table:
        value, reward, *effects = [float(one.replace("−", "-")) for one in row[1:]]
        assert reward + sum(effects) == pytest.approx(value, abs=0.003)
    words = page.text("#why")
    assert f"{wanted['name']} has the highest value" in words
    assert wanted["event_id"] in words

    page.js("document.getElementById('event').focus()")
    page.write("visit-1")
    page.press("Enter", 13, text="\r")
    page.wait("document.querySelector('#why').innerText.includes('visit-1')")
    assert "reward 0.5" in page.text("#why")
    page.js(
        "document.getElementById('event').value = 'visit-none'; document.getElementById('find').requestSubmit()"
    )
    page.wait("document.getElementById('find-error').innerText.includes('No decision was made')")


# Two rules on one action that exclude each other, as far as what comes to be seen shows: `dear` always uses more than its limit.
PRICED = {
    "name": "priced",
    "actions": ["dear", "cheap", "free"],
    "rule": [
        {"kind": "capacity", "action": "dear", "at_most": 0.3},
        {"kind": "budget", "name": "minutes", "at_most": 10.0, "range": [0, 40]},
        {"kind": "budget", "name": "heat", "at_most": 0.25},
    ],
}


@pytest.fixture(scope="module")
def priced() -> Iterator[httpx.Client]:
    """The default policy: of its rules one binds, and one can't be met by anything on offer."""
    with service(make_spec(PRICED)) as client:
        for i in range(130):
            usage = {"minutes": [25.0, 15.0, 0.0], "heat": [0.5, 0.5, 0.5]}
            decided = client.post("/v1/decisions", json={"event_id": f"v-{i}", "usage": usage}).json()
            reward = {"dear": 9.0, "cheap": 5.0, "free": 1.0}[decided["name"]] + i % 3
            client.post("/v1/outcomes", json={"event_id": f"v-{i}", "reward": reward})
        yield client


def test_prices_and_what_cannot_be_met_are_shown(chromium: Browser, priced: httpx.Client) -> None:
    state, history = priced.get("/v1/state").json(), priced.get("/v1/history").json()
    assert state["policy"] == "shadow-price"
    assert [one["infeasible"] for one in state["constraints"]] == [False, False, True]
    for one, scale in zip(state["constraints"], (1.0, 40.0, 1.0), strict=True):
        assert one["queue"] == pytest.approx(scale * one["price"])
        assert history["queues"][one["name"]] == pytest.approx(
            [scale * price for price in history["prices"][one["name"]]]
        )
    page = opened(chromium, priced)
    for card, constraint, unit in zip(
        sorted(
            cards_of(page), key=lambda card: [c["rule"] in card for c in state["constraints"]], reverse=True
        ),
        state["constraints"],
        ("decision for dear", "minute", "unit of heat"),
        strict=True,
    ):
        felt = f"One more {unit} would earn about {shown(constraint['price'])}."
        assert constraint["rule"] in card
        assert (felt in card) == (constraint["price"] > 0 and not constraint["infeasible"])
        assert ("This limit makes no difference now" in card) == (constraint["price"] == 0)
        assert ("▲ Can't be met" in card) == constraint["infeasible"]
    assert (
        "this can't be met along with the other rules: heat: at most 0.25 per decision on average"
        in page.text("#notices")
    )
    assert page.text("#queues-title") == "Prices"
    drawn = page.js(
        "document.getElementById('queues-chart').data.map((one) => [one.name, [...one.y].at(-1)])"
    )
    assert dict(drawn) == {one["name"]: one["price"] for one in state["constraints"]}


# Cents under a hard cap, shares, and a mean of a group that is seen after acting: each in a unit of its own.
COUPONS = {
    "name": "coupons",
    "actions": ["none", "small", "large"],
    "rule": [
        {
            "kind": "budget",
            "name": "cents",
            "at_most": 9.0,
            "range": [0, 20],
            "usage": {"none": 0, "small": 5, "large": 20},
            "hard": True,
            "total": 402,
        },
        {"kind": "share", "action": "none", "at_least": 0.1},
        {
            "kind": "mean",
            "name": "nurse_hours",
            "at_most": 0.6,
            "seen": "after",
            "among": "old",
            "range": [0, 2],
        },
    ],
}


@pytest.fixture(scope="module")
def coupons(chromium: Browser) -> Iterator[tuple[Page, dict[str, Any]]]:
    """The cap is used up after some fifty decisions of 130."""
    with service(make_spec(COUPONS)) as web:
        for i in range(130):
            group = ["old"] if i % 2 else []
            decided = web.post("/v1/decisions", json={"event_id": f"e-{i}", "group": group}).json()
            outcome = {
                "reward": {"none": 0.1, "small": 0.4, "large": 0.9}[decided["name"]],
                "usage": {"nurse_hours": 0.5},
            }
            web.post("/v1/outcomes", json={"event_id": f"e-{i}", **outcome})
        page = opened(chromium, web)
        page.wait("document.getElementById('rules-lead').innerText.includes('remembered decisions')")
        yield page, web.get("/v1/state").json()


def test_a_used_up_cap_is_in_the_headline(coupons: tuple[Page, dict[str, Any]]) -> None:
    page, state = coupons
    [cap] = state["hard_caps"]
    withheld = cap["withheld"]
    assert page.text("#verdict") == "A hard cap is used up: cents. All 3 rules hold on average."
    assert page.js("document.title").startswith("! coupons")
    assert page.text("#verdict-sign") == "!"
    [notice, *_] = page.js("[...document.querySelectorAll('#notices li')].map((one) => one.innerText)")
    assert f"{cap['used']:.0f} of 402 cents" in notice
    assert f"decision {withheld['sequence']}." in notice
    assert f"large in all {withheld['decisions']} decisions since then" in notice
    assert "In the newest decision only none was left" in notice
    before, since = withheld["mean_reward_before"], withheld["mean_reward_since"]
    assert f"The mean reward was {before:.3f} before that, and has been {since:.3f} since." in notice
    [card] = cards_of(page, "#caps")
    assert card.startswith("✕ Used up")
    assert notice in card


def test_rules_speak_in_units_of_their_own(coupons: tuple[Page, dict[str, Any]]) -> None:
    page, state = coupons
    cents, none, hours = cards_of(page)
    spent = sum(n["decisions"] * use for n, use in zip(state["actions"], (0, 5, 20), strict=True))
    assert (
        f"cents cents: at most 9 per decision on average Used {spent} Allowed 1,170 Left {1170 - spent:,}"
        in cents
    )
    had = state["actions"][0]["decisions"]
    assert f"Had {had} Required 13 To spare {had - 13}" in none
    assert f"{100 * had / 130:.1f} % of 130 decisions that count, at least 10 %." in none
    assert "nurse hours" in hours
    assert (
        "Used 32.5 Allowed 39 Left 6.5 0.5 nurse hours per decision over 65 decisions, at most 0.6, as far as"
        in hours
    )
    # A rule far from its limit has a bar as long as what was used of it.
    widths = page.js(
        "[...document.querySelectorAll('#rules .bar > span')].map((one) => parseFloat(one.style.width))"
    )
    assert widths == pytest.approx([100 * spent / 1170, 100, 100 * 32.5 / 39])
    assert page.js("document.querySelectorAll('#rules .bar.full').length") == 0
    worth = {"reward": 0.5, "rounds": 900, "rules": [{"name": "cents", "without": 0.625}]}
    told = page.js(f"tightropeWords.worthWords({json.dumps(worth)}, {{name: 'cents', price: 0.1}})")
    assert told == (
        "In the long run it costs about 0.125 per decision (20.0 %): the best choices earn about 0.625 without it and 0.5 with it."
    )


def test_what_a_queue_means_and_what_was_never_chosen(chromium: Browser) -> None:
    rules = [
        {"kind": "capacity", "action": "a", "at_most": 0.05},
        {
            "kind": "budget",
            "name": "nurse_hours",
            "at_most": 6,
            "range": [0, 40],
            "usage": {"a": 0, "b": 4, "c": 5},
        },
    ]
    policy = {"kind": "pessimistic-optimistic", "slater": 0.02}
    with service(
        make_spec({"name": "queues", "actions": ["a", "b", "c"], "rule": rules, "policy": policy})
    ) as web:
        for i in range(110):
            action = web.post("/v1/decisions", json={"event_id": f"e-{i}"}).json()["action"]
            web.post("/v1/outcomes", json={"event_id": f"e-{i}", "reward": (0.9, 0.2, 0.5)[action]})
        page = opened(chromium, web)
        assert page.text("#verdict") == "All 2 rules hold."
        assert page.text("#verdict-sign") == "!"
        notices = page.text("#notices")
        assert (
            "Reward hardly counts in the choices now: the pressure of capacity a and nurse_hours is far greater"
            in notices
        )
        assert "c was never chosen in 110 decisions, on offer in 110." in notices
        assert "the rules put it " in notices
        assert (
            " behind that one, mostly because of “nurse_hours: at most 6 per decision on average”" in notices
        )
        for card in cards_of(page):
            assert (
                "this rule decides, and reward hardly counts. The rule itself has room, but the queue also counts ε ="
                in card
            )
            assert "Left" in card
        assert page.js("document.querySelectorAll('#rules .bar.full').length") == 0
        # On a phone every number of the table of reasons can be seen.
        page.size(390, 844, mobile=True)
        page.wait("document.documentElement.clientWidth === 390")
        cut = page.js(
            "[...document.querySelectorAll('#why tbody th, #why tbody td')].map((one) => one.getBoundingClientRect())"
            ".filter((box) => box.width === 0 || box.right > 390).length"
        )
        assert cut == 0
        titles = page.js(
            "[...document.querySelectorAll('#why tbody td')].map((one) => getComputedStyle(one, '::before').content)"
        )
        assert {'"Value"', '"Reward hoped for"', '"nurse_hours"'} <= set(titles)


def test_probabilities_of_recent_decisions_are_shown(chromium: Browser, priced: httpx.Client) -> None:
    newest = priced.get("/v1/decisions", params={"limit": 10}).json()["decisions"]
    page = opened(chromium, priced)
    listed = page.js("[...document.querySelectorAll('#list button')].map((one) => one.innerText)")
    some = [i for i, one in enumerate(newest) if one["probability"] < 1.0]
    assert some, "a policy that draws"
    for i in some:
        assert f"with {100 * newest[i]['probability']:.1f} %" in listed[i]
    page.js(f"document.querySelectorAll('#list button')[{some[0]}].click()")
    page.wait("document.querySelector('#why').innerText.includes('Outcome')")
    one = newest[some[0]]
    heads = page.js("[...document.querySelectorAll('#why thead th')].map((one) => one.innerText)")
    rows = page.js(
        "[...document.querySelectorAll('#why tbody tr')].map((row) => [...row.cells].map((one) => one.innerText.trim()))"
    )
    at = [head.casefold() for head in heads].index("probability")
    shown = {row[0].removeprefix("→ ").split()[0]: row[at] for row in rows}
    for name, probability in one["probabilities"].items():
        few = "less than 0.1 %" if 0 < probability < 0.001 else f"{100 * probability:.1f} %"
        assert shown[name] == few
    words = page.text("#why")
    assert f"{one['name']} was drawn, with a probability of" in words
    assert all(line in words for line in one["explanation"]["words"])
    assert any(line.startswith("price of minutes") for line in one["explanation"]["words"])


def test_it_follows_what_happens(chromium: Browser) -> None:
    with service(ward()) as web:
        page = opened_empty(chromium, web)
        assert "No decisions yet" in page.text("#verdict")
        assert "Nothing counted yet" in page.text("#rules")
        play(web, range(30))
        page.wait("document.getElementById('decisions').innerText === '30'")
        page.wait("/per second|per minute/.test(document.getElementById('rate').innerText)")
        assert web.post("/v1/mode", json={"mode": "shadow", "default": "other"}).status_code == 200
        play(web, range(30, 31))
        page.poll()
        page.wait("document.getElementById('mode').innerText === '◐ Shadow: “other” is served'")
        page.wait("document.getElementById('why').innerText.includes('Shadow mode: other was served')")
        assert web.post("/v1/mode", json={"mode": "paused"}).status_code == 200
        page.poll()
        page.wait("document.getElementById('mode').innerText === '❚❚ Paused: no decisions'")
        assert web.post("/v1/mode", json={"mode": "live"}).status_code == 200
        # Icu alone is on offer until its share is above the limit.
        play(web, range(31, 90), actions=["icu"])
        page.poll()
        page.wait("document.getElementById('verdict').innerText.includes('icu: at most 40% of decisions')")
        page.wait("document.getElementById('why').innerText.includes('the only action on offer')")


def opened_empty(chromium: Browser, web: httpx.Client) -> Page:
    tab = chromium.page()
    tab.size(1000, 800)
    tab.open(f"{web.base_url}/")
    tab.wait("!document.getElementById('main').hidden")
    return tab


def test_outcomes_that_went_wrong_are_listed_as_text(chromium: Browser) -> None:
    hostile = "<img src=x onerror=document.title='broken'>"
    now = [1000.0]
    with service(ward(), clock=lambda: now[0], expire_after=60.0) as web:
        assert web.post("/v1/decisions", content=visit(1, event_id=hostile)).status_code == 200
        now[0] += 100.0
        assert web.post("/v1/decisions", content=visit(2)).status_code == 200
        assert web.post("/v1/outcomes", json={"event_id": hostile, "reward": 1}).status_code == 410
        # More rejected ones than a page of the list, so that the late one is on another.
        for i in range(25):
            assert web.post("/v1/outcomes", json={"event_id": f"nobody-{i}", "reward": 1}).status_code == 404
        page = opened_empty(chromium, web)
        for status, expected in (
            ("late", hostile),
            ("missing", hostile),
            ("pending", "visit-2"),
            ("rejected", "nobody-24"),
        ):
            page.js(f"document.querySelector('[data-status={status}]').click()")
            page.wait(
                f"document.querySelector('#outcomes tbody')?.innerText.includes({json.dumps(expected)})"
            )
        assert page.js("document.querySelectorAll('#outcomes tbody tr').length") == 20
        page.js("document.getElementById('more').click()")
        page.wait("document.querySelectorAll('#outcomes tbody tr').length === 25")
        assert hostile in page.text("#list")
        assert page.js("document.querySelectorAll('main img').length") == 0
        assert page.js("document.title") != "broken"


def test_experiments_can_be_chosen_by_keyboard(chromium: Browser, web: httpx.Client) -> None:
    page = opened(chromium, web)
    page.press("Tab", 9)
    assert page.js("document.activeElement.className") == "skip"
    page.press("Enter", 13, text="\r")
    page.wait("document.activeElement.id === 'main'")
    page.js("document.getElementById('experiment').focus()")
    page.press("ArrowDown", 40)
    page.wait("document.getElementById('title').innerText === 'arms'")
    assert page.js("location.hash") == "#experiment=arms"
    assert "b: at least 20% of decisions" in page.text("#rules")
    assert "icu" not in page.text("main")
    assert page.js("document.activeElement.id") == "experiment"
    page.js("location.hash = 'experiment=ward'")
    page.wait("document.getElementById('title').innerText === 'ward'")


def test_the_focus_stays_while_the_list_moves(chromium: Browser) -> None:
    with service(ward()) as web:
        play(web, range(4))
        page = opened_empty(chromium, web)
        page.js("document.querySelectorAll('#list button')[0].focus()")
        play(web, range(4, 6))
        page.poll()
        page.wait("document.querySelectorAll('#list button').length === 6")
        assert page.js("document.activeElement.dataset.key") == "visit-3"


def test_it_says_when_the_service_is_out_of_reach(page: Page) -> None:
    offline = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    assert page.js("document.getElementById('trouble').hidden")
    page.call("Network.emulateNetworkConditions", offline=True, **offline)
    page.poll()
    page.wait("!document.getElementById('trouble').hidden")
    assert page.text("#trouble").startswith("The service can't be reached. What you see is from")
    assert page.text("#connection").startswith("Not connected; next try at")
    assert page.text("#mode") == "– Not known now"
    assert page.text("#title") == "ward"
    page.call("Network.emulateNetworkConditions", offline=False, **offline)
    page.poll()
    page.wait("document.getElementById('trouble').hidden && document.title.startsWith('✕')")


class FullDisk(MemoryJournal):
    """A journal that can't be written for a while."""

    full = False

    def append(self, *arguments: Any, **options: Any) -> None:
        self.probe()
        super().append(*arguments, **options)

    def probe(self) -> None:
        if self.full:
            raise JournalError("no space left")


def test_it_says_when_no_decisions_can_be_taken(chromium: Browser) -> None:
    journal = FullDisk()
    one = Experiment(ward(), journal)
    one.open()
    with running(Service([one])) as web:
        play(web, range(3))
        page = opened_empty(chromium, web)
        journal.full = True
        assert web.post("/v1/decisions", content=visit(99)).status_code == 503
        page.poll()
        page.wait(
            "document.getElementById('trouble').innerText.includes(\"ward: The journal can't be written\")"
        )
        journal.full = False
        while web.get("/v1/state").status_code == 503:
            time.sleep(0.1)
        page.poll()
        page.wait("document.getElementById('trouble').hidden")


def test_a_key_is_asked_for_and_kept_in_the_tab_alone(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    reader = create_key(path, scopes=["read"], experiments=["ward"])
    caller = create_key(path, scopes=["decide"])
    with service(ward(), arms(), keys=path) as web:
        page = chromium.page()
        page.open(f"{web.base_url}/")
        page.wait("!document.getElementById('key-form').hidden && document.activeElement.id === 'key'")
        assert page.js("document.getElementById('main').hidden")
        for wrong, answer in (
            ("tr_0_nothing", "This key is not known here"),
            (caller, "does not have the scope 'read'"),
            ("ключ", "no special"),
        ):
            page.write(wrong)
            page.press("Enter", 13, text="\r")
            page.wait(f"document.getElementById('key-error').innerText.includes({json.dumps(answer)})")
            page.wait("!document.getElementById('key-form').hidden")
            page.js("document.getElementById('key').value = ''")
        page.write(reader)
        page.press("Enter", 13, text="\r")
        page.wait("!document.getElementById('main').hidden && document.activeElement.id === 'main'")
        assert page.text("#title") == "ward"
        # What the key does not open is not even named.
        assert page.js("[...document.getElementById('experiment').options].map((one) => one.value)") == [
            "ward"
        ]
        assert page.js("[localStorage.length, document.cookie, sessionStorage.length]") == [0, "", 1]
        assert reader not in page.js("document.documentElement.outerHTML + location.href")
        page.js("window.before = true")
        page.call("Page.reload")
        page.wait("!window.before && document.getElementById('title')?.innerText === 'ward'")
        page.js("document.getElementById('forget').click()")
        page.wait("!document.getElementById('key-form').hidden && document.getElementById('main').hidden")
        assert page.js("sessionStorage.length") == 0
        sent = page.events("Network.requestWillBeSent")
        assert not [one for one in sent if reader in one["request"]["url"]]


# The ratio of luminances of each text to what is behind it, where it is below what WCAG 2 asks for.
CONTRAST = """(() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const [r, g, b, a = 1] = parts(getComputedStyle(at).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const one of document.body.querySelectorAll(":not(svg *):not(script)")) {
    const text = [...one.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join("");
    if (!text || !one.checkVisibility() || one.closest(".unseen, .skip, noscript, option")) continue;
    const style = getComputedStyle(one);
    const [a, b] = [light(parts(style.color)), light(behind(one))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push([text, ratio]);
  }
  return poor;
})()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_can_be_read_on_a_small_screen(chromium: Browser, web: httpx.Client, dark: bool) -> None:
    page = opened(chromium, web, 360, dark=dark, mobile=True)
    assert page.js("document.documentElement.scrollWidth") <= 360
    wide = page.js(
        "[...document.querySelectorAll('main *:not(svg *)')]"
        ".filter((one) => one.checkVisibility() && !one.closest('.scroll, .unseen, .chart')"
        " && one.getBoundingClientRect().right > 360.5).map((one) => one.outerHTML.slice(0, 90))"
    )
    assert wide == []
    assert page.js(CONTRAST) == []
    back = page.js("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(back) < 150) == dark
    small = page.js(
        "[...document.querySelectorAll('button, select')].filter((one) => one.checkVisibility())"
        ".map((one) => one.getBoundingClientRect().height).filter((height) => height < 32)"
    )
    assert small == []


def test_everything_has_a_name_for_screen_readers(page: Page) -> None:
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    named: dict[str, list[str]] = {}
    for node in nodes:
        if not node.get("ignored"):
            named.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
    for role in (
        "button",
        "link",
        "checkbox",
        "combobox",
        "textbox",
        "image",
        "region",
        "heading",
        "searchbox",
    ):
        assert all(one.strip() for one in named.get(role, [])), (role, named[role])
    assert len(named["image"]) == 5
    assert any("Closest to its limit" in one for one in named["image"])
    assert {"main", "banner", "table"} <= set(named)
    assert page.js("document.documentElement.lang") == "en"


def test_no_errors_and_no_strangers(chromium: Browser, web: httpx.Client) -> None:
    page = opened(chromium, web)
    page.js("document.querySelector('[data-status=pending]').click()")
    page.wait("!document.getElementById('outcomes-box').hidden")
    assert page.events("Runtime.exceptionThrown") == []
    assert [
        one for one in page.events("Runtime.consoleAPICalled") if one["type"] in ("error", "warning")
    ] == []
    requests = [one["request"]["url"] for one in page.events("Network.requestWillBeSent")]
    assert len(requests) > 6
    assert [one for one in requests if not one.startswith((str(web.base_url), "data:"))] == []
    assert [one["entry"]["text"] for one in page.events("Log.entryAdded")] == []


def test_limits_per_window_show_the_keys_that_are_closest_to_them(chromium: Browser) -> None:
    rule = {"kind": "budget", "name": "cost", "at_most": 2, "per": "day", "by": "user", "hard": True}
    late = {**rule, "seen": "after", "usage": {"a": 0.5, "none": 0}}
    with service(make_spec({"name": "windows", "actions": ["a", "none"], "rule": [late]})) as web:
        for user, times in (("ann", 4), ("bob", 1)):
            for i in range(times):
                body = {"event_id": f"{user}-{i}", "keys": {"user": user}, "actions": ["a"]}
                web.post("/v1/decisions", json=body)
        web.post("/v1/outcomes", json={"event_id": "ann-0", "usage": {"cost": 0.5}})
        page = opened(chromium, web)
        page.wait("!document.getElementById('windows-section').hidden")
        ann, bob = cards_of(page, "#windows")
    assert ann.startswith("✕ Used up")
    assert "cost per day by user: ann" in ann
    assert "2 of 2 cost, 1.5 of it reserved, 0 left, until" in ann
    assert bob.startswith("✓ Within")
    assert "0.5 of 2 cost, 0.5 of it reserved, 1.5 left, until" in bob


def test_it_shows_the_control_group_and_what_contexts_lacked(chromium: Browser) -> None:
    context = {"age": {"type": "number", "min": 0, "max": 100, "missing": 40}}
    tables = {"context": context, "holdout": {"share": 0.4, "by": "user", "baseline": "other"}}
    with service(ward(**tables, sticky={"by": "user", "for": "7d"})) as web:
        for i in range(120):
            body = {
                "event_id": f"v{i}",
                "context": {} if i % 2 else {"age": 5},
                "keys": {"user": f"u{i % 90}"},
            }
            assert web.post("/v1/decisions", json=body).status_code == 200
            outcome = {"event_id": f"v{i}", "reward": i % 3 / 2, "usage": {"hours": 0.5}}
            web.post("/v1/outcomes", json=outcome)
        tab = opened(chromium, web)
        lift = web.get("/v1/lift").json()
        assert f"{lift['users']['control']} in the control group" in tab.text("#lift-lead")
        assert "always other" in tab.text("#lift-lead")
        rows = tab.js(
            "[...document.querySelectorAll('#lift tbody tr')].map((row) => [...row.cells].map((one) => one.innerText.trim()))"
        )
        measures = [lift["reward"], *lift["rules"]]
        assert [row[0] for row in rows] == ["reward", *(one["rule"] for one in lift["rules"])]
        for row, one in zip(rows, measures, strict=True):
            assert row[1:4] == [shown(one[name]) for name in ("policy", "control", "lift")]
            known = "too few yet" if one["low"] is None else f"{shown(one['low'])} to {shown(one['high'])}"
            assert row[4] == known
        assert any(one["low"] is not None for one in measures)
        assert "age: 60 values were missing and replaced by 40." in tab.text("#notices")
        assert "repeats decision" in tab.text("#list")


def test_without_a_control_group_there_is_no_such_part(page: Page) -> None:
    assert page.js("document.getElementById('lift-section').hidden")
