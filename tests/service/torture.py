"""The long version of the fault tests: `make torture`.

Or `python tests/service/torture.py [--scale 1.0] [--only PART] [--out FILE]`.

Every part has a control, a service that breaks the promise; a part fails if something was lost, or if its control lost nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from faults.fuzz import Fuzzer, Verdict, storm, write_keys, write_specs
from faults.kill import Account, Load, body_of, kill_cycles, missing
from faults.outage import Careless, losses, survives_error, told_on, verdict, walk
from faults.power import Disk, journal_on
from faults.process import Served, free_port
from faults.replica import Replica
from faults.spenders import spend
from faults.state_machine import ServiceMachine
from faults.story import bench_on
from tightrope.service.journal import JournalDamaged
from workbench import write_spec

Found = dict[str, Any]


def power(folder: Path, scale: float) -> Found:
    """Cuts at every change of a long story, and at every change of the recovery after some of them."""
    disk, control = Disk(), Disk()
    told = told_on(disk, folder, length=60)
    step = max(1, round(1 / scale))
    lost = losses(disk, told, folder, loss=[1.0, 0.6, 0.2, 0.0], step=step)
    while_recovering = 0
    for n, platter in disk.cuts():
        if n % max(1, round(10 / scale)):
            continue
        again = Disk(platter.left(0.5, seed=n))
        with journal_on(again, folder) as journal:
            bench_on(journal)
            end = len(again.log)
        for m in range(end + 1):
            wrong = verdict(Disk(again.after(m, loss=0.7, seed=m)), told, n, folder)
            while_recovering += 1
            if wrong is not None:
                lost.append(f"cut at {n}, then at {m} of the recovery: {wrong}")
    short = told_on(control, folder, length=20, synchronous="NORMAL")
    unsynced = losses(control, short, folder, loss=[1.0], synchronous="NORMAL")
    return {
        "changes": len(disk.log),
        "cuts": 4 * (len(disk.log) // step + 1),
        "cuts while recovering": while_recovering,
        "lost": lost,
        "control lost": len(unsynced),
    }


def lives(folder: Path, scale: float) -> Found:
    """Cuts upon cuts on one disk."""
    seeds = round(150 * scale) or 1
    lost = [wrong for seed in range(seeds) for wrong in walk(folder, lives=12, seed=seed)]
    control = [
        wrong for seed in range(8) for wrong in walk(folder, lives=12, seed=seed, synchronous="NORMAL")
    ]
    return {"lives": 12 * seeds, "lost": lost, "control lost": len(control)}


def errors(folder: Path, scale: float) -> Found:
    """Every write and every sync of a story fails, once and four times in a row."""
    lost: list[str] = []
    count = 0
    for kind in ("write", "sync"):
        for times in (1, 4):
            for at in range(1, 10_000, max(1, round(1 / scale))):
                met, wrong = survives_error(folder, length=20, kind=kind, at=at, times=times)
                if not met:
                    break
                count += 1
                if wrong is not None:
                    lost.append(f"{kind} {at}, {times} times: {wrong}")
    control = [survives_error(folder, length=10, kind="sync", at=at, made=Careless)[1] for at in range(5, 20)]
    return {"errors": count, "lost": lost, "control lost": sum(one is not None for one in control)}


class _Unsynced(ServiceMachine):
    synchronous = "NORMAL"


def model(folder: Path, scale: float) -> Found:
    """The state machine against the model."""
    search = settings(
        max_examples=round(800 * scale) or 1,
        stateful_step_count=40,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    run_state_machine_as_test(ServiceMachine, settings=search)
    control = 0
    try:
        run_state_machine_as_test(_Unsynced, settings=settings(search, max_examples=100))
    except AssertionError:
        control = 1
    return {"examples": search.max_examples, "steps": 40, "lost": [], "control lost": control}


def _progress(cycle: int) -> None:
    if cycle % 20 == 0:
        print(f"    {cycle} cycles", flush=True)


def kill(folder: Path, scale: float) -> Found:
    """kill -9 from outside, at any moment."""
    spec = write_spec(folder)
    outcome = kill_cycles(spec, folder / "data", round(200 * scale) or 1, progress=_progress)
    off = kill_cycles(spec, folder / "off", 3, database="memory:")
    behind = kill_cycles(spec, folder / "behind", 10, mutant="behind")
    return {**asdict(outcome), "control lost": len(off.lost) * len(behind.lost)}


def points(folder: Path, scale: float) -> Found:
    """Crashes from inside, at named points, under load."""
    spec = write_spec(folder)
    outcome = kill_cycles(
        spec, folder / "data", round(100 * scale) or 1, seed=1, points=True, progress=_progress
    )
    control = kill_cycles(spec, folder / "behind", 10, seed=1, points=True, mutant="behind")
    return {**asdict(outcome), "control lost": len(control.lost)}


def postgres(folder: Path, scale: float) -> Found:
    """Two processes on a database; either process, or the database, dies again and again."""
    from faults.database import Server
    from tightrope.service.storage.postgresql import PostgresJournal

    server = Server()
    try:
        spec = write_spec(folder)
        ports = [free_port(), free_port()]
        services = [
            Served(spec, port=port, database=server.url, max_pending=400).wait(ready=not i)
            for i, port in enumerate(ports)
        ]
        account = Account()
        load = Load(lambda: ports, account, callers=6, patient=True)
        replica = Replica(lambda: PostgresJournal(server.url, "ward", read_only=True))
        lost: list[str] = []
        rounds = round(30 * scale) or 1
        for i in range(rounds):
            _wait_for(account, 40)
            if i % 3 == 2:
                server.stop()
                time.sleep(0.1 * (i % 4))
                server.start()
            else:
                ready = [one for one in services if _ready(one)]
                victim = ready[0] if ready else services[0]
                victim.kill()
                services[services.index(victim)] = Served(
                    spec, port=victim.port, database=server.url, max_pending=400
                ).wait(ready=False)
            _wait_for(account, 40)
            replica.follow()
            _progress(i + 1)
        load.stop()
        replica.follow()
        lost += missing(account, replica) + account.wrong
        for one in services:
            one.kill()
        control = _lazy(server, folder)
    finally:
        server.remove()
    return {
        "rounds": rounds,
        "acknowledged": len(account.decisions),
        "entries": replica.position,
        "lost": lost,
        "control lost": control,
    }


def pauses(folder: Path, scale: float) -> Found:
    """The active process is stopped and let go on, again and again, under load; another takes over each time."""
    from faults.database import Server

    server = Server()
    try:
        rounds = round(25 * scale) or 1
        outcome = _paused(server, write_spec(folder, "paused"), rounds, None)
        # A pause may fall between two commits: then nothing shows, and it takes another.
        control = _paused(server, write_spec(folder, "unfenced"), 8, "unfenced")
    finally:
        server.remove()
    return {**outcome, "control lost": len(control["lost"])}


def _paused(server: Any, spec: Path, rounds: int, mutant: str | None) -> Found:
    from tightrope.service.storage.postgresql import PostgresJournal

    replicas = [
        Served(spec, database=server.url, patch=QUICK, mutant=mutant).wait(ready=not i) for i in range(2)
    ]
    account = Account()
    load = Load(lambda: [one.port for one in replicas], account, callers=4, patient=True, timeout=1.0)
    replica = Replica(lambda: PostgresJournal(server.url, spec.stem, read_only=True))
    lost: list[str] = []
    slowest = 0.0
    try:
        for i in range(rounds):
            _wait_for(account, 20)
            [leader, *_] = [one for one in replicas if one.ready] or replicas
            other = replicas[1 - replicas.index(leader)]
            leader.pause()
            began = time.monotonic()
            while not other.ready and time.monotonic() - began < 20:
                time.sleep(0.02)
            slowest = max(slowest, time.monotonic() - began)
            _wait_for(account, 5)
            leader.resume()
            # Callers reach it too.
            time.sleep(0.5)
            replica.follow()
            _progress(i + 1)
        load.stop()
        replica.follow()
        lost += missing(account, replica) + account.wrong
    except (JournalDamaged, AssertionError, SystemExit) as error:
        lost.append(str(error))
    finally:
        load.stop()
        for one in replicas:
            one.resume()
            one.kill()
    found = {"rounds": rounds, "acknowledged": len(account.decisions), "entries": replica.position}
    return {**found, "slowest takeover, s": round(slowest, 1), "lost": lost}


def hung(folder: Path, scale: float) -> Found:
    """Connections of the active process hang, the whole database hangs, or its synchronous replica is lost, under load."""
    from faults.database import Server

    server = Server()
    try:
        outcome = _hung(server, write_spec(folder, "hung"), round(12 * scale) or 3, None)
        control = _hung(server, write_spec(folder, "waiting"), 3, "waits for ever")
    finally:
        server.remove()
    return {**outcome, "control lost": len(control["lost"])}


def _hung(server: Any, spec: Path, rounds: int, mutant: str | None) -> Found:
    from tightrope.service.storage.postgresql import PostgresJournal

    served = Served(spec, database=server.url, patch=QUICK, mutant=mutant).wait()
    account = Account()
    load = Load(lambda: [served.port], account, callers=4, patient=True, timeout=8.0)
    lost: list[str] = []
    try:
        for i in range(rounds):
            _wait_for(account, 20)
            pids = [pid for pid, _ in server.backends()]
            how = (server.without_its_replica(), server.hung(pids[i % len(pids)]), server.hung(*pids))[i % 3]
            with how:
                began = time.monotonic()
                try:
                    served.call("POST", "/v1/decisions", body_of(f"event-{10**9 + i}", i))
                except TimeoutError:
                    lost.append(f"round {i}: a caller was not answered")
                if time.monotonic() - began > 7.0:
                    lost.append(f"round {i}: the answer took {time.monotonic() - began:.1f} s")
                if i % 3 != 1 and _ready(served):
                    lost.append(f"round {i}: it says that it is ready")
            if lost:
                break
            _progress(i + 1)
        _wait_for(account, 20)
    finally:
        load.stop()
        served.kill()
    replica = Replica(lambda: PostgresJournal(server.url, spec.stem, read_only=True))
    replica.follow()
    lost += missing(account, replica) + account.wrong
    return {
        "rounds": rounds,
        "acknowledged": len(account.decisions),
        "entries": replica.position,
        "lost": lost,
    }


def windows(folder: Path, scale: float) -> Found:
    """64 spenders under hard limits by key and day, across midnights in two zones and a change of clocks, with kill -9."""
    kills = round(20 * scale) or 1
    outcome = spend(folder / "data", kills=kills, callers=64, keys=10_000, seconds=2.0)
    control = spend(folder / "control", kills=1, callers=64, keys=10_000, mutant="books later")
    return {**asdict(outcome), "control lost": len(control.lost)}


def windows_postgres(folder: Path, scale: float) -> Found:
    """The same on PostgreSQL: the active of two processes is killed, and the other takes over."""
    from faults.database import Server

    server = Server()
    try:
        kills = round(12 * scale) or 1
        outcome = spend(
            folder / "data", kills=kills, callers=64, keys=10_000, seconds=2.0, database=server.url
        )
    finally:
        server.remove()
    control = spend(folder / "control", kills=1, callers=64, keys=10_000, mutant="books later")
    return {**asdict(outcome), "control lost": len(control.lost)}


def clock(folder: Path, scale: float) -> Found:
    """The clock of the machine jumps, years ahead and hours back, while decisions wait for their outcomes."""
    rounds = round(40 * scale) or 4
    spec = write_spec(folder)
    jumped = _jumped(spec, folder / "data", rounds, None)
    control = _jumped(spec, folder / "control", 4, "believes the clock")
    return {**jumped, "control lost": len(control["lost"])}


def _jumped(spec: Path, data: Path, rounds: int, mutant: str | None) -> Found:
    chance = random.Random(0)
    served = Served(spec, data=data, mutant=mutant, expire_after=3600.0).wait()
    lost: list[str] = []
    made = 0
    for i in range(rounds):
        served.clock_offset.value = chance.choice((10 * 365 * 86_400.0, -86_400.0, 7200.0, -5.0))
        for _ in range(10):
            status, _ = served.call("POST", "/v1/decisions", body_of(f"event-{made}", made))
            made += 1
            if status != 200:
                lost.append(f"round {i}: a decision was answered {status}")
        time.sleep(chance.uniform(0.0, 0.5))
        served.clock_offset.value = 0.0
        if i % 5 == 4:
            served.kill()
            served = Served(spec, data=data, mutant=mutant, expire_after=3600.0).wait()
        outcomes = json.loads(served.call("GET", "/v1/state")[1])["outcomes"]
        if (outcomes["pending"], outcomes["missing"]) != (made, 0):
            lost.append(f"round {i}: {outcomes['pending']} of {made} pending, {outcomes['missing']} missing")
    served.kill()
    return {"rounds": rounds, "decisions": made, "lost": lost}


def _lazy(server: Any, folder: Path) -> int:
    import psycopg

    from tightrope.service.storage.postgresql import PostgresJournal

    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        admin.execute("SELECT pg_reload_conf()")
    served = Served(write_spec(folder, "hasty"), database=server.url, mutant="lazy database").wait()
    account = Account()
    load = Load(lambda: [served.port], account, callers=4, patient=True)
    _wait_for(account, 100)
    server.stop()
    load.stop()
    served.kill()
    server.start()
    replica = Replica(lambda: PostgresJournal(server.url, "hasty", read_only=True))
    replica.follow()
    return len(missing(account, replica))


def _ready(served: Served) -> bool:
    try:
        return served.call("GET", "/readyz")[0] == 200
    except OSError:
        return False


def _wait_for(account: Account, more: int) -> None:
    goal = len(account.decisions) + more
    deadline = time.monotonic() + 60
    while len(account.decisions) < goal:
        if time.monotonic() > deadline:
            raise SystemExit("no decisions for a minute")
        time.sleep(0.01)


def fuzz(folder: Path, scale: float) -> Found:
    """Requests that nobody should send, over HTTP: no 500, and a 503 only by admission control or for a paused experiment."""
    specs, keys = write_specs(folder), write_keys(folder / "keys.json")
    count = round(200_000 * scale) or 1
    verdict, control = Verdict(), Verdict()
    served = Served(specs, data=folder / "data", keys=folder / "keys.json").wait()
    for seed in range(0, count, _CHUNK):
        asyncio.run(storm(served.port, Fuzzer(seed, keys).attempts(min(_CHUNK, count - seed)), verdict))
        bad = {answer: n for answer, n in verdict.counts.items() if answer[0] in "5n"}
        print(f"    {min(count, seed + _CHUNK)} requests, {len(verdict.wrong)} wrong: {bad}", flush=True)
    ready = served.ready
    served.stop()
    worse = Served(specs, data=folder / "worse", keys=folder / "keys.json", mutant="half characters").wait()
    asyncio.run(storm(worse.port, Fuzzer(0, keys).attempts(5_000), control))
    worse.kill()
    return {
        "requests": count,
        "answers": dict(sorted(verdict.counts.items())),
        "lost": verdict.wrong + ([] if ready else ["the service is not ready afterwards"]),
        "control lost": len(control.wrong),
    }


_CHUNK = 5_000


def tampered(folder: Path, scale: float) -> Found:
    """Someone deletes, forges or edits rows and snapshots; then the service starts."""
    from faults import tamper
    from faults.database import Server

    server, chance = Server(), random.Random(0)
    places = [tamper.Sqlite(folder / "data"), tamper.Postgres(server.url, folder / "heads")]
    rounds = round(20 * scale) or 1
    try:
        found = [
            tamper.tampered(place, f"ward-{attack.__name__}-{i}", attack, chance)
            for i in range(rounds)
            for place in places
            for attack in tamper.ATTACKS
        ]
        control = [
            tamper.tampered(place, f"control-{attack.__name__}", attack, chance, head=False)
            for place in places
            for attack in tamper.SOUND
        ]
    finally:
        server.remove()
    lost = [one for one in found if one is not None]
    # Each of them must go unnoticed without a head.
    return {"attacks": len(found), "lost": lost, "control lost": int(None not in control)}


def erased(folder: Path, scale: float) -> Found:
    """Events are erased under every kind of model; the bytes of all files are searched for what they said."""
    from secret_visit import SPECS, erasing, filled, play, secrets
    from tightrope.policies import Policy
    from tightrope.service.offline.backup import copy_to_file
    from tightrope.service.offline.replay import verify
    from tightrope.service.storage.sqlite import SqliteJournal
    from workbench import Bench, read

    def left(name: str, place: Path, every: int) -> list[str]:
        bench = Bench(SPECS[name], SqliteJournal(place / "ward.sqlite"), snapshot_every=every)
        filled(bench)
        wanted = secrets(bench)
        read(bench.experiment.process([erasing("visit-13", "visit-7")])[0])
        copy_to_file(bench.journal, place / "backup.sqlite")
        play(bench, 40, 60)
        wrong = [] if verify(bench.journal).digest == bench.digest() else [f"{name}: the replay differs"]
        bench.experiment.close()
        contents = {path.name: path.read_bytes() for path in place.iterdir()}
        found = [(file, one) for one in wanted for file, content in contents.items() if one in content]
        return wrong + [f"{name}: {file} has {one!r}" for file, one in found]

    lost = [
        wrong
        for i in range(round(5 * scale) or 1)
        for name in SPECS
        for wrong in left(name, folder / f"{name}-{i}", 7 + 5 * i)
    ]
    whole = Policy._forget_inputs
    try:
        # The control: what is pending is dropped, and models and rounds are left as they are.
        Policy._forget_inputs = lambda self, numbers: None  # type: ignore[method-assign]
        control = left("ensemble", folder / "control", 15)
    finally:
        Policy._forget_inputs = whole  # type: ignore[method-assign]
    return {"kinds": len(SPECS), "lost": lost, "control lost": len(control)}


def attacks(folder: Path, scale: float) -> Found:
    """Callers with good keys, a failing reader, a clock that is wrong and a rule change with a crash; then honest requests."""
    from faults.attacks import STAGES

    decisions = max(100, round(240 * scale))
    lost: list[str] = []
    control: dict[str, int] = {}
    for stage in STAGES:
        name = stage.run.__name__
        lost += [f"{name}: {wrong}" for wrong in stage.run(folder / name, decisions, None)]
        for mutant in stage.controls:
            wrong = stage.run(folder / mutant.replace(" ", "-"), 100, mutant)
            control[mutant] = len(wrong)
            print(f"    {name}, control {mutant}: {len(wrong)} wrong, such as {wrong[-1:]}", flush=True)
    return {"decisions": decisions, "controls": control, "lost": lost, "control lost": min(control.values())}


PARTS: dict[str, Callable[[Path, float], Found]] = {
    "power": power,
    "lives": lives,
    "errors": errors,
    "model": model,
    "kill": kill,
    "points": points,
    "postgres": postgres,
    "pauses": pauses,
    "hung": hung,
    "clock": clock,
    "windows": windows,
    "windows on PostgreSQL": windows_postgres,
    "fuzz": fuzz,
    "tampered": tampered,
    "erased": erased,
    "attacks": attacks,
}

# As in operation, three times as fast.
_POSTGRESQL = "tightrope.service.storage.postgresql"
QUICK = {
    f"{_POSTGRESQL}.lease.LEASE": 1.2,
    f"{_POSTGRESQL}.lease.BEAT": 0.15,
    f"{_POSTGRESQL}.connection.PATIENCE": 1.5,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="1.0 takes about a quarter of an hour")
    parser.add_argument("--only", choices=list(PARTS), action="append")
    parser.add_argument("--out", type=Path, help="write what was found as JSON")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    # Tests in one process should not wait a second after each error that they cause.
    import tightrope.service.experiment

    tightrope.service.experiment.experiment._RETRY_SECONDS = 0  # type: ignore[misc]
    found: dict[str, Found] = {}
    failed = False
    for name in options.only or PARTS:
        print(f"{name}: {PARTS[name].__doc__}", flush=True)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="tightrope-torture-") as folder:
            # Heads of journals in databases: another server may be at the same port later.
            os.environ["XDG_STATE_HOME"] = f"{folder}/state"
            one = PARTS[name](Path(folder), options.scale)
        one["seconds"] = round(time.monotonic() - began, 1)
        found[name] = one
        bad = bool(one["lost"]) or not one["control lost"]
        failed |= bad
        shown = {key: value for key, value in one.items() if key != "lost"}
        print(f"  {'FAILED' if bad else 'ok'}: {shown}", flush=True)
        for wrong in one["lost"][:10]:
            print(f"    {wrong}", flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=2) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
