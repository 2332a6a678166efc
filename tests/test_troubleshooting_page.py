"""docs/troubleshooting.md quotes messages as the source says them, and has every code that the service answers."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "tightrope"
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
ANSWERED = {
    (int(status), code) for status, code in re.findall(r"^\| (\d{3}) \| `([\w-]+)` \|", PAGE, re.MULTILINE)
}


def text_of(node: ast.expr) -> str | None:
    """A text as a reader sees it, with … for what is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"(?<!\{)\{\w+(?:!\w)?\}", "…", node.value)
    if isinstance(node, ast.JoinedStr):
        parts = [text_of(one) if isinstance(one, ast.Constant) else "…" for one in node.values]
        return "".join(part or "" for part in parts)
    return None


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


@cache
def texts() -> str:
    """All that the source says, one text a line, without docstrings."""
    found = []
    for tree in trees().values():
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            text_of(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.expr) and id(node) not in docstrings
        ]
    return "\n".join(re.sub(r"[`'\"]", "", one) for one in found if one)


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_is_in_the_source(message: str) -> None:
    said = re.sub(r"[`'\"]", "", message)
    assert any(one in texts() for one in (said, said.strip("… "), said.removeprefix("must "))), message


def test_a_message_that_nobody_says_is_noticed() -> None:
    assert len(QUOTED) > 40
    assert "decision … was never made: this policy has made …" in texts()
    assert "decision … was never made: that policy has made …" not in texts()


def answered_in_the_source() -> set[tuple[int, str]]:
    """Status and code of every refusal that the service makes with both written out."""
    found = set()
    for path, tree in trees().items():
        if "service" not in path.parts:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and len(node.args) >= 3:
                first, second = node.args[:2]
                if (
                    isinstance(first, ast.Constant)
                    and isinstance(first.value, int)
                    and isinstance(second, ast.Constant)
                    and isinstance(second.value, str)
                ):
                    found.add((first.value, second.value))
    return found


def test_every_code_of_the_service_is_on_the_page() -> None:
    made = answered_in_the_source()
    assert {(409, "differs"), (429, "rate"), (503, "paused")} <= made
    assert made <= ANSWERED, "add a row to docs/troubleshooting.md"
    said = {
        node.value for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.Constant)
    }
    assert {code for _, code in ANSWERED} <= said
