"""What the service is packed in: Dockerfile, compose file, Kubernetes manifests, and what docs/containers.md says of them.

`scripts/check-image` runs the steps themselves, which takes too long here.
"""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from script_tools import ROOT, script
from tightrope.cli.service import Serving, serve
from tightrope.service.app import ROUTES
from tightrope.spec import read_spec
from tightrope.version import __version__

MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
PAGE = (ROOT / "docs" / "containers.md").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
OBJECTS = {
    (one["kind"], one["metadata"]["name"]): one
    for path in MANIFESTS
    for one in yaml.safe_load_all(path.read_text())
}


STEPS = script("check-image").instructions(ROOT / "Dockerfile")


def of(instruction: str) -> list[str]:
    return [rest for word, rest in STEPS if word == instruction]


def pod(kind: str, name: str) -> dict[str, Any]:
    return OBJECTS[kind, name]["spec"]["template"]["spec"]


def options(argv: list[str]) -> dict[str, str]:
    """The options of a `serve` by name; each must be one that the command has."""
    assert argv[0] == "serve"
    pairs = re.findall(r"--([\w-]+) (\S+)", " ".join(argv))
    assert len(pairs) == sum(word.startswith("--") for word in argv)
    known = {*Serving.__dataclass_fields__, *inspect.signature(serve).parameters}
    assert {name.replace("-", "_") for name, _ in pairs} <= known
    return dict(pairs)


# --- the image ---


def test_hadolint_finds_nothing():
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_context_holds_what_is_copied_and_nothing_else():
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    assert patterns[1] == "*"
    kept = {line[1:] for line in patterns if line.startswith("!")}
    copied = [line.split() for line in of("COPY") if not line.startswith("--from")]
    sources = {source for *sources, _ in copied for source in sources}
    assert sources == kept
    assert all((ROOT / source).exists() for source in sources)


def test_the_image_is_not_root_and_its_healthcheck_asks_a_route_that_needs_no_key():
    assert of("USER") == ["10001:10001"]
    [check] = of("HEALTHCHECK")
    [port] = of("EXPOSE")
    assert f"http://127.0.0.1:{port}/healthz" in check
    assert next(route for route in ROUTES if route.path == "/healthz").scope is None
    [line] = of("CMD")
    command = yaml.safe_load(line)
    given = options(command)
    assert given["port"] == port
    # Beyond loopback it would not start without.
    assert "keys" in given
    build, _ = of("RUN")
    assert "--constraint requirements/lock.txt" in build


# --- compose ---


def test_compose_names_what_is_there():
    for service in COMPOSE["services"].values():
        assert set(service["secrets"]) <= set(COMPOSE["secrets"])
        for volume in service["volumes"]:
            assert volume.partition(":")[0] in COMPOSE["volumes"]
        assert set(service["networks"]) <= set(COMPOSE["networks"])
    read_spec(ROOT / COMPOSE["configs"]["spec"]["file"])
    assert COMPOSE["services"]["db"]["healthcheck"]
    # All secrets are files that the page says how to make, and that no commit takes along.
    assert "/deploy/secrets/" in (ROOT / ".gitignore").read_text().split()
    for secret in COMPOSE["secrets"].values():
        assert secret["file"] in PAGE


@pytest.mark.parametrize("name", ["first", "second"])
def test_each_service_of_compose_is_shut_in_and_takes_its_database_from_a_file(name):
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    given = options(service["command"])
    assert given["database"] == "file:/run/secrets/database"
    assert given["keys"] == "/run/secrets/keys"
    assert service["image"].endswith(f":{__version__}")


# --- Kubernetes ---


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_valid(path):
    for one in yaml.safe_load_all(path.read_text()):
        kubernetes_validate.validate(one, "1.31", strict=True)


def test_the_probes_are_the_services_routes():
    [container] = pod("Deployment", "tightrope")["containers"]
    paths = {
        name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")
    }
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    for path in paths.values():
        assert next(route for route in ROUTES if route.path == path).scope is None
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    assert options(container["args"])["port"] == "8080"
    # What a stop may take: 10 s for requests under way and 9 s for the journals.
    assert pod("Deployment", "tightrope")["terminationGracePeriodSeconds"] > 19


def test_arguments_name_files_that_are_mounted():
    spec = pod("Deployment", "tightrope")
    [container] = spec["containers"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    given = options(container["args"])
    config = OBJECTS["ConfigMap", "tightrope"]["data"]
    assert container["args"][1] in {f"{mounts['specs']}/{name}" for name in config}
    assert given["database"] == f"file:{mounts['secrets']}/database"
    assert given["keys"] == f"{mounts['secrets']}/keys.json"
    assert config["ward-routing.toml"] == (ROOT / "examples" / "hospital.toml").read_text()
    # The Secret is made by the command on the page.
    [made] = re.findall(r"kubectl create secret generic tightrope(.*?)kubectl apply", PAGE, re.DOTALL)
    assert set(re.findall(r"--from-file=([\w.-]+)=", made)) == {"database", "keys.json", "postgres-password"}
    for volume in (*spec["volumes"], *pod("StatefulSet", "tightrope-postgresql")["volumes"]):
        assert volume.get("secret", {"secretName": "tightrope"})["secretName"] == "tightrope"


@pytest.mark.parametrize(
    ("kind", "name"), [("Deployment", "tightrope"), ("StatefulSet", "tightrope-postgresql")]
)
def test_pods_are_shut_in(kind, name):
    spec = pod(kind, name)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
    policy = OBJECTS["NetworkPolicy", name]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    labels = OBJECTS[kind, name]["spec"]["template"]["metadata"]["labels"]
    for selector in (policy["podSelector"], OBJECTS[kind, name]["spec"]["selector"]):
        assert selector["matchLabels"] == labels
    assert OBJECTS["Service", name]["spec"]["selector"] == labels


def test_a_leader_and_a_standby_that_are_replaced_together():
    deployment = OBJECTS["Deployment", "tightrope"]["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"] == {"type": "Recreate"}
    budget = OBJECTS["PodDisruptionBudget", "tightrope"]["spec"]
    assert budget["minAvailable"] == 1
    assert budget["selector"] == deployment["selector"]
    # The user of the image owns the folder that is mounted for compiled code.
    spec = pod("Deployment", "tightrope")
    assert f"{spec['securityContext']['runAsUser']}:{spec['securityContext']['runAsGroup']}" == of("USER")[0]
    assert {one["mountPath"] for one in spec["containers"][0]["volumeMounts"]} >= {
        "/var/cache/tightrope",
        "/tmp",
    }
    assert "NUMBA_CACHE_DIR=/var/cache/tightrope" in of("ENV")[0]
