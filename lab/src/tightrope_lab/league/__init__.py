"""The league: every policy on every scenario of its setting, on the same draws, measured alike.

A policy outside its assumptions is marked with the reasons and not run. Each is given what the scenario knows, by the names of its
parameters (`Scenario.known`), and nothing is tuned. A policy of your own joins in the same way: see `own_entry` and docs/league.md.
"""

from tightrope_lab.league.archive import merged, read_runs, write_runs
from tightrope_lab.league.entries import ROSTER, Entry, Unfit, chosen_entries, own_entry, spec_entry
from tightrope_lab.league.page import write_page
from tightrope_lab.league.ranking import CENTRE, KNOWS_ALL, League, Misfit, Performance, Place, standing
from tightrope_lab.league.run import chosen_scenarios, compare, size_of
from tightrope_lab.league.standings import read_page, rewrite_page

__all__ = ["CENTRE", "KNOWS_ALL", "ROSTER", "Entry", "League", "Misfit", "Performance", "Place", "Unfit"]
__all__ += ["chosen_entries", "chosen_scenarios", "compare", "merged", "own_entry", "size_of", "spec_entry"]
__all__ += ["read_page", "read_runs", "rewrite_page", "standing", "write_page", "write_runs"]
