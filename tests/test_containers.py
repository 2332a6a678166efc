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
from tightrope.service.http.app import ROUTES
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


def test_packages_are_installed_by_their_hashes_alone():
    installs = [one for step in of("RUN") for one in re.findall(r"pip (?:install|wheel) [^&]*", step)]
    assert len(installs) == 4
    for one in installs:
        # Hashes, or nothing from an index: our own code.
        assert "--require-hashes" in one or re.search(r"--no-deps --no-(index|build-isolation)", one), one
    assert "--require-hashes -r requirements/lock.txt" in (ROOT / "Makefile").read_text()
    assert "--require-hashes --no-deps -r requirements/docs.txt" in (ROOT / "Makefile").read_text()


def test_images_are_named_by_their_digests():
    # The base is an argument without a default, and the build itself refuses one without a digest.
    assert STEPS[0] == ("ARG", "PYTHON_IMAGE")
    assert {line.partition(" ")[0] for line in of("FROM")} == {"${PYTHON_IMAGE}"}
    check = of("RUN")[0]
    for image, status in (("python:3.11@sha256:" + "0" * 64, 0), ("python:3.11-slim-bookworm", 1)):
        done = subprocess.run(
            ["sh", "-c", check], env={"PYTHON_IMAGE": image}, capture_output=True, check=False
        )
        assert done.returncode == status, image
    for name in ("first", "second", "migrate"):
        assert COMPOSE["services"][name]["build"]["args"]["PYTHON_IMAGE"].startswith("${PYTHON_IMAGE:?")
    assert COMPOSE["services"]["db"]["image"].startswith("${POSTGRES_IMAGE:?")


def test_manifests_are_printed_with_digests_or_not_at_all():
    def printed(*images):
        return subprocess.run(
            [sys.executable, ROOT / "scripts" / "manifests", *images],
            capture_output=True,
            text=True,
            check=False,
        )

    ours, theirs = (
        f"{name}@sha256:{digit * 64}" for name, digit in (("x.example/tightrope:1", "a"), ("postgres", "b"))
    )
    done = printed(f"tightrope={ours}", f"postgres={theirs}")
    assert done.returncode == 0, done.stderr
    found = list(yaml.safe_load_all(done.stdout))
    assert {(one["kind"], one["metadata"]["name"]) for one in found} == set(OBJECTS)
    images = re.findall(r"image: (.*)", done.stdout)
    assert sorted(images) == sorted([ours, ours, theirs])
    for wrong in (["tightrope=tightrope:0.1.0", f"postgres={theirs}"], [f"tightrope={ours}"], []):
        done = printed(*wrong)
        assert done.returncode != 0
        assert "@sha256:…" in done.stderr
        assert not done.stdout
    # Whoever applies the files as they are gets no image at all, not one by its tag.
    for path in MANIFESTS:
        assert set(re.findall(r"image: (.*)", path.read_text())) <= {"IMAGE:tightrope", "IMAGE:postgres"}


# --- compose ---


def test_compose_names_what_is_there():
    for service in COMPOSE["services"].values():
        assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
        assert set(service["secrets"]) <= set(COMPOSE["secrets"])
        for volume in service["volumes"]:
            assert volume.partition(":")[0] in COMPOSE["volumes"]
        assert set(service["networks"]) <= set(COMPOSE["networks"])
    read_spec(ROOT / COMPOSE["configs"]["spec"]["file"])
    assert COMPOSE["services"]["db"]["healthcheck"]
    # All secrets are files that the page says how to make, and that no commit takes along.
    assert "/deploy/secrets/" in (ROOT / ".gitignore").read_text().split()
    made = re.search(r"install -d -m 700 deploy/secrets.*?```", PAGE, re.DOTALL)[0]
    for secret in COMPOSE["secrets"].values():
        assert secret["file"].removeprefix("deploy/secrets/") in made


def test_the_service_has_a_role_of_its_own_and_a_server_that_shows_who_it_is():
    services = COMPOSE["services"]
    for name in ("first", "second"):
        assert "owner-database" not in services[name]["secrets"]
        assert services[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    owner, service = (f"file:/run/secrets/{name}" for name in ("owner-database", "database"))
    assert services["migrate"]["command"] == ["migrate", owner, "--service", service]
    assert "ssl=on" in services["db"]["command"]
    [job] = pod("Job", "tightrope-migrate")["containers"]
    mounts = {one["name"]: one["mountPath"] for one in job["volumeMounts"]}
    assert job["args"] == [
        "migrate",
        f"file:{mounts['owner']}/database",
        "--service",
        f"file:{mounts['secrets']}/database",
    ]
    [database] = pod("StatefulSet", "tightrope-postgresql")["containers"]
    assert "ssl=on" in database["args"]
    # Only the Job sees the owner's address.
    secrets = {
        (kind, volume["secret"]["secretName"])
        for kind, name in (("StatefulSet", "tightrope"), ("Job", "tightrope-migrate"))
        for volume in pod(kind, name)["volumes"]
        if "secret" in volume
    }
    assert secrets == {("StatefulSet", "tightrope"), ("Job", "tightrope"), ("Job", "tightrope-owner")}
    # Both addresses on the page have different roles, and ask for the certificate.
    addresses = re.findall(r'echo "postgresql://(\w+):.*?\?(\S+)" > (\S+)', PAGE)
    assert [(role, file) for role, _, file in addresses] == [
        ("tightrope_owner", "owner-database"),
        ("tightrope", "database"),
    ]
    assert all(options == "$verified" for _, options, _ in addresses)
    assert 'verified="sslmode=verify-full&sslrootcert=' in PAGE
    for page in (ROOT / "docs").rglob("*.md"):
        for address in re.findall(r"postgresql://\w+@db/\S+", page.read_text()):
            assert "sslmode=verify-full" in address, (page.name, address)


def test_keys_on_the_page_are_made_with_scopes():
    for line in re.findall(r"tightrope keys create .*", PAGE):
        assert "--scope" in line
        assert "--never-expires" not in line


@pytest.mark.parametrize("name", ["first", "second"])
def test_each_service_of_compose_is_shut_in_and_takes_its_database_from_a_file(name):
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    given = options(service["command"])
    assert given["database"] == "file:/run/secrets/database"
    assert given["keys"] == "/run/secrets/keys"
    assert service["image"].endswith(f":{__version__}")


def test_heads_are_kept_outside_the_database_for_each_replica():
    names = {name: COMPOSE["services"][name] for name in ("first", "second")}
    for name, service in names.items():
        folder = options(service["command"])["heads"]
        [volume] = [one for one in service["volumes"] if folder.startswith(one.partition(":")[2] + "/")]
        assert volume.startswith(f"{name}-heads:")
    replicas = OBJECTS["StatefulSet", "tightrope"]["spec"]
    [container] = replicas["template"]["spec"]["containers"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert options(container["args"])["heads"].startswith(mounts["heads"] + "/")
    assert [one["metadata"]["name"] for one in replicas["volumeClaimTemplates"]] == ["heads"]


# --- Kubernetes ---


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_valid(path):
    for one in yaml.safe_load_all(path.read_text()):
        kubernetes_validate.validate(one, "1.31", strict=True)


def test_the_probes_are_the_services_routes():
    [container] = pod("StatefulSet", "tightrope")["containers"]
    paths = {
        name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")
    }
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    for path in paths.values():
        assert next(route for route in ROUTES if route.path == path).scope is None
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    assert options(container["args"])["port"] == "8080"
    # What a stop may take: until the Service has forgotten the pod, 10 s for requests under way and 9 s for the journals.
    wait = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert wait >= container["readinessProbe"]["periodSeconds"]
    assert pod("StatefulSet", "tightrope")["terminationGracePeriodSeconds"] > wait + 19


def test_arguments_name_files_that_are_mounted():
    spec = pod("StatefulSet", "tightrope")
    [container] = spec["containers"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    given = options(container["args"])
    config = OBJECTS["ConfigMap", "tightrope"]["data"]
    assert container["args"][1] in {f"{mounts['specs']}/{name}" for name in config}
    assert given["database"] == f"file:{mounts['secrets']}/database"
    assert given["keys"] == f"{mounts['secrets']}/keys.json"
    assert config["ward-routing.toml"] == (ROOT / "examples" / "hospital.toml").read_text()
    # The Secrets are made by the commands on the page.
    made = {
        name: set(re.findall(r"--from-file=([\w.-]+)=", files))
        for name, files in re.findall(
            r"kubectl create secret generic ([\w-]+)((?: \\\n  --from-file=\S+)+)", PAGE
        )
    }
    assert made == {
        "tightrope": {"database", "keys.json", "ca.crt"},
        "tightrope-owner": {"database"},
        "tightrope-postgresql": {"postgres-password", "server.crt", "server.key"},
    }
    for kind, name in (
        ("StatefulSet", "tightrope"),
        ("Job", "tightrope-migrate"),
        ("StatefulSet", "tightrope-postgresql"),
    ):
        for volume in pod(kind, name)["volumes"]:
            assert "secret" not in volume or volume["secret"]["secretName"] in made


@pytest.mark.parametrize(
    ("kind", "name"),
    [("StatefulSet", "tightrope"), ("StatefulSet", "tightrope-postgresql"), ("Job", "tightrope-migrate")],
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
    assert policy["podSelector"]["matchLabels"] == labels
    if kind != "Job":
        assert OBJECTS[kind, name]["spec"]["selector"]["matchLabels"] == labels
        assert OBJECTS["Service", name]["spec"]["selector"] == labels


def test_who_reaches_whom():
    service = OBJECTS["NetworkPolicy", "tightrope"]["spec"]["ingress"]
    callers, prometheus = (rule["from"][0] for rule in service)
    assert callers["podSelector"]["matchLabels"] == {"tightrope-client": "true"}
    assert prometheus["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "monitoring"}
    assert prometheus["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "prometheus"}
    assert all(rule["ports"] == [{"port": "http", "protocol": "TCP"}] for rule in service)
    told = OBJECTS["StatefulSet", "tightrope"]["spec"]["template"]["metadata"]["annotations"]
    assert told["prometheus.io/path"] in [route.path for route in ROUTES]
    assert told["prometheus.io/port"] == of("EXPOSE")[0]
    [database] = OBJECTS["NetworkPolicy", "tightrope-postgresql"]["spec"]["ingress"]
    [one] = database["from"][0]["podSelector"]["matchExpressions"]
    assert one["values"] == ["tightrope", "tightrope-migrate"]


def test_a_leader_and_a_standby_that_are_replaced_together():
    deployment = OBJECTS["StatefulSet", "tightrope"]["spec"]
    assert deployment["replicas"] == 2
    # Nobody waits for a standby to become ready, and no pod of a new release starts beside one of the old.
    assert deployment["podManagementPolicy"] == "Parallel"
    assert deployment["updateStrategy"] == {"type": "OnDelete"}
    budget = OBJECTS["PodDisruptionBudget", "tightrope"]["spec"]
    # The standby is never ready, so a budget that counts ready pods would never let the leader go.
    assert budget["maxUnavailable"] == 1
    assert "minAvailable" not in budget
    assert budget["selector"] == deployment["selector"]
    # The user of the image owns the folder that is mounted for compiled code.
    spec = pod("StatefulSet", "tightrope")
    assert f"{spec['securityContext']['runAsUser']}:{spec['securityContext']['runAsGroup']}" == of("USER")[0]
    assert {one["mountPath"] for one in spec["containers"][0]["volumeMounts"]} >= {
        "/var/cache/tightrope",
        "/tmp",
    }
    assert "NUMBA_CACHE_DIR=/var/cache/tightrope" in of("ENV")[0]
