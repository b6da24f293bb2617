"""TLS of a server on real sockets: who may connect how, strangers' bytes, limits of time."""

from __future__ import annotations

import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing

from pyrmq.config.tls import TlsServerSettings
from pyrmq.engine import Command, Listener
from pyrmq.errors import ConfigError
from pyrmq.model.codes import RequestCode
from pyrmq.net.command import Response, encode_request
from pyrmq.net.server import server as server_module
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.listen import open_listeners
from pyrmq.net.server.server import RemotingServer
from pyrmq.net.server.tls import LOOK_EVERY, ServerTls
from tests.support.certificates import Authority, Identity
from tests.support.client import Client, Closed
from tests.support.waiting import eventually_trio
from tests.support.wire import Command as Request

ECHO = RequestCode.REGISTER_BROKER  # its body may be as long as a frame
LARGE = RequestCode.GET_KV_CONFIG
LARGE_BODY = bytes(range(256)) * 4096
PLAIN_HELLO = encode_request(ECHO, 1)
CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303")
T = TypeVar("T")


async def echo(connection: Connection, command: Command) -> Response:
    return Response(body=command.body)


def large(connection: Connection, command: Command) -> Response:
    return Response(body=LARGE_BODY)


@asynccontextmanager
async def serving(
    settings: TlsServerSettings, tls: ServerTls | None = None
) -> AsyncIterator[RemotingServer]:
    tls = tls or ServerTls("test", settings)
    listener = Listener(None, tls=tls.context)
    sockets = open_listeners("127.0.0.1", 0)
    server = RemotingServer("test", sockets, {ECHO: echo, LARGE: large}, listener, tls=tls)
    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            yield server
            nursery.cancel_scope.cancel()


async def blocking(work: Callable[..., T], *args: object) -> T:
    return await trio.to_thread.run_sync(work, *args)


def trusting(authority: Authority | None = None, shows: Identity | None = None) -> ssl.SSLContext:
    """A client; without an authority it verifies nothing. `shows`: its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authority is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(authority.file)
    if shows is not None:
        context.load_cert_chain(shows.cert, shows.key)
    return context


def said(server: RemotingServer, tls: ssl.SSLContext | None, body: bytes = b"body") -> bytes:
    """What an echo brings back."""
    with Client(server.address, tls=tls) as client:
        return client.request(Request(ECHO, {}, body)).body


def is_refused(server: RemotingServer, tls: ssl.SSLContext | None) -> bool:
    try:
        said(server, tls)
    except (Closed, ssl.SSLError, ConnectionError):
        return True
    return False


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def files(authority: Authority, **changes: object) -> TlsServerSettings:
    identity = authority.issue("127.0.0.1")
    settings = {"key_path": str(identity.key), "cert_path": str(identity.cert), **changes}
    return TlsServerSettings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "takes_tls", "takes_plain"),
    [("disabled", False, True), ("permissive", True, True), ("enforcing", True, False)],
)
async def test_the_mode_says_how_connections_may_begin(
    authority: Authority, mode: str, takes_tls: bool, takes_plain: bool
) -> None:
    async with serving(files(authority, mode=mode)) as server:
        assert await blocking(is_refused, server, trusting(authority)) is not takes_tls
        assert await blocking(is_refused, server, None) is not takes_plain
        await eventually_trio(lambda: not server.connections, "all are closed")


async def test_by_default_a_certificate_is_made() -> None:
    async with serving(TlsServerSettings()) as server:
        assert await blocking(said, server, trusting()) == b"body"
        assert await blocking(said, server, None) == b"body"


async def test_without_a_certificate_plain_connections_are_served_only() -> None:
    async with serving(TlsServerSettings(test_mode=False)) as server:
        assert await blocking(is_refused, server, trusting())
        assert await blocking(said, server, None) == b"body"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_versions_carry_large_bodies(
    authority: Authority, version: ssl.TLSVersion
) -> None:
    context = trusting(authority)
    context.minimum_version = context.maximum_version = version
    body = bytes(range(256)) * (16 << 10)
    async with serving(files(authority)) as server:
        assert await blocking(said, server, context, body) == body


async def test_certificates_of_clients(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger")
    known = trusting(authority, authority.issue("client"))
    unknown = trusting(authority, stranger.issue("client"))
    none = trusting(authority)
    trust = {"auth_client": True, "trust_cert_path": str(authority.file)}
    for need in ("optional", "require"):
        async with serving(files(authority, need_client_auth=need, **trust)) as server:
            assert await blocking(said, server, known) == b"body"
            assert await blocking(is_refused, server, unknown)
            assert await blocking(is_refused, server, none) is (need == "require")
        async with serving(files(authority, need_client_auth=need)) as server:
            assert await blocking(said, server, unknown) == b"body", "they are not verified"
            assert await blocking(is_refused, server, none) is (need == "require")


async def test_garbage_behind_a_hello_costs_its_own_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def garbage(server: RemotingServer) -> bytes:
        with socket.create_connection(server.address) as peer:
            peer.sendall(CLIENT_HELLO + b"\x1b[31m" * 100)
            return peer.recv(100)

    async with serving(TlsServerSettings()) as server:
        with await blocking(lambda: Client(server.address, tls=trusting())) as client:
            for _ in range(20):
                assert (await blocking(garbage, server))[:1] == b"\x15", "an alert"
            answer = await blocking(client.request, Request(ECHO, {}, b"still there"))
            assert answer.body == b"still there"
        await eventually_trio(lambda: not server.connections, "all are closed")
    lines = [line for line in caplog.messages if "TLS: " in line]
    assert 1 <= len(lines) < 10, "at most one a second"
    assert "\x1b" not in caplog.text


async def test_a_record_that_was_changed_ends_the_connection() -> None:
    def spoil(server: RemotingServer) -> bytes:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trusting().wrap_bio(incoming, outgoing)
        with socket.create_connection(server.address) as peer:
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    peer.sendall(outgoing.read())
                    incoming.write(peer.recv(1 << 16))
            tls.write(encode_request(ECHO, 1, body=b"spoiled"))
            records = bytearray(outgoing.read())
            records[-1] ^= 1
            peer.sendall(records)
            found = b""
            while more := peer.recv(1 << 16):
                found += more
            incoming.write(found)
            with pytest.raises(ssl.SSLError, match=r"(?i)bad.record.mac"):
                tls.read(1000)
            return found

    async with serving(TlsServerSettings()) as server:
        assert await blocking(spoil, server)


async def test_the_end_is_told_by_both_sides() -> None:
    def leave(server: RemotingServer) -> None:
        with socket.create_connection(server.address) as plain:
            tls = trusting().wrap_socket(plain)
            tls.sendall(PLAIN_HELLO)
            assert tls.recv(1000)
            tls.unwrap()  # raises if the peer does not say it as well
            tls.close()

    async with serving(TlsServerSettings()) as server:
        await blocking(leave, server)
        await eventually_trio(lambda: not server.connections, "it is closed")


async def test_a_stop_is_told() -> None:
    async with serving(TlsServerSettings()) as server:
        client = await blocking(lambda: Client(server.address, tls=trusting()))
        assert (await blocking(client.request, Request(ECHO, {}, b"body"))).body == b"body"
        await server.drain(5)
    # An end of the stream that was not told would be an SSLEOFError, which is no `Closed`.
    assert await blocking(client.until_closed) == []
    client.close()


async def test_what_a_client_does_not_read_waits(authority: Authority) -> None:
    """Its answers wait, sealed and plain, requests of others go on, and it gets all of them."""
    count = 40

    def slow(server: RemotingServer) -> Client:
        client = Client(server.address, tls=trusting(authority))
        for _ in range(count):
            client.post(Request(LARGE, {}))
        return client

    def rest(client: Client) -> list[int]:
        answers = [client.receive() for _ in range(count)]
        assert {answer.body for answer in answers} == {LARGE_BODY}
        return [answer.opaque for answer in answers]

    async with serving(files(authority)) as server:
        client = await blocking(slow, server)
        with client:
            waiting = lambda: any(c.out for c in server.connections.values())  # noqa: E731
            await eventually_trio(waiting, "answers wait")
            assert await blocking(said, server, trusting(authority)) == b"body"
            assert await blocking(rest, client) == list(range(1, count + 1))
            await eventually_trio(lambda: not waiting(), "all are taken")


async def test_a_handshake_that_does_not_end_is_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """One that has begun is closed soon; a connection that says nothing at all only when it was
    silent for long."""
    async with serving(TlsServerSettings()) as server:
        with ExitStack() as stack:
            begun, silent = (
                stack.enter_context(socket.create_connection(server.address)) for _ in range(2)
            )
            begun.sendall(CLIENT_HELLO)
            autojump_clock.autojump_threshold = 0.05
            await eventually_trio(lambda: len(server.connections) == 2, "both are there")
            await trio.sleep(server_module.HANDSHAKE - 2)
            assert len(server.connections) == 2
            await trio.sleep(5)
            assert len(server.connections) == 1
            begun.settimeout(10)
            assert begun.recv(10) == b""
            silent.setblocking(False)
            with pytest.raises(BlockingIOError):
                silent.recv(10)
            server.idle_seconds = 1
            await trio.sleep(5)
            assert not server.connections


async def test_many_silent_connections_do_not_stop_others() -> None:
    async with serving(TlsServerSettings()) as server:
        with ExitStack() as stack:
            for n in range(500):
                peer = stack.enter_context(socket.create_connection(server.address))
                if n % 2:
                    peer.sendall(CLIENT_HELLO[: 1 + n % 11])
            assert await blocking(said, server, trusting()) == b"body"
            await eventually_trio(lambda: len(server.connections) == 500, "all are open")


async def test_files_that_change_count_for_new_connections(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = Authority(tmp_path, "other")
    settings = files(authority)
    key, cert = Path(settings.key_path), Path(settings.cert_path)
    new = other.issue("127.0.0.1")
    tls = ServerTls("test", settings)
    async with serving(settings, tls) as server:
        client = await blocking(lambda: Client(server.address, tls=trusting(authority)))
        await blocking(shutil.copy, new.key, key)
        await tls.look_again()
        assert await blocking(said, server, trusting(authority)) == b"body", "half a change"
        await blocking(cert.write_bytes, b"nothing")
        await tls.look_again()
        await tls.look_again()
        assert caplog.text.count("the certificate stays as it was") == 1
        assert await blocking(said, server, trusting(authority)) == b"body"
        await blocking(shutil.copy, new.cert, cert)
        await tls.look_again()
        assert await blocking(said, server, trusting(other)) == b"body"
        assert await blocking(is_refused, server, trusting(authority))
        assert (await blocking(client.request, Request(ECHO, {}, b"old"))).body == b"old"
        client.close()


async def test_trust_that_changes_counts_alone(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    trust = tmp_path / "trust.pem"
    trust.write_bytes(authority.file.read_bytes())
    settings = files(
        authority, need_client_auth="require", auth_client=True, trust_cert_path=str(trust)
    )
    client = trusting(authority, other.issue("client"))
    tls = ServerTls("test", settings)
    async with serving(settings, tls) as server:
        assert await blocking(is_refused, server, client)
        trust.write_bytes(other.file.read_bytes())
        await tls.look_again()
        assert await blocking(said, server, client) == b"body"


async def test_the_files_are_looked_at_again_and_again(
    authority: Authority, autojump_clock: trio.testing.MockClock
) -> None:
    tls = ServerTls("test", files(authority))
    looks = 0

    async def count() -> None:
        nonlocal looks
        looks += 1

    tls.look_again = count  # type: ignore[method-assign]
    with trio.move_on_after(LOOK_EVERY * 3.5):
        await tls.run()
    assert looks == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mode": "enforcing"}, "tls.server.mode=enforcing needs tls.server.keyPath"),
        ({"key_path": "/nowhere/key.pem"}, "tls.server.certPath is missing"),
        ({"cert_path": "/nowhere/cert.pem"}, "tls.server.keyPath is missing"),
        ({"trust_cert_path": "/nowhere/ca.pem"}, "tls.server.trustCertPath needs"),
        (
            {"key_path": "/nowhere/key.pem", "cert_path": "/nowhere/cert.pem"},
            "tls.server.keyPath: cannot read /nowhere/key.pem",
        ),
        (
            {"key_path": "/a", "cert_path": "/b", "auth_client": True},
            "set tls.server.need.client.auth=require",
        ),
    ],
)
def test_settings_that_cannot_be_stop_the_start(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace(".", r"\.")):
        ServerTls("test", TlsServerSettings(**changes))  # type: ignore[arg-type]


def test_key_and_certificate_that_do_not_belong_together(authority: Authority) -> None:
    one, two = authority.issue("127.0.0.1"), authority.issue("127.0.0.1")
    settings = TlsServerSettings(key_path=str(one.key), cert_path=str(two.cert))
    with pytest.raises(ConfigError, match="does not belong to the key in"):
        ServerTls("test", settings)
