"""What recalls do to deliveries: the message that is named stays away, and nothing else is lost or
comes twice. The broker's clock is put forward, so that nothing waits for real."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

import pyrmq.testing
from pyrmq.model.codes import RequestCode as Code
from pyrmq.model.recall import RecallHandle
from tests.support.client import Client
from tests.support.delays import await_records, place, record_at, runtime_info
from tests.support.records import Record
from tests.support.waiting import eventually
from tests.support.wire import Command

HALF_HOUR = 1800
SUCCESS, SYSTEM_ERROR, ILLEGAL_OPERATION = 0, 1, 604
_numbers = count()


@pytest.fixture(scope="module")
def running() -> Iterator[pyrmq.testing.TestServer]:
    with pyrmq.testing.broker(recall_message_enable=True) as running:
        yield running


@pytest.fixture
def client(running: pyrmq.testing.TestServer) -> Iterator[Client]:
    with Client(running.broker_address) as client:
        yield client


@pytest.fixture
def topic(client: Client) -> str:
    name = f"Recalled{next(_numbers)}"
    client.send(name, b"first", queue_id=3)
    return name


def at(running: pyrmq.testing.TestServer, seconds: int) -> int:
    """A time of the broker's clock, ms, a whole second."""
    return (int(running.clock.now().timestamp()) + seconds) * 1000


def later(client: Client, topic: str, body: bytes, deliver_ms: int, key: str) -> Command:
    answer = client.send(
        topic, body, properties={"TIMER_DELIVER_MS": str(deliver_ms), "UNIQ_KEY": key}
    )
    assert answer.code == SUCCESS, answer.remark
    return answer


def recall(client: Client, topic: str, handle: str) -> Command:
    return client.call(Code.RECALL_MESSAGE, topic=topic, recallHandle=handle, producerGroup="g")


def came(client: Client, topic: str, many: int) -> list[bytes]:
    return [record.body for record in await_records(client, topic, many)]


def test_only_what_is_named_stays_away(
    running: pyrmq.testing.TestServer, client: Client, topic: str
) -> None:
    """All are due in one slot, and one of them is recalled twice."""
    deliver = at(running, HALF_HOUR)
    handles = {
        body: later(client, topic, body, deliver, f"{topic}-{body.decode()}").ext["recallHandle"]
        for body in (b"a", b"b", b"c", b"d")
    }
    for body in (b"b", b"d", b"b"):
        assert recall(client, topic, handles[body]).code == SUCCESS
    later(client, topic, b"last", deliver + 2000, f"{topic}-last")
    running.clock.advance(HALF_HOUR + 5)
    assert came(client, topic, 3) == [b"a", b"c", b"last"]


def test_forged_and_foreign_handles_take_nothing(
    running: pyrmq.testing.TestServer, client: Client, topic: str
) -> None:
    """The key of a message, recalled by who may send to another topic; the right topic with
    another key or time."""
    deliver = at(running, HALF_HOUR)
    key = f"{topic}-key"
    answer = later(client, topic, b"stays", deliver, key)
    real = RecallHandle.parse(answer.ext["recallHandle"])
    other = f"{topic}Other"
    client.send(other)
    forged = (
        RecallHandle(other, real.broker_name, real.deliver_ms, key),
        RecallHandle(other, real.broker_name, real.deliver_ms, f"{topic}+{key}"),
        RecallHandle(topic, real.broker_name, real.deliver_ms, "unknown"),
        RecallHandle(topic, real.broker_name, real.deliver_ms + 1000, key),
    )
    for handle in forged:
        assert recall(client, handle.topic, handle.encode()).code == SUCCESS
    running.clock.advance(HALF_HOUR + 5)
    assert came(client, topic, 1) == [b"stays"]
    assert client.max_offset(other, 0) == 1, "recalls themselves are delivered nowhere"


def test_what_was_delivered_cannot_be_recalled(
    running: pyrmq.testing.TestServer, client: Client, topic: str
) -> None:
    handle = later(client, topic, b"gone", at(running, HALF_HOUR), f"{topic}-k").ext["recallHandle"]
    running.clock.advance(HALF_HOUR + 5)
    assert came(client, topic, 1) == [b"gone"]
    answer = recall(client, topic, handle)
    assert answer.code == ILLEGAL_OPERATION
    assert "timestamp invalid" in (answer.remark or "")
    assert client.max_offset(topic, 0) == 1


def test_what_arrives_says_that_it_was_a_timer_and_is_none_any_more(
    running: pyrmq.testing.TestServer, client: Client, topic: str
) -> None:
    """A program that sends on what it got, with all properties, sends at once."""
    answer = later(client, topic, b"x", at(running, HALF_HOUR), f"{topic}-k")
    waits = record_at(client, place(answer))
    running.clock.advance(HALF_HOUR + 5)
    (arrived,) = await_records(client, topic, 1)
    assert waits.properties.items() <= arrived.properties.items()
    assert {"TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"} <= arrived.properties.keys()
    again = client.send(topic, b"on", queue_id=1, properties=arrived.properties)
    assert "recallHandle" not in again.ext
    stored: Record = record_at(client, place(again))
    assert (stored.topic, stored.queue_id) == (topic, 1)


def test_a_slot_that_is_full_takes_no_more_but_is_recalled_from() -> None:
    with (
        pyrmq.testing.broker(recall_message_enable=True, timer_congest_num_each_slot=1) as running,
        Client(running.broker_address) as client,
    ):
        client.send("Full", queue_id=3)
        deliver = at(running, HALF_HOUR)
        handle = later(client, "Full", b"1", deliver, "K1").ext["recallHandle"]
        in_wheel(client, 1)
        later(client, "Full", b"2", deliver, "K2")
        in_wheel(client, 2)
        late = {"TIMER_DELIVER_MS": str(deliver)}
        answer = client.send("Full", b"3", properties=late)
        assert answer.code == SYSTEM_ERROR
        assert "flow control" in (answer.remark or "")
        later(client, "Full", b"next", deliver + 1000, "K3")
        assert recall(client, "Full", handle).code == SUCCESS
        running.clock.advance(HALF_HOUR + 5)
        assert came(client, "Full", 2) == [b"2", b"next"]


def in_wheel(client: Client, many: int) -> None:
    """Waits until the wheel has so many messages."""
    eventually(
        lambda: runtime_info(client),
        f"{many} timers are in the wheel",
        until=lambda info: (
            info["timerOffsetBehind"] == "0" and int(info["timerCongestNum"]) == many
        ),
    )
