"""Clients that connect with TLS, to a name server and a broker behind one port."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from pyrmq import (
    ClientError,
    ConfigError,
    ConnectError,
    ConsumeFrom,
    Credentials,
    LitePullConsumer,
    Message,
    MessageQueue,
    Producer,
    Tls,
    aio,
    sync,
)
from pyrmq.admin import Admin
from pyrmq.client.routes import TopicRoutes
from pyrmq.net.client.channel import Channels
from pyrmq.net.client.name_servers import NameServers
from pyrmq.net.client.protocol import LATE, MAY_WANT_TLS
from pyrmq.net.tasks import Tasks
from tests.support.certificates import Authority
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.signatures import is_signed

HOST = "127.0.0.1"


class Server(ScriptedCluster):
    """It knows everything that clients ask."""

    def answers(self) -> Any:
        known = dict.fromkeys((34, 35, 15), lambda c: c.reply(0))
        return super().answers() | known | {14: lambda c: c.reply(22), 361: self._pull}


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(ca: Authority) -> Iterator[Server]:
    """It wants certificates of clients."""
    made = Server({"T": {"a": 1}}, secure=ca.issue(HOST).serving(clients=ca))
    with made.serving():
        yield made


@pytest.fixture
def options(server: Server, ca: Authority) -> dict[str, Any]:
    own = ca.issue("client")
    return {
        "namesrv": server.address,
        "tls": Tls(ca=ca.file, cert=own.cert, key=own.key),
        "credentials": Credentials("me", "my secret"),
    }


def check(server: Server, *codes: int) -> None:
    assert {c.code for c in server.asked} >= set(codes)
    assert all(is_signed(c, "me", "my secret") for c in server.asked)


async def test_sending_and_polling(server: Server, options: dict[str, Any]) -> None:
    with trio.fail_after(30):
        async with Producer("g", trace=True, compress_over=1 << 20, **options) as producer:
            for n in range(3):
                await producer.send(Message("T", b"%d" % n * 50_000))
        async with LitePullConsumer(
            "h", consume_from=ConsumeFrom.FIRST_OFFSET, **options
        ) as consumer:
            await consumer.assign([MessageQueue("T", "a", 0)])
            got: list[bytes] = []
            while len(got) < 3:
                got += [m.body for m in await consumer.poll()]
    assert got == [b"%d" % n * 50_000 for n in range(3)]
    check(server, 105, 310, 34, 35, 361)


async def test_admin(server: Server, options: dict[str, Any]) -> None:
    async with Admin(**options) as admin:
        assert await admin.topics.list() == ["T"]
        await admin.messages.send(Message("T", b"x"))
    check(server, 206, 310)


def test_in_plain_code(server: Server, options: dict[str, Any]) -> None:
    with sync.Producer("g", **options) as producer:
        producer.send(Message("T", b"x"))
    with sync.Admin(**options) as admin:
        assert admin.topics.list() == ["T"]
    check(server, 105, 310, 206)


def test_with_asyncio(server: Server, options: dict[str, Any]) -> None:
    import asyncio

    async def main() -> None:
        async with aio.Producer("g", **options) as producer:
            await producer.send(Message("T", b"x"))
        async with aio.Admin(**options) as admin:
            assert await admin.topics.list() == ["T"]

    asyncio.run(main())
    check(server, 105, 310, 206)


async def test_a_producer_says_why_it_cannot_send(ca: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger")
    server = Server({"T": {"a": 1}}, secure=stranger.issue(HOST).serving())
    with server.serving() as where:
        async with Producer("g", namesrv=where, tls=Tls(ca=ca.file)) as producer:
            with pytest.raises(ConnectError, match="not signed by an authority that is trusted"):
                await producer.send(Message("T", b"x"))
    assert not server.asked


async def test_files_are_read_when_a_client_opens(tmp_path: Path) -> None:
    gone = Tls(ca=tmp_path / "gone.pem")
    producer = Producer("g", namesrv=f"{HOST}:1", tls=gone)
    with pytest.raises(ConfigError, match="cannot be read"):
        async with producer:
            pass
    plain = sync.Producer("g", namesrv=f"{HOST}:1", tls=gone)
    with pytest.raises(ConfigError, match="cannot be read"), plain:
        pass


async def test_files_are_read_off_the_loop(
    server: Server, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()
    made = Path.open

    def opened(path: Path, *args: Any, **rest: Any) -> Any:
        threads.add(threading.get_ident())
        return made(path, *args, **rest)

    monkeypatch.setattr(Path, "open", opened)
    async with Producer("g", **options) as producer:
        await producer.send(Message("T", b"x"))
    assert threads
    assert threading.get_ident() not in threads


def test_what_is_no_tls() -> None:
    for kind in (Producer, sync.Producer, aio.Producer):
        with pytest.raises(ClientError, match=r"tls is of the type bool; a pyrmq\.Tls or None"):
            kind("g", namesrv=f"{HOST}:1", tls=True)  # type: ignore[call-arg,arg-type]


def test_whoever_speaks_tls_wrong_is_not_sent_to_another_name_server() -> None:
    """A server is there: the text says what to do about TLS, and nothing else."""
    routes = TopicRoutes(NameServers([("a", 9876)], timeout=1), Channels(), Tasks())
    assert routes.no_answer(ConnectError(f"it hung up; {MAY_WANT_TLS}")) == ""
    assert routes.no_answer(ConnectError("the server's certificate has expired")) == ""
    elsewhere = routes.no_answer(ConnectError("cannot connect to a:9876: Connection refused"))
    assert "a:9876; does one run there?" in elsewhere
    assert LATE not in elsewhere
    signing = Channels(credentials=Credentials("user", "password"))
    assert LATE in TopicRoutes(NameServers([], timeout=1), signing, Tasks()).no_answer()
