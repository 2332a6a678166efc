"""The ledger: the accounts of all rules, addressed by rule, key and window."""
