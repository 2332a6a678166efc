"""The evidence for `ShadowPrice`: the league, real tables, held-out worlds, README's example; one command, one page."""

from tightrope_lab.evidence.run import PARTS, evidence

__all__ = ["PARTS", "evidence"]
