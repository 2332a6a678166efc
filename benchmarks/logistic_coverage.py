"""How often the 95 % intervals of `Logistic` hold the true logit, by the size of the coefficients.

    python benchmarks/logistic_coverage.py                     # the table of docs/models.md; a minute
    python benchmarks/logistic_coverage.py --seeds 1000 1200   # other worlds, and more of them

Features are independent and normal, and each coefficient is plus or minus the size. A model learns some outcomes. Its interval,
mean ± 1.96 deviations, is then checked on 200 new rows. Nothing in the model was tuned on the seeds of the table.
"""

from __future__ import annotations

import argparse

import numpy as np

import tightrope as tr

SIZES = (0.3, 1.0, 2.4, 5.0)
# Outcomes, features, and actions with coefficients of their own.
WORLDS = ((300, 3, 1), (300, 10, 1), (600, 3, 3), (1000, 3, 1))


def covered(seed: int, size: float, n: int, p: int, J: int) -> float:
    """The share of new rows whose logit lies in its interval."""
    rng = np.random.default_rng([seed, n, p, J])
    coefficients = size * rng.choice([-1.0, 1.0], (J, p))
    model = tr.Logistic(J, p)
    for x, a in zip(rng.normal(size=(n, p)), rng.integers(J, size=n).tolist()):
        model.learn(x, float(rng.random() < 1.0 / (1.0 + np.exp(-coefficients[a] @ x))), a)
    rows, actions = rng.normal(size=(200, p)), rng.integers(J, size=200)
    means, deviations = (found[:, 0] for found in model.logits(rows, actions))
    truth = np.einsum("np,np->n", coefficients[actions], rows)
    return float(np.mean(np.abs(means - truth) <= 1.96 * deviations))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs=2, default=(7000, 7040), metavar=("FIRST", "END"))
    seeds = range(*parser.parse_args().seeds)
    print("| outcomes | features | actions | " + " | ".join(f"{size:g}" for size in SIZES) + " |")
    print("| ---: " * (3 + len(SIZES)) + "|")
    for world in WORLDS:
        shares = [np.mean([covered(seed, size, *world) for seed in seeds]) for size in SIZES]
        cells = [f"{n:,}" for n in world] + [f"{100 * share:.0f} %" for share in shares]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
