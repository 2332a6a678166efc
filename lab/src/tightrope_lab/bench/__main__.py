"""`python -m tightrope_lab.bench CASE REPEATS`, or `scaling`: one measurement in a process of its own, as JSON."""

import json
import sys

from tightrope_lab.bench import contests, run, scaling

if __name__ == "__main__":
    scaling.pin()
    name, *repeats = sys.argv[1:]
    whole = name == "scaling"
    found = scaling.scaling() if whole else run.measure(contests.CASES[name].make(), int(repeats[0]))
    print(json.dumps(found, allow_nan=False))
