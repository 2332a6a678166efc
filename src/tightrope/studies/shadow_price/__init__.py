"""The evidence for `ShadowPrice`: the league, real tables, held-out worlds, README's example; one command, one page."""

from tightrope.studies.shadow_price.run import PARTS, evidence

__all__ = ["PARTS", "evidence"]
