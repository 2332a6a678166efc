"""What the runs say: means by round, the setting that each library is represented by, wins and losses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tightrope.errors import InvalidInput
from tightrope_lab.bakeoff.players import OURS, PLAYERS
from tightrope_lab.bakeoff.runs import MARKS, PARTS, Part, Row
from tightrope_lab.bakeoff.statistics import Comparison, compare
from tightrope_lab.bakeoff.tables import HALVES, SOURCES, Half, half

WHOLE = "whole"


@dataclass(frozen=True)
class Standing:
    """A player's means over tables, by mark; with rules also its rounds above zero, and the share of runs that end above zero."""

    player: str
    means: dict[str, float]
    above: float | None = None
    ends_above: float | None = None


@dataclass(frozen=True, eq=False)
class Results:
    """Rows of runs over at most `limit` rows of each table, without those that failed, and those that did."""

    rows: Sequence[Row]
    failed: Sequence[Row]
    limit: int

    @classmethod
    def of(cls, rows: Iterable[Row], limit: int | None = None) -> Results:
        """Of the rows that were made by today's players, with this limit; without one they must all have the same.

        Raises
        ------
        InvalidInput
            There are none, or they have several limits.
        """
        known = [
            row for row in rows
            if row["player"] in PLAYERS and row["identity"] == PLAYERS[row["player"]].identity and row["table"] in SOURCES
        ]  # fmt: skip
        limits = sorted({row["limit"] for row in known} if limit is None else {limit})
        if len(limits) != 1:
            found = f"but got {', '.join(map(str, limits))}" if limits else "but there are none"
            raise InvalidInput(f"runs that are shown together must have one limit, {found}.")
        mine = [row for row in known if row["limit"] == limits[0]]
        failed = [row for row in mine if "error" in row]
        return cls([row for row in mine if "error" not in row], failed, limits[0])

    @property
    def seeds(self) -> list[int]:
        return sorted({row["seed"] for row in self.rows})

    def parts(self) -> list[Part]:
        return [part for part in PARTS if any(row["part"] == part for row in self.rows)]

    def players(self, part: Part) -> list[str]:
        """In the order of `PLAYERS`."""
        played = {row["player"] for row in self.rows if row["part"] == part}
        return [name for name in PLAYERS if name in played]

    def tables(self, part: Part, of: Half) -> list[str]:
        """Those that all players of the part have played with all seeds."""
        played = self._by_table.get(part, {})
        wanted = {(player, seed) for player in self.players(part) for seed in self.seeds}
        return [table for table in SOURCES if half(table) == of and played.get(table, {}).keys() >= wanted]

    def unfinished(self, part: Part, of: Half) -> list[str]:
        """Tables on which runs are missing."""
        complete = self.tables(part, of)
        begun = {row["table"] for row in (*self.rows, *self.failed) if row["part"] == part}
        return [table for table in SOURCES if table in begun and half(table) == of and table not in complete]

    def marks(self, part: Part, of: Half, least: int = 0) -> dict[str, int]:
        """Mark → over how many tables its means are taken: those with at least as many rows. The whole table comes last.

        Tables with fewer than `least` rows are left out.
        """
        rounds = [self._rounds(part, table) for table in self.tables(part, of)]
        rounds = [one for one in rounds if one >= least]
        found = {str(mark): sum(one >= mark for one in rounds) for mark in MARKS}
        return {mark: n for mark, n in found.items() if n} | {WHOLE: len(rounds)}

    def common_rounds(self, part: Part, of: Half) -> int:
        """The last mark that at least half of the tables reach; 0 if there is none."""
        marks = self.marks(part, of)
        return max(
            (int(mark) for mark, n in marks.items() if mark != WHOLE and 2 * n >= marks[WHOLE]), default=0
        )

    def standings(self, part: Part, of: Half, least: int = 0) -> list[Standing]:
        """The best over the whole table first; over the tables with at least `least` rows."""
        names = [table for table in self.tables(part, of) if self._rounds(part, table) >= least]
        found: list[Standing] = []
        for player in self.players(part) if names else ():
            mine = {
                table: [self._by_table[part][table][player, seed] for seed in self.seeds] for table in names
            }
            means = {
                mark: float(np.mean([self._mean(rows, mark) for rows in mine.values() if self._has(rows[0], mark)]))
                for mark in self.marks(part, of, least)
            }  # fmt: skip
            kept: dict[str, float] = {}
            if part == "rules":
                every = [row for rows in mine.values() for row in rows]
                kept["above"] = float(np.mean([row["above"] for row in every]))
                kept["ends_above"] = float(np.mean([row["end"] > 0 for row in every]))
            found.append(Standing(player, means, **kept))
        return sorted(found, key=lambda one: -one.means[WHOLE])

    def representatives(self, part: Part) -> dict[str, str]:
        """Family → the player that earns most over whole tables of the tuning half; the first where none was played."""
        best = {one.player: one.means[WHOLE] for one in self.standings(part, "tuning")}
        found: dict[str, str] = {}
        for player in self.players(part):
            family = PLAYERS[player].family
            if family not in found or best.get(player, 0.0) > best.get(found[family], 0.0):
                found[family] = player
        return found

    def comparisons(self, part: Part, of: Half) -> dict[tuple[str, str], Comparison]:
        """(one of ours, a representative of others) → wins and losses over whole tables."""
        entered = self.players(part)
        ours = [player for player in OURS if player in entered]
        others = [player for player in self.representatives(part).values() if player not in OURS]
        tables = self.tables(part, of)
        # One reward more or less is the least by which two runs differ.
        steps = {table: 1.0 / self._rounds(part, table) for table in tables}
        by_seed = {player: self._by_seed(part, tables, player) for player in (*ours, *others)}
        return {
            (one, other): compare(by_seed[one], by_seed[other], steps) for one in ours for other in others
        }

    @cached_property
    def _by_table(self) -> dict[Part, dict[str, dict[tuple[str, int], Row]]]:
        found: dict[Part, dict[str, dict[tuple[str, int], Row]]] = {}
        for row in self.rows:
            of_table = found.setdefault(row["part"], {}).setdefault(row["table"], {})
            of_table[row["player"], row["seed"]] = row
        return found

    def _rounds(self, part: Part, table: str) -> int:
        return int(next(iter(self._by_table[part][table].values()))["rounds"])

    def _by_seed(self, part: Part, tables: Sequence[str], player: str) -> Mapping[str, Mapping[int, float]]:
        played = self._by_table[part]
        return {table: {seed: played[table][player, seed][WHOLE] for seed in self.seeds} for table in tables}

    @staticmethod
    def _has(row: Row, mark: str) -> bool:
        return mark == WHOLE or mark in row["marks"]

    @staticmethod
    def _mean(rows: Sequence[Row], mark: str) -> float:
        return float(np.mean([row[WHOLE] if mark == WHOLE else row["marks"][mark] for row in rows]))

    def summary(self) -> list[Row]:
        """A row for each part, table and player: means over its seeds, ready for CSV."""
        found = []
        for part in self.parts():
            for table, runs in self._by_table[part].items():
                for player in self.players(part):
                    mine = [row for (name, _), row in runs.items() if name == player]
                    if not mine:
                        continue
                    row: Row = {"part": part, "half": half(table), "table": table, "player": player}
                    row |= {"seeds": len(mine), "rounds": mine[0]["rounds"], "actions": mine[0]["actions"]}
                    marks = [*map(str, MARKS), WHOLE]
                    row |= {f"after {m}" if m != WHOLE else WHOLE: round(self._mean(mine, m), 4) if self._has(mine[0], m) else "" for m in marks}  # fmt: skip
                    for name in ("above", "end"):
                        row[name] = (
                            round(float(np.mean([one[name] for one in mine])), 4) if part == "rules" else ""
                        )
                    found.append(
                        row | {"seconds": round(float(np.mean([one["seconds"] for one in mine])), 2)}
                    )
        return found

    def halves(self, part: Part) -> list[Half]:
        """Those with a finished table, held-out first."""
        return [of for of in reversed(HALVES) if self.tables(part, of)]
