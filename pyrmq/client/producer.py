"""Sending messages. [DefaultMQProducerImpl]"""

from __future__ import annotations

import itertools
import logging
import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import trio

from pyrmq.client.instance import ClientInstance
from pyrmq.client.refusals import (
    check_group,
    check_kind,
    check_queue,
    check_texts,
    check_topic,
    encode_properties,
)
from pyrmq.client.unique_key import key_maker
from pyrmq.engine import Command
from pyrmq.errors import (
    ClientError,
    PyrmqError,
    RequestTimeoutError,
    ResponseError,
    UnsendableMessageError,
)
from pyrmq.escape import escape
from pyrmq.model.message import (
    COMPRESSED,
    TIMER_PROPERTIES,
    UNIQ_KEY,
    Message,
    MessageQueue,
    SendResult,
    SendStatus,
    encode_batch,
)
from pyrmq.model.names import RETRY_PREFIX
from pyrmq.model.retry import NO_RETRY, RetryPolicy, may_send_again
from pyrmq.model.route import next_queue
from pyrmq.model.transaction import TRAN_MSG
from pyrmq.net.channel import Channel
from pyrmq.net.send import queue_fields, send_code, send_fields, stored_at

log = logging.getLogger(__name__)

SEND_TIMEOUT = 3.0
RETRY_TIMES = 2
MAX_MESSAGE_SIZE = 4 << 20
COMPRESS_OVER = 4096
ZLIB_TYPE = 0x300
_STATUS = {status.value: status for status in SendStatus}

Selector = Callable[[list[MessageQueue]], MessageQueue]


@dataclass(slots=True)
class Outgoing:
    """A send request but for its queue; `key` is the UNIQ_KEY or those of a batch."""

    code: int
    topic: str
    key: str
    fields: dict[str, str | int | bool]
    body: bytes


class Producer:
    """Sends messages; an async context manager on trio. One producer serves any number of tasks.

        async with Producer("group", namesrv="127.0.0.1:9876") as producer:
            result = await producer.send(Message("TopicTest", b"Hello"))

    group: name of the producer group, 1 to 255 of the characters `%|a-zA-Z0-9_-`.
    namesrv: name servers, `host:port[;host:port]`; default: the environment variable NAMESRV_ADDR.
    send_timeout: seconds that one `send` may take with all its attempts, 3 by default.
    retry_times: further attempts after a failed one, 2 by default; with a queue of the caller's
    choice there are none.
    max_message_size: longest body, or batch, in bytes before compression, 4 MiB by default; the
    broker's maxMessageSize is a limit of its own.
    compress_over: bodies of so many bytes and more are compressed with zlib, 4096 by default.

    UnusableNameError for the group, ConfigError without a name server or with an address that is
    none.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        send_timeout: float = SEND_TIMEOUT,
        retry_times: int = RETRY_TIMES,
        max_message_size: int = MAX_MESSAGE_SIZE,
        compress_over: int = COMPRESS_OVER,
    ) -> None:
        check_group(group)
        self.group = group
        self._client = ClientInstance(namesrv)
        self._client.producer_groups.add(group)
        self._timeout = send_timeout
        self._retry = RetryPolicy(retry_times, 0, 0)
        self._max_size = max_message_size
        self._compress_over = compress_over
        self._turn = itertools.count(random.randrange(1 << 30))
        self._new_key = key_maker()

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._unregister()
        finally:
            await self._client.__aexit__(*error)

    async def _unregister(self) -> None:
        self._client.producer_groups.discard(self.group)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + SEND_TIMEOUT):
            await self._client.unregister(producerGroup=self.group)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Queues of a topic that can be sent to, by broker name and queue id.

        For a topic that does not exist yet those that it will have. TopicNotExistError if no broker
        creates it on demand, ClientError if no queue of it can be sent to.
        """
        route = await self._client.publish_route(topic)
        queues = route.publish_queues(topic)
        if not queues:
            raise ClientError(f"no broker takes messages of topic {topic}")
        return queues

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        select: Selector | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Sends one message and waits until the broker has it.

        queue: where it goes, one of `queues(topic)`. select: a function that chooses one of them,
        `select_by_hash(key)` for instance. Without either the queues take turns, and a failure is
        tried again on another broker; with one of them there is one attempt. timeout: seconds
        instead of `send_timeout`.

        A result whose `status` is not SEND_OK means that the broker has the message, but not as
        safely as it is configured to. NotSentError: the message cannot be sent. ResponseError: the
        broker refused it. RequestTimeoutError, ConnectError: it is not known whether the broker has
        it. Of several attempts the last one's error is raised.
        """
        self._check(message)
        request = self._outgoing(message, message.all_properties())
        return await self._deliver(request, queue, select, timeout)

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Sends messages of one topic as one request: all are stored in a row, or none.

        Together at most `max_message_size` bytes, with the same `wait_store_ok`; bodies are not
        compressed. `msg_id` of the result has the ids of all, joined by commas. Raises as `send`.
        """
        return await self._deliver(self._batch(messages), queue, None, timeout)

    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> None:
        """Sends without waiting for an answer: it may be lost without a word.

        NotSentError and ConnectError as `send`; TopicNotExistError and ClientError as `queues`.
        """
        self._check(message)
        request = self._outgoing(message, message.all_properties())
        check_queue(queue)
        target = queue or await self._choose(message.topic, None, None)
        channel = await self._channel_of(target, message.topic)
        ext = request.fields | queue_fields(target.queue_id, target.broker_name)
        await channel.oneway(request.code, ext, request.body)

    def _check(self, message: Message) -> None:
        check_kind("what is sent", message, (Message,), "a Message")
        check_topic(message.topic)
        check_texts(message)
        if not isinstance(message.body, bytes | bytearray):
            raise UnsendableMessageError(
                f"the message body is {type(message.body).__name__}, bytes are needed"
            )
        if not message.body:
            raise UnsendableMessageError("the message body is empty")
        if len(message.body) > self._max_size:
            raise UnsendableMessageError(
                f"the message body has {len(message.body)} bytes, the limit is {self._max_size}"
            )
        for name in TIMER_PROPERTIES & message.properties.keys():
            raise UnsendableMessageError(
                f"property {name}: this version sends no timer messages, set delay_time_level"
            )
        level = message.delay_time_level
        if type(level) is not int or not 0 <= level < 1 << 31:
            raise UnsendableMessageError(
                f"delay_time_level {level!r}: a level from 1 to 2^31-1 expected, or 0"
            )
        if TRAN_MSG in message.properties:
            raise UnsendableMessageError(
                f"property {TRAN_MSG}: TransactionalProducer.send_in_transaction sets it"
            )

    def _outgoing(
        self, message: Message, properties: dict[str, str], sys_flag: int = 0
    ) -> Outgoing:
        """The request for a message; gives it a UNIQ_KEY if it has none."""
        key = properties.setdefault(UNIQ_KEY, self._new_key())
        body = message.body
        if len(body) >= self._compress_over:
            body = zlib.compress(body, 5)
            sys_flag |= COMPRESSED | ZLIB_TYPE
        fields = send_fields(
            self.group,
            message.topic,
            encode_properties(properties),
            flag=message.flag,
            sys_flag=sys_flag,
        )
        return Outgoing(send_code(False), message.topic, key, fields, body)

    def _batch(self, messages: Sequence[Message]) -> Outgoing:
        if not messages:
            raise UnsendableMessageError("a batch needs at least one message")
        first = messages[0]
        keys, entries = [], []
        for m in messages:
            self._check(m)
            if m.topic != first.topic or m.wait_store_ok != first.wait_store_ok:
                raise UnsendableMessageError(
                    "the messages of a batch share topic and wait_store_ok"
                )
            properties = m.all_properties()
            keys.append(properties.setdefault(UNIQ_KEY, self._new_key()))
            entries.append((m.flag, m.body, encode_properties(properties)))
        if first.topic.startswith(RETRY_PREFIX):
            raise UnsendableMessageError("a batch goes to no retry topic")
        if any(message.is_delayed for message in messages):
            raise UnsendableMessageError("the messages of a batch cannot be delayed")
        body = encode_batch(entries)
        if len(body) > self._max_size:
            raise UnsendableMessageError(
                f"the batch has {len(body)} bytes, the limit is {self._max_size}: split it"
            )
        wait = encode_properties({"WAIT": "true" if first.wait_store_ok else "false"})
        fields = send_fields(self.group, first.topic, wait, flag=0, batch=True)
        return Outgoing(send_code(True), first.topic, ",".join(keys), fields, body)

    async def _deliver(
        self,
        request: Outgoing,
        queue: MessageQueue | None,
        select: Selector | None,
        timeout: float | None,
    ) -> SendResult:
        topic = request.topic
        if queue is not None and select is not None:
            raise ClientError("give either queue or select, not both")
        check_queue(queue)
        limit = self._timeout if timeout is None else timeout
        policy = NO_RETRY if queue or select else self._retry
        failure: PyrmqError | None = None
        last_broker: str | None = None
        failed = 0
        with trio.move_on_after(limit) as scope:
            while failed <= policy.retries:
                try:
                    target = queue or await self._choose(topic, select, last_broker)
                    last_broker = target.broker_name
                    channel = await self._channel_of(target, topic)
                    ext = request.fields | queue_fields(target.queue_id, last_broker)
                    answer = await channel.call(request.code, ext, request.body, timeout=limit)
                    return self._result(answer, target, request.key)
                except PyrmqError as e:
                    if not may_send_again(e):
                        raise
                    failure = e
                failed += 1
                log.info(
                    "send attempt %d to %s failed: %s", failed, escape(last_broker), escape(failure)
                )
                await self._refresh(topic)
        if scope.cancelled_caught:
            text = f"message to {topic} not acknowledged in {limit:g} s"
            raise RequestTimeoutError(f"{text}: {failure}" if failure else text) from failure
        assert failure is not None
        raise failure

    async def _choose(
        self, topic: str, select: Selector | None, last_broker: str | None
    ) -> MessageQueue:
        queues = await self.queues(topic)
        if not select:
            return next_queue(queues, self._turn, last_broker)
        chosen = select(queues)
        check_kind("what `select` chose", chosen, (MessageQueue,), "one of the queues it is given")
        return chosen

    async def _channel_of(self, queue: MessageQueue, topic: str) -> Channel:
        """The connection that messages of `topic` for a queue go to."""
        if queue.topic != topic:
            raise ClientError(f"{queue} is not a queue of topic {topic}")
        return await self._client.master(topic, queue.broker_name)

    async def _refresh(self, topic: str) -> None:
        try:
            await self._client.route(topic, fresh=True)
        except PyrmqError as e:
            log.info("routes not refreshed: %s", escape(e))

    @staticmethod
    def _result(answer: Command, queue: MessageQueue, key: str) -> SendResult:
        status = _STATUS.get(answer.code)
        if status is None:
            raise ResponseError.of(answer.code, answer.remark or "")
        queue_id, offset = stored_at(answer)
        ext = answer.ext
        return SendResult(
            status,
            key,
            ext.get("msgId", ""),
            MessageQueue(queue.topic, queue.broker_name, queue_id),
            offset,
            ext.get("transactionId"),
        )
