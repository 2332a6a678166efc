"""A table and its rules, put together: usable rows, limits as amounts, and what is set apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tightrope.allocation.columns import Layout
from tightrope.allocation.limits import Limit, Limits, book_of
from tightrope.allocation.reader import Read
from tightrope.kernels.allocation import Rows
from tightrope.rules import Rules


def rows_and_limits(read: Read, layout: Layout, limits: Sequence[Limit], rules: Rules) -> tuple[Rows, Limits]:
    """Rows whose patterns and keys are numbered as the limits need it, and the limits as amounts."""
    dense = tuple(limit for limit in limits if limit.by is None)
    keyed = tuple(limit for limit in limits if limit.by is not None)
    member = np.array(
        [[not one.among or bool(one.among & groups) for one in dense] for groups in read.groups],
        dtype=np.bool_,
    ).reshape(len(read.groups), len(dense))
    # Rows in other groups may count towards the same limits.
    memberships, merged = np.unique(member, axis=0, return_inverse=True)
    pattern = merged.reshape(-1)[read.rows.pattern].astype(np.int32)
    sizes = np.bincount(pattern, minlength=len(memberships))
    counts = [sizes @ memberships]
    names = list(layout.keys)
    keys = np.full((len(pattern), len(keyed)), -1, dtype=np.int64)
    start = len(dense)
    for b, limit in enumerate(keyed):
        number = read.rows.keys[:, names.index(str(limit.by))]
        counts_here = np.ones(len(pattern), dtype=np.bool_)
        if limit.among:
            inside = np.array([bool(limit.among & groups) for groups in read.groups])
            counts_here = inside[read.rows.pattern]
        keys[counts_here, b] = start + number[counts_here]
        n_keys = len(read.keys[str(limit.by)])
        counts.append(np.bincount(number[counts_here], minlength=n_keys))
        start += n_keys
    usages: dict[str, list[int | float | None]] = {
        name: [read.columns[one] if isinstance(one, str) else one for one in sources]
        for name, sources in layout.usage.items()
    }
    found = Limits(
        dense=dense,
        keyed=keyed,
        keys=tuple(read.keys[str(limit.by)] for limit in keyed),
        rows=np.concatenate(counts).astype(np.int64),
        book=book_of(dense, keyed, memberships, usages, len(rules.actions)),
    )
    return read.rows._replace(pattern=pattern, keys=keys), found
