"""Saved policies: exact, versioned, and never half read."""

from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
import io
import json
import os
import zipfile

import numpy as np
import pytest

import tightrope as tr
from strategies import unit_rows
from tightrope.policies import state_file


def rules(seen="before"):
    return tr.Rules(
        [
            tr.Capacity("a", at_most=0.6),
            tr.Budget("hours", at_most=0.5, range=(0, 2), seen=seen, among="A"),
            tr.Mean("wait", at_least=0.1, at_most=0.8),
        ],
        actions=["a", "b", "c"],
    )


def offer(form, rng):
    """One round's arguments of `decide`."""
    if form in ("A", "measured", "own schedules"):
        J = int(rng.integers(1, 6))
        return {"features": unit_rows(rng, J, 3), "costs": rng.uniform(-1, 1, (J, 2))}
    if form == "B":
        return {"features": unit_rows(rng, 4, 3), "cost_features": unit_rows(rng, 4, 5)}
    if form == "arms":
        return {"actions": rng.permutation(4)[: rng.integers(1, 5)].tolist()}
    if form == "disjoint":
        return {"features": unit_rows(rng, 1, 2)[0], "costs": rng.uniform(-1, 1, (3, 2))}
    if form == "unconstrained":
        return {"features": unit_rows(rng, 4, 3)}
    usage = {"hours": rng.uniform(0, 2, 3), "wait": rng.uniform(0, 1, 3)}
    return {
        "features": unit_rows(rng, 1, 2)[0],
        "usage": usage,
        "group": ["A", (), ("B", "A"), "C"][rng.integers(4)],
    }


def make(form):
    settings = {"slater": 0.2, "horizon": 1000}
    if form == "A":
        return tr.PessimisticOptimistic(
            reward=tr.Ridge(3, bonus=0.3, ridge=0.5, m=2), constraints=2, **settings
        )
    if form == "measured":
        return tr.PessimisticOptimistic(reward=tr.Ridge(3), constraints=2, seed=5)
    if form == "own schedules":
        powers = {"V": tr.Power(4.0, 0.5), "epsilon": tr.Power(1.0, -0.5)}
        return tr.PessimisticOptimistic(reward=tr.Ridge(3), constraints=2, **powers)
    if form == "B":
        wide = {"constraints": 2, "cost_range": [(-0.5, 1), (-1, 1)], **settings}
        return tr.PessimisticOptimistic(reward=tr.Ridge(3), cost=tr.Ridge(5, bonus=0.1), **wide)
    if form == "arms":
        return tr.PessimisticOptimistic(reward=tr.ArmMeans(4), cost=tr.ArmMeans(4), constraints=2, **settings)
    if form == "disjoint":
        return tr.PessimisticOptimistic(reward=tr.DisjointRidge(3, 2), constraints=2, **settings)
    if form == "unconstrained":
        return tr.policies.LinUCB(tr.Ridge(3), horizon=50)
    if form == "rules":
        return tr.PessimisticOptimistic(reward=tr.DisjointRidge(3, 2), constraints=rules(), slater=0.05)
    return tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(3, 2), cost=tr.ArmMeans(3), constraints=rules("after"), slater=0.05
    )


FORMS = ["A", "measured", "own schedules", "B", "arms", "disjoint", "unconstrained", "rules", "mixed rules"]


def outcome(form, rng):
    """The reward, and what is seen after acting."""
    reward = float(rng.random())
    if form in ("B", "arms"):
        return reward, {"costs": rng.uniform(-0.5, 1, 2)}
    if form == "mixed rules":
        return reward, {"usage": {"hours": float(rng.uniform(0, 2))}}
    return reward, {}


def lived(form, rounds=40, seed=0):
    """A policy with a past: most outcomes learnt, some in part, some forgotten, some still to come."""
    rng = np.random.default_rng(seed)
    policy, open_ = make(form), []
    for i in range(rounds):
        decision = policy.decide(**offer(form, rng))
        reward, late = outcome(form, rng)
        if i % 7 == 3:
            open_.append(decision)
        elif i % 7 == 5:
            policy.learn(decision, reward)
            if decision.number in policy.pending:
                open_.append(decision)
        elif i % 7 == 6 and late:
            policy.learn(decision, **late)
            open_.append(decision)
        elif i % 11 == 10:
            policy.forget(decision)
        else:
            policy.learn(decision, reward, **late)
    return policy, open_


def finish(policy, decision, form, rng):
    """Learn what is still missing of a decision's outcome."""
    reward, late = outcome(form, rng)
    state = policy.hooks.state()
    awaits = dict(zip(state["pending/number"], state["pending/awaits"]))[decision.number]
    policy.learn(decision, reward if awaits & 1 else None, **(late if awaits & 2 else {}))


def assert_equal_policies(a, b):
    assert a.hooks.settings() == b.hooks.settings()
    one, other = a.hooks.state(), b.hooks.state()
    assert list(one) == list(other)
    for name, array in one.items():
        assert array.dtype == other[name].dtype, name
        assert array.shape == other[name].shape, name
        assert array.tobytes() == other[name].tobytes(), name


# Exact


@pytest.mark.parametrize("form", FORMS)
def test_the_restored_policy_goes_on_as_the_original(form, tmp_path):
    policy, open_ = lived(form)
    assert open_
    path = tmp_path / "policy.state"
    policy.save(path)
    restored = tr.load(path)
    assert type(restored) is type(policy)
    assert repr(restored) == repr(policy)
    assert restored.pending == policy.pending
    assert_equal_policies(policy, restored)
    rng, same = np.random.default_rng(1), np.random.default_rng(1)
    for i in range(200):
        a, b = policy.decide(**offer(form, rng)), restored.decide(**offer(form, same))
        assert (a.action, a.row, a.number) == (b.action, b.row, b.number)
        np.testing.assert_array_equal(a.explain().values, b.explain().values)
        assert str(a.explain()) == str(b.explain())
        if i % 9 == 0 and open_:
            late = open_.pop(len(open_) // 2)  # made by the original, learnt by both
            finish(policy, late, form, rng)
            finish(restored, late, form, same)
        if i % 3:
            for one, decision, draw in ((policy, a, rng), (restored, b, same)):
                reward, late = outcome(form, draw)
                one.learn(decision, reward, **late)
    assert_equal_policies(policy, restored)
    assert policy.slater == restored.slater


@pytest.mark.parametrize("form", FORMS)
def test_saving_twice_writes_the_same_bytes(form, tmp_path):
    policy, _ = lived(form)
    policy.save(tmp_path / "one")
    before = policy.hooks.state()
    tr.load(tmp_path / "one").save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    for name, array in policy.hooks.state().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_warm_start_is_restored(tmp_path):
    model = tr.Ridge(2, n_outputs=1)
    model.learn([0.6, 0.8], 1.0)
    policy = tr.policies.LinUCB(model)
    policy.save(tmp_path / "state")
    assert_equal_policies(policy, tr.load(tmp_path / "state"))


# Versions, damage, foreign files


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("state") / "policy.state"
    lived("B", rounds=12)[0].save(path)
    return path.read_bytes()


def refused(path, content, error=tr.errors.StateDamagedError):
    path.write_bytes(content)
    with pytest.raises(error) as raised:
        tr.load(path)
    assert str(path) in str(raised.value)
    return str(raised.value)


def entries_of(content):
    with np.load(io.BytesIO(content)) as archive:
        return {name: archive[name] for name in archive.files}


def with_header(content, **changes):
    entries = entries_of(content)
    header = json.loads(entries["header"].tobytes())
    header.update(changes)
    entries["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    return state_file.sealed(entries)


def test_another_version_is_named(saved, tmp_path):
    message = refused(tmp_path / "f", with_header(saved, version=2), tr.errors.StateVersionError)
    assert "version 2" in message
    assert "reads version 1" in message
    assert issubclass(tr.errors.StateVersionError, tr.InvalidInput)


def test_truncated_anywhere(saved, tmp_path):
    for length in {*range(0, len(saved), 97), *range(len(saved) - 200, len(saved)), 1, 2, 63, 64, 65}:
        refused(tmp_path / "f", saved[:length])


def test_any_flipped_byte(saved, tmp_path):
    rng = np.random.default_rng(0)
    first = range(200)
    last = range(len(saved) - 900, len(saved))
    for at in {*first, *last, *range(200, len(saved), 41)}:
        damaged = bytearray(saved)
        damaged[at] ^= int(rng.integers(1, 256))
        refused(tmp_path / "f", bytes(damaged))


def test_added_bytes(saved, tmp_path):
    refused(tmp_path / "f", saved + b"\0")
    refused(tmp_path / "f", b"\0" + saved)
    refused(tmp_path / "f", saved + saved)


def test_foreign_files(saved, tmp_path):
    path = tmp_path / "f"
    refused(path, b"")
    refused(path, b"not a zip file, though longer than a digest would be: " + b"x" * 100)
    np.savez(tmp_path / "foreign.npz", x=np.arange(3))
    refused(path, (tmp_path / "foreign.npz").read_bytes())
    np.save(tmp_path / "foreign.npy", np.arange(3))
    refused(path, (tmp_path / "foreign.npy").read_bytes())
    with zipfile.ZipFile(tmp_path / "foreign.zip", "w") as archive:
        archive.writestr("a.txt", "hello")
    refused(path, (tmp_path / "foreign.zip").read_bytes())


def test_well_sealed_but_wrong(saved, tmp_path):
    """Files whose digest is right and whose contents are not: written by a broken or hostile program."""
    path = tmp_path / "f"
    entries = entries_of(saved)
    refused(path, state_file.sealed({"x": np.arange(3)}))
    refused(path, state_file.sealed({}))
    refused(path, with_header(saved, format="something-else"))
    assert "unknown kind 'oracle-of-delphi'" in refused(path, with_header(saved, kind="oracle-of-delphi"))
    refused(path, with_header(saved, settings={}))
    refused(path, with_header(saved, settings=[1, 2]))
    refused(path, state_file.sealed({**entries, "header": np.frombuffer(b"{not json", dtype=np.uint8)}))
    refused(path, state_file.sealed({**entries, "header": np.frombuffer(b"[1]", dtype=np.uint8)}))
    refused(path, state_file.sealed({**entries, "header": np.frombuffer(b"\xff\xfe", dtype=np.uint8)}))
    for name in entries:
        assert refused(path, state_file.sealed({k: v for k, v in entries.items() if k != name}))


def test_wrong_shapes_and_kinds_of_arrays(saved, tmp_path):
    path = tmp_path / "f"
    entries = entries_of(saved)
    assert len(entries["pending/number"])
    for name, array in entries.items():
        if name == "header":
            continue
        longer = (
            np.concatenate([array, array[:1]]) if len(array) else np.zeros((1, *array.shape[1:]), array.dtype)
        )
        wider = np.zeros((*array.shape, 2), array.dtype)
        for wrong in (longer, wider, array.astype("U8"), array.astype(complex)):
            refused(path, state_file.sealed({**entries, name: wrong}))


def test_what_would_reach_outside_an_array(tmp_path):
    path = tmp_path / "policy.state"
    lived("arms")[0].save(path)
    entries = entries_of(path.read_bytes())
    for action in (4, -1, 10**9):
        wrong = entries["pending/action"].copy()
        wrong[0] = action
        refused(path, state_file.sealed({**entries, "pending/action": wrong}))
    lived("measured")[0].save(path)
    entries = entries_of(path.read_bytes())
    refused(path, state_file.sealed({**entries, "slater/sizes": entries["slater/sizes"] + 1}))
    refused(path, state_file.sealed({**entries, "slater/rows": entries["slater/rows"][:, :1]}))
    refused(path, state_file.sealed({**entries, "slater/numbers": np.array([np.inf, 0.5, 0.0])}))


def test_pickled_objects_are_refused(saved, tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "trapped"),))

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in {**entries_of(saved), "made": np.array([Trap()], dtype=object)}.items():
            with archive.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, array, allow_pickle=True)
        archive.comment = bytes(state_file.SEAL)
    body = buffer.getvalue()[: -state_file.SEAL]
    refused(tmp_path / "f", body + hashlib.sha256(body).hexdigest().encode())
    assert not (tmp_path / "trapped").exists()
    with pytest.raises(ValueError, match="allow_pickle"):
        state_file.sealed({"x": np.array([Trap()], dtype=object)})


def test_no_pickle_in_the_module():
    imported = {
        name.name
        for node in ast.walk(ast.parse(inspect.getsource(state_file)))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in node.names
    }
    assert not imported & {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
    assert "allow_pickle=True" not in inspect.getsource(state_file)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        tr.load(tmp_path / "nothing")


# All or nothing


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_failing_save_leaves_the_old_file(step, saved, tmp_path, monkeypatch):
    path = tmp_path / "policy.state"
    path.write_bytes(saved)

    def fail(*_):
        raise OSError("disk full")

    if step == "write":
        monkeypatch.setattr(builtins, "open", fail)
    else:
        monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        lived("A")[0].save(path)
    monkeypatch.undo()
    assert path.read_bytes() == saved
    assert [p.name for p in tmp_path.iterdir()] == ["policy.state"]
    tr.load(path)


def test_a_save_replaces_the_old_file(saved, tmp_path):
    path = tmp_path / "policy.state"
    path.write_bytes(saved)
    policy, _ = lived("A")
    policy.save(str(path))
    assert_equal_policies(policy, tr.load(path))
    assert [p.name for p in tmp_path.iterdir()] == ["policy.state"]


def test_the_file_opens_as_a_plain_npz(saved, tmp_path):
    """What docs/state-file.md promises to other programs."""
    path = tmp_path / "policy.npz"
    path.write_bytes(saved)
    with np.load(path) as archive:
        header = json.loads(archive["header"].tobytes())
        assert (header["format"], header["version"], header["kind"]) == (
            "tightrope-policy",
            1,
            "pessimistic-optimistic",
        )
        assert archive["made"].tolist() == [12]
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.comment == saved[-64:]
