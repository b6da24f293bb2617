"""The check of ACL 1.0 before processors, with scripted connections."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pyrmq.auth.audit import REFUSAL_SECONDS, REFUSALS
from pyrmq.auth.failures import FREE, MOST_DELAY
from pyrmq.auth.guard import Kind
from pyrmq.auth.plain.access import UNPROVEN, AccessDeniedError, PlainAccess
from pyrmq.auth.plain.guard import PlainGuard
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.command import Response
from pyrmq.net.server.answers import InTurns
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


def _command(code: int, ext: dict[str, str], *, signs: bool = True, oneway: bool = False) -> Any:
    """As a session hands it over, which has verified the signature."""
    signed = CREDENTIALS.signed(ext, b"x") if signs else ext
    subject = CREDENTIALS.access_key if signs else None
    return SimpleNamespace(
        code=code, ext=signed, body=b"x", version=479, language=0, subject=subject,
        is_oneway=oneway, drop_body=lambda: None,
    )  # fmt: skip


class _Grants:
    def __init__(self) -> None:
        self.told: list[tuple[str, Kind, str]] = []

    def grant(self, connection: Connection, subject: str, kind: Kind, topic: str) -> None:
        self.told.append((subject, kind, topic))

    def revoke(self) -> None:
        self.told.clear()


def _run(guard: PlainGuard, command: Any, peer: str = "203.0.113.7:4000") -> object:
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
    both = [("producer1", kind, "T") for kind in (Kind.SEND, Kind.END)]
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
    assert grants.told == [("producer1", kind, "Other") for kind in (Kind.SEND, Kind.END)]


async def test_refusals_are_in_the_audit_log(
    guard: PlainGuard, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        _run(guard, _command(SEND, {"b": "Other\x1b"}))
    assert len(caplog.records) == REFUSALS
    assert caplog.records[0].name == "pyrmq.audit"
    assert caplog.records[0].getMessage() == (
        "producer1 at 203.0.113.7:4000: 310 SEND_MESSAGE_V2 refused: no PUB permission for topic "
        "Other\\x1b"
    )
    await trio.sleep(REFUSAL_SECONDS)
    _run(guard, _command(SEND, {"b": "Other"}, oneway=True))
    assert caplog.records[-1].getMessage().endswith(f"{100 - REFUSALS} more were refused before")
    assert (guard.refusals.count, guard.refusals.unanswered) == (101, 1)
    assert "secret-of" not in caplog.text


def _guessed(secret: str) -> Any:
    command = _command(SEND, {"b": "T"}, signs=False)
    command.ext = Credentials("producer1", secret).signed({"b": "T"}, b"x")
    return command


async def test_who_guesses_secrets_is_slowed(
    guard: PlainGuard, autojump_clock: trio.testing.MockClock
) -> None:
    near, right = _connection(), "secret-of-producer"
    assert guard.identify(near, _guessed(right)) == "producer1"
    there = _connection("203.0.113.7:5000")
    for _ in range(FREE):
        assert isinstance(guard.identify(there, _guessed("a-wrong-secret")), Response)
    slowed = guard.identify(there, _guessed("a-wrong-secret"))
    assert isinstance(slowed, InTurns)
    started = trio.current_time()
    refused = await slowed.answer
    assert trio.current_time() > started
    assert isinstance(refused, Response)
    assert refused.remark == f"AclException: {UNPROVEN}"
    for secret in ("a-wrong-secret", right):  # for a while the right one is refused there as well
        refused = guard.identify(there, _guessed(secret))
        assert isinstance(refused, InTurns)
        refused.answer.close()  # type: ignore[attr-defined]
    assert guard.identify(near, _guessed(right)) == "producer1"
    assert guard.identify(_connection("203.0.113.8:1"), _guessed(right)) == "producer1"
    await trio.sleep(MOST_DELAY)
    assert guard.identify(there, _guessed(right)) == "producer1"


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
    guard._access.replace(replace(guard._access.rules, white=()))
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


async def test_who_has_messages_of_a_topic_deleted_is_an_administrator(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "plain_acl.yml"
    text = (
        "globalWhiteRemoteAddresses: [10.9.9.*]\n"
        "accounts:\n"
        "- {accessKey: producer1, secretKey: secret-of-producer, topicPerms: [T=PUB|SUB],\n"
        "   groupPerms: [G=SUB]%s}\n"
    )
    commit = {"topic": "T", "consumerGroup": "G"}
    file.write_text(text % "")
    guard = PlainGuard(PlainAccess(tmp_path))
    assert _run(guard, _command(15, commit)) == "reached"
    with pytest.raises(AccessDeniedError):
        guard.check_deletes(_connection(), _command(15, commit), "T")
    guard.check_deletes(_connection("10.9.9.1:1"), _command(15, commit, signs=False), "T")
    file.write_text(text % ", admin: true")
    admin = PlainGuard(PlainAccess(tmp_path))
    admin.check_deletes(_connection(), _command(15, commit), "T")
