"""Timer messages, priorities and types of messages on the wire: where they are stored, what the
answer says, what is refused. [HookUtils, SendMessageProcessor, TopicMessageType]"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

import pyrmq.testing
from pyrmq.model.codes import RequestCode as Code
from pyrmq.model.recall import RecallHandle
from tests.support.client import SEND_MESSAGE, Client, batch_command
from tests.support.delays import SCHEDULE_TOPIC, is_unknown, log_end, place, record_at
from tests.support.transactions import half_command
from tests.support.wire import BINARY, JSON, Command

TIMER_TOPIC = "rmq_sys_wheel_timer"
HOUR = 3_600_000
SYSTEM_ERROR, MESSAGE_ILLEGAL, NO_PERMISSION = 1, 13, 16
_numbers = count()


@contextmanager
def connected(**settings: Any) -> Iterator[Client]:
    with (
        pyrmq.testing.broker(**settings) as running,
        Client(running.broker_address) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with connected() as client:
        yield client


@pytest.fixture
def topic(client: Client) -> str:
    name = f"Timed{next(_numbers)}"
    client.send(name, b"first", queue_id=3)
    return name


def now() -> int:
    return int(time.time() * 1000)


@pytest.mark.parametrize("serialize", [JSON, BINARY])
@pytest.mark.parametrize("code", [SEND_MESSAGE, 310])
@pytest.mark.parametrize(
    ("name", "value", "delay"),
    [("TIMER_DELAY_SEC", "3600", HOUR), ("TIMER_DELAY_MS", str(HOUR), HOUR)],
)
def test_it_waits_and_its_answer_has_the_handle(
    client: Client, topic: str, serialize: int, code: int, name: str, value: str, delay: int
) -> None:
    before = now()
    answer = client.send(
        topic,
        b"later",
        queue_id=2,
        properties={name: value, "TAGS": "a", "UNIQ_KEY": "K1"},
        serialize=serialize,
        code=code,
    )
    after = now()
    waits = record_at(client, place(answer))
    assert (waits.topic, waits.queue_id, waits.body) == (TIMER_TOPIC, 0, b"later")
    out = int(waits.properties["TIMER_OUT_MS"])
    assert out % 1000 == 0
    assert before + delay - 1000 <= out < after + delay, "the slot that ends when it is due"
    own = {name: value, "TAGS": "a", "REAL_TOPIC": topic, "REAL_QID": "2"}
    assert own.items() <= waits.properties.items()
    assert (answer.ext["queueId"], answer.ext["transactionId"]) == ("2", "K1")
    assert int(answer.ext["queueOffset"]) == waits.queue_offset
    handle = RecallHandle.parse(answer.ext["recallHandle"])
    assert handle == RecallHandle(topic, "broker-a", out + 1, "K1")
    assert client.max_offset(topic, 2) == 0, "consumers see nothing of it yet"


def test_a_time_is_not_moved_by_the_clock(client: Client, topic: str) -> None:
    asked = (now() + HOUR) // 1000 * 1000
    for deliver, out in ((asked, asked - 1000), (asked + 1, asked), (asked + 999, asked)):
        answer = client.send(topic, properties={"TIMER_DELIVER_MS": str(deliver)})
        assert record_at(client, place(answer)).properties["TIMER_OUT_MS"] == str(out)


def test_an_ordinary_answer_has_no_handle(client: Client, topic: str) -> None:
    """Also where the time is past, or a delay level counts."""
    for properties in (
        {},
        {"TIMER_DELIVER_MS": "1700000000000"},
        {"TIMER_DELAY_SEC": "-5"},
        {"TIMER_DELAY_SEC": "3600", "DELAY": "18"},
        {"TIMER_DELAY_SEC": "3600", "TIMER_OUT_MS": "1"},
    ):
        answer = client.send(topic, b"now", properties=properties)
        stored = record_at(client, place(answer))
        assert stored.topic == (SCHEDULE_TOPIC if "DELAY" in properties else topic)
        assert "recallHandle" not in answer.ext


def test_a_new_topic_is_made_for_it(client: Client) -> None:
    name = f"Made{next(_numbers)}"
    answer = client.send(name, b"later", properties={"TIMER_DELAY_SEC": "3600"})
    assert record_at(client, place(answer)).properties["REAL_TOPIC"] == name
    assert "recallHandle" in answer.ext
    assert not is_unknown(client, name)


@pytest.mark.parametrize("new", [False, True], ids=["known", "new"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIMER_DELAY_SEC", "soon"),
        ("TIMER_DELAY_MS", "1.5"),
        ("TIMER_DELIVER_MS", "99999999999999999999"),
        ("TIMER_DELAY_SEC", "\u0663"),
        ("TIMER_DELAY_MS", " 1"),
    ],
)
def test_text_is_refused_and_makes_no_topic(
    client: Client, topic: str, new: bool, name: str, value: str
) -> None:
    target = f"{topic}New" if new else topic
    end = log_end(client)
    answer = client.send(target, properties={name: value})
    assert answer.code == MESSAGE_ILLEGAL
    assert f"property {name}=" in (answer.remark or "")
    assert is_unknown(client, target) == new
    assert log_end(client) == end


def test_a_delay_beyond_the_longest_is_refused(client: Client, topic: str) -> None:
    end = log_end(client)
    for name, value in (
        ("TIMER_DELAY_SEC", "259201"),
        ("TIMER_DELAY_SEC", "9223372036854775807"),
        ("TIMER_DELIVER_MS", str(now() + 73 * HOUR)),
    ):
        answer = client.send(topic, properties={name: value})
        assert answer.code == MESSAGE_ILLEGAL
        assert "max delay 259200000ms" in (answer.remark or "")
    assert log_end(client) == end


def test_halves_and_batches_are_no_timers(client: Client, topic: str) -> None:
    end = log_end(client)
    timer = {"TIMER_DELAY_SEC": "3600"}
    for request in (
        half_command(topic, properties=timer),
        batch_command(topic, [(b"a", {})], properties=timer),
        batch_command(topic, [(b"a", {}), (b"b", timer)]),
    ):
        answer = client.request(request)
        assert answer.code == MESSAGE_ILLEGAL
        assert "delayed" in (answer.remark or "")
    assert log_end(client) == end


@pytest.mark.parametrize("name", [TIMER_TOPIC, "rmq_sys_REVIVE_LOG_DefaultCluster"])
def test_nobody_writes_where_the_broker_keeps_what_it_delivers(client: Client, name: str) -> None:
    end = log_end(client)
    forged = {"TIMER_OUT_MS": "1", "REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"}
    for command in (
        Command(Code.RECALL_MESSAGE, {"topic": name, "recallHandle": "x"}),
        batch_command(name, [(b"a", forged)]),
    ):
        assert client.request(command).code == NO_PERMISSION
    assert client.send(name, properties=forged).code == NO_PERMISSION
    assert log_end(client) == end


def test_where_it_belongs_cannot_be_forged(client: Client, topic: str) -> None:
    forged = {
        "REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "9", "TIMER_ROLL_TIMES": "7",
        "TIMER_ENQUEUE_MS": "1", "TIMER_DEQUEUE_MS": "1",
    }  # fmt: skip
    answer = client.send(topic, queue_id=1, properties={**forged, "TIMER_DELAY_SEC": "3600"})
    kept = record_at(client, place(answer)).properties
    assert (kept["REAL_TOPIC"], kept["REAL_QID"]) == (topic, "1")
    assert forged.keys() & kept.keys() == {"REAL_TOPIC", "REAL_QID"}


def test_without_the_wheel_they_are_refused() -> None:
    with connected(timer_wheel_enable=False) as client:
        client.send("Known")
        for name in ("Known", "Unknown"):
            answer = client.send(name, properties={"TIMER_DELAY_SEC": "1"})
            assert answer.code == SYSTEM_ERROR
            assert "timerWheelEnable is false" in (answer.remark or "")
        assert is_unknown(client, "Unknown")


def test_bounds_are_those_of_the_configuration() -> None:
    with connected(timer_precision_ms=100, timer_max_delay_sec=10) as client:
        client.send("Known")
        answer = client.send("Known", properties={"TIMER_DELAY_MS": "10001"})
        assert answer.code == MESSAGE_ILLEGAL
        assert "max delay 10000ms" in (answer.remark or "")
        deliver = now() + 9000
        answer = client.send("Known", properties={"TIMER_DELIVER_MS": str(deliver)})
        out = int(record_at(client, place(answer)).properties["TIMER_OUT_MS"])
        assert 0 < deliver - out <= 100


# Priorities.


@pytest.mark.parametrize(
    ("properties", "queue"),
    [
        ({"_SYS_MSG_PRIORITY_": "0"}, 0),
        ({"_SYS_MSG_PRIORITY_": "3"}, 3),
        ({"_SYS_MSG_PRIORITY_": "99"}, 3),
        ({"_SYS_MSG_PRIORITY_": "-1"}, 1),
        ({"_SYS_MSG_PRIORITY_": "high"}, 1),
        ({"_SYS_MSG_PRIORITY_": "3", "__SHARDINGKEY": "k"}, 1),
    ],
)
def test_a_priority_chooses_the_queue(
    client: Client, topic: str, properties: dict[str, str], queue: int
) -> None:
    answer = client.send(topic, queue_id=1, properties=properties)
    stored = record_at(client, place(answer))
    assert (answer.ext["queueId"], stored.queue_id) == (str(queue), queue)
    ordered = "__SHARDINGKEY" in properties
    assert ("_SYS_MSG_PRIORITY_" in stored.properties) != ordered


# Types of topics.


def make(client: Client, topic: str, kind: str | None) -> Command:
    ext = {
        "topic": topic, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "order": "false",
        "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
        "attributes": f"+message.type={kind}" if kind else "",
    }  # fmt: skip
    return client.call(Code.UPDATE_AND_CREATE_TOPIC, **ext)


SENDS = {
    "NORMAL": {},
    "FIFO": {"__SHARDINGKEY": "k"},
    "DELAY": {"TIMER_DELAY_SEC": "3600"},
    "PRIORITY": {"_SYS_MSG_PRIORITY_": "1"},
}


@pytest.mark.parametrize("kind", [*SENDS, None])
def test_a_topic_takes_its_own_type_only_where_the_broker_is_told_so(kind: str | None) -> None:
    with connected(enable_topic_message_type_check=True) as client:
        assert make(client, "Typed", kind).code == 0
        for sent, properties in SENDS.items():
            answer = client.send("Typed", properties=properties)
            if sent == (kind or "NORMAL"):
                assert answer.code == 0, answer.remark
                continue
            assert answer.code == MESSAGE_ILLEGAL
            assert answer.remark == (
                f"TopicMessageType validate failed, the expected type is {kind or 'NORMAL'}, "
                f"but actual type is {sent}"
            )


def test_the_check_may_be_switched_while_the_broker_runs() -> None:
    with connected() as client:
        assert make(client, "Typed", "FIFO").code == 0
        for switch, code in (("false", 0), ("true", MESSAGE_ILLEGAL), ("false", 0)):
            text = f"enableTopicMessageTypeCheck={switch}".encode()
            assert client.call(Code.UPDATE_BROKER_CONFIG, body=text).code == 0
            assert client.send("Typed").code == code


def test_a_mixed_topic_takes_all_types() -> None:
    with connected(enable_topic_message_type_check=True, enable_mixed_message_type=True) as client:
        assert make(client, "Mixed", "MIXED").code == 0
        for properties in SENDS.values():
            assert client.send("Mixed", properties=properties).code == 0


def test_lite_topics_are_not_there(client: Client) -> None:
    answer = make(client, "Lite", "LITE")
    assert answer.code == SYSTEM_ERROR
    assert "message.type=LITE" in (answer.remark or "")
