"""The words of reports, explained in `glossary.toml`, and links to where a page explains them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection
from functools import cache
from importlib import resources
from typing import NamedTuple


class Word(NamedTuple):
    """A word of reports: its title, the phrases in texts that link to it (longest first), and its meaning."""

    title: str
    meaning: str
    mentions: tuple[str, ...] = ()


@cache
def glossary() -> dict[str, Word]:
    file = resources.files(__package__).joinpath("glossary.toml")
    entries = tomllib.loads(file.read_text(encoding="utf-8"))
    return {name: Word(**{"title": name, **entry}) for name, entry in entries.items()}


def place_of(name: str) -> str:
    return "word-" + name.lower().replace(" ", "-")


def with_links(text: str, words: Collection[str], told: set[str]) -> str:
    """Markup in which the first mention of each word links to its explanation; words in `told` are already linked."""
    for name in words:
        mentions = glossary()[name].mentions
        if name in told or not mentions:
            continue
        pattern = re.compile(rf"(?<![\w{{/])({'|'.join(map(re.escape, mentions))})(?![\w_{{])", re.IGNORECASE)
        # Skip code and existing links.
        parts = re.split(r"(`[^`]*`|\[[^\]]*\]\([^)]*\))", text)
        for i in range(0, len(parts), 2):
            parts[i], n = pattern.subn(rf"[\1](#{place_of(name)})", parts[i], count=1)
            if n:
                told.add(name)
                break
        text = "".join(parts)
    return text
