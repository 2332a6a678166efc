"""A sweep on a real Ray cluster, a head and two workers on this machine, of which one is killed half-way."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from sweep_tools import numbers, stored
from tightrope.spec import read_spec
from tightrope.sweeps import sweep
from waiting import PATIENCE

CELLS = 20
SPEC = f"""
name = "arms"
[policy]
kind = "pessimistic-optimistic"
V = {{ scale = 1.0, exponent = 0.5 }}
epsilon = {{ scale = 1.0, exponent = -0.5 }}
[environment]
kind = "bandit"
threshold = 0.1
[simulation]
rounds = 30_000
replications = 5
[sweep]
design = "sobol"
cells = {CELLS}
"policy.V.scale" = {{ low = 0.1, high = 10.0, scale = "log" }}
"policy.epsilon.scale" = {{ low = 0.1, high = 10.0, scale = "log" }}
"""
RAY = Path(sys.executable).with_name("ray")
# A token made here: without one anybody could run code on the cluster, and one that this machine may have is not for tests.
QUIET = {
    **os.environ,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}


def wait_for(what, holds, *, process=None, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not holds():
        assert process is None or process.poll() is None, (
            f"{what}: the process ended with {process.returncode}"
        )
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)


@contextmanager
def node(log, *options):
    """A node of a cluster, in a process group of its own, so that all of it can be ended at once."""
    with open(log, "w") as out:
        process = subprocess.Popen(
            [RAY, "start", "--block", "--disable-usage-stats", "--object-store-memory=80000000", *options],
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=QUIET,
        )
    try:
        started = "Ray runtime started"
        wait_for(f"ray start {options}", lambda: started in log.read_text() or process.poll() is not None)
        assert started in log.read_text(), log.read_text()
        yield process
    finally:
        end(process)


def end(process):
    """Kill a node: the process, all that it has started, and all that these have."""
    found = {pid for pid, _ in below(process.pid)}
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def below(root):
    """(id, command) of the processes that descend from one."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    table = [
        (int(line[0]), int(line[1]), line[2]) for line in (row.split(None, 2) for row in listed.splitlines())
    ]
    known, found = {root}, []
    while True:
        new = [(pid, args) for pid, parent, args in table if parent in known and pid not in known]
        if not new:
            return found
        found += new
        known |= {pid for pid, _ in new}


@pytest.fixture
def cluster():
    """The address of a head without cores of its own, and two workers with one core each."""
    # Ray's sockets live there, and a socket's path must be short.
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    head = ("--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false", f"--temp-dir={folder}")
    worker = (f"--address=127.0.0.1:{port}", "--num-cpus=1")
    try:
        with ExitStack() as nodes:
            nodes.enter_context(node(folder / "head.log", *head))
            workers = [nodes.enter_context(node(folder / f"{i}.log", *worker)) for i in range(2)]
            yield f"127.0.0.1:{port}", workers
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_worker_is_killed_half_way_and_the_numbers_are_the_same(tmp_path, cluster):
    address, workers = cluster
    spec, out = tmp_path / "arms.toml", tmp_path / "ray"
    spec.write_text(SPEC)
    # First, so that the workers find compiled code.
    local = sweep(read_spec(spec), tmp_path / "local", workers=1)
    assert local.ran == CELLS
    command = [sys.executable, "-m", "tightrope", "sweep", str(spec), "--engine", "ray", "--address", address]
    with subprocess.Popen(
        [*command, "--out", str(out), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=QUIET,
    ) as process:
        try:
            wait_for("rows", lambda: len(list(out.glob("cells/*.parquet"))) >= 2, process=process)
            wait_for(
                "a task on the worker",
                lambda: any("ray::_run_remote" in args for _, args in below(workers[0].pid)),
                process=process,
            )
            end(workers[0])
            done_before = len(stored(out))
            shown, errors = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    assert 0 < done_before < CELLS
    told = json.loads(shown)
    assert (told["cells"], told["ran"], told["failed"]) == (CELLS, CELLS, 0)
    assert len(stored(out)) == CELLS
    assert numbers(out) == numbers(tmp_path / "local")


def test_no_cluster_there(tmp_path):
    (tmp_path / "arms.toml").write_text(SPEC)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "tightrope", "sweep", str(tmp_path / "arms.toml"), "--engine", "ray"]
    done = subprocess.run(
        [*command, "--address", f"127.0.0.1:{port}", "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=QUIET,
    )
    assert done.returncode == 1, done.stderr
    assert f"no Ray cluster at '127.0.0.1:{port}'" in done.stderr
