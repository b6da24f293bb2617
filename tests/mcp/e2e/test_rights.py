"""The servers check what the assistant's user may do: the rights of docs/mcp.md."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.client.client import Client

from pyrmq import Message, Producer
from pyrmq.admin import Admin
from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.mcp.server import AdminServer
from pyrmq.net.client.credentials import Credentials
from tests.mcp.assistant import address, data, error, plan_of
from tests.support.fixtures import Serve

pytestmark = pytest.mark.usefixtures("deadline")
CLUSTER = "DefaultCluster"
ROOT, OWN = Credentials("root", "r00t-secret"), Credentials("assistant", "assistant-secret")


async def test_it_may_do_what_its_user_may(serve: Serve) -> None:
    async with serve(
        authentication_metadata_provider="LocalAuthenticationMetadataProvider",
        authorization_metadata_provider="LocalAuthorizationMetadataProvider",
        authentication_enabled=True,
        authorization_enabled=True,
        init_authentication_user=json.dumps({"username": "root", "password": "r00t-secret"}),
        inner_client_authentication_credentials=json.dumps(
            {"accessKey": "root", "secretKey": "r00t-secret"}
        ),
    ) as running:
        async with Admin(running.namesrv, credentials=ROOT) as root:
            user = User(OWN.access_key, OWN.secret_key, "Normal", "enable")
            (await root.users.create(user, cluster=CLUSTER)).check_all()
            reads = [Entry(f"{kind}:*", ("Get", "List")) for kind in ("Cluster", "Topic", "Group")]
            for entry in (*reads, Entry("Topic:salaries*", ("All",), decision="Deny")):
                acl = Acl(f"User:{OWN.access_key}", (entry,))
                (await root.acls.update(acl, cluster=CLUSTER)).check_all()
            async with Producer("PG", namesrv=running.namesrv, credentials=ROOT) as producer:
                sent = {
                    topic: await producer.send(Message(topic, f"body of {topic}".encode()))
                    for topic in ("orders", "salaries")
                }
        async with (
            Admin(running.namesrv, credentials=OWN) as admin,
            Client(AdminServer(admin, changes=True, seconds=30, user="assistant").sdk) as client,
        ):

            async def call(tool: str, **arguments: Any) -> Any:
                return await client.call_tool(tool, arguments)

            assert data(await call("cluster_health"))["state"] != "down"
            assert data(await call("broker_config", broker=address(running)))
            assert "orders" in data(await call("topic_list"))["rows"]
            assert data(await call("group_lags"))["rows"] == []
            found = data(await call("message_get", topic="orders", id=sent["orders"].offset_msg_id))
            assert found["body"] == "body of orders"
            denied = await call("message_get", topic="salaries", id=sent["salaries"].offset_msg_id)
            assert "body of" not in error(denied)
            assert "no right" in error(await call("topic_status", topic="salaries"))
            queue = sent["orders"].queue
            place = {"topic": "orders", "broker_name": queue.broker_name, "queue": queue.queue_id}
            assert "no right to Sub" in error(await call("message_read", **place))
            what = {"topic": "orders", "cluster": CLUSTER}
            plan = plan_of(await call("topic_delete", **what))
            assert "no right" in error(await call("topic_delete", **what, confirm=plan))
            assert "orders" in data(await call("topic_list"))["rows"]
