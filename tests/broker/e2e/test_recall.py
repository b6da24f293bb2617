"""RECALL_MESSAGE: what is stored, and which recalls are refused with which code.
[RecallMessageProcessor, RecallMessageHandle]"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import pyrmq.testing
from pyrmq.model.codes import RequestCode as Code
from pyrmq.model.recall import RecallHandle
from tests.support.client import Client
from tests.support.delays import log_end
from tests.support.records import Record
from tests.support.wire import Command

TIMER_TOPIC = "rmq_sys_wheel_timer"
TOPIC = "Known"
HOUR = 3_600_000
SUCCESS, SYSTEM_ERROR, SLAVE, MESSAGE_ILLEGAL, NOT_AVAILABLE = 0, 1, 11, 13, 14
NO_PERMISSION, TOPIC_NOT_EXIST, ILLEGAL_OPERATION = 16, 17, 604


@contextmanager
def connected(**settings: Any) -> Iterator[Client]:
    with (
        pyrmq.testing.broker(**{"recall_message_enable": True, **settings}) as running,
        Client(running.broker_address) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with connected() as client:
        client.send(TOPIC)
        client.send("Other")
        yield client


def recall(client: Client, handle: str, topic: str = TOPIC, **change: object) -> Command:
    return client.call(
        Code.RECALL_MESSAGE,
        **{"producerGroup": "PG", "topic": topic, "recallHandle": handle, **change},
    )


def to_come(key: str = "K", **change: Any) -> str:
    """A handle whose time is to come."""
    values = {
        "topic": TOPIC,
        "broker_name": "broker-a",
        "deliver_ms": int(time.time() * 1000) + HOUR,
        "key": key,
    }
    return RecallHandle(**{**values, **change}).encode()


def last_timer(client: Client) -> Record:
    end = client.max_offset(TIMER_TOPIC, 0)
    (record,) = client.pull_all(TIMER_TOPIC, 0, end - 1, end)
    return record


@pytest.mark.parametrize("with_topic", [False, True], ids=["5.5", "5.3"])
def test_a_recall_is_a_timer_that_ends_another_one(with_topic: bool) -> None:
    with connected(append_topic_for_timer_delete_key=with_topic) as client:
        client.send(TOPIC)
        sent = client.send(
            TOPIC, queue_id=2, properties={"TIMER_DELAY_SEC": "3600", "UNIQ_KEY": "K1"}
        )
        waits = last_timer(client)
        answer = recall(client, sent.ext["recallHandle"])
        assert (answer.code, answer.ext["msgId"]) == (SUCCESS, "K1"), answer.remark
        assert answer.ext["MSG_REGION"] == "DefaultRegion"
        ends = last_timer(client)
        assert (ends.body, ends.queue_offset) == (b"0", waits.queue_offset + 1)
        out = waits.properties["TIMER_OUT_MS"]
        expected = {
            "TAGS": "_RECALL_TAG_", "UNIQ_KEY": "K1", "PGROUP": "PG", "REAL_TOPIC": TOPIC,
            "REAL_QID": "0", "TIMER_DELIVER_MS": str(int(out) + 1),
            "TIMER_OUT_MS": out,  # it is in the slot of what it ends
            "TIMER_DEL_UNIQKEY": f"{TOPIC}+K1" if with_topic else "K1",
        }  # fmt: skip
        assert expected.items() <= ends.properties.items()
        assert ends.properties.keys() - expected.keys() == {"BORN_TIMESTAMP"}


def test_nobody_can_tell_whether_it_is_still_there(client: Client) -> None:
    """RocketMQ's answer to an unknown key is the same: the recall finds nothing when it is due."""
    assert recall(client, to_come("never-sent")).code == SUCCESS


def test_the_group_may_be_missing(client: Client) -> None:
    answer = client.call(Code.RECALL_MESSAGE, topic=TOPIC, recallHandle=to_come())
    assert answer.code == SUCCESS, answer.remark
    assert "PGROUP" not in last_timer(client).properties


@pytest.mark.parametrize(
    ("change", "topic", "code", "words"),
    [
        ({}, "Nowhere", TOPIC_NOT_EXIST, "the topic[Nowhere] not exist"),
        ({}, "Other", ILLEGAL_OPERATION, "topic not match"),
        ({"broker_name": "broker-b"}, TOPIC, ILLEGAL_OPERATION, "broker service not available"),
        ({"deliver_ms": 0}, TOPIC, ILLEGAL_OPERATION, "timestamp invalid"),
        ({"deliver_ms": -1}, TOPIC, ILLEGAL_OPERATION, "timestamp invalid"),
        ({"deliver_ms": 1_700_000_000_000}, TOPIC, ILLEGAL_OPERATION, "timestamp invalid"),
        ({"deliver_ms": (1 << 63) - 1}, TOPIC, ILLEGAL_OPERATION, "timestamp invalid"),
        ({"key": "k\x02REAL_TOPIC\x01Other"}, TOPIC, ILLEGAL_OPERATION, "handle is invalid"),
        ({"key": "k" * 40_000}, TOPIC, ILLEGAL_OPERATION, "handle is invalid"),
    ],
)
def test_handles_that_are_refused(
    client: Client, change: dict[str, Any], topic: str, code: int, words: str
) -> None:
    end = log_end(client)
    answer = recall(client, to_come(**change), topic)
    assert answer.code == code
    assert words in (answer.remark or "")
    assert log_end(client) == end


def test_a_time_beyond_the_longest_delay_is_refused(client: Client) -> None:
    late = int(time.time() * 1000) + 73 * HOUR
    answer = recall(client, to_come(deliver_ms=late))
    assert answer.code == ILLEGAL_OPERATION


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", TIMER_TOPIC])
def test_messages_of_the_broker_cannot_be_recalled(client: Client, topic: str) -> None:
    end = log_end(client)
    assert recall(client, to_come(topic=topic), topic).code == NO_PERMISSION
    assert log_end(client) == end


def test_it_is_forbidden_unless_switched_on() -> None:
    with connected(recall_message_enable=False) as client:
        client.send(TOPIC)
        assert recall(client, to_come()).code == NO_PERMISSION
        switched = client.call(Code.UPDATE_BROKER_CONFIG, body=b"recallMessageEnable=true")
        assert switched.code == SUCCESS
        assert recall(client, to_come()).code == SUCCESS


def test_a_broker_that_takes_no_messages_takes_recalls_if_it_may() -> None:
    with connected() as client:
        client.send(TOPIC)
        for text, code in (
            (b"brokerPermission=4", SUCCESS),
            (b"allowRecallWhenBrokerNotWriteable=false", NOT_AVAILABLE),
            (b"brokerPermission=6", SUCCESS),
        ):
            assert client.call(Code.UPDATE_BROKER_CONFIG, body=text).code == SUCCESS
            assert recall(client, to_come()).code == code


def test_without_the_wheel_nothing_is_recalled() -> None:
    with connected(timer_wheel_enable=False) as client:
        client.send(TOPIC)
        answer = recall(client, to_come())
        assert answer.code == SYSTEM_ERROR
        assert "timerWheelEnable is false" in (answer.remark or "")


def test_a_slave_recalls_nothing() -> None:
    with connected(broker_role="SLAVE", broker_id=1) as client:
        assert recall(client, to_come()).code == SLAVE


def test_where_types_are_checked_only_delayed_messages_are_recalled() -> None:
    with connected(enable_topic_message_type_check=True) as client:
        for name, kind in (("Typed", "DELAY"), (TOPIC, "FIFO")):
            made = client.call(
                Code.UPDATE_AND_CREATE_TOPIC,
                topic=name, readQueueNums=4, writeQueueNums=4, perm=6, order="false",
                defaultTopic="TBW102", topicFilterType="SINGLE_TAG", topicSysFlag=0,
                attributes=f"+message.type={kind}",
            )  # fmt: skip
            assert made.code == SUCCESS
        assert recall(client, to_come(topic="Typed"), "Typed").code == SUCCESS
        answer = recall(client, to_come())
        assert answer.code == MESSAGE_ILLEGAL
        assert "expected type is FIFO, but actual type is DELAY" in (answer.remark or "")
