"""Debian's Chromium without a window, which can reach nothing but this machine.

It is driven over the two pipes of its DevTools protocol: no driver, no WebSocket, no package.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from waiting import PATIENCE


def without_chromium() -> str:
    """Why there is no browser, after trying to install one where that is allowed; empty if there is one."""
    if shutil.which("chromium") is not None:
        return ""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "Debian's package `chromium` is missing, and only root can install it"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", "chromium", "fonts-liberation"]
    for command in (["apt-get", "update"], install):
        subprocess.run(command, check=False, env=environment, **quiet)
    return "" if shutil.which("chromium") else "Debian's package `chromium` can't be installed"


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser that can reach nothing but this machine."""
    command_read, command_write = _high_pipe()
    answer_read, answer_write = _high_pipe()
    arguments = [
        "chromium",
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--hide-scrollbars",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={folder}",
        "--remote-debugging-pipe",
    ]
    # Chromium reads its commands from descriptor 3 and answers on 4.
    shell = f'exec "$@" 3</proc/self/fd/{command_read} 4>/proc/self/fd/{answer_write}'
    process = subprocess.Popen(
        ["sh", "-c", shell, "sh", *arguments],
        pass_fds=(command_read, answer_write),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(command_read)
    os.close(answer_write)
    try:
        one = Browser(command_write, answer_read)
        yield one
        with contextlib.suppress(OSError, AssertionError):
            one.call("Browser.close")
    finally:
        os.close(command_write)
        os.close(answer_read)
        try:
            process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Browser:
    """The two pipes, and the events that came over them."""

    def __init__(self, write: int, read: int) -> None:
        self.events: list[dict[str, Any]] = []
        self._write = write
        self._read = read
        self._buffer = b""
        self._number = 0

    def page(self) -> Page:
        """A new tab, with storage of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """One command, and its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._next(deadline, method)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _next(self, deadline: float, method: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"chromium did not answer {method} in time"
            part = os.read(self._read, 1 << 20)
            assert part, f"chromium ended during {method}"
            self._buffer += part
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        return message


class Page:
    """A tab."""

    def __init__(self, owner: Browser, session: str) -> None:
        self._owner = owner
        self._session = session
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol to this tab."""
        return self._owner.call(method, self._session, **parameters)

    def open(self, url: str) -> None:
        """Go there, and wait until it is loaded."""
        answer = self.call("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")

    def size(self, width: int, height: int, *, dark: bool = False, mobile: bool = False) -> None:
        """How large the window is, and which colours its reader likes."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str, seconds: float = 15.0) -> Any:
        """Until the expression is true."""
        deadline = time.monotonic() + seconds
        while True:
            value = self.js(expression)
            if value:
                return value
            assert time.monotonic() < deadline, (
                f"still not: {expression}\n{self.js('document.body.innerText')}"
            )
            time.sleep(0.05)

    def poll(self) -> None:
        """Have the dashboard look at the service now, not a moment later."""
        self.js("document.getElementById('retry').click()")

    def text(self, selector: str) -> str:
        """What a reader sees of an element."""
        return str(self.js(f"document.querySelector({json.dumps(selector)}).innerText"))

    def press(self, key: str, code: int, *, text: str = "") -> None:
        """A key of the keyboard."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def write(self, text: str) -> None:
        """Into what has the focus."""
        self.call("Input.insertText", text=text)

    def events(self, method: str) -> list[dict[str, Any]]:
        """What this tab reported so far."""
        self.js("0")
        return [
            one["params"]
            for one in self._owner.events
            if one.get("method") == method and one.get("sessionId") == self._session
        ]


def _high_pipe() -> tuple[int, int]:
    # Out of the way of 3 and 4, which the shell sets up.
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]
