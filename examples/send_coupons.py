"""Customers come to a running service, get a coupon, and buy or not; for `docs/start.md`.

python examples/send_coupons.py --customers 1000
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from make_coupons import CENTS, chance

from tightrope_client import Client


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--customers", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    with Path(__file__).with_name("coupons.csv").open(encoding="utf-8") as file:
        known = list(csv.DictReader(file))
    random = np.random.default_rng(options.seed)
    bought = 0.0
    with Client(options.url, patience=120.0) as client:
        for i in range(options.customers):
            row = known[random.integers(len(known))]
            customer = {"age": int(row["age"]), "visits": int(row["visits"]), "member": row["member"]}
            decision = client.decide(customer, event_id=f"customer-{options.seed}-{i}")
            coupon = decision["name"]
            buys = random.random() < chance(
                customer["age"], customer["visits"], customer["member"] == "yes", coupon
            )
            client.learn(decision["event_id"], reward=float(buys), usage={"cents": CENTS[coupon]})
            bought += buys
        state = client.state()
    print(f"{options.customers} customers, {bought / options.customers:.3f} of them bought")
    for action in state["actions"]:
        print(f"  {action['name']:<10} {action['share']:6.1%}")
    for rule in state["constraints"]:
        print(f"  {rule['rule']}: {'holds' if rule['cumulative_cost'] <= 0 else 'VIOLATED'}")


if __name__ == "__main__":
    main()
