"""The plain arrays and numbers that callers usually send, for the fast paths of `decide` and `learn`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightrope.validation import FLOAT

# Array flags: C-contiguous and aligned, as compiled code requires.
READABLE = 0x101

_WHOLE = 2**53  # up to here floats represent every whole number


def readable(value: Any) -> bool:
    """Whether compiled code can read `value` as it is."""
    return type(value) is np.ndarray and value.dtype is FLOAT and value.flags.num & READABLE == READABLE


def as_array(value: Any) -> Any:
    """A list of numbers as an array that compiled code can read; anything else unchanged."""
    if type(value) is list:
        try:
            array = np.asarray(value)
        except ValueError:
            return value
        return array if array.dtype is FLOAT else value
    return value


def as_float(value: Any) -> Any:
    """An int, a bool, or NumPy's float or bool, as a float; anything else unchanged."""
    kind = type(value)
    if kind is np.float64 or kind is bool or kind is np.bool_ or (kind is int and -_WHOLE <= value <= _WHOLE):
        return float(value)
    return value
