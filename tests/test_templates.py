"""Templates: what is escaped, what is refused, and when Jinja is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tightrope import templates


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of templates."""
    (tmp_path / "templates_of_a_test").mkdir()
    (tmp_path / "templates_of_a_test" / "page.html").write_text("<p>{{ words }}</p>\n")
    (tmp_path / "templates_of_a_test" / "page.md").write_text("*{{ words }}*: {{ 12345.6 | thousands }}\n")
    monkeypatch.syspath_prepend(tmp_path)
    return "templates_of_a_test"


def test_html_is_escaped_and_markdown_is_not(package: str) -> None:
    assert templates.render(f"{package}/page.html", words="a < b") == "<p>a &lt; b</p>\n"
    assert templates.render(f"{package}/page.md", words="a < b") == "*a < b*: 12,346\n"


def test_a_name_that_is_not_given_is_an_error(package: str) -> None:
    with pytest.raises(Exception, match="'words' is undefined"):
        templates.render(f"{package}/page.html")


def test_jinja_is_loaded_with_the_first_page() -> None:
    ask = "import sys, tightrope.report, tightrope.sweeps; print('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True).stdout == b"False\n"
