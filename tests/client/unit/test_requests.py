"""Requests and their replies."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyrmq import (
    ClientError,
    Message,
    Producer,
    ReceivedMessage,
    RequestTimeoutError,
    SystemBusyError,
    reply_to,
)
from pyrmq.model.compression import CompressionType, compress
from tests.support import build
from tests.support.scripted.script import SILENCE
from tests.support.scripted.streams import (
    HEART_BEAT,
    SEND,
    Stream,
    StreamBroker,
    StreamCluster,
    sent_properties,
)
from tests.support.wire import Command

PUSH = 326
TIMES = {"bornTimestamp": "1", "storeTimestamp": "2", "bornHost": "h:1", "storeHost": "h:2"}


def pushed(sent: Command, body: bytes = b"answer", **ext: str) -> Command:
    """The reply as a broker hands it to the asker."""
    properties = sent_properties(sent)
    text = f"CORRELATION_ID\x01{properties.get('CORRELATION_ID', '')}\x02a\x01b\x02"
    fields = {"topic": "C_REPLY_TOPIC", "queueId": "0", "flag": "0", "sysFlag": "0"}
    fields |= {"reconsumeTimes": "0", "properties": text, **TIMES, **ext}
    return Command(PUSH, fields, body, opaque=99)


def received(properties: dict[str, str]) -> ReceivedMessage:
    return replace(build.received(0), properties=properties)


async def replying(broker: StreamBroker, **ext: Any) -> int:
    """Replies to the one request, once it came; the code of what the asker answers."""
    while not broker.requests(SEND):
        await trio.testing.wait_all_tasks_blocked()
    (sent,) = broker.requests(SEND)
    await broker.connections[0].send(pushed(sent, **ext))
    await trio.testing.wait_all_tasks_blocked()
    return next(r.code for r in broker.requests() if r.is_response)


@pytest.fixture
def asked(cluster: StreamCluster) -> StreamBroker:
    """The one broker that takes messages."""
    del cluster.brokers["broker-b"]
    return cluster["broker-a"]


def producer(**options: Any) -> Producer:
    return Producer("pg", namesrv=StreamCluster.namesrv, **options)


async def test_a_reply(asked: StreamBroker, clock: MockClock) -> None:
    got: list[Any] = []

    async def ask(sender: Producer) -> None:
        got.append(await sender.request(Message("T", b"question", properties={"q": "1"})))

    async with producer() as sender:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, sender)
            assert await replying(asked) == 0
        client_id = sender._client.client_id
    assert got[0].body == b"answer"
    assert got[0].properties["a"] == "b"
    assert {"CORRELATION_ID", "ARRIVE_TIME"} <= got[0].properties.keys()
    (sent,) = asked.requests(SEND)
    properties = sent_properties(sent)
    assert (properties["q"], properties["TTL"]) == ("1", "3000")
    assert properties["REPLY_TO_CLIENT"] == client_id
    codes = [r.code for r in asked.requests(HEART_BEAT, SEND)]
    assert codes == [HEART_BEAT, SEND], "the broker knows whom a reply goes to"


@pytest.mark.parametrize("kind", CompressionType)
async def test_a_compressed_reply(
    asked: StreamBroker, kind: CompressionType, clock: MockClock
) -> None:
    body = compress(b"x" * 9000, kind, 5)
    async with producer() as sender, trio.open_nursery() as nursery:
        nursery.start_soon(partial(replying, asked, body=body, sysFlag=str(kind.sys_flag)))
        assert (await sender.request(Message("T", b"?"))).body == b"x" * 9000


async def test_no_reply(asked: StreamBroker, clock: MockClock) -> None:
    async with producer() as sender:
        began = trio.current_time()
        with pytest.raises(RequestTimeoutError, match=r"no reply in 1\.5 s, the request was sent"):
            await sender.request(Message("T", b"?"), timeout=1.5)
        assert trio.current_time() - began == pytest.approx(1.5)
        assert await replying(asked) == 1, "whoever replies too late learns it"
        asked.change[SEND] = lambda c: c.reply(2)
        with pytest.raises(SystemBusyError):
            await sender.request(Message("T", b"?"))
        assert not sender._requests._waiting


async def test_a_reply_before_the_answer_to_the_send(asked: StreamBroker, clock: MockClock) -> None:
    """Also where that never comes."""
    asked.change[SEND] = lambda c: SILENCE
    async with producer() as sender, trio.open_nursery() as nursery:
        nursery.start_soon(replying, asked)
        began = trio.current_time()
        assert (await sender.request(Message("T", b"?"))).body == b"answer"
        assert trio.current_time() == began


@pytest.mark.parametrize("ext", [{"sysFlag": "x"}, {"queueId": ""}, {"properties": ""}])
async def test_replies_that_cannot_be_meant(
    asked: StreamBroker, ext: dict[str, str], clock: MockClock
) -> None:
    async with producer() as sender, trio.open_nursery() as nursery:
        nursery.start_soon(sender.request, Message("T", b"?"))
        assert await replying(asked, **ext) == 1
        nursery.cancel_scope.cancel()


def test_reply_to() -> None:
    names = {"CORRELATION_ID": "c", "REPLY_TO_CLIENT": "asker", "CLUSTER": "C", "TTL": "3000"}
    reply = reply_to(received({**names, "TAGS": "t"}), b"answer")
    assert (reply.topic, reply.body) == ("C_REPLY_TOPIC", b"answer")
    del names["CLUSTER"]
    assert reply.properties == {**names, "MSG_TYPE": "reply"}
    with pytest.raises(ClientError, match="is no request: it needs the properties"):
        reply_to(received(names), b"x")
    with pytest.raises(ClientError, match="is Message; a ReceivedMessage is needed"):
        reply_to(Message("T", b"x"), b"x")  # type: ignore[arg-type]


async def test_a_broker_that_is_away_holds_up_no_request(
    cluster: StreamCluster, clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine does not even refuse: others are asked in time."""

    async def connect(host: str, port: int) -> Stream:
        if host == "broker-b":
            await trio.sleep(1000)
        return await cluster.connect(host, port)

    monkeypatch.setattr(trio, "open_tcp_stream", connect)
    broker = cluster["broker-a"]

    async def answer() -> None:
        while not broker.requests(SEND):  # noqa: ASYNC110 - on the mock clock
            await trio.sleep(0.1)
        await replying(broker)

    async with producer() as sender, trio.open_nursery() as nursery:
        (queue, *_) = await sender.queues("T")
        assert queue.broker_name == "broker-a"
        began = trio.current_time()
        nursery.start_soon(answer)
        reply = await sender.request(Message("T", b"question"), queue=queue)
        assert reply.body == b"answer"
        assert trio.current_time() - began < 1
