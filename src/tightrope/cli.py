"""The command `tightrope`: parse, call, print; nothing else.

A command is a function under `@app.command`. It imports what it needs when it runs, hands tables for people and data for machines to
its `Output`, and returns an exit status (None is 0). Errors that the package raises on purpose become messages in `main`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

from tightrope import __version__
from tightrope.errors import InfeasibleProblem, InvalidInput, TightropeError

if TYPE_CHECKING:
    from tightrope.result import Result
    from tightrope.spec import Spec

__all__ = ["app", "main"]

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

app = App(
    name="tightrope",
    help="Learn to decide under rules that must hold at all times.",
    help_format="markdown",
    help_epilogue=(
        "**Examples**\n\n"
        "`tightrope oracle examples/hospital.toml`: what the best policy could earn, and which rules bind\n\n"
        "`tightrope simulate examples/ads-budget.toml --rounds 2000 --out out/ads`: try the spec's policies\n\n"
        "`tightrope COMMAND --help`: what a command takes"
    ),
    version=__version__,
    version_format="plaintext",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 1 (failed), 2 (bad usage or bad spec) or 130 (Ctrl-C).

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; by default those of the process.

    Examples
    --------
    >>> main(["oracle", "no-such-file.toml"])
    2
    """
    tokens = sys.argv[1:] if argv is None else list(argv)
    try:
        status = app(tokens, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        return _complain(f"{_plain(error)}\nTry `tightrope --help`.", BAD_INPUT)
    except (InvalidInput, InfeasibleProblem) as error:
        return _complain(str(error), BAD_INPUT)
    except (TightropeError, ModuleNotFoundError) as error:
        return _complain(str(error), FAILED)
    except BrokenPipeError:
        # The reader has left, as `| head` does; without this Python complains once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error), FAILED)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    return status if isinstance(status, int) else OK


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """Where a command's results go."""

    json: Annotated[bool, Parameter(negative=())] = False
    "One JSON object on standard output, and nothing else there."

    out: Path | None = None
    "Folder for everything that the command produces; made if it is not there."

    def folder(self) -> Path | None:
        """The folder, made, or None."""
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
        return self.out

    def show(self, data: Any, *parts: Any) -> None:
        """Print `data` for machines, or `parts` (texts and tables) for people."""
        if self.json:
            print(json.dumps(data, allow_nan=False, ensure_ascii=False))
            return
        from rich.console import Console

        console = Console(highlight=False, soft_wrap=True)
        for part in parts:
            console.print(part, markup=not isinstance(part, str))


@app.command
def oracle(
    spec: Path,
    *,
    baseline: Literal["auto", "fluid", "joint"] = "auto",
    output: Output = Output(),
) -> None:
    """What the best policy that knows all means earns: value, Slater's constant, binding rules, shares of the actions.

    Also says which of the algorithm's assumptions hold. Example: `tightrope oracle examples/hospital.toml`

    Parameters
    ----------
    spec
        A TOML file with an [environment].
    baseline
        The program: on mean costs, on the joint law of context and costs, or whichever is right for the environment.
    """
    from tightrope.environments.build import environment_of
    from tightrope.oracle import check, solve

    read = _read(spec)
    env = environment_of(read)
    found = solve(env, baseline=baseline)
    m, horizon = _bounds(read)
    assumptions = check(env, m=m, horizon=horizon)
    weights = env.weights if found.atoms is None else found.atoms.weights
    shares = dict(zip(env.actions, (weights @ found.policy).tolist(), strict=True))
    constraints = [
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
        "certificate": {
            "verified": proof.verified,
            "bound": proof.bound,
            "gap": proof.gap,
            "primal_residual": proof.primal_residual,
            "dual_residual": proof.dual_residual,
        },
        "assumptions": {
            "hold": assumptions.holds,
            "m": assumptions.m,
            "tau_prime": assumptions.tau_prime,
            "items": [
                {"statement": item.statement, "measured": item.measured, "holds": item.holds}
                for item in assumptions.items
            ],
        },
    }
    folder = output.folder()
    if folder is not None:
        _write(folder / "oracle.json", data)
    facts = [
        ("value per round", f"{found.value:.6g}"),
        ("baseline", found.baseline),
        ("Slater's constant", f"{found.slater:.6g}"),
        ("certificate", f"{'verified' if proof.verified else 'NOT VERIFIED'}, gap {max(0.0, proof.gap):.1e}"),
    ]
    if found.baseline == "joint-sampled":
        facts.insert(1, ("95 % interval", f"{found.interval[0]:.6g} to {found.interval[1]:.6g}"))
    rows = [
        (one["name"], _number(one["slack"]), _number(one["dual"]), "yes" if one["binding"] else "no")
        for one in constraints
    ]
    output.show(
        data,
        _table("", ("", read.name), facts),
        *([_table("constraints", ("name", "slack", "dual", "binding"), rows)] if rows else []),
        _table("best shares", ("action", "share"), [(name, f"{share:.4f}") for name, share in shares.items()]),
        _table(
            "assumptions",
            ("must hold", "measured", "holds"),
            [(item.statement, item.measured, "yes" if item.holds else "NO") for item in assumptions.items],
        ),
        *([] if folder is None else [f"written to {folder / 'oracle.json'}"]),
    )


@app.command
def simulate(
    spec: Path,
    *,
    rounds: int | None = None,
    replications: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    output: Output = Output(),
) -> int | None:
    """Run the policies of a spec in its environment, many times, on all cores.

    Every policy sees the same draws. Ctrl-C keeps the replications that were finished.
    Example: `tightrope simulate examples/fair-jobs.toml --rounds 5000 --out out/jobs`

    Parameters
    ----------
    spec
        A TOML file with an [environment] and a [policy], or several as [[policy]].
    rounds
        Decisions in each replication; by default what the spec says.
    replications
        Independent runs of each policy; by default what the spec says.
    seed
        Same seed, same numbers; by default what the spec says.
    workers
        Cores to use; all by default.
    """
    from tightrope import engine
    from tightrope.environments.build import environment_of, policies_of

    read = _read(spec)
    env = environment_of(read)
    policies = policies_of(read, env)
    plan = read.simulation
    folder = output.folder()
    results: list[Result] = []
    interrupted = False
    for name, policy in policies.items():
        try:
            result = engine.simulate(
                policy,
                env,
                rounds=plan.rounds if rounds is None else rounds,
                replications=plan.replications if replications is None else replications,
                seed=plan.seed if seed is None else seed,
                workers=workers,
                name=name,
            )
        except KeyboardInterrupt:
            interrupted = True
            break
        results.append(result)
        if folder is not None:
            result.save(folder / _file_name(name))
        if result.interrupted:
            interrupted = True
            break
    _report(results, folder, output)
    return INTERRUPTED if interrupted else None
