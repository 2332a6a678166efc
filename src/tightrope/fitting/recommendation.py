"""`tr.compare_models`: which model suits logged decisions, and a spec that can be simulated and served with it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import displays
from tightrope.encoder import Encoder
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.files import replacing, write, write_json
from tightrope.fitting.comparison import Comparison, compare, features_of
from tightrope.frames import AsFrame, Frame
from tightrope.log import Log, LogColumns
from tightrope.report import Report, calibration_figure
from tightrope.spec import Spec, make_spec, names_encoder
from tightrope.toml import dumps
from tightrope.validation import Array

_MOST_CONTEXTS = 4000
ENCODER, TABLE, SPEC = "encoder.json", "table.npz", "spec.toml"


@dataclass(frozen=True, eq=False)
class Fit(AsFrame):
    """What `compare_models` found: a comparison for the reward, one for the logged costs, and what to do with them."""

    name: str
    log: Log
    reward: Comparison
    cost: Comparison | None
    encoder: Encoder | None
    base: Mapping[str, Any] = field(default_factory=dict)

    @property
    def comparisons(self) -> list[Comparison]:
        return [self.reward] if self.cost is None else [self.reward, self.cost]

    def words(self) -> list[str]:
        """The recommendation, in sentences."""
        return [sentence for one in self.comparisons for sentence in one.words()]

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row for each model of the reward and of the costs."""
        return [row for one in self.comparisons for row in one.frame_rows()]

    def __str__(self) -> str:
        lines = [f"{self.name}: {self._size()}"]
        for comparison in self.comparisons:
            for one in comparison.fitted:
                mark = "*" if one is comparison.recommended else " "
                lines.append(f"{mark} {comparison.what} by {one.name}: {one.loss:.3f} ± {one.loss_error:.3f}")
        return "\n".join([*lines, *self.words()])

    def __repr__(self) -> str:
        chosen = ", ".join(f"{one.what} by {one.recommended.name}" for one in self.comparisons)
        return f"Fit({self.name!r}: {self._size()}; {chosen})"

    def _repr_html_(self) -> str:
        parts = [*(one.html_table() for one in self.comparisons), displays.lines_of(self.words())]
        return displays.page(f"Models for {self.name}: {self._size()}", *parts)

    def _size(self) -> str:
        return f"{self.log.n_rows:,} rows, {self.log.n_actions} actions"

    def environment(self) -> Tabular:
        """The log as a world to try policies in: its contexts, and the recommended model's expectation for every action.

        Each row's expectations come from a fold that did not learn from it. They are a model's, not the truth: a simulation in this
        world shows how a policy would do if the model were right.
        """
        rewards, seen, x = self.reward.recommended.expected[:, :, 0], self.log.rewards, features_of(self.log)
        rows = self._contexts()
        left = seen - rewards[np.arange(len(seen)), self.log.actions]
        return Tabular(
            np.full(len(rows), 1.0 / len(rows)),
            None if x is None else x[rows],
            np.clip(rewards, seen.min(), seen.max())[rows],
            reward_noise="bernoulli" if np.isin(seen, (0.0, 1.0)).all() else "gaussian",
            reward_scale=max(1e-9, float(left.std())),
            actions=self.log.action_names,
            name=self.name,
        )

    def spec_data(self) -> dict[str, Any]:
        """A spec as plain data: the one that was given, or a new one, with the recommended models in its policies."""
        data: dict[str, Any] = {"name": self.name, "actions": list(self.log.action_names), **self.base}
        if self.encoder is not None and not data.get("context"):
            data["context"] = {"encoder": ENCODER}
        models = {"reward": dict(self.reward.recommended.settings)}
        rules = make_spec({"actions": data["actions"], "rule": data.get("rule", [])}).rules
        if self.cost is not None and rules is not None and not rules.seen.all():
            models["cost"] = dict(self.cost.recommended.settings)
        stated = data.get("policy", {})
        data["policy"] = [one | models for one in stated] if isinstance(stated, list) else stated | models
        if "environment" not in data:
            env = self.environment()
            data["environment"] = {"kind": "tabular", "file": TABLE, "reward_noise": env.reward_noise}
            if env.reward_noise == "gaussian":
                data["environment"]["reward_scale"] = env.reward_scale
            data.setdefault("simulation", {"rounds": 10_000, "replications": 10})
        return data

    def _usage(self, rules: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
        """What each action is expected to use in each context of the environment, for rules that count what was logged."""
        if self.cost is None:
            return {}
        counted = {one.get("name") for one in rules if "usage" not in one}
        expected, costs = self.cost.recommended.expected[self._contexts()], self.log.costs
        return {
            f"usage.{name}": np.clip(expected[:, :, k], costs[:, k].min(), costs[:, k].max())
            for k, name in enumerate(self.log.constraints)
            if name in counted
        }

    def _contexts(self) -> NDArray[np.intp]:
        n = self.log.n_rows
        if n <= _MOST_CONTEXTS:
            return np.arange(n)
        return np.sort(np.random.default_rng(0).choice(n, _MOST_CONTEXTS, replace=False))

    def save(self, folder: str | Path) -> Path:
        """Write the page `index.html`, `summary.json`, `spec.toml` and the files that it names; the page's path."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        data = self.spec_data()
        if self.encoder is not None and data.get("context") == {"encoder": ENCODER}:
            self.encoder.save(place / ENCODER)
        if data["environment"].get("file") == TABLE:
            env = self.environment()
            arrays: dict[str, Any] = {"weights": env.weights, "rewards": env.rewards}
            if env.features is not None:
                arrays["features"] = env.features
            arrays |= self._usage(data.get("rule", ()))
            with replacing(place / TABLE) as draft, draft.open("wb") as file:
                np.savez_compressed(file, **arrays)
        note = "\n".join(f"# {sentence}" for sentence in self.words())
        write(place / SPEC, f"{note}\n\n{dumps(data)}")
        write_json(place / "summary.json", {"rows": self.frame_rows(), "words": self.words()}, indent=2)
        size = f"{self.log.n_rows:,} logged decisions on {self.log.n_actions} actions"
        page = Report(f"Which model for {self.name}?", size)
        page.template("tightrope.fitting/page.html", fit=self, figure=calibration_figure, spec=SPEC)
        return page.write(place, date=datetime.date.today().isoformat())


def compare_models(
    data: Any,
    models: Sequence[Any] | None = None,
    *,
    action: str = "action",
    reward: str = "reward",
    probability: str | None = None,
    context: Sequence[str] | Mapping[str, Any] | None = None,
    cost: Sequence[str] = (),
    group: str | None = None,
    in_order: bool = False,
    spec: Spec | None = None,
    name: str | None = None,
    progress: bool | None = None,
) -> Fit:
    """Compare models on logged decisions by cross-validation, and recommend one.

    Each model predicts rows that it did not learn from: those of another fold, or, `in_order`, those that come next. Among the
    models within one standard error of the best, it recommends the simplest.

    Parameters
    ----------
    data : Log, DataFrame, mapping of columns or list of rows
        Logged decisions.
    models : sequence of names or settings, optional
        "arm-means", "linear", "logistic", "random-features", "small-boosted-trees", "boosted-trees", "extra-trees", "mlp", any
        registered model, or settings with the name under `model`; by default all of these that fit.
    action, reward, probability, cost, group : column names
        Columns of a table; `probability` is the one with which the action was drawn, `cost` what is seen after acting.
    context : sequence of columns, or declarations as `Encoder` takes them, optional
        By default all other columns.
    in_order : bool
        Whether rows are in the order of time and what was done depended on earlier outcomes.
    spec : Spec, optional
        Whose rules, context and policy the new spec takes over.
    name : str, optional
        Of the new spec.
    progress : bool, optional
        A progress bar; by default in a notebook and on a terminal.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> age, sent = rng.uniform(20, 80, 3000), rng.choice(["email", "letter"], 3000)
    >>> bought = rng.random(3000) < np.where(sent == "letter", age / 100, 0.4)
    >>> table = {"age": age, "sent": sent, "bought": bought}
    >>> found = compare_models(table, ["arm-means", "linear"], action="sent", reward="bought")
    >>> found.reward.recommended.name
    'linear'
    """
    encoder = None if spec is None else spec.encoder
    if isinstance(data, Log):
        log = data
    else:
        frame = Frame(data)
        if encoder is None:
            taken = {action, reward, probability, group, *cost}
            columns = context if context is not None else [one for one in frame.names if one not in taken]
            encoder = Encoder(columns).fit(frame) if len(columns) else None
        log = Log.from_frame(
            frame,
            LogColumns(action=action, reward=reward),
            actions=spec.actions if spec is not None and spec.actions else None,
            every=False,
            encoder=encoder,
            costs=cost,
            probability=probability,
            unit=group,
            in_order=in_order,
        )
    if spec is not None and spec.actions and tuple(spec.actions) != log.action_names:
        expected, came = (", ".join(map(repr, names)) for names in (spec.actions, log.action_names))
        wanted = f"be the spec's, {expected}, but they are {came}"
        raise InvalidInput(field="the actions of the log", must=wanted)
    compared = compare(log, models, progress=progress)
    costs = None
    if log.costs.ndim == 2 and (log.costs.var(axis=0) > 0.0).any():
        costs = compare(log, models, what="cost", outcomes=log.costs, progress=progress)
    title = name or (spec.name if spec is not None else "fit")
    return Fit(title, log, compared, costs, encoder, _base(spec))


def _base(spec: Spec | None) -> dict[str, Any]:
    """What the new spec takes over, with absolute paths to the files that it names."""
    if spec is None:
        return {}
    data = {key: value for key, value in spec.data.items() if key != "sweep"}
    if names_encoder(data.get("context", {})):
        del data["context"]
    stated = spec.environment
    if stated is not None and isinstance(file := stated.settings.get("file"), str):
        data["environment"] = {**data["environment"], "file": str((stated.folder / file).resolve())}
    return data
