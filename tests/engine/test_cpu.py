"""The kernels as plain Python, where an index that is out of bounds is an error."""

from __future__ import annotations

import json
import subprocess
import sys

# Numba is as if it were not installed: Python then looks at every index.
PLAIN = """
import sys

sys.modules["numba"] = None
import json
import warnings

import tightrope as tr
from tightrope.environments import bandit, synthetic
from tightrope.environments.build import policies_of
from tightrope.spec import make_spec

warnings.simplefilter("ignore")
size = {"rounds": 70, "replications": 1, "workers": 1, "progress": False, "warn": False, "keep_choices": True}
kinds = {"shadow-price": {}, "pessimistic-optimistic": {"slater": 0.2}, "lagrangian": {}, "lfg": {}, "greedy": {}}
found = {}
worlds = [
    *(synthetic(contexts=3, actions=3, features=3, constraints=2, slater=0.3, costs_seen=seen) for seen in ("before", "after")),
    synthetic(contexts=3, actions=3, features=3, constraints=0),
    bandit(threshold=0.3),
    bandit(threshold=0.3, costs_seen="after"),
]
for i, env in enumerate(worlds):
    for kind, settings in kinds.items():
        try:
            [policy] = policies_of(make_spec({"policy": {"kind": kind, **settings}}), env).values()
            env.problem().require_fit(policy)
        except tr.errors.InvalidInput:
            continue  # not a policy for this world
        runs = [tr.simulate(policy, env, **size, compile=compiled) for compiled in (True, False)]
        assert (runs[0].choices == runs[1].choices).all(), (i, kind)
        found[f"{kind} in world {i}"] = float(runs[0].reward[0, -1])
print(json.dumps(found))
"""


def test_kernels_stay_within_their_arrays_without_a_compiler():
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert {f"shadow-price in world {i}" for i in range(5)} <= set(found)
    assert {f"pessimistic-optimistic in world {i}" for i in range(5)} & set(found)
