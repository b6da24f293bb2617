"""A real browser on a console: one Chromium, one server with data and one console for a file.

    from tests.console.browser import *  # noqa: F403  (fixtures)

    def test_list(tab: Tab) -> None:
        tab.open("/topics")
        tab.check()             # nothing of axe-core's, no error in the browser
        tab.reach("a.create")   # by the keyboard

Without Chromium these tests are skipped; with PYRMQ_REQUIRE_INTEROP=1 (CI) that is a failure.
`SEED` messages are there: `tests/console/data.py` says which.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.console import data
from tests.support.command import Serving
from tests.support.server import ServerProcess
from tests.system.interop.toolchain import required

__all__ = ["Tab", "chromium", "console", "required_chromium", "tab"]

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 30.0
"""Seconds for what a page has to show."""
PHONE = {"width": 360, "height": 740}
MOST_KEYS = 300
"""Presses of the tabulator key within which everything is to be reached."""


class ConsoleProcess:
    """`pyrmq console` as a process, on a free port. `args`: further arguments."""

    def __init__(self, namesrv: str, *args: str, log: Path) -> None:
        self.namesrv = namesrv
        self.log = log
        self.url = ""
        self._words = ("console", "-n", namesrv, "--bind", "127.0.0.1:0", *args)

    def __enter__(self) -> Self:
        self._serving = Serving(self.log, *self._words)
        self.url = self._serving.facts["console"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._serving as serving:
            code = serving.stop()
            assert kind is not None or code == 0, f"exit code {code}: {serving.stderr()}"


def required_chromium() -> str:
    """The program; without it the test is skipped, or fails."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        problem = "chromium is not on PATH (Debian: apt install chromium)"
        if required():
            pytest.fail(problem, pytrace=False)
        pytest.skip(f"{problem} (PYRMQ_REQUIRE_INTEROP=1 makes this a failure)")
    return found


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A server with data, and a console without login."""
    required_chromium()
    folder = tmp_path_factory.mktemp("console")
    with ServerProcess(folder / "store") as server:
        namesrv = f"{server.namesrv[0]}:{server.namesrv[1]}"
        data.seed(namesrv)
        with ConsoleProcess(namesrv, log=folder / "console.log") as running:
            yield running


@pytest.fixture(scope="module")
def chromium(console: ConsoleProcess) -> Iterator[Any]:
    """The browser; it starts after the server has its data, because playwright leaves a loop of
    asyncio in the thread."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=required_chromium(), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium: Any, console: ConsoleProcess) -> Iterator[Tab]:
    """A tab of a browser of its own. At the end the browser must have seen no error."""
    context = chromium.new_context(base_url=console.url, locale="en-GB")
    made = Tab(context.new_page())
    yield made
    context.close()
    assert made.errors == [], made.errors


@dataclass
class Tab:
    """`page`: playwright's. `errors`: of scripts, of the policy (CSP), and answers that are errors;
    a test that wants one takes it out. `dialogs`: what scripts of others would open."""

    page: Any
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        page = self.page
        page.set_default_timeout(PATIENCE * 1000)
        page.on("pageerror", lambda e: self.errors.append(f"script: {e}"))
        page.on("console", self._said)
        page.on("dialog", self._dialog)
        page.on("request", self._asked)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text}")

    def _dialog(self, dialog: Any) -> None:
        self.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "https://127.0.0.1:", "data:")):
            self.errors.append(f"asked elsewhere: {request.url}")

    def open(self, path: str) -> None:
        """Opens a page of the console, which has to answer without an error."""
        answer = self.page.goto(path)
        assert answer is not None, path
        assert answer.status < 400, f"{path}: {answer.status} {self.page.inner_text('body')}"

    def check(self, *, but: tuple[str, ...] = ()) -> None:
        """No serious or critical finding of axe-core, nothing wider than the window, no error.
        `but`: rules that are left out."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        bad = [
            f"{v['id']} ({v['impact']}): {[n['html'][:120] for n in v['nodes']][:5]}"
            for v in found
            if v["impact"] in ("serious", "critical") and v["id"] not in but
        ]
        assert bad == [], f"{self.page.url}: {bad}"
        wide = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0, f"{self.page.url} is {wide} pixels wider than the window"
        assert self.errors == [], f"{self.page.url}: {self.errors}"

    def check_looks(self) -> None:
        """As `check`: the page as it is, and dark on a phone. It is loaded once."""
        self.check()
        before = self.page.viewport_size
        self.page.emulate_media(color_scheme="dark")
        self.page.set_viewport_size(PHONE)
        self.check()
        self.page.emulate_media(color_scheme="light")
        self.page.set_viewport_size(before)

    def reach(self, selector: str) -> None:
        """Moves the focus to an element with the tabulator key alone."""
        for _ in range(MOST_KEYS):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("s => document.activeElement.matches(s)", selector):
                return
        raise AssertionError(f"the tabulator key does not reach {selector}")

    def text(self) -> str:
        """What a user reads."""
        return str(self.page.inner_text("body"))
