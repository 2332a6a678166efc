"""The README and docs/why.md as sentences, and which test holds each of them to its word."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

_ROOT = Path(__file__).resolve().parents[1]
README, WHY, COMMANDS = (
    (_ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/why.md", "docs/commands.md")
)
CLAIMS: dict[str, list[str]] = {}

Test = TypeVar("Test", bound=Callable[..., None])


def claim(*quotes: str) -> Callable[[Test], Test]:
    """The decorated test fails if one of these sentences of a page, or parts of sentences, is false."""

    def keep(test: Test) -> Test:
        for quote in quotes:
            assert any(plain(quote) in plain(page) for page in (README, WHY, COMMANDS)), (
                f"no page says: {quote}"
            )
            CLAIMS.setdefault(plain(quote), []).append(test.__name__)
        return test

    return keep


def plain(text: str) -> str:
    """Without markdown, on one line."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(re.sub(r"[*`]", "", text).split())


def sentences() -> list[str]:
    """All that the README and docs/why.md say outside of code, tables, headings and pictures."""
    text = re.sub(r"^```.*?^```", "", f"{README}\n\n{WHY}", flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(#|\||!\[).*$", "", text, flags=re.MULTILINE)
    found = []
    for block in re.split(r"\n\s*\n|\n(?=- )|\n(?=\d+\. )", text):
        said = plain(re.sub(r"^\s*(-|\d+\.)\s+", "", block.strip()))
        found += re.split(r"(?<=[.!?])\s+(?=[A-Z])", said) if said else []
    return found
