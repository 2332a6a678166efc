"""The runs: what is to be played, who has played it, and a file that grows by a line for each run and survives a kill."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np

from tightrope.progress import progress_bar
from tightrope.validation import VIOLATION, Array
from tightrope_lab.bakeoff import players, rivals, tables
from tightrope_lab.bakeoff.players import PLAYERS, Player
from tightrope_lab.bakeoff.rules import rules_for

Part: TypeAlias = Literal["plain", "rules"]
Row: TypeAlias = dict[str, Any]

PARTS: tuple[Part, ...] = ("plain", "rules")
MARKS = (100, 200, 500, 1_000, 2_000, 5_000)
FILE = "runs.jsonl"


@dataclass(frozen=True)
class Job:
    """One run: a player on a table, in the order of a seed, over at most `limit` rows."""

    part: Part
    table: str
    player: str
    seed: int
    limit: int

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes a run in the file this one."""
        return self.part, self.table, PLAYERS[self.player].identity, self.player, self.seed, self.limit


def jobs(
    parts: Sequence[Part], names: Sequence[str], entered: Sequence[Player], seeds: int, limit: int
) -> list[Job]:
    """Seed by seed, so that a run that is stopped has all players on the same tables."""
    return [
        Job(part, table, player.name, seed, limit)
        for seed in range(seeds)
        for part in parts
        for table in names
        for player in entered
        if part == "rules" or not player.needs_rules
    ]


def play(job: Job, cache: Path) -> Row:
    """Play a run. An error of the player's is in the row; that a table can't be had is raised."""
    from threadpoolctl import threadpool_limits

    player, table = PLAYERS[job.player], _table(job.table, cache)
    order = table.rows(job.seed, job.limit)
    y = table.y[order]
    x = (table.raw if player.raw else table.standardised)[order]
    ruled = rules_for(y, table.n_actions) if job.part == "rules" else None
    costs = np.zeros((table.n_actions, 0)) if ruled is None else ruled.costs
    row: Row = {
        "part": job.part,
        "table": job.table,
        "player": job.player,
        "seed": job.seed,
        "limit": job.limit,
    }
    row |= {"identity": player.identity, "rounds": len(y), "features": x.shape[1], "actions": table.n_actions}
    begun = time.perf_counter()
    try:
        with threadpool_limits(1):
            actions = players.play(player, x, y, table.n_actions, costs, job.seed, cache)
    except Exception as error:
        return row | {"error": f"{type(error).__name__}: {error}"[:300]}
    earned = np.cumsum(actions == y) / (1.0 if ruled is None else ruled.optimum)
    row |= {"marks": {str(m): round(float(earned[m - 1] / m), 6) for m in MARKS if m <= len(y)}}
    row |= {"whole": round(float(earned[-1] / len(y)), 6), "seconds": round(time.perf_counter() - begun, 2)}
    return row if ruled is None else row | _kept(np.cumsum(costs[actions], axis=0), ruled.optimum)


def _kept(totals: Array, optimum: float) -> Row:
    above = np.flatnonzero((totals > VIOLATION).any(axis=1))
    end = float(np.maximum(0.0, totals[-1]).sum())
    return {
        "optimum": round(optimum, 6),
        "above": len(above),
        "last": int(above[-1]) + 1 if len(above) else 0,
        "end": round(end, 6) if end > VIOLATION else 0.0,
    }


@lru_cache(maxsize=2)
def _table(name: str, cache: Path) -> tables.Table:
    return tables.read(name, cache)


def read_rows(folder: Path) -> list[Row]:
    """What the folder's file has; a last line that was torn by a kill is left out. Later rows take the place of earlier ones."""
    file = folder / FILE
    if not file.exists():
        return []
    whole = file.read_bytes().rpartition(b"\n")[0]
    rows = [json.loads(line) for line in whole.splitlines()]
    return list({_key(row): row for row in rows}.values())


def _key(row: Row) -> tuple[Any, ...]:
    return row["part"], row["table"], row["identity"], row["player"], row["seed"], row["limit"]


@contextlib.contextmanager
def _appending(folder: Path) -> Iterator[IO[str]]:
    """The folder's file, cut back to its last whole line, to write after."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE
    if file.exists():
        data = file.read_bytes()
        os.truncate(file, data.rfind(b"\n") + 1)
    with file.open("a", encoding="utf-8") as open_file:
        yield open_file


def run(
    wanted: Sequence[Job],
    folder: Path,
    cache: Path,
    *,
    workers: int = 1,
    progress: bool | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, str]:
    """Play what the folder's file lacks, and add a line to it after each run.

    Runs that ended with an error are played again. Returns the reason for each library that could not be installed, whose players
    are left out.
    """
    done = {_key(row) for row in read_rows(folder) if "error" not in row}
    open_jobs = [job for job in wanted if job.key not in done]
    if len(open_jobs) < len(wanted):
        tell(f"{len(wanted) - len(open_jobs):,} of {len(wanted):,} runs are in {folder / FILE} already")
    libraries = [library for job in open_jobs if (library := PLAYERS[job.player].library) is not None]
    missing = rivals.install(libraries, cache, tell)
    for library, reason in missing.items():
        tell(f"{library} can't be installed, and is left out: {reason}")
    open_jobs = [job for job in open_jobs if PLAYERS[job.player].library not in missing]
    for table in dict.fromkeys(job.table for job in open_jobs):
        tables.read(table, cache)  # What can't be fetched or read is an error now, not after hours.
    with (
        _appending(folder) as file,
        progress_bar("bake-off", len(open_jobs), "runs", progress, failures=True) as advance,
    ):
        for row in _played(open_jobs, cache, workers):
            file.write(json.dumps(row) + "\n")
            file.flush()
            advance(1, int("error" in row))
    return missing


def _played(open_jobs: Iterable[Job], cache: Path, workers: int) -> Iterator[Row]:
    if workers == 1:
        yield from (play(job, cache) for job in open_jobs)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context)
    try:
        for future in as_completed([pool.submit(play, job, cache) for job in open_jobs]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)
