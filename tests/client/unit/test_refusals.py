"""What a client refuses reads as what it is: nobody was asked."""

from __future__ import annotations

import ast
import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import pyrmq
from pyrmq import (
    ClientError,
    InvalidParameterError,
    LitePullConsumer,
    Message,
    MessageIllegalError,
    NotSentError,
    Producer,
    PushConsumer,
    PyrmqError,
    ResponseError,
    SubscriptionError,
    TransactionalProducer,
    TransactionState,
    UnusableNameError,
)

NOWHERE = "127.0.0.1:1"


def check_refusal(error: ResponseError, twin: type[ResponseError]) -> None:
    assert isinstance(error, NotSentError)
    assert isinstance(error, twin), "caught as the broker's answer would be"
    assert "CODE" not in str(error)
    assert (error.code, error.answered) == (None, False)


@pytest.mark.parametrize(
    ("message", "twin"),
    [
        (Message("T", b""), MessageIllegalError),
        (Message("T", b"x" * 101), MessageIllegalError),
        (Message("T", b"x", properties={"TIMER_DELAY_SEC": "1"}), MessageIllegalError),
        (Message("T", b"x", properties={"DELAY": "x"}), MessageIllegalError),
        (Message("T", b"x", properties={"DELAY": "9" * 10}), MessageIllegalError),
        (Message("T", b"x", properties={"TRAN_MSG": "true"}), MessageIllegalError),
        (Message("T", b"x", properties={"a": "\x01"}), MessageIllegalError),
        (Message("T", b"x", properties={"a": "x" * 40_000}), MessageIllegalError),
        (Message("T", b"x", properties={"TIMER_DEL_UNIQKEY": "1"}), MessageIllegalError),
        (Message("T", b"x", properties={"_SYS_MSG_PRIORITY_": "1"}), MessageIllegalError),
        (Message("T", b"x", keys="\ud800"), MessageIllegalError),
        (Message("bad topic", b"x"), InvalidParameterError),
    ],
)
async def test_messages(message: Message, twin: type[ResponseError]) -> None:
    producer = Producer("g", namesrv=NOWHERE, max_message_size=100)
    for send in (producer.send, producer.send_oneway, lambda m: producer.send_batch([m])):
        with pytest.raises(twin) as caught:
            await send(message)
        check_refusal(caught.value, twin)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"topic": None}, "the topic is NoneType, str is needed"),
    ({"body": "text"}, "the message body is str, bytes is needed"),
    ({"tags": ["a"]}, "tags is list, str, one tag, is needed"),
    ({"keys": 5}, "keys is int, str or a list of them is needed"),
    ({"keys": ["a", 5]}, "one of keys is int, str is needed"),
    ({"properties": [("a", "b")]}, "properties is list, a dict is needed"),
    ({"properties": {"a": 1}}, "property 'a' is int, str is needed"),
    ({"properties": {1: "a"}}, "the name of a property is int, str is needed"),
    ({"flag": "1"}, "flag '1': an int of 32 bits"),
    ({"flag": 1 << 31}, "an int of 32 bits"),
    ({"delay_time_level": -1}, "delay_time_level -1: a level from 1"),
    ({"delay_time_level": 1 << 31}, "a level from 1"),
    ({"delay_time_level": True}, "a level from 1"),
    ({"delay_time_level": "3"}, "a level from 1"),
    ({"delay": "3"}, "delay: seconds or a timedelta, not below 0, expected, not '3'"),
    ({"delay": -1}, "delay: seconds or a timedelta, not below 0, expected, not -1"),
    ({"delay": float("nan")}, "delay: seconds"),
    ({"deliver_at": "tomorrow"}, "deliver_at: a datetime or seconds since 1970 expected"),
    ({"deliver_at": datetime(2030, 1, 1)}, "has no timezone: give datetime"),
    ({"deliver_at": -1}, "deliver_at: a datetime or seconds since 1970 expected, not -1"),
    ({"deliver_at": float("inf")}, "deliver_at: a datetime"),
    ({"deliver_at": 1_900_000_000_000}, "not 1900000000000, which looks like milliseconds"),
    ({"deliver_at": timedelta(hours=1)}, "give a timedelta as delay"),
    ({"delay": timedelta(seconds=-1)}, "delay: seconds or a timedelta, not below 0, expected"),
    ({"delay": True}, "delay: seconds or a timedelta, not below 0, expected, not True"),
    ({"priority": -1}, "priority -1: a whole number from 0 to"),
    ({"priority": 1 << 31}, "priority 2147483648: a whole number"),
    ({"priority": True}, "priority True: a whole number"),
    ({"priority": "high"}, "priority 'high': a whole number"),
    ({"priority": 1, "delay": 1}, "either priority or a delay"),
    ({"priority": 1, "deliver_at": 1}, "either priority or a delay"),
    ({"priority": 1, "delay_time_level": 1}, "either priority or a delay"),
    ({"priority": 1, "properties": {"DELAY": "1"}}, "either priority or a delay"),
    ({"priority": 1, "properties": {"__SHARDINGKEY": "k"}}, "priority or a sharding key"),
    ({"delay": 1, "delay_time_level": 1}, "one of delay_time_level, delay and deliver_at"),
    ({"delay": 1, "deliver_at": 1}, "one of delay_time_level, delay and deliver_at"),
]


@pytest.mark.parametrize(("fields", "text"), WRONG)
async def test_values_of_the_wrong_kind(fields: dict[str, Any], text: str) -> None:
    """When the message is made, and again when it is sent: it may have been changed."""
    with pytest.raises(MessageIllegalError, match=text) as caught:
        Message(**{"topic": "T", "body": b"x"} | fields)
    check_refusal(caught.value, MessageIllegalError)
    if "topic" not in fields:
        message = Message("T", b"x")
        for name, value in fields.items():
            setattr(message, name, value)
        with pytest.raises(MessageIllegalError, match=text):
            await Producer("g", namesrv=NOWHERE).send(message)


def test_sql_is_no_list_of_tags() -> None:
    for text in ("a > 5", "region = 'eu'", "a IS NOT NULL", "a between 1 and 2", "a in (1)"):
        with pytest.raises(SubscriptionError, match=r"If it is SQL92, write pyrmq.Sql") as caught:
            PushConsumer("g", {"T": text}, namesrv=NOWHERE)
        check_refusal(caught.value, SubscriptionError)
    for tags in ("a || b", "order-in-1||is", "", "*", "gezahlt ü", "and", "v=1"):
        PushConsumer("g", {"T": tags}, namesrv=NOWHERE)


def test_asyncio() -> None:
    """Whoever takes the wrong event loop learns which name is the right one."""
    clients: list[Any] = [
        Producer("g", namesrv=NOWHERE),
        PushConsumer("g", {"T": "*"}, namesrv=NOWHERE),
    ]

    async def enter(client: Any) -> None:
        async with client:
            raise AssertionError

    for client in clients:
        with pytest.raises(ClientError, match=r"runs on trio, not on asyncio: .*pyrmq\.aio"):
            asyncio.run(enter(client))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"send_timeout": 0}, "send_timeout 0: a number of seconds"),
        ({"attempt_timeout": -1}, "attempt_timeout -1: a number of seconds"),
        ({"retry_times": -1}, "retry_times must be at least 0"),
        ({"max_in_flight": 0}, "max_in_flight and max_in_flight_bytes must be"),
        ({"compress_type": "LZ4"}, "compress_type is 'LZ4'; a pyrmq.CompressionType is needed"),
        ({"compress_level": 10}, "compress_level 10: a level of ZLIB is 0 to 9"),
        ({"trace_topic": "T"}, "trace_topic needs trace=True"),
        ({"trace_topic": "a b", "trace": True}, "the specified topic 'a b' "),
        ({"namespace": "a b"}, "the specified group 'a b%g' is illegal"),
    ],
)
def test_options(options: dict[str, Any], text: str) -> None:
    with pytest.raises(PyrmqError, match=text):
        Producer("g", namesrv=NOWHERE, **options)


async def test_arguments_of_the_wrong_kind() -> None:
    """They are errors of the call, not of what happens later in a task."""
    producer = Producer("g", namesrv=NOWHERE)
    message = Message("T", b"x")
    wrong: Any
    for wrong in (0, 1, "T-0"):
        with pytest.raises(ClientError, match="a MessageQueue of"):
            await producer.send(message, queue=wrong)
        with pytest.raises(ClientError, match="a MessageQueue of"):
            await producer.send_oneway(message, queue=wrong)
    wrong = "T"
    with pytest.raises(ClientError, match=r"what is sent is str; a Message is needed"):
        await producer.send(wrong)
    for subscriptions in ("T", {"T": 5}, {5: "*"}):
        wrong = subscriptions
        with pytest.raises(ClientError, match="is needed"):
            PushConsumer("g", wrong, namesrv=NOWHERE)
    for more in ({"consume_from": "CONSUME_FROM_FIRST_OFFSET"}, {"strategy": "average"}):
        options: Any = more
        with pytest.raises(ClientError, match=r"ConsumeFrom is needed|a function is needed"):
            PushConsumer("g", {"T": "*"}, namesrv=NOWHERE, **options)


async def _listener(message: object) -> None: ...


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"listener": "on_message"}, "listener is 'on_message'; it must be a function"),
        ({"strategy": "average"}, "strategy is 'average'; a function is needed"),
        (
            {"message_model": "BROADCASTING"},
            "message_model is 'BROADCASTING'; a pyrmq.MessageModel is needed",
        ),
        ({"orderly": 1}, "orderly is 1; True or False is needed"),
        ({"orderly": True}, "orderly needs a listener"),
        ({"batch_size": 2}, "batch_size goes with a listener"),
        ({"batch_size": 1025, "listener": _listener}, "batch_size is 1025; .* at most 1024"),
        ({"concurrency": 0}, "concurrency is 0; it must be at least 1"),
        ({"concurrency": 2.0}, "concurrency is 2.0"),
        ({"concurrency": True}, "concurrency is True"),
        ({"max_reconsume_times": -1}, "max_reconsume_times is -1; it must be at least 0"),
        ({"pull_batch_size": 0}, "pull_batch_size is 0"),
        ({"max_cached_messages": 65536}, "max_cached_messages is 65536"),
        ({"max_cached_bytes": "100M"}, "max_cached_bytes is '100M'"),
        ({"max_span": 0}, "max_span is 0"),
        ({"pull_interval": -1}, "pull_interval is -1; seconds are needed, at least 0"),
        ({"close_grace": None}, "close_grace is None; a number of seconds is needed"),
        ({"close_grace": float("nan")}, "close_grace is nan; seconds are needed"),
        ({"suspend_time": 31}, "suspend_time is 31; .* at most 30"),
        ({"consume_timeout": 0}, "consume_timeout is 0; seconds are needed, at least 1"),
        ({"persist_interval": True}, "persist_interval is True; a number of seconds"),
        ({"consume_timestamp": 5}, "goes with ConsumeFrom.TIMESTAMP"),
        ({"instance_name": ""}, "instance_name must have 1 to 128"),
        ({"instance_name": "a/b"}, "instance_name is 'a/b'; it may hold"),
        ({"instance_name": "\ud800"}, "instance_name is .*; it may hold"),
        ({"instance_name": "a\0"}, "instance_name is .*; it may hold"),
        ({"offset_folder": "x"}, "offset_folder goes with MessageModel.BROADCASTING"),
        ({"offset_folder": 5}, "offset_folder is 5; a pathlib.Path or a text"),
    ],
)
def test_options_of_a_consumer(options: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ClientError, match=wanted):
        PushConsumer("g", {"T": "*"}, namesrv=NOWHERE, **options)


@pytest.mark.parametrize("subscriptions", [["T"], "T", [("T", "*")], None, {"T"}])
def test_subscriptions_are_a_dict(subscriptions: Any) -> None:
    with pytest.raises(ClientError, match=r"a dict of topics and tag expressions, such as \{"):
        PushConsumer("g", subscriptions, namesrv=NOWHERE)


@pytest.mark.parametrize(
    "batch",
    [
        [],
        [Message("T", b"x"), Message("U", b"x")],
        [Message("%RETRY%g", b"x")],
        [Message("T", b"x"), Message("T", b"x", delay_time_level=1)],
        [Message("T", b"x", properties={"DELAY": "1"})],
        [Message("T", b"x", delay=1)],
        [Message("T", b"x", deliver_at=2e9)],
        [Message("T", b"x", priority=0)],
        [Message("T", b"x" * 90), Message("T", b"x" * 90)],
    ],
)
async def test_batches(batch: list[Message]) -> None:
    with pytest.raises(MessageIllegalError) as caught:
        await Producer("g", namesrv=NOWHERE, max_message_size=100).send_batch(batch)
    check_refusal(caught.value, MessageIllegalError)


@pytest.mark.parametrize(
    "message",
    [
        [],
        Message("T", b"x", properties={"DELAY": "1"}),
        Message("T", b"x", delay_time_level=1),
        Message("T", b"x", delay=1),
        Message("T", b"x", deliver_at=2e9),
        Message("T", b"x", priority=0),
    ],
)
async def test_halves(message: Any) -> None:
    producer = TransactionalProducer("g", namesrv=NOWHERE)

    @producer.transaction
    def execute(message: Message, arg: object) -> TransactionState:
        raise AssertionError

    with pytest.raises((MessageIllegalError, AttributeError)) as caught:
        await producer.send_in_transaction(
            message if isinstance(message, Message) else _Batch("T", b"x")
        )
    check_refusal(caught.value, MessageIllegalError)


class _Batch:
    def __init__(self, topic: str, body: bytes) -> None:
        self.topic = topic


@pytest.mark.parametrize(
    ("make", "twin"),
    [
        (lambda: Producer("bad group", namesrv=NOWHERE), InvalidParameterError),
        (lambda: PushConsumer("bad group", {"T": "*"}, namesrv=NOWHERE), InvalidParameterError),
        (lambda: PushConsumer("g", {"bad topic": "*"}, namesrv=NOWHERE), InvalidParameterError),
        (lambda: PushConsumer("g", {"T": "||"}, namesrv=NOWHERE), SubscriptionError),
        (lambda: PushConsumer("g", {"T": "\ud800"}, namesrv=NOWHERE), SubscriptionError),
        (lambda: PushConsumer("g", {"T": "x" * 17_000}, namesrv=NOWHERE), SubscriptionError),
        (
            lambda: TransactionalProducer("g", namesrv=NOWHERE, topics=["bad topic"]),
            InvalidParameterError,
        ),
        (
            lambda: TransactionalProducer("g", namesrv=NOWHERE).transaction("bad topic"),
            InvalidParameterError,
        ),
    ],
)
def test_names_and_expressions(make: Any, twin: type[ResponseError]) -> None:
    with pytest.raises(twin) as caught:
        make()
    check_refusal(caught.value, twin)


def test_clients_make_answers_of_answers_only() -> None:
    """A ResponseError that a client raises is of an answer, or a NotSentError."""
    allowed = {"TopicNotExistError"}  # of two answers of the name server that said so
    answers = {
        name
        for name in pyrmq._HOME
        if pyrmq._HOME[name] == "pyrmq.errors"
        and issubclass(getattr(pyrmq, name), ResponseError)
        and not issubclass(getattr(pyrmq, name), NotSentError)
    }
    root = Path(pyrmq.__file__).parent
    raised = set()
    for folder in ("client", "admin", "outbox"):
        for path in (root / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    raised.add(ast.unparse(node.exc.func))
    assert "UnsendableMessageError" in raised
    assert raised & answers <= allowed


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
def test_a_consumer_group_whose_retry_topic_would_be_too_long(kind: Any) -> None:
    for length, namespace in ((249, ""), (240, "namespace")):
        with pytest.raises(UnusableNameError, match="at most 248"):
            kind("g" * length, {"T": "*"}, namesrv="h:1", namespace=namespace)
    kind("g" * 248, {"T": "*"}, namesrv="h:1", trace=True)
