"""`tightrope oracle` and `tightrope simulate`: what is best in a spec's environment, and what its policies achieve there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from tightrope.cli.app import AS_STATED, DEFAULT, Output, Runs, Trust, command
from tightrope.cli.tables import NO_REGRET, number_text, summary_table, table
from tightrope.cli.words import in_command_words

_PROVED = ("verified", "bound", "gap", "primal_residual", "dual_residual")


@command("tightrope oracle examples/hospital.toml")
def oracle(
    spec: Path,
    /,
    *,
    baseline: Literal["auto", "fluid", "joint"] = "auto",
    trust: Trust = False,
    output: Output = DEFAULT,
) -> None:
    """What the best policy that knows all means earns: value, Slater's constant, binding rules, shares of the actions.

    Also says which of the algorithm's assumptions hold.

    Parameters
    ----------
    spec
        A TOML file with an [environment].
    baseline
        The program: on mean costs, on the joint law of context and costs, or whichever is right for the environment.
    """
    from tightrope.environments import Tabular
    from tightrope.environments.build import environment_of
    from tightrope.files import write_json
    from tightrope.oracle import check, solve
    from tightrope.spec import DEFAULT_KIND, read_spec

    read = read_spec(spec, trust=trust)
    env = environment_of(read)
    found = solve(env, baseline=baseline)
    # The assumptions are checked against m and T as the first policy has them; the default has no m.
    first = read.policies[0]
    m = first.reward.m if first.reward is not None else None
    bound = 1.0 if m is None and first.kind != DEFAULT_KIND else m
    # Those of contexts that are drawn can't be checked: nobody has listed them.
    table_of_means = env if isinstance(env, Tabular) else env.truth
    assumptions = None
    if table_of_means is not None:
        assumptions = check(table_of_means, m=bound, horizon=first.horizon or read.simulation.rounds)
    weights = table_of_means.weights if found.atoms is None else found.atoms.weights  # type: ignore[union-attr]
    shares = dict(zip(env.actions, (weights @ found.policy).tolist(), strict=True))
    constraints: list[dict[str, Any]] = [
        {"name": name, "slack": float(slack), "dual": float(dual), "binding": bool(binding)}
        for name, slack, dual, binding in zip(
            found.constraints, found.slack, found.duals, found.binding, strict=True
        )
    ]
    proof = found.certificate
    data = {
        "name": read.name,
        "environment": env.name,
        "value": found.value,
        "interval": list(found.interval),
        "baseline": found.baseline,
        "slater": found.slater,
        "constraints": constraints,
        "shares": shares,
        "certificate": {name: getattr(proof, name) for name in _PROVED},
        "assumptions": None
        if assumptions is None
        else {
            "hold": assumptions.holds,
            "m": assumptions.m,
            "tau_prime": assumptions.tau_prime,
            "items": [asdict(item) for item in assumptions.items],
        },
    }
    folder = output.folder()
    if folder is not None:
        write_json(folder / "oracle.json", data, indent=2)
    tau = None if assumptions is None else assumptions.tau_prime
    feasible_from = "–" if tau is None else f"{tau:,}"
    facts = [
        ("value per round", f"{found.value:.6g}"),
        ("baseline", found.baseline),
        ("Slater's constant", f"{found.slater:.6g}"),
        ("τ', first round with ε ≤ δ/2", feasible_from),
        ("certificate", f"{'verified' if proof.verified else 'NOT VERIFIED'}, gap {max(0.0, proof.gap):.1e}"),
    ]
    if found.baseline == "joint-sampled":
        facts.insert(1, ("95 % interval", f"{found.interval[0]:.6g} to {found.interval[1]:.6g}"))
    rows = [
        (one["name"], number_text(one["slack"]), number_text(one["dual"]), "yes" if one["binding"] else "no")
        for one in constraints
    ]
    output.show(
        data,
        table("", ("", read.name), facts),
        *([table("constraints", ("name", "slack", "dual", "binding"), rows)] if rows else []),
        table("best shares", ("action", "share"), [(name, f"{share:.4f}") for name, share in shares.items()]),
        *([] if assumptions is None else [_assumptions_table(assumptions.items)]),
        *([] if folder is None else [f"written to {folder / 'oracle.json'}"]),
    )


def _assumptions_table(items: Sequence[Any]) -> Any:
    body = [(item.statement, item.measured, "yes" if item.holds else "NO") for item in items]
    return table("assumptions", ("must hold", "measured", "holds"), body)


@command("tightrope simulate examples/fair-jobs.toml --rounds 5000 --out out/jobs")
def simulate(
    spec: Path,
    /,
    *,
    runs: Runs = AS_STATED,
    engine: Literal["cpu", "gpu", "gpu-double"] = "cpu",
    trust: Trust = False,
    output: Output = DEFAULT,
) -> None:
    """Run the policies of a spec in its environment, many times, on all cores or on a GPU.

    Every policy sees the same draws. Ctrl-C keeps the replications that were finished.

    Parameters
    ----------
    spec
        A TOML file with an [environment] and a [policy], or several as [[policy]].
    engine
        Where to run; gpu keeps estimates in float32, gpu-double makes the choices of cpu.
    """
    from tightrope.concerns import in_runs
    from tightrope.result import write_summary
    from tightrope.spec import read_spec
    from tightrope.studies.simulation import simulate_spec

    folder = output.folder()
    # What a policy could not do is said below.
    quiet = {} if engine != "cpu" else {"warn": False}
    read = read_spec(spec, trust=trust)
    results, interrupted = simulate_spec(read, **vars(runs), engine=engine, out=folder, **quiet)
    if results:
        if folder is not None:
            write_summary(results, folder / "summary.json")
        last = [result.rows()[-1] for result in results]
        cut = any(result.interrupted for result in results)
        concerns = [
            {"policy": result.policy, "scenario": result.scenario, **asdict(one)}
            for result in results
            for one in result.concerns
        ]
        data = {
            "rows": last,
            "interrupted": cut,
            "out": None if folder is None else str(folder),
            "concerns": concerns,
        }
        where = (
            "nothing is written without --out DIR"
            if folder is None
            else f"the report is {folder / 'index.html'}"
        )
        said = [
            f"{result.policy} on {result.scenario}: {in_command_words(in_runs(one, result.n_replications))}"
            for result in results
            for one in result.concerns
        ]
        if any(result.optimum is None for result in results):
            said.append(NO_REGRET)
        output.show(data, summary_table(last, "policy", "scenario"), *said, where)
    if interrupted:
        raise KeyboardInterrupt
