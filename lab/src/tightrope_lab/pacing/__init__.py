"""How well limits by window are paced: made-up worlds with a clock, what hindsight could earn there, and plays of policies."""
