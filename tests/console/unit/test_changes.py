"""Forms: who may send them, and what becomes of an error."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from pyrmq.console.app import console_app
from pyrmq.console.settings import Settings
from tests.console.asgi import Client, client
from tests.console.rooms import ROOMS, made

pytestmark = pytest.mark.usefixtures("deadline")


@pytest.fixture
async def browser(deadline: None) -> AsyncIterator[Client]:
    made.clear()
    async with client(console_app(Settings("127.0.0.1:9876"), ROOMS)) as one:
        await one.get("/room")
        yield one


async def test_a_form_does_what_it_says(browser: Client) -> None:
    answer = await browser.post("/room/make", {"name": "a"})
    assert (answer.status, answer.headers["location"]) == (303, "/room")
    assert made == ["a"]
    assert "a is made." in (await browser.get("/room")).text
    assert "a is made." not in (await browser.get("/room")).text


async def test_a_form_by_htmx(browser: Client) -> None:
    browser.htmx = True
    answer = await browser.post(
        "/room/make", {"name": "a", "_csrf": None}, {"x-csrf-token": browser.token}
    )
    assert (answer.status, answer.headers["hx-redirect"]) == (204, "/room")
    assert made == ["a"]


@pytest.mark.parametrize(
    ("form", "headers"),
    [
        ({"_csrf": None}, {}),
        ({"_csrf": ""}, {}),
        ({"_csrf": "x" * 43}, {}),
        ({"_csrf": "é"}, {}),
        ({}, {"x-csrf-token": "another"}),
        ({}, {"origin": "https://elsewhere.example"}),
        ({}, {"origin": "null"}),
        ({}, {"origin": "http://["}),
        ({}, {"sec-fetch-site": "cross-site"}),
        ({}, {"sec-fetch-site": "same-site"}),
    ],
)
async def test_a_form_of_another_site(
    browser: Client, form: dict[str, str], headers: dict[str, str]
) -> None:
    answer = await browser.post("/room/make", {"name": "a", **form}, headers)
    assert answer.status == 403
    assert made == []


async def test_the_page_itself_may_say_where_it_comes_from(browser: Client) -> None:
    headers = {"origin": "http://127.0.0.1:8090", "sec-fetch-site": "same-origin"}
    assert (await browser.post("/room/make", {"name": "a"}, headers)).status == 303


async def test_a_change_is_no_get(browser: Client) -> None:
    assert (await browser.get(f"/room/make?name=a&_csrf={browser.token}")).status == 405
    assert made == []


async def test_an_error_is_a_message(browser: Client) -> None:
    answer = await browser.post("/room/make", {"name": "bad"})
    assert answer.status == 422
    assert "no such name: bad" in answer.text
    browser.htmx = True
    answer = await browser.post("/room/make", {"name": "bad"})
    assert answer.text.startswith('<div class="note bad"')


async def test_what_has_to_be_typed(browser: Client) -> None:
    assert (await browser.post("/room/make", {"name": "typed"})).status == 403
    assert (await browser.post("/room/make", {"name": "typed", "_typed": "no"})).status == 403
    assert made == []
    assert (await browser.post("/room/make", {"name": "typed", "_typed": "typed"})).status == 303


async def test_read_only(deadline: None) -> None:
    made.clear()
    settings = Settings("127.0.0.1:9876", read_only=True)
    async with client(console_app(settings, ROOMS)) as one:
        await one.get("/room")
        answer = await one.post("/room/make", {"name": "a"})
        assert answer.status == 403
        assert "read-only" in answer.text
    assert made == []


async def test_the_audit_says_who_and_what(
    browser: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pyrmq.audit")
    await browser.post("/room/make", {"name": "x y\nz: done"})
    await browser.post("/room/make", {"name": "bad"})
    secret = {"key": "tls.server.keyPassword", "value": "open sesame"}
    await browser.post("/room/make", {"name": "a", **secret})
    lines = [line for line in caplog.messages if "thing.make" in line]
    assert lines == [
        "user=nobody from=127.0.0.1 action=thing.make name='x y\\\\nz: done': done",
        "user=nobody from=127.0.0.1 action=thing.make name=bad: failed: no such name: bad",
        "user=nobody from=127.0.0.1 action=thing.make name=a key=tls.server.keyPassword "
        "value=******: done",
    ]


async def test_too_many_fields(browser: Client) -> None:
    answer = await browser.post("/room/make", {"name": "a", "x": ["1"] * 2000})
    assert answer.status == 400
    assert made == []


async def test_a_file_in_a_form(browser: Client) -> None:
    body = (
        b'--b\r\ncontent-disposition: form-data; name="name"; filename="x"\r\n\r\nabc\r\n--b--\r\n'
    )
    headers = {"content-type": "multipart/form-data; boundary=b", "x-csrf-token": browser.token}
    assert (await browser.request("POST", "/room/make", body, headers)).status == 400
    assert made == []
