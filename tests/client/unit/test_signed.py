"""Every request of a client with credentials is signed, whatever it is for."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

import pyrmq
from pyrmq import (
    Credentials,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    ReconsumeLater,
)
from tests.client.listeners import COMMIT, Async
from tests.client.members import after
from tests.client.unit.transactional import producer as transactional
from tests.support.scripted.groups import LOCK, PULL, SEND_BACK, UNREGISTER, GroupBroker
from tests.support.scripted.script import times
from tests.support.scripted.streams import (
    CLUSTER,
    END,
    HEART_BEAT,
    ROUTE,
    SEND,
    StreamBroker,
    StreamCluster,
    record,
    stored,
)
from tests.support.signatures import is_signed
from tests.support.wire import Command

BATCH, REPLY = 320, 325
ME = Credentials("me", "my secret")


def check(asked: list[Command], **fields: str) -> None:
    """All are signed by ME, over the fields and bodies that came."""
    for command in asked:
        assert is_signed(command, "me", "my secret"), command
        assert command.ext.items() >= fields.items()


@pytest.mark.parametrize("namespace", ["", "shop"])
async def test_everything_that_members_ask(
    groups: StreamCluster, alone: GroupBroker, clock: MockClock, namespace: str
) -> None:
    options: Any = {
        "namesrv": groups.namesrv, "credentials": ME, "namespace_v2": namespace,
    }  # fmt: skip
    failed: list[bytes] = []

    async def listener(message: Any) -> None:
        failed.append(message.body)
        raise ReconsumeLater

    alone.change[BATCH] = stored
    alone.put(b"one", queue=1)
    async with (
        Producer("pg", trace=True, **options) as sender,
        PushConsumer(
            "g", {"T": "*"}, listener=listener,
            consume_from=pyrmq.ConsumeFrom.FIRST_OFFSET, **options,
        ),
        PushConsumer("o", {"T": "*"}, listener=listener, orderly=True, **options),
        LitePullConsumer("h", {"T": "*"}, **options) as member,
    ):  # fmt: skip
        await sender.send(Message("T", b"x", tags="a", keys="k", properties={"p": 'ü"\\\n€'}))
        await sender.send_oneway(Message("T", b"x"))
        await sender.send_batch([Message("T", b"x"), Message("T", bytes(5000))])
        await sender.send(Message("T", bytes(10_000)))
        await after(2)
        await member.commit()
    asked = [*alone.requests(), *groups.asked]
    assert failed
    assert {c.code for c in asked} >= {
        SEND, BATCH, PULL, HEART_BEAT, UNREGISTER, SEND_BACK, LOCK, ROUTE, 14, 15, 30, 38, 42,
    }  # fmt: skip
    check(asked, **({"nsd": "true", "ns": "shop"} if namespace else {}))
    assert {c.ext["b"] for c in alone.requests(SEND)} == {"T", "RMQ_SYS_TRACE_TOPIC"}


async def test_transactions_and_answers_to_checks(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    del cluster.brokers["broker-b"]
    async with transactional(Async(COMMIT, check=COMMIT), credentials=ME) as sender:
        await sender.send_in_transaction(Message("T", b"x"))
        await broker.next_end()
        await broker.ask(
            record(PGROUP="pg", UNIQ_KEY="K"),
            commitLogOffset=1, tranStateTableOffset=5, transactionId="K", msgId="K",
        )  # fmt: skip
        end = await broker.next_end()
        assert end.ext["fromTransactionCheck"] == "true"
    asked = [*broker.requests(), *cluster.asked]
    assert {c.code for c in asked} >= {SEND, END, HEART_BEAT, CLUSTER}
    check(asked)


async def test_sends_soon_and_in_one_batch(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    for one in cluster.brokers.values():
        one.change[BATCH] = stored
    options: Any = {"namesrv": cluster.namesrv, "credentials": ME, "auto_batch": True}
    async with Producer("pg", **options) as sender:
        for n in range(20):
            await sender.send_soon(Message("T", b"%d" % n))
        await sender.flush()
    asked = [c for b in cluster.brokers.values() for c in b.requests(BATCH)]
    assert asked
    check(asked)


async def test_another_attempt_is_signed_anew(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    """The queue is another one, and with it the text that is signed."""
    for one in cluster.brokers.values():
        one.change[SEND] = times(1, lambda c: c.reply(2))
    async with Producer("pg", namesrv=cluster.namesrv, credentials=ME) as sender:
        await sender.send(Message("T", b"x"))
    sends = [c for b in cluster.brokers.values() for c in b.requests(SEND)]
    assert len(sends) == 3
    assert len({c.ext["Signature"] for c in sends}) == len(
        {(c.ext["e"], c.ext["n"]) for c in sends}
    )
    check(sends)


async def test_requests_and_their_replies(
    groups: StreamCluster, alone: GroupBroker, clock: MockClock
) -> None:
    alone.change[REPLY] = stored
    async with Producer("pg", namesrv=groups.namesrv, credentials=ME) as sender:
        with pytest.raises(pyrmq.RequestTimeoutError):
            await sender.request(Message("T", b"x"), timeout=1)
        properties = {"MSG_TYPE": "reply", "CORRELATION_ID": "1", "REPLY_TO_CLIENT": "c"}
        await sender.send(Message("T", b"y", properties=properties))
    assert alone.requests(REPLY)
    check(alone.requests())


async def test_a_token_is_part_of_it(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    own = Credentials("me", "my secret", "a token")
    async with Producer("pg", namesrv=cluster.namesrv, credentials=own) as sender:
        await sender.send(Message("T", b"x"))
    asked = [c for b in cluster.brokers.values() for c in b.requests()]
    check([*asked, *cluster.asked], SecurityToken="a token")


async def test_without_credentials_nothing_is_added(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    async with Producer("pg", namesrv=cluster.namesrv) as sender:
        await sender.send(Message("T", b"x"))
        await trio.sleep(1)
    for command in [c for b in cluster.brokers.values() for c in b.requests()]:
        assert not {"AccessKey", "Signature", "SecurityToken"} & command.ext.keys()
