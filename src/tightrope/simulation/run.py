"""Every policy of a spec in its environment, on the same draws; finished results go to disk."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tightrope import engine as engines
from tightrope.environments.build import environment_of, policies_of
from tightrope.environments.custom import Custom
from tightrope.environments.tabular import Tabular
from tightrope.oracle import solve
from tightrope.result import Result
from tightrope.simulation.page import limit_curves, write_page
from tightrope.spec import Spec


def simulate_spec(
    spec: Spec,
    *,
    rounds: int | None = None,
    replications: int | None = None,
    seed: int | None = None,
    out: Path | None = None,
    **options: Any,
) -> tuple[list[Result], bool]:
    """The results of the finished policies, and whether Ctrl-C cut the rest short.

    The spec's ``[simulation]`` gives the defaults of `rounds`, `replications` and `seed`; `options` are those of
    `tightrope.simulate`. `out` gets a folder for each policy, with its result and a figure, as soon as it is finished, and a page
    `index.html` about all. Rules that no policy can keep in this environment raise `InfeasibleProblem`.
    """
    env = environment_of(spec)
    best = None
    if isinstance(env, Tabular):
        best = solve(env)  # rules that no policy can keep are refused before anything is simulated
    policies = policies_of(spec, env, {"x": lambda: solve(env, baseline="fluid").policy})
    asked = {"rounds": rounds, "replications": replications, "seed": seed}
    size: dict[str, Any] = {
        name: getattr(spec.simulation, name) if one is None else one for name, one in asked.items()
    }
    folders = _folders(out, policies) if out is not None else {}
    curves = [] if best is None or out is None else limit_curves(best)
    results: list[Result] = []
    for name, policy in policies.items():
        try:
            result = engines.simulate(policy, env, **size, **options, name=name)
        except KeyboardInterrupt:
            return results, True
        solvable = isinstance(env, Custom) and env.optimum is None and env.means is not None
        if solvable and result.optimum is None:
            solve(env)  # raises, and says what can't be met
        results.append(result)
        if out is not None:
            result.save(folders[name])
            result.plot(folders[name] / "figure.svg")
            write_page(spec, results, out, curves)
        if result.interrupted:
            return results, True
    return results, False


def _folders(folder: Path, policies: Iterable[str]) -> dict[str, Path]:
    """A subfolder of `folder` for each policy, with a name that every file system accepts."""
    folders: dict[str, Path] = {}
    for name in policies:
        path = folder / (re.sub(r"[^\w-]+", "-", name).strip("-") or "policy")
        while path in folders.values():
            path = path.with_name(f"{path.name}~")
        folders[name] = path
    return folders
