"""Pictures of all pages of the console: light, dark and as on a phone.

    python scripts/console_shots.py /tmp/shots    # a server with data of the tests
    python scripts/console_shots.py /tmp/shots -n 10.0.0.1:9876    # a cluster that is there
    python scripts/console_shots.py /tmp/shots --only /topics --kinds dark

It follows the links of each page and takes one picture of each kind of page (`/topics/orders` and
`/topics/payments` are one kind). What the browser complains about is printed, and is exit code 1.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

KINDS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1360, "height": 860}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1360, "height": 860}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}
MOST = 80
"""Pages that are pictured."""
WAIT_MS = 400
"""For what a page asks for by itself after it has loaded."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-n", "--namesrv", help="a cluster; by default a server with data is made")
    parser.add_argument("--only", default="", help="beginning of the paths that are pictured")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with _console(options.namesrv) as console:
        return _picture(console, options.folder, options.only, options.kinds)


@contextmanager
def _console(namesrv: str | None) -> Iterator[str]:
    """The address of a console."""
    from tests.console import data
    from tests.console.browser import ConsoleProcess
    from tests.support.server import ServerProcess

    with TemporaryDirectory() as name:
        folder = Path(name)
        if namesrv is not None:
            with ConsoleProcess(namesrv, log=folder / "log") as console:
                yield console.url
            return
        with ServerProcess(folder / "store") as server:
            own = f"{server.namesrv[0]}:{server.namesrv[1]}"
            data.seed(own)
            with ConsoleProcess(own, log=folder / "log") as console:
                yield console.url


def _picture(url: str, folder: Path, only: str, kinds: list[str]) -> int:
    from playwright.sync_api import sync_playwright

    from tests.console.browser import ARGUMENTS, Tab, required_chromium

    problems = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=required_chromium(), args=ARGUMENTS)
        tabs = {
            kind: Tab(browser.new_context(base_url=url, **KINDS[kind]).new_page()) for kind in kinds
        }
        first = next(iter(tabs.values()))
        waiting, seen = ["/"], {_shape("/")}
        pictured = 0
        while waiting and pictured < MOST:
            path = waiting.pop(0)
            if not _open(first, path):
                continue
            found = first.page.eval_on_selector_all(
                "a[href^='/']", "all => all.map(a => a.getAttribute('href'))"
            )
            for link in found:
                if _shape(link) not in seen:
                    seen.add(_shape(link))
                    waiting.append(link)
            if path == "/" or not path.startswith(only):
                continue
            pictured += 1
            for kind, tab in tabs.items():
                tab.page.goto(path)
                tab.page.wait_for_timeout(WAIT_MS)
                tab.page.screenshot(path=folder / f"{_file(path)}-{kind}.png", full_page=True)
            print(path)
            for kind, tab in tabs.items():
                for said in tab.errors:
                    print(f"  {kind}: {said}")
                problems += len(tab.errors)
                tab.errors.clear()
        browser.close()
    return 1 if problems else 0


def _open(tab: Any, path: str) -> bool:
    """Opens a page; False for what is a download."""
    from playwright.sync_api import Error

    try:
        tab.page.goto(path)
    except Error as e:
        if "Download is starting" in str(e):
            return False
        raise
    return True


def _shape(path: str) -> str:
    """The kind of a page: its route, and the names in its query but those of lists."""
    from starlette.routing import Match

    from pyrmq.console.pages import all_rooms

    parts = urlsplit(path)
    scope = {"type": "http", "method": "GET", "path": unquote(parts.path), "root_path": ""}
    routes = (r.path for r in all_rooms().routes if r.matches(scope)[0] is Match.FULL)
    keys = {key for key, _ in parse_qsl(parts.query)} - {"sort", "q", "page"}
    return f"{next(routes, parts.path)}?{'&'.join(sorted(keys))}"


def _file(path: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", path).strip("-")[:80] or "home"


if __name__ == "__main__":
    sys.exit(main())
