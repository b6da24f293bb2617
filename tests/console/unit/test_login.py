"""The login by a password file: guesses, sessions that are stolen, set by others or too old."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio.testing

from pyrmq.auth.failures import Failures
from pyrmq.console import app as console_app_module
from pyrmq.console import password_file
from pyrmq.console.app import console_app
from pyrmq.console.broker_login import NotLoggedInError
from pyrmq.console.gate import local_path
from pyrmq.console.login import MAX_OF_ONE
from pyrmq.console.password_file import User, hashed, read, write
from pyrmq.console.sessions import IDLE, LONGEST, MAX_OF_USER, MAX_SESSIONS, Session, Sessions
from pyrmq.console.settings import LoginKind, Role, Settings
from tests.console.asgi import Answer, Client, client
from tests.console.rooms import ROOMS, made

COOKIE = "pyrmq-console-8090"
PASSWORDS = {"ann": "correct horse", "rob": "battery staple"}


@pytest.fixture
def users(cheap: None) -> list[User]:
    roles = {"ann": Role.ADMIN, "rob": Role.READ_ONLY}
    return [User(name, roles[name], hashed(word)) for name, word in PASSWORDS.items()]


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of a password costs nothing here."""
    monkeypatch.setattr(password_file, "COST", 2)


@pytest.fixture
def file(tmp_path: Path, users: list[User]) -> Path:
    path = tmp_path / "passwords"
    write(path, users)
    return path


@pytest.fixture
async def browser(file: Path, mock_clock: trio.testing.MockClock) -> AsyncIterator[Client]:
    made.clear()
    settings = Settings("127.0.0.1:9876", login=LoginKind.FILE, password_file=file)
    async with client(console_app(settings, ROOMS)) as one:
        yield one


async def log_in(
    browser: Client, user: str = "ann", password: str | None = None, to: str = "/room"
) -> Answer:
    """Fills in the form and sends it."""
    form = (await browser.get(f"/login?next={to}")).text
    token = form.split('name="_csrf" value="')[1].split('"')[0]
    word = PASSWORDS[user] if password is None else password
    return await browser.post(
        "/login", {"user": user, "password": word, "next": to, "_csrf": token}
    )


async def test_nothing_is_shown_before_the_login(browser: Client) -> None:
    answer = await browser.get("/room?text=a%26b")
    assert answer.status == 303
    assert answer.headers["location"] == "/login?next=%2Froom%3Ftext%3Da%2526b"
    odd = await browser.get("/groups/%25a%2Fb%3F?q=%25")
    assert odd.headers["location"] == "/login?next=%2Fgroups%2F%2525a%2Fb%253F%3Fq%3D%2525"
    form = await browser.get(answer.headers["location"])
    assert form.status == 200
    assert "9876" not in form.text
    assert "Room" not in form.text
    assert (await browser.post("/room/make", {"name": "a"})).headers["location"] == "/login"
    assert (await browser.get("/health")).status == 200
    assert (await browser.get("/healthier")).status == 303
    assert made == []


async def test_in_and_out(browser: Client) -> None:
    answer = await log_in(browser)
    assert (answer.status, answer.headers["location"]) == (303, "/room")
    assert (await browser.get("/room")).status == 200
    assert (await browser.post("/room/make", {"name": "a"})).status == 303
    assert made == ["a"]
    kept = dict(browser.cookies)
    assert (await browser.post("/logout", {"_csrf": "no"})).headers["location"] == "/"
    assert (await browser.get("/room")).status == 200
    assert (await browser.post("/logout")).headers["location"] == "/login"
    assert COOKIE not in browser.cookies
    browser.cookies = kept
    assert (await browser.get("/room")).status == 303


async def test_the_cookie_is_for_this_console_only(browser: Client) -> None:
    answer = await log_in(browser)
    cookie = next(c for c in answer.headers.getlist("set-cookie") if c.startswith(f"{COOKIE}="))
    attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= attributes
    assert "domain" not in cookie.lower()


async def test_under_tls_the_cookie_is_secure(file: Path) -> None:
    settings = Settings(
        "127.0.0.1:9876", login=LoginKind.FILE, password_file=file, url="https://127.0.0.1:8090"
    )
    async with client(console_app(settings, ROOMS), scheme="https") as one:
        answer = await log_in(one)
        cookie = answer.headers.getlist("set-cookie")[0]
        assert cookie.startswith(f"__Host-{COOKIE}=")
        assert "; Secure" in cookie


async def test_a_session_that_was_put_into_the_browser_is_of_no_use(browser: Client) -> None:
    browser.cookies[COOKIE] = "known-to-others"
    await log_in(browser)
    assert browser.cookies[COOKIE] != "known-to-others"
    first = browser.cookies[COOKIE]
    browser.cookies = {COOKIE: "known-to-others"}
    assert (await browser.get("/room")).status == 303
    browser.cookies = {COOKIE: first}
    token = (await browser.get("/room")).token
    # A second login of the same browser: the first session has ended, and its token with it.
    other = Client(browser.app)
    await log_in(other)
    assert (await other.get("/room")).token != token


async def test_a_login_ends_the_session_before(browser: Client) -> None:
    await log_in(browser)
    first = browser.cookies[COOKIE]
    fresh = Client(browser.app)
    form = (await fresh.get("/login")).text
    token = form.split('name="_csrf" value="')[1].split('"')[0]
    browser.cookies |= fresh.cookies
    fields = {"user": "rob", "password": PASSWORDS["rob"], "_csrf": token}
    assert (await browser.post("/login", fields)).status == 303
    assert browser.cookies[COOKIE] != first
    browser.cookies = {COOKIE: first}
    assert (await browser.get("/room")).status == 303


@pytest.mark.parametrize(
    ("user", "password"),
    [("ann", "wrong password"), ("nobody", "correct horse"), ("", ""), ("ann", "x" * 5000)],
)
async def test_wrong_ones_look_all_the_same(browser: Client, user: str, password: str) -> None:
    answer = await log_in(browser, user, password)
    assert answer.status == 403
    assert "User or password is wrong." in answer.text
    assert COOKIE not in browser.cookies
    assert "x" * 100 not in answer.text


async def test_the_login_is_no_form_of_another_site(browser: Client) -> None:
    form = {"user": "ann", "password": PASSWORDS["ann"], "_csrf": ""}
    assert (await browser.post("/login", form)).status == 403
    token = (await browser.get("/login")).text.split('name="_csrf" value="')[1].split('"')[0]
    stolen = Client(browser.app)  # the attacker's form in the browser of another
    assert (await stolen.post("/login", form | {"_csrf": token})).status == 403
    elsewhere = {"origin": "https://elsewhere.example"}
    assert (await browser.post("/login", form | {"_csrf": token}, elsewhere)).status == 403
    assert COOKIE not in browser.cookies


async def test_guesses_are_slowed(browser: Client, mock_clock: trio.testing.MockClock) -> None:
    mock_clock.autojump_threshold = 0
    statuses = [(await log_in(browser, "ann", "wrong password")).status for _ in range(12)]
    assert statuses[:6] == [403] * 6
    assert 429 in statuses
    answer = await log_in(browser, "ann", "wrong password")
    while answer.status != 429:
        answer = await log_in(browser, "ann", "wrong password")
    assert int(answer.headers["retry-after"]) >= 1
    assert (await log_in(browser)).status == 429  # the right password as well
    assert (await log_in(browser, "rob")).status == 303  # other users are not slowed
    browser.cookies.clear()
    await trio.sleep(30)
    assert (await log_in(browser)).status == 303


async def test_guesses_at_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many at a time are no way around the delay, and do not keep others out."""
    judged = trio.Event()

    async def check(name: str, password: str) -> Session:
        if name != "ann":
            await judged.wait()
            raise NotLoggedInError("wrong")
        return Session(name, Role.ADMIN, proof=read(file)["ann"].hash)

    monkeypatch.setattr(console_app_module, "by_file", lambda users: check)
    settings = Settings("127.0.0.1:9876", login=LoginKind.FILE, password_file=file)
    statuses: list[int] = []

    async def guess(user: str) -> None:
        one = Client(browser.app, peer=("10.0.0.1", 1))
        statuses.append((await log_in(one, user, "wrong password")).status)

    async with client(console_app(settings, ROOMS)) as browser:
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(guess, "rob")
            for i in range(MAX_OF_ONE + 1):
                nursery.start_soon(guess, f"user-{i}")
            await trio.testing.wait_all_tasks_blocked()
            assert statuses == [503] * 5  # three of the same user, two of the same address
            assert (await log_in(browser)).status == 303
            judged.set()
        assert statuses[5:] == [403] * MAX_OF_ONE


@pytest.mark.parametrize(
    ("addresses", "counted"),
    [
        (["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::3"], {"2001:db8::"}),
        (["2001:db8:0:1::1", "2001:db8:0:2::1"], {"2001:db8:0:1::", "2001:db8:0:2::"}),
        (["::ffff:10.0.0.1", "10.0.0.1"], {"10.0.0.1"}),
    ],
)
async def test_guesses_are_counted_by_what_a_peer_cannot_choose(
    browser: Client, monkeypatch: pytest.MonkeyPatch, addresses: list[str], counted: set[str]
) -> None:
    """Of an IPv6 address its owner chooses the last 64 bits."""
    found: set[str] = set()
    monkeypatch.setattr(Failures, "failed", lambda self, peer, name: found.add(peer) or 0.0)
    for address in addresses:
        one = Client(browser.app, peer=(address, 50_000))
        assert (await log_in(one, "ann", "wrong password")).status == 403
    assert found == counted


async def test_a_session_ends(browser: Client, mock_clock: trio.testing.MockClock) -> None:
    await log_in(browser)
    mock_clock.jump(IDLE - 1)
    assert (await browser.get("/room")).status == 200
    mock_clock.jump(IDLE - 1)
    assert (await browser.get("/room")).status == 200
    mock_clock.jump(IDLE + 1)
    assert (await browser.get("/room")).status == 303
    await log_in(browser)
    for _ in range(int(LONGEST / (IDLE - 1))):
        mock_clock.jump(IDLE - 1)
        assert (await browser.get("/room")).status == 200
    mock_clock.jump(IDLE - 1)
    assert (await browser.get("/room")).status == 303


async def test_a_page_that_is_left_open_goes_to_the_login(
    browser: Client, mock_clock: trio.testing.MockClock
) -> None:
    """What it asks for by itself does not keep the session, and does not show the login in it."""
    await log_in(browser)
    browser.htmx = True
    asks = {
        "x-by-itself": "1",
        "hx-current-url": "http://127.0.0.1:8090/room?text=a",
        "x-csrf-token": browser.token,
    }
    for _ in range(3):
        mock_clock.jump(IDLE / 4)
        assert (await browser.get("/room", asks)).status == 200
    mock_clock.jump(IDLE / 2)
    answer = await browser.get("/room", asks)
    assert answer.status == 401
    assert answer.headers["hx-redirect"] == "/login?next=%2Froom%3Ftext%3Da"
    assert "password" not in answer.text


@pytest.mark.parametrize("url", ["", "http://[", "https://elsewhere.example//x", "/\\x"])
async def test_a_page_of_nowhere_goes_to_the_login(browser: Client, url: str) -> None:
    browser.htmx = True
    answer = await browser.get("/room", {"hx-current-url": url})
    assert (answer.status, answer.headers["hx-redirect"]) == (401, "/login")


async def test_another_tab_gets_the_new_token(browser: Client) -> None:
    await log_in(browser)
    await browser.get("/room")
    old = browser.token
    browser.cookies.clear()
    await log_in(browser)
    browser.htmx = True
    answer = await browser.get("/room", {"x-csrf-token": old})
    new = answer.headers["x-csrf-token"]
    assert new != old
    assert (await browser.post("/room/make", {"name": "a", "_csrf": old})).status == 403
    assert (await browser.post("/room/make", {"name": "a", "_csrf": new})).status == 204
    answer = await browser.get("/room", {"x-csrf-token": new})
    assert "x-csrf-token" not in answer.headers


async def test_a_reader_changes_nothing(browser: Client) -> None:
    await log_in(browser, "rob")
    await browser.get("/room")
    answer = await browser.post("/room/make", {"name": "a"})
    assert answer.status == 403
    assert "may only read" in answer.text
    assert made == []


async def test_a_user_who_is_taken_out_is_out(
    browser: Client, file: Path, users: list[User]
) -> None:
    await log_in(browser)
    assert (await browser.get("/room")).status == 200
    write(file, users[1:])
    assert (await browser.get("/room")).status == 303


async def test_a_new_role_counts_at_once(browser: Client, file: Path, users: list[User]) -> None:
    await log_in(browser)
    await browser.get("/room")
    write(file, [User("ann", Role.READ_ONLY, users[0].hash)])
    assert (await browser.post("/room/make", {"name": "a"})).status == 403
    assert made == []


async def test_a_file_that_is_gone_or_broken(browser: Client, file: Path) -> None:
    await log_in(browser)
    await trio.Path(file).write_text("nonsense")
    assert (await browser.get("/room")).status == 200  # as before, until it is mended
    await trio.Path(file).unlink()
    assert (await browser.get("/room")).status == 303


@pytest.mark.parametrize(
    "to",
    [
        "https://elsewhere.example/",
        "//elsewhere.example/",
        "/\\elsewhere.example",
        "\\\\elsewhere.example",
        "/\t/elsewhere.example",
        "javascript:alert(1)",
        "/ü",
        "/login",
        "/logout",
        "",
        "room",
        "/" + "x" * 5000,
    ],
)
async def test_the_login_leads_nowhere_else(browser: Client, to: str) -> None:
    assert local_path(to) == "/"
    assert (await log_in(browser, to="/room")).status == 303
    form = {"user": "ann", "password": PASSWORDS["ann"], "next": to, "_csrf": ""}
    browser.cookies.clear()
    page = (await browser.get("/login")).text
    form["_csrf"] = page.split('name="_csrf" value="')[1].split('"')[0]
    assert (await browser.post("/login", form)).headers["location"] == "/"


async def test_a_user_ends_no_sessions_of_others_by_logging_in() -> None:
    sessions = Sessions()
    admin = sessions.begin(Session("ann", Role.ADMIN))
    own = [sessions.begin(Session("rob", Role.READ_ONLY)) for _ in range(MAX_SESSIONS + 1)]
    assert sessions.find(admin) is not None
    assert len(sessions) == 1 + MAX_OF_USER
    assert sessions.find(own[-1]) is not None
    assert sessions.find(own[-1 - MAX_OF_USER]) is None


async def test_sessions_are_bounded(mock_clock: trio.testing.MockClock) -> None:
    ended: list[int] = []
    sessions = Sessions(lambda: ended.append(1))
    names = [sessions.begin(Session(f"u{n}", Role.ADMIN)) for n in range(MAX_SESSIONS)]
    assert sessions.find(names[0]) is not None
    sessions.begin(Session("u", Role.ADMIN))
    assert len(sessions) == MAX_SESSIONS
    assert sessions.find(names[0]) is not None  # used just now
    assert sessions.find(names[1]) is None
    mock_clock.jump(LONGEST + 1)
    sessions.begin(Session("u", Role.ADMIN))
    assert len(sessions) == 1
