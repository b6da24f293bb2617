"""Users and access lists: how they are changed, and kept."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from pyrmq.auth import secret_file
from pyrmq.auth.access import Access
from pyrmq.auth.audit import Asker
from pyrmq.auth.failures import FREE, MAX_KEY, MAX_ROWS, Failures, source_of
from pyrmq.auth.model import (
    Acl,
    Action,
    Decision,
    PolicyEntry,
    PolicyType,
    Resource,
    User,
    UserChange,
    UserStatus,
    UserType,
)
from pyrmq.auth.users import MAX_USERS
from pyrmq.errors import (
    ConfigError,
    NoPermissionError,
    ResponseError,
    ServiceNotAvailableError,
)

SUPER = Asker("root", "10.0.0.1:5", True)
ADMIN = Asker("admin", "10.0.0.1:5", False)
NEW_SUPER = UserChange("pw", UserType.SUPER)


def opened(folder: Path) -> Access:
    return Access(folder / "users.json", folder / "acls.json")


@pytest.fixture
def access(tmp_path: Path) -> Access:
    made = opened(tmp_path)
    made.ensure_super("root", "of-root")
    return made


def acl(name: str, *resources: str) -> Acl:
    entries = tuple(
        PolicyEntry(Resource.parse(r), frozenset({Action.PUB}), Decision.ALLOW) for r in resources
    )
    return Acl(f"User:{name}", entries)


async def test_what_was_made_is_there_after_a_restart(access: Access, tmp_path: Path) -> None:
    await access.create_user(SUPER, "alice", UserChange("secret"))
    await access.update_user(SUPER, "alice", UserChange(status=UserStatus.DISABLE))
    await access.update_acl(SUPER, "createAcl", acl("alice", "Topic:a", "Topic:b*"))
    again = opened(tmp_path)
    assert again.users.all() == access.users.all()
    alice = User("alice", "secret", UserType.NORMAL, UserStatus.DISABLE)
    assert again.users.get("alice") == alice
    assert again.users.keys() == {"root": "of-root"}
    assert again.acls.all() == [acl("alice", "Topic:a", "Topic:b*")]
    await access.delete_user(SUPER, "alice")
    again = opened(tmp_path)
    assert (again.users.get("alice"), again.acls.all()) == (None, [])


async def test_files_are_for_their_owner(access: Access, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        await access.create_user(SUPER, "alice", UserChange("secret"))
        await access.update_acl(SUPER, "createAcl", acl("alice", "*"))
    finally:
        os.umask(before)
    files = {entry.name: entry.stat().st_mode & 0o777 for entry in os.scandir(tmp_path)}
    assert files == {"acls.json": 0o600, "users.json": 0o600}  # and no copy


def test_a_file_that_others_may_read_stops_the_start(access: Access, tmp_path: Path) -> None:
    (tmp_path / "users.json").chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        opened(tmp_path)


ROW = '{"password":"geheim","userType":"Normal","userStatus":"enable"}'


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "{}", '{"users":7}', f'{{"users":{{"a b":{ROW}}}}}', '{"users":{"a":7}}',
        '{"users":{"a":{"password":"geheim"}}}', f'{{"users":{{"a":{ROW}',
        '{"users":{"a":{"password":"geheim","userType":"Root","userStatus":"enable"}}}',
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_meant_stops_the_start(text: str, tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="restore it") as raised:
        opened(tmp_path)
    assert str(path) in str(raised.value)
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize(
    "text", ["{", "{}", '{"acls":{"alice":{}}}', '{"acls":{"User:alice":{"policies":[]}}}']
)
def test_lists_that_cannot_be_meant_stop_the_start(text: str, tmp_path: Path) -> None:
    path = tmp_path / "acls.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"acls\.json"):
        opened(tmp_path)


async def test_a_change_that_cannot_be_saved_does_not_count(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, value: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(secret_file, "save", full)
    with pytest.raises(ServiceNotAvailableError, match="No space"):
        await access.create_user(SUPER, "alice", UserChange("secret"))
    assert access.users.get("alice") is None


@pytest.mark.parametrize("call", ["os.replace", "os.fsync", "os.open"])
async def test_a_write_that_breaks_off_leaves_the_file(
    call: str, access: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **more: object) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(call, broken)
        with pytest.raises(ServiceNotAvailableError):
            await access.create_user(SUPER, "alice", UserChange("secret"))
    assert opened(tmp_path).users.get("alice") is None
    await access.create_user(SUPER, "alice", UserChange("secret"))
    assert opened(tmp_path).users.get("alice") == User("alice", "secret")


def refusal(code: int, match: str) -> pytest.RaisesExc[ResponseError]:
    return pytest.raises(ResponseError, match=match, check=lambda error: error.code == code)


async def test_rules_of_users(access: Access) -> None:
    await access.create_user(SUPER, "admin", UserChange("pw"))
    with refusal(16, "existed"):
        await access.create_user(SUPER, "admin", UserChange("pw"))
    with refusal(16, "password can not be blank"):
        await access.create_user(SUPER, "bob", UserChange())
    with refusal(16, "username is illegal"):
        await access.create_user(SUPER, "b b", UserChange("pw"))
    with refusal(16, "not exist"):
        await access.update_user(SUPER, "bob", UserChange("pw"))
    await access.delete_user(SUPER, "bob")  # as in RocketMQ


async def test_only_super_users_touch_super_users(access: Access) -> None:
    with refusal(1, "only be create by super user"):
        await access.create_user(ADMIN, "bob", NEW_SUPER)
    await access.create_user(ADMIN, "bob", UserChange("pw"))
    with refusal(1, "only be update by super user"):
        await access.update_user(ADMIN, "bob", NEW_SUPER)
    with refusal(16, "only be update by super user"):
        await access.update_user(ADMIN, "root", UserChange("pw"))
    with refusal(16, "only be update by super user"):
        await access.delete_user(ADMIN, "root")
    await access.update_user(SUPER, "bob", NEW_SUPER)


async def test_the_last_super_user_stays(access: Access) -> None:
    changes = (UserChange(type=UserType.NORMAL), UserChange(status=UserStatus.DISABLE))
    for change in changes:
        with refusal(16, "last super user"):
            await access.update_user(SUPER, "root", change)
    with refusal(16, "last super user"):
        await access.delete_user(SUPER, "root")
    await access.update_user(SUPER, "root", UserChange("new"))
    await access.create_user(SUPER, "second", NEW_SUPER)
    await access.update_user(SUPER, "second", UserChange(status=UserStatus.DISABLE))
    with refusal(16, "last super user"):
        await access.delete_user(SUPER, "root")
    await access.delete_user(SUPER, "second")
    await access.create_user(SUPER, "third", NEW_SUPER)
    await access.delete_user(SUPER, "root")


async def test_rules_of_lists(access: Access) -> None:
    with refusal(16, "subject of User:bob is not exist"):
        await access.update_acl(SUPER, "createAcl", acl("bob", "*"))
    await access.create_user(SUPER, "bob", UserChange("pw"))
    with refusal(16, "acl is not exist"):
        await access.delete_acl(SUPER, "User:bob", PolicyType.CUSTOM, None)
    await access.update_acl(SUPER, "createAcl", acl("bob", "Topic:a"))
    await access.update_acl(SUPER, "createAcl", acl("bob", "Topic:b"))
    assert access.acl_of("User:bob") == acl("bob", "Topic:a", "Topic:b")
    await access.delete_acl(SUPER, "User:bob", PolicyType.CUSTOM, Resource.parse("Topic:a"))
    assert access.acl_of("User:bob") == acl("bob", "Topic:b")
    await access.delete_acl(SUPER, "User:bob", PolicyType.CUSTOM, Resource.parse("Topic:b"))
    assert access.acl_of("User:bob") is None
    with refusal(16, "subject is not exist"):
        access.acl_of("User:carol")


async def test_users_are_bounded(access: Access) -> None:
    many = {f"u{n}": User(f"u{n}", "pw") for n in range(MAX_USERS - 1)}
    access.users.take({**many, "root": User("root", "pw", UserType.SUPER)})
    with pytest.raises(NoPermissionError, match="no more are taken"):
        await access.create_user(SUPER, "one-more", UserChange("pw"))
    await access.update_user(SUPER, "u1", UserChange("other"))


async def test_entries_of_all_users_are_bounded(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrmq.auth.acls.MAX_ALL_ENTRIES", 3)
    await access.create_user(SUPER, "alice", UserChange("pw"))
    await access.create_user(SUPER, "bob", UserChange("pw"))
    await access.update_acl(SUPER, "createAcl", acl("alice", "Topic:a", "Topic:b"))
    with refusal(16, "at most 3 entries"):
        await access.update_acl(SUPER, "createAcl", acl("bob", "Topic:a", "Topic:b"))
    await access.update_acl(SUPER, "createAcl", acl("bob", "Topic:a"))


async def test_what_is_decided_ends_with_each_change(access: Access) -> None:
    seen: list[int] = []
    access.on_changed.append(lambda: seen.append(1))
    await access.create_user(SUPER, "bob", UserChange("pw"))
    await access.update_user(SUPER, "bob", UserChange("new"))
    await access.update_acl(SUPER, "createAcl", acl("bob", "*"))
    await access.delete_acl(SUPER, "User:bob", PolicyType.CUSTOM, None)
    await access.delete_user(SUPER, "bob")
    assert len(seen) == 5


async def test_the_audit_log_says_who_changed_what(
    access: Access, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "pyrmq.audit"):
        await access.create_user(SUPER, "bob", UserChange("geheim"))
        await access.update_user(SUPER, "bob", UserChange("geheimer", status=UserStatus.DISABLE))
        await access.update_acl(SUPER, "createAcl", acl("bob", "Topic:a"))
        await access.delete_user(SUPER, "bob")
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "root at 10.0.0.1:5: createUser bob: before -, after type=Normal,status=enable",
        "root at 10.0.0.1:5: updateUser (password) bob: before type=Normal,status=enable, after "
        "type=Normal,status=disable",
        'root at 10.0.0.1:5: createAcl User:bob: before -, after [{"entries":[{"actions":["Pub"],'
        '"decision":"Allow","resource":"Topic:a"}],"policyType":"Custom"}]',
        'root at 10.0.0.1:5: deleteAcl User:bob: before [{"entries":[{"actions":["Pub"],'
        '"decision":"Allow","resource":"Topic:a"}],"policyType":"Custom"}], after -',
        "root at 10.0.0.1:5: deleteUser bob: before type=Normal,status=disable, after -",
    ]


def test_a_user_of_the_configuration_is_made_once(access: Access, tmp_path: Path) -> None:
    access.ensure_super("root", "another")
    assert opened(tmp_path).users.get("root") == User("root", "of-root", UserType.SUPER)


async def test_failures_are_bounded_and_forgotten(mock_clock: object) -> None:
    failures = Failures()
    for number in range(MAX_ROWS + 50):
        failures.failed("10.0.0.5:1", f"u{number}")
    assert len(failures) <= MAX_ROWS
    assert failures.failed("10.0.0.5:1", "alice") > 0
    assert failures.refused_for("10.0.0.5:1", "alice") == 0  # it failed once only


async def test_names_that_strangers_state_are_kept_in_part(mock_clock: object) -> None:
    failures = Failures()
    for _ in range(FREE + 1):
        failures.failed("10.0.0.5:1", "x" * 100_000)
    assert all(len(name) <= MAX_KEY for _, name in failures._rows)
    assert failures.refused_for("10.0.0.5:1", "x" * 100_000) > 0
    failures.succeeded("10.0.0.5:1", "x" * 100_000)
    assert failures.refused_for("10.0.0.5:1", "x" * 100_000) == 0


async def test_failures_count_until_one_signs_right(mock_clock: object) -> None:
    failures = Failures()
    for _ in range(FREE + 1):
        failures.failed("10.0.0.5:1", "alice")
    assert failures.refused_for("10.0.0.5:2", "alice") > 0
    assert failures.refused_for("10.0.0.5:2", "bob") == 0
    failures.succeeded("10.0.0.5:3", "alice")
    assert failures.refused_for("10.0.0.5:2", "alice") == 0


@pytest.mark.parametrize(
    ("peer", "source"),
    [("10.0.0.5:1", "10.0.0.5"), ("[::ffff:10.0.0.5]:1", "10.0.0.5"),
     ("[fd00:1:2:3:4:5:6:7]:1", "fd00:1:2:3::"), ("unix", "unix")],
)  # fmt: skip
def test_addresses_that_one_owner_has(peer: str, source: str) -> None:
    assert source_of(peer) == source
