"""Sending in transactions: what goes to the broker, in which order, and what the user gets."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyrmq.client import Producer, TransactionalProducer, TransactionState
from pyrmq.errors import (
    ClientError,
    InvalidParameterError,
    MessageIllegalError,
    SystemBusyError,
    TransactionConflictError,
)
from pyrmq.model.message import Message, MessageQueue, SendStatus
from tests.client.listeners import COMMIT, ROLLBACK, UNKNOWN, Async, Scripted
from tests.client.unit.transactional import producer
from tests.support.scripted.script import HANG_UP, SILENCE
from tests.support.scripted.streams import (
    END,
    HALF_OFFSET,
    PHYSICAL_OFFSET,
    SEND,
    StreamBroker,
    StreamCluster,
    record,
    sent_properties,
    stored,
)
from tests.support.wire import Command

ONE = MessageQueue("T", "broker-a", 1)


@pytest.mark.parametrize("kind", [Scripted, Async])
@pytest.mark.parametrize("state", [COMMIT, ROLLBACK, UNKNOWN, None])
async def test_half_then_local_transaction_then_outcome(
    broker: StreamBroker,
    kind: type[Scripted],
    state: TransactionState | None,
    mock_clock: MockClock,
) -> None:
    listener = kind(lambda: state)
    message = Message("T", b"body", tags="t", keys="k", flag=9, properties={"a": "b"})
    async with producer(listener) as sender:
        result = await sender.send_in_transaction(message, "arg", queue=ONE)
        end = await broker.next_end()
        statistics = sender.statistics()
    (half,) = broker.requests(SEND)
    properties = sent_properties(half)
    key = properties.pop("UNIQ_KEY")
    assert properties == {
        "a": "b",
        "TAGS": "t",
        "KEYS": "k",
        "WAIT": "true",
        "TRAN_MSG": "true",
        "PGROUP": "pg",
    }
    assert (half.ext["f"], half.ext["a"], half.ext["b"], half.ext["e"]) == ("4", "pg", "T", "1")
    ((executed, arg),) = listener.executed
    assert (executed.topic, executed.body, executed.flag, arg) == ("T", b"body", 9, "arg")
    assert executed.transaction_id == executed.properties["__transactionId__"] == key
    expected = UNKNOWN if state is None else state
    assert end.ext == {
        "topic": "T",
        "producerGroup": "pg",
        "tranStateTableOffset": str(HALF_OFFSET),
        "commitLogOffset": str(PHYSICAL_OFFSET),
        "commitOrRollback": str(int(expected)),
        "fromTransactionCheck": "false",
        "msgId": key,
        "transactionId": key,
        "bname": "broker-a",
    }
    assert end.is_oneway is (expected is UNKNOWN), "an outcome is to be confirmed"
    assert (end.body, end.remark) == (b"", None)
    assert (result.local_state, result.error, result.msg_id) == (expected, None, key)
    assert (result.status, result.queue, result.queue_offset) == (SendStatus.SEND_OK, ONE, 5)
    assert message == Message("T", b"body", tags="t", keys="k", flag=9, properties={"a": "b"})
    assert statistics.halves_sent == 1
    outcomes = (statistics.committed, statistics.rolled_back, statistics.unknown)
    assert outcomes == tuple(int(expected is s) for s in (COMMIT, ROLLBACK, UNKNOWN))


@pytest.mark.parametrize(("state", "code"), [(COMMIT, 201), (ROLLBACK, 200)])
async def test_what_the_broker_has_settled_otherwise_is_raised(
    broker: StreamBroker,
    state: TransactionState,
    code: int,
    clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def otherwise(command: Command) -> Command:
        answer = command.reply(code)
        answer.remark = "otherwise \x1b"
        return answer

    broker.change[END] = otherwise
    async with producer(Async(lambda: state)) as sender:
        with pytest.raises(TransactionConflictError, match="otherwise") as caught:
            await sender.send_in_transaction(Message("T", b"x"), queue=ONE)
        assert sender.statistics().ends_failed == 1
    assert (caught.value.code, caught.value.answered) == (code, True)
    (line,) = [r.message for r in caplog.records if r.levelname == "ERROR"]
    assert line.startswith(f"{state} of transaction ")
    assert "\x1b" not in line


@pytest.mark.parametrize("answer", [SILENCE, HANG_UP, 1, 604])
async def test_an_outcome_that_is_not_confirmed_is_left_to_the_check(
    broker: StreamBroker, answer: Any, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    broker.change[END] = lambda c: c.reply(answer) if isinstance(answer, int) else answer
    async with producer(Async(lambda: COMMIT)) as sender:
        result = await sender.send_in_transaction(Message("T", b"x"), queue=ONE)
        assert result.local_state is COMMIT
        assert sender.statistics().ends_failed == 1
    assert "it is not certain that the broker has COMMIT of transaction" in caplog.text


class BrokenText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "remark"),
    [
        (ValueError("sold out ✓"), "ValueError: sold out ✓"),
        (OSError("name \udc80"), "OSError: name ?"),
        (ExceptionGroup("both", [ValueError("x")]), "ExceptionGroup: both (1 sub-exception)"),
        (BrokenText(), "BrokenText"),
        (ValueError("x" * 5000), "ValueError: " + "x" * 988),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_an_exception_is_unknown_with_its_text(
    broker: StreamBroker,
    error: Exception,
    remark: str,
    clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Other packages set formatters that cannot take an exception without a text.
    monkeypatch.setattr(logging.getLogger("pyrmq"), "propagate", False)

    def fail() -> TransactionState:
        raise error

    async with producer(Async(fail)) as sender:
        result = await sender.send_in_transaction(Message("T", b"x"), queue=ONE)
        end = await broker.next_end()
    assert (result.local_state, result.error) == (UNKNOWN, error)
    assert (end.ext["commitOrRollback"], end.remark) == ("0", remark)


@pytest.mark.parametrize("answer", [True, False, 8, "COMMIT"])
async def test_what_is_no_state_is_unknown(
    broker: StreamBroker, answer: Any, clock: MockClock
) -> None:
    async with producer(Async(lambda: answer)) as sender:
        result = await sender.send_in_transaction(Message("T", b"x"), queue=ONE)
        end = await broker.next_end()
    assert result.local_state is UNKNOWN
    assert isinstance(result.error, TypeError)
    assert end.ext["commitOrRollback"] == "0"


@pytest.mark.parametrize("code", [10, 11, 12])
async def test_a_half_that_is_less_safe_than_asked_is_rolled_back(
    broker: StreamBroker, code: int, mock_clock: MockClock
) -> None:
    broker.change[SEND] = lambda command: stored(command, code)
    listener = Scripted()
    async with producer(listener) as sender:
        result = await sender.send_in_transaction(Message("T", b"x"), queue=ONE)
        end = await broker.next_end()
    assert (result.status, result.local_state) == (SendStatus(code), ROLLBACK)
    assert end.ext["commitOrRollback"] == "12"
    assert listener.executed == []


async def test_every_attempt_of_a_half_is_the_same_transaction(
    cluster: StreamCluster, clock: MockClock
) -> None:
    busy: list[str] = []

    def once_busy(command: Any) -> Any:
        busy.append(command.ext["n"])
        return command.reply(2) if len(busy) < 3 else stored(command)

    for broker in cluster.brokers.values():
        broker.change[SEND] = once_busy
    listener = Async()
    async with producer(listener) as sender:
        result = await sender.send_in_transaction(Message("T", b"x"))
        end = await cluster[result.queue.broker_name].next_end()
    halves = [h for b in cluster.brokers.values() for h in b.requests(SEND)]
    assert {sent_properties(h)["UNIQ_KEY"] for h in halves} == {result.msg_id}
    assert len(halves) == 3
    assert busy[0] != busy[1] != busy[2], "another broker each time"
    assert end.ext["bname"] == result.queue.broker_name == busy[2]
    assert len(listener.executed) == 1


async def test_a_half_that_is_refused_runs_nothing(
    broker: StreamBroker, mock_clock: MockClock
) -> None:
    broker.change[SEND] = lambda command: command.reply(2)
    listener = Scripted()
    async with producer(listener) as sender:
        with pytest.raises(SystemBusyError):
            await sender.send_in_transaction(Message("T", b"x"), queue=ONE)
        assert sender.statistics().halves_sent == 0
    assert listener.executed == []
    assert broker.requests(END) == []


async def test_an_outcome_that_cannot_be_sent_is_left_to_the_check(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    class Lost(Async):
        async def execute_local_transaction(self, message: Message, arg: Any) -> Any:
            cluster.down.add("broker-a")
            await broker.connections[0].close()
            await trio.testing.wait_all_tasks_blocked()
            return COMMIT

    async with producer(Lost()) as sender:
        result = await sender.send_in_transaction(Message("T", b"x"), queue=ONE)
        assert result.local_state is COMMIT
        assert (sender.statistics().committed, sender.statistics().ends_failed) == (1, 1)


@pytest.mark.parametrize("bad", ["", "nonsense", "00" * 12, "0A00000100002A9F00000011223344zz"])
async def test_an_answer_without_message_id(
    broker: StreamBroker, bad: str, clock: MockClock
) -> None:
    broker.change[SEND] = lambda command: stored(command, msgId=bad)
    async with producer(Async()) as sender:
        result = await sender.send_in_transaction(Message("T", b"x"), queue=ONE)
        assert result.local_state is COMMIT
        assert sender.statistics().ends_failed == 1
    assert broker.requests(END) == []


async def test_an_ipv6_message_id(broker: StreamBroker, clock: MockClock) -> None:
    broker.change[SEND] = lambda command: stored(command, msgId="20" * 20 + "000000000000FFFF")
    async with producer(Async()) as sender:
        await sender.send_in_transaction(Message("T", b"x"), queue=ONE)
        assert (await broker.next_end()).ext["commitLogOffset"] == "65535"


async def test_a_cancelled_task_still_sends_what_its_thread_decided(
    broker: StreamBroker, mock_clock: MockClock
) -> None:
    """The local transaction cannot be cancelled in its thread; it commits, and so does the half."""
    entered, go = trio.Event(), threading.Event()

    def execute() -> TransactionState:
        trio.from_thread.run_sync(entered.set)
        go.wait(20)
        return COMMIT

    async with producer(Scripted(execute)) as sender, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: sender.send_in_transaction(Message("T", b"x"), queue=ONE))
        await entered.wait()
        nursery.cancel_scope.cancel()
        go.set()
    assert [e.ext["commitOrRollback"] for e in broker.requests(END)] == ["8"]


async def test_a_cancelled_coroutine_leaves_the_outcome_to_the_check(
    broker: StreamBroker, clock: MockClock
) -> None:
    class Stuck(Async):
        async def execute_local_transaction(self, message: Message, arg: Any) -> Any:
            scope.cancel()
            await trio.sleep_forever()

    with trio.CancelScope() as scope:
        async with producer(Stuck()) as sender:
            await sender.send_in_transaction(Message("T", b"x"), queue=ONE)
    assert scope.cancelled_caught
    assert broker.requests(END) == []


# What is refused.


async def test_a_namespace(broker: StreamBroker, clock: MockClock) -> None:
    """Brokers see it everywhere, the user nowhere; a check finds its way back."""
    listener = Async(lambda: COMMIT)
    async with producer(listener, namespace="ns") as sender:
        result = await sender.send_in_transaction(Message("T", b"x"), queue=ONE)
        end = await broker.next_end()
        (half,) = broker.requests(SEND)
        assert (half.ext["a"], half.ext["b"]) == ("ns%pg", "ns%T")
        assert sent_properties(half)["PGROUP"] == "ns%pg"
        assert (end.ext["topic"], end.ext["producerGroup"]) == ("ns%T", "ns%pg")
        assert result.queue == ONE
        asked = record(PGROUP="ns%pg", REAL_TOPIC="ns%T")
        await broker.ask(asked, tranStateTableOffset=1, commitLogOffset=2)
        assert (await broker.next_end()).ext["fromTransactionCheck"] == "true"
    ((executed, _),) = listener.executed
    (checked,) = listener.checked
    assert executed.topic == checked.topic == "T"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (Message("T", b"x", properties={"DELAY": "1"}), "cannot be delayed"),
        (Message("T", b"x", delay_time_level=1), "cannot be delayed"),
        (Message("T", b"x", properties={"TIMER_DELIVER_MS": "1"}), "cannot be delayed"),
        (Message("T", b"x", properties={"TIMER_DELAY_SEC": "1"}), "cannot be delayed"),
        (Message("T", b"x", properties={"TIMER_DELAY_MS": "1"}), "cannot be delayed"),
        ([Message("T", b"x")], "batches cannot"),
        (Message("T", b""), "empty"),
        (Message("T", b"x", properties={"a": "\x01"}), "'a'"),
    ],
)
async def test_messages_that_cannot_be_halves(
    broker: StreamBroker, message: Any, words: str, mock_clock: MockClock
) -> None:
    async with producer(Scripted()) as sender:
        with pytest.raises(MessageIllegalError, match=words):
            await sender.send_in_transaction(message)
    assert broker.requests(SEND) == []


@pytest.mark.parametrize("kind", [Producer, TransactionalProducer])
async def test_other_sends_point_to_send_in_transaction(
    broker: StreamBroker, kind: type[Producer], mock_clock: MockClock
) -> None:
    half = Message("T", b"x", properties={"TRAN_MSG": "true"})
    more = {"listener": Scripted()} if kind is TransactionalProducer else {}
    async with kind("pg", namesrv=StreamCluster.namesrv, **more) as sender:
        for send in (sender.send(half), sender.send_batch([half]), sender.send_oneway(half)):
            with pytest.raises(MessageIllegalError, match="send_in_transaction"):
                await send
        assert (await sender.send(Message("T", b"x"), queue=ONE)).status is SendStatus.SEND_OK
    (plain,) = broker.requests(SEND)
    assert (plain.ext["f"], "TRAN_MSG" in sent_properties(plain)) == ("0", False)


async def test_a_consumed_message_can_be_sent_on_in_a_transaction(
    broker: StreamBroker, clock: MockClock
) -> None:
    """What an earlier transaction left in the properties does not count for this one."""
    left = {"TRAN_MSG": "true", "PGROUP": "other", "TRANSACTION_CHECK_TIMES": "14", "a": "b"}
    async with producer(Async()) as sender:
        await sender.send_in_transaction(Message("T", b"x", properties=left), queue=ONE)
    (half,) = broker.requests(SEND)
    properties = sent_properties(half)
    assert (properties["PGROUP"], properties["a"]) == ("pg", "b")
    assert "TRANSACTION_CHECK_TIMES" not in properties


async def test_check_immunity(broker: StreamBroker, clock: MockClock) -> None:
    given = Message("T", b"x", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "7"})
    async with producer(Async()) as sender:
        await sender.send_in_transaction(given, queue=ONE)
        await sender.send_in_transaction(given, queue=ONE, check_immunity=60)
        for wrong in (0, 1.5, "7"):
            with pytest.raises(ClientError, match="check_immunity"):
                await sender.send_in_transaction(given, check_immunity=wrong)  # type: ignore[arg-type]
    sent = [sent_properties(h)["CHECK_IMMUNITY_TIME_IN_SECONDS"] for h in broker.requests(SEND)]
    assert sent == ["7", "60"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"check_concurrency": 0}, "check_concurrency"),
        ({"check_queue": 0}, "check_queue"),
        ({"listener": object()}, "execute_local_transaction"),
    ],
)
def test_refused_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ClientError, match=words):
        producer(**{"listener": Scripted(), **options})


def test_refused_topics() -> None:
    with pytest.raises(InvalidParameterError, match="bad topic"):
        producer(Scripted(), topics=["bad topic"])
