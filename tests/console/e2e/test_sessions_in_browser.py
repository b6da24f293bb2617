"""Login, roles and the end of a session in a browser: also on a page that was left open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrmq.console.password_file import User, hashed, write
from pyrmq.console.settings import Role
from tests.console.browser import ConsoleProcess, Tab
from tests.console.browser import chromium as chromium
from tests.console.browser import tab as tab
from tests.support.certificates import Authority
from tests.support.server import ServerProcess

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def users() -> list[User]:
    roles = {"ann": Role.ADMIN, "rob": Role.READ_ONLY}
    return [User(name, role, hashed(PASSWORD)) for name, role in roles.items()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sessions")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    with ServerProcess(folder / "store") as running:
        yield running


@pytest.fixture(scope="module")
def console(folder: Path, server: ServerProcess, users: list[User]) -> Iterator[ConsoleProcess]:
    """One with a password file."""
    write(folder / "passwords", users)
    namesrv = f"{server.namesrv[0]}:{server.namesrv[1]}"
    words = ("--login", str(folder / "passwords"))
    with ConsoleProcess(namesrv, *words, log=folder / "log") as running:
        yield running


@pytest.fixture(autouse=True)
def fresh(folder: Path, users: list[User]) -> None:
    write(folder / "passwords", users)


def log_in(tab: Tab, user: str, password: str = PASSWORD) -> None:
    tab.page.fill("input[name=user]", user)
    tab.page.fill("input[name=password]", password)
    tab.page.keyboard.press("Enter")


def cookies(tab: Tab) -> dict[str, Any]:
    return {cookie["name"]: cookie for cookie in tab.page.context.cookies()}


def test_login_and_logout(tab: Tab) -> None:
    tab.open("/cluster?range=hour")
    assert tab.page.url.endswith("/login?next=%2Fcluster%3Frange%3Dhour")
    tab.check()
    log_in(tab, "ann", "guessed it")
    tab.page.wait_for_selector("form .note.bad")
    assert "User or password is wrong." in tab.text()
    tab.errors.clear()  # the browser tells of the status 403
    tab.check()
    log_in(tab, "ann")
    tab.page.wait_for_url("**/cluster?range=hour")
    (name,) = [one for one in cookies(tab) if not one.endswith("-form")]
    assert cookies(tab)[name]["httpOnly"]
    assert cookies(tab)[name]["sameSite"] == "Strict"
    assert tab.page.evaluate("document.cookie") == ""
    tab.reach("form[action='/logout'] button")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/login")
    tab.open("/cluster")
    assert "/login" in tab.page.url


def refresh(tab: Tab) -> None:
    """As if the tab had been out of sight: its live parts ask at once."""
    tab.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_a_page_that_is_open_when_the_session_ends(
    tab: Tab, folder: Path, users: list[User]
) -> None:
    tab.open("/cluster")
    log_in(tab, "ann")
    tab.page.wait_for_selector("[data-live]")
    write(folder / "passwords", users[1:])
    refresh(tab)
    tab.page.wait_for_url("**/login?next=%2Fcluster")
    assert tab.page.locator("input[name=password]").count() == 1
    write(folder / "passwords", users)
    log_in(tab, "ann")
    tab.page.wait_for_url("**/cluster")
    tab.errors.clear()  # the status 401


def test_another_tab_has_the_token_of_the_new_session(tab: Tab) -> None:
    tab.open("/cluster")
    log_in(tab, "ann")
    tab.page.wait_for_selector("[data-live]")
    old = tab.page.get_attribute("meta[name=csrf-token]", "content")
    other = Tab(tab.page.context.new_page())
    other.open("/cluster")
    other.page.click("form[action='/logout'] button")
    other.page.wait_for_url("**/login")
    log_in(other, "rob")
    other.page.wait_for_url("**/cluster")
    refresh(tab)
    tab.page.wait_for_function(
        "old => document.querySelector('meta[name=csrf-token]').content !== old", arg=old
    )
    new = other.page.get_attribute("meta[name=csrf-token]", "content")
    assert tab.page.get_attribute("meta[name=csrf-token]", "content") == new
    assert tab.page.input_value("input[name=_csrf] >> nth=0") == new
    assert other.errors == []


def test_the_cluster_goes_while_pages_are_open(tab: Tab, server: ServerProcess) -> None:
    """A live part says so and stays alive; a page that could not be made comes by itself."""
    tab.open("/cluster")
    log_in(tab, "ann")
    tab.page.wait_for_selector("text=broker-a")
    other = Tab(tab.page.context.new_page())
    server.kill()
    refresh(tab)
    tab.page.wait_for_selector("text=broker-a", state="detached")
    other.page.goto("/topics")
    other.page.wait_for_selector("text=The page asks again every 5 seconds")
    refresh(other)
    other.page.wait_for_selector("text=The page asks again every 5 seconds")
    server.restart()
    refresh(tab)
    tab.page.wait_for_selector("text=broker-a")
    refresh(other)
    other.page.wait_for_selector("input[type=search]")
    other.page.wait_for_function("document.title.startsWith('Topics')")
    tab.errors.clear()  # the statuses 502


def test_no_frame_of_another_site(tab: Tab, console: ConsoleProcess) -> None:
    """Not even one of the console's own."""
    tab.open("/login")
    frame = "to => document.body.append(Object.assign(document.createElement('iframe'), {src: to}))"
    tab.page.evaluate(frame, f"{console.url}/login")
    tab.page.wait_for_function("window.frames.length === 1")
    said = [one for one in tab.errors if "frame" in one.lower()]
    for _ in range(100):
        if said:
            break
        tab.page.wait_for_timeout(20)
        said = [one for one in tab.errors if "frame" in one.lower()]
    assert said
    tab.errors.clear()


def test_two_consoles_of_one_host_one_by_tls(
    chromium: Any, console: ConsoleProcess, folder: Path, tmp_path: Path
) -> None:
    """Cookies are shared by all ports of a host: a login at one is none at the other, and ends no
    session of it."""
    own = Authority(tmp_path).issue("127.0.0.1")
    words = ("--login", str(folder / "passwords"), "--cert", str(own.cert), "--key", str(own.key))
    with ConsoleProcess(console.namesrv, *words, log=tmp_path / "log") as secure:
        context = chromium.new_context(ignore_https_errors=True)
        tab = Tab(context.new_page())
        for at, user in ((console, "ann"), (secure, "rob")):
            tab.open(f"{at.url}/alarms")
            assert "/login?next=" in tab.page.url
            log_in(tab, user)
            tab.page.wait_for_url(f"{at.url}/alarms")
        for at, user in ((console, "ann"), (secure, "rob")):
            tab.open(f"{at.url}/alarms")
            assert user in tab.page.inner_text(".user")
        found = {name: one["secure"] for name, one in cookies(tab).items() if "form" not in name}
        assert len(found) == 2
        assert {name.startswith("__Host-"): is_secure for name, is_secure in found.items()} == {
            False: False,
            True: True,
        }
        assert tab.errors == []
        context.close()
