"""Orderly pops: what the table decides, against a list of messages; its file; its bounds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pyrmq.broker.tables import consumer_order
from pyrmq.broker.tables.consumer_order import KEPT_MS, OTHER_POP, UNKNOWN, ConsumerOrder
from pyrmq.broker.tables.order_batch import MAX_MESSAGES, Batch, State
from pyrmq.errors import ConfigError, SystemBusyError
from pyrmq.net import fastjson
from tests.support.thorough import examples

T0 = 1_700_000_000_000
APACHE = """{
\t"table":{
\t\t"orders@billing":{
\t\t\t0:{
\t\t\t\t"a":"attempt-1",
\t\t\t\t"cm":2,
\t\t\t\t"i":60000,
\t\t\t\t"l":1700000000005,
\t\t\t\t"o":[7,1,4],
\t\t\t\t"oc":{7:2},
\t\t\t\t"ot":{11:1700000090000},
\t\t\t\t"popTime":1700000000000
\t\t\t}
\t\t}
\t}
}"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "consumerOrderInfo.json"


@pytest.fixture
def order(path: Path) -> ConsumerOrder:
    return ConsumerOrder(path)


def record(order: ConsumerOrder, offsets: list[int], at: int = T0, **more: Any) -> Any:
    return order.record(
        "T", "G", 0, offsets, pop_time=at, invisible_time=more.pop("it", 1000), now=at, **more
    )


def test_file_of_rocketmq(path: Path) -> None:
    path.write_text(APACHE)
    order = ConsumerOrder(path)
    batch = order.batch("orders", "billing", 0)
    assert batch == Batch(
        T0, 60000, [7, 8, 11], T0 + 5, "attempt-1", 0b010, {11: T0 + 90000}, {7: 2}
    )
    assert order.is_blocked("orders", "billing", 0, T0 + 89_999)
    assert not order.is_blocked("orders", "billing", 0, T0 + 90_000)
    assert not order.is_blocked("orders", "billing", 0, T0, attempt_id="attempt-1")
    assert order.next_free() == T0 + 90_000


def test_written_as_rocketmq_writes_it(path: Path) -> None:
    path.write_text(APACHE)
    order = ConsumerOrder(path)
    order.ack("orders", "billing", 0, 7, T0, 7)
    trio.run(order.save_if_changed)
    text = path.read_text()
    expected = APACHE.replace('"cm":2', '"cm":3')
    assert "".join(text.split()) == "".join(expected.split())
    again = ConsumerOrder(path)
    assert again.batch("orders", "billing", 0) == order.batch("orders", "billing", 0)


def test_ack_in_any_order_commits_the_first_without_one(order: ConsumerOrder) -> None:
    record(order, [5, 6, 9])
    assert order.ack("T", "G", 0, 6, T0, 5) == 5
    assert order.ack("T", "G", 0, 5, T0, 5) == 9
    assert order.is_blocked("T", "G", 0, T0)
    assert order.ack("T", "G", 0, 9, T0, 9) == 10
    assert not order.is_blocked("T", "G", 0, T0)
    assert order.next_free() is None


def test_ack_of_something_else(order: ConsumerOrder) -> None:
    record(order, [5, 6])
    assert order.ack("T", "G", 0, 7, T0, 5) == UNKNOWN
    assert order.ack("T", "G", 0, 5, T0 + 1, 5) == OTHER_POP
    assert order.ack("T", "G", 0, 5, T0, 5) == 6


def test_without_a_batch_only_the_next_message_counts(order: ConsumerOrder) -> None:
    assert order.ack("T", "G", 0, 5, T0, 4) == OTHER_POP
    assert order.ack("T", "G", 0, 5, T0, 5) == 6


def test_counts(order: ConsumerOrder) -> None:
    assert record(order, [5, 6]) == consumer_order.Counts({}, 0)
    assert record(order, [5, 6, 7], T0 + 2000).by_offset == {5: 1, 6: 1}
    again = record(order, [5, 6], T0 + 4000, attempt_id="a")
    assert (again.by_offset, again.least) == ({5: 2, 6: 2}, 2)
    # The same attempt is no further one; then message 6 alone is.
    assert record(order, [5, 6], T0 + 4100, attempt_id="a").by_offset == {5: 2, 6: 2}
    assert record(order, [6], T0 + 6000).by_offset == {6: 3}


def test_a_changed_time_blocks_until_then(order: ConsumerOrder) -> None:
    record(order, [5, 6])
    assert order.change("T", "G", 0, 5, T0, T0 + 5000)
    assert not order.change("T", "G", 0, 5, T0 + 1, T0 + 9000)
    assert not order.change("T", "G", 0, 7, T0, T0 + 9000)
    assert order.is_blocked("T", "G", 0, T0 + 4999)
    assert order.take_free(T0 + 4999) == []
    assert order.take_free(T0 + 5000) == [("T", "G", 0)]
    assert order.take_free(T0 + 5000) == []
    assert not order.is_blocked("T", "G", 0, T0 + 5000)


def test_a_batch_without_invisible_time_takes_that_of_the_pop(path: Path) -> None:
    path.write_text(APACHE.replace('"i":60000,', "").replace('"ot":{11:1700000090000},', ""))
    order = ConsumerOrder(path)
    assert order.is_blocked("orders", "billing", 0, T0 + 500, invisible_time=1000)
    assert not order.is_blocked("orders", "billing", 0, T0 + 1000, invisible_time=9999)


def test_settle(order: ConsumerOrder) -> None:
    record(order, [5, 6, 7])
    order.settle("T", "G", 0, 7)
    batch = order.batch("T", "G", 0)
    assert batch is not None
    assert batch.next_offset() == 7
    order.settle("T", "G", 0, 8)
    assert batch.state(T0) is State.DONE


def test_clear(order: ConsumerOrder) -> None:
    record(order, [5])
    order.clear("T", "G", 0)
    order.clear("T", "G", 0)
    assert not order.is_blocked("T", "G", 0, T0)
    assert order.count == 0
    assert order.next_free() is None


def test_clean(path: Path) -> None:
    order = ConsumerOrder(path)
    for topic, group, queue, at in [
        ("T", "G", 0, T0), ("T", "G", 4, T0), ("T", "G", 1, T0 - KEPT_MS - 1),
        ("gone", "G", 0, T0), ("T", "left", 0, T0),
    ]:  # fmt: skip
        order.record(topic, group, queue, [1], pop_time=at, invisible_time=1, now=at)
    queue_count, has_group = {"T": 4}.get, {"G"}.__contains__
    trio.run(order.clean, queue_count, has_group, T0)
    assert order.queues() == [("T", "G", 0)]
    trio.run(order.save_if_changed)
    assert ConsumerOrder(path).queues() == [("T", "G", 0)]


@pytest.mark.parametrize(
    "bad",
    [
        [], [7, 7], [7, 5], [-1], list(range(MAX_MESSAGES + 1)), [1 << 63],
    ],
)  # fmt: skip
def test_no_batch(order: ConsumerOrder, bad: list[int]) -> None:
    with pytest.raises(ValueError):
        record(order, bad)
    assert order.count == 0


def test_bounds(order: ConsumerOrder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_order, "MAX_BATCHES", 1)
    record(order, [1])
    record(order, [2])
    with pytest.raises(SystemBusyError):
        order.check_room("T", "G", 1)
    with pytest.raises(SystemBusyError):
        order.record("T", "H", 0, [1], pop_time=T0, invisible_time=1, now=T0)


def test_the_heap_does_not_grow_with_changes(order: ConsumerOrder) -> None:
    record(order, [1])
    for i in range(10_000):
        order.change("T", "G", 0, 1, T0, T0 + i)
    assert len(order._heap) < 1000
    assert order.next_free() == T0 + 9999


@pytest.mark.parametrize(
    "row",
    [
        {"o": []}, {"o": [3, 0]}, {"o": "x"}, {"o": [1 << 70]}, {"o": list(range(99))},
        {"o": None}, {"popTime": -1}, {"popTime": "soon"}, {"l": None}, {"cm": -1}, {"cm": 1 << 64},
    ],
)  # fmt: skip
def test_rows_that_are_no_batches_are_kept(path: Path, row: dict[str, Any]) -> None:
    good = {"popTime": T0, "l": T0, "o": [1], "i": 5, "cm": 0}
    rows = {"T@G": {"0": good | row}, "T@H": {"0": good}, "noat": {}}
    path.write_text(json.dumps({"table": rows, "more": 1}))
    order = ConsumerOrder(path)
    assert order.queues() == [("T", "H", 0)]
    order.change("T", "H", 0, 1, T0, 9)
    trio.run(order.save_if_changed)
    written = fastjson.loads(path.read_bytes())
    assert written["more"] == 1
    assert written["table"]["T@G"] == rows["T@G"]
    assert written["table"]["noat"] == {}
    record(order, [4])  # one that the table makes takes its place
    trio.run(order.save_if_changed)
    assert set(ConsumerOrder(path).queues()) == {("T", "G", 0), ("T", "H", 0)}


def test_hostile_values_of_a_batch() -> None:
    batch = Batch.from_json(
        {
            "popTime": str(T0),
            "l": T0,
            "o": [1, 1],
            "cm": 0xFF,
            "i": -5,
            "a": 7,
            "ot": {"1": -4, "2": 1 << 80, "9": 5, "x": 1},
            "oc": [1],
        }
    )
    assert batch == Batch(T0, 0, [1, 2], T0, None, 0b11, {2: (1 << 63) - 1}, {})


def test_a_file_that_is_no_json(path: Path) -> None:
    path.write_text("{")
    with pytest.raises(ConfigError):
        ConsumerOrder(path)


@dataclass
class Sent:
    """A message of the model."""

    visible: int
    done: bool = False
    count: int = 0


@dataclass
class Popped:
    at: int
    attempt: str | None
    messages: dict[int, Sent] = field(default_factory=dict)


class OrderlyPops(RuleBasedStateMachine):
    """One queue of a group: pops, acks in any order, changes, reopening. The model is a list of
    messages; the table must agree with it, and the group must see each message in order."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.committed, self.popped = T0, 0, Popped(0, None)
        self.order = ConsumerOrder(Path("/nonexistent/consumerOrderInfo.json"))

    def waiting(self) -> list[int]:
        return [offset for offset, sent in self.popped.messages.items() if not sent.done]

    @rule(ms=st.integers(0, 3000))
    def pass_time(self, ms: int) -> None:
        self.now += ms

    @rule(count=st.integers(1, 8), gap=st.integers(1, 3), attempt=st.sampled_from([None, "a", "b"]))
    def pop(self, count: int, gap: int, attempt: str | None) -> None:
        blocked = any(self.popped.messages[offset].visible > self.now for offset in self.waiting())
        blocked &= attempt is None or attempt != self.popped.attempt
        assert self.order.is_blocked("T", "G", 0, self.now, attempt_id=attempt) == blocked
        if blocked:
            return
        offsets = [self.committed + i * gap for i in range(count)]
        same = attempt is not None and attempt == self.popped.attempt
        before, self.popped = self.popped, Popped(self.now, attempt)
        for offset in offsets:
            known = before.messages.get(offset)
            count = (known.count + (not same)) if known else 0
            self.popped.messages[offset] = Sent(self.now + 1000, count=count)
        told = record(self.order, offsets, self.now, attempt_id=attempt)
        counts = [self.popped.messages[offset].count for offset in offsets]
        assert told.by_offset == {o: c for o, c in zip(offsets, counts, strict=True) if c}
        assert told.least == min(counts)

    @precondition(lambda self: self.popped.messages)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(list(self.popped.messages)))
        self.popped.messages[offset].done = True
        following = self.order.ack("T", "G", 0, offset, self.popped.at, self.committed)
        assert following == min(self.waiting(), default=max(self.popped.messages) + 1)
        assert following >= self.committed
        self.committed = following

    @precondition(lambda self: self.popped.messages)
    @rule(data=st.data(), ms=st.integers(0, 5000))
    def change(self, data: st.DataObject, ms: int) -> None:
        offset = data.draw(st.sampled_from(list(self.popped.messages)))
        self.popped.messages[offset].visible = self.now + ms
        assert self.order.change("T", "G", 0, offset, self.popped.at, self.now + ms)

    @rule()
    def reopen(self) -> None:
        text = b"".join(fastjson.parts(self.order.to_json()))
        batch = self.order.batch("T", "G", 0)
        if batch is None:
            return
        row = fastjson.loads(text)["table"]["T@G"]
        assert Batch.from_json(next(iter(row.values()))) == batch

    @invariant()
    def free_at(self) -> None:
        waiting = [self.popped.messages[offset].visible for offset in self.waiting()]
        batch = self.order.batch("T", "G", 0)
        assert (batch.free_at() if batch else None) == max(waiting, default=None)
        self.order.take_free(self.now)
        left = [at for at in [max(waiting, default=self.now)] if at > self.now]
        assert self.order.next_free() in (left or [None])


TestOrderlyPops = OrderlyPops.TestCase
TestOrderlyPops.settings = settings(max_examples=examples(60), deadline=None)
