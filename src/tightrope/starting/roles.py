"""Which column of a table is the action, which the reward, which says what was used: judged by names and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightrope.frames import Frame
from tightrope.starting.columns import NAMES, Column

MOST_ACTIONS = 1_000
ACTION_FEATURE = "action feature"
_GUESSED = 50  # a column with more values is only an action if its name, or the user, says so
_ROWS_EACH = 5  # with fewer rows of an action, columns are the same in all of them by chance
_EXPLAINED, _MOSTLY_EXPLAINED = 0.02, 0.3  # shares of a column's variance


@dataclass(frozen=True)
class Part:
    """One thing that is proposed, of what, and why.

    The role is "action", "reward", "label", "usage", "group", "context", "action feature", "rule", "sample" or "left out".
    """

    role: str
    what: str
    why: str


def find_action(columns: Mapping[str, Column], apart: Iterable[str] = ()) -> Part | None:
    """The column of the action taken: by its name, or the only candidate."""
    free = [one for one in columns.values() if one.name not in {*apart}]
    could = [one for one in free if is_choice(one)]
    many = [one for one in free if can_be_action(one) and _is_name(one)]
    if named := _by_name(could, NAMES["action"]) or _by_name(many, NAMES["many_actions"]):
        column, word = named
        why = f"the name says {word!r}, and it has {column.n_values:,} different values"
        return Part("action", column.name, why)
    texts = [one for one in could if one.kind == "category"]
    if len(texts) != 1:
        return None
    why = f"it is the only column of a few different texts: it has {texts[0].n_values}"
    return Part("action", texts[0].name, why)


def find_reward(
    columns: Mapping[str, Column], apart: Iterable[str] = (), success: str | None = None
) -> Part | None:
    """The column of the reward: by its name; if `success` is given it may hold any few values."""
    free = [one for one in columns.values() if one.name not in {*apart}]
    could = [one for one in free if is_outcome(one) or (success and success in map(str, one.values))]
    if named := _by_name(could, NAMES["reward"]):
        column, word = named
        why = f"the name says {word!r}, and it holds {_outcome_in_words(column)}"
        return Part("reward", column.name, why)
    return None


def find_label(columns: Mapping[str, Column]) -> Part | None:
    """The column of the right action: by its name."""
    if named := _by_name([one for one in columns.values() if is_choice(one)], NAMES["label"]):
        column, word = named
        each = f"each of its {column.n_values} values is an action, and the right one in its own rows"
        return Part("label", column.name, f"the name says {word!r}: {each}")
    return None


def find_per_action(columns: Mapping[str, Column]) -> dict[str, dict[str, str]]:
    """Columns with something about every action: ``{"reward": {"email": "reward_email", …}, "cost": {…}}``."""
    by_prefix: dict[str, dict[str, str]] = {}
    for column in columns.values():
        if column.kind not in ("number", "boolean", "constant"):
            continue
        for mark in ("_", ".", ":", " ", "-"):
            prefix, _, action = column.name.partition(mark)
            if prefix and action:
                by_prefix.setdefault(prefix, {})[action] = column.name
                break
    rewards = next((one for one in NAMES["reward"] if len(by_prefix.get(one, ())) > 1), None)
    if rewards is None:
        return {}
    actions = {*by_prefix[rewards]}
    same = {prefix: found for prefix, found in by_prefix.items() if {*found} == actions and prefix != rewards}
    return {"reward": by_prefix[rewards], **same}


def find_usage(frame: Frame, columns: Mapping[str, Column], action: str, apart: Iterable[str]) -> list[Part]:
    """The columns of what was used: their name says so, and they differ between actions."""
    found = []
    for column in columns.values():
        named = sorted(column.words & {*NAMES["usage"]})
        numbers = column.kind in ("number", "boolean") and column.low >= 0.0
        if column.name in {*apart} or not named or not numbers:
            continue
        range_, explained = _by_action(frame, column.name, action)
        if explained > _EXPLAINED:
            why = f"the name says {named[0]!r}, and its average differs between actions, {range_}"
            found.append(Part("usage", column.name, why))
    return found


def find_consequences(frame: Frame, columns: Mapping[str, Column], action: str) -> dict[str, str]:
    """Columns that the action explains so well that they must have come after it, and why in words."""
    found = {}
    for column in columns.values():
        if column.kind != "number" or column.name == action:
            continue
        range_, explained = _by_action(frame, column.name, action)
        if explained > _MOSTLY_EXPLAINED:
            late = f"its average depends on the action, {range_}, so it may have come afterwards"
            remedy = "use --usage if it says what was used, --context if it was known before"
            found[column.name] = f"{late}: {remedy}"
    return found


def find_action_features(
    frame: Frame, columns: Mapping[str, Column], action: str, apart: Iterable[str]
) -> dict[str, str]:
    """Columns that are the same in all rows of an action, so that they describe it, and why in words."""
    of = columns[action]
    if of.n_values < 3 or of.rows < _ROWS_EACH * of.n_values:
        return {}
    found = {}
    done = _codes(frame, action)
    n = np.unique(done).size
    for column in columns.values():
        varied = (
            column.kind in ("number", "boolean", "category", "date") and 2 <= column.n_values <= of.n_values
        )
        if column.name in {action, *apart} or not varied:
            continue
        pairs = np.unique(done * (column.n_values + 2) + _codes(frame, column.name)).size
        if pairs == n:
            values = f"{column.n_values:,} values over {of.n_values:,} actions"
            found[column.name] = (
                f"it is the same in all rows of an action, so it describes the action: {values}"
            )
    return found


def _codes(frame: Frame, name: str) -> NDArray[np.int64]:
    """A number for each value of a column, 0 for a gap."""
    coded = frame.texts(name)
    if coded is not None:
        return coded.codes.astype(np.int64) + 1
    array, missing = frame.column(name)
    codes = np.unique(array, return_inverse=True)[1].ravel().astype(np.int64) + 1
    return np.where(missing, 0, codes)


def find_leaks(frame: Frame, columns: Mapping[str, Column], reward: str, success: object = None) -> list[str]:
    """Columns that predict the reward almost exactly: they can't be known before it."""
    if columns[reward].kind not in ("number", "boolean") and success is None:
        return []
    paid, paid_missing = frame.column(reward)
    y = (paid == success).astype(float) if success is not None else paid.astype(float)
    found = []
    for column in columns.values():
        if column.name == reward or column.kind not in ("number", "boolean"):
            continue
        array, missing = frame.column(column.name)
        both = ~(missing | paid_missing)
        x, known = array[both].astype(float), y[both]
        varied = len(x) > 2 and np.ptp(x) > 0 and np.ptp(known) > 0
        if varied and abs(np.corrcoef(x, known)[0, 1]) > 0.99:
            found.append(column.name)
    return found


def is_choice(column: Column) -> bool:
    if column.kind == "number":
        return column.whole and 2 <= column.n_values <= 20
    return column.kind in ("category", "boolean") and 2 <= column.n_values <= _GUESSED


def can_be_action(column: Column) -> bool:
    """Whether a column that is said to be the action has few enough values, each in enough rows."""
    return column.n_values <= _GUESSED or (
        column.n_values <= MOST_ACTIONS and 2 * column.n_values <= column.rows
    )


def _is_name(column: Column) -> bool:
    return column.kind == "category" or (column.kind == "number" and column.whole)


def is_outcome(column: Column) -> bool:
    return column.kind in ("number", "boolean") or (column.kind == "category" and column.n_values == 2)


def good_value(column: Column) -> object | None:
    """Which of two texts is the good one; None if neither says so."""
    plain = {str(one).strip().lower(): one for one in reversed(column.values)}
    return next((plain[word] for word in NAMES["good"] if word in plain), None)


def _outcome_in_words(column: Column) -> str:
    if column.kind == "category":
        return " or ".join(map(repr, column.values))
    if column.kind == "boolean":
        return "0 or 1" if column.values[0] not in (True, False) or column.high else "true or false"
    return f"numbers from {column.low:g} to {column.high:g}"


def _by_name(could: list[Column], words: list[str]) -> tuple[Column, str] | None:
    """The first column whose name contains the surest of the words; an exact match goes first."""
    for whole in (True, False):
        for word in words:
            for column in could:
                if (column.words == {word}) if whole else (word in column.words and len(word) > 1):
                    return column, word
    return None


def _by_action(frame: Frame, name: str, action: str) -> tuple[str, float]:
    """The range of a column's averages by action, and the share of its variance that they explain beyond chance."""
    array, missing = frame.column(name)
    both = ~(missing | frame.missing(action))
    y = array[both].astype(float)
    codes = np.unique(_codes(frame, action)[both], return_inverse=True)[1].ravel()
    counts = np.bincount(codes)
    averages = np.bincount(codes, y) / counts
    total = ((y - y.mean()) ** 2).sum()
    between = (counts * (averages - y.mean()) ** 2).sum()
    chance = (len(counts) - 1) / max(1, len(y) - 1)
    range_ = f"from {averages.min():.3g} to {averages.max():.3g}"
    return range_, float(between / total - chance) if total > 0 else 0.0
