"""Sending through `Producer`: what arrives is what was sent, what cannot be sent is refused."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from pyrmq import CompressionType, reply_to
from pyrmq.client import ConsumeFrom, Producer, PushConsumer
from pyrmq.errors import (
    ClientError,
    ConfigError,
    InvalidParameterError,
    MessageIllegalError,
    ProtocolError,
    PyrmqError,
)
from pyrmq.model.message import Message, MessageQueue, SendStatus
from pyrmq.model.record import ReceivedMessage
from pyrmq.server import Running
from tests.support.consumed import bodies, take
from tests.support.fixtures import Serve

pytestmark = pytest.mark.usefixtures("deadline")


async def receive(server: Running, topic: str, count: int) -> list[ReceivedMessage]:
    """The first messages of a topic, by a group that is new."""
    async with PushConsumer(
        "reader", {topic: "*"}, namesrv=server.namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        return await take(consumer, count)


async def test_everything_a_message_carries_arrives(embedded: Running) -> None:
    message = Message(
        "Orders",
        "grüße ✓ 漢字 \0".encode(),
        tags="gezahlt-ü",
        keys=["order-1", "客户"],
        flag=7,
        properties={"region": "Köln", "emoji": "🚀", "spaces": "a b  c"},
    )
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        result = await producer.send(message)
    assert result.status is SendStatus.SEND_OK
    (got,) = await receive(embedded, "Orders", 1)
    assert got.body == message.body
    assert (got.tags, got.keys, got.flag) == (message.tags, message.keys, 7)
    assert {name: got.properties[name] for name in message.properties} == message.properties
    assert (got.msg_id, got.offset_msg_id) == (result.msg_id, result.offset_msg_id)
    assert (got.topic, got.queue_id, got.queue_offset) == ("Orders", result.queue.queue_id, 0)
    assert (got.broker_name, got.reconsume_times) == ("broker-a", 0)
    assert 0 <= got.store_timestamp - got.born_timestamp < 60_000


async def test_sending_does_not_change_the_users_message(embedded: Running) -> None:
    message = Message("Orders", b"x", tags="t", properties={"a": "b"})
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        first, second = await producer.send(message), await producer.send(message)
    assert message == Message("Orders", b"x", tags="t", properties={"a": "b"})
    assert first.msg_id != second.msg_id


async def test_sends_go_to_all_queues_in_turn(embedded: Running) -> None:
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        results = [await producer.send(Message("Turn", b"%d" % n)) for n in range(8)]
        queues = await producer.queues("Turn")
    assert [q.queue_id for q in queues] == [0, 1, 2, 3]
    assert sorted(r.queue.queue_id for r in results) == [0, 0, 1, 1, 2, 2, 3, 3]


async def test_chosen_queue_keeps_the_order(embedded: Running) -> None:
    queue = MessageQueue("Chosen", "broker-a", 2)
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        for n in range(20):
            result = await producer.send(Message("Chosen", b"%d" % n), queue=queue)
            assert (result.queue, result.queue_offset) == (queue, n)
    got = await receive(embedded, "Chosen", 20)
    assert [m.body for m in got] == [b"%d" % n for n in range(20)]


async def test_selector_chooses_by_key(embedded: Running) -> None:
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        for n in range(8):
            result = await producer.send(
                Message("Selected", b"%d" % n), select=lambda queues, n=n: queues[n % 3]
            )
            assert result.queue.queue_id == n % 3


async def test_a_queue_that_is_not_there_is_an_error(embedded: Running) -> None:
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        await producer.send(Message("Known", b"x"))
        with pytest.raises(InvalidParameterError, match="queueId"):
            await producer.send(Message("Known", b"x"), queue=MessageQueue("Known", "broker-a", 77))
        with pytest.raises(ClientError, match="broker-zz"):
            await producer.send(Message("Known", b"x"), queue=MessageQueue("Known", "broker-zz", 0))


async def test_a_queue_of_another_topic_is_refused(embedded: Running) -> None:
    """Else the message goes to its own topic and the result names the other one."""
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        await producer.send(Message("Other", b"x"))
        with pytest.raises(ClientError, match="Other"):
            await producer.send(Message("Mine", b"x"), queue=MessageQueue("Other", "broker-a", 0))


async def test_batch_arrives_as_single_messages(embedded: Running) -> None:
    batch = [Message("Batch", b"%03d" % n, tags=f"t{n % 2}", keys=f"k{n}") for n in range(50)]
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        result = await producer.send_batch(batch)
    assert result.status is SendStatus.SEND_OK
    ids = result.msg_id.split(",")
    assert len(set(ids)) == 50
    got = sorted(await receive(embedded, "Batch", 50), key=lambda m: m.queue_offset)
    assert [m.body for m in got] == [m.body for m in batch]
    assert [m.tags for m in got] == [m.tags for m in batch]
    assert [m.msg_id for m in got] == ids
    assert {m.queue_id for m in got} == {result.queue.queue_id}


async def test_oneway_arrives_without_an_answer(embedded: Running) -> None:
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        await producer.send(Message("Oneway", b"first"))
        for n in range(10):
            await producer.send_oneway(Message("Oneway", b"%d" % n))
    got = await receive(embedded, "Oneway", 11)
    assert bodies(got) == [*(b"%d" % n for n in range(10)), b"first"]


async def test_request_and_reply(embedded: Running) -> None:
    """Twice, and with a body that is compressed both ways."""

    async def serve(started: trio.Event) -> None:
        subscription = {"Questions": "*"}
        async with (
            Producer("repliers", namesrv=embedded.namesrv) as replier,
            PushConsumer(
                "answerers",
                subscription,
                namesrv=embedded.namesrv,
                consume_from=ConsumeFrom.FIRST_OFFSET,
            ) as consumer,
        ):
            started.set()
            async for message in consumer:
                await replier.send(reply_to(message, b"re: " + message.body))

    async with (
        Producer("askers", namesrv=embedded.namesrv) as producer,
        trio.open_nursery() as nursery,
    ):
        started = trio.Event()
        nursery.start_soon(serve, started)
        await started.wait()
        for body in (b"question", b"long " * 2000):
            reply = await producer.request(Message("Questions", body), timeout=10)
            assert reply.body == b"re: " + body
        nursery.cancel_scope.cancel()


async def test_oneway_creates_a_new_topic(embedded: Running) -> None:
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        await producer.send_oneway(Message("OnewayNew", b"x"))
    assert bodies(await receive(embedded, "OnewayNew", 1)) == [b"x"]


@pytest.mark.parametrize("size", [4095, 4096, 100_000, 4 << 20])
async def test_bodies_of_any_size_arrive(embedded: Running, size: int) -> None:
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        await producer.send(Message("Big", body))
    (got,) = await receive(embedded, "Big", 1)
    assert got.body == body
    assert (got.store_size < size) is (size >= 4096), "compressed from 4096 bytes on"
    assert not got.sys_flag & 1, "the compression bit is gone once the body is plain"


@pytest.mark.parametrize("kind", CompressionType, ids=str)
async def test_every_kind_of_compression(embedded: Running, kind: CompressionType) -> None:
    async with Producer("pg", namesrv=embedded.namesrv, compress_type=kind) as producer:
        await producer.send(Message("Kinds", b"compresses well " * 1000))
    (got,) = await receive(embedded, "Kinds", 1)
    assert got.body == b"compresses well " * 1000
    assert got.store_size < 1000


async def test_uncompressed_large_body(embedded: Running) -> None:
    body = b"x" * 50_000
    async with Producer("pg", namesrv=embedded.namesrv, compress_over=1 << 30) as producer:
        await producer.send(Message("Plain", body))
    (got,) = await receive(embedded, "Plain", 1)
    assert got.body == body
    assert got.store_size > 50_000


@pytest.mark.parametrize(
    ("message", "error", "words"),
    [
        (Message("T", b""), MessageIllegalError, "empty"),
        (Message("T", b"x" * ((4 << 20) + 1)), MessageIllegalError, "4194304"),
        (Message("bad topic", b"x"), InvalidParameterError, "bad topic"),
        (Message("../evil", b"x"), InvalidParameterError, "evil"),
        (Message("", b"x"), InvalidParameterError, "topic"),
        (Message("T" * 128, b"x"), InvalidParameterError, "127"),
        (Message("T", b"x", properties={"DELAY": "x"}), MessageIllegalError, "DELAY"),
        (
            Message("T", b"x", properties={"TIMER_DELAY_SEC": "3"}),
            MessageIllegalError,
            "TIMER_DELAY_SEC: set deliver_at or delay instead",
        ),
        (Message("T", b"x", properties={"TRAN_MSG": "true"}), MessageIllegalError, "TRAN_MSG"),
        (Message("T", b"x", properties={"a": "b\x01c"}), MessageIllegalError, "'a'"),
        (Message("T", b"x", properties={"a": "v" * 32_768}), MessageIllegalError, "32767"),
    ],
    ids=lambda value: repr(value)[:40] if isinstance(value, Message) else None,
)
async def test_refused_messages_name_the_reason(
    embedded: Running, message: Message, error: type[PyrmqError], words: str
) -> None:
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        with pytest.raises(error, match=words):
            await producer.send(message)
        assert (await producer.send(Message("Still", b"works"))).status is SendStatus.SEND_OK


async def test_any_number_of_messages_in_batches(embedded: Running) -> None:
    messages = (Message("Many", b"%06d" % n, tags="t") for n in range(1000))
    async with Producer("pg", namesrv=embedded.namesrv, max_message_size=20_000) as producer:
        results = await producer.send_batches(messages)
        with pytest.raises(MessageIllegalError, match="limit is 20000") as caught:
            await producer.send_batches(
                [*[Message("Some", b"x")] * 3, Message("Some", bytes(30_000))]
            )
    assert len(results) > 10
    assert caught.value.__notes__ == ["3 messages were sent before, in 1 batches"]
    got = await receive(embedded, "Many", 1000)
    assert bodies(got) == [b"%06d" % n for n in range(1000)]
    assert {m.msg_id for m in got} == {key for r in results for key in r.msg_id.split(",")}


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"])
async def test_system_topics_are_refused_with_the_brokers_code(
    embedded: Running, topic: str
) -> None:
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        with pytest.raises(PyrmqError, match=f"{topic}.* forbidden") as caught:
            await producer.send(Message(topic, b"x"))
    assert caught.value.code == 16, "NO_PERMISSION, whichever class carries it"


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ([], "at least one"),
        ([Message("A", b"x"), Message("B", b"x")], "share topic"),
        ([Message("A", b"x"), Message("A", b"")], "empty"),
        ([Message("A", b"x" * 1_000_000)] * 5, "split it"),
        ([Message("A", b"x", properties={"DELAY": "1"})], "cannot be delayed"),
        ([Message("A", b"x"), Message("A", b"x", delay_time_level=1)], "cannot be delayed"),
        ([Message("%RETRY%g", b"x")], "retry topic"),
    ],
)
async def test_refused_batches(embedded: Running, batch: list[Message], words: str) -> None:
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        with pytest.raises(MessageIllegalError, match=words):
            await producer.send_batch(batch)


async def test_the_brokers_own_limit_counts_too(serve: Serve) -> None:
    async with (
        serve(max_message_size=1000) as server,
        Producer("pg", namesrv=server.namesrv) as producer,
    ):
        with pytest.raises(MessageIllegalError):
            await producer.send(Message("T", b"x" * 1500))
        await producer.send(Message("T", b"x" * 900))


async def test_sync_flush(tmp_path: Path, serve: Serve) -> None:
    async with serve(tmp_path / "store", flush_disk_type="SYNC_FLUSH") as server:
        # A disk may be slow; what is sent again is there twice.
        async with Producer("pg", namesrv=server.namesrv, send_timeout=40) as producer:
            results = []

            async def send(n: int) -> None:
                results.append(await producer.send(Message("Sync", b"%02d" % n)))

            async with trio.open_nursery() as nursery:
                for n in range(40):
                    nursery.start_soon(send, n)
        assert {r.status for r in results} == {SendStatus.SEND_OK}
        assert bodies(await receive(server, "Sync", 40)) == [b"%02d" % n for n in range(40)]


async def test_many_tasks_share_one_producer(embedded: Running) -> None:
    async with Producer("pg", namesrv=embedded.namesrv) as producer:

        async def send(n: int) -> None:
            await producer.send(Message("Shared", b"%03d" % n))

        async with trio.open_nursery() as nursery:
            for n in range(200):
                nursery.start_soon(send, n)
    assert bodies(await receive(embedded, "Shared", 200)) == [b"%03d" % n for n in range(200)]


async def test_no_auto_creation_says_which_topic_is_missing(serve: Serve) -> None:
    async with (
        serve(auto_create_topic_enable=False) as server,
        Producer("pg", namesrv=server.namesrv) as producer,
    ):
        with pytest.raises(PyrmqError, match="Missing") as caught:
            await producer.send(Message("Missing", b"x"))
    assert caught.value.code == 17, "TOPIC_NOT_EXIST, whichever class carries it"
    assert "TBW102" not in str(caught.value), "the template topic is none of the user's business"


async def test_an_error_in_the_body_comes_out_as_it_is(embedded: Running) -> None:
    """`except MessageIllegalError` around `async with Producer` must work."""
    with pytest.raises(MessageIllegalError):
        async with Producer("pg", namesrv=embedded.namesrv) as producer:
            await producer.send(Message("T", b""))


async def test_a_producer_that_was_not_entered_says_so(embedded: Running) -> None:
    producer = Producer("pg", namesrv=embedded.namesrv)
    with pytest.raises(ClientError, match="async with"):
        await producer.send(Message("T", b"x"))
    async with producer:
        await producer.send(Message("T", b"x"))
    with pytest.raises(ClientError, match="async with"):
        await producer.send(Message("T", b"x"))


async def test_no_name_server_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigError, match="NAMESRV_ADDR"):
        Producer("pg")
    with pytest.raises(ConfigError, match="HOST:PORT"):
        Producer("pg", namesrv="nonsense")
    with pytest.raises(InvalidParameterError, match="group"):
        Producer("bad group", namesrv="127.0.0.1:9876")


async def test_a_peer_that_is_no_name_server() -> None:
    """Something else listens on the port: an error that says so, not a hang or a crash."""

    async def http(stream: trio.SocketStream) -> None:
        await stream.receive_some(100)
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, http, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        producer = Producer("pg", namesrv=f"127.0.0.1:{port}")
        async with producer:
            with pytest.raises((ClientError, ProtocolError), match=str(port)):
                await producer.send(Message("T", b"x"))
        nursery.cancel_scope.cancel()


async def test_send_timeout_holds_when_nobody_answers(autojump_clock: MockClock) -> None:
    """A name server that accepts and says nothing: the error comes at the send's own timeout."""
    with trio.socket.socket() as silent:
        await silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        host, port = silent.getsockname()
        async with Producer("pg", namesrv=f"{host}:{port}", send_timeout=0.3) as producer:
            began = trio.current_time()
            with pytest.raises(ClientError):
                await producer.send(Message("T", b"x"))
            took = trio.current_time() - began
    assert took == pytest.approx(0.3, abs=0.05)
