"""From the rows of a table to the vectors that models take."""

from tightrope.encoder.encoder import Encoder

__all__ = ["Encoder"]
