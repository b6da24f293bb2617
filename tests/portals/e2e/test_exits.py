"""What is meant to end a program, a thread or a task, in functions that run for a client in the
background: it ends no consumer in silence."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio

from pyrmq import ClientError, ConsumeFrom, ConsumeMessageHook, TransactionState, aio, sync
from pyrmq.client.consumer.member import Member
from pyrmq.client.transaction.listener import Outcome, outcome_of
from pyrmq.model.message import Message
from pyrmq.model.record import ReceivedMessage
from pyrmq.oms.producer import Promise
from pyrmq.server import Running

FIRST: Any = {"consume_from": ConsumeFrom.FIRST_OFFSET}


class Own(BaseException):
    pass


ENDS = [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Own("own"), asyncio.CancelledError()]


class Calls:
    """What a listener has had: it raises on `bad`. `all`: it had `later`, and `bad` if that was
    sent before."""

    def __init__(self, error: BaseException, *first: bytes) -> None:
        self.error = error
        self.first = first
        self.got: list[bytes] = []
        self.all = threading.Event()

    def __call__(self, message: ReceivedMessage) -> None:
        self.got.append(message.body)
        if {b"later", *self.first} <= set(self.got):
            self.all.set()
        if message.body == b"bad":
            raise self.error


def raised(caplog: pytest.LogCaptureFixture, kind: type) -> bool:
    """Whether the log says of a listener that it ended so."""
    return any(
        r.levelno == logging.ERROR
        and r.exc_info is not None
        and kind.__name__ in str(r.exc_info[1])
        for r in caplog.records
    )


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("error", ENDS, ids=repr)
def test_a_plain_listener(
    server: Running, error: BaseException, orderly: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The message counts as failed, and what comes later is consumed."""
    topic = f"Plain{type(error).__name__}{orderly}"
    calls = Calls(error, b"bad")
    options: Any = {"listener": calls, "orderly": orderly, "max_reconsume_times": 0, **FIRST}
    with (
        sync.Producer("pg", namesrv=server.namesrv) as producer,
        sync.PushConsumer(topic, {topic: "*"}, namesrv=server.namesrv, **options) as consumer,
    ):
        queue = producer.queues(topic)[0]
        producer.send(Message(topic, b"bad"), queue=queue)
        producer.send(Message(topic, b"later"), queue=queue)
        assert calls.all.wait(20)
        assert queue in consumer.assigned
    assert raised(caplog, type(error))
    assert not consumer.assigned


@pytest.mark.parametrize("error", ENDS[2:], ids=repr)
def test_an_async_listener(
    server: Running, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """SystemExit and KeyboardInterrupt end an asyncio loop, and so the program."""
    topic = f"Aio{type(error).__name__}"
    calls = Calls(error, b"bad")

    async def listener(message: ReceivedMessage) -> None:
        calls(message)

    async def main() -> None:
        async with (
            aio.Producer("pg", namesrv=server.namesrv) as producer,
            aio.PushConsumer(
                topic, {topic: "*"}, namesrv=server.namesrv, listener=listener, **FIRST
            ),
        ):
            await producer.send(Message(topic, b"bad"))
            await producer.send(Message(topic, b"later"))
            await asyncio.to_thread(calls.all.wait, 20)

    asyncio.run(main())
    assert calls.all.is_set()
    assert any("listener of group" in r.getMessage() for r in caplog.records)


class Listener:
    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.asked = 0

    def execute_local_transaction(self, message: Message, arg: object) -> TransactionState:
        if arg == "exit":
            raise self.error
        return TransactionState.COMMIT

    def check_local_transaction(self, message: ReceivedMessage) -> TransactionState:
        self.asked += 1
        raise self.error


@pytest.mark.parametrize("error", ENDS[:2], ids=repr)
def test_a_local_transaction_raises_where_it_was_sent(
    server: Running, error: BaseException
) -> None:
    """Who sends waits for it, and hears of it."""
    producer = sync.TransactionalProducer("tx", Listener(error), namesrv=server.namesrv)
    with producer:
        with pytest.raises(type(error)):
            producer.send_in_transaction(Message("Tx", b"x"), "exit")
        result = producer.send_in_transaction(Message("Tx", b"x"))
        assert result.local_state is TransactionState.COMMIT


@pytest.mark.parametrize("error", ENDS, ids=repr)
def test_a_check_is_unknown(error: BaseException) -> None:
    """As in the background: where trio does not run in the main thread."""
    outcomes: list[Outcome] = []

    async def main() -> None:
        check: Callable[..., Any] = Listener(error).check_local_transaction
        threads = trio.CapacityLimiter(1)
        outcomes.append(await outcome_of(check, None, threads=threads, abandon=True))

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    thread.join(20)
    assert [o.state for o in outcomes] == [TransactionState.UNKNOWN]
    assert type(error).__name__ in (outcomes[0].remark or "")


class Exits(ConsumeMessageHook):
    def before(self, context: object) -> None:
        raise SystemExit

    def after(self, context: object) -> None:
        raise KeyboardInterrupt


def test_a_hook(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls(SystemExit())
    options: Any = {"listener": calls, "hooks": [Exits()], **FIRST}
    with (
        sync.Producer("pg", namesrv=server.namesrv) as producer,
        sync.PushConsumer("hook", {"Hook": "*"}, namesrv=server.namesrv, **options),
    ):
        producer.send(Message("Hook", b"later"))
        assert calls.all.wait(20)
        producer.send(Message("Hook", b"later"))
    assert "the hook Exits.before failed" in caplog.text


def test_a_callback_of_a_promise(caplog: pytest.LogCaptureFixture) -> None:
    def leave(promise: Promise[int]) -> None:
        raise SystemExit

    async def main() -> None:
        promise: Promise[int] = Promise()
        promise.add_done_callback(leave)
        promise.set_result(1)

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    thread.join(20)
    assert "a callback of a promise failed" in caplog.text


def test_a_client_that_ends_by_a_fault_of_its_own(
    server: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged at once, `assigned` is empty, and calls say so: nobody may be in the `with`'s
    head to hear of it before the end."""

    has_entered = threading.Event()

    async def fails(self: Member, interval: float) -> None:
        await trio.to_thread.run_sync(has_entered.wait, 20)
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(Member, "_persist", fails)
    with sync.Producer("pg", namesrv=server.namesrv) as producer:
        producer.send(Message("Fault", b"x"))
        consumer = sync.PushConsumer(
            "fault", {"Fault": "*"}, namesrv=server.namesrv, listener=lambda m: None
        )
        entered = consumer.__enter__()
        assert entered._opened is not None
        assert consumer.assigned
        has_entered.set()
        with pytest.raises(BaseExceptionGroup):
            entered._opened.held.ended.result(20)
        assert not consumer.assigned
        with pytest.raises(ClientError, match="has ended by ExceptionGroup"):
            consumer.is_suspended()
        with pytest.raises(BaseExceptionGroup) as caught:
            consumer.__exit__(None, None, None)
        assert caught.group_contains(ZeroDivisionError)
        assert producer.send(Message("Fault", b"y")).msg_id
    (record,) = [r for r in caplog.records if r.levelno == logging.CRITICAL]
    assert "PushConsumer fault has ended by an error" in record.getMessage()
