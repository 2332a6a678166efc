"""What a release consists of: the wheel's contents, one version everywhere, the pages and scripts that go with it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import tightrope_client
from script_tools import ROOT, script
from tightrope.version import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize(
    ("folder", "contents"),
    [(".", "OF_TIGHTROPE"), ("clients/python", "OF_THE_CLIENT")],
    ids=["tightrope", "client"],
)
def test_a_wheel_holds_its_package_and_the_license_and_nothing_else(folder, contents, tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(build, cwd=ROOT / folder, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    check = script("check-package")
    check.require_contents(wheel, getattr(check, contents))


def test_one_version_everywhere():
    assert PROJECT["version"] == __version__ == tightrope_client.__version__
    lab = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text())["project"]
    assert lab["version"] == __version__
    assert f"tightrope=={__version__}" in lab["dependencies"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
    for name in ("compose.yaml", "docs/containers.md"):
        text = (ROOT / name).read_text()
        assert set(re.findall(r"tightrope:(\d[\w.]*\w)", text)) == {__version__}, name
    page = (ROOT / "docs" / "install.md").read_text()
    assert set(re.findall(r"tightrope(?:_client)?-(\d[\d.]*\d)-py3", page)) == {__version__}
    assert f"\n## {__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_the_classifiers_are_the_versions_on_the_pages():
    minors = re.findall(r":: 3\.(\d+)", " ".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">=3.{min(minors, key=int)}"
    span = f"Python 3.{min(minors, key=int)} to 3.{max(minors, key=int)}"
    assert span in (ROOT / "docs" / "install.md").read_text()
    rows = re.findall(r"^\| ([\d., ]+) \|", (ROOT / "docs" / "release.md").read_text(), re.MULTILINE)
    assert re.findall(r"3\.(\d+)", " ".join(rows)) == minors


def test_the_lock_is_within_the_lower_bounds():
    def numbers(version):
        return [int(part) for part in re.findall(r"\d+", version)]

    pins = dict(
        line.split()[0].lower().replace("_", "-").split("==")
        for file in ("docs.txt", "lock.txt")
        for line in (ROOT / "requirements" / file).read_text().splitlines()
        if "==" in line
    )
    extras = PROJECT["optional-dependencies"]
    for line in (
        *PROJECT["dependencies"],
        *(one for name in extras if name != "gpu" for one in extras[name]),
    ):
        if line.startswith("tightrope-client"):
            continue  # of this repository
        name, bound = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", line).groups()
        assert numbers(pins[name.lower()]) >= numbers(bound), line


def test_the_citation_is_complete():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    [paper] = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Liu", "Li", "Shi", "Ying"]
    assert citation["license"] == PROJECT["license"]


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/release.md"])
def test_pages_name_what_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), target
    for name in re.findall(r"`(?:scripts|src|tests|deploy|requirements)/[\w./-]+", text):
        assert Path(ROOT, name.strip("`").rstrip(".")).exists(), name
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make (\w+)`", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_a_page_is_followed_word_by_word(tmp_path):
    follow = script("follow-page")
    page = "```bash\ncd /\nx=1\n```\n\nthen\n\n```bash\necho got $x; pwd\n```\n\n```text\ngot …\n…\n```\n```python\n1\n```\n"
    steps = follow.blocks(page)
    assert steps == [("cd /\nx=1\n", ""), ("echo got $x; pwd\n", "got …\n…\n")]
    shell = follow.script(["x=1\n", "echo got $x\n", "false\n", "echo never\n"])
    done = subprocess.run(
        ["bash", "-c", shell], cwd=tmp_path, env={"TIMES": str(tmp_path / "times")}, check=False
    )
    assert done.returncode == 1
    assert (tmp_path / ".block-1").read_text() == "got 1\n"
    assert not (tmp_path / ".block-3").exists()
    assert len((tmp_path / "times").read_text().split()) == 3
    assert follow.lacking("a … c\n…\nd\n", "a  b c\nx\nd\n") == []
    assert follow.lacking("a\nb\n", "b\na\n") == ["b"]
