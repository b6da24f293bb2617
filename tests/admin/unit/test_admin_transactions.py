"""One transaction on a broker of lists: what finds it, what is said of it, what is decided."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable

import pytest
import trio

from pyrmq.admin.txn import scan, transactions
from pyrmq.admin.txn.finder import State, Transaction, TransactionFinder, body_head, find
from pyrmq.admin.txn.transactions import Answer, check_decidable, check_resumable, decide, resume
from pyrmq.errors import ClientError, ProtocolError
from pyrmq.model.transaction import TransactionState
from tests.admin.unit.fake_link import FakeLink
from tests.support.scripted.broker import BORN, DISCARDED, HALF, OP, ScriptedBroker

COMMIT, ROLLBACK = TransactionState.COMMIT, TransactionState.ROLLBACK


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


def found(broker: ScriptedBroker, name: str) -> list[Transaction]:
    async def run() -> list[Transaction]:
        return await find(FakeLink(broker), name)

    return trio.run(run)


def one(broker: ScriptedBroker, name: str) -> Transaction:
    (transaction,) = found(broker, name)
    return transaction


def run(work: Callable[..., Awaitable[Answer]], *args: object) -> Answer:
    return trio.run(work, *args)


def decided(transaction: Transaction, state: TransactionState) -> Answer:
    return trio.run(decide, transaction, state)


def test_what_is_pending_is_found_by_all_of_its_names(broker: ScriptedBroker) -> None:
    broker.half("other")
    half = broker.half("K", KEYS="a b")
    for name in ("K", "1", half.offset_msg_id, half.offset_msg_id.lower()):
        t = one(broker, name)
        assert (t.state, t.message.queue_offset) == (State.PENDING, 1), name
        assert (t.transaction_id, t.topic, t.group) == ("K", "T", "PG")
    assert found(broker, "2") == []
    assert found(broker, "nothing") == []


def test_a_key_is_no_transaction_id(broker: ScriptedBroker) -> None:
    broker.half("K", KEYS="order-1")
    assert found(broker, "order-1") == []


def test_without_an_index_the_queue_is_read(broker: ScriptedBroker) -> None:
    broker.indexed = 0
    for n in range(100):
        broker.half(f"K{n}")
    assert one(broker, "K77").message.queue_offset == 77


def test_an_index_that_is_behind(broker: ScriptedBroker) -> None:
    """The latest copy is found all the same: a decision about an older one would be ignored, or
    delivered a second time after the next check."""
    broker.half("K")
    broker.indexed = broker.half("K", TRANSACTION_CHECK_TIMES="1").physical_offset
    broker.half("K", TRANSACTION_CHECK_TIMES="2")
    t = one(broker, "K")
    assert [m.queue_offset for m in t.copies] == [0, 1, 2]
    assert check_decidable(t, COMMIT).queue_offset == 2


def test_many_ids_read_the_op_records_once(broker: ScriptedBroker) -> None:
    broker.batch = 1
    for n in range(40):
        broker.half(f"K{n}")
    for n in range(30):
        broker.op(n)

    async def look() -> list[State]:
        reader = TransactionFinder(FakeLink(broker))
        states = []
        for n in range(25, 45):
            states += [t.state for t in await reader.find(f"K{n}")]
            if n == 35:
                # One that comes meanwhile, and what settles it and another one.
                broker.half("K40")
                broker.op(36, 40)
        return states

    before = len(broker.asked)
    assert trio.run(look) == [
        *[State.SETTLED] * 5,
        *[State.PENDING] * 6,
        State.SETTLED,
        *[State.PENDING] * 3,
        State.SETTLED,
    ]
    pulls = [c for c in broker.asked[before:] if c.code == 11 and c.ext["topic"] == OP]
    # Each record once for all, and near each of the twenty those that are shown.
    assert len([c for c in pulls if c.ext["queueOffset"] == "0"]) <= 21


def test_a_transaction_id_that_looks_like_an_offset_id(broker: ScriptedBroker) -> None:
    """Both have 32 hex digits: what counts is whether that message is there."""
    broker.half("other")
    name = "7F00000100002A9F0000000000000000"
    broker.half(name)
    by_place = one(broker, broker.records[HALF][0].offset_msg_id)
    assert by_place.transaction_id == "other"
    broker.log.pop(0)
    assert one(broker, name).message.queue_offset == 1


def test_a_message_that_is_of_no_transaction(broker: ScriptedBroker) -> None:
    broker.half("K")
    plain = broker.put("T", b"x", {"UNIQ_KEY": "P"})
    with pytest.raises(ClientError, match="not of a transaction"):
        found(broker, plain.offset_msg_id)


def test_no_half_topic(broker: ScriptedBroker) -> None:
    with pytest.raises(scan.NoTransactionsError, match="no transaction was ever sent"):
        found(broker, "K")


def test_the_last_copy_counts(broker: ScriptedBroker) -> None:
    broker.half("K")
    broker.half("K", TRANSACTION_CHECK_TIMES="1")
    last = broker.half("K", TRANSACTION_CHECK_TIMES="2")
    broker.offsets[HALF] = 2
    for name in ("K", "0", "1", "2"):
        t = one(broker, name)
        assert [m.queue_offset for m in t.copies] == [0, 1, 2]
        assert t.state is State.PENDING
        assert check_decidable(t, COMMIT).queue_offset == 2
    assert decided(one(broker, "0"), COMMIT).done
    (ended,) = [c for c in broker.asked if c.code == 37]
    assert ended.ext == {
        "topic": "T",
        "producerGroup": "PG",
        "tranStateTableOffset": "2",
        "commitLogOffset": str(last.physical_offset),
        "commitOrRollback": "8",
        "fromTransactionCheck": "true",
        "msgId": "K",
        "transactionId": "K",
    }


@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
def test_what_is_decided_is_refused_from_then_on(
    broker: ScriptedBroker, state: TransactionState
) -> None:
    broker.half("K")
    assert decided(one(broker, "K"), state).done
    t = one(broker, "K")
    assert t.state is (State.COMMITTED if state is COMMIT else State.SETTLED)
    assert [(op.queue_offset, op.names) for op in t.ops] == [(0, [0])]
    for again in (COMMIT, ROLLBACK):
        with pytest.raises(ClientError, match=r"K is (committed|settled)"):
            decided(t, again)
    with pytest.raises(ClientError, match="only what is in TRANS_CHECK_MAX_TIME_TOPIC"):
        check_resumable(t)


def test_a_commit_whose_op_record_is_still_to_come(broker: ScriptedBroker) -> None:
    """RocketMQ writes op records up to three seconds late: a second commit would deliver twice."""
    half = broker.half("K")
    broker.commit(half)
    t = one(broker, "K")
    assert t.state is State.COMMITTED
    assert "not settled yet" in t.notes[0]
    with pytest.raises(ClientError, match="committed"):
        check_decidable(t, COMMIT)


def test_delivered_twice_is_reported(broker: ScriptedBroker) -> None:
    half = broker.half("K")
    broker.commit(half)
    broker.commit(half)
    assert "delivered 2 times" in one(broker, "K").notes


def test_the_committed_message_leads_to_its_transaction(broker: ScriptedBroker) -> None:
    half = broker.half("K")
    delivered = broker.commit(half)
    broker.op(0)
    t = one(broker, delivered.offset_msg_id)
    assert (t.state, len(t.copies), len(t.committed)) == (State.COMMITTED, 1, 1)


def test_a_committed_message_without_its_real_topic(broker: ScriptedBroker) -> None:
    """As Apache RocketMQ 5.5 writes it. [EndTransactionProcessor.endMessageTransaction]"""
    half = broker.half("K")
    properties = {n: v for n, v in half.properties.items() if not n.startswith("REAL_")}
    delivered = broker.put(
        half.properties["REAL_TOPIC"],
        half.body,
        properties,
        sys_flag=half.sys_flag | 8,
        prepared_offset=half.physical_offset,
    )
    broker.op(0)
    t = one(broker, delivered.offset_msg_id)
    assert (t.state, len(t.copies), len(t.committed)) == (State.COMMITTED, 1, 1)


def test_what_the_broker_has_passed(broker: ScriptedBroker) -> None:
    broker.half("K")
    broker.half("L")
    broker.offsets[HALF] = 1
    t = one(broker, "K")
    assert t.state is State.PASSED
    with pytest.raises(ClientError, match="passed it"):
        check_decidable(t, COMMIT)
    assert one(broker, "L").state is State.PENDING


def test_old_op_records_are_shown_and_settle_nothing(broker: ScriptedBroker) -> None:
    broker.half("K")
    broker.op(0)
    broker.half("K", TRANSACTION_CHECK_TIMES="1")
    broker.offsets |= {HALF: 1, OP: 1}
    t = one(broker, "K")
    assert t.state is State.PENDING
    assert [op.names for op in t.ops] == [[0]]


def test_a_copy_is_settled_by_the_half_that_it_stands_for(broker: ScriptedBroker) -> None:
    broker.half("K", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    broker.half("K", TRAN_PREPARED_QUEUE_OFFSET="0", TRANSACTION_CHECK_TIMES="1")
    assert one(broker, "K").state is State.PENDING
    broker.op(0)
    assert one(broker, "K").state is State.SETTLED


def test_discarded_and_resumed(broker: ScriptedBroker) -> None:
    broker.half("K")
    discarded = broker.half("K", where=DISCARDED, TRANSACTION_CHECK_TIMES="15")
    broker.offsets[HALF] = 1
    for name in ("K", "0", discarded.offset_msg_id):
        assert one(broker, name).state is State.DISCARDED, name
    with pytest.raises(ClientError, match="resume it first"):
        check_decidable(one(broker, "K"), ROLLBACK)
    assert run(resume, one(broker, "K")).done
    assert [c.ext["msgId"] for c in broker.asked if c.code == 323] == [discarded.offset_msg_id]
    assert one(broker, "K").state is State.PENDING
    with pytest.raises(ClientError, match="only what is in TRANS_CHECK_MAX_TIME_TOPIC"):
        run(resume, one(broker, "K"))
    assert decided(one(broker, "K"), ROLLBACK).done
    assert one(broker, "K").state is State.SETTLED


def test_what_was_discarded_can_be_committed_late(broker: ScriptedBroker) -> None:
    broker.half("K")
    broker.half("K", where=DISCARDED)
    broker.offsets[HALF] = 1
    assert decided(one(broker, "K"), COMMIT).done
    assert one(broker, "K").state is State.COMMITTED


def test_discarded_with_its_half_deleted(broker: ScriptedBroker) -> None:
    broker.half("other")
    discarded = broker.half("K", where=DISCARDED)
    t = one(broker, discarded.offset_msg_id)
    assert (t.state, t.copies) == (State.DISCARDED, [])
    with pytest.raises(ClientError, match="resume it instead"):
        check_decidable(t, COMMIT)
    assert run(resume, t).done


def test_what_still_is_discarded(broker: ScriptedBroker) -> None:
    for key in ("gone", "resumed", "committed", "there"):
        broker.half(key)
        broker.half(key, where=DISCARDED)
    broker.offsets[HALF] = 4
    assert run(resume, one(broker, "resumed")).done
    assert decided(one(broker, "committed"), COMMIT).done
    before = len(broker.asked)

    async def look() -> tuple[list, int]:
        return await transactions.list_discarded(FakeLink(broker), 10)

    halves, count = trio.run(look)
    assert ([h.transaction_id for h in halves], count) == (["gone", "there"], 4)
    assert not [c for c in broker.asked[before:] if c.ext.get("topic") == OP and c.code == 11]


def test_one_id_for_two_transactions(broker: ScriptedBroker) -> None:
    """A producer that sends again after a timeout keeps the id."""
    broker.half("K")
    broker.half("K", born=BORN + 3000)
    broker.op(0)
    assert [t.state for t in found(broker, "K")] == [State.SETTLED, State.PENDING]
    assert one(broker, "1").state is State.PENDING


def test_a_half_without_a_unique_key(broker: ScriptedBroker) -> None:
    broker.half(None)
    broker.half(None)
    t = one(broker, "1")
    assert (t.state, t.label) == (State.PENDING, "half offset 1")
    assert decided(t, ROLLBACK).done
    assert one(broker, "1").state is State.SETTLED
    assert one(broker, "0").state is State.PENDING


def test_what_the_broker_refuses_is_reported(broker: ScriptedBroker) -> None:
    broker.half("K")
    broker.change[37] = lambda c: c.reply(604)
    answer = decided(one(broker, "K"), COMMIT)
    assert (answer.done, str(answer)) == (False, "604 ILLEGAL_OPERATION")
    broker.change[37] = lambda c: c.reply(4711)
    assert str(decided(one(broker, "K"), COMMIT)) == "4711 unknown code"


def test_unknown_is_no_decision(broker: ScriptedBroker) -> None:
    broker.half("K")
    with pytest.raises(ClientError, match="no decision"):
        check_decidable(one(broker, "K"), TransactionState.UNKNOWN)


def test_compressed_bodies(broker: ScriptedBroker) -> None:
    broker.half("Z", body=zlib.compress(b"long " * 1000), sys_flag=1)
    broker.half("BOMB", body=zlib.compress(bytes(50_000_000)), sys_flag=1)
    broker.half("LZ4", body=b"\x04\x22", sys_flag=0x101)
    broker.half("LIE", body=b"no zlib", sys_flag=1)
    assert body_head(one(broker, "Z").message, 12) == b"long long lo"
    assert body_head(one(broker, "BOMB").message, 256) == bytes(256)
    assert body_head(one(broker, "BOMB").message, 0) == b""
    assert body_head(one(broker, "LZ4").message, 256) == b"\x04\x22"
    with pytest.raises(ProtocolError):
        body_head(one(broker, "LIE").message, 12)


def test_no_runtime_info_and_no_discarded_topic(broker: ScriptedBroker) -> None:
    async def look() -> scan.Statistics:
        return await scan.statistics(FakeLink(broker))

    empty = trio.run(look)
    assert (empty.scan, empty.discarded, empty.counters) == (None, 0, {})
    broker.half("K")
    broker.half("L", where=DISCARDED)
    broker.info = {"transactionHalfCount": "7", "bootTimestamp": "1"}
    full = trio.run(look)
    assert full.scan is not None
    assert (full.scan.table.count, full.discarded) == (1, 1)
    assert full.counters == {"transactionHalfCount": "7"}
    broker.change[28] = lambda c: c.reply(3)
    assert trio.run(look).counters == {}
