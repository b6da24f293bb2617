"""Users and access lists from one broker to another, in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.errors import ConfigError
from pyrmq.net.address import format_address
from tests.auth.e2e.test_access_requests import ON, admin_of
from tests.support.fixtures import Serve
from tests.support.mqadmin import admin as run_admin

pytestmark = pytest.mark.usefixtures("deadline")

ENTRY = Entry("Topic:orders*", ("Pub",), ("10.0.0.0/8",), "Allow", "Custom")
DEFAULT = Entry("*", ("All",), (), "Deny", "Default")
SECRET = "r00t-secret"


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYRMQ_ACCESS_KEY", "root")
    monkeypatch.setenv("PYRMQ_SECRET_KEY", SECRET)


async def test_from_one_broker_to_another(serve: Serve, tmp_path: Path, as_root: None) -> None:
    async with serve(**ON) as source, serve(**ON) as target, admin_of(source, "root", SECRET) as a:
        here, there = (format_address(one.broker_address) for one in (source, target))
        await a.users.create(User("alice", "geheim"), broker=here)
        await a.users.update(User("alice", status="disable"), broker=here)
        await a.acls.create(Acl("User:alice", (ENTRY, DEFAULT)), broker=here)
        file = tmp_path / "access.json"
        for more, password in (((), None), (("--with-passwords",), "geheim")):
            done = await run_admin(
                source.namesrv, "auth", "export", "-b", here, "-f", str(file), *more
            )
            assert done.code == 0, done.err
            assert "geheim" not in done.out
            assert file.stat().st_mode & 0o777 == 0o600
            found = json.loads(file.read_text())
            assert found["users"][0].get("password") == password
            assert [user["username"] for user in found["users"]] == ["alice", "root"]
            if password is None:  # a user cannot be made without one
                done = await run_admin(
                    source.namesrv, "auth", "import", "-b", there, "-f", str(file)
                )
                assert done.code == 3
                assert "export with passwords" in done.out + done.err
        done = await run_admin(source.namesrv, "auth", "import", "-b", there, "-f", str(file))
        assert done.code == 0, done.err
        (user,) = await a.users.get("alice", broker=there)
        assert user.value == User("alice", "geheim", "Normal", "disable")
        (acl,) = await a.acls.get("User:alice", broker=there)
        assert acl.value == Acl("User:alice", (ENTRY, DEFAULT))


async def test_what_is_no_export_changes_nothing(serve: Serve) -> None:
    async with serve(**ON) as running, admin_of(running, "root", SECRET) as admin:
        at = format_address(running.broker_address)
        user = {"username": "alice", "password": "x"}
        for exported in (
            {"users": 7}, {"users": [user, 7]}, {"users": [user], "acls": {}},
            {"users": [user], "acls": [{"subject": "User:alice"}]}, {"users": [user, {}]},
        ):  # fmt: skip
            with pytest.raises(ConfigError):
                await admin.access.load(at, exported)
        (found,) = await admin.users.list(broker=at)
        assert [one.name for one in found.value or []] == ["root"]


async def test_a_file_that_is_no_export_says_which_to_give(
    serve: Serve, tmp_path: Path, as_root: None
) -> None:
    """Not what to do about a file of a server."""
    file = tmp_path / "other.conf"
    file.touch(0o600)
    file.write_text("listenPort=1\n")
    async with serve(**ON) as running:
        at = format_address(running.broker_address)
        done = await run_admin(running.namesrv, "auth", "import", "-b", at, "-f", str(file))
    assert done.code != 0
    assert "`pyrmq admin auth export` wrote" in done.err
    assert "restore" not in done.err
