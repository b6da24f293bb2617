"""A name server that runs with its broker: both have one set of users, and know each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import pyrmq
from pyrmq.admin import Admin
from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.errors import PyrmqError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.topic import TopicConfig
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls
from tests.auth.e2e.test_access_requests import ON, ROOT, broker_of
from tests.broker.e2e.test_many_brokers import FREE, Cluster
from tests.support.certificates import Authority
from tests.support.fixtures import Serve

pytestmark = pytest.mark.usefixtures("deadline")

ALICE = Credentials("alice", "secret-of-alice")
RIGHTS = Acl("User:alice", (Entry("Topic:orders", ("Pub",)),))


async def send(namesrv: str, credentials: Credentials | None, tls: Tls | None = None) -> None:
    """A message to `orders`; the route comes from the name server."""
    async with pyrmq.Producer("G", namesrv=namesrv, credentials=credentials, tls=tls) as producer:
        await producer.send(pyrmq.Message("orders", b"m"))


async def test_a_user_made_at_the_broker_gets_routes(serve: Serve, tmp_path: Path) -> None:
    async with (
        serve(tmp_path, **ON) as running,
        Admin(running.namesrv, credentials=ROOT) as root,
    ):
        at = broker_of(running)
        await root.topics.update(TopicConfig("orders"), broker=at)
        await root.users.create(User("alice", ALICE.secret_key), broker=at)
        with pytest.raises(PyrmqError, match="no right to"):
            await send(running.namesrv, ALICE)
        await root.acls.create(RIGHTS, broker=at)
        await send(running.namesrv, ALICE)
        with pytest.raises(PyrmqError, match="not signed"):
            await send(running.namesrv, None)

        # One that is made at the name server is the broker's as well.
        await root.users.create(User("bob", "secret-of-bob"), broker=running.namesrv)
        (found,) = await root.users.list("bob", broker=at)
        assert found.value

        await root.users.delete("alice", broker=at)
        async with Admin(running.namesrv, credentials=ALICE) as alice:
            answer = await alice.link.call(
                running.namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}
            )
        assert answer.code == ResponseCode.NO_PERMISSION


async def test_the_broker_is_in_no_list_and_no_file(serve: Serve, tmp_path: Path) -> None:
    async with (
        serve(tmp_path, **ON) as running,
        Admin(running.namesrv, credentials=ROOT) as root,
    ):
        assert running.broker.registration.unregistered == []
        (listed,) = await root.users.list(broker=running.namesrv)
        assert [user.name for user in listed.value or []] == ["root"]
    text = await trio.Path(tmp_path / "config" / "users.json").read_text()
    assert "own broker" not in text
    assert not await trio.Path(tmp_path / "config" / "namesrvUsers.json").exists()


@pytest.mark.parametrize("client_auth", ["none", "require"])
async def test_a_broker_registers_at_its_name_server_that_wants_tls(
    serve: Serve, tmp_path: Path, client_auth: str
) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("127.0.0.1")
    keys: dict[str, Any] = {
        "tls_server_mode": "enforcing",
        "tls_server_cert_path": str(own.cert),
        "tls_server_key_path": str(own.key),
        "tls_server_need_client_auth": client_auth,
    }
    if client_auth == "require":
        keys |= {"tls_server_auth_client": True, "tls_server_trust_cert_path": str(authority.file)}
    client = authority.issue("client")
    tls = Tls(ca=authority.file, cert=client.cert, key=client.key)
    async with serve(**keys) as running:
        await send(running.namesrv, None, tls)
        with pytest.raises(PyrmqError):
            await send(running.namesrv, None)


async def test_a_name_server_beside_several_brokers_knows_their_users(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("127.0.0.1")
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "authenticationEnabled=true\nauthorizationEnabled=true\n"
        "authenticationMetadataProvider=LocalAuthenticationMetadataProvider\n"
        "authorizationMetadataProvider=LocalAuthorizationMetadataProvider\n"
        f'initAuthenticationUser={{"username":"root","password":"{ROOT.secret_key}"}}\n'
        f"tls.server.mode=enforcing\ntls.server.certPath={own.cert}\n"
        f"tls.server.keyPath={own.key}\nstorePathRootDir={tmp_path / 'store'}\n"
    )
    tls = Tls(ca=authority.file)
    with Cluster(tmp_path, "server", "--brokers", "2", "-c", str(conf), *FREE) as cluster:
        namesrv = cluster.ready["namesrv"]
        async with Admin(namesrv, credentials=ROOT, tls=tls) as root:
            await root.topics.update(TopicConfig("orders"), cluster="DefaultCluster")
            await root.users.create(User("alice", ALICE.secret_key), cluster="DefaultCluster")
            await root.acls.create(RIGHTS, cluster="DefaultCluster")
            await send(namesrv, ALICE, tls)
            (refused,) = await root.users.create(User("bob", "secret"), broker=namesrv)
            assert "those of broker broker-a" in str(refused.error)
            await root.acls.delete("User:alice", cluster="DefaultCluster")
            with pytest.raises(PyrmqError, match="no right to"):
                await send(namesrv, ALICE, tls)
    text = (tmp_path / "err").read_text() + (tmp_path / "out").read_text()
    assert ROOT.secret_key not in text
