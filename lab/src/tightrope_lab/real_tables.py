"""Three tables that come with scikit-learn (the extra `data`), each with rules of which at least three bind at the optimum.

A context is a row of the table, drawn with equal chance, and its features are the row's own. Rewards are exact: nothing is fitted,
and they are not linear in the features. Costs are seen before acting.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.environments.build import register
from tightrope.environments.table import from_table
from tightrope.environments.tabular import Tabular
from tightrope.rules import Budget, Capacity, Rules, Share

# What a decision is worth when the tumour is malignant, and when it is benign.
_WORTH = {"discharge": (0.0, 1.0), "review": (0.6, 0.7), "biopsy": (1.0, 0.3)}

# Minutes that a desk takes to read a digit.
_MINUTES = (0.2, 0.9, 0.3, 0.5, 0.4, 0.6, 0.3, 0.8, 1.0, 0.7)


@register("digits")
def digits() -> Tabular:
    """Handwritten digits to ten desks, one for each digit; reward 1 for the right one.

    Three desks are short of hands, one is owed work, and reading time is limited.
    """
    short = [Capacity(desk, at_most=0.08) for desk in ("1", "3", "8")]
    rules = Rules(
        [*short, Share("0", at_least=0.12), Budget("minutes", at_most=0.52)],
        actions=[str(digit) for digit in range(10)],
    )
    minutes = dict(zip(rules.actions, _MINUTES, strict=True))
    return _labelled("digits", _columns("digits"), rules, usage={"minutes": minutes})


@register("breast-cancer")
def breast_cancer() -> Tabular:
    """Tumours to a biopsy, a review or a discharge; what each is worth depends on the diagnosis.

    Few biopsies in all, some of small tumours, and reviews for audit.
    """
    frame = _columns("breast_cancer")
    measured, malignant = [column for column in frame if column != "label"], frame["label"] == "0"
    frame |= {action: np.where(malignant, *worth) for action, worth in _WORTH.items()}
    frame["tumour"] = np.where(frame["mean area"] < np.median(frame["mean area"]), "small", "large")
    rules = [
        Capacity("biopsy", at_most=0.3),
        Share("biopsy", at_least=0.1, among="small"),
        Share("review", at_least=0.15),
    ]
    return from_table(
        frame,
        context=measured,
        reward={action: action for action in _WORTH},
        rules=Rules(rules, actions=list(_WORTH)),
        group="tumour",
        name="breast-cancer",
    )


@register("wine")
def wine() -> Tabular:
    """Wines of three growers to three shelves, one for each grower; reward 1 for the right one.

    One shelf takes few strong wines, one few light ones, one few of any.
    """
    frame = _columns("wine")
    rules = [
        Capacity("0", at_most=0.45, among="strong"),
        Capacity("1", at_most=0.6, among="light"),
        Capacity("2", at_most=0.22),
    ]
    strength = np.where(frame["alcohol"] > 13.0, "strong", "light")
    return _labelled("wine", frame, Rules(rules, actions=["0", "1", "2"]), strength=strength)


def _labelled(
    name: str, frame: dict[str, Any], rules: Rules, *, usage: Any = None, **group: NDArray[Any]
) -> Tabular:
    """Reward 1 for the label; at most one column more, which says what group a row is of."""
    measured = [column for column in frame if column != "label"]
    of_group = next(iter(group), None)
    return from_table(
        frame | group, context=measured, label="label", usage=usage, rules=rules, group=of_group, name=name
    )


def _columns(name: str) -> dict[str, NDArray[Any]]:
    """A data set of scikit-learn: its columns by name, and the label as a string."""
    try:
        from sklearn import datasets
    except ModuleNotFoundError as error:
        missing = f"the table {name.replace('_', '-')!r} comes with scikit-learn"
        raise ModuleNotFoundError(f"{missing}: pip install 'tightrope[data]'", name=error.name) from error
    found = getattr(datasets, f"load_{name}")()
    columns = {str(column): found.data[:, i] for i, column in enumerate(found.feature_names)}
    return columns | {"label": found.target.astype(str)}
