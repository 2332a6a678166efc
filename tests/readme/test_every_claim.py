"""Every sentence of the README is held to its word by a test, or says nothing that could be false."""

from __future__ import annotations

import importlib

import pytest

from readme_claims import CLAIMS, plain, sentences

# What there is, where it comes from and where to read on.
NO_CLAIMS = [
    plain(line)
    for line in """
""".strip().splitlines()
]


@pytest.fixture(autouse=True, scope="module")
def all_claims() -> None:
    for name in ("sixty_seconds", "promises", "service", "commands", "league"):
        importlib.import_module(f"readme.test_{name}")


@pytest.mark.parametrize("sentence", sentences())
def test_it_has_a_test(sentence: str) -> None:
    covered = any(quote in sentence or sentence.rstrip(".:") in quote for quote in CLAIMS)
    assert covered or sentence in NO_CLAIMS, f"no test holds the README to: {sentence}"


def test_nothing_is_listed_that_the_readme_does_not_say() -> None:
    assert set(NO_CLAIMS) <= set(sentences())
