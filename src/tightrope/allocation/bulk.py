"""From files to files: a plan for a table that may not fit into memory, and what is written about it.

The table is read once, in parts; its numbers then lie in memory, or, where they take too much of it, in files that the system maps.
The output is complete or absent: it is written beside its place and moved there at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightrope.allocation.files import TableFiles, TableWriter
from tightrope.allocation.page import write_page
from tightrope.allocation.plan import Plan
from tightrope.allocation.reader import Read, RowReader, fits_narrow
from tightrope.allocation.whole_table import Task
from tightrope.errors import InvalidInput
from tightrope.files import write_csv, write_json
from tightrope.progress import progress_bar

SUMMARY = "summary.json"
_KIND = "allocation"  # of the summary, so that nothing else is ever replaced
# Of the memory allowed, the part that numbers may take; the rest is for what is made of them.
_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class Bulk:
    """What is allocated: the task, the files of the table, its name."""

    task: Task
    files: TableFiles
    name: str

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        layout = self.task.layout
        sources = [*layout.scores, *(one for by_action in layout.usage.values() for one in by_action)]
        names = [one for one in sources if isinstance(one, str)]
        names += [*layout.eligible.values(), *layout.group, *layout.keys.values()]
        names += [one for one in (layout.fixed, layout.previous, layout.id) if one is not None]
        return list(dict.fromkeys(names))

    def read(self, memory: float, folder: Path) -> Read:
        """The rows, in files under `folder` where they would take more than their share of `memory` bytes."""
        layout, names = self.task.layout, self.task.rules.registry
        # A table of which nothing is read still has rows.
        columns = self.columns or list(self.files.schema.names[:1])
        numbers = {one for one in layout.numbers if isinstance(one, str)}
        narrow = fits_narrow(
            layout, {name: kind for name, kind in self.files.kinds(columns).items() if name in numbers}
        )
        n = len(self.files)
        size = n * ((len(names) + len(numbers)) * (4 if narrow else 8) + 8 * len(layout.keys) + 32)
        reader = RowReader(layout, names, n, narrow=narrow, folder=folder if size > _SHARE * memory else None)
        with progress_bar("read", n, "rows") as advance:
            for frame in self.files.frames(columns):
                reader.add(frame)
                advance(len(frame))
        return reader.finish()

    def write(self, plan: Plan, folder: Path) -> None:
        """The actions in the format of the table, what was set apart, prices, a summary and a page."""
        import pyarrow as pa

        label = self.task.layout.id
        kind = pa.int64() if label is None else self.files.schema.field(label).type
        first = "row" if label is None else label
        schema = pa.schema([(first, kind), ("action", pa.string())])
        apart: list[dict[str, Any]] = []
        columns = [label] if label is not None else list(self.files.schema.names[:1])
        with (
            TableWriter(folder / f"actions{self.files.suffix}", self.files.kind, schema) as writer,
            progress_bar("write", len(plan.actions), "rows") as advance,
        ):
            done = 0
            for batch in self.files.batches(columns):
                n = len(batch)
                named = pa.array(range(done, done + n), kind) if label is None else batch.column(0).cast(kind)
                actions = [
                    None if one is None else str(one) for one in plan.actions[done : done + n].tolist()
                ]
                writer.write(pa.record_batch([named, pa.array(actions, pa.string())], schema=schema))
                for i in range(done, done + n) if plan.set_apart else ():
                    if i in plan.set_apart:
                        apart.append({"row": i, first: named[i - done].as_py(), "reason": plan.set_apart[i]})
                done += n
                advance(n)
        write_csv(folder / "set-apart.csv", apart, list(dict.fromkeys(("row", first, "reason"))))
        write_json(folder / "prices.json", _plain(plan.prices))
        write_json(folder / SUMMARY, summary_of(self.name, plan), indent=2)
        write_page(self.name, plan, folder)


def summary_of(name: str, plan: Plan) -> dict[str, Any]:
    """What `summary.json` says."""
    return {
        "kind": _KIND,
        "name": name,
        "n": len(plan.actions),
        "set_apart": len(plan.set_apart),
        "value": plan.value,
        "bound": plan.bound,
        "gap": plan.gap,
        "actions": {str(action): n for action, n in plan.counts.items()},
        "binding": list(plan.binding),
        "rows": [
            {**row, "key": None if row["key"] is None else str(row["key"])} for row in plan.frame_rows()
        ],
    }


def read_prices(path: Path) -> Mapping[str, Any]:
    """The prices that an earlier run wrote: `prices.json`, or the folder that holds it."""
    file = path / "prices.json" if path.is_dir() else path
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{file} can't be read as prices: {getattr(error, 'strerror', None) or error}."
        ) from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{file} must hold prices by the names of limits.")
    return found


@contextlib.contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """A draft beside a folder: it takes the folder's place when the block ends, and is removed if the block fails.

    A folder that is there must be empty, or what an earlier allocation wrote.
    """
    if target.exists() and not _is_ours(target):
        raise InvalidInput(
            f"{target} is not empty, and not the output of an earlier allocation; give another folder."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    mark = secrets.token_hex(6)
    draft, old = (target.with_name(f".{target.name}.{mark}.{word}") for word in ("draft", "old"))
    draft.mkdir()
    try:
        yield draft
        if target.exists():
            os.replace(target, old)
        os.replace(draft, target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    if not any(folder.iterdir()):
        return True
    try:
        return bool(json.loads((folder / SUMMARY).read_bytes()).get("kind") == _KIND)
    except (OSError, ValueError, AttributeError):
        return False


def _plain(prices: Mapping[str, Any]) -> dict[str, Any]:
    """Prices with keys as texts, as JSON has them."""
    return {
        name: {str(key): price for key, price in one.items()} if isinstance(one, dict) else one
        for name, one in prices.items()
    }
