"""What operators ask of our consumers, through a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio

from pyrmq.client import ConsumeFrom, ConsumeResult, Producer, PushConsumer, ReconsumeLater
from pyrmq.model.message import Message, MessageQueue, ReceivedMessage
from pyrmq.net import fastjson
from pyrmq.server import Running
from tests.support.client import Client
from tests.support.consumed import bodies, queues_assigned, take, take_none
from tests.support.fixtures import Serve
from tests.support.waiting import eventually_trio
from tests.support.wire import Command

pytestmark = pytest.mark.usefixtures("deadline")

RESET, STATUS, RUNNING_INFO, DIRECTLY = 222, 223, 307, 309
QUEUE = MessageQueue("Topic", "broker-a", 0)


async def ask(server: Running, code: int, **ext: object) -> Command:
    """As an operator, of the broker."""

    def call() -> Command:
        with Client(server.broker_address) as client:
            return client.call(code, **ext)

    return await trio.to_thread.run_sync(call)


def consumer(server: Running, **options: Any) -> PushConsumer:
    return PushConsumer(
        "cg",
        {"Topic": "*"},
        namesrv=server.namesrv,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        **options,
    )


async def send(server: Running, *texts: str) -> str:
    """The offset id of the last one."""
    async with Producer("pg", namesrv=server.namesrv) as producer:
        for text in texts:
            result = await producer.send(Message("Topic", text.encode()), queue=QUEUE)
    return result.offset_msg_id


def client_id(reader: PushConsumer) -> str:
    return reader._client.client_id


async def test_how_a_consumer_runs(embedded: Running) -> None:
    await send(embedded, "1", "2", "3")
    async with consumer(embedded, pull_batch_size=7) as reader:
        await take(reader, 2)
        await queues_assigned(reader, 4)
        ext = {"consumerGroup": "cg", "clientId": client_id(reader)}
        answer = await ask(embedded, RUNNING_INFO, **ext)
        assert answer.code == 0
        info = fastjson.loads_object(answer.body)
        properties = info["properties"]
        assert properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert properties["PROP_NAMESERVER_ADDR"] == f"{embedded.namesrv};"
        assert properties["pullBatchSize"] == "7"
        assert {s["topic"] for s in info["subscriptionSet"]} == {"Topic", "%RETRY%cg"}
        queues = {MessageQueue.from_json(dict(q)): v for q, v in info["mqTable"].items()}
        assert len(queues) in (4, 5), "that of the retry topic may still be on its way"
        own = queues[QUEUE]
        assert (own["commitOffset"], own["cachedMsgCount"], own["droped"]) == (2, 1, False)
        assert own["lastPullTimestamp"] > 1_600_000_000_000
        assert info["statusTable"]["Topic"]["pullTPS"] > 0
        assert "jstack" not in info
        answer = await ask(embedded, RUNNING_INFO, **ext, jstackEnable="true")
        assert "thread " in fastjson.loads_object(answer.body)["jstack"]


async def test_limits_that_pause_pulling_are_counted(embedded: Running) -> None:
    await send(embedded, "1", "2", "3", "4")
    async with consumer(embedded, max_cached_messages=1, pull_batch_size=1) as reader:
        await eventually_trio(
            lambda: [p for p in reader._held.held() if p.paused_by], "pulling pauses"
        )
        ext = {"consumerGroup": "cg", "clientId": client_id(reader)}
        info = fastjson.loads_object((await ask(embedded, RUNNING_INFO, **ext)).body)
        assert info["userConsumerInfo"] == {"pullsPausedByMessages": "1"}


async def test_how_far_its_members_are(embedded: Running) -> None:
    await send(embedded, "1", "2")
    async with consumer(embedded) as reader:
        await take(reader, 2)
        await queues_assigned(reader, 4)
        answer = await ask(embedded, STATUS, topic="Topic", group="cg")
        table = fastjson.loads_object(answer.body)["consumerTable"][client_id(reader)]
        offsets = {MessageQueue.from_json(dict(q)): offset for q, offset in table.items()}
        assert len(offsets) == 4
        assert offsets[QUEUE] == 2
        answer = await ask(embedded, STATUS, topic="Other", group="cg")
        assert fastjson.loads_object(answer.body)["consumerTable"] == {client_id(reader): {}}


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize(
    ("act", "result"),
    [
        (lambda: None, "CR_SUCCESS"),
        (lambda: ConsumeResult.RECONSUME_LATER, "CR_LATER"),
        (lambda: _raise(ReconsumeLater("wait")), "CR_LATER"),
        (lambda: _raise(ValueError("no ✓")), "CR_THROW_EXCEPTION"),
    ],
)
async def test_one_message_is_consumed_at_once(
    embedded: Running, act: Callable[[], Any], result: str, orderly: bool
) -> None:
    seen: list[ReceivedMessage] = []

    async def listener(message: ReceivedMessage) -> Any:
        seen.append(message)
        return act() if len(seen) > 1 else None

    where = await send(embedded, "again")
    async with consumer(embedded, listener=listener, orderly=orderly) as reader:
        await eventually_trio(lambda: seen, "the message as ever")
        ext = {"consumerGroup": "cg", "clientId": client_id(reader)}
        answer = await ask(embedded, DIRECTLY, **ext, msgId=where, topic="Topic")
    assert (answer.code, answer.remark, len(seen)) == (0, None, 2)
    assert (seen[1].body, seen[1].broker_name) == (b"again", "broker-a")
    body = json.loads(answer.body)
    assert (body["consumeResult"], body["order"], body["autoCommit"]) == (result, orderly, True)
    if result == "CR_THROW_EXCEPTION":
        assert body["remark"] == "ValueError: no ✓"


def _raise(error: Exception) -> None:
    raise error


async def test_a_loop_consumes_nothing_directly(embedded: Running) -> None:
    where = await send(embedded, "again")
    async with consumer(embedded) as reader:
        await take(reader, 1)
        ext = {"consumerGroup": "cg", "clientId": client_id(reader)}
        answer = await ask(embedded, DIRECTLY, **ext, msgId=where, topic="Topic")
        assert answer.code == 1
        assert "no listener" in (answer.remark or "")


async def test_offsets_are_reset_through_the_clients(serve: Serve) -> None:
    async with serve(use_server_side_reset_offset=False) as server:
        await send(server, "1", "2", "3")
        async with consumer(server) as reader:
            await take(reader, 3)
            await queues_assigned(reader, 4)
            await reader._held.persist()
            answer = await ask(
                server, RESET, topic="Topic", group="cg", timestamp=0, isForce="true"
            )
            assert answer.code == 0
            assert bodies(await take(reader, 2)) == [b"1", b"2"]
        async with consumer(server) as reader:
            assert bodies(await take(reader, 1)) == [b"3"]
            await take_none(reader, 0.1)
