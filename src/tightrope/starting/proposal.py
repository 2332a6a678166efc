"""A proposal for a table: context, actions, reward, usage and rules, each with the reason in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.encoder import Encoder
from tightrope.errors import InvalidInput
from tightrope.frames import Frame
from tightrope.log import History, Log, action_name
from tightrope.messages import did_you_mean
from tightrope.starting import roles
from tightrope.starting.columns import MOST_VALUES, NAMES, Column, look
from tightrope.starting.roles import Part
from tightrope.starting.rule_text import Used, limited, read_rule, rule_name, rule_of

_GIVEN = "you said so"
_MOSTLY_MISSING = 0.95
# Of more rows than that a sample is looked at and simulated; kinds, ranges, gaps, actions and groups are those of all rows.
MOST_ROWS = 200_000
_RARE = 0.005  # the share of rows below which a value does not get its own category
_NAMED = 0.2  # the share of rows that the most common ids must have to be context


@dataclass(frozen=True, eq=False)
class Proposal:
    """A table as a problem: the actions, what callers send, what is earned and used, which rules must hold."""

    name: str
    history: History
    log: Log
    encoder: Encoder
    rules: tuple[dict[str, Any], ...]  # as in a spec
    parts: tuple[Part, ...]
    n_rows: int  # of the table; the log has fewer if some were left out, or if it is a sample
    reward_ends: tuple[float, float]  # the least and the greatest reward in the table

    def why(self, role: str, what: str) -> str:
        return next(part.why for part in self.parts if (part.role, part.what) == (role, what))

    @property
    def sampled(self) -> bool:
        """Whether the log is a sample of the table's rows."""
        return len(self.log) + self.log.left_out < self.n_rows

    @property
    def action_features(self) -> dict[str, list[Any]]:
        """The columns that describe actions: the value of each action, in the order of the log's."""
        names = [part.what for part in self.parts if part.role == roles.ACTION_FEATURE]
        first = [int(np.argmax(self.log.actions == j)) for j in range(self.log.n_actions)] if names else []
        return {name: self.log.frame.where(first).column(name).to_list() for name in names}

    @property
    def reward_range(self) -> tuple[float, float]:
        """The range of rewards: [0, 1] if the table's are in it, else twice as far as the table's."""
        low, high = self.reward_ends
        if low >= 0.0 and high <= 1.0:
            return 0.0, 1.0
        return min(0.0, 2.0 * low), max(2.0 * high, 0.0 if low < 0.0 else 1.0)


def propose(
    table: Any,
    *,
    file: str,
    name: str,
    action: str | None = None,
    reward: Sequence[str] = (),
    label: str | None = None,
    success: str | None = None,
    context: Sequence[str] = (),
    usage: Sequence[str] | None = None,
    rules: Sequence[str] | None = None,
    group: str | None = None,
) -> Proposal:
    """What the columns of a table are, judging by names and values; arguments override the guesses.

    Parameters
    ----------
    table : Frame, as `read_table` gives it, or any other table
    file
        What a spec beside the results calls it.
    reward : sequence of str
        A column; or ``action=column`` for each action, if a row has all rewards.
    success : str, optional
        The entry of the reward column that counts as 1.
    usage : sequence of str, optional
        Columns of what was used, none of them if empty.
    rules : sequence of str, optional
        Such as ``"letter <= 0.3"``, ``"minutes <= 4.5"`` or ``"letter >= 40% among far"``; none if empty.
    group
        The column of each row's group; by default the column that holds the groups which rules are among.

    Raises
    ------
    InvalidInput
        Names what the table does not show, the columns that might be meant, and the option to use.
    """
    whole = Frame(table)
    columns, path = look(whole), whole.path or Path(file)
    frame = whole if len(whole) <= MOST_ROWS else whole.where(_drawn(len(whole)))
    of_rewards = [one.rpartition("=")[2] for one in reward]
    for given in (action, label, group, *context, *(usage or ()), *of_rewards):
        if given is not None and given not in columns:
            missing = f"there is no column {given!r}{did_you_mean(given, columns)}"
            raise InvalidInput(f"{missing}; it has: {', '.join(columns)}", within=str(path))
    stated, parts = _outcome(columns, path, action, reward, label, success)
    of_groups = _groups(columns, path, stated, rules or (), group)
    group = of_groups.what if of_groups is not None else None
    used, why_used = _usage(frame, columns, stated, usage, group)
    history = History(file=file, **stated, usage=used, group=group)
    log = history.of(whole, most=MOST_ROWS)
    parts += [*why_used, *([] if of_groups is None else [of_groups])]
    if log.left_out:
        lacking = "they lack the action, the reward or what was used"
        parts.append(Part("left out", f"{log.left_out:,} rows", lacking))
    if sampled := len(log) + log.left_out < len(whole):
        drawn = f"{len(log):,} of {len(whole):,} rows"
        parts.append(
            Part(
                "sample", drawn, "drawn at random for estimates and simulations; ranges are those of all rows"
            )
        )
    # A group that was found among the columns is also known before a decision; one that was named may be a protected attribute.
    also = () if of_groups is None or of_groups.why == _GIVEN else (of_groups.what,)
    declared, why = _context(frame, columns, history, context, also)
    if not declared:
        nothing = "no column is left that could be known before a decision; name one with --context"
        raise InvalidInput(nothing, within=str(path))
    if sampled:
        declared = {one: _of_all_rows(stated, columns[one]) for one, stated in declared.items()}
    encoder = Encoder(declared).fit(log.frame)
    made, why_rules = _rules(log, rules, columns if sampled else {})
    ends = float(log.rewards.min()), float(log.rewards.max())
    if sampled and history.success is None and history.label is None:
        earned = [history.reward] if isinstance(history.reward, str) else (history.reward or {}).values()
        known = [columns[one] for one in earned if isinstance(one, str)]
        ends = min(ends[0], *(one.low for one in known)), max(ends[1], *(one.high for one in known))
    return Proposal(name, history, log, encoder, tuple(made), (*parts, *why_rules, *why), len(whole), ends)


def _drawn(n: int) -> Any:
    return np.sort(np.random.default_rng(0).choice(n, MOST_ROWS, replace=False, shuffle=False))


def _of_all_rows(stated: dict[str, Any], column: Column) -> dict[str, Any]:
    """A declaration with what a sample of the rows may miss: the range of a number, the values of a category."""
    if stated["type"] == "number":
        return {**stated, "min": column.low, "max": column.high}
    if stated["type"] == "category" and "values" not in stated and column.n_values <= MOST_VALUES:
        return {**stated, "values": _category_values(column.values)}
    return stated


# --- action, reward, usage ---


def _outcome(
    columns: Mapping[str, Column],
    path: Path,
    action: str | None,
    reward: Sequence[str],
    label: str | None,
    success: str | None,
) -> tuple[dict[str, Any], list[Part]]:
    """The fields of `History` for actions and rewards, and why."""
    if label is not None:
        return {"label": label}, [Part("label", label, _GIVEN)]
    if any("=" in one for one in reward):
        known = dict(_pair(one) for one in reward)
        return {"reward": known}, [Part("reward", one, _GIVEN) for one in known.values()]
    if len(reward) > 1:
        raise InvalidInput("--reward must name one column, or be ACTION=COLUMN for each action")
    if action is None and not reward and (per_action := roles.find_per_action(columns)):
        known = per_action["reward"]
        why = (
            f"there is one column for each of {len(known)} actions, so a row says what each would have earned"
        )
        return {"reward": known}, [Part("reward", one, why) for one in known.values()]
    stated_reward = Part("reward", reward[0], _GIVEN) if reward else None
    found = stated_reward or roles.find_reward(columns, [action] if action else (), success)
    stated_action = Part("action", action, _GIVEN) if action else None
    done = stated_action or roles.find_action(columns, [found.what] if found else ())
    unsaid = not reward and action is None and (done is None or found is None)
    if unsaid and (right := roles.find_label(columns)) is not None:
        return {"label": right.what}, [right]
    unclear = []
    if done is None:
        could = [one.name for one in columns.values() if roles.is_choice(one)]
        also = "; or use --label COLUMN if it holds the right action of each row"
        unclear.append(_unclear("was done", "--action", could) + also)
    if found is None:
        taken = None if done is None else done.what
        could = [one.name for one in columns.values() if roles.is_outcome(one) and one.name != taken]
        unclear.append(_unclear("was earned", "--reward", could))
    if unclear:
        raise InvalidInput(f"{path}: {'. And '.join(unclear)}")
    assert done is not None
    assert found is not None
    if not roles.can_be_action(columns[done.what]):
        many = f"has {columns[done.what].n_values:,} different values in {columns[done.what].rows:,} rows"
        most = f"at most {roles.MOST_ACTIONS:,} can be actions, on average in at least two rows each"
        raise InvalidInput(
            f"{path}: column {done.what!r} {many}, but {most}.", remedy="Name another with --action"
        )
    stated: dict[str, Any] = {"action": done.what, "reward": found.what}
    column = columns[found.what]
    if success is not None or column.kind not in ("number", "boolean"):
        counts, why = _success(path, column, success)
        stated["success"] = counts
        found = replace(found, why=f"{found.why}; {why}")
    return stated, [done, found]


def _success(path: Path, column: Column, success: str | None) -> tuple[Any, str]:
    """The entry of a column that counts as 1, and why."""
    where, values = f"{path}: column {column.name!r}", _listed(column.values)
    if success is None:
        good = roles.good_value(column)
        if good is None:
            raise InvalidInput(f"{where} holds {values}; use --success to say which of them is good")
        return good, f"{good!r} counts as 1, everything else as 0"
    for one in column.values:
        if success in (str(one), action_name(one)):
            return one, f"{one!r} counts as 1, everything else as 0, as you said"
    raise InvalidInput(f"{where} must hold --success {success!r}, but it holds {values}")


def _usage(
    frame: Frame,
    columns: Mapping[str, Column],
    stated: Mapping[str, Any],
    usage: Sequence[str] | None,
    group: str | None,
) -> tuple[dict[str, Any], list[Part]]:
    """What was used, by the name that rules use for it, and why."""
    if isinstance(stated.get("reward"), dict) and not usage:
        if usage is not None:
            return {}, []
        known = {name: one for name, one in roles.find_per_action(columns).items() if name != "reward"}
        why = "there is one column for each action: what that action would use"
        return known, [Part("usage", column, why) for one in known.values() for column in one.values()]
    if "action" not in stated:
        if usage:
            raise InvalidInput(
                "--usage is what each decision used, but no column says which action was taken"
            )
        return {}, []
    if usage is not None:
        return {one: one for one in usage}, [Part("usage", one, _GIVEN) for one in usage]
    apart = [one for one in (stated["action"], stated["reward"], group) if one]
    leaks = roles.find_leaks(frame, columns, stated["reward"], stated.get("success"))
    found = roles.find_usage(frame, columns, stated["action"], [*apart, *leaks])
    return {one.what: one.what for one in found}, found


# --- groups ---


def _groups(
    columns: Mapping[str, Column],
    path: Path,
    stated: Mapping[str, Any],
    rules: Sequence[str],
    group: str | None,
) -> Part | None:
    """The column of each row's group, and why: the one that was named, or the only one that holds the groups of the rules."""
    if group is not None:
        return Part("group", group, _GIVEN)
    named = dict.fromkeys(one for text in rules for one in read_rule(text).among)
    if not named:
        return None
    taken = {*History(file="", **stated).needed()}
    free = [one for one in columns.values() if one.name not in taken and roles.is_choice(one)]
    holding = [one for one in free if {*named} <= {*map(action_name, one.values)}]
    if len(holding) == 1:
        found = holding[0]
        return Part("group", found.name, f"it holds {_listed([*named])}, which a rule is among")
    listed = ", ".join(one.name for one in holding or free)
    words = "several columns hold" if holding else "no column holds"
    could = f" Could be: {listed}." if listed else ""
    raise InvalidInput(f"{path}: {words} the groups {_listed([*named])}.{could}", remedy="Use --group COLUMN")


# --- context ---


def _context(
    frame: Frame, columns: Mapping[str, Column], history: History, given: Sequence[str], also: Sequence[str]
) -> tuple[dict[str, Any], list[Part]]:
    """What callers send, as declarations for an encoder, and why; and what is left out, and why.

    The column of the group is part of the context only if it is named in `given` or `also`.
    """
    taken = {*history.needed()} - {*also}
    taken -= {history.group} & {*given}
    leaks: list[str] = []
    late: dict[str, str] = {}
    if isinstance(history.reward, str):
        leaks = roles.find_leaks(frame, columns, history.reward, history.success)
    described: dict[str, str] = {}
    if history.action is not None:
        described = roles.find_action_features(frame, columns, history.action, [*taken, *leaks])
        late = roles.find_consequences(frame, columns, history.action)
    declared: dict[str, Any] = {}
    parts: list[Part] = []
    for name in given or columns:
        if name in taken:
            if given:
                taken_as = "that column is the action, the reward or what was used"
                raise InvalidInput(taken_as, within=f"--context {name}")
            continue
        column = columns[name]
        if not given and name in described:
            parts.append(Part(roles.ACTION_FEATURE, name, described[name]))
            continue
        reason = None if given else _left_out(column, name in leaks) or late.get(name)
        if reason is not None:
            parts.append(Part("left out", name, reason))
            continue
        declared[name], why = _declared(column)
        parts.append(Part("context", name, why))
    return declared, parts


def _left_out(column: Column, leaks: bool) -> str | None:
    """Why a column is not part of the context; None if it is."""
    if leaks and column.kind not in ("empty", "constant"):
        return "it predicts the reward almost exactly, so it must be known only after the reward"
    by_kind = {
        "empty": "it is empty",
        "constant": f"it is {next(iter(column.values), None)!r} in every row that has a value",
        "id": f"it names the row: {column.n_values:,} different values in {column.rows:,} rows",
        "text": "it is free text: it differs in every row",
        "date": "a date does not come again. If it is written as 2026-03-31, --context includes it anyway",
    }
    if column.kind == "category" and column.n_values > MOST_VALUES and column.words & {*NAMES["id"]}:
        # Someone who comes again. Ten shops are a context; a thousand customers, each with a few rows, are not.
        kept = sum(column.counts[:MOST_VALUES])
        if kept < _NAMED * column.rows:
            most = f"the {MOST_VALUES} most common have {kept / column.rows:.0%} of the rows"
            again = f"it names someone or something that comes again: of {column.n_values:,} values, {most}"
            return f"{again}. --context includes it anyway"
    if column.kind not in by_kind and column.missing_share > _MOSTLY_MISSING:
        return f"{column.missing_share:.0%} of it is missing"
    return by_kind.get(column.kind)


def _declared(column: Column) -> tuple[dict[str, Any], str]:
    """How an encoder reads a column, also in words."""
    declared: dict[str, Any]
    if column.kind in ("category", "id", "text"):
        common = [one for one, count in zip(column.values, column.counts) if count >= _RARE * column.rows]
        declared = {"type": "category", "unseen": "other"}
        words = f"one of {column.n_values} values, or another"
        if column.n_values > MOST_VALUES:
            kept = common[:MOST_VALUES] or list(column.values[:MOST_VALUES])
            declared["values"] = _category_values(kept)
            words = f"one of its {len(kept)} most common values of {column.n_values:,}, or another"
    elif column.kind == "boolean":
        declared, words = {"type": "boolean"}, "true or false"
    elif column.kind == "date":
        declared, words = {"type": "date"}, "a date"
    else:
        declared, words = {"type": "number"}, f"a number, from {column.low:g} to {column.high:g} in the table"
    if column.missing:
        declared["missing"] = "indicator"
        share = f"{column.missing_share:.0%}" if column.missing_share >= 0.01 else "less than 1 %"
        words += f"; missing in {share} of the rows, which an extra column marks"
    return declared, words


def _category_values(values: Sequence[Any]) -> list[Any]:
    return sorted(int(one) if isinstance(one, float) and one.is_integer() else one for one in values)


# --- rules ---


def _rules(
    log: Log, given: Sequence[str] | None, columns: Mapping[str, Column]
) -> tuple[list[dict[str, Any]], list[Part]]:
    """The rules as a spec states them, and why; `columns` are those of all rows if the log is a sample."""
    used = {name: _used(log, name, columns) for name in log.columns.usage}
    if given is not None:
        made = [rule_of(text, log.action_names, used, groups=groups_of(log)) for text in given]
        return made, [Part("rule", rule_name(one), _GIVEN) for one in made]
    made, parts = [], []
    for name, one in used.items():
        made.append(limited(name, "at_most", _rounded_up(one.average), one))
        logged = "what was used on average in the table" if one.stated else "the average over all actions"
        why = f"{logged}: {one.average:.4g} per decision. Set it to what there really is"
        parts.append(Part("rule", rule_name(made[-1]), why))
    if made:
        return made, parts
    favourite, share, why = _favourite(log)
    made.append({"kind": "capacity", "action": favourite, "at_most": share})
    why += " The table can't say whether there is room for more: change the limit, or remove the rule"
    return made, [Part("rule", rule_name(made[0]), why)]


def _used(log: Log, usage: str, columns: Mapping[str, Column]) -> Used:
    stated = log.columns.usage[usage]
    done = isinstance(stated, str)
    extra = {"seen": "after"} if done else {}
    names = [stated] if isinstance(stated, str) else [one for one in stated.values() if isinstance(one, str)]
    if columns and len(names) == (1 if done else len(stated)):
        every = [columns[one] for one in names]
        average = float(np.mean([one.mean for one in every]))
        return Used(min(one.low for one in every), max(one.high for one in every), extra, average)
    used = log.used(usage, None if done else list(stated))
    average = float(np.mean([one.mean() for one in np.atleast_2d(used.T)]))
    return Used(float(used.min()), float(used.max()), extra, average)


def _favourite(log: Log) -> tuple[str, float, str]:
    """The action that earned most on average, its share of the rows, and a sentence about it."""
    _, done, rewards = log.lessons()
    actions = log.action_names
    counts = np.bincount(done, minlength=len(actions))
    j = int(np.argmax(np.bincount(done, rewards, len(actions)) / np.maximum(1, counts)))
    best = actions[j]
    if log.tells_all:
        even = 1.0 / len(actions)
        why = f"it would earn most on average; an even share of {len(actions)} actions is {even:.0%}."
        return best, max(0.05, round(even, 2)), why
    share = float(counts[j] / len(log))
    rounded = min(0.95, max(0.01, math.ceil(100 * share - 1e-9) / 100))
    return best, rounded, f"it earned most on average, and had {share:.1%} of the rows."


def groups_of(log: Log) -> list[str]:
    """The groups that rows of a log belong to, sorted; none if no column says them."""
    return [] if log.context_groups is None else np.unique(log.context_groups).tolist()


def _rounded_up(value: float) -> float:
    """Rounded up to three digits, so that the table's decisions keep the rule."""
    if value <= 0.0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / step - 1e-9) * step:.12g}")


def _pair(text: str) -> tuple[str, str]:
    action, _, column = text.partition("=")
    if not action or not column:
        must = "be ACTION=COLUMN for every action, or for none"
        raise InvalidInput(field="reward", must=must, got=text)
    return action, column


def _unclear(what: str, option: str, could: list[str]) -> str:
    listed = f": {', '.join(could)}?" if could else "? No column looks like it."
    return f"which column says what {what}{listed} Use {option} COLUMN"


def _listed(values: Sequence[Any]) -> str:
    shown = ", ".join(map(repr, values[:6]))
    return shown + (", …" if len(values) > 6 else "")
