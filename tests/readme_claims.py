"""The README as sentences, and which test holds each of them to its word."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
CLAIMS: dict[str, list[str]] = {}

Test = TypeVar("Test", bound=Callable[..., None])


def claim(*quotes: str) -> Callable[[Test], Test]:
    """The decorated test fails if one of these sentences of the README, or parts of sentences, is false."""

    def keep(test: Test) -> Test:
        for quote in quotes:
            assert plain(quote) in plain(README), f"the README does not say: {quote}"
            CLAIMS.setdefault(plain(quote), []).append(test.__name__)
        return test

    return keep


def plain(text: str) -> str:
    """Without markdown, on one line."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(re.sub(r"[*`]", "", text).split())


def sentences() -> list[str]:
    """All that the README says outside of code, tables, headings and pictures."""
    text = re.sub(r"^```.*?^```", "", README, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(#|\||!\[).*$", "", text, flags=re.MULTILINE)
    found = []
    for block in re.split(r"\n\s*\n|\n(?=- )|\n(?=\d+\. )", text):
        said = plain(re.sub(r"^\s*(-|\d+\.)\s+", "", block.strip()))
        found += re.split(r"(?<=[.!?])\s+(?=[A-Z])", said) if said else []
    return found
