"""What MkDocs does not do by itself: tutorials are run and become pages, and what pages link to outside `docs/` comes along.

A file of the repository `a/b.py` is the page `repository/a/b.py.md` of the site, one in Markdown keeps its name; links follow.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

import tutorials

ROOT = Path(__file__).resolve().parents[2]
MIRROR = "repository"
# In the menu whether linked to or not.
PROJECT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")
LANGUAGES = {
    ".py": "python",
    ".toml": "toml",
    ".json": "json",
    ".ts": "typescript",
    ".sh": "bash",
    ".yml": "yaml",
    ".yaml": "yaml",
}
PICTURES = (".png", ".svg", ".jpg")
FENCE = re.compile(r"^( *)(`{3,})[^\n]*\n.*?^\1\2`*[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=(?:#[^)\s]*)?\))")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Tutorials as pages with what they printed and drew, and every file of the repository that a page links to."""
    for source in [
        file for file in files if file.src_uri.startswith("tutorials/") and file.src_uri.endswith(".py")
    ]:
        files.remove(source)
        for uri, content in tutorials.rendered(ROOT / "docs" / source.src_uri).items():
            files.append(File.generated(config, uri, content=content))
    found = set(PROJECT)
    for file in files.documentation_pages():
        found |= outside(file.content_string, posixpath.join("docs", file.src_uri))
    waiting, seen = sorted(found), set(found)
    while waiting:
        path = waiting.pop()
        if path.endswith(PICTURES):
            files.append(File.generated(config, site_uri(path), abs_src_path=str(ROOT / path)))
            continue
        content = page_of(path)
        files.append(File.generated(config, site_uri(path), content=content))
        more = outside(content, path) - seen if path.endswith(".md") else set()
        seen |= more
        waiting += sorted(more)
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Links as the site has them."""
    own = repository_path(page.file.src_uri)
    here = posixpath.dirname(page.file.src_uri)

    def follow(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(own), match[0]))
        if not (ROOT / target).is_file():
            return match[0]  # a page that is made here, or a dead link, which MkDocs refuses
        return posixpath.relpath(site_uri(target), here or ".")

    return outside_fences(markdown, lambda text: LINK.sub(follow, text))


def outside(markdown: str, own: str) -> set[str]:
    """The files outside `docs/` that a page links to, as paths in the repository."""
    found: set[str] = set()

    def note(text: str) -> str:
        for target in LINK.findall(text):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(own), target))
            if not path.startswith("docs/") and (ROOT / path).is_file():
                found.add(path)
        return text

    outside_fences(markdown, note)
    return found


def outside_fences(markdown: str, change: Any) -> str:
    """The text with everything but its fenced blocks changed."""
    parts, at = [], 0
    for block in FENCE.finditer(markdown):
        parts += [change(markdown[at : block.start()]), block[0]]
        at = block.end()
    return "".join([*parts, change(markdown[at:])])


def site_uri(path: str) -> str:
    """Where a file of the repository is in the site."""
    if path.startswith("docs/"):
        uri = path.removeprefix("docs/")
        return (
            uri.removesuffix(".py") + ".md" if uri.startswith("tutorials/") and uri.endswith(".py") else uri
        )
    return f"{MIRROR}/{path}" if path.endswith((".md", *PICTURES)) else f"{MIRROR}/{path}.md"


def repository_path(uri: str) -> str:
    """Where a page of the site is in the repository."""
    if not uri.startswith(f"{MIRROR}/"):
        return posixpath.join("docs", uri)
    path = uri.removeprefix(f"{MIRROR}/")
    return path if (ROOT / path).is_file() else path.removesuffix(".md")


def page_of(path: str) -> str:
    """A file of the repository as a page."""
    try:
        text = (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PluginError(f"{path} is linked to, and is no text") from error
    if path.endswith(".md"):
        return text
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"# {path}\n\n{fence}{LANGUAGES.get(Path(path).suffix, 'text')}\n{text.rstrip()}\n{fence}\n"
