"""What every answer says to the browser, and which requests come no further."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio.testing
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pyrmq.console.app import console_app
from pyrmq.console.gate import AT_ONCE
from pyrmq.console.headers import LOGIN_BODY, MAX_BODY
from pyrmq.console.pages import Rooms
from pyrmq.console.settings import Settings
from tests.console.asgi import Client, client, lifespan
from tests.console.data import HOSTILE
from tests.console.rooms import ROOMS


@pytest.fixture
async def browser(deadline: None) -> AsyncIterator[Client]:
    settings = Settings("127.0.0.1:9876", hosts=("console.example",), url="https://proxy.example/")
    async with client(console_app(settings, ROOMS)) as one:
        yield one


@pytest.mark.parametrize("path", ["/", "/room", "/health", "/nothing", "/room/away"])
async def test_no_page_is_kept_or_framed(browser: Client, path: str) -> None:
    headers = (await browser.get(path)).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    policy = headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


async def test_static_files_may_be_kept(browser: Client) -> None:
    answer = await browser.get("/static/console.css")
    assert "max-age" in answer.headers["cache-control"]
    assert answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/"])
async def test_no_other_files(browser: Client, path: str) -> None:
    assert (await browser.get(path)).status == 404


def raw_scope(method: str, path: str, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    """Of a request that a test sends to the application itself."""
    return {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": headers, "scheme": "http", "root_path": "",
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1), "http_version": "1.1",
    }  # fmt: skip


async def test_a_fault_of_the_console_has_the_headers_too(browser: Client) -> None:
    answers: list[dict[str, Any]] = []
    headers = [(b"host", b"127.0.0.1")]
    scope = raw_scope("GET", "/room/broken", headers)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        answers.append(message)

    with pytest.raises(ZeroDivisionError):  # for the log of the server
        await browser.app(scope, receive, send)
    assert answers[0]["status"] == 500
    assert b"content-security-policy" in dict(answers[0]["headers"])
    assert b"a fault" not in answers[1]["body"]


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8090", "localhost:8090", "LOCALHOST", "[::1]:80", "10.0.0.7", "console.example",
     "proxy.example"],
)  # fmt: skip
async def test_own_names(browser: Client, host: str) -> None:
    browser.host = host
    assert (await browser.get("/room")).status == 200


@pytest.mark.parametrize(
    "host", ["attacker.example", "127.0.0.1.attacker.example", "", "localhost@attacker", "[", "a b"]
)
async def test_names_of_others(browser: Client, host: str) -> None:
    browser.host = host
    answer = await browser.get("/room")
    assert answer.status == 421
    assert "--host" in answer.text


@pytest.mark.parametrize(
    ("site", "mode", "dest", "status"),
    [
        ("same-origin", "cors", "empty", 200),
        ("none", "navigate", "document", 200),
        ("cross-site", "navigate", "document", 200),  # a link
        ("cross-site", "navigate", "iframe", 403),  # not shown, but the console would search
        ("cross-site", "no-cors", "image", 403),
        ("same-site", "cors", "empty", 403),
    ],
)
async def test_pages_of_other_sites(
    browser: Client, site: str, mode: str, dest: str, status: int
) -> None:
    headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
    assert (await browser.get("/room", headers)).status == status


async def test_a_body_that_is_too_long(browser: Client) -> None:
    assert (await browser.request("POST", "/room/make", b"x" * (MAX_BODY + 1))).status == 413
    assert (await browser.request("POST", "/login", b"x" * (LOGIN_BODY + 1))).status == 413
    stated = {"content-length": "1" * 30}
    assert (await browser.request("POST", "/room/make", b"", stated)).status == 413


async def test_a_long_body_without_a_length(browser: Client) -> None:
    headers = {
        "content-length": "0",
        "content-type": "application/x-www-form-urlencoded",
    }
    body = b"name=" + b"x" * MAX_BODY
    assert (await browser.request("POST", "/room/make", body, headers)).status == 413


async def test_a_body_that_does_not_come(autojump_clock: trio.testing.MockClock) -> None:
    app = console_app(Settings("127.0.0.1:9876"), ROOMS)
    answers: list[dict[str, Any]] = []
    parts = [{"type": "http.request", "body": b"name=", "more_body": True}]
    headers = [
        (b"host", b"127.0.0.1"),
        (b"content-type", b"application/x-www-form-urlencoded"),
    ]
    scope = raw_scope("POST", "/room/make", headers)

    async def receive() -> Any:
        if not parts:
            await trio.sleep_forever()
        return parts.pop(0)

    async def send(message: Any) -> None:
        answers.append(message)

    async with lifespan(app):
        await app(scope, receive, send)
    assert answers[0]["status"] == 408


@pytest.mark.parametrize("text", HOSTILE)
async def test_texts_of_others_are_texts(browser: Client, text: str) -> None:
    from urllib.parse import quote

    body = (await browser.get(f"/room?text={quote(text)}")).text
    for part in ("<script>alert", "<img src=x", "\u202e", "\x1b"):
        assert part not in body


async def test_a_page_that_asks_again_asks_for_the_same(browser: Client) -> None:
    address = "/room/away/%25RETRY%25a%7Bb%7D%3F?q=%25"
    assert f'hx-get="{address}"' in (await browser.get(address)).text


async def test_what_a_server_refuses_is_a_page_that_asks_again(browser: Client) -> None:
    answer = await browser.get("/room/away")
    assert answer.status == 502
    assert "the broker is away" in answer.text
    assert 'hx-get="/room/away"' in answer.text
    browser.htmx = True
    answer = await browser.get("/room/away")
    assert answer.text.startswith('<div class="note bad"')


async def test_requests_of_one_user_at_a_time(deadline: None) -> None:
    """Each may need much memory, as long as its client does not take the answer."""
    entered, go_on = trio.Semaphore(0), trio.Event()

    async def slow(request: Request) -> Response:
        entered.release()
        await go_on.wait()
        return PlainTextResponse("slow")

    rooms = Rooms(ROOMS.rooms, (*ROOMS.routes, Route("/slow", slow)))
    async with client(console_app(Settings("127.0.0.1:9876"), rooms)) as browser:
        statuses: list[int] = []

        async def one() -> None:
            statuses.append((await browser.request("GET", "/slow")).status)

        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(one)
                await entered.acquire()
            refused = await browser.get("/room")
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            for path in ("/health", "/static/console.css"):
                assert (await browser.get(path)).status == 200
            go_on.set()
        assert statuses == [200] * AT_ONCE
        assert (await browser.get("/room")).status == 200
