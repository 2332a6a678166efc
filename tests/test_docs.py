"""Every code block of README and docs runs, or says why not; links and anchors lead somewhere; every page is in the site's menu."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import yaml

import tightrope as tr
from tightrope.cli import app
from tightrope.spec import make_spec

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "benchmarks").glob("*.md"))]
TUTORIALS = sorted((DOCS / "tutorials").glob("*.py"))
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Above a block, unseen on the page: `<!-- not run: why -->`, or `<!-- run after: names that the page takes for granted -->`.
BLOCK = re.compile(
    r"(?:^<!-- (not run|run after): (.*?) -->\n)?^```([a-z]*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
COMMANDS = ("", "bash", "console")
MODULES = tuple(
    f"tightrope.{name}" for name in ("environments", "models", "offpolicy", "policies", "service")
)


class Block(NamedTuple):
    """A fenced block: its language, its text, the line it begins in, and what the page says about running it."""

    language: str
    text: str
    line: int
    not_run: str
    before: str


def blocks(page: Path, *languages: str) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for one in BLOCK.finditer(text):
        said, why, language, body = one.groups()
        before = why if said == "run after" else ""
        found.append(
            Block(
                language, body, text[: one.start()].count("\n") + 1, why if said == "not run" else "", before
            )
        )
    return [one for one in found if one.language in languages]


def plain_python(page: Path) -> list[Block]:
    """Blocks that no doctest reaches."""
    return [one for one in blocks(page, "python") if ">>> " not in one.text]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the examples in it, as readers have it."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- blocks ---


@pytest.mark.parametrize("page", [p for p in PAGES if ">>> " in p.read_text(encoding="utf-8")], ids=name)
def test_examples_run(page: Path, place: Path) -> None:
    failed, attempted = doctest.testfile(str(page), module_relative=False, optionflags=OPTIONS)
    assert attempted > 0
    assert failed == 0


@pytest.mark.parametrize("page", [p for p in PAGES if plain_python(p)], ids=name)
def test_python_without_prompts_runs(page: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    names: dict[str, Any] = {"__name__": "page"}
    for block in plain_python(page):
        if not block.not_run:
            exec(compile(block.before, f"before {page}", "exec"), names)
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "toml")], ids=name)
def test_specs_are_read(page: Path, place: Path) -> None:
    """A part of a spec is put into one that has the rest."""
    for block in blocks(page, "toml"):
        if not block.not_run:
            make_spec({"name": "page", "actions": ["icu", "other"], **tomllib.loads(block.text)})


def commands(page: Path) -> Iterator[tuple[int, str]]:
    """Commands in blocks for a shell, ours and curl; of `[a|b]` in a synopsis the first, as if it had been chosen."""
    for block in blocks(page, *COMMANDS):
        prompt = "$ " if block.language == "console" else ""
        for i, line in enumerate(block.text.replace("\\\n", " ").splitlines()):
            if not block.not_run and line.startswith((f"{prompt}tightrope ", f"{prompt}curl ")):
                line = line.removeprefix(prompt)
                if line.startswith("tightrope "):
                    line = re.sub(r"\|[\w|-]+", "", re.sub(r"[\[\]]", "", line))
                for one in line.replace(", tightrope ", "\0tightrope ").split("\0"):
                    yield block.line + i + 1, one


@pytest.mark.parametrize("page", [p for p in PAGES if any(commands(p))], ids=name)
def test_commands_and_their_options_exist(page: Path) -> None:
    for line, command in commands(page):
        program, *words = shlex.split(command, comments=True)
        words = words[: next((i for i, word in enumerate(words) if word in (">", "|", "&", "2>&1")), None)]
        if program == "curl":
            for flag, body in pairwise(words):
                assert flag != "-d" or json.loads(body), f"{name(page)}:{line}"
            continue
        try:
            app.parse_args(words, print_error=False, exit_on_error=False)
        except Exception as error:
            pytest.fail(f"{name(page)}:{line}: {command}: {error}")


def test_what_is_not_run_says_why() -> None:
    """A reason is a sentence, and few blocks need one."""
    left_out = [
        (page, one) for page in PAGES for one in blocks(page, "python", "toml", *COMMANDS) if one.not_run
    ]
    assert all(len(one.not_run.split()) >= 4 for _, one in left_out), left_out
    assert len(left_out) <= 15
    shown = {one[2] for page in PAGES for one in BLOCK.findall(page.read_text(encoding="utf-8"))}
    # TypeScript is that of docs/clients.md, which its own test runs.
    assert shown <= {"", "python", "pycon", "toml", "bash", "console", "text", "typescript"}, (
        "a language that nobody checks"
    )


def test_from_a_table_to_a_spec_takes_fifteen_lines(place: Path) -> None:
    """What the tutorial counts: the lines that a user writes between a DataFrame and `tightrope serve`."""
    text = (DOCS / "tutorials" / "coupons.py").read_text(encoding="utf-8")
    [cell] = re.findall(r'^# %% tags=\["from-table-to-service"\]\n(.*?)^# %%', text, re.MULTILINE | re.DOTALL)
    lines = [line for line in cell.splitlines() if line.strip()]
    assert len(lines) <= 15
    exec(cell, {})
    from tightrope.service.experiment import Experiment, Op
    from tightrope.service.http.handlers import decide
    from tightrope.service.requests import DecisionRequest
    from tightrope.service.storage.memory import MemoryJournal
    from tightrope.spec import read_spec

    experiment = Experiment(read_spec("coupons.toml"), MemoryJournal())
    experiment.open()
    asked = DecisionRequest(event_id="c-1", context={"age": 31, "visits": 1, "member": "no"})
    [answer] = experiment.process([Op(decide, asked)])
    assert answer.status == 200
    assert json.loads(answer.body)["name"] in ("none", "delivery", "five", "ten")


def test_the_table_of_coupons_is_what_its_script_makes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    made = importlib.import_module("make_coupons").rows()
    lines = (ROOT / "examples" / "coupons.csv").read_text(encoding="utf-8").splitlines()
    assert lines == [",".join(made[0]), *(",".join(map(str, row.values())) for row in made)]


# --- links ---


def anchors(page: Path) -> set[str]:
    """The headings' anchors, as the site and the usual viewers of Markdown make them."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower().strip()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        repeated = (
            next((f"{slug}_{i}" for i in range(1, 99) if f"{slug}_{i}" not in found), "")
            if slug in found
            else ""
        )
        found |= {slug, repeated} - {""}
    return found


@pytest.mark.parametrize("page", [*PAGES, *OTHERS, *TUTORIALS], ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
    for target, anchor in re.findall(
        r"\]\(([^)#\s]*)#?([^)\s]*)\)", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    ):
        if re.match(r"[a-z]+:", target):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.is_file(), f"{name(page)} links to {target}"
        if anchor and file.suffix in (".md", ".py"):
            assert anchor in anchors(file), f"{name(page)} links to {target}#{anchor}"


# --- the site ---


class _Loader(yaml.SafeLoader):
    """Leaves names of Python objects alone."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)


def menu(entries: Any) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for inside in entry.values():
                yield from [inside] if isinstance(inside, str) else menu(inside)


@pytest.fixture(scope="module")
def site() -> dict[str, Any]:
    return dict(yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader))


def test_every_page_is_in_the_menu(site: dict[str, Any]) -> None:
    listed = list(menu(site["nav"]))
    assert len(listed) == len(set(listed))
    ours = {one for one in listed if not one.startswith("repository/")}
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    made = {f"tutorials/{path.stem}.md" for path in TUTORIALS}
    assert ours == pages | made, "mkdocs.yml lists what there is, and nothing else"
    assert all((ROOT / one.removeprefix("repository/")).is_file() for one in set(listed) - ours)


def test_nothing_of_the_site_comes_from_the_network(site: dict[str, Any]) -> None:
    assert site["theme"]["font"] is False
    assert "offline" in site["plugins"]
    assert not re.search(r"https?://", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    for own in (*site["extra_css"], *site["extra"]["polyfills"]):
        assert not re.search(r"https?://|@import", (DOCS / own).read_text(encoding="utf-8"))


def test_the_reference_has_every_public_name() -> None:
    listed = {
        one
        for page in (DOCS / "reference").glob("*.md")
        for one in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M)
    }
    public = {f"tightrope.{one}" for one in tr.__all__ if not isinstance(getattr(tr, one), ModuleType | str)}
    objects = {id(resolved(one)) for one in listed}
    for module in (*MODULES, "tightrope_lab.theory"):
        home = importlib.import_module(module)
        names = {one for one in home.__all__ if callable(getattr(home, one))}
        public |= {f"{module}.{one}" for one in names if id(getattr(home, one)) not in objects}
    assert not public - listed, "add `::: NAME` to a page in docs/reference"


def resolved(dotted: str) -> Any:
    module, _, attribute = dotted.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


# --- pins ---


def pins_of(file: str) -> dict[str, str]:
    """The pinned versions by name; every line is one of them, or one of its hashes."""
    text = (ROOT / "requirements" / file).read_text().replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        pin, *hashes = line.split()
        assert hashes, f"{file}: {pin} has no hash"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), line
        assert re.fullmatch(r"[A-Za-z0-9_.-]+(\[[a-z,]+\])?==[^\s/]+", pin), pin
        name, version = pin.split("==")
        found[name.lower().replace("_", "-")] = version
    return found


@pytest.mark.parametrize("file", ["lock.txt", "docs.txt", "service.txt", "build.txt"])
def test_pinned_versions_have_hashes_and_name_no_index(file: str) -> None:
    assert len(pins_of(file)) > 4


def test_what_both_files_pin_is_the_same_version() -> None:
    lock = pins_of("lock.txt")
    for other in ("docs.txt", "service.txt", "build.txt"):
        assert all(lock[one] == version for one, version in pins_of(other).items() if one in lock)
    for part in ("service.txt", "build.txt"):
        assert pins_of(part).keys() <= lock.keys()
