"""Make docs/figures/dashboard.png: the ward example after 2,000 patients, in Chromium.

.venv/bin/python scripts/dashboard_figure.py
"""

from __future__ import annotations

import base64
import importlib.util
import io
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "service")]

from PIL import Image  # noqa: E402

from chromium import browser  # noqa: E402
from tightrope.service.experiment import Experiment  # noqa: E402
from tightrope.service.http.app import Service  # noqa: E402
from tightrope.service.storage.memory import MemoryJournal  # noqa: E402
from tightrope.spec import read_spec  # noqa: E402
from workbench import running  # noqa: E402

WIDTH = 1120
PATIENTS = "2000"


def main() -> None:
    """Serve, play, look."""
    experiment = Experiment(read_spec(ROOT / "examples" / "hospital.toml"), MemoryJournal())
    experiment.open()
    with (
        running(Service([experiment])) as web,
        tempfile.TemporaryDirectory() as folder,
        browser(Path(folder)) as one,
    ):
        played = threading.Thread(target=_play, args=(str(web.base_url),))
        played.start()
        played.join()
        page = one.page()
        page.size(WIDTH, 900)
        page.open(f"{web.base_url}/")
        page.wait("document.querySelectorAll('.main-svg').length >= 5")
        page.wait("document.getElementById('rules-lead').innerText.includes('remembered decisions')", 60.0)
        height = page.js("document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
        taken = page.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)[
            "data"
        ]
    picture = Image.open(io.BytesIO(base64.b64decode(taken))).convert("RGB").quantize(128)
    picture.save(ROOT / "docs" / "figures" / "dashboard.png", optimize=True)


def _play(url: str) -> None:
    spec = importlib.util.spec_from_file_location("serve_hospital", ROOT / "examples" / "serve_hospital.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    sys.argv = ["serve_hospital.py", "--url", url, "--patients", PATIENTS]
    example.main()


if __name__ == "__main__":
    main()
