"""Every sentence of the README and of docs/why.md is held to its word by a test, or says nothing that could be false."""

from __future__ import annotations

import importlib
import re

import pytest

from readme_claims import CLAIMS, plain, sentences

# What there is, where it comes from and where to read on.
_SAID = """
Learn to decide under rules that hold over time.
Route patients to wards without overfilling one, spread jobs fairly, pace a budget, keep a trial safe, and learn what works best while doing so.
Tightrope is a Python package, a command line, a simulator and a decision service.
Nothing to set.
Rules in words.
Prices.
Exact.
Any model.
An oracle.
No silence.
A shop may spend 250 cents per customer on coupons, and one customer in ten gets none.
Extras only when needed.
print(decision.explain()) says why the last patient went there.
Install has the wheels and the extras.
Why believe it has the rest, and says how each claim is tested.
Every sentence of this page and of the README is held to its word by a test: it is a statement that a test checks, or it says nothing that could be false.
On a fresh machine with Python 3.11 or newer.
Measured on two cores: make reproduce takes about three minutes the first time, most of it to compile; later about one.
Python 3.11 or newer.
Apache-2.0.
The hospital's calibrated numbers come from Diabetes 130-US Hospitals for Years 1999–2008 (Clore, Cios, DeShazo, Strack 2014, UCI Machine Learning Repository, CC BY 4.0); see docs/hospital.md.
"""  # noqa: E501
# What stands between two parts of a sentence.
JOINING = {"and", "in", "the", "of", "it"}
NO_CLAIMS = [plain(line) for line in _SAID.strip().splitlines()]


@pytest.fixture(autouse=True, scope="module")
def all_claims() -> None:
    for name in ("sixty_seconds", "promises", "allocation", "service", "commands", "league"):
        importlib.import_module(f"readme.test_{name}")


@pytest.mark.parametrize("sentence", sentences())
def test_it_has_a_test(sentence: str) -> None:
    """All of it: what no test quotes may hold no more than a reference in brackets, or words that join two parts."""
    if sentence in NO_CLAIMS or any(sentence.rstrip(".:") in quote for quote in CLAIMS):
        return
    left = sentence
    for quote in sorted(CLAIMS, key=len, reverse=True):
        left = left.replace(quote, " ")
    words = re.sub(r"\([^()]*\)", " ", left).translate(str.maketrans("", "", ".,:;()")).split()
    assert set(words) <= JOINING, f"no test holds the page to: {' '.join(words)!r} in {sentence!r}"


def test_nothing_is_listed_that_no_page_says() -> None:
    assert set(NO_CLAIMS) <= set(sentences())
