"""The console with login by the brokers' users, on a real broker; and while there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pyrmq.admin import Admin
from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.console.app import console_app
from pyrmq.console.changes import change, done
from pyrmq.console.link import admin_of
from pyrmq.console.pages import Rooms
from pyrmq.console.room import Room
from pyrmq.console.settings import LoginKind, Settings
from pyrmq.model.codes import RequestCode
from pyrmq.model.topic import TopicConfig
from pyrmq.net.client.credentials import Credentials
from tests.auth.e2e.test_access_requests import ON, ROOT, broker_of
from tests.console.asgi import Answer, Client, client
from tests.support.fixtures import Serve
from tests.support.server import ServerProcess

pytestmark = pytest.mark.usefixtures("deadline")
ALICE = Credentials("alice", "secret-of-alice")
RIGHTS = Acl("User:alice", (Entry("Cluster:*", ("Get", "List")),))


async def topics(request: Request) -> Response:
    admin = await admin_of(request)
    return PlainTextResponse("\n".join(sorted(await admin.link.topics())))


async def topic(request: Request) -> Response:
    admin = await admin_of(request)
    (broker, *_) = await admin.link.masters(default_all=True)
    found = await admin.link.ask(
        broker.address, RequestCode.GET_TOPIC_CONFIG, {"topic": "made-here", "lo": True}
    )
    return PlainTextResponse(found.body)


@change("topic.create")
async def create(request: Request) -> Response:
    admin = await admin_of(request)
    (broker, *_) = await admin.link.masters(default_all=True)
    made = await admin.topics.update(TopicConfig("made-here"), broker=broker.address)
    made.check_all()
    return done(request, "made", to="/topics")


ROOMS = Rooms(
    (Room("topics", "Topics", "/topics", 1),),
    (
        Route("/topics", topics),
        Route("/topic", topic),
        Route("/topics/create", create, methods=["POST"]),
    ),
)


async def log_in(browser: Client, user: Credentials) -> Answer:
    form = (await browser.get("/login")).text
    token = form.split('name="_csrf" value="')[1].split('"')[0]
    words = {"user": user.access_key, "password": user.secret_key, "_csrf": token}
    return await browser.post("/login", words)


async def test_the_broker_decides(serve: Serve, tmp_path: Path) -> None:
    async with serve(tmp_path, **ON) as running, Admin(running.namesrv, credentials=ROOT) as root:
        await root.users.create(User("alice", ALICE.secret_key), broker=broker_of(running))
        await root.acls.create(RIGHTS, broker=broker_of(running))
        app = console_app(Settings(running.namesrv, login=LoginKind.BROKER), ROOMS)
        async with client(app) as browser:
            assert (await log_in(browser, Credentials("alice", "guess"))).status == 403
            assert (await log_in(browser, Credentials("mallory", "guess"))).status == 403
            assert (await browser.get("/topics")).status == 303
            assert (await log_in(browser, ROOT)).status == 303
            browser.token = await token_of(browser)
            assert (await browser.post("/topics/create")).status == 303
            assert "made-here" in (await browser.get("/topics")).text

            # Another user has another link: what it may do is what the broker lets it do.
            other = Client(app)
            assert (await log_in(other, ALICE)).status == 303
            other.token = await token_of(other)
            answer = await other.post("/topics/create")
            assert answer.status == 422
            assert "no right" in answer.text
            assert "made-here" in (await other.get("/topics")).text
            refused = await other.get("/topic")
            assert refused.status == 403
            assert "no right to Get on Topic:made-here" in refused.text
            assert "every 5" not in refused.text  # it does not ask again

            # A password that is changed ends the session of the old one.
            changed = User("alice", "another-secret")
            await root.users.update(changed, broker=broker_of(running))
            answer = await other.get("/topics")
            assert (answer.status, answer.headers["location"]) == (303, "/login?next=%2Ftopics")
            assert (await other.get("/nothing")).status == 303
            assert (await browser.get("/topics")).status == 200


async def token_of(browser: Client) -> str:
    """By a page that is not there: all pages have it."""
    return (await browser.get("/nothing")).token


async def test_a_broker_that_checks_nobody_logs_nobody_in(serve: Serve) -> None:
    async with serve() as running:
        app = console_app(Settings(running.namesrv, login=LoginKind.BROKER), ROOMS)
        async with client(app) as browser:
            answer = await log_in(browser, ROOT)
            assert answer.status == 502
            assert "checks no signatures" in answer.text
            assert (await browser.get("/topics")).status == 303


async def test_the_cluster_goes_and_comes_back(tmp_path: Path) -> None:
    """The page of a console whose cluster is away asks again by itself, and gets its answer."""
    server = ServerProcess(tmp_path / "store")
    with server:
        settings = Settings(f"{server.namesrv[0]}:{server.namesrv[1]}", timeout=5.0)
        async with client(console_app(settings, ROOMS)) as browser:
            assert (await browser.get("/topics")).status == 200
            for _ in range(2):
                await trio.to_thread.run_sync(server.kill)
                answer = await browser.get("/topics")
                assert answer.status == 502
                assert 'hx-get="/topics" hx-trigger="every' in answer.text
                assert (await browser.get("/nothing")).status == 404
                await trio.to_thread.run_sync(server.restart)
                assert (await browser.get("/topics")).status == 200
