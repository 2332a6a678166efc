"""Pages from templates: files beside the modules that fill them, named by package and file.

Text in HTML is escaped, unless it is already HTML; other files, such as Markdown, take text as it is. A template can
`{% extends "tightrope.templates/base.html" %}`, and import the macros of any other. Jinja is loaded with the first page.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def render(name: str, /, **data: Any) -> str:
    """A filled template; a name that it uses but does not get is an error."""
    return _environment().get_template(name).render(data)


def macros(name: str, /, **names: Any) -> Any:
    """The macros of a template as functions that return HTML; `names` are what they may use beside their arguments."""
    return _environment().get_template(name, globals=names).module


@cache
def _environment() -> Environment:
    import jinja2

    def load(name: str) -> str:
        package, _, file = name.partition("/")
        return resources.files(package).joinpath(file).read_text(encoding="utf-8")

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(load),
        autoescape=jinja2.select_autoescape(("html",)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["thousands"] = lambda value: f"{value:,.0f}"
    return environment
