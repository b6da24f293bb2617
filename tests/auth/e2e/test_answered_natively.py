"""Sends, ends of transactions and pulls, which the engine answers: signed, granted, and revoked."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from pyrmq.admin import Admin
from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.errors import ResponseError
from pyrmq.model.codes import RequestCode as Code
from pyrmq.model.codes import ResponseCode
from pyrmq.net.address import format_address
from pyrmq.server import Running
from tests.auth.e2e.test_access_requests import ON, admin_of
from tests.support.client import Client, pull_command, send_command
from tests.support.fixtures import Serve
from tests.support.waiting import eventually_trio
from tests.support.wire import Command

pytestmark = pytest.mark.usefixtures("deadline")

PUB = Acl("User:alice", (Entry("Topic:T", ("Pub",)), Entry("Group:G", ("Sub",))))
BOTH = Acl("User:alice", (Entry("Topic:T", ("Pub", "Sub")),))


@pytest.fixture
async def guarded(serve: Serve) -> AsyncIterator[Running]:
    async with serve(**ON) as running:
        yield running


class Users:
    def __init__(self, root: Admin, alice: Admin, running: Running) -> None:
        self.root, self.alice = root, alice
        self.host_port = running.broker_address
        self.address = format_address(running.broker_address)

    async def code(self, command: Command) -> int:
        """What alice gets."""
        try:
            await self.alice.link.ask(self.address, command.code, command.ext, command.body)
        except ResponseError as e:
            return e.code or -1
        return 0

    async def pulled(self) -> int:
        """A pull that would wait for a message gets the next one at once."""
        return await self.code(pull_command("T", 0, 0, group="G"))


@pytest.fixture
async def users(guarded: Running) -> AsyncIterator[Users]:
    async with (
        admin_of(guarded, "root", "r00t-secret") as root,
        admin_of(guarded, "alice", "secret") as alice,
    ):
        found = Users(root, alice, guarded)
        await root.users.create(User("alice", "secret"), broker=found.address)
        await root.acls.create(PUB, broker=found.address)
        yield found


async def test_sends_are_checked_each_time(users: Users) -> None:
    for _ in range(3):  # the first one makes the topic, then they are answered natively
        assert await users.code(send_command("T")) == 0
        assert await users.code(send_command("U")) == 16
    await users.root.acls.delete("User:alice", broker=users.address)
    assert await users.code(send_command("T")) == 16
    await users.root.acls.create(PUB, broker=users.address)
    assert await users.code(send_command("T")) == 0
    assert await users.code(send_command("T")) == 0
    await users.root.users.update(User("alice", status="disable"), broker=users.address)
    assert await users.code(send_command("T")) == 16
    await users.root.users.update(User("alice", status="enable"), broker=users.address)
    assert await users.code(send_command("T")) == 0
    await users.root.users.update(User("alice", "another"), broker=users.address)
    assert await users.code(send_command("T")) == 16


async def test_pulls_are_checked_each_time(users: Users) -> None:
    assert await users.code(send_command("T", queue_id=0)) == 0
    assert await users.pulled() == 16
    await users.root.acls.update(BOTH, broker=users.address)
    for _ in range(3):  # the first one is granted
        assert await users.pulled() == 0
    await users.root.acls.update(PUB, broker=users.address)
    assert await users.pulled() == 16


async def test_nobody_sends_or_pulls_unsigned(users: Users) -> None:
    await users.root.acls.update(BOTH, broker=users.address)
    for _ in range(2):
        assert await users.code(send_command("T", queue_id=0)) == 0
        assert await users.pulled() == 0
    requests = [
        send_command("T"),
        send_command("T", code=Code.SEND_MESSAGE),
        pull_command("T", 0, 0, group="G"),
    ]

    def unsigned() -> list[int]:
        with Client(users.host_port) as client:
            return [client.request(one).code for one in requests]

    assert await trio.to_thread.run_sync(unsigned) == [16, 16, 16]


async def test_a_parked_pull_ends_with_the_right(users: Users, guarded: Running) -> None:
    await users.root.acls.update(BOTH, broker=users.address)
    assert await users.code(send_command("T", queue_id=0)) == 0
    parked = guarded.broker.parts.server._parked
    assert parked is not None
    codes: list[int] = []
    pull = pull_command("T", 0, 1, group="G", sys_flag=6, suspend_ms=60_000)

    async def ask() -> None:
        codes.append(await users.code(pull))

    with trio.move_on_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await eventually_trio(lambda: parked.count == 1, "the pull is parked")
            await users.root.acls.update(PUB, broker=users.address)
    assert codes == [ResponseCode.PULL_RETRY_IMMEDIATELY] or codes == [ResponseCode.PULL_NOT_FOUND]
    assert await users.code(pull) == 16
