"""The made-up table `coupons.csv`: 600 customers, the coupon that a coin sent to each, and whether they bought.

python examples/make_coupons.py examples/coupons.csv
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

# What a coupon costs, in cents, when it is sent.
CENTS = {"none": 0, "delivery": 200, "five": 500, "ten": 1000}


def rows(n: int = 600, seed: int = 18) -> list[dict[str, object]]:
    """The rarely seen react to coupons, regulars buy anyway; free delivery pleases the young most."""
    rng = np.random.default_rng(seed)
    found: list[dict[str, object]] = []
    for _ in range(n):
        age, visits = int(rng.integers(18, 80)), int(rng.poisson(4))
        member = bool(rng.random() < 0.2 + 0.08 * min(visits, 6))
        coupon = str(rng.choice(list(CENTS)))
        found.append(
            {
                "age": age,
                "visits": visits,
                "member": "yes" if member else "no",
                "coupon": coupon,
                "cents": CENTS[coupon],
                "bought": int(rng.random() < chance(age, visits, member, coupon)),
            }
        )
    return found


def chance(age: int, visits: int, member: bool, coupon: str) -> float:
    """With which probability a customer buys, once a coupon is sent."""
    lift = {"none": 0.0, "delivery": 0.35 * (80 - age) / 62, "five": 0.22, "ten": 0.4}[coupon]
    base = 0.12 + 0.05 * min(visits, 8) + 0.1 * member
    return min(0.95, base + lift * (1.1 - 0.1 * min(visits, 8)))


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "coupons.csv")
    made = rows()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(made[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(made)
    print(f"{len(made)} customers are in {path}")


if __name__ == "__main__":
    main()
