"""Changes of access files: what they say afterwards, and what stays of their text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.auth.plain import changes
from pyrmq.auth.plain.accounts import access_file
from pyrmq.auth.plain.document import parse
from pyrmq.auth.plain.editing import (
    with_account,
    with_version,
    with_white_list,
    without_account,
)
from pyrmq.auth.plain.files import Folder
from pyrmq.auth.plain.rules import load_rules
from pyrmq.errors import ConfigError
from pyrmq.model.topic import DataVersion

TEXT = """\
# ours
globalWhiteRemoteAddresses:   # from here
  - 10.10.103.*

accounts:
  # the first
  - accessKey: RocketMQ
    secretKey: 12345678
    topicPerms:
      - topicA=DENY
  # the second
  - accessKey: rocketmq2   # an administrator
    secretKey: 12345678
    admin: true
# the end
"""
NEW: dict[str, Any] = {"accessKey": "another", "secretKey": "00000001", "topicPerms": ["a=PUB|SUB"]}


def test_a_new_account_stands_behind_the_last_one() -> None:
    edited = with_account(TEXT, "another", NEW)
    assert not edited.lost
    added = "  - accessKey: another\n    secretKey: '00000001'\n    topicPerms:\n    - a=PUB|SUB\n"
    assert edited.text == TEXT.replace("# the end", added + "# the end")


def test_an_account_that_changes_leaves_the_others() -> None:
    edited = with_account(TEXT, "RocketMQ", {**NEW, "accessKey": "RocketMQ", "admin": "true"})
    assert not edited.lost
    kept = (
        "# ours",
        "# from here",
        "# the first",
        "# the second",
        "# an administrator",
        "# the end",
    )
    assert all(comment in edited.text for comment in kept)
    first = access_file("f", parse(edited.text)).accounts[0]
    assert (first.access_key, first.secret_key, first.admin) == ("RocketMQ", "00000001", True)


def test_comments_that_are_lost_are_said_to_be() -> None:
    edited = with_account(TEXT, "rocketmq2", {**NEW, "accessKey": "rocketmq2"})
    assert edited.lost
    assert "# an administrator" not in edited.text
    assert "# the second" in edited.text


def test_an_account_is_taken_out() -> None:
    edited = without_account(TEXT, "RocketMQ")
    assert edited is not None
    assert not edited.lost
    account = (
        "  - accessKey: RocketMQ\n    secretKey: 12345678\n    topicPerms:\n      - topicA=DENY\n"
    )
    assert edited.text == TEXT.replace(account, "")
    again = without_account(edited.text, "rocketmq2")
    assert again is not None
    assert access_file("f", parse(again.text)).accounts == ()
    assert without_account(TEXT, "nobody") is None


def test_a_white_list_and_a_version() -> None:
    edited = with_white_list(TEXT, ["1.2.3.*", "::1"])
    assert [p.text for p in access_file("f", parse(edited.text)).white] == ["1.2.3.*", "::1"]
    assert edited.text.startswith("# ours\nglobalWhiteRemoteAddresses:")
    versioned = with_version(TEXT, DataVersion(5, 6))
    assert versioned.text == TEXT + "dataVersion:\n- counter: 6\n  timestamp: 5\n"
    again = with_version(versioned.text, DataVersion(7, 8))
    assert again.text == TEXT + "dataVersion:\n- counter: 8\n  timestamp: 7\n"
    assert not again.lost


@pytest.mark.parametrize(
    "text",
    [
        "", "accounts:\n", "accounts: []\n", "accounts: ~", "{}", "{accounts: []} # c\n",
        "accounts: [{accessKey: RocketMQ, secretKey: 12345678}]\n",
        "accounts:\n- {accessKey: RocketMQ, secretKey: 12345678}\n",
        "accounts:\n-   accessKey: RocketMQ\n    secretKey: 12345678",
        "accounts:\n-\n  accessKey: RocketMQ\n  secretKey: 12345678\n",
        "---\naccounts:\n- accessKey: RocketMQ\n  secretKey: 12345678\n...\n",
        "  accounts:\n  - accessKey: RocketMQ\n    secretKey: 12345678\n",
        "accounts:\r\n- accessKey: RocketMQ\r\n  secretKey: 12345678\r\n",
        "'accounts':\n- 'accessKey': \"RocketMQ\"\n  secretKey: 12345678\ndataVersion:",
    ],
)  # fmt: skip
def test_every_way_to_write_a_file_can_be_changed(text: str) -> None:
    had = {a.access_key for a in access_file("f", parse(text)).accounts}
    edited = with_version(with_account(text, "another", NEW).text, DataVersion(1, 2))
    found = access_file("f", parse(edited.text))
    assert {a.access_key for a in found.accounts} == had | {"another"}
    assert found.version == DataVersion(1, 2)
    for key in had | {"another"}:
        gone = without_account(edited.text, key)
        assert gone is not None
        left = {a.access_key for a in access_file("f", parse(gone.text)).accounts}
        assert left == (had | {"another"}) - {key}


KEYS = st.sampled_from([f"account{i}" for i in range(4)])
SECRETS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=7)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, SECRETS),
        st.tuples(st.just("delete"), KEYS, st.just("")),
        st.tuples(st.just("white"), st.just(""), st.just("")),
    ),
    max_size=12,
)


@given(st.sampled_from([TEXT, "", "accounts: []\n", "{}"]), STEPS)
def test_many_changes_say_what_a_dict_says(text: str, steps: list[tuple[str, str, str]]) -> None:
    expected = {a.access_key: a.secret_key for a in access_file("f", parse(text)).accounts}
    for number, (what, key, secret) in enumerate(steps):
        if what == "set":
            text = with_account(text, key, {"accessKey": key, "secretKey": secret}).text
            expected[key] = secret
        elif what == "delete":
            gone = without_account(text, key)
            assert (gone is not None) == (expected.pop(key, None) is not None)
            text = text if gone is None else gone.text
        else:
            text = with_white_list(text, [f"10.0.0.{number}"]).text
        text = with_version(text, DataVersion(number, number)).text
        found = access_file("f", parse(text))
        assert {a.access_key: a.secret_key for a in found.accounts} == expected
        assert found.version.counter == number


@pytest.mark.parametrize("secret", ["12345678", "1e10000", "1_000_000", "12:30:45", "-.1234567"])
def test_what_looks_like_a_number_is_quoted(secret: str) -> None:
    """Java's reader has more numbers than Python's: 1e10000 would be Infinity there."""
    edited = with_account("", "another", {"accessKey": "another", "secretKey": secret})
    assert f"secretKey: '{secret}'\n" in edited.text + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.folder.mkdir(parents=True)
    made.default.write_text(TEXT)
    return made


def test_a_change_is_written_where_the_account_is(folder: Folder) -> None:
    other = folder.folder / "a.yml"
    other.write_text("accounts:\n- accessKey: elsewhere\n  secretKey: 12345678\n  admin: true\n")
    other.chmod(0o640)
    assert not changes.set_account(
        folder, load_rules(folder), {"accessKey": "elsewhere", "topicPerms": ["t=SUB"]}
    )
    rules = load_rules(folder)
    changed = rules.accounts["elsewhere"]
    assert (changed.secret_key, changed.admin, list(changed.topics)) == ("12345678", True, ["t"])
    assert rules.path_of["elsewhere"] == str(other)
    assert other.stat().st_mode & 0o777 == 0o640
    assert folder.default.read_text() == TEXT
    assert {f.path: f.version.counter for f in rules.files} == {
        str(other): 1, str(folder.default): 0,
    }  # fmt: skip
    changes.delete_account(folder, rules, "elsewhere")
    assert "elsewhere" not in load_rules(folder).accounts
    assert not list(folder.folder.glob(".*"))


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.folder.mkdir(parents=True)
    (folder.folder / "a.yml").write_text("")
    changes.set_account(folder, load_rules(folder), NEW)
    assert folder.default.stat().st_mode & 0o777 == 0o600
    assert list(load_rules(folder).accounts) == ["another"]


def test_a_link_stays_a_link(folder: Folder, tmp_path: Path) -> None:
    real = tmp_path / "real.yml"
    folder.default.rename(real)
    folder.default.symlink_to(real)
    changes.set_account(folder, load_rules(folder), NEW)
    assert folder.default.is_symlink()
    assert "another" in real.read_text()


@pytest.mark.parametrize(
    "values",
    [
        {"accessKey": "another"}, {"accessKey": "short", "secretKey": "12345678"},
        {"accessKey": "another", "secretKey": "******"}, {**NEW, "topicPerms": ["a=ALL"]},
        {**NEW, "whiteRemoteAddress": "host"}, {"secretKey": "12345678"},
    ],
)  # fmt: skip
def test_what_cannot_be_is_not_written(folder: Folder, values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as error:
        changes.set_account(folder, load_rules(folder), values)
    assert "12345678" not in str(error.value)
    assert folder.default.read_text() == TEXT
    assert sorted(os.listdir(folder.default.parent)) == ["acl", "plain_acl.yml"]


def test_a_white_list_is_written_to_access_files_only(folder: Folder, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger.yml"
    stranger.write_text("accounts: []\n")
    for path in (str(stranger), "/etc/passwd", str(folder.folder / "new.yml")):
        with pytest.raises(ConfigError, match="none of the access files"):
            changes.set_white_list(folder, ["10.0.0.1"], path)
    assert stranger.read_text() == "accounts: []\n"
    with pytest.raises(ConfigError, match="number 1"):
        changes.set_white_list(folder, ["everywhere"], "")
    changes.set_white_list(folder, ["10.0.0.1"], str(folder.default))
    assert [pattern.text for pattern in load_rules(folder).white] == ["10.0.0.1"]


def test_a_file_that_somebody_else_changes_is_left_alone(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def meanwhile(fd: int) -> None:
        folder.default.write_text(TEXT + "# mine\n")
        fsync(fd)

    rules = load_rules(folder)
    monkeypatch.setattr(os, "fsync", meanwhile)
    with pytest.raises(ConfigError, match="changed by somebody else"):
        changes.set_account(folder, rules, NEW)
    assert folder.default.read_text() == TEXT + "# mine\n"


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_failed_write_leaves_the_old_file(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    rules = load_rules(folder)
    monkeypatch.setattr(os, call, full)
    with pytest.raises(ConfigError, match="No space left"):
        changes.set_account(folder, rules, NEW)
    assert folder.default.read_text() == TEXT
    assert sorted(os.listdir(folder.default.parent)) == ["acl", "plain_acl.yml"]


def test_what_a_crash_left_is_no_access_file(folder: Folder) -> None:
    """A crash before the rename leaves a half file beside the old one."""
    left = folder.default.with_name(".plain_acl.yml.new")
    left.write_text("accounts:\n- accessKey: half-a-")
    rules = load_rules(folder)
    assert list(rules.accounts) == ["RocketMQ", "rocketmq2"]
    changes.set_account(folder, rules, NEW)
    assert not left.exists()
    assert "another" in load_rules(folder).accounts


def test_a_new_account_without_a_secret_key_says_what_is_missing(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    (tmp_path / "conf").mkdir()
    folder.default.write_text(TEXT)
    with pytest.raises(ConfigError, match="'newcomer' is new: give it a secretKey, of 7 to 1024"):
        changes.set_account(folder, load_rules(folder), {"accessKey": "newcomer"})
    assert folder.default.read_text() == TEXT
