"""Patients arrive at a running service, and their outcomes come late, out of order, twice, or never.

    tightrope serve examples/hospital.toml --data data            # in one terminal
    python examples/serve_hospital.py --patients 2000             # in another

Every patient is one of the 360 kinds of the hospital environment. A ward is asked for at once; whether the patient stayed well is
known only after a while. Some reports are sent twice, some never, one for a patient that no one knows. At the end: the rules.
"""

from __future__ import annotations

import argparse
import heapq
from typing import Any

import numpy as np

from tightrope.environments import hospital
from tightrope_client import Client, ServiceError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--key", default=None)
    parser.add_argument("--experiment", default=None)
    parser.add_argument("--patients", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    env = hospital()
    random = np.random.default_rng(options.seed)
    kinds = random.choice(env.n_contexts, size=options.patients, p=env.weights)
    # When each outcome is known, in patients from now, and which patient it is of.
    due: list[tuple[int, str, float]] = []
    refused = 0

    with Client(options.url, key=options.key, experiment=options.experiment) as client:

        def report(event_id: str, reward: float) -> None:
            nonlocal refused
            try:
                client.learn(event_id, reward)
            except ServiceError as error:
                refused += 1
                print(f"refused: {error}")

        for i, kind in enumerate(kinds.tolist()):
            decision = client.decide(patient(kind, random), event_id=f"patient-{options.seed}-{i}")
            well = float(random.uniform() < env.rewards[kind, decision["action"]])
            fate = random.uniform()
            if fate < 0.95:
                heapq.heappush(due, (i + int(random.integers(1, 200)), decision["event_id"], well))
            if fate < 0.02:
                heapq.heappush(due, (i + 300, decision["event_id"], well))
            while due and due[0][0] <= i:
                _, event_id, reward = heapq.heappop(due)
                report(event_id, reward)
        for _, event_id, reward in due:
            report(event_id, reward)
        report("patient-unknown", 1.0)
        show(client.state(), refused)


def patient(kind: int, random: np.random.Generator) -> dict[str, float | str]:
    """What a clerk would type in; how the kind of a patient shows in it is made up."""
    return {
        "age": float(20 + (kind * 13) % 75 + random.uniform(0, 5)),
        "sex": "f" if kind % 2 else "m",
        "prior_inpatient": float(kind % 11),
    }


def show(state: dict[str, Any], refused: int) -> None:
    print(f"\n{state['decisions']} decisions in {state['experiment']!r}, mode {state['mode']}")
    for action in state["actions"]:
        print(f"  {action['name']:<12} {action['share']:6.1%}")
    print("rules:")
    for one in state["constraints"]:
        verdict, limit = (
            "holds" if one["left"] >= 0 else "VIOLATED",
            "allowed" if one["side"] == "at_most" else "required",
        )
        print(
            f"  {one['rule']:<48}  {verdict}: {one['used']:,.1f} of {one['allowed']:,.1f} {one['unit']} {limit}"
        )
    outcomes = state["outcomes"]
    print(
        f"outcomes: mean reward {outcomes['mean_reward']:.3f} over {outcomes['rewards']}; "
        f"{outcomes['pending']} pending, {outcomes['late']} late, {outcomes['rejected']} rejected ({refused} refused here)"
    )


if __name__ == "__main__":
    main()
