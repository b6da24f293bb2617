"""Signed requests, and where commands of administration have their keys from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyrmq.admin import Admin
from pyrmq.cli.access import Access
from pyrmq.errors import ConfigError
from pyrmq.net.client.credentials import Credentials
from tests.support.mqadmin import admin, mqadmin
from tests.support.scripted.replicas import Answers
from tests.support.scripted.sockets import SocketServer

EXT = {
    "a": "PG", "b": "TopicTest", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1700000000000,
    "h": 0, "i": "UNIQ_KEY\x01AC110001000118B4AAC200000000\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    "j": 0, "k": False, "m": False, "n": "broker-a",
}  # fmt: skip


@pytest.mark.parametrize(
    ("token", "signature"),
    [("", "unEJquYqbAuoGwa4bpx8b12cp/E="), ("tok", "ibMx3XQKIVn20Bzse1fODNyOZCU=")],
)
def test_as_java_signs(token: str, signature: str) -> None:
    """Figures of RocketMQ's AclSigner."""
    signed = Credentials("rocketmq2", "12345678", token).signed(EXT, b"hello")
    assert signed["Signature"] == signature
    assert signed["AccessKey"] == "rocketmq2"
    assert signed.get("SecurityToken", "") == token
    assert {k: signed[k] for k in ("d", "k")} == {"d": "4", "k": "false"}


def test_secrets_are_not_shown() -> None:
    assert "12345678" not in repr(Credentials("a", "12345678", "tok"))
    assert "tok" not in repr(Credentials("a", "b", "tok"))


async def test_all_requests_are_signed() -> None:
    script = Answers()
    script.says(206, {"topicList": []})
    with SocketServer(script).serving() as address:
        async with Admin(address, credentials=Credentials("me", "secret")) as signing:
            await signing.topics.list()
            await signing.link.ask(address, 25, body=b"a=b")
    assert [c.code for c in script.asked] == [206, 106, 25]  # 106: which brokers are missing
    assert {c.ext["AccessKey"] for c in script.asked} == {"me"}
    assert all(c.ext == Credentials("me", "secret").signed({}, c.body) for c in script.asked)


def credentials() -> Credentials | None:
    return Access.from_environment().credentials


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PYRMQ_ACCESS_KEY", "PYRMQ_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    (tmp_path / "conf").mkdir()
    return tmp_path


def test_where_keys_are(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert credentials() is None
    file = home / "conf" / "tools.yml"
    file.write_text("accessKey: rocketmq2\nsecretKey: 12345678\n")
    assert credentials() == Credentials("rocketmq2", "12345678")
    monkeypatch.setenv("PYRMQ_ACCESS_KEY", "me")
    with pytest.raises(ConfigError, match="go together"):
        credentials()
    monkeypatch.setenv("PYRMQ_SECRET_KEY", "mine")
    assert credentials() == Credentials("me", "mine")


@pytest.mark.parametrize("text", ["accessKey:\nsecretKey:\n", "accessKey: ''\n", "{}"])
def test_no_keys(home: Path, text: str) -> None:
    (home / "conf" / "tools.yml").write_text(text)
    assert credentials() is None


@pytest.mark.parametrize(
    "raw", [b"[]", b"x", b"\xff\xfe", b"a: [", b"[" * 5000, b"#" * (2 << 20), b""]
)
def test_files_that_cannot_be_meant(home: Path, raw: bytes) -> None:
    (home / "conf" / "tools.yml").write_bytes(raw)
    with pytest.raises(ConfigError, match=r"tools\.yml"):
        credentials()


async def test_commands_sign(home: Path) -> None:
    (home / "conf" / "tools.yml").write_text("accessKey: me\nsecretKey: mine\n")
    script = Answers()
    script.says(206, {"topicList": ["T"]})
    script.says(14, {})
    with SocketServer(script).serving() as address:
        assert (await mqadmin(address, "topicList")).lines == ["T"]
        shown = await admin(address, "topic", "list", "-o", "json")
        assert json.loads(shown.out) == ["T"]
        (home / "conf" / "tools.yml").write_text("accessKey: me\n")
        for ran in (await mqadmin(address, "topicList"), await admin(address, "topic", "list")):
            assert ran.code == 1
            assert "go together" in ran.err
    assert [c.code for c in script.asked] == [206, 106] * 2
    assert {c.ext["AccessKey"] for c in script.asked} == {"me"}
