"""Tutorials are percent scripts in `docs/tutorials`: run as notebooks, then written as Markdown with what they printed and drew.

What ran once is kept in `build/tutorials`, until the script or the package changes.
"""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "tutorials"
MOST_SECONDS = 900  # a cell, on a machine that has compiled nothing yet
# Figures are drawn the same everywhere.
SETUP = """
import matplotlib_inline.backend_inline as inline
import matplotlib.pyplot as plt
inline.set_matplotlib_formats("svg")
plt.rcParams.update({"figure.figsize": (8.0, 3.2), "figure.constrained_layout.use": True, "axes.grid": True, "grid.alpha": 0.3,
                     "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "tightrope"})
"""
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
                parts.append(f'<div class="output">\n{as_block(text)}\n</div>')
            elif text.strip():
                parts.append(f"```{{ .text .output }}\n{text.rstrip()}\n```")
    parts.append(
        f"*Every output and figure above was made by running this page when the site was built "
        f"({notebook.metadata['seconds']:.0f} seconds). [Download it as a notebook]({name}.ipynb).*"
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
    notebook.cells.insert(0, nbformat.v4.new_code_cell(SETUP))
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
    del notebook.cells[0]
    notebook.metadata["seconds"] = round(time.monotonic() - started, 1)
    for old in KEPT.glob(f"{source.stem}-*.ipynb"):
        old.unlink()
    nbformat.write(notebook, kept)
    return notebook


def stamp(source: Path) -> str:
    """What the outputs depend on, as far as it is in the repository."""
    digest = hashlib.sha256(source.read_bytes())
    for path in sorted(
        [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs" / "start").rglob("*"), Path(__file__)]
    ):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def as_block(html: str) -> str:
    """HTML as Markdown leaves it alone: without blank lines, and tables with the looks of the site."""
    html = re.sub(r"<style scoped>.*?</style>", "", html, flags=re.DOTALL)
    html = html.replace(' border="1" class="dataframe"', "").replace(' style="text-align: right;"', "")
    return "\n".join(line for line in html.splitlines() if line.strip())


def picked(output: Any) -> tuple[str, str]:
    """What is shown of an output: a picture if it is one, else HTML, else text."""
    if output.output_type == "stream":
        return "text/plain", output.text
    data = output.get("data", {})
    for kind in (*PICTURES, "text/html", "text/plain"):
        if kind in data:
            return kind, data[kind]
    return "text/plain", ""
