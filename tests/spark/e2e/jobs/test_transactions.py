"""Half, op, overflow and committed messages by hand, each with a known fate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pyrmq.model.names import CHECK_MAX_TOPIC, HALF_TOPIC, OP_TOPIC
from spark_ext.jobs import transactions
from tests.spark.e2e.jobs.conftest import Frame, at

T = 1_700_000_000_000


class Log:
    """Rows of one or two brokers; places are counted up as a broker would."""

    def __init__(self) -> None:
        self.stored: list[tuple[Any, ...]] = []
        self.messages: list[tuple[Any, ...]] = []
        self._next: dict[tuple[str, str], int] = {}
        self._phys: dict[str, int] = {}

    def _place(self, broker: str, topic: str) -> tuple[int, int]:
        offset = self._next.get((broker, topic), 0)
        self._next[broker, topic] = offset + 1
        phys = self._phys.get(broker, 0)
        self._phys[broker] = phys + 200
        return offset, phys

    def half(
        self, key: str | None, time: int, *, broker: str = "a", born: int = 0,
        topic: str = HALF_TOPIC, **more: str,
    ) -> tuple[int, int]:  # fmt: skip
        place = self._place(broker, topic)
        properties = {"REAL_TOPIC": "Orders", "REAL_QID": "3", "PGROUP": "P", **more}
        row = (
            topic, broker, 0, *place, at(T + born), at(T + time), None, key, properties,
            bytearray(b"body"),
        )  # fmt: skip
        self.stored.append(row)
        return place

    def op(self, body: str, time: int, *, broker: str = "a", tags: str = "d") -> None:
        place = self._place(broker, OP_TOPIC)
        row = (
            OP_TOPIC, broker, 0, *place, at(T), at(T + time), tags, None, {},
            bytearray(body.encode()),
        )  # fmt: skip
        self.stored.append(row)

    def commit(self, half: int, time: int, *, broker: str = "a", sys_flag: int = 8) -> None:
        offset, _ = self._place(broker, "Orders")
        self.messages.append(("Orders", broker, offset, sys_flag, half, at(T + time)))

    def rows(self, frame: Frame, now: int = 100_000) -> dict[str, Any]:
        return {row.transactionId: row for row in self.compute(frame, now).collect()}

    def compute(self, frame: Frame, now: int = 100_000) -> Any:
        return transactions.compute(
            frame(" ".join(transactions.HALF_COLUMNS), *self.stored),
            frame(" ".join(transactions.COMMITTED_COLUMNS), *self.messages),
            at(T + now),
        )


def test_states(frame: Frame) -> None:
    log = Log()
    # The first half stands at physical offset 0, which plain messages have in that field as well.
    offset, phys = log.half("committed", 10)
    assert phys == 0
    log.commit(0, 5, sys_flag=0)
    log.commit(phys, 60)
    ops = [offset]
    ops.append(log.half("rolled", 20)[0])
    log.half("pending", 30)
    log.half("other broker", 40, broker="b")  # its offset 0 is not settled by a's op record
    log.op(f"{ops[0]},{ops[1]},", 80)
    log.op("2,", 81, tags="x")
    rows = log.rows(frame)
    assert {key: row.state for key, row in rows.items()} == {
        "committed": "committed",
        "rolled": "rolledBack",
        "pending": "pending",
        "other broker": "pending",
    }
    row = rows["committed"]
    assert (row.topic, row.queueId, row.producerGroup) == ("Orders", 3, "P")
    assert (row.deliveries, row.committedQueueOffset, row.ageMs) == (1, 1, 50)
    assert (rows["rolled"].ageMs, rows["pending"].ageMs) == (60, 99_970)
    assert (row.checkTimes, row.halves, row.copies) == (0, 1, 0)


def test_copies_are_one_transaction(frame: Frame) -> None:
    log = Log()
    first, _ = log.half("asked", 0)
    second, phys = log.half("asked", 30, TRANSACTION_CHECK_TIMES="1")
    third, _ = log.half("asked", 60, TRANSACTION_CHECK_TIMES="2")
    log.op(f"{first},{second},", 60)
    rows = log.rows(frame)
    assert set(rows) == {"asked"}
    row = rows["asked"]
    assert (row.state, row.checkTimes, row.halves, row.copies) == ("pending", 2, 1, 2)
    assert (row.halfQueueOffset, row.ageMs) == (third, 100_000)
    # Apache RocketMQ writes no op record for older copies, and an answer may name one of them.
    log.commit(phys, 70)
    assert log.rows(frame)["asked"].state == "committed"


def test_an_immunity_copy_is_settled_by_its_original(frame: Frame) -> None:
    log = Log()
    first, _ = log.half("immune", 0)
    log.half("immune", 10, TRAN_PREPARED_QUEUE_OFFSET=str(first), TRANSACTION_CHECK_TIMES="1")
    assert log.rows(frame)["immune"].state == "pending"
    log.op(str(first), 20)  # the 4.x form: one offset, no comma
    assert log.rows(frame)["immune"].state == "rolledBack"


def test_discarded_and_resumed(frame: Frame) -> None:
    log = Log()
    log.half("discarded", 0, TRANSACTION_CHECK_TIMES="15")
    log.half("discarded", 30, topic=CHECK_MAX_TOPIC, TRANSACTION_CHECK_TIMES="15")
    row = log.rows(frame)["discarded"]
    assert (row.state, row.ageMs, row.checkTimes) == ("discarded", 30, 15)
    log.half("discarded", 50, TRANSACTION_CHECK_TIMES="0")
    assert log.rows(frame)["discarded"].state == "pending"


def test_a_second_half_of_the_same_send(frame: Frame) -> None:
    log = Log()
    first, phys = log.half("twice", 0)
    second, _ = log.half("twice", 1)
    log.commit(phys, 10)
    log.op(f"{first},", 10)
    row = log.rows(frame)["twice"]
    assert (row.state, row.halves, row.deliveries) == ("pending", 2, 1)
    log.op(f"{second},", 20)
    assert log.rows(frame)["twice"].state == "committed"


def test_halves_without_a_key_are_apart(frame: Frame) -> None:
    log = Log()
    log.half(None, 0)
    log.half(None, 0)
    assert len(log.rows(frame)) == 2


def test_they_are_as_they_were_at_the_end_time() -> None:
    assert transactions.seen_at(T + 5) == at(T + 5)
    now = datetime.now(UTC)
    for until in (None, round(now.timestamp() * 1000) + 3_600_000, 1 << 62):
        assert timedelta(0) <= transactions.seen_at(until) - now < timedelta(minutes=1)


def test_summary(frame: Frame) -> None:
    log = Log()
    _, phys = log.half("K1", 0)
    log.commit(phys, 40)
    log.commit(phys, 50)
    log.half("K2\x1b[2J", 60)
    text = transactions.summary(log.compute(frame))
    assert text.startswith("2 transactions: 1 pending, 1 committed, 0 rolled back, 0 discarded")
    assert "1 were delivered more than once" in text
    assert "\\x1b[2J" in text
    assert "\x1b" not in text


def test_a_store_without_transactions(frame: Frame) -> None:
    log = Log()
    log.commit(0, 5, sys_flag=0)
    assert transactions.summary(log.compute(frame)).startswith("0 transactions")
