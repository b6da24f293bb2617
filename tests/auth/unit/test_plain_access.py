"""PlainAccess: the order of its checks, what strangers learn, and files that change."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing

from pyrmq.auth.plain.access import MAX_HOSTS, AccessDeniedError, PlainAccess
from pyrmq.auth.plain.watch import INTERVAL, REMIND, SETTLE, Watch
from pyrmq.errors import ConfigError
from pyrmq.model.codes import RequestCode as Code
from pyrmq.net.client.credentials import Credentials
from tests.auth.unit.commands import check

TEXT = """\
globalWhiteRemoteAddresses: [10.9.9.*]
accounts:
- accessKey: producer1
  secretKey: secret-of-producer
  topicPerms: [T=PUB]
- accessKey: administrator
  secretKey: secret-of-admin
  admin: true
- accessKey: nearby1
  secretKey: secret-of-nearby
  whiteRemoteAddress: 10.1.*.*
"""
T = TypeVar("T")
FAR = "203.0.113.7"
PRODUCER = Credentials("producer1", "secret-of-producer")
ADMIN = Credentials("administrator", "secret-of-admin")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "conf" / "plain_acl.yml"
    file.parent.mkdir()
    file.write_text(TEXT)
    return file


@pytest.fixture
def access(path: Path) -> PlainAccess:
    return PlainAccess(path.parent.parent)


def _send(
    access: PlainAccess, signed: Mapping[str, str], host: str = FAR, body: bytes = b"x"
) -> None:
    check(access, Code.SEND_MESSAGE_V2, signed, body, host)


def _refused(access: PlainAccess, signed: Mapping[str, str], host: str = FAR) -> str:
    with pytest.raises(AccessDeniedError) as error:
        _send(access, signed, host)
    assert error.value.code == 1
    return str(error.value)


def test_who_may_send(access: PlainAccess) -> None:
    _send(access, PRODUCER.signed({"b": "T"}, b"x"))
    _send(access, ADMIN.signed({"b": "Other"}, b"x"))
    assert "no PUB permission for topic Other" in _refused(
        access, PRODUCER.signed({"b": "Other"}, b"x")
    )


def test_the_white_lists_come_first(access: PlainAccess) -> None:
    _send(access, {"b": "T"}, "10.9.9.1")
    _send(access, {"b": "T", "AccessKey": "nobody-at-all"}, "::ffff:10.9.9.1")
    check(access, Code.UPDATE_BROKER_CONFIG, {}, b"", "10.9.9.1")
    _send(access, {"b": "T", "AccessKey": "nearby1", "Signature": "wrong"}, "10.1.2.3")
    check(access, Code.UPDATE_BROKER_CONFIG, {"AccessKey": "nearby1"}, b"", "10.1.2.3")
    _refused(access, {"b": "T", "AccessKey": "nearby1", "Signature": "wrong"}, "10.2.2.3")
    _refused(access, {"b": "T", "AccessKey": "producer1"}, "10.1.2.3")


def test_strangers_do_not_learn_which_accounts_there_are(access: PlainAccess) -> None:
    unknown = Credentials("producer2", "secret-of-producer").signed({"b": "T"}, b"x")
    wrong = Credentials("producer1", "secret-of-somebody").signed({"b": "T"}, b"x")
    none = {"b": "T", "AccessKey": "producer1"}
    changed = {**PRODUCER.signed({"b": "T"}, b"x"), "b": "Other"}
    texts = {_refused(access, fields) for fields in (unknown, wrong, none, changed)}
    assert len(texts) == 1
    (text,) = texts
    assert text.startswith("AclException: ")
    assert not any(word in text for word in ("producer", "secret", "T", "Other") if len(word) > 1)
    assert "secret key" in _refused(access, {"b": "T"})


def test_rights_are_not_said_before_a_signature_fits(access: PlainAccess) -> None:
    wrong = Credentials("producer1", "secret-of-somebody").signed({"b": "Other"}, b"x")
    right = Credentials("producer1", "secret-of-somebody").signed({"b": "T"}, b"x")
    assert _refused(access, wrong) == _refused(access, right)


def test_a_key_that_was_verified_natively(access: PlainAccess) -> None:
    for signed in ({"b": "T"}, {"b": "T", "AccessKey": "administrator"}):
        check(access, Code.SEND_MESSAGE_V2, signed, b"", FAR, verified="producer1")
        with pytest.raises(AccessDeniedError, match="admin=true"):
            check(access, Code.UPDATE_BROKER_CONFIG, signed, b"", FAR, verified="producer1")
    with pytest.raises(AccessDeniedError):  # an account that was deleted since
        check(access, Code.SEND_MESSAGE_V2, {"b": "T"}, b"", FAR, verified="deleted1")


def test_secrets_for_a_keyring(access: PlainAccess) -> None:
    assert access.secrets() == {
        "producer1": "secret-of-producer",
        "administrator": "secret-of-admin",
        "nearby1": "secret-of-nearby",
    }
    assert "secret-of" not in repr(access.rules)


def test_files_that_cannot_be_used_stop_the_start(path: Path) -> None:
    path.write_text("accounts: [")
    with pytest.raises(ConfigError, match=r"plain_acl\.yml"):
        PlainAccess(path.parent.parent)
    path.unlink()
    with pytest.raises(ConfigError, match="there is no access file"):
        PlainAccess(path.parent.parent)


def test_files_without_anybody_are_warned_of(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text("# nobody\n")
    PlainAccess(path.parent.parent)
    assert "nobody has access" in caplog.text


async def test_a_change_counts_when_it_returns(path: Path) -> None:
    calls: list[int] = []
    access = PlainAccess(path.parent.parent)
    access.on_changed.append(lambda: calls.append(len(access.rules.accounts)))
    values = {"accessKey": "another1", "secretKey": "secret-of-another", "topicPerms": ["T=PUB"]}
    signed = Credentials("another1", "secret-of-another").signed({"b": "T"}, b"x")
    _refused(access, signed)
    await access.set_account(values)
    _send(access, signed)
    await access.delete_account("another1")
    _refused(access, signed)
    await access.set_white_list([FAR])
    _send(access, {"b": "T"})
    assert calls == [4, 3, 3]
    with pytest.raises(ConfigError, match="there is no account"):
        await access.delete_account("another1")
    assert calls == [4, 3, 3]


async def test_changes_at_the_same_time_are_all_there(access: PlainAccess) -> None:
    async with trio.open_nursery() as nursery:
        for i in range(8):
            values = {"accessKey": f"another{i}", "secretKey": "secret-of-another"}
            nursery.start_soon(access.set_account, values)
    assert len(access.rules.accounts) == 3 + 8


def _put(path: Path, text: str) -> None:
    path.write_text(text)


def _remove(path: Path) -> None:
    path.unlink()


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs what goes to threads at once: a clock that jumps does not wait for threads."""

    async def run_sync(function: Callable[..., T], *args: object) -> T:
        await trio.lowlevel.checkpoint()
        return function(*args)

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)


class _Clocked:
    """A watch on a clock that jumps, and what it has said."""

    def __init__(self, access: PlainAccess, caplog: pytest.LogCaptureFixture) -> None:
        self.access = access
        self._caplog = caplog

    async def after(self, seconds: float) -> list[str]:
        """What is logged in this time."""
        self._caplog.clear()
        with self._caplog.at_level(logging.INFO, "pyrmq.auth"):
            await trio.sleep(seconds)
        return [r.getMessage() for r in self._caplog.records if r.name == "pyrmq.auth.plain.watch"]


async def test_the_watch(
    inline: None,
    path: Path,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    revoked: list[None] = []
    access = PlainAccess(path.parent.parent)
    access.on_changed.append(lambda: revoked.append(None))
    clocked = _Clocked(access, caplog)
    round_ = INTERVAL + SETTLE + 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Watch(access).run)
        assert await clocked.after(3 * round_) == []
        assert revoked == []

        _put(path, TEXT.replace("T=PUB", "T=SUB"))
        (line,) = await clocked.after(2 * round_)
        assert "3 accounts" in line
        assert "secret" not in line
        assert len(revoked) == 1
        _refused(access, PRODUCER.signed({"b": "T"}, b"x"))

        _put(path, "accounts: [")
        (line,) = await clocked.after(REMIND / 2)
        assert "cannot be used, those of before go on" in line
        _send(access, ADMIN.signed({"b": "T"}, b"x"))
        assert len(await clocked.after(REMIND)) == 1  # again, once a minute
        _put(path, "accounts: x")
        assert len(await clocked.after(2 * round_)) == 1  # another fault
        _remove(path)
        (line,) = await clocked.after(2 * round_)
        assert "there is no access file" in line
        _send(access, ADMIN.signed({"b": "T"}, b"x"))
        assert len(revoked) == 1

        _put(path, TEXT)
        assert "read again" in (await clocked.after(2 * round_))[0]
        _send(access, PRODUCER.signed({"b": "T"}, b"x"))
        nursery.cancel_scope.cancel()


async def test_a_file_that_is_still_being_written_is_not_read(
    inline: None, path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Half of it would be a file with fewer accounts."""
    access = PlainAccess(path.parent.parent)
    half = TEXT[: TEXT.index("- accessKey: administrator")]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Watch(access).run)
        await trio.sleep(3 * INTERVAL)
        for i in range(100):
            _put(path, half + f"# {i}\n")
            await trio.sleep(SETTLE / 2)
            assert len(access.rules.accounts) == 3
        _put(path, half)
        await trio.sleep(2 * (INTERVAL + SETTLE))
        assert len(access.rules.accounts) == 1
        nursery.cancel_scope.cancel()


async def test_a_change_by_a_request_is_not_read_twice(
    inline: None,
    path: Path,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    access = PlainAccess(path.parent.parent)
    clocked = _Clocked(access, caplog)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Watch(access).run)
        await trio.sleep(INTERVAL)
        await access.set_account({"accessKey": "another1", "secretKey": "secret-of-another"})
        assert await clocked.after(3 * INTERVAL) == []
        nursery.cancel_scope.cancel()
    assert os.listdir(path.parent) == ["plain_acl.yml"]  # nothing is left beside it


async def test_hosts_are_decided_anew_after_a_change(access: PlainAccess) -> None:
    _refused(access, {"b": "T"})
    await access.set_white_list([FAR])
    _send(access, {"b": "T"})
    await access.set_white_list(["10.0.0.1"])
    _refused(access, {"b": "T"})
    near = {"b": "T", "AccessKey": "nearby1"}
    _send(access, near, "10.1.2.3")
    await access.set_account({"accessKey": "nearby1", "whiteRemoteAddress": ""})
    _refused(access, near, "10.1.2.3")


def test_decisions_about_hosts_are_bounded(access: PlainAccess) -> None:
    for i in range(3 * MAX_HOSTS):
        with pytest.raises(AccessDeniedError):
            _send(access, {"b": "T"}, f"203.0.{i >> 8 & 255}.{i & 255}")
        assert len(access._white) <= MAX_HOSTS
