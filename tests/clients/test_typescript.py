"""The TypeScript client: its types are those of the document, it compiles strictly, and it works against a running service."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tightrope.service import create_key
from tightrope.service.http.app import document
from tightrope.service.http.server import make_service
from tightrope.spec import read_spec
from waiting import PATIENCE
from workbench import running, write_spec

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients" / "typescript"
PAGE = ROOT / "docs" / "clients.md"
TOOLS = CLIENT / "node_modules"


def ready() -> bool:
    if shutil.which("node") is None or not (TOOLS / "typescript").is_dir():
        return False
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return int(version.removeprefix("v").partition(".")[0]) >= 20


pytestmark = pytest.mark.skipif(
    not ready(),
    reason="needs Node 20 and its packages: bash scripts/install-test-tools",
)


def run(*command: str | Path, **settings: str) -> str:
    done = subprocess.run(
        ["node", *map(str, command)],
        cwd=CLIENT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_types_are_those_of_the_document(tmp_path: Path) -> None:
    (tmp_path / "openapi.json").write_text(json.dumps(document()), encoding="utf-8")
    options = json.loads((CLIENT / "package.json").read_text())["scripts"]["generate"].split()[1:]
    generator = TOOLS / "openapi-typescript" / "bin" / "cli.js"
    run(generator, *options, tmp_path / "openapi.json", "-o", tmp_path / "api.ts")
    made = (tmp_path / "api.ts").read_text(encoding="utf-8")
    assert made == (CLIENT / "src" / "api.ts").read_text(encoding="utf-8"), (
        "tightrope openapi --to openapi.json, and in clients/typescript npm run generate -- ../../openapi.json -o src/api.ts"
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, its tests and the example of the page, compiled: strictly, and without a complaint."""
    folder = tmp_path_factory.mktemp("typescript")
    for name in ("src", "test"):
        shutil.copytree(CLIENT / name, folder / name)
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(CLIENT / name, folder)
    (folder / "node_modules").symlink_to(TOOLS)
    [example] = re.findall(r"```typescript\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (folder / "test" / "page.ts").write_text(example.replace('"tightrope-client"', '"../src/index.js"'))
    assert json.loads((CLIENT / "tsconfig.json").read_text())["compilerOptions"]["strict"]
    run(TOOLS / "typescript" / "bin" / "tsc", "--project", folder)
    return folder / "dist" / "test"


def test_it_works_against_a_running_service(built: Path, tmp_path: Path) -> None:
    hours = '[[rule]]\nkind = "budget"\nname = "hours"\nat_most = 0.6\nseen = "after"'
    spec, keys = write_spec(tmp_path, rule=hours), tmp_path / "keys.json"
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = int(one.getsockname()[1])
    options = {"port": port, "data": str(tmp_path / "data"), "keys": str(keys)}
    code = f"from tightrope.service import serve; serve([{str(spec)!r}], **{options!r})"
    told = run(
        "--test",
        "--test-reporter=tap",
        built / "client.test.js",
        TIGHTROPE_URL=f"http://127.0.0.1:{port}",
        TIGHTROPE_KEY=create_key(keys, scopes=["decide", "outcome", "read", "admin"]),
        TIGHTROPE_READ_KEY=create_key(keys, scopes=["read"]),
        TIGHTROPE_SERVE=json.dumps([sys.executable, "-c", code]),
    )
    assert "# fail 0" in told
    assert "# skipped 0" in told
    assert int(told.partition("# pass ")[2].split()[0]) >= 9


def test_the_example_of_the_page_runs(built: Path) -> None:
    with running(make_service([read_spec(ROOT / "examples" / "hospital.toml")], database="memory:")) as web:
        script = built / "page.js"
        script.write_text(script.read_text().replace("http://127.0.0.1:8080", str(web.base_url).rstrip("/")))
        decided, refused = run(script).splitlines()
    assert decided.endswith(" 1")
    assert refused.startswith("422 invalid: actions[0]")


def test_pinned_packages_name_no_registry() -> None:
    packages = json.loads((CLIENT / "package-lock.json").read_text())["packages"]
    assert len(packages) > 3
    assert not [name for name, one in packages.items() if "resolved" in one]
    wanted = packages[""]["devDependencies"]
    assert wanted == json.loads((CLIENT / "package.json").read_text())["devDependencies"]
    assert all(packages[f"node_modules/{name}"]["version"] == version for name, version in wanted.items())
    assert "dependencies" not in packages[""]
