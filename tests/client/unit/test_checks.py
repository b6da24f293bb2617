"""Being asked what became of a transaction: answers, bounds, hostile questions, leaving."""

from __future__ import annotations

import contextlib
import threading
import zlib
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from pyrmq.client import TransactionalProducer, TransactionState
from pyrmq.client.instance import ROUTE_INTERVAL
from pyrmq.client.transaction import halves as checks
from pyrmq.errors import ProtocolError
from pyrmq.model.message import Message, SendStatus
from pyrmq.model.record import ReceivedMessage, decode_record
from tests.client.listeners import COMMIT, ROLLBACK, UNKNOWN, Async, Held, Scripted
from tests.support.scripted.streams import (
    CLUSTER,
    END,
    HALF_OFFSET,
    PHYSICAL_OFFSET,
    SEND,
    StreamBroker,
    StreamCluster,
    record,
)

HEADER = {
    "topic": "RMQ_SYS_TRANS_HALF_TOPIC",
    "tranStateTableOffset": 12,
    "commitLogOffset": 3456,
    "msgId": "KEY",
    "transactionId": "KEY",
    "offsetMsgId": "0A",
    "bname": "broker-a",
}
HALF = {"UNIQ_KEY": "KEY", "PGROUP": "pg", "REAL_TOPIC": "T", "a": "ä"}


def producer(listener: Any, **options: Any) -> TransactionalProducer:
    return TransactionalProducer("pg", listener, namesrv=StreamCluster.namesrv, **options)


async def test_a_producer_that_may_not_ask_for_brokers_says_what_that_costs(
    cluster: StreamCluster, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, and it does not ask again and again."""
    cluster.change[CLUSTER] = lambda c: c.reply(16)
    async with producer(Scripted()):
        await trio.sleep(ROUTE_INTERVAL * 2.5)
    (line,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "or its user Get on Cluster:* at the name servers" in line
    assert len(cluster.asked) == 3


async def settled() -> None:
    """Everything that was sent has been dealt with (no thread is under way)."""
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("kind", [Scripted, Async])
@pytest.mark.parametrize("state", [COMMIT, ROLLBACK, UNKNOWN, None])
async def test_the_answer(
    broker: StreamBroker,
    kind: type[Scripted],
    state: TransactionState | None,
    mock_clock: MockClock,
) -> None:
    listener = kind(check=lambda: state)
    async with producer(listener) as asked:
        await broker.ask(record(b"body", "T", TAGS="t", **HALF), **HEADER)
        end = await broker.next_end()
        await settled()
        assert asked.statistics().checks_answered == 1
    (message,) = listener.checked
    assert (message.topic, message.body, message.tags) == ("T", b"body", "t")
    assert (message.flag, message.queue_offset) == (3, HALF_OFFSET)
    assert (message.transaction_id, message.commit_log_offset) == ("KEY", PHYSICAL_OFFSET)
    assert message.properties["a"] == "ä"
    assert end.ext == {
        "topic": "RMQ_SYS_TRANS_HALF_TOPIC",
        "producerGroup": "pg",
        "tranStateTableOffset": "12",
        "commitLogOffset": "3456",
        "commitOrRollback": str(int(state or UNKNOWN)),
        "fromTransactionCheck": "true",
        "msgId": "KEY",
        "transactionId": "KEY",
        "bname": "broker-a",
    }
    assert (end.is_oneway, end.body, end.remark) == (state in (UNKNOWN, None), b"", None)


async def test_an_old_brokers_question(broker: StreamBroker, clock: MockClock) -> None:
    """Without topic, ids and bname; the message has no UNIQ_KEY: its offset id names it."""
    async with producer(Async()):
        await broker.ask(record(PGROUP="pg"), tranStateTableOffset=1, commitLogOffset=2)
        end = await broker.next_end()
    assert end.ext == {
        "producerGroup": "pg",
        "tranStateTableOffset": "1",
        "commitLogOffset": "2",
        "commitOrRollback": "8",
        "fromTransactionCheck": "true",
        "msgId": decode_record(memoryview(record())).offset_msg_id,
    }


async def test_a_body_comes_as_consumers_get_it(broker: StreamBroker, clock: MockClock) -> None:
    listener = Async()
    async with producer(listener):
        await broker.ask(record(zlib.compress(b"x" * 9000), sys_flag=0x301, **HALF), **HEADER)
        await broker.next_end()
    assert listener.checked[0].body == b"x" * 9000


async def test_an_exception_is_unknown_with_its_text(
    broker: StreamBroker, mock_clock: MockClock
) -> None:
    def fail() -> TransactionState:
        raise LookupError("no table")

    async with producer(Scripted(check=fail)) as asked:
        await broker.ask(record(**HALF), **HEADER)
        end = await broker.next_end()
        assert (end.ext["commitOrRollback"], end.remark) == ("0", "LookupError: no table")
        assert asked.statistics().checks_failed == 1


async def test_the_answer_goes_to_the_broker_that_asked(
    cluster: StreamCluster, clock: MockClock
) -> None:
    async with producer(Async()):
        await cluster["broker-b"].ask(record(**HALF), **HEADER)
        await cluster["broker-b"].next_end()
    assert cluster["broker-a"].requests(END) == []


async def test_functions_by_topic(broker: StreamBroker, clock: MockClock) -> None:
    asked = producer(None)
    for topic, state in (("T", COMMIT), (None, ROLLBACK)):
        pair = Async(check=lambda state=state: state)
        asked.transaction(topic)(pair.execute_local_transaction).check(pair.check_local_transaction)
    async with asked:
        for topic in ("T", "U"):
            await broker.ask(record(topic=topic, PGROUP="pg", UNIQ_KEY=topic), **HEADER)
        ends = [await broker.next_end() for _ in range(2)]
    assert {e.ext["msgId"]: e.ext["commitOrRollback"] for e in ends} == {"T": "8", "U": "12"}


async def test_a_topic_that_nobody_answers_for(broker: StreamBroker, clock: MockClock) -> None:
    asked = producer(None)
    pair = Async()
    asked.transaction("T")(pair.execute_local_transaction).check(pair.check_local_transaction)
    async with asked:
        await broker.ask(record(topic="U", PGROUP="pg", UNIQ_KEY="K"), **HEADER)
        end = await broker.next_end()
    assert end.ext["commitOrRollback"] == "0"
    assert "topic U" in (end.remark or "")
    assert pair.checked == []


# Bounds.


async def test_checks_beyond_the_queue_are_dropped(broker: StreamBroker, clock: MockClock) -> None:
    listener = Held()
    async with producer(listener, check_concurrency=2, check_queue=3) as asked:
        for n in range(9):
            await broker.ask(record(PGROUP="pg", UNIQ_KEY=f"K{n}"), **HEADER)
            await settled()
        seen = asked.statistics()
        assert (seen.checks_running, seen.checks_waiting, seen.checks_dropped) == (2, 3, 4)
        listener.release.set()
        await settled()
        seen = asked.statistics()
        assert (seen.checks_running, seen.checks_waiting, seen.checks_answered) == (0, 0, 5)
        await broker.ask(record(PGROUP="pg", UNIQ_KEY="again"), **HEADER)
        await settled()
        assert asked.statistics().checks_answered == 6
    assert [m.transaction_id for m in listener.checked[-1:]] == ["again"]


async def test_large_bodies_do_not_pile_up(
    broker: StreamBroker, monkeypatch: pytest.MonkeyPatch, clock: MockClock
) -> None:
    monkeypatch.setattr(checks, "MAX_BYTES", 1000)
    listener = Held()
    async with producer(listener, check_concurrency=1) as asked:
        for _ in range(4):
            await broker.ask(record(b"x" * 600, **HALF), **HEADER)
            await settled()
        seen = asked.statistics()
        assert (seen.checks_running, seen.checks_waiting, seen.checks_dropped) == (1, 1, 2)
        listener.release.set()
        await settled()
        await broker.ask(record(b"x" * 1600, **HALF), **HEADER)
        await settled()
        assert asked.statistics().checks_answered == 3, "a body above the bound goes alone"


async def test_blocking_checks_run_beside_each_other_in_threads(
    broker: StreamBroker, mock_clock: MockClock
) -> None:
    together = threading.Barrier(3, timeout=20)

    def check() -> TransactionState:
        together.wait()
        return COMMIT

    async with producer(Scripted(check=check), check_concurrency=3):
        for _ in range(3):
            await broker.ask(record(**HALF), **HEADER)
        for _ in range(3):
            assert (await broker.next_end()).ext["commitOrRollback"] == "8"


UNDECODABLE = {
    "zlib": record(b"no zlib", sys_flag=0x301, **HALF),
    "lz4": record(b"x", sys_flag=0x101, **HALF),
    "bomb": record(zlib.compress(bytes((64 << 20) + 1)), sys_flag=0x301, **HALF),
}


@pytest.mark.parametrize("body", UNDECODABLE.values(), ids=UNDECODABLE)
async def test_a_body_that_cannot_be_unpacked_does_not_keep_the_answer_back(
    broker: StreamBroker, body: bytes, clock: MockClock
) -> None:
    listener = Async()
    async with producer(listener):
        await broker.ask(body, **HEADER)
        assert (await broker.next_end()).ext["msgId"] == "KEY"
    assert listener.checked[0].body_error is not None


# Hostile questions.

GOOD = record(**HALF)
BAD_BODIES = {
    "nothing": b"",
    "short": GOOD[:40],
    "cut": GOOD[:-1],
    "magic": GOOD[:4] + b"\0\0\0\0" + GOOD[8:],
    "crc": GOOD[:8] + b"\0\0\0\1" + GOOD[12:],
    "text": b"\xff" * 200,
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
async def test_a_message_that_cannot_be_read(
    broker: StreamBroker, body: bytes, clock: MockClock
) -> None:
    listener = Async()
    async with producer(listener) as asked:
        await broker.ask(body, **HEADER)
        await settled()
        assert asked.statistics().checks_unreadable == 1
        await broker.ask(GOOD, **HEADER)
        assert (await broker.next_end()).ext["msgId"] == "KEY"
        await asked.send_in_transaction(Message("T", b"x"))
    assert len(broker.connections) == 1, "the connection was kept"


@pytest.mark.parametrize(
    "change",
    [
        {"commitLogOffset": "x"},
        {"tranStateTableOffset": ""},
        {"commitLogOffset": None},
        {"tranStateTableOffset": "9" * 5000},
        {"tranStateTableOffset": 1 << 63},
        {"tranStateTableOffset": "٣"},
        {"commitLogOffset": -1},
    ],
)
async def test_offsets_that_cannot_be(
    broker: StreamBroker, change: dict[str, Any], clock: MockClock
) -> None:
    listener = Async()
    header = {k: v for k, v in {**HEADER, **change}.items() if v is not None}
    async with producer(listener) as asked:
        await broker.ask(GOOD, **header)
        await settled()
        assert asked.statistics().checks_dropped == 1
    assert listener.checked == []
    assert len(broker.connections) == 1


@pytest.mark.parametrize("group", [None, "other"])
async def test_a_group_that_is_not_here(
    broker: StreamBroker, group: str | None, clock: MockClock
) -> None:
    listener = Async()
    properties = {"PGROUP": group} if group else {}
    async with producer(listener):
        await broker.ask(record(UNIQ_KEY="K", **properties), **HEADER)
        await settled()
    assert listener.checked == []
    assert broker.requests(END) == []


@settings(max_examples=300)
@given(st.data())
def test_no_bytes_do_more_than_a_protocol_error(data: st.DataObject) -> None:
    body = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ProtocolError):
        decode_record(memoryview(bytes(body)))


# Leaving.


async def test_a_running_check_is_given_time(broker: StreamBroker, clock: MockClock) -> None:
    class Slow(Async):
        async def check_local_transaction(self, message: ReceivedMessage) -> Any:
            await trio.sleep(2)
            return ROLLBACK

    async with producer(Slow(), check_concurrency=1) as asked:
        await broker.ask(record(**HALF), **HEADER)
        await broker.ask(record(**HALF), **HEADER)
        await settled()
    assert [e.ext["commitOrRollback"] for e in broker.requests(END)] == ["12"], (
        "the first came in time, the second did not"
    )
    seen = asked.statistics()
    assert (seen.checks_answered, seen.checks_running, seen.checks_waiting) == (1, 0, 0)


async def test_checks_that_never_end_are_cancelled(broker: StreamBroker, clock: MockClock) -> None:
    listener = Held()
    began = trio.current_time()
    async with producer(listener, check_concurrency=2) as asked:
        for _ in range(5):
            await broker.ask(record(**HALF), **HEADER)
        await settled()
    assert trio.current_time() - began < 10
    assert listener.checked == []
    seen = asked.statistics()
    assert (seen.checks_running, seen.checks_waiting, seen.checks_dropped) == (0, 0, 3)
    assert broker.requests(END) == []


async def test_a_thread_that_never_ends_is_left_behind(
    broker: StreamBroker, monkeypatch: pytest.MonkeyPatch, clock: MockClock
) -> None:
    monkeypatch.setattr("pyrmq.client.transaction.producer.CLOSE_GRACE", 0.01)
    entered, go = trio.Event(), threading.Event()
    ended = threading.Event()

    def check() -> TransactionState:
        trio.from_thread.run_sync(entered.set)
        go.wait(20)
        ended.set()
        return COMMIT

    async with producer(Scripted(check=check)):
        await broker.ask(record(**HALF), **HEADER)
        await entered.wait()
    assert not ended.is_set(), "the producer was left while the thread ran"
    go.set()
    await trio.to_thread.run_sync(ended.wait, 20)
    assert broker.requests(END) == []


async def test_nothing_is_taken_while_leaving(broker: StreamBroker, clock: MockClock) -> None:
    """A check that comes after the goodbye is for somebody else."""
    listener = Held()
    asked = producer(listener)

    async def leave(task_status: Any) -> None:
        async with asked:
            await broker.ask(record(**HALF), **HEADER)
            await listener.started.wait()
            task_status.started()

    async with trio.open_nursery() as nursery:
        await nursery.start(leave)
        await settled()
        await broker.ask(record(PGROUP="pg", UNIQ_KEY="late"), **HEADER)
        await settled()
        assert asked.statistics().checks_dropped == 1
        listener.release.set()
    assert [m.transaction_id for m in listener.checked] == ["KEY"]


async def test_an_answer_to_a_connection_that_is_gone(
    broker: StreamBroker, clock: MockClock
) -> None:
    listener = Held()
    async with producer(listener) as asked:
        await broker.ask(record(**HALF), **HEADER)
        await listener.started.wait()
        await broker.connections[0].close()
        await settled()
        listener.release.set()
        await settled()
        assert asked.statistics().checks_failed == 1
        result = await asked.send_in_transaction(Message("T", b"x"))
        assert result.status is SendStatus.SEND_OK
    assert len(broker.requests(SEND)) <= 1


async def test_a_cancelled_body_leaves_in_order(broker: StreamBroker, clock: MockClock) -> None:
    with trio.CancelScope() as scope:
        async with producer(Held()):
            await broker.ask(record(**HALF), **HEADER)
            await settled()
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_an_interrupt_in_a_check_ends_the_producer(
    broker: StreamBroker, clock: MockClock
) -> None:
    def interrupted() -> TransactionState:
        raise SystemExit(3)

    with pytest.RaisesGroup(SystemExit, flatten_subgroups=True):
        async with producer(Async(check=interrupted)):
            await broker.ask(record(**HALF), **HEADER)
            await trio.sleep_forever()


async def test_a_cancelled_start(cluster: StreamCluster, clock: MockClock) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with producer(Scripted()):
            await trio.sleep_forever()
    assert scope.cancelled_caught
