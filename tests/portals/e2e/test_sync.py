"""pyrmq.sync: plain blocking clients."""

from __future__ import annotations

import inspect
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import pyrmq
from pyrmq import (
    ClientError,
    ConfigError,
    ConsumeFrom,
    MessageIllegalError,
    RequestTimeoutError,
    TransactionState,
    aio,
    sync,
)
from pyrmq.client.producer.pending import Requests
from pyrmq.portal import thread
from pyrmq.server import Running
from pyrmq.sync import (
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SimpleConsumer,
    TransactionalProducer,
)

FIRST: Any = {"consume_from": ConsumeFrom.FIRST_OFFSET}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("portal", [sync, aio])
def test_the_same_names_and_docs(portal: Any) -> None:
    for name in (
        "Producer", "TransactionalProducer", "PushConsumer", "LitePullConsumer", "SimpleConsumer",
    ):  # fmt: skip
        here, there = getattr(portal, name), getattr(pyrmq, name)
        left_out = {"transaction", "listener_of", "take", "check_entered", "group", "namespace"}
        left_out |= {"half_properties", "put_back", "finish", "poll_unseen", "saw"}
        assert public(there) - left_out <= public(here) | {"listener"}
        for method in public(here) & public(there):
            assert inspect.getdoc(getattr(here, method))
    for method in ("send", "send_batches", "request", "queues"):
        here, there = getattr(portal.Producer, method), getattr(pyrmq.Producer, method)
        assert inspect.signature(here) == inspect.signature(there)
    # In words of its own: tests/house/e2e/types says which not.
    assert inspect.getdoc(portal.Producer.request) == inspect.getdoc(pyrmq.Producer.request)
    assert "send_latency_fault: send nothing" in (inspect.getdoc(portal.Producer) or "")


def test_sending_and_a_loop(server: Running) -> None:
    with Producer("pg", namesrv=server.namesrv) as producer:
        result = producer.send(Message("Sync", b"0", tags="t"))
        producer.send_batch([Message("Sync", b"1"), Message("Sync", b"2")])
        producer.send_oneway(Message("Sync", b"3"), queue=producer.queues("Sync")[0])
        assert len(producer.send_batches([Message("Sync", b"4")])) == 1
    got: list[ReceivedMessage] = []
    with PushConsumer("cg", {"Sync": "*"}, namesrv=server.namesrv, **FIRST) as consumer:
        for message in consumer:
            got.append(message)
            if len(got) == 5:
                consumer.acknowledge(message)
                break
        assert len(consumer.assigned) == 4
    assert {m.body for m in got} == {b"%d" % n for n in range(5)}
    assert result.msg_id in {m.msg_id for m in got}


def test_polls(server: Running) -> None:
    with Producer("pg", namesrv=server.namesrv) as producer:
        results = [producer.send(Message("Polls", b"%d" % n)) for n in range(3)]
    with LitePullConsumer("polls", {"Polls": "*"}, namesrv=server.namesrv, **FIRST) as consumer:
        got = [m for _ in range(3) for m in consumer.poll()]
        consumer.commit()
        assert consumer.committed(results[0].queue) == results[0].queue_offset + 1
        queue = results[0].queue
        assert queue in consumer.assigned
        consumer.pause([queue])
        consumer.resume([queue])
        for place in (consumer.seek_to_end, consumer.seek_to_begin):
            place(queue)
        consumer.seek(queue, consumer.offset_for_timestamp(queue, 0))
        assert consumer.poll(20)[0].queue_id == queue.queue_id
        with pytest.raises(ClientError, match="cannot assign"):
            consumer.assign([queue])
        consumer.subscribe("PollsToo")
    assert {m.msg_id for m in got} == {r.msg_id for r in results}


def test_receiving(server: Running) -> None:
    with Producer("pg", namesrv=server.namesrv) as producer:
        for n in range(3):
            producer.send(Message("Received", b"%d" % n))
    with SimpleConsumer("received", {"Received": "*"}, namesrv=server.namesrv, **FIRST) as consumer:
        got: list[ReceivedMessage] = []
        while len(got) < 3:
            got += consumer.receive(1, 60)
        consumer.ack(got[0])
        consumer.change_invisible(got[1], 60)
        consumer.ack_all(got[1:])
        assert consumer.receive(timeout=0) == []
        consumer.subscribe("ReceivedToo")
        consumer.unsubscribe("ReceivedToo")
    assert sorted(m.body for m in got) == [b"0", b"1", b"2"]


def test_popping(server: Running) -> None:
    with Producer("pg", namesrv=server.namesrv) as producer:
        producer.send(Message("Popped", b"m"))
    options: Any = {"namesrv": server.namesrv, "pop": True, **FIRST}
    with PushConsumer("popped", {"Popped": "*"}, **options) as consumer:
        for message in consumer:
            assert message.body == b"m"
            consumer.acknowledge(message)
            break


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
def test_what_an_interrupted_call_had_comes_again(
    server: Running, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes between the answer and who waits for it."""

    class Interrupted(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            super().result(timeout)
            raise KeyboardInterrupt

    topic = f"Interrupted{kind.__name__}"
    with Producer("pg", namesrv=server.namesrv) as producer:
        producer.send(Message(topic, b"x"))
    with (
        ThreadPoolExecutor(1) as pool,
        kind(topic, {topic: "*"}, namesrv=server.namesrv, **FIRST) as consumer,
    ):
        calls = [lambda: next(iter(consumer))]
        if kind is LitePullConsumer:
            calls.append(lambda: consumer.poll()[0])
        for call in calls:
            with monkeypatch.context() as patch:
                patch.setattr(thread, "Future", Interrupted)
                with pytest.raises(KeyboardInterrupt):
                    pool.submit(call).result(20)
        assert pool.submit(calls[-1]).result(20).body == b"x"


def test_many_threads_and_a_listener(server: Running) -> None:
    """A listener is a plain function in a worker thread, which may block, and send."""
    done, lock = threading.Event(), threading.Lock()
    got: list[bytes] = []

    def listener(message: ReceivedMessage) -> None:
        assert producer.queues("Many")
        with lock:
            got.append(message.body)
            if len(got) == 100:
                done.set()

    options: Any = {"namesrv": server.namesrv, "listener": listener, **FIRST}
    with (
        Producer("pg", namesrv=server.namesrv, auto_batch=True) as producer,
        PushConsumer("many", {"Many": "*"}, **options),
        ThreadPoolExecutor(10) as pool,
    ):
        list(pool.map(lambda n: producer.send(Message("Many", b"%d" % n)), range(100)))
        assert done.wait(20)
    assert sorted(got) == sorted(b"%d" % n for n in range(100))


class Listener:
    def __init__(self) -> None:
        self.threads: set[str] = set()

    def execute_local_transaction(self, message: pyrmq.Message, arg: object) -> TransactionState:
        self.threads.add(threading.current_thread().name)
        return TransactionState.COMMIT

    def check_local_transaction(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.UNKNOWN


def test_transactions(server: Running) -> None:
    listener = Listener()
    with TransactionalProducer("tx", listener, namesrv=server.namesrv) as producer:
        result = producer.send_in_transaction(Message("Tx", b"x"), "arg")
        assert producer.statistics().committed == 1
    assert result.local_state is TransactionState.COMMIT
    assert not listener.threads & {"MainThread", "pyrmq"}


def test_errors(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    send = Requests._send

    async def send_and_give_up(self: Requests, waiting: Any, *args: Any) -> None:
        await send(self, waiting, *args)
        waiting.event.set()  # as if the time were over

    monkeypatch.setattr(Requests, "_send", send_and_give_up)
    with pytest.raises(ConfigError, match="is not HOST:PORT"):
        Producer("pg", namesrv="nowhere")
    producer = Producer("pg", namesrv=server.namesrv)
    with pytest.raises(ClientError, match="use the client inside of its `with`"):
        producer.send(Message("T", b"x"))
    with producer:
        with pytest.raises(MessageIllegalError, match="empty"):
            producer.send(Message("T", b""))
        with pytest.raises(RequestTimeoutError, match="no reply"):
            producer.request(Message("T", b"x"), timeout=60)
        with pytest.raises(ClientError, match="once only"):
            producer.__enter__()
    with pytest.raises(ClientError, match="once only"), producer:
        raise AssertionError
    with pytest.raises(ZeroDivisionError), Producer("pg", namesrv=server.namesrv):
        1 / 0  # noqa: B018


def test_entering_that_fails(server: Running) -> None:
    expression = pyrmq.Sql("a >")
    with Producer("before", namesrv=server.namesrv) as producer:
        producer.send(Message("T", b"x"))  # a topic whose broker can be asked
    with (
        pytest.raises(pyrmq.PyrmqError),
        PushConsumer("cg", {"T": expression}, namesrv=server.namesrv),
    ):
        raise AssertionError


def test_a_thread_for_all(server: Running) -> None:
    with Producer("a", namesrv=server.namesrv):
        with Producer("b", namesrv=server.namesrv):
            names = [t.name for t in threading.enumerate()]
            assert names.count("pyrmq") == 1
        assert "pyrmq" in {t.name for t in threading.enumerate()}


def test_a_listener_that_does_not_return_in_time(server: Running) -> None:
    """It is left behind; leaving takes no longer."""
    called, release = threading.Event(), threading.Event()

    def listener(message: ReceivedMessage) -> None:
        called.set()
        release.wait(20)

    with Producer("pg", namesrv=server.namesrv) as producer:
        producer.send(Message("Stuck", b"x"))
    options: Any = {"listener": listener, "close_grace": 0.1, **FIRST}
    try:
        with PushConsumer("stuck", {"Stuck": "*"}, namesrv=server.namesrv, **options):
            assert called.wait(20)
            began = time.monotonic()
        assert time.monotonic() - began < 10
    finally:
        release.set()


async def coroutine(message: ReceivedMessage) -> None:
    pass


def test_a_listener_that_is_none(server: Running) -> None:
    for listener in (coroutine, 5):
        with pytest.raises(ClientError, match="listener"):
            PushConsumer("g", {"T": "*"}, namesrv=server.namesrv, listener=listener)  # type: ignore[arg-type]


def test_the_end_of_one_client_is_not_that_of_others(server: Running) -> None:
    """Nor of the thread that they share; a loop in another thread hears of it."""
    ended = threading.Event()

    def loop(consumer: PushConsumer) -> None:
        with pytest.raises(ClientError):
            for _ in consumer:
                pass
        ended.set()

    with Producer("pg", namesrv=server.namesrv) as producer:
        producer.send(Message("Exits", b"x"))
        with PushConsumer("loop", {"Exits": "*"}, namesrv=server.namesrv) as consumer:
            threading.Thread(target=loop, args=(consumer,)).start()
            time.sleep(0.2)
        assert ended.wait(20)
        assert producer.send(Message("Exits", b"y")).msg_id


def test_sending_soon(server: Running) -> None:
    """Results are there when the producer was left, too."""
    with Producer("pg", namesrv=server.namesrv, auto_batch=True) as producer:
        queue = producer.queues("Soon")[0]
        pending = [producer.send_soon(Message("Soon", b"%d" % n), queue=queue) for n in range(20)]
        first = pending[0].result()
        producer.flush()
        assert all(p.done for p in pending)
        with pytest.raises(MessageIllegalError, match="empty"):
            producer.send_soon(Message("Soon", b""))
        last = producer.send_soon(Message("Soon", b"last"), queue=queue)
    assert [p.result().queue_offset for p in pending] == [first.queue_offset + n for n in range(20)]
    assert last.result().queue_offset == first.queue_offset + 20
