"""Client ids are no secrets: consumers see that of who waits for a reply. They are nobody else's to
take."""

from __future__ import annotations

import json

import pytest
import trio

from pyrmq.admin.auth import User
from pyrmq.net.address import format_address
from tests.auth.e2e.test_access_requests import ON, admin_of
from tests.support.client import HEART_BEAT, Client
from tests.support.fixtures import Serve
from tests.support.signatures import signature
from tests.support.wire import Command

pytestmark = pytest.mark.usefixtures("deadline")


def _heartbeat(name: str) -> Command:
    data = {"clientID": "of alice", "producerDataSet": [{"groupName": "PG"}]}
    command = Command(HEART_BEAT, {"AccessKey": name}, json.dumps(data).encode())
    command.ext["Signature"] = signature(command, f"secret of {name}")
    return command


async def test_replies_go_to_the_user_that_had_the_client_id_first(serve: Serve) -> None:
    async with serve(**ON) as running, admin_of(running, "root", "r00t-secret") as root:
        for name in ("alice", "eve"):
            user = User(name, f"secret of {name}")
            await root.users.create(user, broker=format_address(running.broker_address))
        clients = running.broker.parts.tables.clients

        def holder() -> str:
            found = clients.by_client_id("of alice")
            assert found is not None
            return found.peer

        def own(client: Client) -> str:
            return format_address(client._socket.getsockname()[:2])

        def heartbeats() -> None:
            connect = lambda: Client(running.broker_address)  # noqa: E731
            with connect() as alice, connect() as again, connect() as eve:
                for client, name, holds in (
                    (alice, "alice", alice), (eve, "eve", alice), (again, "alice", again),
                    (eve, "eve", again),
                ):  # fmt: skip
                    assert client.request(_heartbeat(name)).code == 0
                    assert holder() == own(holds), name

        await trio.to_thread.run_sync(heartbeats)
