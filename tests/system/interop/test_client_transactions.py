"""Our transactional producer against Apache RocketMQ's broker and ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from pyrmq.client import (
    ConsumeFrom,
    PushConsumer,
    TransactionalProducer,
    TransactionState,
)
from pyrmq.model.message import Message
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import (
    CHECK_TIMES,
    PRODUCER_GROUP,
    TRAN_MSG,
    TRANSACTION_ID,
)
from tests.support.consumed import bodies, take
from tests.support.server import ServerProcess

from .conftest import BROKERS
from .store import peer

COMMIT, ROLLBACK, UNKNOWN = (
    TransactionState.COMMIT,
    TransactionState.ROLLBACK,
    TransactionState.UNKNOWN,
)
CONF = """\
transactionTimeOut=1000
transactionCheckInterval=1000
transactionOpBatchInterval=100
transactionCheckMax=1000
"""
SECONDS = 60.0
"""Longest that anything here is waited for."""
COMMITTED_BITS = 0x8


class Running(NamedTuple):
    """A name server's address, and a broker that asks about transactions every second."""

    namesrv: str
    kill_and_restart: Callable[[], object]


@pytest.fixture(scope="module", params=BROKERS)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    if request.param == "pyrmq":
        with ServerProcess(tmp_path_factory.mktemp("ours") / "store", conf=CONF) as server:

            def restart() -> None:
                server.kill()
                server.restart()

            yield Running("{}:{}".format(*server.namesrv), restart)
        return
    home: Path = request.getfixturevalue("home")
    with (
        peer.NameServer(home / "namesrv") as names,
        peer.RealBroker(home / "store", names.address, CONF, home=home / "broker") as real,
    ):

        def restart() -> None:
            real.kill()
            real.start()

        yield Running(names.address, restart)


@pytest.fixture
def broker(running: Running) -> str:
    return running.namesrv


class Scripted:
    """A listener that does as the message's tag says, and keeps what it is asked."""

    def __init__(self, check: Callable[[ReceivedMessage], TransactionState | None]) -> None:
        self.executed: list[tuple[Message, object]] = []
        self.checked: list[ReceivedMessage] = []
        self.was_asked = trio.Event()
        self._check = check

    async def execute_local_transaction(
        self, message: Message, arg: object
    ) -> TransactionState | None:
        self.executed.append((message, arg))
        if message.tags == "raise":
            raise ValueError("no stock ✓ \ud800")
        return {"commit": COMMIT, "rollback": ROLLBACK}.get(message.tags or "")

    async def check_local_transaction(self, message: ReceivedMessage) -> TransactionState | None:
        self.checked.append(message)
        state = self._check(message)
        self.was_asked.set()
        return state


def never(message: ReceivedMessage) -> TransactionState:
    raise AssertionError(f"checked: {message}")


async def receive(broker: str, topic: str, count: int) -> list[ReceivedMessage]:
    async with PushConsumer(
        f"G-{topic}", {topic: "*"}, namesrv=broker, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        return await take(consumer, count, SECONDS)


async def test_committed_messages_are_consumed_and_others_are_not(
    broker: str, topic: str, group: str
) -> None:
    listener = Scripted(never)
    async with TransactionalProducer(group, listener, namesrv=broker) as producer:
        results = [
            await producer.send_in_transaction(
                Message(topic, b"%d" % n, tags=tag, keys=f"k{n}", properties={"a": "ä"}), n
            )
            for n, tag in enumerate(["commit", "rollback"] * 4 + ["commit"])
        ]
        got = await receive(broker, topic, 5)
        statistics = producer.statistics()
    assert bodies(got) == [b"0", b"2", b"4", b"6", b"8"]
    assert [r.local_state for r in results] == [COMMIT, ROLLBACK] * 4 + [COMMIT]
    assert [arg for _, arg in listener.executed] == list(range(9))
    assert {r.queue.topic for r in results} == {topic}
    executed = listener.executed[0][0]
    assert executed.transaction_id == results[0].msg_id == results[0].transaction_id
    (first,) = (m for m in got if m.body == b"0")
    assert (first.transaction_id, first.keys, first.tags) == (results[0].msg_id, ["k0"], "commit")
    assert first.properties[PRODUCER_GROUP] == group
    assert first.properties["a"] == "ä"
    assert first.properties[TRAN_MSG] == "true", "Apache's broker leaves it where it was"
    assert first.sys_flag & 0xC == COMMITTED_BITS
    assert first.queue_id == results[0].queue.queue_id
    assert (statistics.halves_sent, statistics.committed, statistics.rolled_back) == (9, 5, 4)
    assert statistics.ends_failed == statistics.checks_answered == 0


@pytest.mark.parametrize("size", [1, 9000], ids=["plain", "compressed"])
async def test_an_unknown_outcome_is_asked_for(
    broker: str, topic: str, group: str, size: int
) -> None:
    listener = Scripted(lambda m: COMMIT if m.properties[CHECK_TIMES] == "2" else None)
    message = Message(topic, b"x" * size, keys="k1", properties={"a": "ä"})
    async with TransactionalProducer(group, listener, namesrv=broker) as producer:
        result = await producer.send_in_transaction(message)
        assert result.local_state is UNKNOWN
        assert result.error is None
        (got,) = await receive(broker, topic, 1)
        statistics = producer.statistics()
    asked = listener.checked
    assert [m.properties[CHECK_TIMES] for m in asked[:2]] == ["1", "2"]
    for m in (asked[0], got):
        assert (m.topic, m.body, m.keys) == (topic, b"x" * size, ["k1"])
        assert m.transaction_id == result.msg_id == m.properties[TRANSACTION_ID]
        assert m.properties["a"] == "ä"
    assert got.properties[CHECK_TIMES] == "2"
    assert statistics.checks_answered >= 2
    assert statistics.checks_dropped == statistics.checks_failed == 0


async def test_an_exception_is_unknown_and_the_check_decides(
    broker: str, topic: str, group: str
) -> None:
    listener = Scripted(lambda m: ROLLBACK)
    async with TransactionalProducer(group, listener, namesrv=broker) as producer:
        result = await producer.send_in_transaction(Message(topic, b"in doubt", tags="raise"))
        assert result.local_state is UNKNOWN
        assert isinstance(result.error, ValueError)
        with trio.fail_after(SECONDS):
            await listener.was_asked.wait()
        await producer.send_in_transaction(Message(topic, b"after", tags="commit"))
        assert bodies(await receive(broker, topic, 1)) == [b"after"]
    assert {m.transaction_id for m in listener.checked} == {result.msg_id}


DIES = """
import os, sys, trio
from pyrmq.client import TransactionalProducer
from pyrmq.model.message import Message

class Dies:
    def execute_local_transaction(self, message, arg):
        print(message.transaction_id, flush=True)
        os._exit(7)
    def check_local_transaction(self, message):
        os._exit(8)

async def main(namesrv, group, topic):
    async with TransactionalProducer(group, Dies(), namesrv=namesrv) as producer:
        await producer.send_in_transaction(Message(topic, b"orphan"))

trio.run(main, *sys.argv[1:])
"""


async def test_another_process_of_the_group_answers_for_one_that_died(
    broker: str, topic: str, group: str
) -> None:
    """It has sent nothing itself: to be found it must have registered at its start."""
    died = await trio.run_process(
        [sys.executable, "-c", DIES, broker, group, topic],
        capture_stdout=True,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    assert died.returncode == 7
    listener = Scripted(lambda m: COMMIT)
    async with TransactionalProducer(group, listener, namesrv=broker):
        (got,) = await receive(broker, topic, 1)
    assert got.body == b"orphan"
    assert got.transaction_id == listener.checked[0].transaction_id == died.stdout.decode().strip()


async def test_a_broker_that_was_killed_asks_a_producer_that_stayed(
    running: Running, topic: str, group: str
) -> None:
    is_back = False
    listener = Scripted(lambda m: COMMIT if is_back else UNKNOWN)
    async with TransactionalProducer(group, listener, namesrv=running.namesrv) as producer:
        result = await producer.send_in_transaction(Message(topic, b"before the kill"))
        await trio.to_thread.run_sync(running.kill_and_restart)
        is_back = True
        (got,) = await receive(running.namesrv, topic, 1)
    assert (got.body, got.transaction_id) == (b"before the kill", result.msg_id)


async def test_ten_messages_of_which_eight_are_consumed(
    broker: str, topic: str, group: str
) -> None:
    """As in RocketMQ's documentation: two are rolled back, two are decided by the check."""
    by_key = {f"Num{n}": ROLLBACK if n < 2 else COMMIT if n < 8 else UNKNOWN for n in range(10)}
    producer = TransactionalProducer(group, namesrv=broker)

    @producer.transaction
    async def decide(message: Message, state: TransactionState) -> TransactionState:
        return state

    @decide.check
    async def _(message: ReceivedMessage) -> TransactionState:
        assert by_key[message.keys[0]] is UNKNOWN
        return COMMIT

    async with producer:
        for key, state in by_key.items():
            result = await decide(Message(topic, key.encode(), keys=key), state)
            assert result.local_state is state
        got = await receive(broker, topic, 8)
    assert bodies(got) == [b"Num%d" % n for n in range(2, 10)]
    times = {m.keys[0]: int(m.properties.get(CHECK_TIMES, 0)) for m in got}
    assert {key: count > 0 for key, count in times.items()} == {
        f"Num{n}": n >= 8 for n in range(2, 10)
    }


async def test_three_tags_of_which_two_are_consumed(broker: str, topic: str, group: str) -> None:
    by_tag = {"TAGA": COMMIT, "TAGB": ROLLBACK}

    class Listener:
        def execute_local_transaction(self, message: Message, arg: object) -> TransactionState:
            return by_tag.get(message.tags or "", UNKNOWN)

        def check_local_transaction(self, message: ReceivedMessage) -> TransactionState:
            return COMMIT if message.tags == "TAGC" else ROLLBACK

    async with TransactionalProducer(group, Listener(), namesrv=broker) as producer:
        for tag in ("TAGA", "TAGB", "TAGC"):
            await producer.send_in_transaction(Message(topic, tag.encode(), tags=tag))
        got = await receive(broker, topic, 2)
    assert bodies(got) == [b"TAGA", b"TAGC"]


async def test_decorated_functions(broker: str, topic: str, group: str) -> None:
    """A pair that blocks for one topic, an async one for all others."""
    producer = TransactionalProducer(group, namesrv=broker)
    stored: dict[str | None, object] = {}

    @producer.transaction(topic)
    def place_order(message: Message, order: object) -> TransactionState | None:
        stored[message.transaction_id] = order
        return COMMIT if order == "sure" else None

    @place_order.check
    def _(message: ReceivedMessage) -> TransactionState:
        return COMMIT if message.transaction_id in stored else ROLLBACK

    @producer.transaction
    async def refund(message: Message, amount: object) -> TransactionState:
        return COMMIT

    @refund.check
    async def _(message: ReceivedMessage) -> TransactionState:
        return ROLLBACK

    async with producer:
        sure = await place_order(Message(topic, b"sure"), "sure")
        later = await place_order(Message(topic, b"later"), "later")
        other = await refund(Message(f"{topic}-2", b"refund"), 3)
        assert bodies(await receive(broker, topic, 2)) == [b"later", b"sure"]
        assert bodies(await receive(broker, f"{topic}-2", 1)) == [b"refund"]
    assert [r.local_state for r in (sure, later, other)] == [COMMIT, UNKNOWN, COMMIT]
    assert stored == {sure.msg_id: "sure", later.msg_id: "later"}
