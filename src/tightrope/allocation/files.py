"""Tables in files, read in parts: a Parquet, CSV or Arrow file, or a folder of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.extras import explained
from tightrope.frames import Frame
from tightrope.messages import did_you_mean

# Rows that are read at a time.
BATCH = 131_072
_KINDS = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow", ".feather": "arrow"}


class TableFiles:
    """The rows of one file, or of all files of a folder that are of its first file's kind, in order of their names."""

    def __init__(self, path: Path) -> None:
        with explained("A table in files"):
            import pyarrow as pa
        self._pa: Any = pa
        self.path = path
        found = sorted(one for one in path.iterdir() if one.suffix in _KINDS) if path.is_dir() else [path]
        if not found or found[0].suffix not in _KINDS or not path.exists():
            kinds = ", ".join(_KINDS)
            raise InvalidInput(f"{path} must be a file of one of the kinds {kinds}, or a folder of them.")
        self.kind = _KINDS[found[0].suffix]
        self.suffix = found[0].suffix
        self.files = [one for one in found if _KINDS[one.suffix] == self.kind]
        self.schema: Any = self._schema(self.files[0])

    def __len__(self) -> int:
        """The number of rows: in the head of Parquet files, otherwise counted."""
        if self.kind == "parquet":
            import pyarrow.parquet

            return sum(int(pyarrow.parquet.read_metadata(one).num_rows) for one in self.files)
        return sum(len(batch) for batch in self.batches(self.schema.names[:1]))

    def kinds(self, columns: Sequence[str]) -> dict[str, np.dtype[Any]]:
        """What NumPy makes of these columns; empty ones count as floats."""
        self.require(columns)
        types = {name: self.schema.field(name).type for name in columns}
        return {
            name: np.dtype(np.float64 if self._pa.types.is_null(one) else one.to_pandas_dtype())
            for name, one in types.items()
        }

    def require(self, columns: Sequence[str]) -> None:
        """Refuse a column that is not there."""
        for name in columns:
            if name not in self.schema.names:
                near, known = did_you_mean(name, self.schema.names), ", ".join(self.schema.names)
                raise InvalidInput(f"{self.path} must have a column {name!r}{near}; it has: {known}.")

    def frames(self, columns: Sequence[str]) -> Iterator[Frame]:
        """Some columns of the rows, part by part."""
        for batch in self.batches(columns):
            yield Frame(self._pa.Table.from_batches([batch]))

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """The same as record batches; the order is that of the files."""
        for file in self.files:
            try:
                yield from self._file(file, list(columns))
            except (self._pa.lib.ArrowException, OSError) as error:
                raise InvalidInput(f"{file} can't be read: {error}.") from error

    def _file(self, file: Path, columns: list[str]) -> Iterator[Any]:
        if self.kind == "parquet":
            import pyarrow.parquet

            with pyarrow.parquet.ParquetFile(file) as source:
                yield from source.iter_batches(BATCH, columns=columns)
        elif self.kind == "csv":
            with self._csv(file, columns) as source:
                yield from source
        else:
            with self._pa.memory_map(str(file)) as mapped, self._pa.ipc.open_file(mapped) as source:
                for i in range(source.num_record_batches):
                    yield source.get_batch(i).select(columns)

    def _csv(self, file: Path, columns: list[str] | None) -> Any:
        import pyarrow.csv as csv

        # Every part has the types of the first: texts that look empty are missing.
        options = csv.ConvertOptions(include_columns=columns, strings_can_be_null=True)
        return csv.open_csv(file, read_options=csv.ReadOptions(block_size=1 << 24), convert_options=options)

    def _schema(self, file: Path) -> Any:
        try:
            if self.kind == "parquet":
                import pyarrow.parquet

                return pyarrow.parquet.read_schema(file)
            if self.kind == "csv":
                with self._csv(file, None) as source:
                    return source.schema
            with self._pa.memory_map(str(file)) as mapped, self._pa.ipc.open_file(mapped) as source:
                return source.schema
        except (self._pa.lib.ArrowException, OSError) as error:
            raise InvalidInput(f"{file} can't be read: {error}.") from error


class TableWriter:
    """Writes record batches to a file of a kind that `TableFiles` reads."""

    def __init__(self, path: Path, kind: str, schema: Any) -> None:
        import pyarrow as pa

        if kind == "parquet":
            import pyarrow.parquet

            self._writer: Any = pyarrow.parquet.ParquetWriter(path, schema)
        elif kind == "csv":
            import pyarrow.csv

            self._writer = pyarrow.csv.CSVWriter(path, schema)
        else:
            self._writer = pa.ipc.new_file(str(path), schema)

    def write(self, batch: Any) -> None:
        """The next rows."""
        getattr(self._writer, "write_batch", self._writer.write)(batch)

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
