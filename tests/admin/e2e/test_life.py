"""The life of a message: `admin.lives` and `pyrmq admin message life`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import trio

from pyrmq import ReconsumeLater
from pyrmq.admin import Admin
from pyrmq.admin.dead_letters import Selection
from pyrmq.admin.life_facts import Fact, What
from pyrmq.admin.life_groups import Life
from pyrmq.admin.resend import To
from pyrmq.admin.traces import MAX_TRACES, MOST_EACH
from pyrmq.client import ConsumeFrom, Producer, PushConsumer, TransactionalProducer
from pyrmq.errors import NotFoundError
from pyrmq.model.message import Message, MessageQueue, SendResult
from pyrmq.model.names import TRACE_TOPIC, retry_topic
from pyrmq.model.properties import UNIQ_KEY
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import TransactionState
from pyrmq.server import Running
from tests.admin.e2e.test_groups import broker
from tests.support.dead_letters import die, make_group, send_all
from tests.support.fixtures import Serve
from tests.support.mqadmin import admin
from tests.support.waiting import until

GROUP, TOPIC = "Readers", "Orders"


def whats(life: Life) -> list[What]:
    return [fact.what for fact in life.facts]


def of(life: Life, what: What) -> list[Fact]:
    return [fact for fact in life.facts if fact.what is what]


async def living(tools: Admin, name: str, **how: Any) -> Life:
    """The life of a message, as soon as the index knows it."""

    async def known() -> Life | None:
        try:
            return await tools.lives.of_id(name, **how)
        except NotFoundError:
            return None

    found = await until(known, f"something is known of {name}")
    assert found is not None
    return found


async def test_traced_and_consumed(serve: Serve) -> None:
    async with serve(trace_topic_enable=True) as server, Admin(server.namesrv) as tools:
        async with Producer("PG", namesrv=server.namesrv, trace=True) as producer:
            sent = await producer.send(Message(TOPIC, b"x", tags="A", keys="o-1"))
        async with PushConsumer(
            GROUP, {TOPIC: "*"}, namesrv=server.namesrv, trace=True,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ) as consumer:  # fmt: skip
            async for message in consumer:
                consumer.acknowledge(message)
                break

        async def whole() -> Life | None:
            life = await tools.lives.of_id(sent.msg_id)
            there = {What.CONSUMED, What.OFFSET} <= set(whats(life))
            return life if there and of(life, What.OFFSET)[0].detail["beyond"] else None

        life = await until(whole, "trace and offsets are there")
        assert life is not None
        assert (life.topic, life.failed) == (TOPIC, [])
        assert [w for w in whats(life) if w is not What.SENT] == [
            What.STORED, What.CONSUMED, What.OFFSET,
        ]  # fmt: skip
        by_trace, by_log = sorted(of(life, What.SENT), key=lambda f: f.source, reverse=True)
        assert (by_trace.source, by_trace.detail["group"]) == ("message trace of clients", "PG")
        assert by_log.source == f"log of broker-a, topic {TOPIC}"
        (stored,) = of(life, What.STORED)
        assert stored.detail["offsetMsgId"] == sent.offset_msg_id
        assert stored.detail["queueOffset"] == sent.queue_offset
        (consumed,) = of(life, What.CONSUMED)
        assert (consumed.detail["group"], consumed.detail["success"]) == (GROUP, True)
        assert life.unknown == []
        queue = MessageQueue(TOPIC, "broker-a", stored.detail["queueId"])
        after = stored.detail["queueOffset"] + 1
        await tools.offsets.set(broker(server), "Untraced", queue, after)
        (untraced,) = (await tools.lives.of_id(sent.msg_id)).unknown
        assert untraced.startswith("whether Untraced consumed it")
        by_offset = await tools.lives.of_id(sent.offset_msg_id)
        assert by_offset.message_id == sent.msg_id
        assert What.CONSUMED in whats(by_offset)
        shown = await admin(server.namesrv, "message", "life", "--key", "o-1", "-o", "json")
        (one,) = json.loads(shown.out)
        assert one["messageId"] == sent.msg_id
        assert {fact["what"] for fact in one["facts"]} >= {"SENT", "STORED", "CONSUMED", "OFFSET"}


def records(message_id: str, count: int, group: str) -> bytes:
    """A message of the trace topic. [TraceDataEncoder]"""
    row = ("SubAfter", "r", message_id, "5", "true", "k", "0", "9" * 30, group)
    return "\x02".join(["\x01".join(row)] * count).encode()


async def test_trace_that_a_client_makes_up(embedded: Running) -> None:
    """It is bounded, escaped, and does not hide what others say."""
    (sent,) = await send_all(embedded.namesrv, Message(TOPIC, b"x"))

    def forged(count: int, group: str) -> Message:
        return Message(TRACE_TOPIC, records(sent.msg_id, count, group), keys=sent.msg_id)

    hostile = "G\n\x1b[31m"
    await send_all(embedded.namesrv, forged(1, "honest"), forged(20_000, hostile))
    async with Admin(embedded.namesrv) as tools:

        async def traced(least: int) -> Life | None:
            life = await tools.lives.of_id(sent.msg_id)
            return life if len(of(life, What.CONSUMED)) >= least else None

        life = await until(lambda: traced(2), "the records are indexed")
        assert life is not None
        groups = Counter(f.detail["group"] for f in of(life, What.CONSUMED))
        assert groups == {"honest": 1, hostile: MOST_EACH}
        shown = await admin(embedded.namesrv, "message", "life", sent.msg_id)
        assert r"by group G\n\x1b[31m on" in shown.out
        many = MAX_TRACES // MOST_EACH
        await send_all(embedded.namesrv, *(forged(MOST_EACH, f"G{n}") for n in range(many)))
        life = await until(lambda: traced(MAX_TRACES), "these too")
        assert life is not None
        assert len(of(life, What.CONSUMED)) == MAX_TRACES
        assert any("made them up" in text for text in life.unknown)


async def test_retries_and_dead_letters(embedded: Running) -> None:
    async with Admin(embedded.namesrv) as tools:
        await make_group(tools, embedded.namesrv, GROUP, broker(embedded))
        (sent,) = await send_all(embedded.namesrv, Message(TOPIC, b"x", keys="k"))
        await living(tools, sent.msg_id)
        await die(tools, GROUP, broker(embedded), sent)

        async def dead() -> Life | None:
            life = await tools.lives.of_id(sent.msg_id)
            return life if What.DEAD in whats(life) else None

        life = await until(dead, "the dead letter is indexed")
        assert life is not None
        (letter,) = await tools.dead_letters.find(GROUP)
        (fact,) = of(life, What.DEAD)
        assert fact.detail["offsetMsgId"] == letter.id
        assert fact.source == f"log of broker-a, topic %DLQ%{GROUP}"
        assert any("producer group" in text for text in life.unknown)
        assert any("with which result" in text for text in life.unknown)
        queue = MessageQueue(TOPIC, "broker-a", sent.queue.queue_id)
        await tools.offsets.set(broker(embedded), GROUP, queue, sent.queue_offset + 1)
        life = await tools.lives.of_id(sent.msg_id)
        assert of(life, What.OFFSET)[0].detail["beyond"]
        assert not any(text.startswith("whether") for text in life.unknown), "it failed on it"
        plan = await tools.dead_letters.preview(GROUP, To.GROUP, Selection(key="k"))
        assert [one.state.value async for one in tools.dead_letters.resend(plan)] == ["sent"]

        async def resent() -> Life | None:
            life = await tools.lives.of_id(letter.id)
            return life if What.RESENT in whats(life) else None

        life = await until(resent, "the resent message is indexed")
        assert life is not None
        (again,) = of(life, What.RESENT)
        assert again.detail["topic"] == retry_topic(GROUP)
        assert again.detail["resentFrom"] == letter.id
        assert (life.topic, life.message_id) == (TOPIC, sent.msg_id)
    shown = await admin(embedded.namesrv, "message", "life", sent.msg_id)
    assert shown.code == 0, shown.err
    assert any(line.startswith("not known: its producer group") for line in shown.lines)
    assert "dead letter" in shown.out


async def test_a_retry_waits_and_is_consumed(embedded: Running) -> None:
    """A group fails on a message once: it comes back after a second."""

    async def fail_once(message: ReceivedMessage) -> None:
        if not message.reconsume_times:
            raise ReconsumeLater(delay_level=level)

    async with Admin(embedded.namesrv) as tools:
        level = 18
        (slow,) = await send_all(embedded.namesrv, Message("Slow", b"x"))
        (quick,) = await send_all(embedded.namesrv, Message(TOPIC, b"x"))

        def offsets(found: Life) -> list[Fact]:
            return [f for f in of(found, What.OFFSET) if f.detail["group"] == "Again"]

        async def life(sent: SendResult, wanted: Callable[[Life], bool]) -> Life:
            async def look() -> Life | None:
                found = await living(tools, sent.msg_id)
                return found if wanted(found) else None

            found = await until(look, f"{sent.msg_id} is as it should be")
            assert found is not None
            return found

        async with PushConsumer(
            GROUP, {"Slow": "*"}, namesrv=embedded.namesrv, listener=fail_once,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ):  # fmt: skip
            found = await life(slow, lambda one: What.WAITS in whats(one))
            (waits,) = of(found, What.WAITS)
            assert waits.detail["target"] == retry_topic(GROUP)
            assert waits.detail["due"] == waits.time + 2 * 3_600_000
            assert "due at" in waits.text
        level = 1
        async with PushConsumer(
            "Again", {TOPIC: "*"}, namesrv=embedded.namesrv, listener=fail_once,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ):  # fmt: skip
            found = await life(
                quick,
                lambda one: [f.detail["beyond"] for f in offsets(one)] == [True, True],
            )
        (retry,) = of(found, What.RETRY)
        assert (retry.detail["group"], retry.detail["reconsumeTimes"]) == ("Again", 1)
        assert not of(found, What.WAITS)
        first, second = offsets(found)
        assert "it came back once" in first.text
        assert "is beyond retry 1" in second.text


async def test_a_delayed_message_waits(embedded: Running) -> None:
    async with Admin(embedded.namesrv) as tools:
        (sent,) = await send_all(
            embedded.namesrv, Message(TOPIC, b"x", keys="o-1", delay_time_level=18)
        )
        life = await living(tools, sent.msg_id)
        assert [one.message_id for one in await tools.lives.of_key("o-1")] == [sent.msg_id]
        (waits,) = of(life, What.WAITS)
        assert (waits.detail["target"], life.topic) == (TOPIC, TOPIC)
        assert "delay level 18" in waits.text
        assert not of(life, What.STORED)


async def test_a_transaction(embedded: Running) -> None:
    class Listener:
        outcome = TransactionState.UNKNOWN

        async def execute_local_transaction(self, message: object, arg: object) -> object:
            return self.outcome

        async def check_local_transaction(self, message: object) -> object:
            return TransactionState.UNKNOWN

    listener = Listener()

    async def send(producer: TransactionalProducer) -> SendResult:
        return await producer.send_in_transaction(Message(TOPIC, b"x", keys="o-1"))

    async with (
        Admin(embedded.namesrv) as tools,
        TransactionalProducer("TG", listener, namesrv=embedded.namesrv) as producer,
    ):
        pending = await living(tools, (await send(producer)).msg_id)
        assert (of(pending, What.HALF)[0].detail["producerGroup"], pending.topic) == ("TG", TOPIC)
        assert of(pending, What.WAITS)[0].detail["state"] == "PENDING"
        by_key = await tools.lives.of_key("o-1")
        assert [life.message_id for life in by_key] == [pending.message_id]
        with pytest.raises(NotFoundError, match="no message has the key o-1"):
            await tools.lives.of_key("o-1", topic="Other")
        listener.outcome = TransactionState.COMMIT
        sent = await send(producer)

        async def committed() -> Life | None:
            life = await living(tools, sent.msg_id)
            return life if What.STORED in whats(life) else None

        life = await until(committed, "the committed message is indexed")
        assert life is not None
        assert of(life, What.SETTLED)[0].detail["state"] == "COMMITTED"
        assert of(life, What.SENT)[0].detail["producerGroup"] == "TG"


async def test_a_message_that_nobody_has(embedded: Running) -> None:
    await send_all(embedded.namesrv, Message(TOPIC, b"x"))
    async with Admin(embedded.namesrv) as tools:
        with pytest.raises(NotFoundError, match=r"broker-a has messages from .*no trace of it"):
            await tools.lives.of_id("7F0000010001AAAAAAAA000000010000")
    gone = await admin(embedded.namesrv, "message", "life", "-t", TOPIC, "--key", "none")
    assert (gone.code, gone.out) == (2, "")
    for words in ((), ("X", "--key", "k")):
        assert (await admin(embedded.namesrv, "message", "life", *words)).code == 1


async def test_an_id_that_a_sender_chose_leads_to_no_foreign_server(serve: Serve) -> None:
    """A unique id may look like the offset id of a broker. A request there would be signed."""
    listener = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener[0].socket.getsockname()[1]
    chosen = f"7F000001{port:08X}{12345:016X}"
    callers: list[trio.SocketStream] = []

    async def called(stream: trio.SocketStream) -> None:
        callers.append(stream)
        await stream.aclose()

    async with serve() as server, Admin(server.namesrv) as tools, trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, called, listener)
        async with Producer("PG", namesrv=server.namesrv) as producer:
            await producer.send(Message(TOPIC, b"x", keys="o-1", properties={UNIQ_KEY: chosen}))

        async def by_key() -> list[Life] | None:
            try:
                return await tools.lives.of_key("o-1", topic=TOPIC)
            except NotFoundError:
                return None

        (life,) = await until(by_key, "the index knows it") or []
        assert life.message_id == chosen
        assert whats(life) == [What.SENT, What.STORED]
        with pytest.raises(NotFoundError, match="no offset id of this cluster"):
            await tools.messages.by_offset_id(chosen)
        assert callers == []
        nursery.cancel_scope.cancel()
