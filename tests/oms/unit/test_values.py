"""Key-values, attributes, and messages on their way to RocketMQ and back."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import Enum
from typing import Any

import pytest

import pyrmq
from pyrmq import oms
from pyrmq.errors import (
    ClientError,
    ConfigError,
    MessageIllegalError,
    NotSentError,
    NotSupportedError,
)
from pyrmq.model.record import ReceivedMessage, decode_record
from pyrmq.oms import Attribute, BytesMessage, Header, KeyValue, MessagingAccessPoint
from pyrmq.oms.message import from_rocketmq, to_rocketmq
from tests.support.records import encode_record
from tests.support.scripted.lists import EMPTY

URL = "oms:rocketmq://127.0.0.1:9876/default"


class Colour(str, Enum):  # noqa: UP042 - as many programs have it
    RED = "red"


# Key-values.


def test_numbers_are_texts() -> None:
    values = KeyValue({"a": 1}, b=2.5).put("c", "x").put(Header.TRACE_ID, Colour.RED)
    assert dict(values) == {"a": "1", "b": "2.5", "c": "x", "TRACE_ID": "red"}
    assert (values.get_int("a"), values.get_float("a"), values.get_float("b")) == (1, 1.0, 2.5)
    assert (values.get_int("none"), values.get_int("none", 7), values.get_float("none")) == (
        0,
        7,
        0,
    )
    assert (values.get("none"), "a" in values, len(values)) == (None, True, 4)
    with pytest.raises(KeyError):
        _ = values["none"]
    del values["a"]
    assert "a" not in values


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
        (1e300, "1e+300"),
        (-(1 << 63), "-9223372036854775808"),
    ],
)
def test_numbers_as_java_reads_them(number: float, text: str) -> None:
    values = KeyValue(n=number)
    assert values["n"] == text
    assert repr(values.get_float("n")) == repr(float(number))


@pytest.mark.parametrize(
    ("name", "value"),
    [("n", True), ("n", None), ("n", b"x"), ("n", [1]), ("n", 1 << 63), ("", "x"), (5, "x")],
)
def test_what_is_no_header(name: Any, value: Any) -> None:
    with pytest.raises(ClientError):
        KeyValue()[name] = value
    with pytest.raises(ClientError):
        KeyValue({name: value})


@pytest.mark.parametrize("text", ["", "x", "1_0", " 1", "1.5", "\u0661", "9" * 5000, str(1 << 63)])
def test_texts_that_are_no_whole_number(text: str) -> None:
    with pytest.raises(ClientError, match="no whole number"):
        KeyValue(n=text).get_int("n")


@pytest.mark.parametrize("text", ["", "x", "1_0.0", "0x1p3", ".", "nan", "1e9999999", "9" * 5000])
def test_texts_that_are_no_number(text: str) -> None:
    with pytest.raises(ClientError, match="no number"):
        KeyValue(n=text).get_float("n")


# Attributes.


def test_attributes_of_both_and_defaults() -> None:
    shared = {Attribute.OPERATION_TIMEOUT: 700, Attribute.CONSUMER_ID: "shared"}
    point = MessagingAccessPoint("oms:rocketmq://h:1,h:2/ns", shared)
    of_url = {"DRIVER_IMPL": "rocketmq", "ACCESS_POINTS": "h:1,h:2", "REGION": "ns"}
    assert dict(point.attributes) == {**of_url, "OPERATION_TIMEOUT": "700", "CONSUMER_ID": "shared"}
    assert dict(point.create_producer().attributes) == {
        **of_url,
        "OPERATION_TIMEOUT": "700",
        "rmq.producer.group": "__OMS_PRODUCER_DEFAULT_GROUP",
    }
    assert dict(point.create_push_consumer({"rmq.max.redelivery.times": "3"}).attributes) == {
        **of_url,
        "CONSUMER_ID": "shared",
        "rmq.max.redelivery.times": "3",
        "rmq.message.consume.timeout": "15",
        "rmq.max.consume.thread.nums": "20",
    }
    own = point.create_pull_consumer({"CONSUMER_ID": "own", "OPERATION_TIMEOUT": 1}).attributes
    assert (own["CONSUMER_ID"], own.get_int("OPERATION_TIMEOUT")) == ("own", 1)
    assert own.get_int(Attribute.PULL_MESSAGE_CACHE_CAPACITY) == 1000
    assert point.impl_version == "0.3.0"


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"OPERATION_TIMOUT": 5}, "there is no attribute 'OPERATION_TIMOUT' .did you mean OPERAT"),
        ({"x" * 5000: 5}, "there is no attribute 'xxx"),
        ({"OPERATION_TIMEOUT": 0}, "OPERATION_TIMEOUT is '0'; 1 to 2147483647"),
        ({"OPERATION_TIMEOUT": "5s"}, "OPERATION_TIMEOUT is '5s'"),
        ({"OPERATION_TIMEOUT": "9" * 5000}, "OPERATION_TIMEOUT is '999"),
        ({"OPERATION_TIMEOUT": 1.5}, "OPERATION_TIMEOUT is '1.5'"),
        ({"OPERATION_TIMEOUT": True}, "attributes: OPERATION_TIMEOUT is bool"),
        ({"rmq.message.consume.timeout": 0}, "minutes are needed"),
        ({"rmq.message.consume.timeout": "inf"}, "minutes are needed"),
        ({"rmq.max.consume.thread.nums": 1001}, "1 to 1000"),
        ({"CONSUMER_ID": ""}, "CONSUMER_ID is empty"),
        ({"REGION": "eu"}, "is what the URL says"),
        ([("REGION", "eu")], "are a dict"),
    ],
)
def test_attributes_that_cannot_be_meant(values: Any, error: str) -> None:
    with pytest.raises(ConfigError, match=error) as caught:
        MessagingAccessPoint(URL, values)
    assert len(str(caught.value)) < 500


def test_attributes_where_they_mean_nothing() -> None:
    point = MessagingAccessPoint(URL)
    with pytest.raises(ConfigError, match="to a producer, but to a pull consumer and a push"):
        point.create_producer({"CONSUMER_ID": "g"})
    with pytest.raises(ConfigError, match="nothing to a push consumer, but to a pull consum"):
        point.create_push_consumer({"CONSUMER_ID": "g", "rmq.pull.message.batch.nums": 1})
    for create in (point.create_push_consumer, point.create_pull_consumer):
        with pytest.raises(ConfigError, match="needs the attribute CONSUMER_ID"):
            create()
        with pytest.raises(pyrmq.UnusableNameError):
            create({"CONSUMER_ID": "no group"})


@pytest.mark.parametrize(
    "name",
    ["ACCOUNT_ID", "PRODUCER_ID", "ROUTING_EXPRESSION", "rmq.min.consume.thread.nums"],
)
def test_attributes_that_are_not_supported(name: str) -> None:
    with pytest.raises(NotSupportedError, match=f"attribute {name} is not supported: "):
        MessagingAccessPoint(URL).create_producer({name: "1"})


def test_what_is_not_supported_says_what_to_use() -> None:
    point = MessagingAccessPoint(URL)
    producer = point.create_producer()
    consumer = point.create_pull_consumer({"CONSUMER_ID": "g"})
    for call in (
        point.create_streaming_consumer,
        point.resource_manager,
        producer.create_batch_message_sender,
        producer.send_in_transaction,
        producer.add_interceptor,
        consumer.add_interceptor,
    ):
        with pytest.raises(oms.OMSNotSupportedError, match="is not supported: "):
            call()


# Messages.


def test_to_rocketmq() -> None:
    message = BytesMessage(
        "T",
        b"body",
        user_headers={"region": "eu", "n": 3, "TAGS": "TagA"},
        sys_headers={
            Header.SEARCH_KEYS: "k1 k2",
            Header.START_TIME: 1_800_000_000_123,
            Header.STREAM_KEY: "user-1",
            Header.TRACE_ID: "t",
        },
    )
    converted, sharding_key = to_rocketmq(message)
    assert sharding_key == "user-1"
    assert (converted.topic, converted.body, converted.tags) == ("T", b"body", "TagA")
    properties = converted.all_properties()
    assert properties.pop("WAIT") == "true"
    assert properties == {
        "region": "eu",
        "n": "3",
        "TAGS": "TagA",
        "KEYS": "k1 k2",
        "TIMER_DELIVER_MS": "1800000000123",
        "START_TIME": "1800000000123",
        "STREAM_KEY": "user-1",
        "TRACE_ID": "t",
    }


@pytest.mark.parametrize("priority", [0, 5, "5"])
def test_a_priority(priority: int | str) -> None:
    message = BytesMessage("T", b"x", sys_headers={Header.PRIORITY: priority})
    converted = to_rocketmq(message)[0]
    assert converted.priority == int(priority)
    assert converted.all_properties()["_SYS_MSG_PRIORITY_"] == str(priority)


@pytest.mark.parametrize("time", [0, -5, "0"])
def test_no_start_time(time: int | str) -> None:
    message = BytesMessage("T", b"x", sys_headers={Header.START_TIME: time})
    assert to_rocketmq(message)[0].deliver_at is None


@pytest.mark.parametrize(
    ("system", "user", "error", "text"),
    [
        ({"PRIORITY": -1}, {}, NotSentError, "priority -1"),
        ({"PRIORITY": "high"}, {}, ClientError, "no whole number"),
        ({"PRIORITY": 1, "START_TIME": 1_800_000_000_123}, {}, NotSentError, "either priority"),
        ({"STOP_TIME": 5}, {}, NotSupportedError, "do not expire"),
        ({"TIMEOUT": 5}, {}, NotSupportedError, "`timeout`"),
        ({"RELIABILITY": 1}, {}, NotSupportedError, "flushDiskType"),
        ({"SCHEDULE_EXPRESSION": "* *"}, {}, NotSupportedError, "START_TIME"),
        ({"COLOUR": "red"}, {}, MessageIllegalError, "'COLOUR' is no system header"),
        ({"START_TIME": "soon"}, {}, ClientError, "no whole number"),
        ({"START_TIME": 1 << 62}, {}, NotSentError, "deliver_at"),
        ({}, {"PRIORITY": 5}, MessageIllegalError, "PRIORITY is a system header"),
        ({}, {"KEYS": "k"}, MessageIllegalError, "RocketMQ's own: use the header SEARCH_KEYS"),
        ({}, {"UNIQ_KEY": "k"}, MessageIllegalError, "UNIQ_KEY is a property of RocketMQ's own"),
        ({}, {"DELAY": "3"}, MessageIllegalError, "DELAY is a property"),
        ({}, {"__SHARDINGKEY": "3"}, MessageIllegalError, "use the header STREAM_KEY"),
    ],
)
def test_headers_that_cannot_be_sent(
    system: dict[str, Any], user: dict[str, Any], error: type[Exception], text: str
) -> None:
    message = BytesMessage("T", b"x", sys_headers=system, user_headers=user)
    with pytest.raises(error, match=text):
        to_rocketmq(message)


@pytest.mark.parametrize(
    ("queue", "body"), [(None, b"x"), (b"T", b"x"), ("T", "text"), ("T", None), ("T", 5)]
)
def test_what_is_no_message(queue: Any, body: Any) -> None:
    with pytest.raises(ClientError, match="is needed"):
        BytesMessage(queue, body)
    with pytest.raises(ClientError, match="a BytesMessage is needed"):
        to_rocketmq(body)


def received(topic: str = "ns%T", sys_flag: int = 0, **properties: str) -> ReceivedMessage:
    record = replace(EMPTY, topic=topic, body=b"body", sys_flag=sys_flag, reconsume_times=2)
    message = decode_record(memoryview(encode_record(record)))
    message.properties = properties
    return message


def test_from_rocketmq() -> None:
    source = received(
        region="eu", TAGS="t", KEYS="k1 k2", UNIQ_KEY="ID", WAIT="true", INSTANCE_ID="ns",
        PRIORITY="5", STREAM_KEY="s", __SHARDINGKEY="s", SEARCH_KEYS="other", DESTINATION="X",
    )  # fmt: skip
    message = from_rocketmq(source, "ns")
    assert (message.queue, message.body, message.message_id) == ("T", b"body", "ID")
    assert dict(message.user_headers) == {"region": "eu", "TAGS": "t"}
    assert dict(message.sys_headers) == {
        "MESSAGE_ID": "ID",
        "DESTINATION": "T",
        "SEARCH_KEYS": "k1 k2",
        "PRIORITY": "5",
        "STREAM_KEY": "s",
        "BORN_TIMESTAMP": str(source.born_timestamp),
        "BORN_HOST": source.born_host,
        "STORE_TIMESTAMP": str(source.store_timestamp),
        "STORE_HOST": source.store_host,
        "REDELIVERED_NUMBER": "2",
    }
    assert message.received is source
    assert "eu" in repr(message)


def test_a_received_message_can_be_sent_on() -> None:
    message = from_rocketmq(received("T", region="eu", TAGS="t", KEYS="k", UNIQ_KEY="ID"), "")
    message.sys_headers[Header.DESTINATION] = "Other"
    converted, _ = to_rocketmq(message)
    assert (converted.topic, converted.tags, converted.keys) == ("Other", "t", "k")
    assert converted.properties == {"region": "eu"}


def test_a_body_that_cannot_be_decompressed() -> None:
    message = from_rocketmq(received(sys_flag=0x201), "")
    with pytest.raises(pyrmq.UndecodableBodyError):
        _ = message.body
    assert message.received is not None
    assert message.received.raw_body == b"body"
    message.body = b"new"
    assert message.body == b"new"
