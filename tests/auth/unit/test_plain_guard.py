"""The check of ACL 1.0 before processors, with scripted connections."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pyrmq.auth.decide import Need
from pyrmq.auth.guard import Kind
from pyrmq.auth.model import Action, Resource, group, topic
from pyrmq.auth.plain.access import AccessDeniedError, PlainAccess
from pyrmq.auth.plain.guard import LOG_INTERVAL, MAX_NAMES, PlainGuard, host_of
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection

SEND, RUNTIME_INFO = 310, 28
CREDENTIALS = Credentials("producer1", "secret-of-producer")


@pytest.fixture
def guard(tmp_path: Path) -> PlainGuard:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(
        "globalWhiteRemoteAddresses: [10.9.9.*, 'fd00::*']\n"
        "accounts:\n"
        "- {accessKey: producer1, secretKey: secret-of-producer, topicPerms: [T=PUB],\n"
        "   groupPerms: [G=SUB]}\n"
    )
    return PlainGuard(PlainAccess(tmp_path))


class _Connection:
    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.at_end: list[Any] = []

    def call_on_close(self, callback: Any) -> None:
        self.at_end.append(callback)


def _connection(peer: str = "203.0.113.7:4000") -> Any:
    return _Connection(peer)


def _command(code: int, ext: dict[str, str], *, signs: bool = True) -> Any:
    """As a session hands it over, which has verified the signature."""
    signed = CREDENTIALS.signed(ext, b"x") if signs else ext
    subject = CREDENTIALS.access_key if signs else None
    return SimpleNamespace(code=code, ext=signed, body=b"x", version=479, subject=subject)


class _Grants:
    def __init__(self) -> None:
        self.told: list[tuple[str, Kind, str]] = []

    def grant(self, connection: Connection, subject: str, kind: Kind, topic: str) -> None:
        self.told.append((subject, kind, topic))

    def revoke(self) -> None:
        self.told.clear()


def _run(guard: PlainGuard, command: Any, peer: str = "203.0.113.7:4000") -> Response | str:
    """What the processor behind the guard answers, or the refusal."""
    connection = _connection(peer)
    name = guard.identify(connection, command)
    if isinstance(name, Response):
        return name
    return guard.authorize(connection, command, name) or "reached"


async def test_what_reaches_a_processor(guard: PlainGuard) -> None:
    assert _run(guard, _command(SEND, {"b": "T"})) == "reached"
    assert _run(guard, _command(RUNTIME_INFO, {})) == "reached"
    assert _run(guard, _command(25, {}, signs=False), "10.9.9.1:1") == "reached"
    assert _run(guard, _command(25, {}, signs=False), "[fd00::1]:1") == "reached"
    for command in (
        _command(SEND, {"b": "Other"}),
        _command(25, {}),
        _command(RUNTIME_INFO, {}, signs=False),
    ):
        refused = _run(guard, command)
        assert isinstance(refused, Response)
        assert refused.code == 1
        assert (refused.remark or "").startswith("AclException: ")


async def test_both_steps(guard: PlainGuard) -> None:
    """As a server takes them: the body may be gone between them."""
    command = _command(SEND, {"b": "T"})
    assert guard.identify(_connection(), command) == "producer1"
    command.body = b""
    assert guard.authorize(_connection(), command, "producer1") is None
    refused = guard.authorize(_connection(), command, "deleted1")
    assert refused is not None
    assert refused.code == 1
    assert guard.identify(_connection("10.9.9.1:1"), _command(SEND, {}, signs=False)) == ""
    assert guard.authorize(_connection("10.9.9.1:1"), _command(25, {}), "") is None


async def test_what_is_granted(guard: PlainGuard) -> None:
    grants = _Grants()
    granting = PlainGuard(guard._access, grants)
    both = [("producer1", kind, "T") for kind in Kind]
    for code, ext in ((SEND, {"b": "T"}), (37, {"topic": "T"})):
        assert _run(granting, _command(code, ext)) == "reached"
        assert grants.told == both
        grants.revoke()
    assert _run(granting, _command(37, {})) == "reached"
    assert _run(granting, _command(RUNTIME_INFO, {})) == "reached"
    for command, peer in (
        (_command(SEND, {"b": "Other"}), "203.0.113.7:1"),
        (_command(SEND, {"b": "%RETRY%T"}), "203.0.113.7:1"),
        (_command(SEND, {"b": "T"}, signs=False), "203.0.113.7:1"),
        (_command(SEND, {"b": "T"}, signs=False), "10.9.9.1:1"),  # everybody may, from there
    ):
        _run(granting, command, peer)
    assert grants.told == []
    assert _run(granting, _command(SEND, {"b": "Other"}), "10.9.9.1:1") == "reached"
    assert grants.told == [("producer1", kind, "Other") for kind in Kind]


async def test_refusals_are_logged_now_and_then(
    guard: PlainGuard, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        _run(guard, _command(SEND, {"b": "Other\x1b"}))
    assert [record.getMessage() for record in caplog.records] == [
        "310 SEND_MESSAGE_V2 of 203.0.113.7:4000 refused: AclException: no PUB permission for "
        "topic Other\\x1b"
    ]
    await trio.sleep(LOG_INTERVAL)
    _run(guard, _command(SEND, {"b": "Other"}))
    assert len(caplog.records) == 2
    assert "secret-of" not in caplog.text


async def test_who_may_be_asked_about_a_topics_transactions(guard: PlainGuard) -> None:
    """Who has signed on the connection and may send to the topic, or is on a white list."""
    connection = _connection()
    assert not guard.may_publish(connection, "T")
    assert isinstance(guard.identify(connection, _command(34, {}, signs=False)), Response)
    assert not guard.may_publish(connection, "T")
    guard.identify(connection, _command(34, {}))
    assert guard.may_publish(connection, "T")
    assert not guard.may_publish(connection, "Other")
    assert not guard.may_publish(_connection(), "T")
    for callback in connection.at_end:
        callback(connection)
    assert not guard.may_publish(connection, "T")
    white = _connection("10.9.9.1:1")
    guard.identify(white, _command(34, {"AccessKey": "producer1"}, signs=False))
    assert guard.may_publish(white, "Other")
    guard._access._white.clear()
    guard._access.rules = replace(guard._access.rules, white=())
    assert not guard.may_publish(white, "T")  # nobody has signed there


async def test_connections_of_one_account(guard: PlainGuard) -> None:
    one, other, white = _connection(), _connection(), _connection("10.9.9.1:1")
    guard.identify(one, _command(34, {}))
    guard.identify(white, _command(34, {}, signs=False))
    assert not guard.same_user(one, other)
    assert not guard.same_user(white, one)
    assert guard.same_user(white, _connection("10.9.9.2:1"))
    guard.identify(other, _command(34, {}))
    assert guard.same_user(one, other)


async def test_names_of_a_connection_are_bounded(guard: PlainGuard) -> None:
    connection = _connection()
    guard._access.identify = lambda *of_request: "somebody"  # type: ignore[method-assign]
    for n in range(3 * MAX_NAMES):
        guard.identify(connection, _command(34, {"AccessKey": str(n)}, signs=False))
        assert len(guard._names[connection]) <= MAX_NAMES


@pytest.mark.parametrize(
    ("resource", "actions", "may"),
    [
        (topic("T"), {Action.PUB}, True),
        (topic("T"), {Action.SUB}, False),
        (topic("T"), {Action.GET}, False),
        (topic("G"), {Action.SUB}, False),
        (group("G"), {Action.SUB}, True),
    ],
)
async def test_the_message_that_a_request_names(
    guard: PlainGuard, resource: Resource, actions: set[Action], may: bool
) -> None:
    need = Need(resource, frozenset(actions))
    guard.check(_connection("10.9.9.1:1"), _command(33, {}, signs=False), need)
    if may:
        guard.check(_connection(), _command(33, {}), need)
    else:
        with pytest.raises(AccessDeniedError, match="permission for"):
            guard.check(_connection(), _command(33, {}), need)
    with pytest.raises(AccessDeniedError, match="unknown"):
        guard.check(_connection(), _command(33, {"AccessKey": "deleted"}, signs=False), need)


@pytest.mark.parametrize(
    ("peer", "host"),
    [("10.0.0.1:1", "10.0.0.1"), ("[::1]:1", "::1"), ("", ""), ("/tmp/socket", "")],
)
def test_the_host_of_a_peer(peer: str, host: str) -> None:
    assert host_of(peer) == host
