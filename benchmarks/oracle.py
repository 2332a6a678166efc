"""How long the allocation program takes, with the proven gap beside the time.

    python benchmarks/oracle.py            # up to 100,000 contexts, about half a minute
    python benchmarks/oracle.py --quick    # up to 10,000 contexts

Each row is one random instance: rewards uniform on [0, 1], costs uniform plus a part that rises with the reward, all
constraints tight enough that many bind. "slater" is the time of Slater's program on the same data.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from tightrope import lp

SIZES = [
    (100, 10, 20),
    (1_000, 10, 20),
    (10_000, 10, 20),
    (100_000, 10, 20),
    (10_000, 6, 18),
    (10_000, 100, 5),
]
DIRECT_LIMIT = 1_000  # contexts; beyond, the direct method takes minutes


def instance(contexts: int, actions: int, constraints: int, seed: int = 0) -> tuple[Any, Any, Any]:
    draw = np.random.default_rng(seed)
    weights = draw.dirichlet(np.ones(contexts))
    rewards = draw.uniform(size=(contexts, actions))
    costs = draw.uniform(-0.8, 0.8, size=(contexts, actions, constraints))
    costs += 0.3 * (rewards[:, :, None] - 0.5)
    return weights, rewards, np.clip(costs, -1.0, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="skip instances above 10,000 contexts")
    quick = parser.parse_args().quick
    print(
        "| contexts | actions | constraints | method | rounds | seconds | gap | residual | binding | slater, s |"
    )
    print("| ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for contexts, actions, constraints in SIZES:
        if quick and contexts > 10_000:
            continue
        weights, rewards, costs = instance(contexts, actions, constraints)
        methods: tuple[lp.Method, ...] = ("direct", "decomposition")
        for method in methods if contexts <= DIRECT_LIMIT else methods[1:]:
            start = time.perf_counter()
            found = lp.allocation(weights, rewards, costs, method=method)
            seconds = time.perf_counter() - start
            start = time.perf_counter()
            lp.slater(weights, costs, method=method)
            slater_seconds = time.perf_counter() - start
            print(
                f"| {contexts:,} | {actions} | {constraints} | {method} | {found.iterations} | {seconds:.3f} "
                f"| {max(0.0, found.certificate.gap):.0e} | {found.certificate.primal_residual:.0e} "
                f"| {int((found.slack < 1e-7).sum())} | {slater_seconds:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
