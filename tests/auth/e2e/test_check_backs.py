"""Whom a broker asks about transactions: anyone may say to be a producer of any group, but a
question has the whole half message."""

from __future__ import annotations

import json

import pytest
import trio

from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.net.address import format_address
from tests.auth.e2e.test_access_requests import ON, admin_of
from tests.support.client import HEART_BEAT, Client
from tests.support.fixtures import Serve
from tests.support.signatures import signature
from tests.support.transactions import half_command, next_check
from tests.support.waiting import eventually_trio
from tests.support.wire import Command

pytestmark = pytest.mark.usefixtures("deadline")


def _signed(command: Command, name: str) -> Command:
    command.ext["AccessKey"] = name
    command.ext["Signature"] = signature(command, f"secret of {name}")
    return command


def _heartbeat(name: str) -> Command:
    data = {"clientID": name, "producerDataSet": [{"groupName": "PG"}], "consumerDataSet": []}
    return _signed(Command(HEART_BEAT, body=json.dumps(data).encode()), name)


async def test_who_may_not_send_to_a_topic_is_not_asked_about_it(serve: Serve) -> None:
    async with (
        serve(**ON, transaction_time_out=100, transaction_check_interval=100) as running,
        admin_of(running, "root", "r00t-secret") as root,
    ):
        at = format_address(running.broker_address)
        for name, topic in (("alice", "paid"), ("eve", "free")):
            await root.users.create(User(name, f"secret of {name}"), broker=at)
            acl = Acl(f"User:{name}", (Entry(f"Topic:{topic}", ("Pub",)),))
            await root.acls.create(acl, broker=at)

        def ask() -> None:
            with Client(running.broker_address) as alice, Client(running.broker_address) as eve:
                # Eve is the only producer while the first passes are made, then one of two.
                assert eve.request(_heartbeat("eve")).code == 0
                half = _signed(half_command("paid", group="PG"), "alice")
                with Client(running.broker_address) as sender:
                    assert sender.request(half).code == 0
                trio.from_thread.run(_passes, 3)
                assert alice.request(_heartbeat("alice")).code == 0
                _, asked = next_check(alice)
                assert asked.topic == "paid"
                trio.from_thread.run(_passes, 3)  # they take turns
                assert eve.request(_heartbeat("eve")).code == 0  # what came before it has come
                assert not eve.pushed

        async def _passes(count: int) -> None:
            checker = running.broker.parts.transactions.checker
            until = checker.passes + count
            await eventually_trio(lambda: checker.passes >= until, "check passes")

        await trio.to_thread.run_sync(ask)
