"""Requests that name a message by its offset: the topic of that message counts, whatever they
state."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyrmq.admin import Admin
from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.errors import ResponseError
from pyrmq.model.codes import RequestCode as Code
from pyrmq.model.names import HALF_TOPIC
from pyrmq.net.address import format_address
from pyrmq.net.client.protocol import Ext
from pyrmq.server import Running
from tests.auth.e2e.test_access_requests import ON, admin_of
from tests.support.client import send_command
from tests.support.fixtures import Serve
from tests.support.transactions import half_command
from tests.support.wire import Command

pytestmark = pytest.mark.usefixtures("deadline")

SECRET = "r00t-secret"


@pytest.fixture
async def guarded(serve: Serve) -> AsyncIterator[Running]:
    async with serve(**ON) as running:
        yield running


class Users:
    """Root, who sends, and alice, who may use the topic `mine` and the group `G`."""

    def __init__(self, root: Admin, alice: Admin, address: str) -> None:
        self.root, self.alice, self.address = root, alice, address

    async def send(self, command: Command) -> int:
        """The offset in the log of a message."""
        answer = await self.root.link.ask(self.address, command.code, command.ext, command.body)
        return int(answer.ext["msgId"][-16:], 16)

    async def code(self, code: int, ext: Ext) -> int:
        """What alice gets."""
        try:
            await self.alice.link.ask(self.address, code, ext)
        except ResponseError as e:
            return e.code or -1
        return 0


@pytest.fixture
async def users(guarded: Running) -> AsyncIterator[Users]:
    at = format_address(guarded.broker_address)
    async with (
        admin_of(guarded, "root", SECRET) as root,
        admin_of(guarded, "alice", "secret") as alice,
    ):
        await root.users.create(User("alice", "secret"), broker=at)
        entries = (Entry("Topic:mine", ("All",)), Entry("Group:G", ("All",)))
        await root.acls.create(Acl("User:alice", entries), broker=at)
        yield Users(root, alice, at)


async def test_a_message_is_shown_to_whoever_may_get_its_topic(users: Users) -> None:
    mine = await users.send(send_command("mine"))
    other = await users.send(send_command("other"))
    for stated in ({"topic": "mine"}, {}):
        assert await users.code(Code.VIEW_MESSAGE_BY_ID, {**stated, "offset": mine}) == 0
        assert await users.code(Code.VIEW_MESSAGE_BY_ID, {**stated, "offset": other}) == 16
    assert await users.code(Code.VIEW_MESSAGE_BY_ID, {"topic": "other", "offset": mine}) == 16
    for nowhere in (-1, mine + 1, 1 << 40):
        assert await users.code(Code.VIEW_MESSAGE_BY_ID, {"topic": "mine", "offset": nowhere}) == 1
    await users.root.link.ask(users.address, Code.VIEW_MESSAGE_BY_ID, {"offset": other})


async def test_no_message_of_others_is_sent_back_to_ones_own_group(users: Users) -> None:
    mine = await users.send(send_command("mine"))
    other = await users.send(send_command("other"))
    back: Ext = {"group": "G", "delayLevel": 0, "originTopic": "mine"}
    assert await users.code(Code.CONSUMER_SEND_MSG_BACK, {**back, "offset": mine}) == 0
    assert await users.code(Code.CONSUMER_SEND_MSG_BACK, {**back, "offset": other}) == 16
    foreign = {**back, "group": "H", "offset": mine}
    assert await users.code(Code.CONSUMER_SEND_MSG_BACK, foreign) == 16


async def test_no_transaction_of_others_is_ended(users: Users) -> None:
    mine = await users.send(half_command("mine", group="PG"))
    other = await users.send(half_command("other", group="PG"))
    end: Ext = {
        "producerGroup": "PG", "tranStateTableOffset": 0, "commitOrRollback": 8,
        "fromTransactionCheck": False, "msgId": "another", "transactionId": "another",
    }  # fmt: skip
    of_a_check = {"topic": HALF_TOPIC, "fromTransactionCheck": True}  # as Java 5.x answers
    for stated in ({"topic": "mine"}, {}, of_a_check):
        ext: Ext = {**end, **stated, "commitLogOffset": other, "tranStateTableOffset": 1}
        assert await users.code(Code.END_TRANSACTION, ext) == 16
    # Of her own she is told what the processor says: these ids are of another message.
    for stated in ({}, of_a_check):
        assert (
            await users.code(Code.END_TRANSACTION, {**end, **stated, "commitLogOffset": mine}) == 1
        )


async def test_messages_that_an_id_names(users: Users) -> None:
    other = await users.send(send_command("other"))
    ids = {"msgId": f"{'0' * 16}{other:016X}", "topic": "mine"}
    direct: Ext = {**ids, "consumerGroup": "G", "clientId": "c"}
    assert await users.code(Code.CONSUME_MESSAGE_DIRECTLY, direct) == 16
    assert await users.code(Code.RESUME_CHECK_HALF_MESSAGE, ids) == 16
    mine = await users.send(send_command("mine"))
    direct = {**direct, "msgId": f"{'0' * 16}{mine:016X}"}
    assert await users.code(Code.CONSUME_MESSAGE_DIRECTLY, direct) not in (0, 16)  # nobody is there
    assert await users.code(Code.RESUME_CHECK_HALF_MESSAGE, {"msgId": "none"}) == 29
