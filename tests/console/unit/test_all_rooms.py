"""What holds for every route of every room, by the table of routes: also for rooms to come."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.routing import Route

from pyrmq.console.app import console_app
from pyrmq.console.pages import all_rooms
from pyrmq.console.password_file import User, nobody, write
from pyrmq.console.settings import LoginKind, Role, Settings
from tests.console.asgi import client

pytestmark = pytest.mark.usefixtures("deadline")
AWAY = "127.0.0.1:1"
ROUTES = all_rooms().routes


def path_of(route: Route) -> str:
    """A path that the route takes."""
    return re.sub(r"\{[^}]*:int\}", "0", re.sub(r"\{[^}:]*\}", "x", route.path))


def takes(route: Route, method: str) -> bool:
    return method in (route.methods or ())


async def test_no_form_is_taken_without_its_token() -> None:
    async with client(console_app(Settings(AWAY, timeout=0.1))) as browser:
        await browser.get("/nothing")
        for route in ROUTES:
            if takes(route, "POST"):
                answer = await browser.post(path_of(route), {"_csrf": "guessed"})
                assert answer.status == 403, route.path
                other = {"origin": "https://elsewhere.example"}
                answer = await browser.post(path_of(route), {}, other)
                assert answer.status == 403, route.path


async def test_read_only_changes_nothing() -> None:
    async with client(console_app(Settings(AWAY, read_only=True, timeout=0.1))) as browser:
        await browser.get("/nothing")
        for route in ROUTES:
            if takes(route, "POST"):
                answer = await browser.post(path_of(route))
                assert answer.status == 403, route.path
                assert "read-only" in answer.text, route.path


async def test_nobody_sees_anything_before_the_login(tmp_path: Path) -> None:
    file = tmp_path / "passwords"
    write(file, [User("ann", Role.ADMIN, nobody())])
    settings = Settings(AWAY, login=LoginKind.FILE, password_file=file)
    async with client(console_app(settings)) as browser:
        for route in ROUTES:
            for method in sorted(route.methods or ()):
                answer = await browser.request(method, path_of(route))
                assert answer.status == 303, route.path
                assert answer.headers["location"].startswith("/login"), route.path
                assert answer.body == b"", route.path


async def test_each_page_says_that_the_cluster_is_away() -> None:
    """It is no fault of the console: none of them is a 500, or a page without headers."""
    async with client(console_app(Settings(AWAY, timeout=0.1))) as browser:
        for route in ROUTES:
            if takes(route, "GET"):
                for browser.htmx in (False, True):
                    answer = await browser.get(path_of(route))
                    assert answer.status in (200, 303, 400, 404, 422, 502), route.path
                    assert answer.headers["cache-control"] == "no-store", route.path


async def test_a_change_has_no_other_way() -> None:
    """What changes something is a POST: no route takes PUT, PATCH or DELETE, and none takes both a
    GET and a POST, so that a link does nothing."""
    for route in ROUTES:
        methods = set(route.methods or ())
        assert methods in ({"GET", "HEAD"}, {"POST"}), route.path
