"""Access control of a running broker and of a name server, through Admin and single requests."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from pyrmq.admin import Admin
from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.errors import ConfigError, NoPermissionError, ResponseError
from pyrmq.model.codes import RequestCode as Code
from pyrmq.namesrv import NameServer
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.net.address import format_address
from pyrmq.net.client.credentials import Credentials
from pyrmq.server import Running
from tests.support.fixtures import Serve

pytestmark = pytest.mark.usefixtures("deadline")

ROOT = Credentials("root", "r00t-secret")
USERS = {
    "authentication_metadata_provider": "LocalAuthenticationMetadataProvider",
    "authorization_metadata_provider": "LocalAuthorizationMetadataProvider",
}
ON: dict[str, Any] = {
    **USERS,
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": json.dumps({"username": "root", "password": "r00t-secret"}),
}


def broker_of(server: Running) -> str:
    return format_address(server.broker_address)


@pytest.fixture
async def guarded(serve: Serve) -> AsyncIterator[Running]:
    async with serve(**ON) as running:
        yield running


@asynccontextmanager
async def admin_of(server: Running, name: str, password: str) -> AsyncIterator[Admin]:
    async with Admin(server.namesrv, credentials=Credentials(name, password)) as made:
        yield made


async def refused(admin: Admin, address: str, code: int, **ext: str) -> ResponseError:
    with pytest.raises(ResponseError) as raised:
        await admin.link.ask(address, code, ext)
    return raised.value


async def test_users_and_lists_of_a_broker(guarded: Running) -> None:
    at = broker_of(guarded)
    async with admin_of(guarded, "root", "r00t-secret") as root:
        await root.users.create(User("alice", "secret"), broker=at)
        await root.users.create(User("admin", "hush", type="Normal"), broker=at)
        (listed,) = await root.users.list(broker=at)
        assert listed.value == [
            User("admin", "hush", "Normal", "enable"),
            User("alice", "secret", "Normal", "enable"),
            User("root", "r00t-secret", "Super", "enable"),
        ]
        (found,) = await root.users.list("li", broker=at)
        assert [user.name for user in found.value or []] == ["alice"]
        (none,) = await root.users.get("nobody", broker=at)
        assert none.value is None
        entry = Entry("Topic:orders*", ("Pub", "Sub"), ("10.0.0.0/8",), "Allow", "Custom")
        await root.acls.create(Acl("User:alice", (entry,)), broker=at)
        other = Entry("Group:g", ("Sub",), (), "Deny", "Default")
        await root.acls.update(Acl("User:alice", (other,)), broker=at)
        (acl,) = await root.acls.get("User:alice", broker=at)
        assert acl.value == Acl("User:alice", (entry, other))
        (acls,) = await root.acls.list(resource="Group", broker=at)
        assert acls.value == [Acl("User:alice", (other,))]
        await root.acls.create(
            Acl("User:admin", (Entry("Cluster:*", ("Update", "Get")),)), broker=at
        )
        async with admin_of(guarded, "admin", "hush") as admin:  # passwords are not for it
            (hidden,) = await admin.users.list(broker=at)
            assert {user.password for user in hidden.value or []} == {None}
            outcomes = await admin.users.update(User("root", "taken"), broker=at)
            assert "super user" in str(outcomes[0].error)
            outcomes = await admin.users.create(User("eve", "x", "Super"), broker=at)
            assert "super user" in str(outcomes[0].error)
        await root.users.delete("alice", broker=at)
        outcome = (await root.acls.get("User:alice", broker=at))[0]
        assert isinstance(outcome.error, NoPermissionError)


async def test_who_is_refused(guarded: Running) -> None:
    at = broker_of(guarded)
    async with admin_of(guarded, "root", "r00t-secret") as root:
        await root.users.create(User("alice", "secret"), broker=at)
        await root.link.ask(at, Code.GET_BROKER_CONFIG)
        for name, password in (("alice", "wrong"), ("nobody", "secret"), ("alice", "secret")):
            async with admin_of(guarded, name, password) as other:
                assert (await refused(other, at, Code.GET_BROKER_CONFIG)).code == 16
        async with Admin(guarded.namesrv) as nobody:
            assert (await refused(nobody, at, Code.GET_BROKER_CONFIG)).code == 16
            assert (await refused(nobody, at, Code.AUTH_LIST_USER)).code == 16


async def test_a_change_counts_at_once(guarded: Running) -> None:
    at = broker_of(guarded)
    ext = {"topic": "TBW102", "queueId": "0"}
    async with (
        admin_of(guarded, "root", "r00t-secret") as root,
        admin_of(guarded, "alice", "secret") as alice,
    ):
        await root.users.create(User("alice", "secret"), broker=at)
        assert (await refused(alice, at, Code.GET_MAX_OFFSET, **ext)).code == 16
        await root.acls.create(Acl("User:alice", (Entry("Topic:*", ("Get",)),)), broker=at)
        await alice.link.ask(at, Code.GET_MAX_OFFSET, ext)
        await root.users.update(User("alice", status="disable"), broker=at)
        assert (await refused(alice, at, Code.GET_MAX_OFFSET, **ext)).code == 16
        await root.users.update(User("alice", status="enable"), broker=at)
        await alice.link.ask(at, Code.GET_MAX_OFFSET, ext)
        await root.acls.delete("User:alice", broker=at)
        assert (await refused(alice, at, Code.GET_MAX_OFFSET, **ext)).code == 16


async def test_users_outlive_a_restart(serve: Serve, tmp_path: Path) -> None:
    async with (
        serve(tmp_path / "store", **ON) as running,
        admin_of(running, "root", "r00t-secret") as a,
    ):
        await a.users.create(User("alice", "secret"), broker=broker_of(running))
    later = {**ON, "init_authentication_user": ""}
    async with (
        serve(tmp_path / "store", **later) as running,
        admin_of(running, "root", "r00t-secret") as a,
    ):
        (found,) = await a.users.get("alice", broker=broker_of(running))
        assert found.value == User("alice", "secret", "Normal", "enable")


async def test_secrets_are_not_in_the_configuration(guarded: Running) -> None:
    async with admin_of(guarded, "root", "r00t-secret") as root:
        answer = await root.link.ask(broker_of(guarded), Code.GET_BROKER_CONFIG)
        assert b"initAuthenticationUser=******" in answer.body
        assert b"r00t-secret" not in answer.body


async def test_users_can_be_made_before_authentication_is_switched_on(serve: Serve) -> None:
    async with serve(**USERS) as running, Admin(running.namesrv) as admin:
        at = broker_of(running)
        await admin.users.create(User("alice", "secret", "Super"), broker=at)
        (found,) = await admin.users.get("alice", broker=at)
        assert found.value == User("alice", None, "Super", "enable")


async def test_users_are_copied_between_brokers(guarded: Running, serve: Serve) -> None:
    async with serve(**ON) as other, admin_of(guarded, "root", "r00t-secret") as root:
        source, target = broker_of(guarded), broker_of(other)
        await root.users.create(User("alice", "secret"), broker=source)
        (outcome,) = await root.users.copy(source, target, ["alice"])
        assert outcome.error is None
        (found,) = await root.users.get("alice", broker=target)
        assert found.value == User("alice", "secret", "Normal", "enable")


async def test_nobody_could_administrate(serve: Serve) -> None:
    with pytest.raises(ConfigError, match="no super user"):
        async with serve(**{**ON, "init_authentication_user": ""}):
            pass


async def test_a_name_server_has_users_of_its_own(tmp_path: Path) -> None:
    config = NamesrvConfig(
        listen_port=0,
        bind_address="127.0.0.1",
        kv_config_path=tmp_path / "kvConfig.json",
        **ON,
    )
    server = NameServer(config)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        at = server.reachable
        place = {
            "clusterName": "C", "brokerName": "b", "brokerId": "0", "brokerAddr": "127.0.0.1:1",
            "haServerAddr": "127.0.0.1:2",
        }  # fmt: skip
        async with Admin(at, credentials=ROOT) as root, Admin(at) as nobody:
            for code in (Code.REGISTER_BROKER, Code.BROKER_HEARTBEAT, Code.UNREGISTER_BROKER):
                assert (await refused(nobody, at, code, **place)).code == 16
            kv = {"namespace": "n", "key": "k", "value": "v"}
            assert (await refused(nobody, at, Code.PUT_KV_CONFIG, **kv)).code == 16
            assert (await refused(nobody, at, Code.GET_NAMESRV_CONFIG)).code == 16
            assert (await refused(nobody, at, Code.GET_ROUTEINFO_BY_TOPIC, topic="T")).code == 16
            await root.link.ask(at, Code.PUT_KV_CONFIG, kv)
            answer = await root.link.ask(at, Code.GET_NAMESRV_CONFIG)
            assert b"r00t-secret" not in answer.body
            await root.users.create(User("broker", "pw"), broker=at)
            await root.acls.create(
                Acl("User:broker", (Entry("Cluster:C", ("Update",)),)), broker=at
            )
            async with Admin(at, credentials=Credentials("broker", "pw")) as broker:
                assert (await refused(broker, at, Code.PUT_KV_CONFIG, **kv)).code == 16
                other = {**place, "clusterName": "D"}
                assert (await refused(broker, at, Code.REGISTER_BROKER, **other)).code == 16
                body = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{}}}'
                await broker.link.ask(at, Code.REGISTER_BROKER, place, body)
                # What would take a broker out of a cluster needs the right to that one as well.
                there = {
                    **place,
                    "clusterName": "D",
                    "brokerName": "d",
                    "brokerAddr": "127.0.0.1:9",
                }
                await root.link.ask(at, Code.REGISTER_BROKER, there, body)
                for same in ("brokerName", "brokerAddr"):
                    taking = {**place, "brokerName": "e", "brokerAddr": "127.0.0.1:8"}
                    taking[same] = there[same]
                    assert (await refused(broker, at, Code.REGISTER_BROKER, **taking)).code == 16
                assert set(server.routes.clusters) == {"C", "D"}
                assert server.routes.brokers["d"].broker_addrs == {0: "127.0.0.1:9"}
        nursery.cancel_scope.cancel()
    assert {"namesrvAcls.json", "namesrvUsers.json"} <= set(os.listdir(tmp_path))
