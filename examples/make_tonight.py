"""The made-up table `tonight.csv`: 400 customers, and what each coupon is expected to bring in, in cents.

python examples/make_tonight.py examples/tonight.csv
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from make_coupons import CENTS, chance

BASKET = 2_400  # what a purchase brings in, in cents
STORES = ("harbour", "market", "station", "park")


def rows(n: int = 400, seed: int = 31) -> list[dict[str, object]]:
    """What each customer is expected to spend with each coupon, before its cost; and the store they go to."""
    rng = np.random.default_rng(seed)
    found: list[dict[str, object]] = []
    for i in range(n):
        age, visits = int(rng.integers(18, 80)), int(rng.poisson(4))
        member = bool(rng.random() < 0.2 + 0.08 * min(visits, 6))
        brings = {coupon: round(BASKET * chance(age, visits, member, coupon), 1) for coupon in CENTS}
        store = str(rng.choice(STORES, p=[0.4, 0.3, 0.2, 0.1]))
        found.append({"customer": f"c{i + 1:04}", "store": store, "adult": int(age >= 21), **brings})
    return found


def main(path: str) -> None:
    """Write the table."""
    table = rows()
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main(sys.argv[1])
