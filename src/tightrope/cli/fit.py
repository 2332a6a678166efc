"""`tightrope fit`: which model suits logged decisions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from tightrope.cli.app import DEFAULT, Output, Trust, command, import_extra
from tightrope.cli.tables import table

_TABLES = (".csv", ".csv.gz", ".parquet")
_MANY = Parameter(negative=())


@command("tightrope fit log.csv --action sent --reward bought --probability chance --out out/fit")
def fit(
    log: str,
    /,
    *,
    action: str = "action",
    reward: str = "reward",
    probability: str | None = None,
    context: Annotated[tuple[str, ...], _MANY] = (),
    cost: Annotated[tuple[str, ...], _MANY] = (),
    group: str | None = None,
    in_order: Annotated[bool, Parameter(negative=())] = False,
    spec: Path | None = None,
    model: Annotated[tuple[str, ...], _MANY] = (),
    experiment: str | None = None,
    trust: Trust = False,
    output: Output = DEFAULT,
) -> None:
    """Compare models on logged decisions by cross-validation, recommend one in words, and write a spec with it.

    The page with calibration plots, summary.json and spec.toml, ready for `tightrope simulate` and `tightrope serve`, go to --out,
    by default to the folder fit.

    Parameters
    ----------
    log
        A table (.csv, .csv.gz, .parquet) with a row for each decision, or a journal of the service, which knows its columns: a
        SQLite file, its --data folder, or postgresql://…
    action
        The column of what was done.
    reward
        The column of what it brought.
    probability
        The column of the probability with which it was done; with it, what each model's favourites would earn is estimated.
    context
        A column that is known before acting; may be repeated. By default all that no other option names.
    cost
        A column of what was used, seen after acting; may be repeated.
    group
        The column of whom a row is about, where rows of one person resemble each other.
    in_order
        Rows are in the order of time, and what was done depended on earlier outcomes.
    spec
        A TOML file whose actions, rules, context and policy the new spec takes over.
    model
        A model to compare: arm-means, linear, logistic, random-features, small-boosted-trees, boosted-trees, extra-trees, mlp,
        or any that is registered; may be repeated. By default all that fit.
    experiment
        Which experiment of a folder or database; needed where there are several.
    """
    from tightrope.fitting import compare_models as fitted
    from tightrope.spec import read_spec

    given: Any
    how: dict[str, Any] = {"spec": None if spec is None else read_spec(spec, trust=trust)}
    if log.endswith(_TABLES):
        from tightrope.tables import read_table

        given = read_table(log)
        how |= {"action": action, "reward": reward, "probability": probability, "cost": cost, "group": group}
        how |= {"context": context or None, "in_order": in_order, "name": Path(log).name.split(".")[0]}
    else:
        storage, logged = (
            import_extra(f"tightrope.service.{one}", "service")
            for one in ("storage", "offline.served_decisions")
        )
        journal = storage.open_journal(log, experiment)
        try:
            given, recorded = logged.log_of(journal, trust=trust)
        finally:
            journal.close()
        how["spec"] = how["spec"] or recorded
    if how["spec"] is not None:
        how["name"] = how["spec"].name
    found = fitted(given, model or None, **how, tell=lambda line: print(line, file=sys.stderr))
    page = found.save(output.out or Path("fit"))
    data = {
        "rows": found.rows(),
        "words": found.words(),
        "page": str(page),
        "spec": str(page.parent / "spec.toml"),
    }
    output.show(
        data,
        *(_table(one) for one in (found.reward, found.cost) if one is not None),
        *found.words(),
        f"the page is {page}, the spec {data['spec']}",
    )


def _table(comparison: Any) -> Any:
    valued = any(one.value is not None for one in comparison.fitted)
    head = [
        "model",
        "squared error, of the variance",
        "off at its levels (by chance)",
        *["would earn"] * valued,
        "seconds",
    ]
    rows = []
    for one in comparison.fitted:
        mark = " ←" if one is comparison.recommended else ""
        row = [one.name + mark, f"{one.loss:.4f} ± {one.loss_error:.4f}"]
        row.append(f"{one.calibration.gap:.4f} ({one.calibration.noise:.4f})")
        if valued:
            row.append("" if one.value is None else f"{one.value.reward.value:.4f}")
        rows.append([*row, f"{one.seconds:.1f}"])
    return table(f"models of the {comparison.what}, on rows that they have not learnt from", head, rows)
