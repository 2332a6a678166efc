"""The configuration of an experiment: what of a spec is served, the policy that it asks for, and what may change while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tightrope.policies import Policy
from tightrope.policies.build import build_policy
from tightrope.service.journal import Started, as_recorded
from tightrope.spec import Spec, make_spec, named_kinds
from tightrope.trust import absolute


def served_part(spec: Spec) -> dict[str, Any]:
    """What of a spec the service depends on, as the journal gives it back: a spec made of it has the very same part.

    The policy's kind is named, whatever the default may be later.

    >>> served_part(make_spec({"actions": ["a"], "simulation": {"rounds": 5}}, name="beds"))
    {'actions': ['a'], 'policy': {'kind': 'shadow-price'}, 'name': 'beds'}
    """
    # What was learnt before the first decision is in the journal itself.
    apart = ("environment", "simulation", "sweep", "warm_start")
    part = {key: value for key, value in spec.data.items() if key not in apart}
    part |= {"policy": named_kinds(part.get("policy", {})), "name": spec.name}
    if spec.encoder is not None:
        # The journal is replayed without the file, and whatever becomes of it.
        part["context"] = {"encoder": spec.encoder.to_dict()}
    folder = spec.policies[0].folder
    whole = part | {key: _absolute(part[key], folder) for key in ("policy", "rule") if key in part}
    recorded: dict[str, Any] = as_recorded(whole)
    return recorded


def continued(spec: Spec, recorded: Spec) -> Spec:
    """`spec` for an experiment that has begun.

    Where it names no kind of policy, the one that is recorded decides on. Where its context has the same fields in another order,
    they keep the order in which their features were learnt.

    >>> begun = make_spec({"actions": ["a"], "policy": {"kind": "uniform"}})
    >>> continued(make_spec({"actions": ["a"]}), begun).policies[0].kind
    'uniform'
    """
    stated = spec.data.get("policy", {})
    change = {"policy": named_kinds(stated, recorded.policies[0].kind)}
    if change["policy"] == named_kinds(stated):
        change = {}
    was, now = (served_part(one).get("context") for one in (recorded, spec))
    if was == now and spec.context_names != recorded.context_names:
        change["context"] = was
    if not change:
        return spec
    data, folder = {**spec.data, **change}, spec.policies[0].folder
    return make_spec(data, source=spec.source, folder=folder, name=spec.name, trust=spec.trust)


def changed_fields(present: Started, wanted: Started) -> tuple[list[str], list[str]]:
    """The parts of the spec, and the settings beside it, in which two configurations differ."""
    was, now = present.spec, wanted.spec
    parts = [key for key in {**was, **now} if was.get(key) != now.get(key)]
    settings = [
        name for name in ("expire_after", "max_pending") if getattr(present, name) != getattr(wanted, name)
    ]
    return parts, settings


def served_policy(spec: Spec) -> Policy:
    """The policy of a spec, new."""
    if not spec.actions:
        raise spec.error("actions: is missing: the service must know what it may answer")
    if len(spec.policies) != 1:
        names = ", ".join(repr(policy.name) for policy in spec.policies)
        raise spec.error(
            f"policy: the service runs one policy, but the spec has {len(spec.policies)}: {names}"
        )
    kind = spec.policies[0].kind
    policy: Policy | None = None
    if kind == "oracle":
        reasons = ["it knows the truth of an environment, and there is none here"]
    elif isinstance(built := build_policy(spec.policies[0], spec.problem()), Policy):
        policy, reasons = built, spec.problem().misfits(built)
    else:
        reasons = ["a policy that is served inherits tightrope.policies.Policy, which saves and restores it"]
    if reasons or policy is None:
        raise spec.error(f"policy.kind: {kind!r} can't be served here: {'; '.join(reasons)}")
    return policy


def constraint_names(spec: Spec) -> tuple[str, ...]:
    """The names of its K constraints."""
    return () if spec.rules is None else spec.rules.names


def known_before(spec: Spec) -> list[Any]:
    """All that costs seen before acting depend on."""
    return [(one.rule, one.usage) for one in spec.rule_specs if one.rule.seen == "before"]


def require_fit(old: Spec, new: Spec, was: Policy, now: Policy) -> None:
    """Refuse a spec under which what was learnt would mean something else."""
    late = [[one.rule for one in spec.rule_specs if one.rule.seen == "after"] for spec in (old, new)]
    for what, before, after in (
        ("name", old.name, new.name),
        ("actions", old.actions, new.actions),
        ("context", old.encoder or [*old.context.items()], new.encoder or [*new.context.items()]),
        ("features", old.vector, new.vector),
        ("policy.kind", was.kind, now.kind),
        ("policy.reward", was.settings().get("reward"), now.settings().get("reward")),
        ("policy.cost", was.settings().get("cost"), now.settings().get("cost")),
        ("rules seen after acting", *late),
    ):
        if before != after:
            raise new.error(
                f"{what}: can't change while the experiment runs, since what was learnt depends on it: was {before!r}, "
                f"but now is {after!r}"
            )


def _absolute(stated: Any, folder: Path) -> Any:
    """What a spec says of policy or rules, with whole paths of classes of your own: a journal is replayed in any folder."""
    if isinstance(stated, list):
        return [_absolute(one, folder) for one in stated]
    if not isinstance(stated, dict):
        return absolute(stated, folder) if isinstance(stated, str) else stated
    named = ("kind", "model", "reward", "cost")
    return {key: _absolute(value, folder) if key in named else value for key, value in stated.items()}
