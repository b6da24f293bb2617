"""What access files say, and what is no access file."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.auth.plain import document
from pyrmq.auth.plain.accounts import Permission, access_file
from pyrmq.auth.plain.document import MAX_NODES, MAX_SIZE, DocumentError, read
from pyrmq.auth.plain.files import Folder, load
from pyrmq.auth.plain.rules import load_rules
from pyrmq.errors import ConfigError
from pyrmq.model.topic import DataVersion

DISTRIBUTED = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: "00123456"
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
dataVersion:
- counter: 3
  timestamp: 1700000000000
"""
BOTH = Permission.PUB | Permission.SUB


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_file_that_rocketmq_comes_with() -> None:
    file = access_file("f", read(DISTRIBUTED.encode()))
    assert [pattern.text for pattern in file.white] == ["10.10.103.*", "192.168.0.*"]
    first, second = file.accounts
    assert (first.access_key, first.secret_key, first.admin) == ("RocketMQ", "12345678", False)
    assert first.default_topic == Permission.DENY
    assert first.default_group == Permission.SUB
    assert first.topics == {"topicA": Permission.DENY, "topicB": BOTH, "topicC": Permission.SUB}
    assert first.groups == {"groupA": Permission.DENY, "groupB": BOTH, "groupC": Permission.SUB}
    assert first.white.text == ""
    assert (second.secret_key, second.admin, second.white.text) == (
        "00123456", True, "192.168.1.*",
    )  # fmt: skip
    assert second.default_topic == second.default_group == Permission.DENY
    assert file.version == DataVersion(1700000000000, 3)
    assert "12345678" not in repr(file)


def test_values_are_texts_as_they_are_written() -> None:
    text = "accounts:\n- {accessKey: 00123456, secretKey: 1_000_000, admin: yes}\n"
    (account,) = access_file("f", read(text.encode())).accounts
    assert (account.access_key, account.secret_key, account.admin) == (
        "00123456", "1_000_000", True,
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "# nothing\n", "~", "accounts:\n", "accounts: []", "{}"])
def test_a_file_without_accounts(text: str) -> None:
    file = access_file("f", read(text.encode()))
    assert (file.accounts, file.white) == ((), ())


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
NO_DOCUMENTS = {
    "a bomb": BOMB,
    "a cycle": "accounts: &a\n- *a\n",
    "an anchor": "accounts: &a []\n",
    "a merge": "x: &x {a: 1}\naccounts:\n- <<: *x\n",
    "a tag": "accounts: !!python/object/apply:os.system [true]\n",
    "a set": "accounts: !!set {a}\n",
    "two documents": "accounts: []\n---\naccounts: []\n",
    "a key twice": "accounts: []\naccounts: []\n",
    "a key of an account twice": "accounts:\n- {accessKey: a, accessKey: b}\n",
    "deep": "[" * 200,
    "deep without end": "a:\n" + "".join(" " * i + "- \n" for i in range(1, 300)),
    "a list": "- accounts\n",
    "a text": "accounts",
    "no end": "accounts: [\n",
    "a quote without end": "accounts: 'x\n",
    "tabs": "accounts:\n\t- a\n",
    "controls": "accounts: \x07\n",
    "a key that is a list": "? [a, b]\n: c\n",
    "a key that is null": "~: a\n",
    "too many": "accounts: [" + "1," * MAX_NODES + "]",
    "too long": "#" * (MAX_SIZE + 1),
}


@pytest.mark.parametrize("text", NO_DOCUMENTS.values(), ids=NO_DOCUMENTS.keys())
def test_what_is_no_document(text: str) -> None:
    with pytest.raises(DocumentError) as error:
        read(text.encode())
    assert len(str(error.value)) < 200


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="there is only one reader")
@pytest.mark.parametrize(
    "text",
    [
        DISTRIBUTED, "", "{}", "accounts: []", "\ufeffaccounts:\n",
        "a: 'x''y'\r\nb: \"\\u00e9\"\r\n", "é:\n- ü: ~ # ö\n  '😀': {a: [b, c]}\n\n\n# end",
        "---\na:\n-\n  b: c\n...\n", "a: |\n  x\n  y\nb: 1",
    ],
)  # fmt: skip
def test_both_readers_see_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """libyaml's, and the one in Python that machines without it have."""
    native = read(text.encode())
    monkeypatch.setattr(document, "_LOADER", yaml.BaseLoader)
    assert read(text.encode()) == native


QUICK = {name: text for name, text in NO_DOCUMENTS.items() if len(text) < 10_000}


@pytest.mark.parametrize("text", QUICK.values(), ids=QUICK.keys())
def test_what_is_no_document_for_the_reader_in_python(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "_LOADER", yaml.BaseLoader)
    with pytest.raises(DocumentError):
        read(text.encode())


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(DocumentError, match="not UTF-8"):
        read(b"accounts: \xff\n")
    assert read("\ufeffaccounts:\n".encode()).pairs.keys() == {"accounts"}


ACCOUNT = "accounts:\n- accessKey: RocketMQ\n  secretKey: verysecret\n"
NO_ACCESS_FILES = {
    "account: []\n": "did you mean accounts",
    "accounts: x\n": "is a list",
    "accounts: [x]\n": "account 1 is no mapping",
    f"{ACCOUNT}- accessKey: short\n  secretKey: verysecret\n": "account 2: accessKey has 7 to",
    "accounts:\n- accessKey: RocketMQ\n": "secretKey has 7 to",
    "accounts:\n- accessKey: RocketMQ\n  secretKey: sixsix\n": "secretKey has 7 to",
    "accounts:\n- accessKey: [a]\n  secretKey: verysecret\n": "accessKey is a text",
    'accounts:\n- accessKey: RocketMQ\n  secretKey: "very\\nsecret"\n': "printable",
    f"{ACCOUNT}  defaultTopicPerms: PUB\n": "did you mean defaultTopicPerm",
    f"{ACCOUNT}  admin: perhaps\n": "admin is true or false",
    f"{ACCOUNT}  defaultTopicPerm: pub\n": "'pub' is none of",
    f"{ACCOUNT}  topicPerms: t=PUB\n": "topicPerms is a list",
    f"{ACCOUNT}  topicPerms: [t]\n": "is not as name=",
    f"{ACCOUNT}  topicPerms: [=PUB]\n": "is not as name=",
    f"{ACCOUNT}  topicPerms: [t=PUB|SUB|PUB]\n": "is none of",
    f"{ACCOUNT}  groupPerms: [t=SUB, t=DENY]\n": "twice",
    f"{ACCOUNT}  whiteRemoteAddress: 10.0.0\n": "no pattern of addresses",
    "globalWhiteRemoteAddresses: [10.0.0.256]\n": "number 1: ",
    "dataVersion: [{counter: -1}]\n": "counter is a number",
}


@pytest.mark.parametrize(("text", "said"), NO_ACCESS_FILES.items())
def test_what_is_no_access_file(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        access_file("conf/plain_acl.yml", read(text.encode()))
    assert said in str(error.value)
    assert str(error.value).startswith("conf/plain_acl.yml: ")
    assert "verysecret" not in str(error.value)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_access_file_or_an_error(raw: bytes) -> None:
    with suppress(DocumentError, ConfigError):
        access_file("f", read(raw))


@given(st.integers(0, len(DISTRIBUTED)))
def test_a_file_that_was_written_to_any_place(length: int) -> None:
    """It is an error, or has some of the whole file's accounts: never one with other rights."""
    whole = {a.access_key: a for a in access_file("f", read(DISTRIBUTED.encode())).accounts}
    try:
        cut = access_file("f", read(DISTRIBUTED[:length].encode()))
    except (DocumentError, ConfigError):
        return
    for account in cut.accounts:
        full = whole[account.access_key]
        assert full.secret_key.startswith(account.secret_key)
        assert account.admin <= full.admin
        assert set(account.topics.items()) <= {*full.topics.items(), ("topicB", Permission.PUB)}


def test_which_files_there_are(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with pytest.raises(ConfigError, match="there is no access file"):
        load_rules(folder)
    for name in ("acl/b.yml", "acl/a.yaml", "acl/more/c.yml", "acl/tools.yml", "acl/x.txt"):
        _write(tmp_path / "conf" / name, "")
    _write(folder.default, "")
    names = [str(path.relative_to(tmp_path / "conf")) for path in folder.paths()]
    assert names == ["acl/a.yaml", "acl/b.yml", "acl/more/c.yml", "plain_acl.yml"]


def test_the_first_account_of_a_key_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Folder(tmp_path)
    _write(folder.default, ACCOUNT)
    _write(folder.folder / "a.yml", ACCOUNT.replace("verysecret", "othersecret"))
    rules = load_rules(folder)
    assert rules.accounts["RocketMQ"].secret_key == "othersecret"
    assert rules.path_of["RocketMQ"] == str(folder.folder / "a.yml")
    assert "access key RocketMQ" in caplog.text
    assert "secret" not in caplog.text.replace("access", "")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with pytest.raises(ConfigError, match="cannot read"):
        load(folder.default)
    os.mkfifo(_write(folder.default, "").with_suffix(".fifo"))
    with pytest.raises(ConfigError, match="cannot read"):
        load(folder.default.parent)  # a folder


@pytest.mark.parametrize("change", ["content", "replaced", "new", "gone"])
def test_a_fingerprint_tells_every_change(tmp_path: Path, change: str) -> None:
    folder = Folder(tmp_path)
    _write(folder.default, ACCOUNT)
    other = _write(folder.folder / "a.yml", "")
    before = folder.fingerprint()
    assert folder.fingerprint() == before
    if change == "content":
        folder.default.write_text(ACCOUNT + "# \n")
    elif change == "replaced":  # with as many bytes, and the same time
        kept = folder.default.stat().st_mtime_ns
        beside = _write(tmp_path / "beside", ACCOUNT)
        os.utime(beside, ns=(kept, kept))
        beside.rename(folder.default)
    elif change == "new":
        _write(folder.folder / "b.yml", "")
    else:
        other.unlink()
    assert folder.fingerprint() != before
