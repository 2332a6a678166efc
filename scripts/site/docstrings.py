"""Examples in docstrings stand between paragraphs, without fences: the reference gets them as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)


class Fenced(griffe.Extension):
    """Fences around every example of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """One module, class, function or attribute of the package."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(docstring: str) -> str:
    r"""The text with fences around its examples.

    >>> print(fenced("Adds.\n\n>>> 1 + 1\n2\n\nThat is all."))
    Adds.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    That is all.
    """
    return EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", docstring)
