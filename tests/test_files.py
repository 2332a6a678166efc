"""Files that are there whole or not at all."""

from __future__ import annotations

import json
import os
import stat

import pytest

from tightrope import files


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "state"
    files.write(path, "old")

    def fail_half_way():
        with files.replacing(path) as draft:
            draft.write_text("ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_half_way()
    assert [one.name for one in tmp_path.iterdir()] == ["state"]
    assert path.read_text() == "old"


def test_a_reader_sees_the_old_file_until_the_new_one_is_complete_and_on_disk(tmp_path, monkeypatch):
    path = tmp_path / "state"
    files.write(path, b"old")
    seen = []
    replace, fsync = os.replace, os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (seen.append(("fsync", path.read_bytes())), fsync(fd)))
    monkeypatch.setattr(
        os, "replace", lambda a, b: (seen.append((a.read_bytes(), path.read_bytes())), replace(a, b))
    )
    files.write(path, "né")
    assert seen == [("fsync", b"old"), ("né".encode(), b"old")]
    assert path.read_bytes() == "né".encode()


def test_a_private_file_is_its_owners_alone_from_the_start(tmp_path):
    path = tmp_path / "keys"
    with files.replacing(path, private=True) as draft:
        assert stat.S_IMODE(draft.stat().st_mode) == 0o600
        draft.write_text("secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_json_refuses_what_it_does_not_have(tmp_path):
    files.write_json(tmp_path / "a.json", {"é": [1, None]})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"é": [1, None]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(tmp_path / "a.json", float("nan"))
    assert (tmp_path / "a.json").read_text(encoding="utf-8").endswith("\n")


def test_csv_has_the_columns_of_all_rows(tmp_path):
    files.write_csv(tmp_path / "a.csv", [{"a": 1}, {"b": "x,y"}], newline="\r\n")
    assert (tmp_path / "a.csv").read_bytes() == b'a,b\r\n1,\r\n,"x,y"\r\n'
    files.write_csv(tmp_path / "a.csv", [], ["a"])
    assert (tmp_path / "a.csv").read_bytes() == b"a\n"


def test_a_new_file_takes_its_place_when_the_block_ends(tmp_path):
    with files.replacing(tmp_path / "answer.txt") as draft:
        draft.write_text("42")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("answer.txt", "42")]


def test_names_of_files():
    assert files.file_name("icu/night") == "icu%2f.night"


def test_gaps_of_rows_stay_empty(tmp_path):
    files.write_csv(tmp_path / "rows.csv", [{"a": 1}, {"a": 2, "b": "x"}])
    assert (tmp_path / "rows.csv").read_text() == "a,b\n1,\n2,x\n"
