"""Connections with TLS, on trio and on a blocking socket: data, and each way to fail."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trio

import pyrmq.net.client.blocking_socket
import pyrmq.net.client.connecting
from pyrmq.errors import ConfigError, ConnectError
from pyrmq.net.address import parse_address
from pyrmq.net.client.blocking_channel import BlockingChannel, BlockingChannels
from pyrmq.net.client.channel import Channels
from pyrmq.net.client.tls import Tls
from tests.support.certificates import Authority
from tests.support.scripted.script import HANG_UP, Script
from tests.support.scripted.sockets import SocketServer
from tests.support.wire import Command

HOST = "127.0.0.1"
Ask = Callable[[str, Tls | None, bytes], Awaitable[bytes]]


class Echo(Script):
    def usual(self, command: Command) -> Command:
        return command.reply(0, {}, command.body)


async def on_trio(where: str, tls: Tls | None, body: bytes) -> bytes:
    async with Channels(tls=tls) as channels:
        channel = await channels.get(parse_address(where))
        return (await channel.call(1, {}, body, timeout=20)).body


async def on_a_blocking_socket(where: str, tls: Tls | None, body: bytes) -> bytes:
    def ask() -> bytes:
        with BlockingChannels(tls=tls) as channels:
            return channels.get(parse_address(where)).call(1, {}, body, timeout=20).body

    return await trio.to_thread.run_sync(ask)


@pytest.fixture(params=[on_trio, on_a_blocking_socket])
def ask(request: pytest.FixtureRequest) -> Ask:
    found: Ask = request.param
    return found


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.mark.parametrize("size", [0, 1, 16 << 10, 3 << 20])
async def test_bodies(ask: Ask, ca: Authority, size: int) -> None:
    body = os.urandom(size)
    with SocketServer(Echo(), ca.issue(HOST).serving()).serving() as where:
        assert await ask(where, Tls(ca=ca.file), body) == body


async def test_many_callers_share_one(ca: Authority) -> None:
    bodies = [bytes([n]) * (n * 4000) for n in range(40)]
    got: dict[int, bytes] = {}
    server = SocketServer(Echo(), ca.issue(HOST).serving())
    with server.serving() as where:
        async with Channels(tls=Tls(ca=ca.file)) as channels:
            channel = await channels.get(parse_address(where))

            async def call(n: int) -> None:
                got[n] = (await channel.call(1, {}, bodies[n], timeout=20)).body

            async with trio.open_nursery() as nursery:
                for n in range(len(bodies)):
                    nursery.start_soon(call, n)
    assert got == dict(enumerate(bodies))
    assert len(server.serves) == 1


def test_answers_that_were_not_asked_for_together(ca: Authority) -> None:
    """What TLS holds already is found without a poll of the socket."""
    with SocketServer(Echo(), ca.issue(HOST).serving()).serving() as where:
        channel = BlockingChannel(parse_address(where), tls=Tls(ca=ca.file))
        requests = [channel.submit(1, {}, b"%d" % n * 1000) for n in range(100)]
        for n in (99, *range(99)):
            assert channel.wait(requests[n], 20).body == b"%d" % n * 1000
        channel.close()


async def test_a_client_with_a_certificate(ask: Ask, ca: Authority) -> None:
    own = ca.issue("client")
    with SocketServer(Echo(), ca.issue(HOST).serving(clients=ca)).serving() as where:
        tls = Tls(ca=ca.file, cert=own.cert, key=own.key)
        assert await ask(where, tls, b"x") == b"x"


async def test_a_name_instead_of_the_address(ask: Ask, ca: Authority) -> None:
    with SocketServer(Echo(), ca.issue("broker.example").serving()).serving() as where:
        assert await ask(where, Tls(ca=ca.file, server_hostname="broker.example"), b"x") == b"x"
        assert await ask(where, Tls(ca=ca.file, check_hostname=False), b"x") == b"x"
        assert await ask(where, Tls(insecure=True), b"x") == b"x"


async def test_the_certificate_itself_is_trusted(ask: Ask, ca: Authority) -> None:
    own = ca.issue(HOST)
    with SocketServer(Echo(), own.serving()).serving() as where:
        assert await ask(where, Tls(ca=own.cert), b"x") == b"x"


@pytest.mark.parametrize(
    ("names", "days", "tls", "text"),
    [
        (("other.example",), 30, {}, f"is not for {HOST}: give the name that it has (server_h"),
        ((HOST,), 30, {"server_hostname": "b.example"}, "is not for b.example: "),
        (
            (HOST,),
            -1,
            {},
            "certificate has expired, or one that signed it: who runs the server must",
        ),
        ((HOST,), 30, {"ca": "stranger"}, "give its authority's certificate (ca=, --tls-ca, "),
        ((HOST,), 30, {"ca": None}, "not signed by an authority that is trusted"),
    ],
)
async def test_a_server_that_cannot_be_trusted(
    ask: Ask,
    ca: Authority,
    tmp_path: Path,
    names: tuple[str, ...],
    days: float,
    tls: dict[str, str | None],
    text: str,
) -> None:
    files = {"stranger": Authority(tmp_path, "stranger").file, None: None}
    trusted = files[tls["ca"]] if "ca" in tls else ca.file
    echo = Echo()
    server = SocketServer(echo, ca.issue(*names, days=days).serving())
    with server.serving() as where, pytest.raises(ConnectError) as caught:
        await ask(where, Tls(ca=trusted, server_hostname=tls.get("server_hostname")), b"x")
    assert str(caught.value).startswith(f"cannot connect to {where}: the server's certificate ")
    assert text in str(caught.value)
    assert not echo.asked


async def test_a_client_without_a_certificate(ask: Ask, ca: Authority) -> None:
    server = SocketServer(Echo(), ca.issue(HOST).serving(clients=ca))
    with server.serving() as where, pytest.raises(ConnectError, match="client's certificate"):
        await ask(where, Tls(ca=ca.file), b"x")


async def test_a_client_with_a_certificate_of_others(
    ask: Ask, ca: Authority, tmp_path: Path
) -> None:
    own = Authority(tmp_path, "stranger").issue("client")
    for most in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        secure = ca.issue(HOST).serving(clients=ca)
        secure.maximum_version = most
        with SocketServer(Echo(), secure).serving() as where:
            tls = Tls(ca=ca.file, cert=own.cert, key=own.key)
            with pytest.raises(
                ConnectError, match=r"refuse[sd] the client's certificate"
            ) as caught:
                await ask(where, tls, b"x")
            assert str(caught.value).count("refuse") == 1


@contextlib.contextmanager
def raw(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server of bytes; "host:port"."""

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    serve(connection)

    with socket.create_server((HOST, 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"{HOST}:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


async def test_only_versions_that_are_old(ask: Ask, ca: Authority) -> None:
    def refuse(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(bytes.fromhex("15030100020246"))  # alert: protocol version

    with raw(refuse) as where, pytest.raises(ConnectError, match=r"speaks no TLS 1\.2 or newer"):
        await ask(where, Tls(ca=ca.file), b"x")


async def test_a_server_that_speaks_no_tls(ask: Ask, ca: Authority) -> None:
    """It may answer in its own way, or see the length of a frame that is too long."""

    def answer(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"\0\0\0\x10\0\0\0\x0c{}          ")

    with raw(answer) as where, pytest.raises(ConnectError, match="speaks no TLS on this port"):
        await ask(where, Tls(ca=ca.file), b"x")
    ended = pytest.raises(ConnectError, match=r"it may not accept TLS|reset by peer")
    with raw(lambda connection: connection.recv(1) and None) as where, ended:
        await ask(where, Tls(ca=ca.file), b"x")


async def test_a_plain_client_of_a_server_that_wants_tls(ask: Ask, ca: Authority) -> None:
    server = SocketServer(Echo(), ca.issue(HOST).serving())
    with server.serving() as where, pytest.raises(ConnectError, match=r"TLS"):
        await ask(where, None, b"x")
    # RocketMQ closes without a word.
    ended = pytest.raises(ConnectError, match="before it answered anything; a server that acc")
    with raw(lambda connection: connection.recv(1000) and None) as where, ended:
        await ask(where, None, b"x")


async def test_an_alert_is_no_frame(ask: Ask) -> None:
    def alert(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(bytes.fromhex("15030300020246"))

    with raw(alert) as where, pytest.raises(ConnectError, match="it speaks TLS on this port"):
        await ask(where, None, b"x")


async def test_a_server_that_hangs_up_later_says_nothing_of_tls(ask: Ask) -> None:
    echo = Echo()
    echo.change[2] = lambda c: HANG_UP
    with SocketServer(echo).serving() as where:
        async with Channels() as channels:
            channel = await channels.get(parse_address(where))
            await channel.call(1)
            with pytest.raises(ConnectError) as caught:
                await channel.call(2)
    assert "TLS" not in str(caught.value)


async def test_a_handshake_that_is_not_answered(
    ask: Ask, ca: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (pyrmq.net.client.connecting, pyrmq.net.client.blocking_socket):
        monkeypatch.setattr(module, "CONNECT_TIMEOUT", 0.05)
    with socket.create_server((HOST, 0)) as listener:
        where = f"{HOST}:{listener.getsockname()[1]}"
        with pytest.raises(ConnectError, match=r"the TLS handshake was not answered in 0\.05 s"):
            await ask(where, Tls(ca=ca.file), b"x")


async def test_a_handshake_that_breaks_off(ask: Ask, ca: Authority) -> None:
    """Half a record, then the end."""

    def begin(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(bytes.fromhex("160303007a02"))

    with raw(begin) as where, pytest.raises(ConnectError, match="during the TLS handshake"):
        await ask(where, Tls(ca=ca.file), b"x")


async def test_a_reset_may_hide_that_a_certificate_was_refused(ask: Ask, ca: Authority) -> None:
    """In TLS 1.3 the client sends before it is refused; what was not read resets the connection."""

    def refuse(connection: socket.socket) -> None:
        with secure.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)
            secured.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    secure = ca.issue(HOST).serving()
    with raw(refuse) as where, pytest.raises(ConnectError) as caught:
        await ask(where, Tls(ca=ca.file), b"x")
    text = "before it answered anything; a server that refuses the client's certificate, or wants"
    assert text in str(caught.value)
    assert "handshake" not in str(caught.value)


async def test_an_end_without_a_word_is_an_end(ca: Authority) -> None:
    """Nor does leaving hang: the peer gets close_notify, and need not answer it."""
    said = threading.Event()
    ends: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        with secure.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1000)
            if ends:
                ends.append(secured.recv(1000))  # no exception: close_notify came
                said.set()
                return
            ends.append(b"first")
            os.close(secured.detach())

    secure = ca.issue(HOST).serving()
    with raw(serve) as where:
        async with Channels(tls=Tls(ca=ca.file)) as channels:
            address = parse_address(where)
            with pytest.raises(ConnectError, match="hung up"):
                await (await channels.get(address)).call(1)
            await (await channels.get(address)).oneway(1)
        assert await trio.to_thread.run_sync(said.wait, 20)
    assert ends == [b"first", b""]


async def test_changed_files_count_for_new_connections(
    ask: Ask, ca: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(ca.file.read_bytes())
    tls, after = Tls(ca=trusted), Authority(tmp_path, "after")
    server = SocketServer(Echo(), ca.issue(HOST).serving())
    with server.serving() as where:
        assert await ask(where, tls, b"1") == b"1"
        trusted.write_text("half of a fi")
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                assert await ask(where, tls, b"2") == b"2"
        assert caplog.text.count("TLS goes on with the old files: TLS: ca ") >= 2
        trusted.write_bytes(after.file.read_bytes())
        with pytest.raises(ConnectError, match="is trusted"):
            await ask(where, tls, b"3")
        server.secure = after.issue(HOST).serving()
        assert await ask(where, tls, b"4") == b"4"


async def test_a_connection_lives_on_with_changed_files(ca: Authority, tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(ca.file.read_bytes())
    with SocketServer(Echo(), ca.issue(HOST).serving()).serving() as where:
        async with Channels(tls=Tls(ca=trusted)) as channels:
            channel = await channels.get(parse_address(where))
            trusted.write_bytes(Authority(tmp_path, "after").file.read_bytes())
            assert (await channel.call(1, {}, b"x")).body == b"x"


async def test_files_that_are_not_there_are_found_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ca .*gone\.pem cannot be read: No such file"):
        async with Channels(tls=Tls(ca=tmp_path / "gone.pem")):
            pass
    channels = BlockingChannels(tls=Tls(ca=tmp_path / "gone.pem"))
    with pytest.raises(ConnectError, match=r"ca .*gone\.pem cannot be read: No such file"):
        channels.get((HOST, 1))


async def test_a_host_that_can_be_none(ask: Ask, ca: Authority) -> None:
    """Name servers may say anything, and it goes into the handshake."""
    with SocketServer(Echo(), ca.issue(HOST).serving()).serving() as where:
        tls = Tls(ca=ca.file, server_hostname="a" * 300)
        with pytest.raises(ConnectError, match="cannot connect"):
            await ask(where, tls, b"x")
