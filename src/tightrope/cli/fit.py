"""`tightrope fit`: which model suits logged decisions."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from tightrope.cli.app import DEFAULT, Flag, Output, Several, Trust, command
from tightrope.cli.journals import ExperimentName
from tightrope.cli.tables import table

_TABLES = (".csv", ".csv.gz", ".parquet")


@Parameter(name="*")
@dataclass(frozen=True)
class Columns:
    """Which column of a table is what."""

    action: str = "action"
    "The column of the action that was taken."
    reward: str = "reward"
    "The column of the reward."
    probability: str | None = None
    "The column of the action's probability; with it, the command estimates what each model's favourite actions would earn."
    context: Several = ()
    "A column that is known before acting; may be repeated. By default all columns that no other option names."
    cost: Several = ()
    "A column of what was used, seen after acting; may be repeated."
    group: str | None = None
    "The column that says who a row is about, if rows of one person resemble each other."
    in_order: Flag = False
    "Rows are in order of time, and actions depended on earlier outcomes."


_NAMED_SO = Columns()


@command("tightrope fit log.csv --action sent --reward bought --probability chance --out out/fit")
def fit(
    log: str,
    /,
    *,
    columns: Columns = _NAMED_SO,
    spec: Path | None = None,
    model: Several = (),
    experiment: ExperimentName = None,
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
        SQLite file, its --data folder, or an address as for `serve --database`.
    spec
        A TOML file whose actions, rules, context and policy the new spec takes over.
    model
        A model to compare: arm-means, linear, logistic, random-features, small-boosted-trees, boosted-trees, extra-trees, mlp, or
        any registered model; may be repeated. By default all that fit.
    """
    from tightrope.fitting import compare_models
    from tightrope.spec import read_spec

    given: Any
    stated = None if spec is None else read_spec(spec, trust=trust)
    how: dict[str, Any] = {}
    if log.endswith(_TABLES):
        from tightrope.tables import read_table

        given = read_table(log)
        how = {**vars(columns), "context": columns.context or None, "name": Path(log).name.split(".")[0]}
    else:
        from tightrope.service.offline.served_decisions import log_of
        from tightrope.service.storage import open_journal

        with closing(open_journal(log, experiment)) as journal:
            given, recorded = log_of(journal, trust=trust)
        stated = stated or recorded
    if stated is not None:
        how |= {"spec": stated, "name": stated.name}
    found = compare_models(given, model or None, **how)
    page = found.save(output.out or Path("fit"))
    written = page.parent / "spec.toml"
    title = "models of the {}, on rows that they did not learn from"
    output.show(
        {"rows": found.frame_rows(), "words": found.words(), "page": str(page), "spec": str(written)},
        *(table(title.format(one.what), *one.table("{} ←")) for one in found.comparisons),
        *found.words(),
        f"the page is {page}, the spec {written}",
    )
