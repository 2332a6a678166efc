"""Prices from the dual of the allocation program on remembered rounds, corrected by the running totals."""

from tightrope.policies.shadow_price.policy import ShadowPrice

__all__ = ["ShadowPrice"]
