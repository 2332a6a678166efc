"""`tightrope oracle` and `tightrope simulate`: the optimum of a spec's environment, and what its policies achieve there."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from tightrope.cli.app import AS_STATED, DEFAULT, Flag, Output, Runs, Trust, command
from tightrope.cli.tables import NO_REGRET, number_text, summary_table, table

_ACTIONS_SHOWN = 30
_PROVED = ("verified", "bound", "gap", "primal_residual", "dual_residual")


@command("tightrope oracle examples/hospital.toml")
def oracle(
    spec: Path,
    /,
    *,
    baseline: Literal["auto", "fluid", "joint"] = "auto",
    theory: Flag = False,
    trust: Trust = False,
    output: Output = DEFAULT,
) -> None:
    """What the best policy that knows everything earns, what each rule costs it, and how often it chooses each action.

    Parameters
    ----------
    spec
        A TOML file with an [environment].
    baseline
        The program: on mean costs, on the joint law of context and costs, or whichever is right for the environment.
    theory
        Also show the constants of the theorems (Slater's constant, τ′) and which of their assumptions hold.
    """
    from tightrope.environments import Tabular
    from tightrope.environments.build import environment_of
    from tightrope.oracle import check, solve
    from tightrope.spec import DEFAULT_KIND, read_spec

    read = read_spec(spec, trust=trust)
    env = environment_of(read)
    found = solve(env, baseline=baseline)
    # The assumptions are checked against the first policy's m and T; the default policy has no m.
    first = read.policies[0]
    m = first.reward.m if first.reward is not None else None
    bound = 1.0 if m is None and first.kind != DEFAULT_KIND else m
    # Where contexts are drawn, they can't be checked: there is no list of them.
    table_of_means = env if isinstance(env, Tabular) else env.truth
    assumptions, checked = None, None
    if table_of_means is not None:
        assumptions = check(table_of_means, m=bound, horizon=first.horizon or read.simulation.rounds)
        checked = {
            "hold": assumptions.holds,
            "m": assumptions.m,
            "tau_prime": assumptions.tau_prime,
            "items": [asdict(item) for item in assumptions.items],
        }
    weights = table_of_means.weights if found.atoms is None else found.atoms.weights  # type: ignore[union-attr]
    shares = dict(zip(env.actions, (weights @ found.policy).tolist(), strict=True))
    rules = found.frame_rows()
    note = _of_the_fitted_world(read)
    proof = found.certificate
    data = {
        "name": read.name,
        "environment": env.name,
        "value": found.value,
        "interval": list(found.interval),
        "baseline": found.baseline,
        "fitted_to_a_table": note is not None,
        "slater": found.slater,
        "rules": rules,
        "shares": shares,
        "certificate": {name: getattr(proof, name) for name in _PROVED},
        "assumptions": checked,
    }
    written = output.keep("oracle.json", data)
    facts = [("the best policy earns, per decision", f"{found.value:.6g}")]
    if found.baseline == "joint-sampled":
        facts.append(("95 % interval", f"{found.interval[0]:.6g} to {found.interval[1]:.6g}"))
    if rules:
        room = "with room to spare" if found.slater > 1e-9 else "but only just: there is no room for mistakes"
        facts.append(("all rules can be kept", room))
    facts.append(("proof", "checked" if proof.verified else "NOT CHECKED"))
    rows = []
    for one in rules:
        left, price, binding = number_text(one["left"]), number_text(one["price"]), one["binding"]
        rows.append((one["rule"], left, one["unit"], price, "yes" if binding else "no"))
    head = ("rule", "left per decision", "unit", "moving its limit by 1 earns", "at its limit")
    output.show(
        data,
        table("", ("", read.name), facts),
        *([table("rules", head, rows)] if rows else []),
        *found.words(),
        table("best shares", ("action", "share"), _share_rows(shares)),
        *(_theory_tables(found, assumptions) if theory else []),
        *([] if note is None else [note]),
        *written,
    )


def _share_rows(shares: dict[str, float]) -> list[tuple[str, str]]:
    """A row for each action; of many the most frequent, and what is left."""
    kept = sorted(shares, key=lambda name: -shares[name])[:_ACTIONS_SHOWN]
    rows = [(name, f"{share:.4f}") for name, share in shares.items() if name in kept]
    if more := len(shares) - len(kept):
        rows.append((f"and {more:,} more actions", f"{1.0 - sum(shares[name] for name in kept):.4f}"))
    return rows


def _theory_tables(found: Any, assumptions: Any) -> list[Any]:
    tau = None if assumptions is None else assumptions.tau_prime
    facts = [
        ("program", found.baseline),
        ("Slater's constant δ", f"{found.slater:.6g}"),
        ("τ′, first round with ε ≤ δ/2", "–" if tau is None else f"{tau:,}"),
        ("gap of the certificate", f"{max(0.0, found.certificate.gap):.1e}"),
    ]
    shown = [table("theory", ("", ""), facts)]
    if assumptions is not None:
        body = [(one.statement, one.measured, "yes" if one.holds else "NO") for one in assumptions.items]
        shown.append(table("assumptions", ("must hold", "measured", "holds"), body))
    return shown


def _of_the_fitted_world(spec: Any) -> str | None:
    """A caution about the optimum of an environment that is fitted to a table; None for any other."""
    if spec.environment is None or spec.environment.kind != "table":
        return None
    settings = spec.environment.settings
    if "action" not in settings:  # every action's reward is known: nothing is fitted
        return None
    return (
        f"This world is simulated: it is fitted to the rows of {settings['file']}. Its optimum is not that of the real world, "
        "and may be far from it: the best actions are picked and judged by the same rows. `tightrope init` "
        "estimates what a policy would earn on rows that it was not fitted on."
    )


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
    """Run the policies of a spec in its environment many times, on all cores or on a GPU.

    Every policy sees the same draws. Ctrl-C keeps the finished replications.

    Parameters
    ----------
    spec
        A TOML file with an [environment] and a [policy], or several as [[policy]].
    engine
        Where to run; gpu keeps estimates in float32, gpu-double makes the same choices as cpu.
    """
    from tightrope.concerns import in_runs
    from tightrope.errors import InfeasibleProblem, TightropeError
    from tightrope.result import write_summary
    from tightrope.simulation import simulate_spec
    from tightrope.spec import read_spec

    read = read_spec(spec, trust=trust)
    folder = output.folder()
    # Concerns are printed below.
    quiet = {} if engine != "cpu" else {"warn": False}
    try:
        results, interrupted = simulate_spec(read, **vars(runs), engine=engine, out=folder, **quiet)
    except InfeasibleProblem as error:
        # The spec is well formed; the rules just can't be kept in this world.
        raise TightropeError(str(error)) from error
    if results:
        where = "use --out DIR to write a report"
        if folder is not None:
            write_summary(results, folder / "summary.json")
            where = f"the report is {folder / 'index.html'}"
        last = [result.rows()[-1] for result in results]
        found = [(result, one) for result in results for one in result.concerns]
        data = {
            "rows": last,
            "interrupted": any(result.interrupted for result in results),
            "out": None if folder is None else str(folder),
            "concerns": [
                {"policy": run.policy, "scenario": run.scenario, **asdict(one)} for run, one in found
            ],
        }
        said = [f"{run.policy} on {run.scenario}: {in_runs(one, run.n_replications)}" for run, one in found]
        if any(result.optimum is None for result in results):
            said.append(NO_REGRET)
        elif (note := _of_the_fitted_world(read)) is not None:
            said.append(f"Regret is what was missed of the optimum of this world. {note}")
        output.show(data, summary_table(last, "policy", "scenario"), *said, where)
    if interrupted:
        raise KeyboardInterrupt
