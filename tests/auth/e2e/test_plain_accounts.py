"""A broker with ACL 1.0: accounts that operators change, with both sets of commands."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from pyrmq.admin.api import Admin
from pyrmq.errors import ConfigError, leaves
from pyrmq.model.codes import RequestCode as Code
from pyrmq.net.address import format_address
from pyrmq.net.client.credentials import Credentials
from pyrmq.server import Running
from tests.support.client import Client, send_command
from tests.support.fixtures import Serve
from tests.support.mqadmin import admin, mqadmin
from tests.support.waiting import eventually_trio

pytestmark = pytest.mark.usefixtures("deadline")

ROOT = Credentials("administrator", "secret-of-admin")
ALICE = Credentials("alice-account", "secret-of-alice")
TEXT = """\
# Accounts of this broker.
accounts:
  # for operators
  - accessKey: administrator
    secretKey: secret-of-admin
    admin: true
"""
RUNTIME_INFO = 28


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


def _read(path: Path) -> str:
    return path.read_text()


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "conf" / "plain_acl.yml"
    _write(path, TEXT)
    return path


@pytest.fixture
async def running(
    file: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Running]:
    """Commands find the administrator's keys in the environment."""
    monkeypatch.setenv("PYRMQ_ACCESS_KEY", ROOT.access_key)
    monkeypatch.setenv("PYRMQ_SECRET_KEY", ROOT.secret_key)
    async with serve(acl_enable=True, rocketmq_home=str(file.parent.parent)) as served:
        yield served


def _broker(running: Running) -> str:
    return format_address(running.broker_address)


async def _may(running: Running, credentials: Credentials | None) -> bool:
    """Whether somebody may see the broker's figures, which needs an account."""
    async with Admin(running.namesrv, credentials=credentials) as api:
        answer = await api.link.call(_broker(running), RUNTIME_INFO)
    assert answer.code in (0, 1), answer.remark
    assert (answer.code == 0) != ("AclException" in (answer.remark or ""))
    return answer.code == 0


async def test_who_has_an_account(running: Running) -> None:
    assert await _may(running, ROOT)
    assert not await _may(running, None)
    assert not await _may(running, ALICE)
    assert not await _may(running, Credentials("administrator", "another-secret"))


async def test_accounts_with_the_commands_of_mqadmin(running: Running, file: Path) -> None:
    at = ("-b", _broker(running))
    key = ("-a", ALICE.access_key)
    made = await mqadmin(
        running.namesrv, "updateAclConfig", *at, *key, "-s", ALICE.secret_key,
        "-t", "orders=PUB|SUB,bills=DENY", "-g", "G=SUB", "-i", "DENY", "-w", "10.9.*.*",
    )  # fmt: skip
    assert made.lines == [
        f"create or update plain access config to {_broker(running)} success.",
        f"account's accesskey is:{ALICE.access_key}",
    ]
    assert await _may(running, ALICE)
    text = await trio.to_thread.run_sync(_read, file)
    assert text.startswith(TEXT)  # comments are there
    assert await trio.to_thread.run_sync(_mode, file) == 0o600

    shown = await mqadmin(running.namesrv, "getAclConfig", *at)
    assert shown.code == 0
    for line in (
        "  accessKey         : alice-account",
        "  secretKey         : ******",
        "  whiteRemoteAddress: 10.9.*.*",
        "  topicPerms        : [orders=PUB|SUB, bills=DENY]",
        "  groupPerms        : [G=SUB]",
        "  admin             : true",
    ):
        assert line in shown.lines
    assert "secret-of" not in shown.out

    version = await mqadmin(running.namesrv, "clusterAclConfigVersion", *at)
    assert str(file) in version.lines[0]
    assert version.lines[0].split()[-3] == "1"
    assert version.lines[1] == "get broker's plain access config version success."
    of_cluster = await mqadmin(running.namesrv, "clusterAclConfigVersion", "-c", "DefaultCluster")
    assert of_cluster.lines[0].split("  ")[0] == "#Cluster Name"
    assert of_cluster.lines[1] == version.lines[0]
    assert of_cluster.lines[2] == "get cluster's plain access config version success."

    white = await mqadmin(running.namesrv, "updateGlobalWhiteAddr", *at, "-g", "10.1.*.*,10.2.0.1")
    assert white.lines == [f"update global white remote addresses to {_broker(running)} success."]
    again = await mqadmin(running.namesrv, "getAclConfig", *at)
    assert "globalWhiteRemoteAddresses: [10.1.*.*, 10.2.0.1]" in again.lines

    gone = await mqadmin(running.namesrv, "deleteAclConfig", *at, *key)
    assert gone.lines[0] == f"delete plain access config account from {_broker(running)} success."
    assert not await _may(running, ALICE)


async def test_accounts_with_the_tree_of_commands(running: Running) -> None:
    at = ("-b", _broker(running))
    made = await admin(
        running.namesrv, "account", "set", *at, ALICE.access_key, "--secret", "--topic", "T=PUB",
        stdin=f"{ALICE.secret_key}\n",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert await _may(running, ALICE)
    listed = await admin(running.namesrv, "account", "list", *at, "-o", "json")
    assert '"alice-account"' in listed.out
    assert "secret-of" not in listed.out
    versions = await admin(running.namesrv, "account", "versions", *at, "-o", "json")
    assert '"changes": 1' in versions.out
    white = await admin(running.namesrv, "account", "white", *at, "127.0.0.1")
    assert white.code == 0, white.err
    assert await _may(running, None)  # everybody here, from now on
    gone = await admin(running.namesrv, "account", "delete", *at, ALICE.access_key, "--yes")
    assert gone.code == 0, gone.err


async def test_changes_that_are_refused(running: Running, file: Path) -> None:
    at = ("-b", _broker(running))
    for words, said in (
        (("updateAclConfig", "-a", "short", "-s", "long-enough"), "CODE: 209"),
        (("updateAclConfig", "-a", "long-enough", "-s", "******"), "secretKey has 7 to"),
        (("updateAclConfig", "-a", "long-enough", "-s", "long-enough", "-t", "T=ALL"), "CODE: 209"),
        (("deleteAclConfig", "-a", "nobody-at-all"), "CODE: 210"),
        (("updateGlobalWhiteAddr", "-g", "everywhere"), "CODE: 211"),
        (("updateGlobalWhiteAddr", "-g", "10.0.0.1", "-p", "/etc/passwd"), "none of the access"),
    ):
        ran = await mqadmin(running.namesrv, words[0], *at, *words[1:])
        assert ran.code == 2
        assert said in ran.err
    assert await trio.to_thread.run_sync(_read, file) == TEXT


async def test_the_audit_log_says_who_changed_what(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    at = ("-b", _broker(running))
    with caplog.at_level(logging.INFO, "pyrmq.audit"):
        await mqadmin(running.namesrv, "updateAclConfig", *at, "-a", "alice\x1b-account", "-s", "x")
        await mqadmin(
            running.namesrv, "updateAclConfig", *at, "-a", "alice-account", "-s", ALICE.secret_key
        )
        await mqadmin(running.namesrv, "deleteAclConfig", *at, "-a", "alice-account")
    lines = [r.getMessage() for r in caplog.records if r.name == "pyrmq.audit"]
    assert [line.partition(": ")[2] for line in lines] == [
        "not changed: account alice\\x1b-account: the account: accessKey has 7 to 1024 printable "
        "characters",
        "changed: account alice-account",
        "changed: account alice-account (deleted)",
    ]
    assert all(line.startswith("administrator at 127.0.0.1:") for line in lines)
    assert "secret-of" not in caplog.text


async def test_an_account_without_rights_changes_nothing(
    running: Running, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("-b", _broker(running))
    await mqadmin(
        running.namesrv, "updateAclConfig", *at, "-a", ALICE.access_key, "-s", ALICE.secret_key
    )
    before = await trio.to_thread.run_sync(_read, file)
    monkeypatch.setenv("PYRMQ_ACCESS_KEY", ALICE.access_key)
    monkeypatch.setenv("PYRMQ_SECRET_KEY", ALICE.secret_key)
    for words in (
        ("updateAclConfig", "-a", ALICE.access_key, "-s", ALICE.secret_key, "-m", "true"),
        ("deleteAclConfig", "-a", "administrator"),
        ("updateGlobalWhiteAddr", "-g", "*"),
        ("getAclConfig",),
        ("clusterAclConfigVersion",),
    ):
        ran = await mqadmin(running.namesrv, words[0], *at, *words[1:])
        assert ran.code == 2, words
        assert "needs an account with admin=true" in ran.err
    assert await trio.to_thread.run_sync(_read, file) == before


async def test_a_file_that_an_editor_changes_counts_soon(running: Running, file: Path) -> None:
    added = "  - accessKey: alice-account\n    secretKey: secret-of-alice\n"
    await trio.to_thread.run_sync(_write, file, TEXT + added)
    access = running.broker.parts.access_control.plain
    assert access is not None
    await eventually_trio(lambda: len(access.rules.accounts) == 2, "the file is read")
    assert await _may(running, ALICE)


async def test_a_broker_without_accounts_says_so(serve: Serve) -> None:
    async with serve() as running:
        for words in (
            ("updateAclConfig", "-a", "long-enough", "-s", "long-enough"),
            ("deleteAclConfig", "-a", "long-enough"),
            ("updateGlobalWhiteAddr", "-g", "10.0.0.1"),
            ("getAclConfig",),
            ("clusterAclConfigVersion",),
        ):
            ran = await mqadmin(running.namesrv, words[0], "-b", _broker(running), *words[1:])
            assert ran.code == 2
            assert "set aclEnable=true" in ran.err


async def test_an_unsigned_client_is_told_what_it_needs(running: Running) -> None:
    def ask() -> str:
        with Client(running.broker_address) as client:
            return client.call(RUNTIME_INFO).remark or ""

    assert "give the client an access key" in await trio.to_thread.run_sync(ask)


async def test_access_files_that_cannot_be_used_stop_the_start(
    file: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(file, "accounts: [")
    with pytest.raises((ConfigError, BaseExceptionGroup)) as error:
        async with serve(acl_enable=True, rocketmq_home=str(file.parent.parent)):
            pass
    assert any("plain_acl.yml" in str(leaf) for leaf in leaves(error.value))


async def test_no_message_of_another_topic_is_shown_by_its_offset(running: Running) -> None:
    at = _broker(running)
    made = await mqadmin(
        running.namesrv, "updateAclConfig", "-b", at, "-a", ALICE.access_key, "-s",
        ALICE.secret_key, "-t", "mine=PUB|SUB", "-g", "G=SUB", "-i", "DENY",
    )  # fmt: skip
    assert "success" in made.lines[0]
    offsets = {}
    async with Admin(running.namesrv, credentials=ROOT) as root:
        for topic in ("mine", "other"):
            sent = send_command(topic)
            answer = await root.link.ask(at, sent.code, sent.ext, sent.body)
            offsets[topic] = int(answer.ext["msgId"][-16:], 16)
    async with Admin(running.namesrv, credentials=ALICE) as alice:
        for topic, code in (("mine", 0), ("other", 1)):
            ext = {"topic": "mine", "offset": str(offsets[topic])}
            answer = await alice.link.call(at, Code.VIEW_MESSAGE_BY_ID, ext)
            assert answer.code == code, answer.remark
            ext = {"group": "G", "delayLevel": "0", "offset": str(offsets[topic])}
            answer = await alice.link.call(at, Code.CONSUMER_SEND_MSG_BACK, ext)
            assert answer.code == code, answer.remark
    assert "no SUB permission for topic other" in (answer.remark or "")
