"""Numbers for people: as many digits as are reliable, a dash for what is not known."""

from __future__ import annotations

import math
from typing import TypeAlias

Cell: TypeAlias = str | float | tuple[float, float, float] | None

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def format_number(value: float | None, decimals: int | None = None) -> str:
    """A number for people: four significant digits, or a given number of decimals; a dash for what is not known.

    >>> format_number(1234567), format_number(0.123456), format_number(-3.0), format_number(None), format_number(2.5, 2)
    ('1,234,567', '0.1235', '−3', '–', '2.50')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if decimals is not None:
        text = f"{value:,.{decimals}f}"
    elif value == int(value):
        text = f"{int(value):,}"
    elif abs(value) >= 1000:
        text = f"{value:,.0f}"
    elif abs(value) < 1e-4:
        mantissa, exponent = f"{value:.2e}".split("e")
        text = f"{mantissa}·10{str(int(exponent)).translate(_SUPERSCRIPT)}"
    else:
        text = f"{value:,.{3 - math.floor(math.log10(abs(value)))}f}".rstrip("0").rstrip(".")
    if not text.strip("-0.,"):
        text = text.lstrip("-")
    return text.replace("-", "−", 1) if text.startswith("-") else text


def format_estimate(mean: float, low: float, high: float) -> str:
    """An estimate with its interval, to two digits of the interval's width.

    >>> format_estimate(612.345, 598.11, 626.58), format_estimate(0.81234, 0.8119, 0.8128), format_estimate(0.0, 0.0, 0.0)
    ('612 [598, 627]', '0.81234 [0.81190, 0.81280]', '0 [0, 0]')
    >>> format_estimate(5.0, float("nan"), float("nan"))
    '5'
    """
    mean, (inner, decimals) = float(mean), _interval_text(low, high)
    return f"{format_number(mean, decimals)} [{inner}]" if inner else format_number(mean)


def cell_text(cell: Cell) -> str:
    """A cell of a table: text, a number, or an estimate with its interval."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, tuple):
        return format_estimate(*cell)
    return format_number(cell)


def power_text(value: float) -> str:
    """A tick of a logarithmic axis: a power of ten as such where it is very large or small.

    >>> power_text(1e6), power_text(200.0)
    ('10⁶', '200')
    """
    exponent = round(math.log10(value))
    if 0.009 < value < 99999 or not math.isclose(value, 10.0**exponent):
        return format_number(value)
    return f"10{str(exponent).translate(_SUPERSCRIPT)}"


def _interval_text(low: float, high: float) -> tuple[str, int | None]:
    """low and high to two digits of their difference, and the number of decimals; nothing where they are not finite."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return "", None
    width = float(high) - float(low)
    decimals = min(6, max(0, 1 - math.floor(math.log10(width)))) if width > 0 else None
    return f"{format_number(low, decimals)}, {format_number(high, decimals)}", decimals
