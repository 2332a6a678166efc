"""Files become features and labels, and the two halves stay what they were when they were fixed."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tightrope.errors import InvalidInput
from tightrope_lab.bakeoff import tables
from tightrope_lab.bakeoff.packages import PACKAGES
from tightrope_lab.bakeoff.tables import SOURCES, Source, half, parse

# Of the names in the held-out half, sorted and one a line. A table that changes sides, or a new rule, changes it.
HELD_OUT = "abbe5813178a6a12f213a984ae3a8e4576e812d636adfdfd61848c076361cdde"


def test_keel_files_have_no_head_and_the_label_last():
    text = "@relation t\n@data\n1.0, red, ?, a\n\n3.0, blue, 4, b\n5.0,red,8, a\n"
    table = parse("t", text, Source("p", "m"))
    assert table.raw.tolist() == [[1, 0, 1, 6], [3, 1, 0, 4], [5, 0, 1, 8]]
    assert (table.y.tolist(), table.n_actions) == ([0, 1, 0], 2)


def test_a_head_names_the_label_and_what_is_dropped():
    text = '"id";"kind";"size"\n7;"x";1\n8;"y";2\n'
    table = parse("t", text, Source("p", "m", "kind", ("id",), separator=";", head=True))
    assert table.raw.tolist() == [[1], [2]]
    assert table.y.tolist() == [0, 1]


def test_a_number_becomes_the_fifth_that_it_is_in():
    text = "\n".join(f"0 {value}" for value in (10, 9, 8, 7, 6, 5, 4, 3, 2, 1))
    table = parse("t", text, Source("p", "m", separator=None, fifths=True))
    assert table.y.tolist() == [4, 4, 3, 3, 2, 2, 1, 1, 0, 0]


def test_a_column_that_is_all_missing_is_no_feature():
    assert parse("t", "1,?,a\n2,?,b\n", Source("p", "m")).raw.tolist() == [[1], [2]]


@pytest.mark.parametrize("text", ["1\n1,a\n", "1,a\n1\n"])
def test_a_torn_row_is_refused(text):
    with pytest.raises(InvalidInput, match=r"t: row 1 must have \d columns, but got \d"):
        parse("t", text, Source("p", "m"))


def test_standardised_features():
    table = parse("t", "1,5,a\n3,5,b\n", Source("p", "m"))
    assert table.standardised.tolist() == [[-1, 0], [1, 0]]


def test_an_order_is_a_seeds_own_and_every_row_comes_once():
    table = parse("t", "\n".join(f"{i},{i % 2}" for i in range(50)), Source("p", "m"))
    orders = [table.rows(seed, 100) for seed in (0, 0, 1)]
    assert np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])
    assert sorted(orders[2].tolist()) == list(range(50))
    assert table.rows(1, 7).tolist() == orders[2][:7].tolist()


def test_the_halves_are_fixed():
    held_out = sorted(name for name in SOURCES if half(name) == "held-out")
    assert hashlib.sha256("\n".join(held_out).encode()).hexdigest() == HELD_OUT
    assert (len(SOURCES), len(held_out)) == (82, 35)


def test_every_table_names_a_pinned_package():
    assert {source.package for source in SOURCES.values()} == set(PACKAGES)
    assert sum(name.startswith("keel/") for name in SOURCES) == 35


def test_tables_are_chosen_by_name_package_or_half():
    assert tables.chosen(()) == list(SOURCES)
    assert tables.chosen(["river", "keel/vowel", "river/shuttle"]) == [
        "river/phishing",
        "river/shuttle",
        "keel/vowel",
    ]
    assert len(tables.chosen(["held-out"])) == 35
    with pytest.raises(InvalidInput, match=r"tables must be a table, a half .* but got 'kele'"):
        tables.chosen(["kele"])
