"""Tutorials are percent scripts in `docs/tutorials`: run as notebooks, then written as Markdown with what they printed and drew.

What ran once is kept in `build/tutorials`, until the script or the package changes.
"""

from __future__ import annotations

import base64
import hashlib
import tempfile
import time
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "tutorials"
MOST_SECONDS = 120
PICTURES = {"image/svg+xml": ".svg", "image/png": ".png"}


def rendered(source: Path) -> dict[str, str | bytes]:
    """The files of a tutorial by where they are in the site: its page, its pictures and the notebook to download."""
    notebook = executed(source)
    name = source.stem
    files: dict[str, str | bytes] = {f"tutorials/{name}.ipynb": nbformat.writes(notebook)}
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            kind, text = picked(output)
            if kind in PICTURES:
                picture = f"{name}-{len(files)}{PICTURES[kind]}"
                data = text.encode() if kind == "image/svg+xml" else base64.b64decode(text)
                files[f"tutorials/{picture}"] = data
                parts.append(f"![{cell.metadata.get('alt', 'Figure')}]({picture})")
            elif kind == "text/html":
                parts.append(f'<div class="output">{text}</div>')
            elif text.strip():
                parts.append(f'```{{ .text .output }}\n{text.rstrip()}\n```')
    parts.append(
        f'*Every output and figure above was made by running this page when the site was built '
        f'({notebook.metadata["seconds"]:.0f} seconds). [Download it as a notebook]({name}.ipynb).*'
    )
    files[f"tutorials/{name}.md"] = "\n\n".join(parts) + "\n"
    return files


def executed(source: Path) -> Any:
    """The notebook with its outputs."""
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = KEPT / f"{source.stem}-{stamp(source)}.ipynb"
    if kept.exists():
        return nbformat.read(kept, as_version=4)
    notebook = jupytext.read(source)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        NotebookClient(
            notebook,
            kernel_name="python3",
            extra_arguments=["--log-level=ERROR"],
            timeout=MOST_SECONDS,
            resources={"metadata": {"path": folder}},
        ).execute()
    notebook.metadata["seconds"] = round(time.monotonic() - started, 1)
    for old in KEPT.glob(f"{source.stem}-*.ipynb"):
        old.unlink()
    nbformat.write(notebook, kept)
    return notebook


def stamp(source: Path) -> str:
    """What the outputs depend on, as far as it is in the repository."""
    digest = hashlib.sha256(source.read_bytes())
    for path in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "docs" / "start").rglob("*"), Path(__file__)]):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def picked(output: Any) -> tuple[str, str]:
    """What is shown of an output: a picture if it is one, else HTML, else text."""
    if output.output_type == "stream":
        return "text/plain", output.text
    data = output.get("data", {})
    for kind in (*PICTURES, "text/html", "text/plain"):
        if kind in data:
            return kind, data[kind]
    return "text/plain", ""
