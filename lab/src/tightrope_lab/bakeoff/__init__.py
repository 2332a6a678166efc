"""The bake-off: multi-class tables as bandits, Tightrope beside other libraries, without rules and with them."""
