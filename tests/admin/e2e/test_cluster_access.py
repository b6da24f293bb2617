"""Users and access lists of a cluster: `export cluster`, `cluster diff` and `cluster apply`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.net.address import format_address
from pyrmq.server import Running
from tests.admin.e2e.cluster_files import HEAD, applied, changes, exported
from tests.auth.e2e.test_access_requests import ON, admin_of
from tests.support.fixtures import Serve
from tests.support.mqadmin import admin

pytestmark = pytest.mark.usefixtures("deadline")

SECRET = "r00t-secret"
ORDERS = Entry("Topic:orders", ("Pub",), (), "Allow", "Custom")
MAILS = Entry("Topic:mails", ("Pub", "Sub"), ("10.0.0.0/8",), "Allow", "Custom")
REST = Entry("*", ("All",), (), "Deny", "Default")
WANTED = """
users:
  root: {userType: Super}
  alice: {userStatus: disable}
  bob: {passwordEnv: BOBS_PASSWORD}
  carol: {}
acls:
  "User:alice":
    policies:
    - entries:
      - {resource: "Topic:mails", actions: [Sub], decision: Allow}
"""


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYRMQ_ACCESS_KEY", "root")
    monkeypatch.setenv("PYRMQ_SECRET_KEY", SECRET)


async def _changes(running: Running, file: Path, *words: str) -> list[tuple[str, ...]]:
    rows = await changes(running.namesrv, file, *words)
    return [(r["kind"], r["name"], r["change"], r["field"]) for r in rows]


async def test_what_is_exported_is_applied_elsewhere(serve: Serve, tmp_path: Path) -> None:
    async with serve(**ON) as source, admin_of(source, "root", SECRET) as tools:
        here = format_address(source.broker_address)
        await tools.users.create(User("alice", "geheim"), broker=here)
        await tools.acls.create(Acl("User:alice", (ORDERS, MAILS, REST)), broker=here)
        ran = await exported(source.namesrv, tmp_path)
        assert "passwords of users are not in the file" in ran.err
        file = tmp_path / "cluster.yaml"
        text = file.read_text()
        assert "geheim" not in text
        assert SECRET not in text
        assert "alice: {userType: Normal, userStatus: enable}" in text
        assert await _changes(source, file, "--prune") == []
    async with serve(**ON) as target, admin_of(target, "root", SECRET) as tools:
        there = format_address(target.broker_address)
        await tools.users.create(User("alice", "other"), broker=there)
        ran = await applied(target.namesrv, file)
        assert ran.code == 0, ran.err
        (found,) = await tools.acls.get("User:alice", broker=there)
        assert found.value is not None
        assert set(found.value.entries) == {ORDERS, MAILS, REST}
        (user,) = await tools.users.get("alice", broker=there)
        assert user.value == User("alice", "other", "Normal", "enable"), "its password stays"
        assert await _changes(target, file) == []


async def test_apply_makes_it_so(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOBS_PASSWORD", "hush")
    file = tmp_path / "wanted.yaml"
    file.write_text(HEAD + WANTED)
    async with serve(**ON) as running, admin_of(running, "root", SECRET) as tools:
        at = format_address(running.broker_address)
        await tools.users.create(User("alice", "geheim"), broker=at)
        await tools.users.create(User("old", "geheim"), broker=at)
        for subject in ("User:alice", "User:old"):
            await tools.acls.create(Acl(subject, (ORDERS, MAILS, REST)), broker=at)
        before = await _changes(running, file)
        assert before == [
            ("user", "alice", "change", "userStatus"),
            ("user", "bob", "create", ""),
            ("user", "carol", "create", ""),
            ("user", "old", "keep", ""),
            ("access list", "User:alice", "change", "Custom Topic:mails"),
            ("access list", "User:alice", "change", "Custom Topic:orders"),
            ("access list", "User:alice", "change", "Default *"),
            ("access list", "User:old", "keep", ""),
        ]
        dry = await applied(running.namesrv, file, "--dry-run")
        assert dry.code == 0
        assert "user carol is new, and the file does not say where its password is" in dry.out
        assert "user bob is new" not in dry.out
        assert await _changes(running, file) == before, "a dry run changes nothing"
        ran = await applied(running.namesrv, file)
        assert ran.code == 3, "carol has no password"
        assert "the file has no password for the new user carol" in ran.out + ran.err
        (bob,) = await tools.users.get("bob", broker=at)
        assert bob.value == User("bob", "hush", "Normal", "enable")
        assert "hush" not in ran.out + ran.err + dry.out + dry.err
        (alice,) = await tools.users.get("alice", broker=at)
        assert alice.value == User("alice", "geheim", "Normal", "disable")
        (found,) = await tools.acls.get("User:alice", broker=at)
        assert found.value is not None
        assert found.value.entries == (Entry("Topic:mails", ("Sub",), (), "Allow", "Custom"),)
        left = await _changes(running, file)
        assert left == [
            ("user", "carol", "create", ""),
            ("user", "old", "keep", ""),
            ("access list", "User:old", "keep", ""),
        ]
        await tools.users.create(User("carol", "x"), broker=at)
        ran = await applied(running.namesrv, file, "--prune")
        assert ran.code == 0, ran.err
        assert await _changes(running, file) == []
        (users,) = await tools.users.list(broker=at)
        assert [user.name for user in users.value or []] == ["alice", "bob", "carol", "root"]


async def test_prune_spares_who_applies_and_super_users(serve: Serve, tmp_path: Path) -> None:
    """A broker signs what it asks other servers with a super user."""
    file = tmp_path / "wanted.yaml"
    file.write_text(HEAD + "users: {}\nacls: {}\n")
    async with serve(**ON) as running, admin_of(running, "root", SECRET) as tools:
        at = format_address(running.broker_address)
        await tools.users.create(User("inner", "x", "Super"), broker=at)
        await tools.users.create(User("alice", "x"), broker=at)
        for name in ("root", "inner", "alice"):
            await tools.acls.create(Acl(f"User:{name}", (ORDERS,)), broker=at)
        ran = await applied(running.namesrv, file, "--prune")
        assert ran.code == 0, ran.err
        assert "user root signs these requests: it is not deleted" in ran.out
        assert "super user inner is not deleted" in ran.out
        (users,) = await tools.users.list(broker=at)
        assert [user.name for user in users.value or []] == ["inner", "root"]
        (acls,) = await tools.acls.list(broker=at)
        assert [acl.subject for acl in acls.value or []] == ["User:root"]


async def test_a_broker_that_keeps_no_users(embedded: Running, tmp_path: Path) -> None:
    file = tmp_path / "wanted.yaml"
    file.write_text(HEAD + WANTED)
    ran = await admin(embedded.namesrv, "cluster", "diff", str(file))
    assert ran.code == 3
    assert "broker broker-a keeps no users: set authenticationMetadataProvider" in ran.err
    assert "broker broker-a keeps no access lists: set authorizationMetadataProvider" in ran.err
    await exported(embedded.namesrv, tmp_path)
    text = (tmp_path / "cluster.yaml").read_text()
    assert "users" not in text
    assert "acls" not in text


async def test_slaves_get_what_their_master_gets(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each replica keeps users of its own."""
    monkeypatch.setenv("BOBS_PASSWORD", "hush")
    file = tmp_path / "wanted.yaml"
    file.write_text(
        HEAD + "users: {root: {userType: Super}, bob: {passwordEnv: BOBS_PASSWORD}}\n"
        "acls: {'User:bob': {policies: [{entries: "
        "[{resource: 'Topic:t', actions: [Pub], decision: Allow}]}]}}\n"
    )
    inner = json.dumps({"accessKey": "root", "secretKey": SECRET})
    keys = {**ON, "inner_client_authentication_credentials": inner}
    async with serve(**keys) as master:
        slave_keys = {
            "broker_role": "SLAVE", "broker_id": 1, "namesrv_addr": master.namesrv,
            "ha_master_address": "",
        }  # fmt: skip
        async with serve(**keys, **slave_keys) as slave, admin_of(master, "root", SECRET) as tools:
            ran = await applied(master.namesrv, file)
            assert ran.code == 0, ran.err
            for one in (master, slave):
                at = format_address(one.broker_address)
                (bob,) = await tools.users.get("bob", broker=at)
                assert bob.value == User("bob", "hush", "Normal", "enable")
                (found,) = await tools.acls.get("User:bob", broker=at)
                assert found.value is not None
                assert found.value.entries[0].resource == "Topic:t"
