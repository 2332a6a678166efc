"""`examples/frame_to_service.py`: how many lines a user writes, and that they do what they say."""

from __future__ import annotations

import importlib.util

from cli_tools import EXAMPLES
from tightrope.service.offline.replay import verify
from tightrope.service.storage import open_journal

FILE = EXAMPLES / "frame_to_service.py"
MOST_LINES = 15


def test_a_user_writes_at_most_fifteen_lines_from_a_frame_to_an_outcome_over_http(tmp_path):
    _, written, _ = FILE.read_text().split("    # " + "-" * 112 + "\n")
    lines = [line for line in written.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(lines) <= MOST_LINES
    # From the frame on, nothing but these lines: they are all of `main` between `frame` and what it returns.
    for part in ("from_table(", ".save(", "serving(", ".decide(", ".learn("):
        assert part in written

    spec = importlib.util.spec_from_file_location("frame_to_service", FILE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    named, state = example.main(str(tmp_path))
    assert named in ("icu", "other")
    assert state["decisions"] == 1
    journal = open_journal(str(tmp_path / "wards.sqlite"), None)
    try:
        found = verify(journal)
    finally:
        journal.close()
    assert (found.decisions, found.outcomes) == (1, 1)
