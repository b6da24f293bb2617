"""Consuming through `PushConsumer`: tags, start positions, and at-least-once."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from pyrmq.client import ConsumeFrom, Producer, PushConsumer, ReconsumeLater
from pyrmq.errors import (
    ClientError,
    InvalidParameterError,
    ResponseError,
    SubscriptionError,
)
from pyrmq.model.message import Message, MessageQueue, ReceivedMessage
from pyrmq.server import Running
from tests.support.client import Client
from tests.support.consumed import bodies, queues_assigned, take, take_none
from tests.support.fixtures import Serve
from tests.support.waiting import PATIENCE, eventually_trio

pytestmark = pytest.mark.usefixtures("deadline")

QUEUE = MessageQueue("Topic", "broker-a", 0)
GET_CONSUMER_LIST_BY_GROUP = 38


def consumer(server: Running, group: str = "cg", expression: str = "*") -> PushConsumer:
    return PushConsumer(
        group,
        {"Topic": expression},
        namesrv=server.namesrv,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    )


async def send(server: Running, *texts: str, tags: str | None = None) -> None:
    """Sends to one queue, so that there is an order."""
    async with Producer("pg", namesrv=server.namesrv) as producer:
        for text in texts:
            await producer.send(Message("Topic", text.encode(), tags=tags), queue=QUEUE)


async def test_tags_are_filtered(embedded: Running) -> None:
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        for n in range(30):
            tag = ["red", "green", "Größe"][n % 3]
            await producer.send(Message("Topic", b"%02d" % n, tags=tag))
        await producer.send(Message("Topic", b"none"))
    async with consumer(embedded, "g1", "red || Größe") as reader:
        got = await take(reader, 20)
        assert {m.tags for m in got} == {"red", "Größe"}
        await take_none(reader)
    async with consumer(embedded, "g2") as reader:
        assert len(await take(reader, 31)) == 31


async def test_tags_with_equal_hashes_are_told_apart(embedded: Running) -> None:
    """`Aa` and `BB` have the same Java hash, which is all the broker compares."""
    await send(embedded, "1", tags="Aa")
    await send(embedded, "2", tags="BB")
    async with consumer(embedded, expression="BB") as reader:
        assert bodies(await take(reader, 1)) == [b"2"]
        await take_none(reader)


async def test_several_topics_at_once(embedded: Running) -> None:
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        for topic in ("One", "Two"):
            await producer.send(Message(topic, topic.encode(), tags="t"))
    wanted = {"One": "*", "Two": "t"}
    async with PushConsumer("cg", wanted, namesrv=embedded.namesrv) as reader:
        assert bodies(await take(reader, 2)) == [b"One", b"Two"]


async def test_a_message_sent_while_the_consumer_waits_comes_at_once(embedded: Running) -> None:
    await send(embedded, "first")
    async with consumer(embedded) as reader:
        await take(reader, 1)
        await queues_assigned(reader, 4)
        for n in range(20):
            await send(embedded, f"{n}")
            (got,) = await take(reader, 1, seconds=10)
            assert got.body == b"%d" % n


async def test_a_topic_that_appears_later_is_consumed(embedded: Running) -> None:
    async with consumer(embedded) as reader:
        await take_none(reader, 0.2)
        await send(embedded, "late")
        assert bodies(await take(reader, 1)) == [b"late"]


async def test_order_within_a_queue(embedded: Running) -> None:
    await send(embedded, *(f"{n:03d}" for n in range(150)))
    async with consumer(embedded) as reader:
        got = await take(reader, 150)
    assert [m.body for m in got] == [b"%03d" % n for n in range(150)]


# At least once.


async def test_what_was_acknowledged_does_not_come_again(embedded: Running) -> None:
    await send(embedded, "1", "2", "3")
    async with consumer(embedded) as reader:
        await take(reader, 2)
    async with consumer(embedded) as reader:
        assert bodies(await take(reader, 1)) == [b"3"]
        await take_none(reader)


async def test_a_loop_body_that_raises_gets_the_message_again(embedded: Running) -> None:
    await send(embedded, "1", "2", "3")
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the loop is what is tested
        async with consumer(embedded) as reader:
            async for message in reader:
                if message.body == b"2":
                    raise ZeroDivisionError
    async with consumer(embedded) as reader:
        assert bodies(await take(reader, 2)) == [b"2", b"3"]


async def test_a_cancelled_consumer_gets_the_message_again(embedded: Running) -> None:
    """The one in hand comes again; those that the loop was through with do not."""
    await send(embedded, "1", "2", "3")
    seen: list[bytes] = []
    with trio.CancelScope() as scope:
        async with consumer(embedded) as reader:
            async for message in reader:
                seen.append(message.body)
                if len(seen) == 2:
                    scope.cancel()
                    await trio.sleep_forever()
    assert seen == [b"1", b"2"]
    async with consumer(embedded) as reader:
        got = await take(reader, 2)
        assert bodies(got) == [b"2", b"3"], "a cancelled consumer writes its offsets"


async def test_leaving_the_loop_by_break_keeps_the_last_message(embedded: Running) -> None:
    """`break` does not ask for the next message, so the last one counts as not consumed."""
    await send(embedded, "1", "2")
    async with consumer(embedded) as reader:
        async for message in reader:
            assert message.body == b"1"
            break
    async with consumer(embedded) as reader:
        assert bodies(await take(reader, 2)) == [b"1", b"2"]


async def test_a_cancelled_consumer_leaves_its_group_at_once(embedded: Running) -> None:
    await send(embedded, "1")
    with trio.CancelScope() as scope:
        async with consumer(embedded) as reader:
            await queues_assigned(reader, 4)
            scope.cancel()
            await trio.sleep_forever()

    def listed() -> int:
        with Client(embedded.broker_address) as client:
            return client.call(GET_CONSUMER_LIST_BY_GROUP, consumerGroup="cg").code

    with trio.fail_after(PATIENCE):
        while await trio.to_thread.run_sync(listed) == 0:  # noqa: ASYNC110 - a broker is asked
            await trio.sleep(0.02)


async def test_failing_messages_come_back_from_the_broker_and_end_as_dead(serve: Serve) -> None:
    """They hold up nothing, also where there are more of them than workers."""
    calls: dict[bytes, list[int]] = {}
    when_good: list[int] = []

    async def listener(message: ReceivedMessage) -> None:
        assert message.topic == "Topic"
        calls.setdefault(message.body, []).append(message.reconsume_times)
        if message.body == b"good":
            when_good.append(max(map(len, calls.values())))
        if message.body.startswith(b"bad"):
            raise ReconsumeLater("not now", delay_level=1)

    async with serve(message_delay_level="1s 2s") as server:
        await send(server, *(f"bad {n}" for n in range(5)), "good")
        async with PushConsumer(
            "cg",
            {"Topic": "*"},
            namesrv=server.namesrv,
            listener=listener,
            concurrency=2,
            max_reconsume_times=1,
        ):
            expected = {b"good": [0]} | {b"bad %d" % n: [0, 1] for n in range(5)}
            await eventually_trio(lambda: calls == expected, f"calls: {calls}")
        assert when_good == [1], "before anything came again"
        async with PushConsumer(
            "undertakers",
            {"%DLQ%cg": "*"},
            namesrv=server.namesrv,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ) as reader:
            dead = bodies(await take(reader, 5))
            assert dead == [b"bad %d" % n for n in range(5)]
        async with consumer(server) as reader:
            await take_none(reader)


async def test_what_java_sent_back_is_consumed(embedded: Running) -> None:
    """The retry topic of a group is read by whatever members it has."""
    await send(embedded, "first")
    again = Message("%RETRY%cg", b"again", properties={"RETRY_TOPIC": "Topic"})
    async with (
        Producer("pg", namesrv=embedded.namesrv) as producer,
        consumer(embedded) as reader,
    ):
        await take(reader, 1)
        await until_sent(producer, again)  # the group's retry topic is made
        (message,) = await take(reader, 1)
        assert (message.topic, message.body) == ("Topic", b"again")
    async with consumer(embedded) as reader:
        await take_none(reader)


async def until_sent(producer: Producer, message: Message) -> None:
    """Sends again until the topic is there."""
    with trio.fail_after(PATIENCE):
        while True:
            try:
                await producer.send(message)
                return
            except (ClientError, ResponseError):
                await trio.sleep(0.02)


async def test_concurrency_bounds_the_listener(embedded: Running) -> None:
    await send(embedded, *(str(n) for n in range(12)))
    running = most = done = 0

    async def listener(message: ReceivedMessage) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await trio.sleep(0.01)
        running -= 1
        done += 1

    async with PushConsumer(
        "cg", {"Topic": "*"}, namesrv=embedded.namesrv, listener=listener, concurrency=3
    ):
        await eventually_trio(lambda: done == 12, "12 messages listened to")
    assert most == 3


async def test_offsets_survive_a_broker_restart(tmp_path: Path, serve: Serve) -> None:
    async with serve(tmp_path / "store") as first:
        await send(first, "1", "2", "3")
        async with consumer(first) as reader:
            await take(reader, 2)
    async with serve(tmp_path / "store") as second:
        async with consumer(second) as reader:
            assert bodies(await take(reader, 1)) == [b"3"]
        async with consumer(second, "other") as reader:
            assert bodies(await take(reader, 3)) == [b"1", b"2", b"3"]


# Where a new group starts. The broker itself starts it at 0 while the first message is in memory,
# as RocketMQ does, so the ratio of 0 below makes it leave the choice to the client.


@pytest.mark.parametrize("start", [ConsumeFrom.LAST_OFFSET, ConsumeFrom.FIRST_OFFSET])
async def test_first_and_last_offset(start: ConsumeFrom, serve: Serve) -> None:
    async with serve(access_message_in_memory_max_ratio=0) as server:
        await send(server, "old")
        async with PushConsumer(
            "cg", {"Topic": "*"}, namesrv=server.namesrv, consume_from=start
        ) as reader:
            await queues_assigned(reader, 4)
            await send(server, "new")
            expected = [b"old", b"new"] if start is ConsumeFrom.FIRST_OFFSET else [b"new"]
            assert [m.body for m in await take(reader, len(expected))] == expected
            await take_none(reader)


async def test_start_at_a_timestamp(serve: Serve) -> None:
    async with serve(access_message_in_memory_max_ratio=0) as server:
        await send(server, "old")
        async with consumer(server, "looker") as reader:
            (old,) = await take(reader, 1)
        await trio.sleep(0.01)  # the two messages must not share a millisecond
        await send(server, "new")
        async with PushConsumer(
            "cg",
            {"Topic": "*"},
            namesrv=server.namesrv,
            consume_from=ConsumeFrom.TIMESTAMP,
            consume_timestamp=old.store_timestamp + 1,
        ) as reader:
            assert bodies(await take(reader, 1)) == [b"new"]
            await take_none(reader)


async def test_last_offset_starts_at_the_beginning_of_a_young_topic(embedded: Running) -> None:
    await send(embedded, "old")
    async with PushConsumer("cg", {"Topic": "*"}, namesrv=embedded.namesrv) as reader:
        assert bodies(await take(reader, 1)) == [b"old"]


# What cannot be.


async def test_arguments_that_make_no_sense(embedded: Running) -> None:
    server = embedded.namesrv
    with pytest.raises(ClientError, match="subscription"):
        PushConsumer("cg", {}, namesrv=server)
    with pytest.raises(InvalidParameterError, match="bad group"):
        PushConsumer("bad group", {"T": "*"}, namesrv=server)
    with pytest.raises(InvalidParameterError, match="bad topic"):
        PushConsumer("cg", {"bad topic": "*"}, namesrv=server)
    with pytest.raises(SubscriptionError, match="no tag"):
        PushConsumer("cg", {"T": "||"}, namesrv=server)
    with pytest.raises(ClientError, match="consume_timestamp"):
        PushConsumer("cg", {"T": "*"}, namesrv=server, consume_from=ConsumeFrom.TIMESTAMP)
    with pytest.raises(ClientError, match="concurrency"):
        PushConsumer("cg", {"T": "*"}, namesrv=server, concurrency=0)


async def test_a_consumer_with_a_listener_cannot_be_iterated(embedded: Running) -> None:
    async def listener(message: ReceivedMessage) -> None:
        pass

    async with PushConsumer(
        "cg", {"T": "*"}, namesrv=embedded.namesrv, listener=listener
    ) as reader:
        with pytest.raises(ClientError, match="listener"):
            aiter(reader)


async def test_a_consumer_that_was_not_entered_says_so(embedded: Running) -> None:
    reader = consumer(embedded)
    with pytest.raises(ClientError, match="async with"), trio.fail_after(1):
        await anext(aiter(reader))
