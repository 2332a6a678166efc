"""`tightrope examples`: the specs, tables and programs that help and documentation name."""

from __future__ import annotations

import filecmp
import shutil
from pathlib import Path

import tightrope
from tightrope.cli.app import DEFAULT, Output, command
from tightrope.cli.tables import table
from tightrope.errors import InvalidInput


@command("tightrope examples --out examples")
def examples(*, force: bool = False, output: Output = DEFAULT) -> None:
    """Copy the examples that come with the package, so that you can run what help and documentation show.

    They go to --out, by default to the folder examples.

    Parameters
    ----------
    force
        Overwrite files there that differ from those of the package.
    """
    found = shipped()
    folder = output.out or Path("examples")
    there = {name: source for name, source in found.items() if (folder / name).exists()}
    differing = [name for name, source in there.items() if not filecmp.cmp(source, folder / name, False)]
    if differing and not force:
        listed = ", ".join(differing)
        raise InvalidInput(f"{folder} holds files that differ ({listed}). Use --force to overwrite them.")
    for name, source in found.items():
        if name not in there or name in differing:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / name)
    rows = [[str(folder / name), _first_words(source)] for name, source in found.items()]
    data = {"folder": str(folder), "files": list(found)}
    output.show(data, table("", ["file", "what it shows"], rows), f"{len(found)} files are in {folder}")


def shipped() -> dict[str, Path]:
    """The files that come with the package, by their paths in the folder of examples."""
    package = Path(tightrope.__file__).parent
    # In an editable installation they are beside the source.
    folders = [package / "examples", package.parents[1] / "examples"]
    folder = next((one for one in folders if one.is_dir()), None)
    if folder is None:
        raise InvalidInput("this installation of Tightrope has no examples; install the wheel instead.")
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(folder).as_posix(): path for path in files}


def _first_words(path: Path) -> str:
    if path.suffix not in (".toml", ".py"):
        return ""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.strip('#" ').rstrip(".")
