"""`tightrope version`."""

import numpy as np

import tightrope as tr
from cli_tools import machine
from tightrope.cli import main


def test_version(capsys):
    versions = machine(capsys, "version")
    assert versions["tightrope"] == tr.__version__
    assert versions["numpy"] == np.__version__
    assert main(["version"]) == 0
    assert f"tightrope {tr.__version__}" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == tr.__version__
