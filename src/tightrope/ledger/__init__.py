"""The ledger: the accounts of all rules, addressed by rule, key and window."""

from tightrope.ledger.account import Account, Address
from tightrope.ledger.hard_caps import Exhausted
from tightrope.ledger.ledger import Ledger, Standing
from tightrope.ledger.totals import Totals
from tightrope.ledger.trail import Moment, Trail

__all__ = [
    "Account",
    "Address",
    "Exhausted",
    "Ledger",
    "Moment",
    "Standing",
    "Totals",
    "Trail",
]
