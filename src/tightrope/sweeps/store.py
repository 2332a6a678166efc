"""What a sweep has finished, on disk: small Parquet files, each complete or absent."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import StateDamagedError, TightropeError
from tightrope.extras import explained
from tightrope.files import replacing
from tightrope.frames import AsFrame
from tightrope.sweeps.cells import MEASURES, Row
from tightrope.sweeps.design import Axis


def for_people(row: Row) -> Row:
    """A row without the cell's identity and the rewards of its single runs."""
    return {name: value for name, value in row.items() if name not in ("cell", "reward_by_run")}


@dataclass(frozen=True, eq=False)
class Rows(AsFrame):
    """Columns of the same length: nan for a number that is missing, None for a text."""

    columns: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.columns["cell"])

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __repr__(self) -> str:
        return f"Rows({len(self)} rows of {', '.join(self.columns)})"

    def frame_rows(self) -> list[dict[str, Any]]:
        return [for_people(self.row(i)) for i in range(len(self))]

    def take(self, at: NDArray[Any]) -> Rows:
        return Rows({name: column[at] for name, column in self.columns.items()})

    def row(self, i: int) -> Row:
        """One row as plain values; None for what is missing."""
        values = {name: column[i] for name, column in self.columns.items()}
        plain = {name: v.item() if isinstance(v, np.generic) else v for name, v in values.items()}
        return {name: None if isinstance(v, float) and v != v else v for name, v in plain.items()}


class Store:
    """The folder `cells` of a sweep. One sweep at a time may write to it."""

    def __init__(self, folder: Path, axes: Sequence[Axis]) -> None:
        self.folder = folder / "cells"
        self._axes = tuple(axes)
        self._next = 0

    @contextmanager
    def held(self) -> Iterator[Store]:
        """The store, its folder created if necessary, locked for this process until the block ends."""
        _arrow()
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder.parent / ".lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                what = "another sweep is writing there. Wait for it, or use another --out"
                raise TightropeError(f"{self.folder.parent}: {what}") from None
            for draft in self.folder.glob(".*.draft"):
                draft.unlink()
            self._next = 1 + max((int(part.stem.split("-")[1]) for part in self._parts()), default=-1)
            yield self

    def add(self, rows: Sequence[Row]) -> None:
        """Write rows; when this returns they are durable, whatever happens to the process."""
        arrow = _arrow()
        text = [axis.path for axis in self._axes if axis.column == "text"]
        plain = [row | {path: _as_text(row[path]) for path in text} for row in rows]
        table = arrow.Table.from_pylist(plain, schema=_schema(self._axes))
        path = self.folder / f"part-{self._next:07d}.parquet"
        with replacing(path) as draft:
            arrow.parquet.write_table(table, draft, compression="zstd")
        self._next += 1

    def finished(self) -> tuple[set[str], set[str]]:
        """Names of the cells that have a row, and of those among them that failed."""
        newest: dict[str, str | None] = {}
        for part in self._parts():
            newest.update(zip(*self._read(part, ["cell", "error"]).to_pydict().values()))
        return set(newest), {name for name, error in newest.items() if error is not None}

    def load(self, ids: Iterable[str], *, by_run: bool = False) -> Rows:
        """The rows of these cells, in their order, without their settings; the last row of a cell counts.

        `by_run` adds the reward of each run, of the cells that kept it.

        Cells without a row are left out. The settings on disk are for other readers: they, and the number, are those of
        the design that ran the cell, which another design may share.
        """
        wanted = dict.fromkeys(ids)
        schema = _schema(())
        names = [name for name in schema.names if by_run or name != "reward_by_run"]
        tables = [schema.empty_table().select(names)]
        for part in self._parts():
            cells = self._read(part, ["cell"]).column("cell").to_pylist()
            if keep := [i for i, name in enumerate(cells) if name in wanted]:
                tables.append(self._read(part, names).take(keep))
        table = _arrow().concat_tables(tables)
        newest = {name: i for i, name in enumerate(table.column("cell").to_pylist())}
        at = np.array([newest[name] for name in wanted if name in newest], dtype=np.int64)
        return Rows({name: _numpy(table.take(at).column(name)) for name in names})

    def _parts(self) -> list[Path]:
        return sorted(self.folder.glob("part-*.parquet"))

    def _read(self, part: Path, names: list[str]) -> Any:
        try:
            return _arrow().parquet.read_table(part, columns=names)
        except (_arrow().ArrowException, OSError) as error:
            remedy = "Remove it: its cells will run again."
            raise StateDamagedError(f"{part} can't be read: {error}. {remedy}") from error


def _schema(axes: Sequence[Axis]) -> Any:
    arrow = _arrow()
    kinds = {"bool": arrow.bool_(), "int": arrow.int64(), "float": arrow.float64(), "text": arrow.string()}
    kinds["floats"] = arrow.list_(arrow.float64())
    fields = [("cell", "text"), ("number", "int"), ("policy", "text"), ("scenario", "text")]
    fields += [(axis.path, axis.column) for axis in axes]
    fields += [("round", "int"), ("replications", "int"), ("seed", "int")]
    fields += [(name, "float") for name in MEASURES]
    fields += [("met", "bool"), ("shortfall", "float"), ("reward_by_run", "floats")]
    fields += [("seconds", "float"), ("error", "text")]
    return arrow.schema([(name, kinds[kind]) for name, kind in fields])


def _numpy(column: Any) -> NDArray[Any]:
    """Numbers as float64 with nan, or as int64 where none is missing; all else as objects."""
    types = _arrow().types
    if types.is_floating(column.type) or types.is_integer(column.type):
        values: NDArray[Any] = column.to_numpy()
        return values
    found = np.empty(len(column), dtype=object)
    found[:] = column.to_pylist()
    return found


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)


def _arrow() -> Any:
    with explained("a sweep"):
        import pyarrow.parquet
    return pyarrow
