"""From a DataFrame to a served policy: what a user writes stands between the two lines of dashes, all else is a table to try it on.

python examples/frame_to_service.py
"""

from __future__ import annotations

import tempfile

import numpy as np
import pandas as pd


def visits(n: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Patients who were sent to a ward by a coin, and whether they got well: the old do better in the icu."""
    rng = np.random.default_rng(seed)
    age, sex, ward = rng.integers(20, 90, n), rng.choice(["f", "m"], n), rng.choice(["icu", "other"], n)
    well = rng.random(n) < np.where(ward == "icu", age / 100, 0.45)
    return pd.DataFrame({"age": age, "sex": sex, "ward": ward, "well": well})


def main(folder: str) -> tuple[str, dict[str, object]]:
    frame = visits()
    # ----------------------------------------------------------------------------------------------------------------
    import tightrope as tr
    from tightrope.service import serving

    rules = tr.Rules([tr.Capacity("icu", at_most=0.3)], actions=["icu", "other"])
    env = tr.environments.from_table(
        frame, context=["age", "sex"], action="ward", reward="well", rules=rules, name="wards"
    )
    spec = env.save(f"{folder}/wards.toml", warm_start=frame)
    with serving(spec, data=folder) as client:
        decision = client.decide({"age": 84, "sex": "f"})
        client.learn(decision["event_id"], reward=1.0)
        state = client.state()
    # ----------------------------------------------------------------------------------------------------------------
    return decision["name"], state


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        named, state = main(folder)
        print(f"an old patient goes to {named!r}; outcomes so far: {state['outcomes']}")
