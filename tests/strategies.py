"""Random input that the tests share: rows of features drawn by NumPy, and the same as Hypothesis strategies that shrink.

An array is one draw of bytes, a byte an entry: cheap to draw, and what fails shrinks to few entries, most of them 0.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st


def unit_rows(rng: np.random.Generator, n: int, d: int, least: float = 0.3) -> np.ndarray:
    """Rows in random directions, with norms from `least` to 1."""
    rows = rng.normal(size=(n, d))
    return np.asarray(
        rows / np.linalg.norm(rows, axis=1, keepdims=True) * rng.uniform(least, 1.0, size=(n, 1))
    )


def numbers(*shape: int) -> st.SearchStrategy[np.ndarray]:
    """Arrays of that shape with entries in [−1, 1), multiples of 1/128."""
    size = int(np.prod(shape))
    return st.binary(min_size=size, max_size=size).map(
        lambda drawn: np.frombuffer(drawn, dtype=np.int8).reshape(shape) / 128.0
    )


def rows(*shape: int) -> st.SearchStrategy[np.ndarray]:
    """Arrays of feature vectors along the last axis, each of norm at most 1; zeros among them."""
    return numbers(*shape).map(lambda x: x / np.sqrt(shape[-1]))


def wholes(*shape: int, below: int) -> st.SearchStrategy[np.ndarray]:
    """Arrays of whole numbers from 0."""
    size = int(np.prod(shape))
    return st.binary(min_size=size, max_size=size).map(
        lambda drawn: np.frombuffer(drawn, dtype=np.uint8).reshape(shape).astype(np.int64) % below
    )
